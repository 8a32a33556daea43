"""The rows that one state of a table has and another has not, at a cost that follows from the difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from snapdb.sql_engine import ROW_ID, Session, deleted_rows, quote, table_rows
from snapdb.types import Table

_Int64s = npt.NDArray[np.int64]
_ID = quote(ROW_ID)


def rows_beyond(session: Session, root: Path, one: Table | None, other: Table | None) -> str | None:
    """SELECT the rows, with their ids, that `one` has and `other` has not; None when there are none."""
    if one is None:
        return None
    if other is None or one.id != other.id:  # another table of the same name
        return table_rows(one, root, row_ids=True)
    parts = [part for part in (_newer(root, one, other), _removed(session, root, one, other)) if part is not None]
    return " UNION ALL ".join(f"({part})" for part in parts) or None


def _newer(root: Path, one: Table, other: Table) -> str | None:
    """Those that were added after `other`."""
    files = tuple(s for s in one.segments if s.first + s.rows > other.next_row)
    if one.next_row <= other.next_row or not files:
        return None
    rows = table_rows(replace(one, segments=files), root, row_ids=True)
    return f"SELECT * FROM ({rows}) WHERE {_ID} >= {other.next_row}"


def deleted_beyond(session: Session, root: Path, one: Table, other: Table) -> _Int64s:
    """The ids of the rows of `one` that are deleted in `other`, another state of the same table, in no order."""
    ids = _deleted(root, one, other)
    return np.empty(0, np.int64) if ids is None else session.table(ids).column(0).to_numpy()


def _deleted(root: Path, one: Table, other: Table) -> str | None:
    """SELECT row_id of the rows that are deleted in `other` only."""
    theirs = [s for s in other.deletes if s not in one.deletes]
    if not theirs:
        return None
    ids = f"SELECT row_id FROM ({deleted_rows(theirs, root)}) WHERE row_id < {one.next_row}"
    if mine := [s for s in one.deletes if s not in other.deletes]:
        ids += f" EXCEPT ({deleted_rows(mine, root)})"
    return ids


def _removed(session: Session, root: Path, one: Table, other: Table) -> str | None:
    """Those that are deleted in `other` only, out of the files that hold any of them."""
    ids = _deleted(root, one, other)
    if ids is None:
        return None
    found = session.table(ids).column(0).to_numpy()
    firsts = np.array([s.first for s in one.segments], np.int64)
    hit = np.unique(np.searchsorted(firsts, found, side="right") - 1)
    if not hit.size:
        return None
    rows = table_rows(replace(one, segments=tuple(one.segments[i] for i in hit), deletes=()), root, row_ids=True)
    return f"SELECT * FROM ({rows}) WHERE {_ID} IN ({ids})"

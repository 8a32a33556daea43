"""Tables at any version, read from the catalog, and the rows by which two states of a table differ."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from snapdb.sql_engine import ROW_ID, Session, deleted_rows, quote, table_rows
from snapdb.storage.catalog_db.codec import decode_columns
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import raise_if_misread
from snapdb.types import Column, Segment, Table

_ID = quote(ROW_ID)

_Int64s = npt.NDArray[np.int64]


def tables_at(catalog_db: CatalogDb, version: int) -> dict[str, Table]:
    """The tables of a version, by case-folded name."""
    with catalog_db.reading() as connection, raise_if_misread(catalog_db.db_dir):
        return read_tables(connection, version)


def read_tables(
    connection: sqlite3.Connection, version: int, known: Mapping[str, Table] | None = None, since: int = 0
) -> dict[str, Table]:
    """The tables of a version; reading starts from those that are `known` of an earlier version, `since`."""
    rows = connection.execute(
        """
        SELECT t.id, t.name, t.folded, d.state, d.added, d.removed, d.altered
        FROM tables t LEFT JOIN (
            SELECT table_id, max(version) state, sum(rows_added) added, sum(rows_removed) removed,
                   max(kind = 'alter') altered
            FROM changes WHERE version > :since AND version <= :v GROUP BY table_id
        ) d ON d.table_id = t.id
        WHERE t.created <= :v AND (t.dropped IS NULL OR t.dropped > :v) ORDER BY t.id
        """,
        {"since": since, "v": version},
    ).fetchall()
    before = {table.id: table for table in (known or {}).values()}
    return {row["folded"]: _table(connection, row, version, before.get(row["id"]), since) for row in rows}


def _table(connection: sqlite3.Connection, row: sqlite3.Row, version: int, known: Table | None, since: int) -> Table:
    if known is not None and row["state"] is None:
        return known
    if known is not None and not row["altered"]:
        files = _files(connection, row["id"], known.next_row + row["added"], version, since)
        rows, deletes = ([s for s in files if s["kind"] == kind] for kind in ("rows", "deletes"))
        return replace(
            known,
            segments=known.segments + tuple(_rows(s, None) for s in rows),
            deletes=known.deletes + tuple(_deletes(s, version) for s in deletes),
            rows=known.rows + row["added"] - row["removed"],
            state=row["state"],
            next_row=known.next_row + row["added"],
        )
    if known is not None:  # its columns were altered: its sums of before count too
        (row,) = connection.execute(
            "SELECT t.id, t.name, max(c.version) state, sum(c.rows_added) added, sum(c.rows_removed) removed "
            "FROM tables t JOIN changes c ON c.table_id = t.id WHERE t.id = ? AND c.version <= ?",
            (row["id"], version),
        ).fetchall()
    return _whole(connection, row, version)


def _whole(connection: sqlite3.Connection, row: sqlite3.Row, version: int) -> Table:
    shapes = {
        s["id"]: (s["since"], decode_columns(s["columns"]))
        for s in connection.execute("SELECT id, since, columns FROM shapes WHERE table_id = ?", (row["id"],))
    }
    columns = shapes[max(shape for shape, (since, _) in shapes.items() if since <= version)][1]
    then = {shape: None if known == columns else known for shape, (_, known) in shapes.items()}
    files = _files(connection, row["id"], row["added"], version, 0)
    return Table(
        id=row["id"],
        name=row["name"],
        columns=columns,
        segments=tuple(_rows(s, then[s["shape"]]) for s in files if s["kind"] == "rows"),
        deletes=tuple(_deletes(s, version) for s in files if s["kind"] == "deletes"),
        rows=row["added"] - row["removed"],
        state=row["state"],
        next_row=row["added"],
        fields=max(c.field for _, shape in shapes.values() for c in shape),
    )


def _files(connection: sqlite3.Connection, table: int, next_row: int, version: int, since: int) -> list[sqlite3.Row]:
    """The files of a table that a version reads and `since` did not: a merged one may hold later rows too."""
    return connection.execute(
        """
        SELECT * FROM segments WHERE table_id = :t AND added > :since AND CASE kind
            WHEN 'rows' THEN first < :next OR added <= :v ELSE first <= :v END ORDER BY first, id
        """,
        {"t": table, "next": next_row, "v": version, "since": since},
    ).fetchall()


def _rows(row: sqlite3.Row, columns: tuple[Column, ...] | None) -> Segment:
    return Segment(row["path"], row["rows"], row["bytes"], row["sha256"], row["first"], columns)


def _deletes(row: sqlite3.Row, version: int) -> Segment:
    until = version if row["added"] > version else None
    return Segment(row["path"], row["rows"], row["bytes"], row["sha256"], row["first"], None, until)


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
    removed = session.table(ids).column(0).to_numpy()
    firsts = np.array([s.first for s in one.segments], np.int64)
    hit = np.unique(np.searchsorted(firsts, removed, side="right") - 1)
    if not hit.size:
        return None
    rows = table_rows(replace(one, segments=tuple(one.segments[i] for i in hit), deletes=()), root, row_ids=True)
    return f"SELECT * FROM ({rows}) WHERE {_ID} IN ({ids})"

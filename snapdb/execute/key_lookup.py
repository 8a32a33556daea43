"""Dense ids of integer keys without a join: by arithmetic where keys follow each other, else out of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from snapdb.execute.graph_data import VertexData
from snapdb.kernels.lookup import look_up, look_up_runs
from snapdb.relational import Session, key_bounds, key_rows
from snapdb.storage.histories import FOREVER
from snapdb.storage.ids import IdMap
from snapdb.types import Segment

Int64s = npt.NDArray[np.int64]

KeyLookup = Callable[[Int64s], Int64s]
"""[keys] → their dense ids, -1 for a key that there is not."""

NO_KEY = FOREVER
"""Stands for NULL among keys; no map that is looked up has it."""

_BATCH = 500_000
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_SPARSE = 8
"""How many times as wide as there are keys their range may be for a table of all of it."""
_REMEMBERED = 1 << 16

_in_order_files: set[Segment] = set()
"""Files of keys that were seen to ascend with their ids. A file never changes, and no other gets its name."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Keys first, first + 1, … have dense ids start, start + 1, …"""

    first: int
    length: int
    start: int


def key_lookup(session: Session, vertices: VertexData, key_type: str, *, ever: bool = False) -> KeyLookup | None:
    """How to look up keys of a type among some vertices; None when they are no plain integers, or too sparse.

    Args:
        ever: Vertices of any version count, and not just those that are there.
    """
    map_ = vertices.id_map
    if key_type not in _INTEGERS or not (runs := _runs(session, map_, vertices.rows.root)):
        return None
    if _in_order(session, map_, vertices.rows.root, runs):
        everyone, alive = _by_runs(runs), None if ever else vertices.alive(session)
        return everyone if alive is None else partial(_alive_only, everyone, alive)
    first, last = min(r.first for r in runs), max(r.first + r.length for r in runs) - 1
    if last - first >= _SPARSE * map_.limit + 1_000_000:
        return None
    dense = np.full(last - first + 1, -1, np.int64)
    source = vertices.known if ever else vertices.dense
    for batch in session.reader(f"SELECT CAST(k0 AS BIGINT) AS k0, dense FROM ({source})", rows=_BATCH):
        dense[batch.column(0).to_numpy() - first] = batch.column(1).to_numpy()
    return partial(look_up, dense, first)


def run_lookup(session: Session, map_: IdMap, root: Path) -> KeyLookup | None:
    """How to look up any key that there ever was by arithmetic alone; None when keys do not follow each other."""
    runs = _runs(session, map_, root)
    return _by_runs(runs) if runs and _in_order(session, map_, root, runs) else None


def _runs(session: Session, map_: IdMap, root: Path) -> list[_Run]:
    """The range of keys of each file of the map; nothing where keys are no plain integers, or a file does not tell."""
    if len(map_.columns) > 1 or not map_.limit or map_.columns[0].type not in _INTEGERS:
        return []
    rows = session.rows(key_bounds(map_.segments, root))
    bounds = {path: (low, high) for path, low, high in rows if low is not None and high is not None}
    found = []
    for segment in map_.segments:
        low, high = bounds.get(str(root / segment.path), (0, -1))
        if high < low or high >= NO_KEY:
            return []
        found.append(_Run(low, high - low + 1, segment.first))
    return found


def _in_order(session: Session, map_: IdMap, root: Path, runs: list[_Run]) -> bool:
    """Whether each file holds every key of its range, ascending with the ids: one that was merged may not."""
    files = list(zip(runs, map_.segments, strict=True))
    if any(run.length != file.rows for run, file in files):
        return False
    new = [(run, file) for run, file in files if file not in _in_order_files]
    if not new:
        return True
    each = [
        f"(dense BETWEEN {r.start} AND {r.start + r.length - 1} AND CAST(k0 AS BIGINT) - {r.first} = dense - {r.start})"
        for r, _ in new
    ]
    known = key_rows([file for _, file in new], map_.columns, root)
    (count,) = session.rows(f"SELECT count(*) FROM ({known}) WHERE {' OR '.join(each)}")[0]
    if int(count) != sum(run.length for run, _ in new):
        return False
    if len(_in_order_files) + len(new) > _REMEMBERED:
        _in_order_files.clear()
    _in_order_files.update(file for _, file in new)
    return True


def _by_runs(runs: list[_Run]) -> KeyLookup:
    """The place of a key follows from its number."""
    ordered = sorted(runs, key=lambda run: run.first)
    columns = ([r.first for r in ordered], [r.length for r in ordered], [r.start for r in ordered])
    return partial(look_up_runs, *(np.array(values, np.int64) for values in columns))


def _alive_only(everyone: KeyLookup, alive: npt.NDArray[np.bool_], keys: Int64s) -> Int64s:
    dense = everyone(keys)
    dense[(dense >= 0) & ~alive[dense]] = -1
    return dense

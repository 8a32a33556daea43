"""The edges of a graph as a stream of dense ids, read in one pass over their table.

Integer keys are mapped to dense ids without a join. Consecutive keys use arithmetic, and others use a lookup table.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from snapdb.arrays import Array, Bools, Int64s
from snapdb.builders.graph_data import EdgeData, VertexData, check_edges, end_expression
from snapdb.catalog.elements import time_expression
from snapdb.kernels.lookup import look_up, look_up_runs
from snapdb.sql_engine import ROW_ID, SqlSession, key_bounds, key_rows, quote, table_rows
from snapdb.storage.array_files import STATIC
from snapdb.storage.arrays.feature_history import FOREVER
from snapdb.storage.tables.id_maps import IdMap
from snapdb.types import Column, Segment

_KeyLookup = Callable[[Int64s], Int64s]
"""A function that maps [keys] to their dense ids, or to -1 for keys that do not exist."""

NO_KEY = FOREVER
"""The key that represents NULL. No id map with a lookup contains it."""

_BATCH = 500_000
"""The number of rows per read."""
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
"""The key types that are looked up without a join."""
_SPARSE = 8
"""The maximum ratio of key range to key count for which a lookup table covers the whole range."""
_REMEMBERED = 1 << 16
"""The number of files whose order is cached."""

_in_order_files: set[Segment] = set()
"""Files in which keys are known to ascend with their ids. Files never change, and their names are never reused."""


class _Run(NamedTuple):
    """A run of consecutive keys. The keys first, first + 1, … have the dense ids start, start + 1, …"""

    first: int
    """The first key."""
    length: int
    """The number of keys."""
    start: int
    """The dense id of the first key."""


def _key_lookup(session: SqlSession, vertices: VertexData, key_type: str, *, ever: bool = False) -> _KeyLookup | None:
    """Return a lookup of keys among the given vertices, or None if the keys are not integers or are too sparse.

    Args:
        session: The session that reads the keys.
        vertices: The vertices.
        key_type: The type of the key column.
        ever: Whether to include vertices of all versions, instead of only this version's vertices.
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
    # A dense table needs 8 bytes per possible key, and a lookup is a single read without hashing.
    dense = np.full(last - first + 1, -1, np.int64)
    source = vertices.known if ever else vertices.dense
    for batch in session.reader(f"SELECT CAST(k0 AS BIGINT) AS k0, dense FROM ({source})", rows=_BATCH):
        dense[batch.column(0).to_numpy() - first] = batch.column(1).to_numpy()
    return partial(look_up, dense, first)


def run_lookup(session: SqlSession, map_: IdMap, root: Path) -> _KeyLookup | None:
    """Return an arithmetic lookup for the keys of all versions, or None if the keys are not consecutive."""
    runs = _runs(session, map_, root)
    return _by_runs(runs) if runs and _in_order(session, map_, root, runs) else None


def _runs(session: SqlSession, map_: IdMap, root: Path) -> list[_Run]:
    """Return the key range of each file in the map, or an empty list if the keys are not consecutive integers."""
    if len(map_.columns) > 1 or not map_.limit or map_.columns[0].type not in _INTEGERS:
        return []
    rows = session.rows(key_bounds(map_.segments, root))
    bounds = {path: (low, high) for path, low, high in rows if low is not None and high is not None}
    ranges = []
    for segment in map_.segments:
        # The bounds come from the statistics in the footers of Parquet files, so no keys are read.
        low, high = bounds.get(str(root / segment.path), (0, -1))
        if high < low or high >= NO_KEY:
            return []
        ranges.append(_Run(low, high - low + 1, segment.first))
    return ranges


def _in_order(session: SqlSession, map_: IdMap, root: Path, runs: list[_Run]) -> bool:
    """Return whether each file contains every key of its range, in ascending order of ids. A merged file may not."""
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
    # This limits memory use. Files that are no longer cached are checked again.
    if len(_in_order_files) + len(new) > _REMEMBERED:
        _in_order_files.clear()
    _in_order_files.update(file for _, file in new)
    return True


def _by_runs(runs: list[_Run]) -> _KeyLookup:
    """Return the arithmetic lookup, which finds a key's run by binary search."""
    ordered = sorted(runs, key=lambda run: run.first)
    columns = ([r.first for r in ordered], [r.length for r in ordered], [r.start for r in ordered])
    return partial(look_up_runs, *(np.array(values, np.int64) for values in columns))


def _alive_only(everyone: _KeyLookup, alive: Bools, keys: Int64s) -> Int64s:
    """Look up keys with `everyone`, but return -1 for vertices that are not alive."""
    dense = everyone(keys)
    dense[(dense >= 0) & ~alive[dense]] = -1
    return dense


# Edges with dense ids, from which topologies are built.


def edge_rows(data: EdgeData) -> str:
    """Return a SELECT of every edge of the version, in any order, with the edge id as ROW_ID."""
    return table_rows(data.rows.table, data.rows.root, row_ids=True, ordered=False)


class DenseEdges:
    """Edges as record batches of source, destination, e_id and, if they exist, time, until and weight.

    All columns are int64, except for weights, which are float64. Rows are in table order if that is cheap. Iteration
    raises DataError at the first edge that violates a rule. Under ON DANGLING SKIP, dangling edges are skipped and
    counted.
    """

    def __init__(self, session: SqlSession, data: EdgeData, rows: str, *, gone: bool = False) -> None:
        """Read the edges of `rows`, a SELECT like that of `edge_rows`.

        Args:
            session: The session that reads the edges.
            data: The edge type.
            rows: The SELECT.
            gone: Whether the edges were removed. Removed edges were checked when they were added, and their ends can be
                keys of any version.
        """
        self.skipped = 0
        self._session, self._data, self._rows, self._gone = session, data, rows, gone

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        element = self._data.rows.element
        lookups = self._lookups()
        query = _query(self._data, self._rows, [lookup is not None for lookup in lookups], self._gone)
        seen = 0
        reader = self._session.reader(query, rows=_BATCH)
        for batch in reader:
            dense = self._dense(batch, lookups)
            if dense is None:
                reader.close()  # the check needs the session
                del batch
                self._refuse()
            seen += batch.num_rows
            self.skipped += batch.num_rows - dense.num_rows
            yield dense
        if not all(lookups):  # a join omits dangling edges, which are detected by the row count
            (rows,) = self._session.rows(f"SELECT count(*) FROM ({self._rows})")[0]
            self.skipped += rows - seen
        if self.skipped and element.on_dangling == "ERROR" and not self._gone:
            self._refuse()

    def _lookups(self) -> list[_KeyLookup | None]:
        """Return the lookups for sources and for destinations. A lookup is None if a join is needed."""
        element, joined = self._data.rows.element, {}
        lookups = []
        for key, vertices in (
            (element.source_key, self._data.source),
            (element.destination_key, self._data.destination),
        ):
            column = self._data.rows.table.column(key[0])
            assert column is not None
            same = (vertices.rows.element.name, column.type)
            if same not in joined:
                ever = self._gone
                joined[same] = _key_lookup(self._session, vertices, column.type, ever=ever) if len(key) == 1 else None
            lookups.append(joined[same])
        return lookups

    def table(self) -> pa.Table:
        """Return all edges as one table."""
        return pa.Table.from_batches(list(self))

    def _dense(self, batch: pa.RecordBatch, lookups: Sequence[_KeyLookup | None]) -> pa.RecordBatch | None:
        """Return a batch with dense ends and without dangling edges, or None if an edge violates another rule."""
        columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
        if any(columns[name].null_count for name in ("time", "weight") if name in columns):
            return None
        for name, lookup in zip(("source", "destination"), lookups, strict=True):
            if lookup is not None:
                columns[name] = lookup(columns[name].fill_null(NO_KEY).to_numpy(zero_copy_only=False))
        arrays = {name: _numpy(column) for name, column in columns.items()}
        if "weight" in arrays and bool(np.isnan(arrays["weight"]).any()):
            return None
        # The arrays only show that some edge is invalid. SQL determines which edge, for the error message.
        if "until" in arrays and bool(((arrays["until"] < arrays["time"]) | (arrays["until"] == STATIC)).any()):
            return None
        dangling = (arrays["source"] < 0) | (arrays["destination"] < 0)
        if dangling.any():
            arrays = {name: values[~dangling] for name, values in arrays.items()}
        return pa.RecordBatch.from_pydict(arrays)

    def _refuse(self) -> NoReturn:
        """Raise the error with examples. A second query finds them, because the fast path counts nothing."""
        check_edges(self._session, self._data, self._rows)
        raise AssertionError("unreachable: edges that break a rule in one pass break it in the next")


def _numpy(column: Any) -> Array:
    """Return a column as a numpy array."""
    return column if isinstance(column, np.ndarray) else column.to_numpy(zero_copy_only=False)


def _query(data: EdgeData, rows: str, looked_up: Sequence[bool], gone: bool) -> str:
    """Return a SELECT of source, destination, e_id, … An end is a key if `looked_up`, or a dense id from a join."""
    element = data.rows.element
    chosen, joins = [], []
    sides = (
        ("source", "s", element.source_key, data.source),
        ("destination", "d", element.destination_key, data.destination),
    )
    for (name, alias, key, vertices), simple in zip(sides, looked_up, strict=True):
        if simple:
            chosen.append(f"TRY_CAST(e.{quote(key[0])} AS BIGINT) AS {name}")
        else:
            chosen.append(f"{alias}.dense AS {name}")
            same = " AND ".join(f"e.{quote(column)} = {alias}.k{i}" for i, column in enumerate(key))
            joins.append(f"JOIN ({vertices.known if gone else vertices.dense}) {alias} ON {same}")
    chosen.append(f"e.{quote(ROW_ID)} AS e_id")
    if data.rows.time is not None:
        chosen.append(f"{_time(data.rows.time, static=element.nulls_static)} AS time")
    if data.rows.end is not None:
        chosen.append(f"{end_expression(data.rows.end, 'e.')} AS until")
    if element.weight:
        chosen.append(f"CAST(e.{quote(element.weight)} AS DOUBLE) AS weight")
    return f"SELECT {', '.join(chosen)} FROM ({rows}) e {' '.join(joins)}"


def _time(column: Column, *, static: bool) -> str:
    """Return SQL for an edge's time. Under NULLS STATIC, the time of an edge with NULL is STATIC."""
    time = time_expression(column, "e.")
    return f"CASE WHEN e.{quote(column.name)} IS NULL THEN {STATIC} ELSE {time} END" if static else time

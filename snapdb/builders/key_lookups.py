"""Lookups of the dense ids of vertex keys, and of the rows of vertex tables.

Integer keys are mapped to dense ids without a join. Consecutive keys use arithmetic, and others use a lookup table.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from snapdb.arrays import Array, Bools, Int64s
from snapdb.builders.context import BuildContext
from snapdb.builders.graph_data import VertexData
from snapdb.kernels.lookup import look_up, look_up_runs
from snapdb.plan.fits import SqlType
from snapdb.sql_engine import ROW_ID, Names, SqlSession, key_bounds, key_rows, quote
from snapdb.storage.arrays.feature_history import FOREVER
from snapdb.storage.tables.id_maps import IdMap
from snapdb.types import Segment

KeyLookup = Callable[[Int64s], Int64s]
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


def key_lookup(session: SqlSession, vertices: VertexData, key_type: str, *, ever: bool = False) -> KeyLookup | None:
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


def run_lookup(session: SqlSession, map_: IdMap, root: Path) -> KeyLookup | None:
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


def _by_runs(runs: list[_Run]) -> KeyLookup:
    """Return the arithmetic lookup, which finds a key's run by binary search."""
    ordered = sorted(runs, key=lambda run: run.first)
    columns = ([r.first for r in ordered], [r.length for r in ordered], [r.start for r in ordered])
    return partial(look_up_runs, *(np.array(values, np.int64) for values in columns))


def _alive_only(everyone: KeyLookup, alive: Bools, keys: Int64s) -> Int64s:
    """Look up keys with `everyone`, but return -1 for vertices that are not alive."""
    dense = everyone(keys)
    dense[(dense >= 0) & ~alive[dense]] = -1
    return dense


def ids_of_rows(session: SqlSession, vertices: VertexData) -> Array:
    """Return the [row ids] dense id of each row of a vertex table, or -1 for rows that are not vertices.

    Only keys are read. A SELECT that reads wide columns in table order can look up its rows here, where a join would
    have to write all of them to disk if the keys did not fit in memory.
    """
    rows, map_ = vertices.rows, vertices.id_map
    dense = np.full(rows.table.next_row, -1, np.int32 if map_.limit < 2**31 else np.int64)
    column = rows.table.column(vertices.key[0])
    assert column is not None
    lookup = key_lookup(session, vertices, column.type, ever=True) if len(vertices.key) == 1 else None
    if lookup is None:
        joined = f"({rows.numbered}) v JOIN ({vertices.known}) m ON {vertices.same}"
        query = f"SELECT v.{quote(ROW_ID)}, m.dense FROM {joined}"
    else:
        query = f"SELECT {quote(ROW_ID)}, CAST({quote(column.name)} AS BIGINT) FROM ({rows.numbered})"
    for batch in session.reader(query, rows=_BATCH):
        values = batch.column(1).to_numpy()
        dense[batch.column(0).to_numpy()] = values if lookup is None else lookup(values)
    return dense


def look_up_keys(context: BuildContext, table: pa.Table, id_map: IdMap) -> Int64s:
    """Return the [rows] dense ids of keys, whose columns the table has, or -1 if a key is NULL or was never there."""
    if pa.types.is_signed_integer(table.column(0).type):
        with context.store.sql_engine.session() as session:
            lookup = run_lookup(session, id_map, context.store.db_dir.path)
        if lookup is not None:
            return lookup(numbers_of(table.column(0).cast(pa.int64()), NO_KEY))
    keys = [f"k{i}" for i in range(len(id_map.columns))]
    # This does not call pa.array, which imports pandas if it is installed and therefore takes half a second.
    numbers = pa.Array.from_buffers(pa.int64(), table.num_rows, [None, pa.py_buffer(np.arange(table.num_rows))])
    numbered = table.rename_columns(keys).append_column("n", numbers)
    types = {
        k: c.type if SqlType(c.type).key_family() == "UUID" else None for k, c in zip(keys, id_map.columns, strict=True)
    }
    given = [f"TRY_CAST(s.{k} AS {t})" if t else f"s.{k}" for k, t in types.items()]
    same = " AND ".join(f"{g} = m.{k}" for g, k in zip(given, keys, strict=True))
    query = f"SELECT s.n, m.dense FROM seeds s JOIN ({id_map.sql(context.store.db_dir)}) m ON {same}"
    dense = np.full(table.num_rows, -1, np.int64)
    with context.store.sql_engine.session(Names(sources={"seeds": numbered})) as session:
        result = session.table(query)
    dense[numbers_of(result["n"])] = numbers_of(result["dense"])
    return dense


def numbers_of(column: pa.Array | pa.ChunkedArray, null: int | None = None) -> Array:
    """Return a [rows] column of numbers, with `null` for NULL. Unlike `to_numpy`, it does not import pandas."""
    if column.null_count:
        return np.asarray(column.fill_null(null).to_numpy())
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [np.from_dlpack(chunk) for chunk in chunks if len(chunk)]
    return np.concatenate(parts) if parts else np.empty(0, column.type.to_pandas_dtype())

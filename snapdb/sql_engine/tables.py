"""The SELECT that reads a table at a version from its segments."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from snapdb.arrays import Int64s
from snapdb.errors import CorruptError
from snapdb.on_first_use import module_on_first_use
from snapdb.sql_engine.sources import quote, text_literal
from snapdb.sql_engine.stored_types import ROW_ID, default_value, from_parquet, is_plain
from snapdb.types import Column, Segment, Table

pq = module_on_first_use("pyarrow.parquet")

_FEW_KEYS = 1_000_000
"""The number of keys up to which `few_keys` reads them."""
_READ_ALIKE = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "VARCHAR": pa.string(),
}
"""The Arrow types of key types that Arrow reads from Parquet as DuckDB does."""


def table_rows(table: Table, root: Path, *, row_ids: bool = False, ordered: bool = True) -> str:
    """Return a SELECT of the live rows of `table`, in row-id order, with the declared types.

    Args:
        table: The table at the version to read.
        root: The database directory.
        row_ids: Whether to add the row ids as the last column, named `ROW_ID`. For an edge table, the ids are the
            `e_id`.
        ordered: Whether to return the rows in order. Otherwise, an anti-join excludes deleted rows, which is faster to
            plan if there are many.

    Raises:
        CorruptError: A file of deleted rows cannot be read.
    """
    if table.deletes and not ordered:
        shown = f"* EXCLUDE ({quote(ROW_ID)})" if not row_ids else "*"
        every = table_rows(replace(table, deletes=()), root, row_ids=True)
        removed = deleted_rows(table.deletes, root)
        return f"SELECT {shown} FROM ({every}) WHERE {quote(ROW_ID)} NOT IN ({removed})"
    # Only scans, filters and UNION ALL are used. They preserve the order of files and rows for any number of threads.
    groups = [list(group) for _, group in groupby(table.segments, key=lambda s: s.columns or table.columns)]
    return " UNION ALL ".join(_live(table, group, root, row_ids) for group in groups)


def _live(table: Table, segments: Sequence[Segment], root: Path, row_ids: bool) -> str:
    """Return a SELECT of the live rows of files that were written with the same columns."""
    row_id = f", {_row_id(segments)} AS {quote(ROW_ID)}" if row_ids else ""
    files, columns = parquet_files(segments, root), f"{_columns(table, segments)}{row_id}"
    if (condition := _live_condition(segments, table.deletes, table.next_row, root)) is None:
        return f"SELECT {columns} FROM {files}"
    # The condition is above the scan, because DuckDB takes twice as long to evaluate it inside the scan.
    return f"SELECT {columns} FROM (SELECT *, file_index, file_row_number FROM {files}) WHERE {condition}"


def deleted_rows(deletes: Sequence[Segment], root: Path) -> str:
    """Return a SELECT of row_id from the deleted rows. At least one segment is required."""
    plain = [s for s in deletes if s.until is None]
    parts = [f"SELECT row_id FROM {parquet_files(plain, root)}"] if plain else []
    parts += [
        f"SELECT row_id FROM {parquet_files([s], root)} WHERE version <= {s.until}"
        for s in deletes
        if s.until is not None
    ]
    return " UNION ALL ".join(parts)


def key_rows(segments: Sequence[Segment], columns: Sequence[Column], root: Path) -> str:
    """Return a SELECT of the keys `k0, k1, …` of an id map, with their `dense` ids (BIGINT)."""
    keys = ", ".join(f"CAST(k{i} AS {c.type}) AS k{i}" for i, c in enumerate(columns))
    if not segments:  # read_parquet fails for an empty list
        nothing = ", ".join(f"CAST(NULL AS {c.type}) AS k{i}" for i, c in enumerate(columns))
        return f"SELECT {nothing}, CAST(NULL AS BIGINT) AS dense WHERE false"
    return f"SELECT {keys}, {_row_id(segments)} AS dense FROM {parquet_files(segments, root)}"


def few_keys(segments: Sequence[Segment], columns: Sequence[Column], root: Path) -> pa.Table | None:
    """Return the keys `k0, k1, …` of a small id map in dense-id order, read without DuckDB, or None to use `key_rows`.

    Starting DuckDB takes 40 ms, longer than reading a million keys. None is returned for more keys than that, for types
    other than integers and text, and for files that cannot be read, because DuckDB's error says what is wrong.
    """
    ends = np.cumsum([0, *(s.rows for s in segments)])
    if not segments or ends[-1] > _FEW_KEYS or [s.first for s in segments] != ends[:-1].tolist():
        return None
    types = [_READ_ALIKE.get(c.type) for c in columns]
    names = [f"k{i}" for i in range(len(columns))]
    try:
        parts = [pq.read_table(root / s.path, columns=names, partitioning=None, use_threads=False) for s in segments]
    except (OSError, pa.ArrowException):
        return None
    alike = all(p.schema.names == names and p.schema.types == types for p in parts)
    if not alike or sum(p.num_rows for p in parts) != ends[-1]:
        return None
    # Older files declare their columns NOT NULL, and tables are concatenated only if this is the same, too.
    schema = pa.schema(list(zip(names, types, strict=True)))
    return pa.concat_tables(part.cast(schema) for part in parts)


def key_bounds(segments: Iterable[Segment], root: Path) -> str:
    """Return a SELECT of file, least, greatest, with the bounds of an integer key `k0` from the files' footers."""
    paths = ", ".join(text_literal(str(root / s.path)) for s in segments)
    bounds = "min(TRY_CAST(stats_min_value AS HUGEINT)), max(TRY_CAST(stats_max_value AS HUGEINT))"
    return f"SELECT file_name, {bounds} FROM parquet_metadata([{paths}]) WHERE path_in_schema = 'k0' GROUP BY file_name"


def parquet_files(segments: Iterable[Segment], root: Path) -> str:
    """Return the table function that reads these files in order."""
    paths = ", ".join(text_literal(str(root / s.path)) for s in segments)
    # A directory named key=value above the database must not be treated as a Hive partition.
    return f"read_parquet([{paths}], hive_partitioning = false)"


def _columns(table: Table, segments: Sequence[Segment]) -> str:
    """Return the table's columns from files, which may have been written with columns other than the current ones."""
    then = segments[0].columns or table.columns
    written = {c.field: c for c in then}
    return ", ".join(f"{_value(c, written.get(c.field))} AS {quote(c.name)}" for c in table.columns)


def _value(column: Column, written: Column | None) -> str:
    """Return a column with its declared type, using the name it had when the file was written."""
    if written is None:
        return default_value(column)
    if is_plain(column.type):
        return quote(written.name)
    return from_parquet(quote(written.name), column.type)


def _row_id(segments: Sequence[Segment]) -> str:
    """Return the row id as an expression over the file and the position in the file."""
    if len(segments) == 1:
        return f"{segments[0].first}::BIGINT + file_row_number::BIGINT"
    firsts = ", ".join(str(s.first) for s in segments)
    return f"([{firsts}]::BIGINT[])[(file_index + 1)::BIGINT] + file_row_number::BIGINT"


# The live rows in files, as a condition on a row's file and position.
#
# A filter preserves the order of a scan, but a join does not, so no sort is needed after a DELETE. The condition on
# deleted positions is a tree of CASE expressions over ranges, with a bitmap at each leaf. The SQL contains only the
# names of the bitmaps. DuckDB's optimizer calls `_BITMAP` once per leaf and folds the result into a constant. With the
# bitmaps as literals in the SQL (12 MB), DuckDB's parser and binder took two seconds per query.


_BITMAP = "snapdb deleted rows"
"""The SQL function that returns a bitmap. Its name contains spaces, so that users do not call it by accident."""
_LEAF = 1 << 20
"""The number of rows per bitmap. DuckDB copies a constant (128 KB, in 10 us) for every 2,048 rows that it evaluates.
Smaller bitmaps need a deeper tree, which costs as much per row, and more calls per query. With 100M rows, a selective
query took 0.04 s of CPU time with 2**20 and 0.23 s with 2**17, and a full scan took 3.1 s and 3.5 s."""
_FEW = 4
"""The maximum number of deleted rows that are compared one by one."""
_SETS = 4096
"""The maximum number of cached sets of deletes. Only the views of idle sessions refer to them, and there are few such
views."""


class _Deletes(NamedTuple):
    """Files of deleted row ids."""

    segments: tuple[Segment, ...]
    root: Path
    """The database directory."""


_named: OrderedDict[str, _Deletes] = OrderedDict()
"""Key in SQL (an argument of `_BITMAP`) → deletes, least recently used first."""
_guard = Lock()


class _File(NamedTuple):
    """The rows of a file that are not live."""

    file: int
    """The index of the file in the list of files."""
    first: int
    """The id of the first row."""
    key: str
    """The key of the deletes for `_BITMAP`."""
    deleted: Int64s
    """The deleted row ids in ascending order."""
    stop: int
    """The position at and after which rows belong to later versions."""
    rows: int
    """The number of rows in the file."""


def _live_condition(segments: Sequence[Segment], deletes: tuple[Segment, ...], next_row: int, root: Path) -> str | None:
    """Return the condition on `file_index` and `file_row_number` for live rows, or None if all rows are live.

    Args:
        segments: The files, in reading order.
        deletes: Files of deleted row ids.
        next_row: The first row id that belongs to later versions.
        root: The database directory.

    Raises:
        CorruptError: A file of deletes cannot be read.
    """
    named = _Deletes(deletes, root)
    return _condition(tuple((s.first, s.rows) for s in segments), named, _key(named), next_row)


def create_bitmap_function(connection: duckdb.DuckDBPyConnection) -> None:
    """Register the bitmap function for the SQL of `connection` and its cursors."""
    connection.create_function(_BITMAP, _bitmap, ["VARCHAR", "BIGINT", "BIGINT"], "BLOB")


@lru_cache(maxsize=1024)
def _bitmap(key: str, low: int, high: int) -> bytes:
    """Return a bit for each row id low ≤ id < high, which is 1 if the row is deleted."""
    with _guard:
        deletes = _named[key]
    removed = _deleted_ids(deletes)
    bits = np.zeros((high - low + 7) // 8 * 8, np.uint8)
    bits[removed[np.searchsorted(removed, low) : np.searchsorted(removed, high)] - low] = 1
    return np.packbits(bits).tobytes()


def _key(deletes: _Deletes) -> str:
    """Return the key of these deletes in SQL, and cache the deletes under it."""
    text = "\n".join([str(deletes.root), *(f"{s.path} {s.until}" for s in deletes.segments)])
    key = sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]
    with _guard:
        _named[key] = deletes
        _named.move_to_end(key)
        if len(_named) > _SETS:
            _named.popitem(last=False)
    return key


@lru_cache(maxsize=8)
def _condition(spans: tuple[tuple[int, int], ...], deletes: _Deletes, key: str, next_row: int) -> str | None:
    """Return the condition. `spans` contains the first id and the number of rows of each file."""
    removed = _deleted_ids(deletes)
    files = []
    for file, (first, rows) in enumerate(spans):
        low, high = np.searchsorted(removed, [first, first + rows])
        stop = min(max(next_row - first, 0), rows)
        if high > low or stop < rows:
            files.append(_File(file, first, key, removed[low:high] - first, stop, rows))
    if not files:
        return None
    return _in_file(files[0]) if len(spans) == 1 else _by_file(files, len(spans))


@lru_cache(maxsize=8)
def _deleted_ids(deletes: _Deletes) -> Int64s:
    """Return the deleted row ids in ascending order."""
    parts = [np.empty(0, np.int64)]
    for segment in deletes.segments:
        path = deletes.root / segment.path
        try:
            table = pq.read_table(path, partitioning=None)
            ids = table["row_id"].to_numpy()
            parts.append(ids if segment.until is None else ids[table["version"].to_numpy() <= segment.until])
        except (OSError, KeyError, pa.ArrowException) as error:
            raise CorruptError(
                f"cannot read a database file: {path}: {error}; restore it from a backup", code="damaged-file"
            ) from error
    removed = np.sort(np.concatenate(parts))  # np.unique uses hashing, which takes ten times as long
    first = np.ones(removed.size, np.bool_)
    np.not_equal(removed[1:], removed[:-1], out=first[1:])
    return removed[first]


def _by_file(files: Sequence[_File], count: int) -> str:
    """Return the condition for rows in `count` files. In files that are not in `files`, all rows are live."""

    def leaf(low: int, high: int) -> str | None:
        some = [f for f in files if low <= f.file < high]
        if not some:
            return "true"
        return _in_file(some[0]) if high - low == 1 else None

    return _tree("file_index", 0, count, leaf)


def _in_file(file: _File) -> str:
    removed = file.deleted

    def leaf(low: int, high: int) -> str | None:
        end = min(high, file.stop)
        here = removed[np.searchsorted(removed, low) : np.searchsorted(removed, end)]
        if here.size >= end - low:
            return "false"
        condition = _positions(file, here, low, end)
        later = end < min(high, file.rows)
        cut = f"CASE WHEN file_row_number < {end} THEN {condition} ELSE false END"  # AND would evaluate both sides
        return cut if later and condition is not None else condition

    return _tree("file_row_number", 0, file.rows, leaf)


def _positions(file: _File, removed: Int64s, low: int, high: int) -> str | None:
    """Return the condition for positions low ≤ p < high, or None if there are too many positions for one bitmap."""
    if not removed.size:
        return "true"
    if removed.size <= _FEW:
        return f"({' AND '.join(f'file_row_number <> {position}' for position in removed.tolist())})"
    if high - low > _LEAF:
        return None
    bitmap = f"{quote(_BITMAP)}('{file.key}', {file.first + low}, {file.first + high})"
    return f"get_bit({bitmap}::BIT, (file_row_number - {low})::INTEGER) = 0"


def _tree(name: str, low: int, high: int, leaf: Callable[[int, int], str | None]) -> str:
    """Return a nested CASE over low ≤ name < high. Ranges for which `leaf` returns None are split at a power of two."""
    if (known := leaf(low, high)) is not None:
        return known
    middle = low + (1 << (high - low - 1).bit_length() - 1)
    first, second = _tree(name, low, middle, leaf), _tree(name, middle, high, leaf)
    return first if first == second else f"CASE WHEN {name} < {middle} THEN {first} ELSE {second} END"

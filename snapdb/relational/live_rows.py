"""Which rows of files are live, as a condition on a row's file and its position there.

A filter keeps the order of a scan, which a join loses: what is read after a DELETE needs no sort. The deleted positions
are a tree of CASE over ranges, with a bitmap at each leaf. The SQL only names the bitmaps: DuckDB's optimizer calls
`BITMAP` once per leaf and folds the result into a constant. Written as literals, 12 MB of bitmaps took DuckDB's parser
and binder two seconds per query.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from snapdb.errors import CorruptError
from snapdb.relational.quote import quote
from snapdb.types import Segment

Int64s = npt.NDArray[np.int64]

BITMAP = "snapdb deleted rows"
"""The SQL function of a bitmap; no identifier that a user would write without quotes."""
_LEAF = 1 << 20
"""Rows under one bitmap. DuckDB copies a constant for every 2,048 rows that it evaluates, 128 KB in 10 us; smaller
bitmaps make a deeper tree, which costs as much per row, and more calls per query: of 100M rows a selective query took
0.04 s of CPU time with 2**20 and 0.23 s with 2**17, a whole scan 3.1 s and 3.5 s."""
_FEW = 4
"""Deleted rows that are compared one by one."""
_SETS = 4096
"""Sets of deletes that are remembered: views of idle sessions name them, and there are few of those."""


class _Deletes(NamedTuple):
    """Files of deleted row ids."""

    segments: tuple[Segment, ...]
    root: Path
    """The database directory."""


_named: OrderedDict[str, _Deletes] = OrderedDict()
"""By the key that SQL gives `BITMAP`, least recently used first."""
_guard = Lock()


class _File(NamedTuple):
    """The rows of one file that are not live."""

    file: int
    """Its place in the list of files."""
    first: int
    """The id of its first row."""
    key: str
    """Of the deletes, for `BITMAP`."""
    deleted: Int64s
    """Ascending."""
    stop: int
    """Positions from here on belong to later versions."""
    rows: int


def live_condition(segments: Sequence[Segment], deletes: tuple[Segment, ...], next_row: int, root: Path) -> str | None:
    """The condition on `file_index` and `file_row_number` of the rows that a version has; None: it has all of them.

    Args:
        segments: The files, in the order in which they are read.
        deletes: Files of the row ids that are gone.
        next_row: Row ids from here on belong to later versions.
        root: The database directory.

    Raises:
        CorruptError: a file of deletes cannot be read.
    """
    named = _Deletes(deletes, root)
    return _condition(tuple((s.first, s.rows) for s in segments), named, _key(named), next_row)


def create_bitmap_function(connection: Any) -> None:
    """Let the SQL of `connection`, and of its cursors, name the bitmaps of `live_condition`."""
    connection.create_function(BITMAP, _bitmap, ["VARCHAR", "BIGINT", "BIGINT"], "BLOB")


@lru_cache(maxsize=1024)
def _bitmap(key: str, low: int, high: int) -> bytes:
    """A bit for each row id low ≤ id < high, set where the row is deleted."""
    with _guard:
        deletes = _named[key]
    gone = _deleted_ids(deletes)
    bits = np.zeros((high - low + 7) // 8 * 8, np.uint8)
    bits[gone[np.searchsorted(gone, low) : np.searchsorted(gone, high)] - low] = 1
    return np.packbits(bits).tobytes()


def _key(deletes: _Deletes) -> str:
    """The name of these deletes in SQL, which is remembered."""
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
    """By first id and rows of each file."""
    gone = _deleted_ids(deletes)
    files = []
    for file, (first, rows) in enumerate(spans):
        low, high = np.searchsorted(gone, [first, first + rows])
        stop = min(max(next_row - first, 0), rows)
        if high > low or stop < rows:
            files.append(_File(file, first, key, gone[low:high] - first, stop, rows))
    if not files:
        return None
    return _in_file(files[0]) if len(spans) == 1 else _by_file(files, len(spans))


@lru_cache(maxsize=8)
def _deleted_ids(deletes: _Deletes) -> Int64s:
    """Ascending deleted row ids."""
    parts = [np.empty(0, np.int64)]
    for segment in deletes.segments:
        path = deletes.root / segment.path
        try:
            table = pq.read_table(path, partitioning=None)
            ids = table["row_id"].to_numpy()
            parts.append(ids if segment.until is None else ids[table["version"].to_numpy() <= segment.until])
        except (OSError, KeyError, pa.ArrowException) as error:
            raise CorruptError(
                f"a file of the database cannot be read: {path}: {error}; restore it from a backup", code="damaged-file"
            ) from error
    gone = np.sort(np.concatenate(parts))  # np.unique hashes, at ten times the cost
    first = np.ones(gone.size, np.bool_)
    np.not_equal(gone[1:], gone[:-1], out=first[1:])
    return gone[first]


def _by_file(files: Sequence[_File], count: int) -> str:
    """The condition where rows are in `count` files, of which some are not mentioned: all of their rows are live."""

    def leaf(low: int, high: int) -> str | None:
        some = [f for f in files if low <= f.file < high]
        if not some:
            return "true"
        return _in_file(some[0]) if high - low == 1 else None

    return _tree("file_index", 0, count, leaf)


def _in_file(file: _File) -> str:
    gone = file.deleted

    def leaf(low: int, high: int) -> str | None:
        end = min(high, file.stop)
        here = gone[np.searchsorted(gone, low) : np.searchsorted(gone, end)]
        if here.size >= end - low:
            return "false"
        condition = _positions(file, here, low, end)
        later = end < min(high, file.rows)
        cut = f"CASE WHEN file_row_number < {end} THEN {condition} ELSE false END"  # AND would evaluate both
        return cut if later and condition is not None else condition

    return _tree("file_row_number", 0, file.rows, leaf)


def _positions(file: _File, gone: Int64s, low: int, high: int) -> str | None:
    """The condition for positions low ≤ p < high; None where they are too many for one bitmap."""
    if not gone.size:
        return "true"
    if gone.size <= _FEW:
        return f"({' AND '.join(f'file_row_number <> {position}' for position in gone.tolist())})"
    if high - low > _LEAF:
        return None
    bitmap = f"{quote(BITMAP)}('{file.key}', {file.first + low}, {file.first + high})"
    return f"get_bit({bitmap}::BIT, (file_row_number - {low})::INTEGER) = 0"


def _tree(name: str, low: int, high: int, leaf: Callable[[int, int], str | None]) -> str:
    """Nested CASE over low ≤ name < high; ranges for which `leaf` knows no condition are cut at a power of two."""
    if (known := leaf(low, high)) is not None:
        return known
    middle = low + (1 << (high - low - 1).bit_length() - 1)
    first, second = _tree(name, low, middle, leaf), _tree(name, middle, high, leaf)
    return first if first == second else f"CASE WHEN {name} < {middle} THEN {first} ELSE {second} END"

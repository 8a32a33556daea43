"""Which rows of files are live, as a condition on a row's file and its position there.

A filter keeps the order of a scan, which a join loses: what is read after a DELETE needs no sort. The deleted positions
are a tree of CASE over ranges, with a bitmap at each leaf, as small as a kernel of DuckDB reads them fastest: it copies
a constant for every 2,048 rows.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from snapdb.errors import CorruptError
from snapdb.types import Segment

__all__ = ["live_condition"]

Int64s = npt.NDArray[np.int64]

_LEAF = 1 << 15
"""Rows under one bitmap."""
_FEW = 4
"""Deleted rows that are compared one by one."""


class _File(NamedTuple):
    """The rows of one file that are not live."""

    file: int
    """Its place in the list of files."""
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
    return _condition(tuple((s.first, s.rows) for s in segments), deletes, next_row, root)


@lru_cache(maxsize=8)
def _condition(
    spans: tuple[tuple[int, int], ...], deletes: tuple[Segment, ...], next_row: int, root: Path
) -> str | None:
    """By first id and rows of each file."""
    gone = _deleted_ids(deletes, root)
    files = []
    for file, (first, rows) in enumerate(spans):
        low, high = np.searchsorted(gone, [first, first + rows])
        stop = min(max(next_row - first, 0), rows)
        if high > low or stop < rows:
            files.append(_File(file, gone[low:high] - first, stop, rows))
    if not files:
        return None
    return _in_file(files[0]) if len(spans) == 1 else _by_file(files, len(spans))


def _deleted_ids(deletes: Iterable[Segment], root: Path) -> Int64s:
    """Ascending row ids that are gone."""
    parts = [np.empty(0, np.int64)]
    for segment in deletes:
        path = root / segment.path
        try:
            table = pq.read_table(path, partitioning=None)
            ids = table["row_id"].to_numpy()
            parts.append(ids if segment.until is None else ids[table["version"].to_numpy() <= segment.until])
        except (OSError, KeyError, pa.ArrowException) as error:
            raise CorruptError(f"a file of the database cannot be read: {path}: {error}; restore it from a backup",
                               code="damaged-file") from error  # fmt: skip
    return np.unique(np.concatenate(parts))


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
        condition = _positions(here, low, end)
        later = end < min(high, file.rows)
        cut = f"CASE WHEN file_row_number < {end} THEN {condition} ELSE false END"  # AND would evaluate both
        return cut if later and condition is not None else condition

    return _tree("file_row_number", 0, file.rows, leaf)


def _positions(gone: Int64s, low: int, high: int) -> str | None:
    """The condition for positions low ≤ p < high; None where they are too many for one bitmap."""
    if not gone.size:
        return "true"
    if gone.size <= _FEW:
        return f"({' AND '.join(f'file_row_number <> {position}' for position in gone.tolist())})"
    if high - low > _LEAF:
        return None
    bits = np.zeros((high - low + 7) // 8 * 8, np.uint8)
    bits[gone - low] = 1
    text = b64encode(np.packbits(bits).tobytes()).decode()
    return f"get_bit(from_base64('{text}')::BIT, (file_row_number - {low})::INTEGER) = 0"


def _tree(name: str, low: int, high: int, leaf: Callable[[int, int], str | None]) -> str:
    """Nested CASE over low ≤ name < high; ranges for which `leaf` knows no condition are cut at a power of two."""
    if (known := leaf(low, high)) is not None:
        return known
    middle = low + (1 << (high - low - 1).bit_length() - 1)
    first, second = _tree(name, low, middle, leaf), _tree(name, middle, high, leaf)
    return first if first == second else f"CASE WHEN {name} < {middle} THEN {first} ELSE {second} END"

"""Logical rows listed: how long they are, which positions they hold, and which neighbours stand there."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.errors import CorruptError
from snapdb.kernels.compiled import kernel
from snapdb.kernels.forms import DAMAGED, RowArrays
from snapdb.kernels.gather import gather
from snapdb.kernels.spans import BLOCK, DEGREE, FIELDS, list_spans, locate_range

_Number = int | np.int64


class Part(NamedTuple):
    """The logical rows of nodes low, low + 1, …"""

    low: int
    indptr: Int64s
    """[nodes of the part + 1] where each row starts among all logical rows, and where the last one ends."""
    positions: Int64s
    """Physical, row after row."""


def degrees_of(rows: RowArrays) -> Int64s:
    """[nodes] How many edges each logical row has.

    Raises:
        CorruptError: a row leads out of its arrays.
    """
    found = np.empty(rows.nodes, np.int64)
    if not _count_rows(rows, found):
        raise CorruptError(DAMAGED)
    return found


def logical_parts(rows: RowArrays, most: int = 1 << 22) -> Iterator[Part]:
    """The positions of every logical row, some `most` edges a part (one row may hold more), in bounded memory.

    Raises:
        CorruptError: a row leads out of its arrays.
    """
    indptr = np.zeros(rows.nodes + 1, np.int64)
    np.cumsum(degrees_of(rows), out=indptr[1:])
    low = 0
    while low < rows.nodes:
        high = int(np.searchsorted(indptr, indptr[low] + most, side="right")) - 1
        high = min(max(high, low + 1), rows.nodes)
        positions = np.empty(int(indptr[high] - indptr[low]), np.int64)
        _list_rows(rows, low, high, positions)
        yield Part(low, indptr[low : high + 1], positions)
        low = high


def neighbours_of(rows: RowArrays, positions: Int64s) -> Array:
    """The ids of the neighbours at physical positions, as they are stored."""
    return read_parts(rows.indices, rows.patch.indices, positions)


def read_parts(root: Array, patch: Array | None, positions: Int64s) -> Array:
    """A fresh array of the values at physical positions, which count through the root and then the patch.

    Raises IndexError when one is beyond both.
    """
    if patch is None or patch.size == 0:
        return gather(root, positions)
    late = np.flatnonzero(positions >= root.size)
    if late.size == positions.size:
        return gather(patch, positions - root.size)
    values = gather(root, np.where(positions < root.size, positions, 0) if late.size else positions)
    values = values.astype(np.result_type(root, patch), copy=False)
    values[late] = gather(patch, positions[late] - root.size)
    return values


@kernel
def _count_rows(rows: RowArrays, found: Int64s) -> bool:
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    for low in range(0, rows.nodes, BLOCK):
        count = min(BLOCK, rows.nodes - low)
        if not locate_range(rows, low, count, nodes, spans):
            return False
        for i in range(count):
            found[low + i] = spans[i, DEGREE]
    return True


@kernel
def _list_rows(rows: RowArrays, begin: int, end: int, positions: Int64s) -> None:
    """The positions of nodes from begin up to end, whose rows are sound."""
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    at: _Number = np.int64(0)
    for low in range(begin, end, BLOCK):
        count = min(BLOCK, end - low)
        locate_range(rows, low, count, nodes, spans)
        at = list_spans(rows.live.words, spans, count, positions, at)

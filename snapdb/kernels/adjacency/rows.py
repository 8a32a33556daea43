"""Operations on whole logical rows: degrees, listing, merging, comparison, and expected accesses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Array, Bools, Float64s, Int64s, UInt64s
from snapdb.errors import CorruptError
from snapdb.kernels.adjacency.forms import DAMAGED, ByPosition, ColumnArrays, RowArrays, column_arrays, neighbor_at
from snapdb.kernels.adjacency.spans import (
    BASE_LEN,
    BASE_START,
    BLOCK,
    DEGREE,
    DELTA_LEN,
    DELTA_START,
    FIELDS,
    list_spans,
    locate,
    locate_range,
)
from snapdb.kernels.bits import is_set, mask_between
from snapdb.kernels.compiled import allocating_kernel, kernel
from snapdb.kernels.features import gather

_Number = int | np.int64


class RowRange(NamedTuple):
    """The logical rows of the nodes low, low + 1, …"""

    low: int
    """The first node."""
    indptr: Int64s
    """[nodes of the part + 1] The start of each row among all logical rows, and the end of the last row."""
    positions: Int64s
    """Physical positions, row by row."""


def degrees_of(rows: RowArrays) -> Int64s:
    """[nodes] The number of edges in each logical row.

    Raises:
        CorruptError: A row extends beyond its arrays.
    """
    degrees = np.empty(rows.nodes, np.int64)
    if not row_lengths(rows, False, degrees):
        raise CorruptError(DAMAGED)
    return degrees


def logical_parts(rows: RowArrays, most: int = 1 << 22) -> Iterator[RowRange]:
    """Yield the positions of all logical rows in parts of about `most` edges, which bounds memory use.

    A single row with more than `most` edges is a separate part.

    Raises:
        CorruptError: A row extends beyond its arrays.
    """
    indptr = np.zeros(rows.nodes + 1, np.int64)
    np.cumsum(degrees_of(rows), out=indptr[1:])
    low = 0
    while low < rows.nodes:
        high = int(np.searchsorted(indptr, indptr[low] + most, side="right")) - 1
        high = min(max(high, low + 1), rows.nodes)
        positions = np.empty(int(indptr[high] - indptr[low]), np.int64)
        _list_rows(rows, low, high, positions)
        yield RowRange(low, indptr[low : high + 1], positions)
        low = high


def neighbors_of(rows: RowArrays, positions: Int64s) -> Array:
    """Return the stored neighbour ids at physical positions."""
    return read_parts(rows.indices, rows.delta.indices, positions)


def read_parts(base: Array, delta: Array | None, positions: Int64s) -> Array:
    """Return a new array of the values at physical positions, which are numbered through the base and then the delta.

    Raises:
        IndexError: A position is beyond the base and the delta.
    """
    if delta is None or delta.size == 0:
        return gather(base, positions)
    late = np.flatnonzero(positions >= base.size)
    if late.size == positions.size:
        return gather(delta, positions - base.size)
    values = gather(base, np.where(positions < base.size, positions, 0) if late.size else positions)
    values = values.astype(np.result_type(base, delta), copy=False)
    values[late] = gather(delta, positions[late] - base.size)
    return values


# Blocks of rows are located together, and then listed or counted while their bounds are in the cache.
@allocating_kernel
def row_lengths(rows: RowArrays, physical: bool, lengths: Int64s) -> bool:
    """Fill `lengths` [nodes] with the number of live positions in each row, or of all positions if `physical` is True.

    Returns whether all rows are within their arrays.
    """
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    for low in range(0, rows.nodes, BLOCK):
        count = min(BLOCK, rows.nodes - low)
        if not locate_range(rows, low, count, nodes, spans):
            return False
        for i in range(count):
            lengths[low + i] = spans[i, BASE_LEN] + spans[i, DELTA_LEN] if physical else spans[i, DEGREE]
    return True


@allocating_kernel
def _list_rows(rows: RowArrays, begin: int, end: int, positions: Int64s) -> None:
    """Fill `positions` with the rows of the nodes begin ≤ node < end. The rows must be valid."""
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    at: _Number = np.int64(0)
    for low in range(begin, end, BLOCK):
        count = min(BLOCK, end - low)
        locate_range(rows, low, count, nodes, spans)
        at = list_spans(rows.live.words, spans, count, positions, at)


# The number of edges in each row before a time, by binary search in each part, O(log degree) per row. Kernels run
# without the GIL, so threads can share the rows.
_SHARE = 1 << 20
"""The number of nodes per task of a thread."""


def prefix_degrees(rows: RowArrays, time: ByPosition, stop: int) -> npt.NDArray[np.uint32]:
    """[nodes] The number of edges in each row before `stop`. Uses binary search, because times ascend in every row.

    `rows` must have no bitmap.

    Raises:
        CorruptError: A row extends beyond its arrays.
    """
    degrees = np.zeros(rows.nodes, np.uint32)
    times = column_arrays(time, np.int64, rows)
    bounds = range(0, rows.nodes, _SHARE)
    with ThreadPoolExecutor(min(len(bounds), os.cpu_count() or 1) or 1) as threads:
        shares = [
            threads.submit(_search, rows, times, stop, degrees, low, min(low + _SHARE, rows.nodes)) for low in bounds
        ]
    if not all(share.result() for share in shares):
        raise CorruptError(DAMAGED)
    return degrees


@allocating_kernel
def _search(
    rows: RowArrays, times: ColumnArrays, stop: int, degrees: npt.NDArray[np.uint32], begin: int, end: int
) -> bool:
    """Fill degrees[begin:end]. Returns whether all rows are within their arrays."""
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    held = rows.indices.size
    for low in range(begin, end, BLOCK):
        count = min(BLOCK, end - low)
        if not locate_range(rows, low, count, nodes, spans):
            return False
        for i in range(count):
            early = count_before(times.base, spans[i, BASE_START], spans[i, BASE_LEN], stop)
            if early == spans[i, BASE_LEN] and spans[i, DELTA_LEN] > 0:
                early += count_before(times.delta, spans[i, DELTA_START] - held, spans[i, DELTA_LEN], stop)
            degrees[low + i] = early
    return True


@kernel
def count_before(times: Int64s, first: _Number, count: _Number, stop: _Number) -> _Number:
    """Return the number of times less than `stop`, among `count` ascending times from index `first` on.

    This is a branchless binary search. Its control flow depends only on `count`, so no branch is mispredicted.
    """
    low = first
    while count > 1:
        half = count >> 1
        low += half if times[low + half - 1] < stop else np.int64(0)
        count -= half
    return low - first + np.int64(count == 1 and times[low] < stop)


@kernel
def are_rows(starts: Int64s, ends: Int64s, indices: Array, nodes: int) -> bool:
    """Return whether rows partition a prefix of `indices` in order, and all indices are in 0 ≤ id < nodes."""
    before = np.int64(0)
    for v in range(starts.size):
        start, end = starts[v], ends[v]
        if start < before or end < start or end > indices.size:
            return False
        for p in range(start, end):
            if indices[p] < 0 or indices[p] >= nodes:
                return False
        before = end
    return True


def merge_rows(
    in_starts: Int64s, in_ends: Int64s, out_starts: Int64s, out_ends: Int64s
) -> tuple[Int64s, Int64s, Bools]:
    """Merge two adjacencies row by row: each row contains a node's IN edges, then its OUT edges.

    Returns:
        `indptr` [rows + 1] and, for each new position, the original position and whether it is an OUT edge.
    """
    indptr = np.zeros(in_starts.size + 1, np.int64)
    np.cumsum((in_ends - in_starts) + (out_ends - out_starts), out=indptr[1:])
    origin = np.empty(int(indptr[-1]), np.int64)
    outward = np.empty(origin.size, np.bool_)
    _merge(in_starts, in_ends, out_starts, out_ends, indptr, origin, outward)
    return indptr, origin, outward


@kernel
def _merge(
    in_starts: Int64s,
    in_ends: Int64s,
    out_starts: Int64s,
    out_ends: Int64s,
    indptr: Int64s,
    origin: Int64s,
    outward: Bools,
) -> None:
    """Fill `origin` and `outward`, row by row."""
    for v in range(in_starts.size):
        at = indptr[v]
        for p in range(in_starts[v], in_ends[v]):
            origin[at] = p
            outward[at] = False
            at += 1
        for p in range(out_starts[v], out_ends[v]):
            origin[at] = p
            outward[at] = True
            at += 1


# The rows of a snapshot that differ from those of an earlier snapshot on the same base. Spans and bitmap words are
# compared, 64 positions at a time, without reading edges.
@allocating_kernel
def mark_changed(before: RowArrays, after: RowArrays, same_delta: bool, nodes: Int64s, changed: Bools) -> bool:
    """Set `changed` [nodes] for nodes whose rows differ in edges or positions. Returns False if a row is damaged.

    Both snapshots have the same base. Rows that extend into a delta count as changed if the deltas differ.
    """
    old, new = np.empty((BLOCK, FIELDS), np.int64), np.empty((BLOCK, FIELDS), np.int64)
    words, others = before.live.words, after.live.words
    for low in range(0, nodes.size, BLOCK):
        high = min(low + BLOCK, nodes.size)
        if not locate(before, nodes, low, high, high, old) or not locate(after, nodes, low, high, high, new):
            return False
        for i in range(high - low):
            same = True
            for field in (BASE_START, BASE_LEN, DELTA_LEN, DEGREE):
                same &= old[i, field] == new[i, field]
            if old[i, DELTA_LEN] > 0:
                same &= same_delta and old[i, DELTA_START] == new[i, DELTA_START]
            # The degrees are equal. Bits are compared only in rows with dead positions, because rows in which all
            # positions are live have the same edges.
            if same and old[i, DEGREE] < old[i, BASE_LEN] + old[i, DELTA_LEN]:
                same = _same_bits(words, others, old[i, BASE_START], old[i, BASE_LEN])
                same &= _same_bits(words, others, old[i, DELTA_START], old[i, DELTA_LEN])
            changed[low + i] = not same
    return True


@kernel
def _same_bits(words: UInt64s, others: UInt64s, start: int, count: int) -> bool:
    """Return whether two bitmaps have the same `count` bits from `start` on."""
    stop = start + count
    for begin in range(start, stop, 64):
        end = min(begin + 64, stop)
        if mask_between(words, begin, end) != mask_between(others, begin, end):
            return False
    return True


# The expected accesses of a hop. One pass over all rows propagates probabilities along edges, O(edges).
@allocating_kernel
def spread(rows: RowArrays, visits: Float64s, fanout: int, low: int, high: int, reached: Float64s) -> bool:
    """Add the expected accesses of the neighbours that the nodes low ≤ id < high draw to `reached`.

    `visits` [nodes] are the expected accesses of the nodes themselves. A node draws each of its d edges with
    probability min(fanout, d) / d. Returns False if a row extends beyond its arrays or its nodes.
    """
    words = rows.live.words
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    for first in range(low, high, BLOCK):
        count = min(BLOCK, high - first)
        if not locate_range(rows, first, count, nodes, spans):
            return False
        for i in range(count):
            degree, visit = spans[i, DEGREE], visits[first + i]
            if degree == 0 or visit == 0.0:
                continue
            part = visit if degree <= fanout else visit * np.float64(fanout) / np.float64(degree)
            for start, length in ((BASE_START, BASE_LEN), (DELTA_START, DELTA_LEN)):
                for p in range(spans[i, start], spans[i, start] + spans[i, length]):
                    node = neighbor_at(rows, p)
                    if node < 0 or node >= reached.size:
                        return False
                    reached[node] += part if words.size == 0 or is_set(words, p) else 0.0
    return True

"""Logical rows listed: how long they are, which positions they hold, and which neighbours stand there."""

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
    degrees = np.empty(rows.nodes, np.int64)
    if not row_lengths(rows, False, degrees):
        raise CorruptError(DAMAGED)
    return degrees


def logical_parts(rows: RowArrays, most: int = 1 << 22) -> Iterator[RowRange]:
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
        yield RowRange(low, indptr[low : high + 1], positions)
        low = high


def neighbors_of(rows: RowArrays, positions: Int64s) -> Array:
    """The ids of the neighbours at physical positions, as they are stored."""
    return read_parts(rows.indices, rows.delta.indices, positions)


def read_parts(base: Array, delta: Array | None, positions: Int64s) -> Array:
    """A fresh array of the values at physical positions, which count through the base and then the delta.

    Raises IndexError when one is beyond both.
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


# Blocks of rows are located together, and then listed or counted while their bounds are in the cache
@allocating_kernel
def row_lengths(rows: RowArrays, physical: bool, lengths: Int64s) -> bool:
    """How many positions each row has, live ones or, where `physical`, all; whether rows are within their arrays."""
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
    """The positions of nodes from begin up to end, whose rows are sound."""
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    at: _Number = np.int64(0)
    for low in range(begin, end, BLOCK):
        count = min(BLOCK, end - low)
        locate_range(rows, low, count, nodes, spans)
        at = list_spans(rows.live.words, spans, count, positions, at)


# How many edges of each row are before a time, by binary search in each part: O(log degree) per row
_SHARE = 1 << 20
"""Nodes that one thread takes at a time."""


def prefix_degrees(rows: RowArrays, time: ByPosition, stop: int) -> npt.NDArray[np.uint32]:
    """[nodes] how many edges of each row are before `stop`, by binary search: times ascend in every row.

    `rows` has no bitmap.

    Raises:
        CorruptError: a row leads out of its arrays.
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
    """How many of `count` ascending times from `first` are before stop; its branches depend on `count` alone."""
    low = first
    while count > 1:
        half = count >> 1
        low += half if times[low + half - 1] < stop else np.int64(0)
        count -= half
    return low - first + np.int64(count == 1 and times[low] < stop)


@kernel
def are_rows(starts: Int64s, ends: Int64s, indices: Array, nodes: int) -> bool:
    """Whether rows are within `indices`, one after another, and the indices they hold within 0 ≤ id < nodes."""
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
    """Rows that hold a node's IN edges, then its OUT edges.

    Returns:
        `indptr` [rows + 1], for each new position the position it came from, and whether that was an OUT edge.
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


# Which rows of a snapshot differ from those of an earlier one on the same base: rows are compared by where they are
# and by the bits of what is live, without a read of their edges
@allocating_kernel
def mark_changed(before: RowArrays, after: RowArrays, same_delta: bool, nodes: Int64s, changed: Bools) -> bool:
    """Marks which of these nodes have other edges, or at other places; False: a row leads out of its arrays.

    Both have the same base. Where deltas are not the same, rows that reach into one count as changed.
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
            # As many edges count; where all do, none can have taken another's place.
            if same and old[i, DEGREE] < old[i, BASE_LEN] + old[i, DELTA_LEN]:
                same = _same_bits(words, others, old[i, BASE_START], old[i, BASE_LEN])
                same &= _same_bits(words, others, old[i, DELTA_START], old[i, DELTA_LEN])
            changed[low + i] = not same
    return True


@kernel
def _same_bits(words: UInt64s, others: UInt64s, start: int, count: int) -> bool:
    stop = start + count
    for begin in range(start, stop, 64):
        end = min(begin + 64, stop)
        if mask_between(words, begin, end) != mask_between(others, begin, end):
            return False
    return True


# Expected accesses: one pass over all rows per hop, O(edges)
@allocating_kernel
def spread(rows: RowArrays, visits: Float64s, fanout: int, low: int, high: int, reached: Float64s) -> bool:
    """Adds the expected accesses of neighbours that nodes low ≤ id < high draw, from the nodes' own `visits`.

    A node draws each of its d edges with chance min(fanout, d) / d. False: a row leads out of its arrays or its nodes.
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

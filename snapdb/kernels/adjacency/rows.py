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
from snapdb.kernels.adjacency.forms import DAMAGED, ByPosition, RowArrays, by_part
from snapdb.kernels.adjacency.spans import (
    BLOCK,
    DEGREE,
    FIELDS,
    FIRST,
    KEPT,
    REST,
    SECOND,
    list_spans,
    locate,
    locate_range,
)
from snapdb.kernels.bits import is_set, mask_between
from snapdb.kernels.compiled import allocating_kernel, kernel
from snapdb.kernels.features import gather

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


@allocating_kernel
def _count_rows(rows: RowArrays, found: Int64s) -> bool:
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    for low in range(0, rows.nodes, BLOCK):
        count = min(BLOCK, rows.nodes - low)
        if not locate_range(rows, low, count, nodes, spans):
            return False
        for i in range(count):
            found[low + i] = spans[i, DEGREE]
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


# How far rows go before a moment, found without reading them


_SHARE = 1 << 20
"""Nodes that one thread takes at a time."""


def prefix_degrees(rows: RowArrays, time: ByPosition, stop: int) -> npt.NDArray[np.uint32]:
    """[nodes] how many edges of each row are before `stop`, by binary search: times ascend in every row.

    `rows` has no bitmap.

    Raises:
        CorruptError: a row leads out of its arrays.
    """
    degrees = np.zeros(rows.nodes, np.uint32)
    times = (by_part(time, 0, np.int64, rows.indices.size), by_part(time, 1, np.int64, rows.patch.indices.size))
    bounds = range(0, rows.nodes, _SHARE)
    with ThreadPoolExecutor(min(len(bounds), os.cpu_count() or 1) or 1) as threads:
        shares = [
            threads.submit(_search, rows, *times, stop, degrees, low, min(low + _SHARE, rows.nodes)) for low in bounds
        ]
    if not all(share.result() for share in shares):
        raise CorruptError(DAMAGED)
    return degrees


@allocating_kernel
def _search(
    rows: RowArrays, root: Int64s, patch: Int64s, stop: int, degrees: npt.NDArray[np.uint32], begin: int, end: int
) -> bool:
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    held = rows.indices.size
    for low in range(begin, end, BLOCK):
        count = min(BLOCK, end - low)
        if not locate_range(rows, low, count, nodes, spans):
            return False
        for i in range(count):
            early = _before(root, spans[i, FIRST], spans[i, KEPT], stop)
            if early == spans[i, KEPT] and spans[i, REST] > 0:
                early += _before(patch, spans[i, SECOND] - held, spans[i, REST], stop)
            degrees[low + i] = early
    return True


@kernel
def _before(time: Int64s, first: int, count: int, stop: int) -> int:
    """How many of `count` ascending times from `first` are before stop; its branches depend on `count` alone."""
    low = first
    while count > 1:
        half = count >> 1
        low += half if time[low + half - 1] < stop else 0
        count -= half
    return low - first + int(count == 1 and time[low] < stop)


# Whether rows are sound, and the merge of those of two directions


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


# Which rows of a snapshot are others than those of an earlier one on the same root


@allocating_kernel
def mark_changed(before: RowArrays, after: RowArrays, same_patch: bool, nodes: Int64s, changed: Bools) -> bool:
    """Marks which of these nodes have other edges, or at other places; False: a row leads out of its arrays.

    Both stand on the same root. Where patches are not the same, rows that reach into one count as changed.
    """
    old, new = np.empty((BLOCK, FIELDS), np.int64), np.empty((BLOCK, FIELDS), np.int64)
    words, others = before.live.words, after.live.words
    for low in range(0, nodes.size, BLOCK):
        high = min(low + BLOCK, nodes.size)
        if not locate(before, nodes, low, high, high, old) or not locate(after, nodes, low, high, high, new):
            return False
        for i in range(high - low):
            same = True
            for field in (FIRST, KEPT, REST, DEGREE):
                same &= old[i, field] == new[i, field]
            if old[i, REST] > 0:
                same &= same_patch and old[i, SECOND] == new[i, SECOND]
            # As many edges count; where all do, none can have taken another's place.
            if same and old[i, DEGREE] < old[i, KEPT] + old[i, REST]:
                same = _same_bits(words, others, old[i, FIRST], old[i, KEPT])
                same &= _same_bits(words, others, old[i, SECOND], old[i, REST])
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


# How often batches come by each node: what a frontier hands on to its neighbours, in one pass over the rows


@allocating_kernel
def spread(rows: RowArrays, visits: Float64s, fanout: int, low: int, high: int, reached: Float64s) -> bool:
    """Adds to `reached` how often edges lead there that nodes low ≤ id < high draw, visited as often as `visits` says.

    A node draws each of its d edges with chance min(fanout, d) / d. False: a row leads out of its arrays or its nodes.
    """
    indices, tail, words = rows.indices, rows.patch.indices, rows.live.words
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    held, every = indices.size, words.size == 0
    for first in range(low, high, BLOCK):
        count = min(BLOCK, high - first)
        if not locate_range(rows, first, count, nodes, spans):
            return False
        for i in range(count):
            degree, visit = spans[i, DEGREE], visits[first + i]
            if degree == 0 or visit == 0.0:
                continue
            part = visit if degree <= fanout else visit * np.float64(fanout) / np.float64(degree)
            for p in range(spans[i, FIRST], spans[i, FIRST] + spans[i, KEPT]):
                node = np.int64(indices[p])
                if node < 0 or node >= reached.size:
                    return False
                reached[node] += part if every or is_set(words, p) else 0.0
            for p in range(spans[i, SECOND], spans[i, SECOND] + spans[i, REST]):
                node = np.int64(tail[p - held])
                if node < 0 or node >= reached.size:
                    return False
                reached[node] += part if every or is_set(words, p) else 0.0
    return True

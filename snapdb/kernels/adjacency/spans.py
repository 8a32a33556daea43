"""The spans of logical rows in physical positions, for every encoding. They are located in blocks of nodes.

All kernels that read rows call `locate` first. It costs one random read per row (the bounds of the base), three more if
a delta may contain a part of the row, and two more if there is a bitmap. Each pass over a block of nodes prefetches
what the next pass reads, so that the reads of a block overlap.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Int64s, UInt64s
from snapdb.kernels.adjacency.forms import DeltaArrays, RowArrays
from snapdb.kernels.bits import count_bits, last_zeros, live_before, mask_between
from snapdb.kernels.compiled import kernel, prefetch

_Number = int | np.int64

AHEAD = 16
"""The distance, in nodes, at which the bounds of rows are prefetched."""
BLOCK = 128
"""The number of nodes whose rows are located together. Their spans occupy 6 KiB, which fits in the first-level
cache."""
BASE_START, BASE_LEN, DELTA_START, DELTA_LEN, BASE_LIVE, DEGREE = range(6)
"""Columns of `spans`, an int64 [rows, FIELDS]. A row consists of BASE_LEN positions from BASE_START and DELTA_LEN
positions from DELTA_START, all physical. BASE_LIVE is the number of live positions in the base, and DEGREE is the
number of live positions in both parts."""
FIELDS = 6
PLAIN_FIELDS = 2
"""The number of columns that specify a row of a base without a delta: BASE_START and BASE_LEN."""


@kernel
def is_plain(rows: RowArrays) -> bool:
    """Return whether rows consist only of a base in which every position is live."""
    return rows.degrees.size == 0 and rows.live.words.size == 0 and rows.delta.touched.size == 0


# `locate` makes several passes over a block instead of one pass per row. Each pass prefetches what the next one reads,
# and a part that an encoding does not have costs one branch per block.
@kernel
def locate(rows: RowArrays, nodes: Int64s, low: int, high: int, last: int, spans: Int64s) -> bool:
    """Write the spans of nodes[low:high] to spans[0:]. Returns whether all rows are within their arrays.

    Prefetches the bounds of nodes up to nodes[last - 1].
    """
    delta, held = rows.delta, rows.indices.size
    if is_plain(rows):
        return _locate_plain(rows.indptr, held, nodes, low, high, last, spans)
    _locate_base(rows, nodes, low, high, last, spans)
    if delta.touched.size > 0:
        _locate_delta(delta, nodes, low, high, spans)
    if rows.degrees.size > 0:
        _truncate(rows.degrees, nodes, low, high, spans)
    if not _are_within(held, delta.indices.size, high - low, spans):
        return False
    if rows.live.words.size > 0:
        _count_live(rows.live.words, rows.live.before, high - low, spans)
    return True


@kernel
def _base_range(indptr: Int64s, node: np.int64) -> tuple[np.int64, np.int64]:
    """Return the start and length of a node's base row, which is empty for a node beyond the base."""
    if node >= indptr.size - 1:
        return np.int64(0), np.int64(0)
    return indptr[node], indptr[node + 1] - indptr[node]


@kernel
def _locate_plain(indptr: Int64s, held: int, nodes: Int64s, low: int, high: int, last: int, spans: Int64s) -> bool:
    """Write all columns of `spans` for rows of a plain base. Returns whether all rows are within `held` positions."""
    outside: bool | np.bool_ = False
    for i in range(low, high):
        prefetch(indptr, nodes[min(i + AHEAD, last - 1)])
        span = i - low
        start, length = _base_range(indptr, nodes[i])
        outside |= (start < 0) | (length < 0) | (length > held - start)
        spans[span, BASE_START] = start
        spans[span, BASE_LEN] = length
        spans[span, DELTA_START] = held
        spans[span, DELTA_LEN] = 0
        spans[span, BASE_LIVE] = length
        spans[span, DEGREE] = length
    return not outside


@kernel
def _locate_base(rows: RowArrays, nodes: Int64s, low: int, high: int, last: int, spans: Int64s) -> None:
    """Write the ranges in the base, and prefetch what the later passes read."""
    indptr, degrees, words, before = rows.indptr, rows.degrees, rows.live.words, rows.live.before
    touched, ranks = rows.delta.touched, rows.delta.ranks
    for i in range(low, high):
        prefetch(indptr, nodes[min(i + AHEAD, last - 1)])
        node, span = nodes[i], i - low
        start, length = _base_range(indptr, node)
        spans[span, BASE_START] = start
        spans[span, BASE_LEN] = length
        spans[span, DELTA_LEN] = 0
        if degrees.size > 0:
            prefetch(degrees, node)
        if touched.size > 0:
            prefetch(touched, node >> 6)
            prefetch(ranks, node >> 6)
        if words.size > 0:
            prefetch(words, start >> 6)
            prefetch(words, (start + length) >> 6)
            prefetch(before, start >> 9 << 1)
            prefetch(before, (start + length) >> 9 << 1)


# Few nodes are touched. A bitmap with ranks (Jacobson, 1989) therefore keeps the test of a node in one cache line, and
# only touched nodes cost two more reads.
@kernel
def _locate_delta(delta: DeltaArrays, nodes: Int64s, low: int, high: int, spans: Int64s) -> None:
    """Write the ranges in the delta, and truncate those in the base.

    A base row that is shorter than its kept part is damaged and gets length -1.
    """
    touched, ranks, kept, indptr = delta.touched, delta.ranks, delta.kept, delta.indptr
    # The first pass computes each node's rank among the touched nodes, so that the second pass's reads are prefetched.
    for i in range(low, high):
        word, span = nodes[i] >> 6, i - low
        bits = touched[word] >> np.uint64(nodes[i] & 63)
        rank = ranks[word] + count_bits(touched[word]) - count_bits(bits)
        spans[span, DELTA_START] = rank
        spans[span, DELTA_LEN] = np.int64(bits & np.uint64(1))
        prefetch(kept, rank)
        prefetch(indptr, rank)
    for span in range(high - low):
        if spans[span, DELTA_LEN] != 0:
            rank = spans[span, DELTA_START]
            spans[span, BASE_LEN] = kept[rank] if kept[rank] <= spans[span, BASE_LEN] else -1
            spans[span, DELTA_START] = indptr[rank]
            spans[span, DELTA_LEN] = indptr[rank + 1] - indptr[rank]


@kernel
def _truncate(degrees: npt.NDArray[np.uint32], nodes: Int64s, low: int, high: int, spans: Int64s) -> None:
    """Truncate rows to `degrees` positions. A row that is shorter than its degree is damaged and gets length -1."""
    for i in range(low, high):
        span, degree = i - low, np.int64(degrees[nodes[i]])
        kept, rest = spans[span, BASE_LEN], spans[span, DELTA_LEN]
        spans[span, BASE_LEN] = min(kept, degree) if degree <= kept + rest else np.int64(-1)
        spans[span, DELTA_LEN] = max(degree - kept, np.int64(0))


@kernel
def _are_within(held: int, in_delta: int, count: int, spans: Int64s) -> bool:
    """Convert delta positions to physical ones and count all edges as live. Returns whether rows fit their arrays."""
    for span in range(count):
        start, length, rest = spans[span, BASE_START], spans[span, BASE_LEN], spans[span, DELTA_LEN]
        if start < 0 or length < 0 or length > held - start:
            return False
        second = np.int64(0)
        if rest != 0:
            second = spans[span, DELTA_START]
            if second < 0 or rest < 0 or rest > in_delta - second:
                return False
        spans[span, DELTA_START] = held + second
        spans[span, BASE_LIVE] = length
        spans[span, DEGREE] = length + rest
    return True


@kernel
def _count_live(words: UInt64s, before: Int64s, count: int, spans: Int64s) -> None:
    """Count the live positions in each row with rank queries on the bitmap, O(1) per row."""
    for span in range(count):
        start, length, rest = spans[span, BASE_START], spans[span, BASE_LEN], spans[span, DELTA_LEN]
        alive = live_before(words, before, start + length) - live_before(words, before, start)
        spans[span, BASE_LIVE] = alive
        spans[span, DEGREE] = alive
        if rest > 0:
            second = spans[span, DELTA_START]
            alive += live_before(words, before, second + rest) - live_before(words, before, second)
            spans[span, DEGREE] = alive


@kernel
def locate_range(rows: RowArrays, low: int, count: int, nodes: Int64s, spans: Int64s) -> bool:
    """Call `locate` for the nodes low, low + 1, …, at most BLOCK of them, which are written to `nodes` [BLOCK]."""
    for i in range(count):
        nodes[i] = low + i
    return bool(locate(rows, nodes, 0, count, count, spans))


@kernel
def is_whole(spans: Int64s, span: int | np.int64) -> bool:
    """Return whether a located row is a single range of live positions in the base.

    In such a row, ranks and positions differ by a constant.
    """
    return bool(spans[span, BASE_LEN] == spans[span, DEGREE] and spans[span, DELTA_LEN] == 0)


@kernel
def list_spans(words: UInt64s, spans: Int64s, count: int, positions: Int64s, at: _Number) -> _Number:
    """Write the live positions of located rows to positions[at:] and return their end."""
    for span in range(count):
        at = _list_range(words, spans[span, BASE_START], spans[span, BASE_LEN], positions, at)
        at = _list_range(words, spans[span, DELTA_START], spans[span, DELTA_LEN], positions, at)
    return at


@kernel
def _list_range(words: UInt64s, start: _Number, count: _Number, positions: Int64s, at: _Number) -> _Number:
    """Write the live positions of a range to positions[at:] and return their end."""
    if words.size == 0:
        for p in range(count):
            positions[at + p] = start + p
        return at + count
    stop = start + count
    for begin in range(start, stop, 64):
        word = mask_between(words, begin, min(begin + 64, stop))
        # Clearing the lowest set bit visits only live positions: O(set bits) per word instead of O(64).
        while word != np.uint64(0):
            positions[at] = begin + last_zeros(word)
            word &= word - np.uint64(1)
            at += 1
    return at

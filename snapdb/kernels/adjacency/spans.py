"""Where logical rows lie, whatever their form: some nodes at a time, as numbers that stay in the cache.

A loop works on arrays, not on `rows`: numba counts references at every access to a tuple's array, which would cost
more than the loop's own work.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Int64s, UInt64s
from snapdb.kernels.adjacency.forms import RowArrays
from snapdb.kernels.bits import count_bits, last_zeros, live_before, mask_between
from snapdb.kernels.compiled import kernel
from snapdb.kernels.intrinsics import prefetch

_Number = int | np.int64

AHEAD = 16
"""How many nodes ahead the bounds of rows are prefetched."""
BLOCK = 128
"""Nodes whose rows are located together: what is known of them stays in the cache."""
FIRST, KEPT, SECOND, REST, ALIVE, DEGREE = range(6)
"""What is known of a row: `KEPT` positions from `FIRST` in the root, `REST` from `SECOND` in the patch; how many of
those in the root are live, and how many in all."""
FIELDS = 6
PLAIN_FIELDS = 2
"""`FIRST` and `KEPT` tell all of a row that is nothing but a root's."""


@kernel
def is_plain(rows: RowArrays) -> bool:
    """Whether there is nothing but a root, all of which counts."""
    return rows.degrees.size == 0 and rows.live.words.size == 0 and rows.patch.touched.size == 0


@kernel
def locate(rows: RowArrays, nodes: Int64s, low: int, high: int, last: int, spans: Int64s) -> bool:
    """Writes where the rows of nodes[low:high] lie to spans[0:]; returns whether all are within their arrays.

    Nodes up to nodes[last - 1] are asked for ahead of their time.
    """
    patch, held = rows.patch, rows.indices.size
    if is_plain(rows):
        return _plain_rows(rows.indptr, held, nodes, low, high, last, spans)
    live = rows.live
    _of_root(
        rows.indptr, rows.degrees, live.words, live.before, patch.touched, patch.ranks, nodes, low, high, last, spans
    )
    if patch.touched.size > 0:
        _of_patch(patch.touched, patch.ranks, patch.kept, patch.indptr, nodes, low, high, held, spans)
    if rows.degrees.size > 0:
        _cut(rows.degrees, nodes, low, high, spans)
    if not _within(held, patch.indices.size, high - low, spans):
        return False
    if live.words.size > 0:
        _count_live(live.words, live.before, high - low, spans)
    return True


@kernel
def _plain_rows(indptr: Int64s, held: int, nodes: Int64s, low: int, high: int, last: int, spans: Int64s) -> bool:
    """All that `locate` writes where there is only a root."""
    outside: bool | np.bool_ = False
    for i in range(low, high):
        prefetch(indptr, nodes[min(i + AHEAD, last - 1)])
        node, span = nodes[i], i - low
        first, kept = np.int64(0), np.int64(0)
        if node < indptr.size - 1:
            first = indptr[node]
            kept = indptr[node + 1] - first
        outside |= (first < 0) | (kept < 0) | (kept > held - first)
        spans[span, FIRST] = first
        spans[span, KEPT] = kept
        spans[span, SECOND] = held
        spans[span, REST] = 0
        spans[span, ALIVE] = kept
        spans[span, DEGREE] = kept
    return not outside


@kernel
def _of_root(
    indptr: Int64s,
    degrees: npt.NDArray[np.uint32],
    words: UInt64s,
    before: Int64s,
    touched: UInt64s,
    ranks: Int64s,
    nodes: Int64s,
    low: int,
    high: int,
    last: int,
    spans: Int64s,
) -> None:
    """The rows of the root; what the later steps read is asked for."""
    for i in range(low, high):
        prefetch(indptr, nodes[min(i + AHEAD, last - 1)])
        node, span = nodes[i], i - low
        first, kept = np.int64(0), np.int64(0)
        if node < indptr.size - 1:
            first = indptr[node]
            kept = indptr[node + 1] - first
        spans[span, FIRST] = first
        spans[span, KEPT] = kept
        spans[span, REST] = 0
        if degrees.size > 0:
            prefetch(degrees, node)
        if touched.size > 0:
            prefetch(touched, node >> 6)
            prefetch(ranks, node >> 6)
        if words.size > 0:
            prefetch(words, first >> 6)
            prefetch(words, (first + kept) >> 6)
            prefetch(before, first >> 9 << 1)
            prefetch(before, (first + kept) >> 9 << 1)


@kernel
def _of_patch(
    touched: UInt64s,
    ranks: Int64s,
    kept: Int64s,
    indptr: Int64s,
    nodes: Int64s,
    low: int,
    high: int,
    held: int,
    spans: Int64s,
) -> None:
    """Where the patch takes over; a row of the root that is shorter than what the patch keeps of it is damaged.

    Ranks come first, so that what stands there is on its way when it is read.
    """
    for i in range(low, high):
        word, span = nodes[i] >> 6, i - low
        bits = touched[word] >> np.uint64(nodes[i] & 63)
        rank = ranks[word] + count_bits(touched[word]) - count_bits(bits)
        spans[span, SECOND] = rank
        spans[span, REST] = np.int64(bits & np.uint64(1))
        prefetch(kept, rank)
        prefetch(indptr, rank)
    for span in range(high - low):
        if spans[span, REST] != 0:
            rank = spans[span, SECOND]
            spans[span, KEPT] = kept[rank] if kept[rank] <= spans[span, KEPT] else -1
            spans[span, SECOND] = indptr[rank]
            spans[span, REST] = indptr[rank + 1] - indptr[rank]


@kernel
def _cut(degrees: npt.NDArray[np.uint32], nodes: Int64s, low: int, high: int, spans: Int64s) -> None:
    """Rows that end early; one that would have to grow is damaged."""
    for i in range(low, high):
        span, degree = i - low, np.int64(degrees[nodes[i]])
        kept, rest = spans[span, KEPT], spans[span, REST]
        spans[span, KEPT] = min(kept, degree) if degree <= kept + rest else np.int64(-1)
        spans[span, REST] = max(degree - kept, np.int64(0))


@kernel
def _within(held: int, patched: int, count: int, spans: Int64s) -> bool:
    """Whether rows are within their arrays; those of the patch then begin after the root's, and all edges are live."""
    for span in range(count):
        first, kept, rest = spans[span, FIRST], spans[span, KEPT], spans[span, REST]
        if first < 0 or kept < 0 or kept > held - first:
            return False
        second = np.int64(0)
        if rest != 0:
            second = spans[span, SECOND]
            if second < 0 or rest < 0 or rest > patched - second:
                return False
        spans[span, SECOND] = held + second
        spans[span, ALIVE] = kept
        spans[span, DEGREE] = kept + rest
    return True


@kernel
def _count_live(words: UInt64s, before: Int64s, count: int, spans: Int64s) -> None:
    """How many positions of each row are live."""
    for span in range(count):
        first, kept, rest = spans[span, FIRST], spans[span, KEPT], spans[span, REST]
        alive = live_before(words, before, first + kept) - live_before(words, before, first)
        spans[span, ALIVE] = alive
        spans[span, DEGREE] = alive
        if rest > 0:
            second = spans[span, SECOND]
            alive += live_before(words, before, second + rest) - live_before(words, before, second)
            spans[span, DEGREE] = alive


@kernel
def locate_range(rows: RowArrays, low: int, count: int, nodes: Int64s, spans: Int64s) -> bool:
    """The same for nodes low, low + 1, …, at most BLOCK of them, which `nodes` [BLOCK] holds afterwards."""
    for i in range(count):
        nodes[i] = low + i
    return bool(locate(rows, nodes, 0, count, count, spans))


@kernel
def list_spans(words: UInt64s, spans: Int64s, count: int, positions: Int64s, at: _Number) -> _Number:
    """Writes the positions of located rows to positions[at:]; returns where they end."""
    for span in range(count):
        at = _list_stretch(words, spans[span, FIRST], spans[span, KEPT], positions, at)
        at = _list_stretch(words, spans[span, SECOND], spans[span, REST], positions, at)
    return at


@kernel
def _list_stretch(words: UInt64s, start: _Number, count: _Number, positions: Int64s, at: _Number) -> _Number:
    """Writes the positions of a stretch that are in the snapshot to positions[at:]; returns where they end."""
    if words.size == 0:
        for p in range(count):
            positions[at + p] = start + p
        return at + count
    stop = start + count
    for begin in range(start, stop, 64):
        word = mask_between(words, begin, min(begin + 64, stop))
        while word != np.uint64(0):
            positions[at] = begin + last_zeros(word)
            word &= word - np.uint64(1)
            at += 1
    return at

"""Which stretches of rows are in time, found by binary search and counted without reading them, however long they are.

Times ascend within a row, so what is in time is at most two stretches of each of its parts (the root's and the
patch's, or of BOTH the edges in and those out): edges without a time, which come first, and those between two moments.
"""

import numpy as np

from snapdb.arrays import Bools, Int64s, UInt64s
from snapdb.kernels.bits import live_before
from snapdb.kernels.compiled import kernel
from snapdb.kernels.eligible import (
    COUNT,
    LENGTH,
    LISTED,
    PAIRS,
    START,
    STATIC,
    STRETCHES,
    TOTAL,
    Moments,
    Pairs,
    WalkArrays,
)
from snapdb.kernels.intrinsics import prefetch
from snapdb.kernels.spans import FIRST, KEPT, REST, SECOND, locate

_Number = int | np.int64


@kernel
def find_windows(
    walk: WalkArrays,
    moments: Moments,
    pairs: Pairs,
    frontier: Int64s,
    trees: Int64s,
    first: int,
    last: int,
    ahead: int,
    spans: Int64s,
    windows: Int64s,
) -> bool:
    """Writes the stretches of frontier[first:last] to windows[0:]; returns whether all rows are within their arrays."""
    rows, count = walk.rows, last - first
    if not locate(rows, frontier, first, last, ahead, spans):
        return False
    _open(walk.outward, spans, count, windows)
    timed = moments.high.size > 0
    if timed and walk.time_root.size + walk.time_patch.size > 0:
        bounded = walk.until_root.size + walk.until_patch.size == 0  # what has an end may begin before `low`
        _cut(walk.time_root, walk.time_patch, bounded, moments.low, moments.high, trees, first, count, windows)
    _count(rows.live.words, rows.live.before, count, windows)
    listed = timed and (walk.until_root.size + walk.until_patch.size > 0 or walk.born.size > 0)
    for span in range(count):
        windows[span, LISTED] = np.int64(listed)
        for field in range(PAIRS, PAIRS + 4):
            windows[span, field] = 0
    if pairs.far.size > 0:
        _find_pairs(pairs, frontier, trees, first, count, walk.outward.size > 0, windows)
    return True


@kernel
def _open(outward: Bools, spans: Int64s, count: int, windows: Int64s) -> None:
    """The two parts of each row, as stretches 0 and 2."""
    for span in range(count):
        start, kept = spans[span, FIRST], spans[span, KEPT]
        second, rest = spans[span, SECOND], spans[span, REST]
        if outward.size > 0:  # such rows have no patch
            low, high = start, start + kept
            while low < high:
                middle = (low + high) >> 1
                if outward[middle]:
                    high = middle
                else:
                    low = middle + 1
            second, rest, kept = low, start + kept - low, low - start
        windows[span, START] = start
        windows[span, LENGTH] = kept
        windows[span, START + 2] = second
        windows[span, LENGTH + 2] = rest
        for part in (1, 3):  # empty, and at a start from which no distance is too great for 64 bits
            windows[span, START + part] = windows[span, LENGTH + part] = 0


@kernel
def _cut(
    root: Int64s,
    patch: Int64s,
    bounded: bool,
    lows: Int64s,
    highs: Int64s,
    trees: Int64s,
    first: int,
    count: int,
    windows: Int64s,
) -> None:
    """Leaves of each part what has no time, and what is in its tree's time."""
    for span in range(count):  # where the search of the root's part begins
        prefetch(root, windows[span, START] + (windows[span, LENGTH] >> 1))
    for span in range(count):
        tree = trees[first + span]
        low = lows[tree] if bounded else np.int64(STATIC)
        high = max(highs[tree], np.int64(STATIC) + 1)
        for part in (0, 2):
            start, length = windows[span, START + part], windows[span, LENGTH + part]
            if length == 0:
                continue
            late = start >= root.size
            times, shift = (patch, root.size) if late else (root, 0)
            stop = _before(times, start - shift, length, high)
            static: _Number = np.int64(0)
            begin: _Number = np.int64(0)
            if low > STATIC:
                static = _before(times, start - shift, stop, np.int64(STATIC) + 1)
                begin = _before(times, start - shift, stop, low)
            windows[span, LENGTH + part] = static
            windows[span, START + part + 1] = start + begin
            windows[span, LENGTH + part + 1] = stop - begin


@kernel
def _before(times: Int64s, first: _Number, count: _Number, stop: _Number) -> _Number:
    """How many of `count` ascending times from `first` are before stop."""
    low = first
    while count > 1:
        half = count >> 1
        low += half if times[low + half - 1] < stop else np.int64(0)
        count -= half
    return low - first + np.int64(count == 1 and times[low] < stop)


@kernel
def _count(words: UInt64s, before: Int64s, count: int, windows: Int64s) -> None:
    """How many positions of each stretch are live, and of all of a row."""
    for span in range(count):
        total = np.int64(0)
        for w in range(STRETCHES):
            length = windows[span, LENGTH + w]
            if words.size > 0 and length > 0:
                start = windows[span, START + w]
                length = live_before(words, before, start + length) - live_before(words, before, start)
            windows[span, COUNT + w] = length
            total += length
        windows[span, TOTAL] = total


@kernel
def _find_pairs(
    pairs: Pairs, frontier: Int64s, trees: Int64s, first: int, count: int, both: bool, windows: Int64s
) -> None:
    """Where the pairs of each row's node are; only rows that have some must be looked at for them."""
    owner, near = pairs.trees, pairs.near
    for span in range(count):
        node = frontier[first + span]
        tree = trees[first + span] if trees.size > 0 else np.int64(0)
        for part in range(2 if both else 1):
            begin, end = (pairs.split, near.size) if part else (0, pairs.split)
            low = _pair_before(owner, near, begin, end, tree, node)
            high = _pair_before(owner, near, low, end, tree, node + 1)
            windows[span, PAIRS + 2 * part] = low
            windows[span, PAIRS + 2 * part + 1] = high
            windows[span, LISTED] |= np.int64(low < high)
        if not both:
            windows[span, PAIRS + 2] = windows[span, PAIRS]
            windows[span, PAIRS + 3] = windows[span, PAIRS + 1]


@kernel
def _pair_before(owner: Int64s, near: Int64s, low: _Number, high: _Number, tree: _Number, node: _Number) -> _Number:
    """The first of pairs[low:high] that is not before (tree, node)."""
    while low < high:
        middle = (low + high) >> 1
        if owner[middle] < tree or (owner[middle] == tree and near[middle] < node):
            low = middle + 1
        else:
            high = middle
    return low

"""Which edges of a row may be drawn: those in time, of neighbours that are born, and not excluded.

What is in time is found as stretches of a row, by `find_windows`. What no search can find (when edges end, when
neighbours are born, which pairs are excluded) is looked at edge by edge, in rows that need it alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from snapdb.arrays import Array, Bools, Float64s, Int64s, UInt64s
from snapdb.kernels.adjacency.forms import RowArrays
from snapdb.kernels.adjacency.spans import FIRST, KEPT, REST, SECOND, locate
from snapdb.kernels.bits import is_set, live_before
from snapdb.kernels.compiled import kernel
from snapdb.kernels.intrinsics import prefetch

_Number = int | np.int64

STRETCHES = 4
START, LENGTH, COUNT, PAIRS = 0, 4, 8, 12
"""Of each stretch: where it starts, how many positions it has, how many of those are live. Of the pairs that a row's
node is in: where those for its first part start and stop, then those for its second."""
TOTAL, LISTED = 16, 17
"""How many edges all stretches have, and whether each must be looked at: then fewer may be eligible."""
WINDOW_FIELDS = 18
STATIC = -(2**63)
"""The time of an edge that is always in time."""


class WalkArrays(NamedTuple):
    """A relation's rows and columns, each of the root and of the patch; a column that is not needed is empty."""

    rows: RowArrays
    id_root: Array
    id_patch: Array
    time_root: Int64s
    time_patch: Int64s
    until_root: Int64s
    until_patch: Int64s
    weight_root: Float64s
    weight_patch: Float64s
    outward: Bools
    """For BOTH: by position."""
    born: Int64s
    """By neighbour."""


class Moments(NamedTuple):
    """What each tree may see, by tree; all empty where trees are not disjoint."""

    low: Int64s
    high: Int64s
    """Edges with low ≤ time < high, and without a time; neighbours that are born before high."""
    after: Int64s
    """Edges that end after this, where edges have ends."""
    since: Int64s
    """From when on the tree's own pairs are excluded; edges without a time always are."""
    ordinals: Int64s
    """The part of pick keys that tells trees apart."""


class Pairs(NamedTuple):
    """Edges that are excluded: `near` is a row's node, `far` its neighbour, sorted by (tree, near, far)."""

    split: int
    """The first ones are for rows walked one way; of BOTH rows for the edges in, and those from here for the rest."""
    trees: Int64s
    """All 0 where trees are not disjoint."""
    near: Int64s
    far: Int64s


@kernel
def value_at(root: Array, patch: Array, position: _Number) -> Any:
    """A column's value at a physical position."""
    return root[position] if position < root.size else patch[position - root.size]


@kernel
def drop_zeros(root: Float64s, patch: Float64s, places: Int64s, count: _Number) -> _Number:
    """Leaves of places[:count] the edges that weigh something; returns how many. Without weights all do."""
    if root.size + patch.size == 0:
        return np.int64(count)
    left = np.int64(0)
    for i in range(count):
        places[left] = places[i]
        left += np.int64(value_at(root, patch, places[i]) > 0.0)
    return left


@kernel
def list_live(words: UInt64s, windows: Int64s, span: int, out: Int64s) -> int:
    """Writes all positions of a row's stretches, by rank, to `out`; returns how many."""
    at = 0
    for w in range(STRETCHES):
        at = _list_stretch(words, windows[span, START + w], windows[span, LENGTH + w], out, at)
    return at


@kernel
def _list_stretch(words: UInt64s, start: _Number, length: _Number, out: Int64s, at: int) -> int:
    for p in range(start, start + length):
        if words.size == 0 or is_set(words, p):
            out[at] = p
            at += 1
    return at


@kernel
def list_row(
    walk: WalkArrays, moments: Moments, pairs: Pairs, tree: _Number, windows: Int64s, span: int, out: Int64s
) -> int:
    """Writes the positions of a row's eligible edges, by rank, to `out`; returns how many, -1: damaged."""
    words, at = walk.rows.live.words, 0
    for w in range(STRETCHES):
        begin = at
        at = _list_stretch(words, windows[span, START + w], windows[span, LENGTH + w], out, at)
        low, high = windows[span, PAIRS + (w & 2)], windows[span, PAIRS + (w & 2) + 1]
        at = _keep(walk, moments, pairs.far, low, high, tree, out, begin, at)
        if at < 0:
            return -1
    return at


@kernel
def _keep(
    walk: WalkArrays,
    moments: Moments,
    barred: Int64s,
    first: int,
    last: int,
    tree: _Number,
    out: Int64s,
    begin: int,
    end: int,
) -> int:
    """Leaves of out[begin:end] what is eligible, nothing to barred[first:last]; returns its end, -1: damaged."""
    indices, tail, born = walk.rows.indices, walk.rows.patch.indices, walk.born
    time_root, time_patch, until_root, until_patch = walk.time_root, walk.time_patch, walk.until_root, walk.until_patch
    timed = moments.high.size > 0
    dated = timed and time_root.size + time_patch.size > 0
    ending = dated and until_root.size + until_patch.size > 0
    after = moments.after[tree] if timed else np.int64(0)
    high = moments.high[tree] if timed else np.int64(0)
    since = moments.since[tree] if timed else np.int64(STATIC)
    at = begin
    for e in range(begin, end):
        p = out[e]
        far = np.int64(value_at(indices, tail, p))
        time = value_at(time_root, time_patch, p) if dated else np.int64(STATIC)
        if ending and time != STATIC and value_at(until_root, until_patch, p) <= after:
            continue
        if timed and born.size > 0:
            if far < 0 or far >= born.size:
                return -1
            if born[far] >= high:
                continue
        if first < last and (time >= since or time == STATIC) and _holds(barred, first, last, far):
            continue
        out[at] = p
        at += 1
    return at


@kernel
def _holds(values: Int64s, low: int, high: int, value: _Number) -> bool:
    """Whether one of the ascending values[low:high] is this one."""
    last = high
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < last and bool(values[low] == value)


# Which stretches of rows are in time, found by binary search and counted without reading them, however long they are


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

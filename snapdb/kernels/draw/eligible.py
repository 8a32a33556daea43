"""The eligible edges of a row: edges within the time bounds that are not excluded and whose neighbours exist by then.

Edges are time-sorted within a row, so the edges within time bounds are ranges of the row. `find_windows` finds these
ranges by binary search, in O(log degree) per row, without reading the edges. Conditions that no search can decide (the
ends of edges, the births of neighbours, and excluded pairs) are checked for each edge, but only in rows that need it.

Reference implementation: `logical_row` and `may_see` in tests/support/oracle/graph.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Bools, Int64s, UInt64s
from snapdb.kernels.adjacency.forms import ColumnArrays, RowArrays, has_values, neighbor_at, value_at
from snapdb.kernels.adjacency.rows import count_before
from snapdb.kernels.adjacency.spans import BASE_LEN, BASE_START, DELTA_LEN, DELTA_START, locate
from snapdb.kernels.bits import is_set, live_before
from snapdb.kernels.compiled import kernel, prefetch
from snapdb.kernels.rng import fold

_Number = int | np.int64

STRETCHES = 4
START, LENGTH, COUNT, PAIRS = 0, 4, 8, 12
"""Columns of `windows`, an int64 [rows, WINDOW_FIELDS].

A row has 4 ranges: the static and the dated edges of its first part, then those of its second part. START, LENGTH and
COUNT are each the first of four columns, with the start, the number of positions and the number of live positions of
each range. PAIRS is the first of four columns with the start and stop of the excluded pairs of the row's node, for its
first and second part."""
TOTAL, LISTED = 16, 17
"""The columns for the number of edges in all ranges, and for whether each edge must be checked because some edges may
not be eligible."""
WINDOW_FIELDS = 18
STATIC = -(2**63)
"""The event time that represents static edges, which are within all time bounds."""


class TraversalArrays(NamedTuple):
    """A relation's rows and the columns that draws read. Columns that are not needed are empty."""

    rows: RowArrays
    """The rows in the form that kernels read."""
    ids: ColumnArrays
    """Edge ids, int32 or int64."""
    times: ColumnArrays
    """Event times, int64."""
    ends: ColumnArrays
    """End times of edges, int64."""
    weights: ColumnArrays
    """Weights of edges, float64."""
    outward: Bools
    """[positions] Whether the edge is traversed from its source, for direction BOTH. Empty for other directions."""
    born: Int64s
    """[neighbours] The times at which neighbours start to exist, or an empty array."""


class TimeBounds(NamedTuple):
    """The time bounds of each disjoint tree. All arrays are empty if trees are not disjoint."""

    low: Int64s
    """[trees] The lower bound. Edges with low ≤ time < high, and edges without a time, are eligible."""
    high: Int64s
    """[trees] The upper bound of event times. Neighbours must also be born before it."""
    after: Int64s
    """[trees] The time after which edges with an end must end to be eligible."""
    since: Int64s
    """[trees] The time from which excluded pairs apply to edges. They also apply to edges without a time."""
    ordinals: Int64s
    """[trees] The ordinal that is folded into pick keys, so that trees draw independently."""


class ExcludedPairs(NamedTuple):
    """The excluded edges, sorted by (tree, row_node, neighbor)."""

    split: int
    """The first `split` pairs apply to rows of one direction. Under BOTH, they apply to the IN edges, and the other
    pairs to the OUT edges."""
    trees: Int64s
    """The tree of each pair. All values are 0 if trees are not disjoint."""
    row_node: Int64s
    """The dense id of the row's node."""
    neighbor: Int64s
    """The dense id of the neighbour."""


class Eligibility(NamedTuple):
    """The time bounds and excluded pairs that determine which edges of a row are eligible."""

    bounds: TimeBounds
    excluded: ExcludedPairs


class Frontier(NamedTuple):
    """The nodes of a batch so far. A hop expands a range of them."""

    nodes: Int64s
    """The dense ids of the nodes, by local id."""
    trees: Int64s
    """The tree of each node, by local id. The array is empty if trees are not disjoint."""


@kernel
def tree_of(frontier: Frontier, i: int) -> _Number:
    """Return the tree of a frontier node, or 0 if trees are not disjoint."""
    return frontier.trees[i] if frontier.trees.size > 0 else np.int64(0)


@kernel
def key_in_tree(prefix: np.uint64, node: _Number, bounds: TimeBounds, tree: _Number) -> np.uint64:
    """Return the key of a node's draws. It includes the ordinal of the node's tree if trees are disjoint."""
    key: np.uint64 = fold(prefix, np.uint64(node))
    if bounds.ordinals.size > 0:
        key = fold(key, np.uint64(bounds.ordinals[tree]))
    return key


@kernel
def drop_zeros(weights: ColumnArrays, places: Int64s, count: _Number) -> _Number:
    """Move the edges in places[:count] that have a positive weight to the front, and return their number.

    Without weights, all edges are kept.
    """
    if not has_values(weights):
        return np.int64(count)
    left = np.int64(0)
    for i in range(count):
        places[left] = places[i]
        left += np.int64(value_at(weights, places[i]) > 0.0)
    return left


# A row as a list of positions, for draws that need more than ranks. It costs one bit test per position in the ranges
# and, only if LISTED, one read per edge of the columns that the bounds need.
@kernel
def list_live(words: UInt64s, windows: Int64s, span: int, out: Int64s) -> int:
    """Write the live positions in a row's ranges to `out`, by rank, and return their number."""
    at = 0
    for w in range(STRETCHES):
        at = _list_range(words, windows[span, START + w], windows[span, LENGTH + w], out, at)
    return at


@kernel
def _list_range(words: UInt64s, start: _Number, length: _Number, out: Int64s, at: int) -> int:
    """Write the live positions in a range to out[at:] and return their end."""
    for p in range(start, start + length):
        if words.size == 0 or is_set(words, p):
            out[at] = p
            at += 1
    return at


@kernel
def list_row(
    traversal: TraversalArrays, eligible: Eligibility, tree: _Number, windows: Int64s, span: int, out: Int64s
) -> int:
    """Write the positions of a row's eligible edges to `out`, by rank. Returns their number, or -1 for damage."""
    words, at = traversal.rows.live.words, 0
    for w in range(STRETCHES):
        begin = at
        at = _list_range(words, windows[span, START + w], windows[span, LENGTH + w], out, at)
        pairs = (windows[span, PAIRS + (w & 2)], windows[span, PAIRS + (w & 2) + 1])
        at = _filter(traversal, eligible, pairs, tree, out, begin, at)
        if at < 0:
            return -1
    return at


@kernel
def _filter(
    traversal: TraversalArrays,
    eligible: Eligibility,
    pairs: tuple[np.int64, np.int64],
    tree: _Number,
    out: Int64s,
    begin: int,
    end: int,
) -> int:
    """Compact out[begin:end] to the eligible positions. Returns their end, or -1 for damage.

    `pairs` is the range of the excluded pairs for the row's node.
    """
    bounds, born, barred, (first, last) = eligible.bounds, traversal.born, eligible.excluded.neighbor, pairs
    timed = bounds.high.size > 0
    dated = timed and has_values(traversal.times)
    ending = dated and has_values(traversal.ends)
    after = bounds.after[tree] if timed else np.int64(0)
    high = bounds.high[tree] if timed else np.int64(0)
    since = bounds.since[tree] if timed else np.int64(STATIC)
    at = begin
    for e in range(begin, end):
        p = out[e]
        neighbor = neighbor_at(traversal.rows, p)
        time = value_at(traversal.times, p) if dated else np.int64(STATIC)
        if ending and time != STATIC and value_at(traversal.ends, p) <= after:
            continue
        if timed and born.size > 0:
            if neighbor < 0 or neighbor >= born.size:
                return -1
            if born[neighbor] >= high:
                continue
        if first < last and (time >= since or time == STATIC) and _holds(barred, first, last, neighbor):
            continue
        out[at] = p
        at += 1
    return at


@kernel
def _holds(values: Int64s, low: _Number, high: _Number, value: _Number) -> bool:
    """Return whether the ascending values[low:high] contain a value. Uses binary search."""
    last = high
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return bool(low < last and values[low] == value)


# The ranges of rows within time bounds. Each part of a row is time-sorted, with static edges first, so two branchless
# binary searches find its range. Rank queries on the bitmap count the live positions in a range without a pass over it.
@kernel
def find_windows(
    traversal: TraversalArrays,
    eligible: Eligibility,
    frontier: Frontier,
    first: int,
    last: int,
    ahead: int,
    spans: Int64s,
    windows: Int64s,
) -> bool:
    """Write the ranges of frontier[first:last] to windows[0:]. Returns whether all rows are within their arrays."""
    rows, bounds, count = traversal.rows, eligible.bounds, last - first
    if not locate(rows, frontier.nodes, first, last, ahead, spans):
        return False
    _open(traversal.outward, spans, count, windows)
    timed, ending = bounds.high.size > 0, has_values(traversal.ends)
    if timed and has_values(traversal.times):
        _cut(traversal.times, bounds, not ending, frontier.trees, first, count, windows)
    _count(rows.live.words, rows.live.before, count, windows)
    listed = timed and (ending or traversal.born.size > 0)
    for span in range(count):
        windows[span, LISTED] = np.int64(listed)
        for field in range(PAIRS, PAIRS + 4):
            windows[span, field] = 0
    if eligible.excluded.neighbor.size > 0:
        _find_pairs(eligible.excluded, frontier, first, count, traversal.outward.size > 0, windows)
    return True


@kernel
def _open(outward: Bools, spans: Int64s, count: int, windows: Int64s) -> None:
    """Write a row's two parts as ranges 0 and 2: base and delta or, for direction BOTH, IN edges and OUT edges."""
    for span in range(count):
        start, length = spans[span, BASE_START], spans[span, BASE_LEN]
        second, rest = spans[span, DELTA_START], spans[span, DELTA_LEN]
        if outward.size > 0:  # such rows have no delta
            # IN edges precede OUT edges in such a row, so a binary search finds the boundary.
            low, high = start, start + length
            while low < high:
                middle = (low + high) >> 1
                if outward[middle]:
                    high = middle
                else:
                    low = middle + 1
            second, rest, length = low, start + length - low, low - start
        windows[span, START] = start
        windows[span, LENGTH] = length
        windows[span, START + 2] = second
        windows[span, LENGTH + 2] = rest
        for part in (1, 3):  # an empty range, with a start from which no distance overflows 64 bits
            windows[span, START + part] = windows[span, LENGTH + part] = 0


@kernel
def _cut(
    times: ColumnArrays, bounds: TimeBounds, bounded: bool, trees: Int64s, first: int, count: int, windows: Int64s
) -> None:
    """Reduce each part to its static edges and to the dated edges within its tree's time bounds.

    `bounded` is whether `low` applies. An edge with an end can start before `low`, in which case `_filter` decides.
    """
    base = times.base
    # The first probe of each binary search is a cache miss, so all of a block's first probes are prefetched before the
    # first search.
    for span in range(count):
        prefetch(base, windows[span, START] + (windows[span, LENGTH] >> 1))
    for span in range(count):
        tree = trees[first + span]
        low = bounds.low[tree] if bounded else np.int64(STATIC)
        high = max(bounds.high[tree], np.int64(STATIC) + 1)
        for part in (0, 2):
            start, length = windows[span, START + part], windows[span, LENGTH + part]
            if length == 0:
                continue
            late = start >= base.size
            values, shift = (times.delta, base.size) if late else (base, 0)
            stop = count_before(values, start - shift, length, high)
            static: _Number = np.int64(0)
            begin: _Number = np.int64(0)
            if low > STATIC:
                static = count_before(values, start - shift, stop, np.int64(STATIC) + 1)
                begin = count_before(values, start - shift, stop, low)
            windows[span, LENGTH + part] = static
            windows[span, START + part + 1] = start + begin
            windows[span, LENGTH + part + 1] = stop - begin


@kernel
def _count(words: UInt64s, before: Int64s, count: int, windows: Int64s) -> None:
    """Write the number of live positions in each range to COUNT, and their sum to TOTAL."""
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
    excluded: ExcludedPairs, frontier: Frontier, first: int, count: int, both: bool, windows: Int64s
) -> None:
    """Write the range of each node's excluded pairs to PAIRS, and set LISTED for rows that have any."""
    pairs = excluded.row_node.size
    for span in range(count):
        node, tree = frontier.nodes[first + span], tree_of(frontier, first + span)
        for part in range(2 if both else 1):
            begin, end = (excluded.split, pairs) if part else (0, excluded.split)
            low = _first_pair(excluded, begin, end, tree, node)
            high = _first_pair(excluded, low, end, tree, node + 1)
            windows[span, PAIRS + 2 * part] = low
            windows[span, PAIRS + 2 * part + 1] = high
            windows[span, LISTED] |= np.int64(low < high)
        if not both:
            windows[span, PAIRS + 2] = windows[span, PAIRS]
            windows[span, PAIRS + 3] = windows[span, PAIRS + 1]


@kernel
def _first_pair(excluded: ExcludedPairs, low: _Number, high: _Number, tree: _Number, node: _Number) -> _Number:
    """Binary search for the first pair in pairs[low:high] that is not less than (tree, node)."""
    trees, row_node = excluded.trees, excluded.row_node
    while low < high:
        middle = (low + high) >> 1
        if trees[middle] < tree or (trees[middle] == tree and row_node[middle] < node):
            low = middle + 1
        else:
            high = middle
    return low

"""Walks over rows of any encoding, with time bounds, a clock, weights and biases of the second order.

Reference implementation: `walk` in tests/support/oracle/walks.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Int64s, UInt64s
from snapdb.kernels.adjacency.forms import has_values, neighbor_at, value_at
from snapdb.kernels.bits import is_set
from snapdb.kernels.compiled import kernel, prefetch
from snapdb.kernels.draw.eligible import (
    COUNT,
    LENGTH,
    LISTED,
    START,
    STATIC,
    STRETCHES,
    TOTAL,
    Eligibility,
    Frontier,
    TimeBounds,
    TraversalArrays,
    drop_zeros,
    find_windows,
    list_live,
    list_row,
)
from snapdb.kernels.draw.floyd import place_ranks
from snapdb.kernels.rng import below, draw, fold
from snapdb.kernels.walks.neighbors import NeighborSets, holds, may_hold
from snapdb.kernels.walks.problem import (
    BACKWARD,
    FIRST_TIME,
    FORWARD,
    LAST_TIME,
    NO_STEP,
    UNTIMED,
    WalkArrays,
    WalkRule,
    restarts,
)

_Number = int | np.int64


class WalkRows(NamedTuple):
    """A relation's rows and the structures over them. Structures that do not exist are empty."""

    whole: TraversalArrays
    """The rows with all columns that steps read."""
    cut: TraversalArrays
    """The rows without the ends of edges, so that `find_windows` applies the lower bound of the clock to all edges."""
    sets: NeighborSets
    """The neighbours of each row as a set, for plain rows without time bounds."""
    sums: Int64s
    """[positions] The prefix sums of each row's weights (see `weight_sums`), for plain rows without times."""


class StepArrays(NamedTuple):
    """The steps that a block of walks takes together, and their working memory."""

    walks: Int64s
    """[BLOCK] The walk of each step."""
    nodes: Int64s
    """[BLOCK] The vertex of each step."""
    slots: Int64s
    """[BLOCK] The numbers 0, 1, …, because each step has its own time bounds."""
    before: Int64s
    """[BLOCK] The previous vertex of each step. Without one, the vertex itself."""
    trees: Int64s
    """[BLOCK] The seed of each step."""
    biased: Int64s
    """[BLOCK] Whether a step depends on its previous vertex."""
    keys: UInt64s
    """[BLOCK] The key of each step."""
    bounds: TimeBounds
    """[BLOCK] The time bounds of each step, by the seed and by the clock."""
    spans: Int64s
    """[BLOCK, FIELDS] Working memory of `locate`."""
    windows: Int64s
    """[BLOCK, WINDOW_FIELDS] The ranges of each vertex's row."""
    known: Int64s
    """[BLOCK, WINDOW_FIELDS] The ranges of each previous vertex's row."""
    places: Int64s
    """[longest row] The positions of a listed row. At least one."""
    sums: Int64s
    """[longest row] The prefix sums of a listed row's weights."""


# The walks of a block take each step together, so that the reads of `find_windows` and of the drawn edges overlap. A
# step costs O(log degree) with time bounds. It costs O(degree) if edges have ends, neighbours have births, or weights
# have no prefix sums. Biases of the second order cost as much again per search among the previous vertex's neighbours,
# unless the rows have sets.
@kernel
def walk_limited(
    rows: WalkRows,
    limits: Eligibility,
    rule: WalkRule,
    per_seed: int,
    walks: WalkArrays,
    first: int,
    last: int,
    steps: StepArrays,
) -> bool:
    """Take the steps first ≤ i < last of all walks. Returns whether all rows and neighbours are within their arrays."""
    block = steps.nodes.size
    for low in range(0, walks.keys.size, block):
        high = min(low + block, walks.keys.size)
        for i in range(first, last):
            count = _begin(rows, limits.bounds, rule, per_seed, walks, i, low, high, steps)
            if not _find(rows, limits, rule, steps, count):
                return False
            for s in range(count):
                position = _choose(rows, limits, rule, steps, s)
                if position == -2:
                    return False
                walks.positions[steps.walks[s], i] = position
                if position >= 0:
                    prefetch(rows.whole.rows.indices, position)
            for s in range(count):
                if not _finish(rows.whole, rule, walks, i, steps.walks[s]):
                    return False
    return True


@kernel
def _begin(
    rows: WalkRows,
    seeds: TimeBounds,
    rule: WalkRule,
    per_seed: int,
    walks: WalkArrays,
    i: int,
    low: int,
    high: int,
    steps: StepArrays,
) -> int:
    """Start step i of the walks low ≤ w < high: restart, end, or list the step. Returns the number of listed steps."""
    nodes, positions, bounds = walks.nodes, walks.positions, steps.bounds
    ending = has_values(rows.whole.ends)
    count = 0
    for w in range(low, high):
        node = nodes[w, i]
        nodes[w, i + 1] = NO_STEP
        positions[w, i] = NO_STEP
        if node < 0:
            continue
        key = fold(walks.keys[w], np.uint64(i))
        if restarts(rule, key):
            nodes[w, i + 1] = nodes[w, 0]
            if rule.clock != UNTIMED:
                walks.low[w] = FIRST_TIME
                walks.high[w] = LAST_TIME
            continue
        fresh = i == 0 or positions[w, i - 1] < 0
        steps.walks[count] = w
        steps.nodes[count] = node
        steps.before[count] = node if fresh else nodes[w, i - 1]
        steps.biased[count] = np.int64(not fresh and not (rule.back == rule.near and rule.near == rule.far))
        steps.trees[count] = w // per_seed
        steps.keys[count] = key
        if bounds.high.size > 0:
            after, before = np.int64(FIRST_TIME), np.int64(LAST_TIME)
            if seeds.high.size > 0:
                # An edge with an end can start before the seed's bound.
                after = np.int64(FIRST_TIME) if ending else seeds.low[w // per_seed]
                before = seeds.high[w // per_seed]
            if rule.clock != UNTIMED:
                after = max(after, walks.low[w])
                before = min(before, walks.high[w])
            bounds.low[count] = after
            bounds.high[count] = before
        count += 1
    return count


@kernel
def _find(rows: WalkRows, limits: Eligibility, rule: WalkRule, steps: StepArrays, count: int) -> bool:
    """Find the ranges of the rows of all steps, and of their previous vertices if they are searched."""
    whole = rows.whole
    eligible = Eligibility(steps.bounds, limits.excluded)
    frontier = Frontier(steps.nodes, steps.slots)
    if not find_windows(rows.cut, eligible, frontier, 0, count, count, steps.spans, steps.windows):
        return False
    listed = limits.bounds.high.size > 0 and (has_values(whole.ends) or whole.born.size > 0)
    for s in range(count):
        steps.windows[s, LISTED] = np.int64(listed)
    if (rule.back == rule.near and rule.near == rule.far) or rows.sets.filter.size > 0:
        return True
    frontier = Frontier(steps.before, steps.trees)
    return bool(find_windows(whole, limits, frontier, 0, count, count, steps.spans, steps.known))


@kernel
def _choose(rows: WalkRows, limits: Eligibility, rule: WalkRule, steps: StepArrays, s: int) -> np.int64:
    """Return the position of the edge that a step takes, -1 if there is none, or -2 for damage."""
    whole, sums, start = rows.whole, steps.sums, np.int64(0)
    weighted, listed = has_values(whole.weights), steps.windows[s, LISTED] != 0
    if weighted and rows.sums.size > 0:
        start, sums, total = steps.windows[s, START], rows.sums, _length(steps.windows, s)
    elif weighted or listed:
        total, listed = _list(rows, limits, steps, s), True
    else:
        total = steps.windows[s, TOTAL]
    if total <= 0 or (weighted and sums[start + total - 1] == 0):
        return np.int64(-2) if total < 0 else NO_STEP
    key, attempt = steps.keys[s], np.int64(0)
    while True:
        bits = draw(key, np.uint64(2 * attempt + 1))
        if weighted:
            position = _first_above(sums, start, total, np.int64(below(bits, np.uint64(sums[start + total - 1]))))
        else:
            position = np.int64(below(bits, np.uint64(total)))
        if listed:
            position = steps.places[position]
        elif not weighted:
            steps.places[0] = position
            place_ranks(whole.rows.live, steps.windows, s, steps.places, 0, 1)
            position = steps.places[0]
        if steps.biased[s] == 0 or _accepts(rows, limits, rule, steps, s, key, attempt, position):
            return position
        attempt += 1


@kernel
def _length(windows: Int64s, s: int) -> np.int64:
    """Return the length of a plain row. Its parts are adjacent under direction BOTH too."""
    return np.int64(windows[s, LENGTH] + windows[s, LENGTH + 2])


@kernel
def _list(rows: WalkRows, limits: Eligibility, steps: StepArrays, s: int) -> np.int64:
    """List a row's eligible edges and add up their weights. Returns the number of edges, or -1 for damage."""
    whole, places = rows.whole, steps.places
    if steps.windows[s, LISTED] != 0:
        total = np.int64(list_row(whole, limits, steps.trees[s], steps.windows, s, places))
    else:
        total = np.int64(list_live(whole.rows.live.words, steps.windows, s, places))
    if total > 0 and has_values(whole.weights):
        total = np.int64(drop_zeros(whole.weights, places, total))
        _add_up(whole, places, total, steps.sums)
    return total


@kernel
def _add_up(whole: TraversalArrays, places: Int64s, total: _Number, sums: Int64s) -> None:
    """Write the prefix sums of the listed edges' weights, in units of 2^-32 of the largest weight."""
    greatest, upto = 0.0, np.int64(0)
    for at in range(total):
        greatest = max(greatest, value_at(whole.weights, places[at]))
    for at in range(total):
        upto += np.int64(np.rint(value_at(whole.weights, places[at]) / greatest * 4294967296.0))
        sums[at] = upto


@kernel
def _first_above(sums: Int64s, start: np.int64, total: _Number, bar: np.int64) -> np.int64:
    """Return the first of the ascending sums from `start` that is greater than `bar`, at O(log degree)."""
    low, high = start, start + total - 1
    while low < high:
        middle = (low + high) >> 1
        if sums[middle] > bar:
            high = middle
        else:
            low = middle + 1
    return low


# Rejection sampling, as in `biased.py`.
@kernel
def _accepts(
    rows: WalkRows,
    limits: Eligibility,
    rule: WalkRule,
    steps: StepArrays,
    s: int,
    key: np.uint64,
    attempt: np.int64,
    position: np.int64,
) -> bool:
    """Return whether an attempt accepts its candidate."""
    bits = draw(key, np.uint64(2 * attempt + 2))
    candidate = neighbor_at(rows.whole.rows, position)
    if candidate == steps.before[s]:
        return bool(bits <= rule.back)
    if bits <= min(rule.near, rule.far):
        return True
    if bits > max(rule.near, rule.far):
        return False
    return bool(_is_near(rows, limits, steps, s, candidate) == (rule.near > rule.far))


@kernel
def _is_near(rows: WalkRows, limits: Eligibility, steps: StepArrays, s: int, candidate: np.int64) -> bool:
    """Return whether the previous vertex has an edge to a candidate within the seed's time bounds."""
    whole, before = rows.whole, steps.before[s]
    if rows.sets.filter.size > 0:
        start, degree = whole.rows.indptr[before], whole.rows.indptr[before + 1] - whole.rows.indptr[before]
        if not may_hold(rows.sets, start, degree, candidate):
            return False
        return bool(holds(rows.sets.ordered, start, start + degree, candidate))
    words, known, bounds = whole.rows.live.words, steps.known, limits.bounds
    ending = bounds.high.size > 0 and has_values(whole.times) and has_values(whole.ends)
    for w in range(STRETCHES):
        start = known[s, START + w]
        for p in range(start, start + known[s, LENGTH + w] if known[s, COUNT + w] > 0 else start):
            if neighbor_at(whole.rows, p) != candidate or (words.size > 0 and not is_set(words, p)):
                continue
            # The candidate is born by then, because it is eligible.
            if not ending or value_at(whole.times, p) == STATIC:
                return True
            if value_at(whole.ends, p) > bounds.after[steps.trees[s]]:
                return True
    return False


@kernel
def _finish(whole: TraversalArrays, rule: WalkRule, walks: WalkArrays, i: int, w: np.int64) -> bool:
    """Take the chosen edge as step i of a walk, and move its clock. Returns whether the neighbour exists."""
    position = walks.positions[w, i]
    if position < 0:
        return True
    neighbor = neighbor_at(whole.rows, position)
    if neighbor < 0 or neighbor >= rule.reached:
        return False
    walks.nodes[w, i + 1] = neighbor
    if rule.clock != UNTIMED and has_values(whole.times):
        time = value_at(whole.times, position)
        if time != STATIC and rule.clock == FORWARD:
            walks.low[w] = time + int(rule.strict)
        if time != STATIC and rule.clock == BACKWARD:
            walks.high[w] = time + int(not rule.strict)
    return True

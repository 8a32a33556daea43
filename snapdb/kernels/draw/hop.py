"""One hop over one relation by any method, with or without time bounds, before neighbours are relabeled.

Blocks of rows are located and cut to their time bounds. Rows that can be drawn by rank cost O(fanout) each. The other
rows are listed, at O(degree) each, and are scored if they have more edges than the fanout. Drawn edges are written to a
draft that grows. The kernel stops before a block that might not fit, and is called again from there.

Reference implementation: `choose` in tests/support/oracle/methods.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Float64s, Int64s
from snapdb.kernels.adjacency.forms import RowArrays, has_values, value_at
from snapdb.kernels.adjacency.spans import BLOCK
from snapdb.kernels.compiled import kernel
from snapdb.kernels.draw.eligible import (
    COUNT,
    LENGTH,
    LISTED,
    START,
    TOTAL,
    Eligibility,
    Frontier,
    TimeBounds,
    TraversalArrays,
    drop_zeros,
    find_windows,
    key_in_tree,
    list_live,
    list_row,
    tree_of,
)
from snapdb.kernels.draw.floyd import draw_ranks, place_ranks
from snapdb.kernels.draw.scores import (
    LABOR,
    NEWEST,
    PRIORITY,
    SHARES,
    Candidates,
    DrawKeys,
    DrawRule,
    comes_first,
    nth_smallest,
    score_edges,
    score_neighbors,
    score_times,
)
from snapdb.kernels.rng import below, draw, fold

_Number = int | np.int64


class DraftArrays(NamedTuple):
    """The output of a hop, and the working memory of a block of rows."""

    positions: Int64s
    """Physical positions, by edge."""
    row_nodes: Int64s
    """The local id of the node for which each edge was drawn, by edge."""
    neighbors: Int64s
    """The neighbours by edge: -1 before they are read, then dense ids or local ids. Used if rows are pooled or
    copied."""
    weights: Float64s
    """Horvitz-Thompson weights under PRIORITY, by edge. The array is empty for other methods."""
    candidates: Candidates
    """Working memory for rows that are listed."""
    spans: Int64s
    """[BLOCK, FIELDS] Working memory of `locate`."""
    windows: Int64s
    """[BLOCK, WINDOW_FIELDS] Working memory of `find_windows`."""
    reads: Int64s
    """[4] Counts of reads from caches and from the adjacency (see `neighbor_pool.cache`)."""


@kernel
def draw_rows(
    traversal: TraversalArrays,
    eligible: Eligibility,
    keys: DrawKeys,
    rule: DrawRule,
    frontier: Frontier,
    low: int,
    high: int,
    draft: DraftArrays,
    edges: int,
) -> tuple[int, int, _Number, _Number]:
    """Draw up to the rule's fanout for each node in frontier[low:high] into the draft, from edge index `edges` on.

    Returns the frontier index where it stopped (-1 if a row extends beyond its arrays), the new number of edges, and
    the number of edges and the row length for which the draft needs room to continue.
    """
    windows = draft.windows
    for first in range(low, high, BLOCK):
        last = min(first + BLOCK, high)
        if not find_windows(traversal, eligible, frontier, first, last, high, draft.spans, windows):
            return -1, edges, 0, 0
        room, longest = _needed(windows, last - first, rule)
        if edges + room > draft.positions.size or longest > draft.candidates.places.size:
            return first, edges, edges + room, longest
        i = first
        # Rows of the same kind are drawn in runs. Each kind has its own loop, so that the choice of kind is rarely
        # mispredicted.
        while i < last:
            i, edges = _draw_ranked(
                rule, keys.pick, eligible.bounds, traversal.rows, frontier, first, i, last, draft, edges
            )
            if i < last:
                i, edges = _draw_listed(traversal, eligible, keys, rule, frontier, first, i, last, draft, edges)
            if edges < 0:
                return -1, edges, 0, 0
    return high, edges, 0, 0


@kernel
def _needed(windows: Int64s, count: int, rule: DrawRule) -> tuple[_Number, _Number]:
    """Return the maximum number of edges that a block of rows can draw, and the length of the longest listed row."""
    room = longest = np.int64(0)
    for span in range(count):
        total = windows[span, TOTAL]
        room += min(total, rule.fanout)
        if windows[span, LISTED] != 0 or total > rule.ranked:
            longest = max(longest, total)
    return room, longest


# Rows that can be drawn by rank. They need O(fanout) draws and O(1) reads of windows per row, and no edges are read.
@kernel
def _draw_ranked(
    rule: DrawRule,
    pick: np.uint64,
    bounds: TimeBounds,
    rows: RowArrays,
    frontier: Frontier,
    first: int,
    i: int,
    last: int,
    draft: DraftArrays,
    edges: int,
) -> tuple[int, int]:
    """Draw rows from index i up to `last`, or up to the first row that must be listed.

    Returns the index where it stopped and the new number of edges.
    """
    method, k, ranked = rule.method, rule.fanout, rule.ranked
    windows, positions, weights = draft.windows, draft.positions, draft.weights
    while i < last:
        span = i - first
        total = int(windows[span, TOTAL])
        if windows[span, LISTED] != 0 or total > ranked:
            break
        whole = (windows[span, COUNT] == total) & (windows[span, LENGTH] == total)
        start, begin = int(windows[span, START]) if whole else 0, edges
        edges += min(total, k)
        for e in range(begin, edges):
            draft.row_nodes[e] = i
        key = key_in_tree(pick, frontier.nodes[i], bounds, tree_of(frontier, i))
        draw_ranks(method, key, start, total, k, rows.indices, positions, begin)
        if not whole:
            place_ranks(rows.live, windows, span, positions, begin, edges)
        if weights.size > 0:
            for e in range(begin, edges):
                weights[e] = 1.0
        i += 1
    return i, edges


# Rows whose edges must be read. They cost O(degree) to list and to score, and O(degree log fanout) in the worst case to
# select.
@kernel
def _draw_listed(
    traversal: TraversalArrays,
    eligible: Eligibility,
    keys: DrawKeys,
    rule: DrawRule,
    frontier: Frontier,
    first: int,
    i: int,
    last: int,
    draft: DraftArrays,
    edges: int,
) -> tuple[int, int]:
    """Draw rows from index i up to the first row that does not have to be listed.

    Returns the index where it stopped and the new number of edges, or -1 for damage.
    """
    windows, candidates, positions = draft.windows, draft.candidates, draft.positions
    method, k, places = rule.method, rule.fanout, candidates.places
    while i < last:
        span, node, tree, begin = i - first, frontier.nodes[i], tree_of(frontier, i), edges
        if windows[span, LISTED] != 0:
            total = list_row(traversal, eligible, tree, windows, span, places)
        elif windows[span, TOTAL] > rule.ranked:
            total = list_live(traversal.rows.live.words, windows, span, places)
        else:
            break
        if total < 0:
            return i, -1
        if total > k and method > SHARES:
            edges = _draw_scored(traversal, keys, rule, node, total, draft, edges)
        elif total > k:
            key = key_in_tree(keys.pick, node, eligible.bounds, tree)
            if method == SHARES:
                edges = _draw_shares(key, traversal, rule, total, candidates, positions, edges)
            else:
                draw_ranks(method, key, 0, total, k, traversal.rows.indices, positions, edges)
                for e in range(edges, edges + k):
                    positions[e] = places[positions[e]]
                edges += k
        else:
            edges = _take_row(traversal, rule, total, draft, edges)
        for e in range(begin, edges):
            draft.row_nodes[e] = i
        i += 1
    return i, edges


@kernel
def _take_row(traversal: TraversalArrays, rule: DrawRule, total: int, draft: DraftArrays, edges: int) -> int:
    """Take all of a row's listed edges, except those of weight 0 if the rule skips them.

    Returns the new number of edges.
    """
    places, weights = draft.candidates.places, draft.weights
    if rule.skips_zeros:
        total = int(drop_zeros(traversal.weights, places, total))
    for rank in range(total):
        draft.positions[edges + rank] = places[rank]
        if weights.size > 0:
            weights[edges + rank] = 1.0
    return edges + total


@kernel
def _draw_scored(
    traversal: TraversalArrays,
    keys: DrawKeys,
    rule: DrawRule,
    node: _Number,
    total: int,
    draft: DraftArrays,
    edges: int,
) -> int:
    """Draw the k edges in a row with the smallest scores. Returns the new number of edges."""
    method, candidates = rule.method, draft.candidates
    count = score_edges(method, fold(keys.hash, np.uint64(node)), traversal, total, candidates)
    if method == NEWEST:
        score_times(traversal.times, count, candidates)
    elif method == LABOR:
        score_neighbors(keys, traversal.rows, count, candidates)
    return _take_first(rule, traversal, count, draft, edges)


@kernel
def _take_first(rule: DrawRule, traversal: TraversalArrays, count: int, draft: DraftArrays, edges: int) -> int:
    """Take the k edges in places[:count] with the smallest scores, in rank order.

    These are the edges that precede the (k+1)-th edge. Under PRIORITY, the score of the (k+1)-th edge is the threshold
    of the Horvitz-Thompson weights.
    """
    k, candidates = rule.fanout, draft.candidates
    limit = nth_smallest(candidates, count, k + 1) if count > k else -1
    weighted = has_values(traversal.weights)
    for i in range(count):
        if limit >= 0 and not comes_first(candidates, i, limit):
            continue
        draft.positions[edges] = candidates.places[i]
        if rule.method == PRIORITY:
            weight = value_at(traversal.weights, candidates.places[i]) if weighted else 1.0
            share = weight * candidates.floats[limit] * 2.0**-32 if limit >= 0 else 1.0
            draft.weights[edges] = 1.0 / min(1.0, share)
        edges += 1
    return edges


# Inverse transform sampling, with O(degree) prefix sums and O(log degree) per draw. An alias table would draw in O(1),
# but building it costs more than it saves for fanouts of 5 to 50.
@kernel
def _draw_shares(
    key: np.uint64,
    traversal: TraversalArrays,
    rule: DrawRule,
    total: int,
    candidates: Candidates,
    positions: Int64s,
    edges: int,
) -> int:
    """Draw k edges in places[:total] with replacement, by weight, or none if all weights are 0.

    Computes prefix sums of the weights, in units of 2^-32 of the largest weight, and runs a binary search per draw. If
    at most k edges have a positive weight and the rule skips zeros, each of these edges is taken once.
    """
    k, places, sums, weights = rule.fanout, candidates.places, candidates.ties, traversal.weights
    weighted = has_values(weights)
    greatest = 0.0 if weighted else 1.0
    if weighted:
        left = 0
        for i in range(total):
            weight = value_at(weights, places[i])
            greatest = max(greatest, weight)
            places[left] = places[i]
            left += int(weight > 0.0)
        total = left
    if rule.skips_zeros and total <= k:
        for i in range(total):
            positions[edges + i] = places[i]
        return edges + total
    if greatest <= 0.0:
        return edges
    sum_ = np.int64(0)
    for i in range(total):
        weight = value_at(weights, places[i]) if weighted else 1.0
        # Integer sums are associative, so every device draws the same edges. Sums of floats would depend on their
        # order.
        sum_ += np.int64(np.rint(weight / greatest * 4294967296.0))
        sums[i] = sum_
    for j in range(k):
        bar = np.int64(below(draw(key, np.uint64(j)), np.uint64(sum_)))
        low, high = 0, total - 1
        while low < high:
            middle = (low + high) >> 1
            if sums[middle] > bar:
                high = middle
            else:
                low = middle + 1
        positions[edges + j] = places[low]
    return edges + k

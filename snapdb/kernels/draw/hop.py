"""A hop's edges by any method, with or without times, before their ends are numbered.

What is drawn goes to a draft that grows: the kernel stops before a block of rows that might not fit, and goes on from
there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Float64s, Int64s, UInt64s
from snapdb.kernels.adjacency.spans import BLOCK
from snapdb.kernels.compiled import kernel
from snapdb.kernels.draw.eligible import (
    LISTED,
    TOTAL,
    Moments,
    Pairs,
    WalkArrays,
    drop_zeros,
    find_windows,
    list_live,
    list_row,
    value_at,
)
from snapdb.kernels.draw.floyd import draw_ranked, draw_ranks
from snapdb.kernels.draw.scores import (
    LABOR,
    NEWEST,
    PRIORITY,
    SHARES,
    DrawKeys,
    DrawRule,
    comes_first,
    nth_smallest,
    score_edges,
    score_neighbours,
    score_times,
)
from snapdb.kernels.rng import below, draw, fold

_Number = int | np.int64


@kernel
def draw_rows(
    walk: WalkArrays,
    moments: Moments,
    pairs: Pairs,
    keys: DrawKeys,
    rule: DrawRule,
    frontier: Int64s,
    trees: Int64s,
    low: int,
    high: int,
    draft: DraftArrays,
    edges: int,
) -> tuple[int, int, _Number, _Number]:
    """Draws up to the rule's fanout for each of frontier[low:high] to the draft, from its edge number `edges` on.

    Returns where in the frontier it stopped (-1: a row leads out of its arrays), how many edges there are then, and
    for how many edges and for how long a row the draft needs room to go on.
    """
    windows, positions, sides, weights = draft.windows, draft.positions, draft.sides, draft.weights
    ordinals, indices, words, before = moments.ordinals, walk.rows.indices, walk.rows.live.words, walk.rows.live.before
    for first in range(low, high, BLOCK):
        last = min(first + BLOCK, high)
        if not find_windows(walk, moments, pairs, frontier, trees, first, last, high, draft.spans, windows):
            return -1, edges, 0, 0
        room, longest = _needed(windows, last - first, rule)
        if edges + room > sides.size or longest > draft.places.size:
            return first, edges, edges + room, longest
        i = first
        while i < last:
            i, edges = draw_ranked(
                rule,
                keys.pick,
                ordinals,
                indices,
                words,
                before,
                frontier,
                trees,
                first,
                i,
                last,
                windows,
                positions,
                sides,
                weights,
                edges,
            )
            if i < last:
                i, edges = _draw_listed(walk, moments, pairs, keys, rule, frontier, trees, first, i, last, draft, edges)
            if edges < 0:
                return -1, edges, 0, 0
    return high, edges, 0, 0


@kernel
def _needed(windows: Int64s, count: int, rule: DrawRule) -> tuple[_Number, _Number]:
    """How many edges a block of rows draws at most, and how long its longest row is that must be listed."""
    room = longest = np.int64(0)
    for span in range(count):
        total = windows[span, TOTAL]
        room += min(total, rule.fanout)
        if windows[span, LISTED] != 0 or total > rule.ranked:
            longest = max(longest, total)
    return room, longest


# Draws from lists: the eligible edges of a row are listed and, where more are there than asked for, scored


class DraftArrays(NamedTuple):
    """Where a hop is drawn: what comes out, and what a row needs on the way."""

    positions: Int64s
    """By edge: physical."""
    sides: Int64s
    """By edge: which of the frontier it was drawn for."""
    neighbours: Int64s
    """By edge, where rows are kept or copied: ids, -1 before they are read, or local ids."""
    weights: Float64s
    """By edge, under PRIORITY: Horvitz-Thompson weights; else empty."""
    places: Int64s
    """By rank in a row, as the next four: the positions of edges that are eligible."""
    scores: UInt64s
    floats: Float64s
    """The same memory."""
    ties: Int64s
    heap: Int64s
    spans: Int64s
    """[BLOCK, FIELDS]"""
    windows: Int64s
    """[BLOCK, WINDOW_FIELDS]"""


@kernel
def _draw_listed(  # noqa: PLR0912 -- calls cost more than the cases
    walk: WalkArrays,
    moments: Moments,
    pairs: Pairs,
    keys: DrawKeys,
    rule: DrawRule,
    frontier: Int64s,
    trees: Int64s,
    first: int,
    i: int,
    last: int,
    draft: DraftArrays,
    edges: int,
) -> tuple[int, int]:
    """Draws rows from number i on, up to the first that need not be listed; -1 edges: damaged."""
    windows, places, positions, sides, weights = (
        draft.windows,
        draft.places,
        draft.positions,
        draft.sides,
        draft.weights,
    )
    method, k, skips_zeros = rule.method, rule.fanout, rule.skips_zeros
    scores, floats, ties, heap = draft.scores, draft.floats, draft.ties, draft.heap
    words, indices, tail = walk.rows.live.words, walk.rows.indices, walk.rows.patch.indices
    id_root, id_patch, root, patch = walk.id_root, walk.id_patch, walk.weight_root, walk.weight_patch
    time_root, time_patch, ordinals = walk.time_root, walk.time_patch, moments.ordinals
    while i < last:
        span, node, begin = i - first, np.uint64(frontier[i]), edges
        tree = trees[i] if trees.size > 0 else np.int64(0)
        if windows[span, LISTED] != 0:
            total = list_row(walk, moments, pairs, tree, windows, span, places)
        elif windows[span, TOTAL] > rule.ranked:
            total = list_live(words, windows, span, places)
        else:
            break
        if total < 0:
            return i, -1
        if total > k and method > SHARES:
            key = fold(keys.hash, node)
            total = score_edges(method, key, id_root, id_patch, root, patch, total, places, scores, floats, ties)
            if method == NEWEST:
                score_times(time_root, time_patch, places, total, scores)
            elif method == LABOR:
                score_neighbours(keys, indices, tail, places, total, scores)
            edges = _take_first(
                method, k, root, patch, total, places, scores, floats, ties, heap, positions, weights, edges
            )
        elif total > k:
            key = fold(keys.pick, node)
            if ordinals.size > 0:
                key = fold(key, np.uint64(ordinals[tree]))
            if method == SHARES:
                edges = _draw_shares(key, k, skips_zeros, root, patch, total, places, ties, positions, edges)
            else:
                draw_ranks(method, key, 0, total, k, indices, positions, edges)
                for e in range(edges, edges + k):
                    positions[e] = places[positions[e]]
                edges += k
        else:
            if skips_zeros:
                total = int(drop_zeros(root, patch, places, total))
            for rank in range(total):
                positions[edges + rank] = places[rank]
                if weights.size > 0:
                    weights[edges + rank] = 1.0
            edges += total
        for e in range(begin, edges):
            sides[e] = i
        i += 1
    return i, edges


@kernel
def _take_first(
    method: int,
    k: int,
    root: Float64s,
    patch: Float64s,
    count: int,
    places: Int64s,
    scores: UInt64s,
    floats: Float64s,
    ties: Int64s,
    heap: Int64s,
    positions: Int64s,
    weights: Float64s,
    edges: int,
) -> int:
    """Takes the k edges of places[:count] with the smallest scores, by rank: all that come before the next one."""
    limit = nth_smallest(scores, ties, count, k + 1, heap) if count > k else -1
    weighted = root.size + patch.size > 0
    for i in range(count):
        if limit >= 0 and not comes_first(scores, ties, i, limit):
            continue
        positions[edges] = places[i]
        if method == PRIORITY:
            weight = value_at(root, patch, places[i]) if weighted else 1.0
            share = weight * floats[limit] * 2.0**-32 if limit >= 0 else 1.0
            weights[edges] = 1.0 / min(1.0, share)
        edges += 1
    return edges


@kernel
def _draw_shares(
    key: np.uint64,
    k: int,
    skips_zeros: bool,
    root: Float64s,
    patch: Float64s,
    total: int,
    places: Int64s,
    sums: Int64s,
    positions: Int64s,
    edges: int,
) -> int:
    """Draws k edges of places[:total], each by its weight and for itself: none where all weights are 0.

    `skips_zeros`: where no more than k weigh something, these are taken once each.
    """
    weighted = root.size + patch.size > 0
    greatest = 0.0 if weighted else 1.0
    if weighted:
        left = 0
        for i in range(total):
            weight = value_at(root, patch, places[i])
            greatest = max(greatest, weight)
            places[left] = places[i]
            left += int(weight > 0.0)
        total = left  # none is drawn of what weighs nothing
    if skips_zeros and total <= k:
        for i in range(total):
            positions[edges + i] = places[i]
        return edges + total
    if greatest <= 0.0:
        return edges
    sum_ = np.int64(0)
    for i in range(total):
        weight = value_at(root, patch, places[i]) if weighted else 1.0
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

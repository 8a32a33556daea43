"""Draws from rows that serve many batches, where more than ranks decides: time, exclusions, or weights.

A row comes from a cache, or is drawn on the spot: both give the same. Where nothing but the row decides, because the
whole fanout comes from it and all of its edges are eligible, a row of the cache is all that is read.
"""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Array, Float64s, Int64s, UInt64s
from snapdb.kernels.adjacency.spans import BLOCK, DEGREE
from snapdb.kernels.bits import live_before
from snapdb.kernels.compiled import allocating_kernel, kernel
from snapdb.kernels.draw.eligible import (
    COUNT,
    LENGTH,
    LISTED,
    START,
    STRETCHES,
    TOTAL,
    Moments,
    Pairs,
    WalkArrays,
    drop_zeros,
    find_windows,
    list_live,
    list_row,
)
from snapdb.kernels.draw.floyd import draw_ranks, draw_ranks_sorted, place_ranks, sort_ranks, table_size
from snapdb.kernels.draw.hop import DraftArrays
from snapdb.kernels.draw.scores import FLOYD, PRIORITY
from snapdb.kernels.intrinsics import prefetch
from snapdb.kernels.neighbor_pool.cache import (
    HEAD,
    TORN,
    BaseRows,
    CachedRows,
    find_records,
    is_torn,
    load_kept,
    take_recorded,
)
from snapdb.kernels.neighbor_pool.rows import (
    KeptRule,
    RowKeys,
    draw_best,
    first_from,
    pass_over,
    place_row,
    row_key,
    row_parts,
    row_round,
    weigh,
    weight_at,
)
from snapdb.kernels.rng import fold

_Number = int | np.int64


@allocating_kernel
def draw_kept(
    walk: WalkArrays,
    moments: Moments,
    pairs: Pairs,
    keys: RowKeys,
    rule: KeptRule,
    cached: CachedRows,
    base: BaseRows,
    frontier: Int64s,
    low: int,
    high: int,
    limit: int,
    trees: Int64s,
    draft: DraftArrays,
    edges: int,
    counts: Int64s,
) -> tuple[int, int, int, int]:
    """Draws as the rule says for each of frontier[low:high] to the draft, from its edge number `edges` on.

    Neighbours are 0 ≤ id < limit. Returns where in the frontier it stopped (-1: damaged), how many edges there are
    then, and for how many edges and for how long a row the draft needs room to go on.
    """
    spans, windows, sides = draft.spans, draft.windows, draft.sides
    indices, tail, neighbours, positions = walk.rows.indices, walk.rows.patch.indices, draft.neighbours, draft.positions
    found, apart, who = np.empty((BLOCK, 2), np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    owners = np.empty(BLOCK if trees.size > 0 else 0, np.int64)
    alone = rule.method == PRIORITY and rule.kept == rule.fanout and moments.high.size == 0 and pairs.far.size == 0
    first = low
    while first < high:
        last, begin = min(first + BLOCK, high), edges
        find_records(keys, cached, frontier, first, last, high, found)
        count = _set_apart(rule, alone, cached.records, frontier, trees, first, last, found, apart, who, owners)
        if not find_windows(walk, moments, pairs, who, owners, 0, count, count, spans, windows):
            return -1, edges, 0, 0
        room, longest = _needed(windows, spans, count, rule)
        room += (last - first - count) * rule.fanout
        if edges + room > sides.size or longest > draft.places.size:
            return first, edges, edges + room, longest
        i = first
        while i < last and edges >= 0:
            i, edges = _draw_alone(
                rule,
                cached.records,
                cached.scores,
                walk.weight_root,
                walk.weight_patch,
                indices,
                frontier,
                first,
                i,
                last,
                found,
                apart,
                positions,
                sides,
                neighbours,
                draft.weights,
                limit,
                edges,
            )
            if edges >= 0 and i < last:
                i, edges = _draw_apart(
                    walk,
                    moments,
                    pairs,
                    keys,
                    rule,
                    cached,
                    frontier,
                    trees,
                    first,
                    i,
                    last,
                    found,
                    apart,
                    draft,
                    edges,
                )
        if edges == TORN:  # all over again
            edges = begin
            continue
        if edges < 0 or not load_kept(
            indices, tail, base, frontier, sides, positions, begin, edges, limit, neighbours, counts
        ):
            return -1, edges, 0, 0
        first = last
    return high, edges, 0, 0


@kernel
def _set_apart(
    rule: KeptRule,
    alone: bool,
    records: Array,
    frontier: Int64s,
    trees: Int64s,
    first: int,
    last: int,
    found: Int64s,
    apart: Int64s,
    who: Int64s,
    owners: Int64s,
) -> int:
    """Lists in `who` the nodes for which no record is enough, and where each is there in `apart`; how many they are."""
    everything = HEAD + 2 * rule.size
    count = 0
    for i in range(first, last):
        record = found[i - first, 0]
        if alone and record >= 0 and records[record, everything] >= 0:
            apart[i - first] = -1
            continue
        apart[i - first] = count
        who[count] = frontier[i]
        if trees.size > 0:
            owners[count] = trees[i]
        count += 1
    return count


@kernel
def _needed(windows: Int64s, spans: Int64s, count: int, rule: KeptRule) -> tuple[int, int]:
    """How many edges a block of rows draws at most, and how long its longest row is that must be listed."""
    room: _Number = np.int64(0)
    longest: _Number = np.int64(0)
    for span in range(count):
        total = windows[span, TOTAL]
        room += min(total, rule.fanout)
        if rule.method == PRIORITY and total > rule.fanout:
            longest = max(longest, spans[span, DEGREE])
        elif windows[span, LISTED] != 0 or rule.skips_zeros:
            longest = max(longest, total)
    return int(room), int(longest)


@kernel
def _draw_alone(
    rule: KeptRule,
    records: Array,
    scores: Float64s,
    root: Float64s,
    patch: Float64s,
    indices: Array,
    frontier: Int64s,
    first: int,
    i: int,
    last: int,
    found: Int64s,
    apart: Int64s,
    positions: Int64s,
    sides: Int64s,
    neighbours: Int64s,
    weights: Float64s,
    limit: int,
    edges: int,
) -> tuple[int, int]:
    """Draws rows from number i on by their records alone, up to the first that is apart; or -1 edges, or TORN.

    Arrays are handed over one by one, once for many rows: numba counts references to every array of a tuple.
    """
    size, picks = rule.size, rule.fanout
    inside = np.float64(picks) / np.float64(size)
    while i < last and apart[i - first] < 0:
        record, begin = found[i - first, 0], edges
        edges += picks
        draw_ranks(FLOYD, fold(rule.pick, np.uint64(frontier[i])), 0, size, picks, indices, positions, begin)
        sound = take_recorded(records, record, size, limit, positions, neighbours, begin, edges)
        bound = scores[record, 1]
        if is_torn(records, record, found[i - first, 1]):
            return i, TORN
        if not sound:
            return i, -1
        for e in range(begin, edges):
            sides[e] = i
            chance = min(1.0, (weight_at(root, patch, positions[e]) * bound) * 2.0**-32)
            weights[e] = 1.0 / (chance * inside)
        i += 1
    return i, edges


# Draws from rows one by one, where more than a row decides: which edges are eligible, and what is drawn besides


@allocating_kernel
def _draw_apart(
    walk: WalkArrays,
    moments: Moments,
    pairs: Pairs,
    keys: RowKeys,
    rule: KeptRule,
    cached: CachedRows,
    frontier: Int64s,
    trees: Int64s,
    first: int,
    i: int,
    last: int,
    found: Int64s,
    apart: Int64s,
    draft: DraftArrays,
    edges: int,
) -> tuple[int, int]:
    """Draws rows from number i on, up to the first that is not apart; or -1 edges (damaged), or TORN."""
    spans, windows, places, ordinals = draft.spans, draft.windows, draft.places, moments.ordinals
    positions, neighbours, weights, records = draft.positions, draft.neighbours, draft.weights, cached.records
    words, before, indices = walk.rows.live.words, walk.rows.live.before, walk.rows.indices
    root, patch, weighted, everything = walk.weight_root, walk.weight_patch, rule.method == PRIORITY, _most(rule)
    parts, rounds, bounds = row_parts(keys), keys.rounds, np.zeros(2, np.float64)
    row, ids, chosen = np.empty(rule.size, np.int64), np.empty(rule.size, np.int64), np.empty(rule.size, np.int64)
    table = np.empty(table_size(rule.size), np.int64)
    while i < last and apart[i - first] >= 0:
        span, node, tree, begin = apart[i - first], frontier[i], trees[i] if trees.size > 0 else np.int64(0), edges
        total, listed = windows[span, TOTAL], windows[span, LISTED] != 0
        best: _Number = np.int64(-1)
        next_: _Number = np.int64(-1)
        if listed:
            total = np.int64(list_row(walk, moments, pairs, tree, windows, span, places))
            if total < 0:
                return i, -1
        every = bool(total <= rule.fanout or spans[span, DEGREE] <= everything)
        if not every and found[i - first, 0] >= 0:
            record = found[i - first, 0]
            best, next_ = _read_record(records, cached.scores, record, weighted, row, ids, bounds)
            if is_torn(records, record, found[i - first, 1]):
                return i, TORN
        elif not every:
            key = row_key(parts, row_round(parts, rounds, node), node)
            best, next_ = _draw_row(
                walk, weighted, key, rule.size, rule.few, spans, span, table, draft, row, ids, bounds
            )
        if weighted:
            every |= bool(best < 0)
            best = row[best] if best >= 0 else best
            if total > rule.fanout or rule.skips_zeros:
                total = _list_weighted(walk, moments, pairs, tree, listed, windows, span, places)
                listed, every = True, bool(every or total <= rule.fanout)
        pick, fresh = _key_of(rule.pick, node, ordinals, tree), _key_of(rule.fresh, node, ordinals, tree)
        edges += min(int(total), rule.fanout)
        held = _draw_twice(
            rule.kept,
            pick,
            fresh,
            every,
            listed,
            int(total),
            int(spans[span, DEGREE]),
            indices,
            words,
            before,
            windows,
            span,
            places,
            row,
            ids,
            chosen,
            table,
            positions,
            neighbours,
            begin,
            edges,
        )
        if weighted:
            weigh(rule, root, patch, places, total, row, held, best, next_, bounds, positions, begin, edges, weights)
        draft.sides[begin:edges] = i
        i += 1
    return i, edges


@kernel
def _most(rule: KeptRule) -> int:
    """Nodes that have no more edges than this have no row."""
    return max(rule.size, rule.above)


@kernel
def _read_record(
    records: Array, scores: Float64s, record: _Number, weighted: bool, row: Int64s, ids: Int64s, bounds: Float64s
) -> tuple[_Number, _Number]:
    """Copies a row of the cache to `row` and `ids`; returns what `_draw_row` does."""
    size = row.size
    for j in range(size):
        row[j], ids[j] = records[record, HEAD + j], records[record, HEAD + size + j]
    if not weighted:
        return np.int64(-1), np.int64(-1)
    bounds[0], bounds[1] = scores[record, 0], scores[record, 1]
    return np.int64(records[record, HEAD + 2 * size]), np.int64(records[record, HEAD + 2 * size + 1])


@kernel
def _draw_row(
    walk: WalkArrays,
    weighted: bool,
    key: np.uint64,
    size: int,
    few: int,
    spans: Int64s,
    span: int,
    table: Int64s,
    draft: DraftArrays,
    row: Int64s,
    ids: Int64s,
    bounds: Float64s,
) -> tuple[_Number, _Number]:
    """Draws a row on the spot. Returns which of it has the greatest score, and the position of the edge that comes
    next, under PRIORITY where the row is not everything; else -1.
    """
    ids[:] = -1
    if not weighted:
        draw_ranks_sorted(key, spans[span, DEGREE], size, table, row)
        place_row(walk.rows.live.words, walk.rows.live.before, spans, span, row, 0, size)
        return np.int64(-1), np.int64(-1)
    best, next_ = draw_best(
        walk, key, size, few, spans, span, draft.places, draft.scores, draft.floats, draft.ties, draft.heap, row, bounds
    )
    return np.int64(best), next_


@kernel
def _list_weighted(
    walk: WalkArrays,
    moments: Moments,
    pairs: Pairs,
    tree: _Number,
    listed: bool,
    windows: Int64s,
    span: int,
    places: Int64s,
) -> _Number:
    """Lists the eligible edges of a row that weigh something; returns how many. `listed`: each is looked at."""
    if listed:
        total = np.int64(list_row(walk, moments, pairs, tree, windows, span, places))
    else:
        total = np.int64(list_live(walk.rows.live.words, windows, span, places))
    return drop_zeros(walk.weight_root, walk.weight_patch, places, total)


@kernel
def _draw_twice(
    kept: int,
    pick: np.uint64,
    fresh: np.uint64,
    every: bool,
    listed: bool,
    total: int,
    degree: int,
    indices: Array,
    words: UInt64s,
    before: Int64s,
    windows: Int64s,
    span: int,
    places: Int64s,
    row: Int64s,
    ids: Int64s,
    chosen: Int64s,
    table: Int64s,
    positions: Int64s,
    neighbours: Int64s,
    begin: int,
    end: int,
) -> int:
    """Draws from a row, or from every edge, and then besides; returns how many edges of the row are eligible.

    Those are places[:total] where they are `listed`, else those of the windows; no more than asked for: all of them.
    """
    held, placed = total, begin
    if not every:
        held = _meet(listed, places, total, degree, windows, span, row, ids)
    picks = total if end - begin == total else min(kept, held)
    draw_ranks(FLOYD, pick, 0, held, picks, indices, positions, begin)
    middle = begin + picks
    if middle < end:
        sort_ranks(positions, begin, picks, held, table, chosen)
        if not every:
            _rank_all(listed, places, total, words, before, windows, span, row, picks, chosen)
        draw_ranks(FLOYD, fresh, 0, total - picks, end - middle, indices, positions, middle)
        pass_over(chosen, picks, positions, middle, end)
    if not every:
        placed = middle
        for e in range(begin, middle):
            positions[e], neighbours[e] = row[positions[e]], ids[positions[e]]
    if listed:
        for e in range(placed, end):
            positions[e] = places[positions[e]]
    else:
        place_ranks(words, before, windows, span, positions, placed, end)
    for e in range(placed, end):
        prefetch(indices, positions[e])
        neighbours[e] = -1
    return held


@kernel
def _key_of(prefix: np.uint64, node: _Number, ordinals: Int64s, tree: _Number) -> np.uint64:
    """The key of a node's draws, in its own tree where trees are disjoint."""
    key: np.uint64 = fold(prefix, np.uint64(node))
    if ordinals.size > 0:
        key = fold(key, np.uint64(ordinals[tree]))
    return key


# Which edges of a node's row are eligible, and which of all that are eligible these are


@kernel
def _meet(
    listed: bool, places: Int64s, total: int, degree: int, windows: Int64s, span: int, row: Int64s, ids: Int64s
) -> int:
    """Leaves of a row what is eligible; returns how many."""
    if listed:
        return int(_meet_listed(places, total, row, ids))
    if total < degree:
        return int(_meet_stretches(windows, span, row, ids))
    return row.size


@kernel
def _meet_listed(places: Int64s, total: _Number, row: Int64s, ids: Int64s) -> _Number:
    """Leaves of a row what is among the ascending places[:total]; returns how many."""
    held: _Number = np.int64(0)
    passed = np.int64(0)
    for j in range(row.size):
        while passed < total and places[passed] < row[j]:
            passed += 1
        row[held], ids[held] = row[j], ids[j]
        held += np.int64(passed < total and places[passed] == row[j])
    return held


@kernel
def _meet_stretches(windows: Int64s, span: _Number, row: Int64s, ids: Int64s) -> _Number:
    """Leaves of a row what is in the stretches that are eligible; returns how many."""
    held: _Number = np.int64(0)
    for j in range(row.size):
        p, inside = row[j], False
        for w in range(STRETCHES):
            inside |= (p >= windows[span, START + w]) & (p - windows[span, START + w] < windows[span, LENGTH + w])
        row[held], ids[held] = p, ids[j]
        held += np.int64(inside)
    return held


@kernel
def _rank_of(words: UInt64s, before: Int64s, windows: Int64s, span: _Number, position: _Number) -> _Number:
    """Which of the edges in a row's stretches stands at a position in one of them."""
    rank: _Number = np.int64(0)
    for w in range(STRETCHES):
        start, length = windows[span, START + w], windows[span, LENGTH + w]
        if position >= start and position - start < length:
            if words.size > 0:
                rank += live_before(words, before, position) - live_before(words, before, start)
            else:
                rank += position - start
            break
        rank += windows[span, COUNT + w]
    return rank


@kernel
def _rank_all(
    listed: bool,
    places: Int64s,
    total: _Number,
    words: UInt64s,
    before: Int64s,
    windows: Int64s,
    span: int,
    row: Int64s,
    count: _Number,
    chosen: Int64s,
) -> None:
    """Turns numbers of a row's edges into their ranks among all that are eligible."""
    for j in range(count):
        position = row[chosen[j]]
        if listed:
            chosen[j] = first_from(places, total, position)
        else:
            chosen[j] = _rank_of(words, before, windows, span, position)

"""Draws from rows one by one, where more than a row decides: which edges are eligible, and what is drawn besides."""

import numpy as np

from snapdb.arrays import Array, Float64s, Int64s, UInt64s
from snapdb.kernels.choose_listed import DraftArrays
from snapdb.kernels.choose_ranks import draw_ranks, place_ranks
from snapdb.kernels.compiled import kernel
from snapdb.kernels.drawn_rows import RowKeys, draw_best, place_row, row_key, row_parts, row_round
from snapdb.kernels.eligible import LISTED, TOTAL, Moments, Pairs, WalkArrays, drop_zeros, list_live, list_row
from snapdb.kernels.intrinsics import prefetch
from snapdb.kernels.kept_meet import meet, rank_all
from snapdb.kernels.kept_rule import KeptRule, pass_over, weigh
from snapdb.kernels.rng import fold
from snapdb.kernels.row_cache import HEAD, TORN, CachedRows, is_torn
from snapdb.kernels.scores import FLOYD, PRIORITY
from snapdb.kernels.sorted_ranks import draw_ranks_sorted, sort_ranks, table_size
from snapdb.kernels.spans import DEGREE

_Number = int | np.int64


@kernel
def draw_apart(
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
        held = meet(listed, places, total, degree, windows, span, row, ids)
    picks = total if end - begin == total else min(kept, held)
    draw_ranks(FLOYD, pick, 0, held, picks, indices, positions, begin)
    middle = begin + picks
    if middle < end:
        sort_ranks(positions, begin, picks, held, table, chosen)
        if not every:
            rank_all(listed, places, total, words, before, windows, span, row, picks, chosen)
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

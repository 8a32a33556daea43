"""Draws from rows one by one, where more than a row decides: which edges are eligible, and what is drawn besides."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from snapdb.kernels.bits import live_before
from snapdb.kernels.choose_listed import DraftArrays
from snapdb.kernels.choose_ranks import draw_ranks, place_ranks
from snapdb.kernels.compiled import kernel
from snapdb.kernels.drawn_rows import (
    RowKeys,
    draw_best,
    draw_row,
    row_key,
    row_parts,
    row_round,
    sort_ranks,
    table_size,
    weight_at,
)
from snapdb.kernels.eligible import (
    COUNT,
    LENGTH,
    LISTED,
    START,
    STRETCHES,
    TOTAL,
    Moments,
    Pairs,
    WalkArrays,
    list_live,
    list_row,
)
from snapdb.kernels.intrinsics import prefetch
from snapdb.kernels.kept_rule import KeptRule, first_from, weigh
from snapdb.kernels.rng import fold
from snapdb.kernels.row_cache import HEAD, TORN, CachedRows, is_torn
from snapdb.kernels.scores import FLOYD, PRIORITY
from snapdb.kernels.spans import DEGREE

__all__ = ["draw_apart"]

Number = int | np.int64
Int64s = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]


@kernel
def draw_apart(  # noqa: PLR0912, PLR0915 -- calls cost more than the cases, and tuples of arrays more than calls
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
    positions, sides, neighbours, weights = draft.positions, draft.sides, draft.neighbours, draft.weights
    scores, floats, ties, heap = draft.scores, draft.floats, draft.ties, draft.heap
    words, before, indices = walk.rows.live.words, walk.rows.live.before, walk.rows.indices
    root, patch, records, bars = walk.weight_root, walk.weight_patch, cached.records, cached.scores
    fanout, size, weighted = rule.fanout, rule.size, rule.method == PRIORITY
    parts, rounds = row_parts(keys), keys.rounds
    row, ids, chosen = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    table, bounds = np.empty(table_size(size), np.int64), np.zeros(2, np.float64)
    while i < last and apart[i - first] >= 0:
        span, node, tree = apart[i - first], frontier[i], trees[i] if trees.size > 0 else np.int64(0)
        total, listed, begin = windows[span, TOTAL], windows[span, LISTED] != 0, edges
        degree, record, all_ = spans[span, DEGREE], found[i - first, 0], True
        best: Number = np.int64(-1)
        next_: Number = np.int64(-1)
        straight = False
        if listed:
            total = np.int64(list_row(walk, moments, pairs, tree, windows, span, places))
            if total < 0:
                return i, -1
        if total > fanout and degree > max(size, rule.above):
            all_ = False
            straight = record >= 0 and total == degree and not listed and not weighted
            if record >= 0 and not straight:
                for j in range(size):
                    row[j], ids[j] = records[record, HEAD + j], records[record, HEAD + size + j]
                if weighted:
                    best = np.int64(records[record, HEAD + 2 * size])
                    next_ = np.int64(records[record, HEAD + 2 * size + 1])
                    bounds[0], bounds[1] = bars[record, 0], bars[record, 1]
                if is_torn(records, record, found[i - first, 1]):
                    return i, TORN
            elif record < 0:
                key = row_key(parts, row_round(parts, rounds, node), node)
                if weighted:
                    best, next_ = draw_best(
                        walk, key, size, spans, span, places, scores, floats, ties, heap, row, bounds
                    )
                else:
                    draw_row(key, size, words, before, spans, span, table, row)
                for j in range(size):
                    ids[j] = -1
            if weighted:
                all_ = bool(best < 0)
                best = row[max(best, np.int64(0))]
        if total > fanout and weighted:
            if listed:
                list_row(walk, moments, pairs, tree, windows, span, places)
            else:
                list_live(words, windows, span, places)
            total, listed = _drop_weightless(root, patch, places, total), True
        edges += min(total, fanout)
        held, picks = total, min(total, np.int64(rule.kept))
        if total <= fanout:
            all_, picks = True, total
            for j in range(total):
                positions[begin + j] = j
        elif all_:
            draw_ranks(FLOYD, _key_of(rule.pick, node, ordinals, tree), 0, total, picks, indices, positions, begin)
        else:
            if listed:
                held = _meet_listed(places, total, row, ids)
            elif total < degree:
                held = _meet_stretches(windows, span, row, ids)
            else:
                held = np.int64(size)
            picks = held if rule.whole else min(np.int64(rule.kept), held)
            if rule.whole:
                for j in range(held):
                    positions[begin + j] = j
            else:
                draw_ranks(FLOYD, _key_of(rule.pick, node, ordinals, tree), 0, held, picks, indices, positions, begin)
        middle = begin + picks
        if straight:
            for e in range(begin, middle):
                place = HEAD + positions[e]
                positions[e], neighbours[e] = records[record, place], records[record, place + size]
            if is_torn(records, record, found[i - first, 1]):
                return i, TORN
        elif not all_:
            for e in range(begin, middle):
                positions[e], neighbours[e] = row[positions[e]], ids[positions[e]]
        if middle < edges:
            for j in range(picks):
                pick = positions[begin + j]
                if all_:
                    chosen[j] = pick
                elif listed:
                    chosen[j] = first_from(places, total, pick)
                else:
                    chosen[j] = _rank_of(words, before, windows, span, pick)
            if picks > 0:
                sort_ranks(chosen, 0, picks, total, table, chosen)
            fresh = _key_of(rule.fresh, node, ordinals, tree)
            draw_ranks(FLOYD, fresh, 0, total - picks, fanout - picks, indices, positions, middle)
            _pass_over(chosen, picks, positions, middle, edges)
        if all_:
            middle = begin
        for e in range(middle, edges):
            neighbours[e] = -1
        if listed:
            for e in range(middle, edges):
                positions[e] = places[positions[e]]
        else:
            place_ranks(words, before, windows, span, positions, middle, edges)
        for e in range(middle, edges):
            prefetch(indices, positions[e])
        if weighted and total <= fanout:
            weights[begin:edges] = 1.0
        elif weighted and all_:
            weights[begin:edges] = 1.0 / (fanout / total)
        elif weighted:
            weigh(rule, root, patch, places, total, row, held, best, next_, bounds, positions, begin, edges, weights)
        for e in range(begin, edges):
            sides[e] = i
        i += 1
    return i, edges


@kernel
def _key_of(prefix: np.uint64, node: Number, ordinals: Int64s, tree: Number) -> np.uint64:
    """The key of a node's draws, in its own tree where trees are disjoint."""
    key: np.uint64 = fold(prefix, np.uint64(node))
    if ordinals.size > 0:
        key = fold(key, np.uint64(ordinals[tree]))
    return key


@kernel
def _drop_weightless(root: Floats, patch: Floats, places: Int64s, count: Number) -> Number:
    """Leaves of places[:count] the edges that weigh something; returns how many."""
    at = np.int64(0)
    for j in range(count):
        places[at] = places[j]
        at += np.int64(weight_at(root, patch, places[j]) > 0.0)
    return at


@kernel
def _meet_listed(places: Int64s, total: Number, row: Int64s, ids: Int64s) -> Number:
    """Leaves of a row what is among the ascending places[:total]; returns how many."""
    held: Number = np.int64(0)
    passed = np.int64(0)
    for j in range(row.size):
        while passed < total and places[passed] < row[j]:
            passed += 1
        row[held], ids[held] = row[j], ids[j]
        held += np.int64(passed < total and places[passed] == row[j])
    return held


@kernel
def _meet_stretches(windows: Int64s, span: Number, row: Int64s, ids: Int64s) -> Number:
    """Leaves of a row what is in the stretches that are eligible; returns how many."""
    held: Number = np.int64(0)
    for j in range(row.size):
        p, inside = row[j], False
        for w in range(STRETCHES):
            inside |= (p >= windows[span, START + w]) & (p - windows[span, START + w] < windows[span, LENGTH + w])
        row[held], ids[held] = p, ids[j]
        held += np.int64(inside)
    return held


@kernel
def _rank_of(words: Words, before: Int64s, windows: Int64s, span: Number, position: Number) -> Number:
    """Which of the edges in a row's stretches stands at a position in one of them."""
    rank: Number = np.int64(0)
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
def _pass_over(chosen: Int64s, count: Number, ranks: Int64s, begin: Number, end: Number) -> None:
    """Turns ranks among the edges that are not chosen into ranks among all; `chosen` ascend."""
    for e in range(begin, end):
        passed = np.int64(0)
        for j in range(count):  # one is passed when no more than the rank are left before it
            passed += np.int64(chosen[j] - j <= ranks[e])
        ranks[e] += passed

"""A node's row of so many of its edges: by which key it is drawn, and at which positions its edges stand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Float64s, Int32s, Int64s, UInt64s
from snapdb.kernels.adjacency.spans import ALIVE, FIRST, KEPT, REST, SECOND, list_spans
from snapdb.kernels.bits import live_before, select_live
from snapdb.kernels.compiled import kernel
from snapdb.kernels.draw.eligible import WalkArrays, value_at
from snapdb.kernels.draw.scores import PRIORITY, comes_first, nth_smallest, score_edges
from snapdb.kernels.rng import fold

_Number = int | np.int64


class RowKeys(NamedTuple):
    """The keys of all rows of one edge type at one hop, for one batch, before a node is folded into them."""

    now: np.uint64
    """Of the round `round`."""
    later: np.uint64
    """Of the round after it, for nodes whose turn has come."""
    phase: np.uint64
    """Of turns: the upper half of fold(phase, node) plus share reaches 2^32 when a node's has come."""
    share: np.uint64
    """How much of the round is over, in 2^-32; 0: all nodes are in the same round."""
    round: int
    stem: np.uint64
    """What comes before the round in a key: fold(fold(fold(stem, a node's round), hop), kind) is the node's `now`."""
    hop: np.uint64
    kind: np.uint64
    rounds: Int32s
    """[nodes] of each node a round of its own; empty: as above."""


class RowParts(NamedTuple):
    """The same without the array: numba counts references to that wherever it is handed on."""

    now: np.uint64
    later: np.uint64
    phase: np.uint64
    share: np.uint64
    round: int
    stem: np.uint64
    hop: np.uint64
    kind: np.uint64
    own: bool
    """Each node has a round of its own."""


@kernel
def row_parts(keys: RowKeys) -> RowParts:
    """What kernels hand on from row to row."""
    own = keys.rounds.size > 0
    return RowParts(keys.now, keys.later, keys.phase, keys.share, keys.round, keys.stem, keys.hop, keys.kind, own)


@kernel
def row_round(keys: RowParts, rounds: Int32s, node: _Number) -> _Number:
    """The round that a node's row is of."""
    if keys.own:
        return np.int64(rounds[node])
    if keys.share == np.uint64(0):
        return np.int64(keys.round)
    turn = (fold(keys.phase, np.uint64(node)) >> np.uint64(32)) + keys.share
    return np.int64(keys.round) + np.int64(turn >> np.uint64(32))


@kernel
def row_key(keys: RowParts, round_: _Number, node: _Number) -> np.uint64:
    """The key that a node's row of a round is drawn by."""
    if keys.own:
        prefix = fold(fold(fold(keys.stem, np.uint64(round_)), keys.hop), keys.kind)
    else:
        prefix = keys.now if round_ == keys.round else keys.later
    key: np.uint64 = fold(prefix, np.uint64(node))
    return key


@kernel
def place_row(
    words: UInt64s, before: Int64s, spans: Int64s, span: int, positions: Int64s, begin: int, end: int
) -> None:
    """Turns ranks in a located row into positions."""
    first, kept, alive = spans[span, FIRST], spans[span, KEPT], spans[span, ALIVE]
    second, rest = spans[span, SECOND], spans[span, REST]
    if alive == kept and rest == 0:
        for e in range(begin, end):
            positions[e] += first
        return
    if words.size == 0:
        for e in range(begin, end):
            positions[e] += first if positions[e] < alive else second - alive
        return
    dead = live_before(words, before, first)
    dead_second = live_before(words, before, second) if rest > 0 else np.int64(0)
    for e in range(begin, end):
        rank = positions[e]
        if rank < alive:
            positions[e] = select_live(words, before, first, first + kept, dead + rank, first + rank)
        else:
            rank -= alive
            positions[e] = select_live(words, before, second, second + rest, dead_second + rank, second + rank)


@kernel
def rank_in(words: UInt64s, before: Int64s, spans: Int64s, span: int, position: _Number) -> _Number:
    """Which of a located row's edges stands at a position; -1: none."""
    first, second, start = spans[span, FIRST], spans[span, SECOND], np.int64(-1)
    rank: _Number = np.int64(-1)
    if position >= first and position - first < spans[span, KEPT]:
        start, rank = first, np.int64(0)
    elif position >= second and position - second < spans[span, REST]:
        start, rank = second, spans[span, ALIVE]
    if rank < 0:
        return rank
    if words.size == 0:
        return rank + position - start
    return rank + live_before(words, before, position) - live_before(words, before, start)


@kernel
def draw_best(
    walk: WalkArrays,
    key: np.uint64,
    size: int,
    few: int,
    spans: Int64s,
    span: int,
    places: Int64s,
    scores: UInt64s,
    floats: Float64s,
    ties: Int64s,
    heap: Int64s,
    positions: Int64s,
    bounds: Float64s,
) -> tuple[int, _Number]:
    """Draws the `size` edges of a located row that have the least scores under PRIORITY; their positions ascend.

    Returns which of them has the greatest score, and the position of the edge that comes next; their scores go to
    `bounds` [2]. -1 where no more than `few` edges weigh something, which is `size` or more.
    """
    count = int(list_spans(walk.rows.live.words, spans[span : span + 1], 1, places, np.int64(0)))
    root, patch = walk.weight_root, walk.weight_patch
    count = score_edges(PRIORITY, key, walk.id_root, walk.id_patch, root, patch, count, places, scores, floats, ties)
    if count <= few:
        return -1, np.int64(-1)
    next_ = nth_smallest(scores, ties, count, size + 1, heap)
    at = 0
    last = -1
    best = -1
    for i in range(count):
        if comes_first(scores, ties, i, next_):
            positions[at] = places[i]
            if best < 0 or comes_first(scores, ties, best, i):
                best, last = i, at
            at += 1
    bounds[0] = floats[best]
    bounds[1] = floats[next_]
    return last, places[next_]


@kernel
def weight_at(root: Float64s, patch: Float64s, position: _Number) -> float:
    """The weight of the edge at a position, 1 where edges have none."""
    if root.size + patch.size == 0:
        return 1.0
    weight: float = value_at(root, patch, position)
    return weight


# How the edges of rows that serve many batches are drawn, and how likely each of them was under PRIORITY


class KeptRule(NamedTuple):
    """How the edges of one hop over one edge type are drawn."""

    method: int
    """FLOYD or PRIORITY."""
    fanout: int
    kept: int
    """So many of the fanout come from the row."""
    size: int
    """So many edges has a row, fanout ≤ size; nodes that have no more of them have no row."""
    above: int
    """Nor have nodes that have no more than so many."""
    few: int
    """Under PRIORITY nor have nodes with at most N edges of a weight above 0."""
    skips_zeros: bool
    """Edges of weight 0 are not in a row, so that a row of no more edges than the fanout is looked through too."""
    pick: np.uint64
    """The key of draws from rows, before a node is folded into it."""
    fresh: np.uint64
    """That of the draws besides."""


@kernel
def pass_over(chosen: Int64s, count: _Number, ranks: Int64s, begin: _Number, end: _Number) -> None:
    """Turns ranks among the edges that are not chosen into ranks among all; `chosen` ascend."""
    for e in range(begin, end):
        passed = np.int64(0)
        for j in range(count):  # one is passed when no more than the rank are left before it
            passed += np.int64(chosen[j] - j <= ranks[e])
        ranks[e] += passed


@kernel
def weigh(
    rule: KeptRule,
    root: Float64s,
    patch: Float64s,
    places: Int64s,
    total: _Number,
    row: Int64s,
    held: _Number,
    last: _Number,
    next_: _Number,
    bounds: Float64s,
    positions: Int64s,
    begin: _Number,
    end: _Number,
    weights: Float64s,
) -> None:
    """Horvitz-Thompson weights under PRIORITY: one over the chance of each edge, given the scores of the others.

    `held` edges of the row are eligible, places[:total] are all that are; no `last`: the row is all of those. With that
    chance an edge is in the row, and drawn from it or besides, or it is not, and drawn besides.
    """
    fanout, kept = rule.fanout, rule.kept
    if total <= fanout or last < 0:
        for e in range(begin, end):
            weights[e] = 1.0 if total <= fanout else 1.0 / (fanout / total)
        return
    picks = min(np.int64(kept), held)
    others = held - 1 + np.int64(_is_in(places, total, next_))
    besides = _chance_besides(min(np.int64(kept), others), fanout, total)
    joined = held + 1 - np.int64(_is_in(places, total, last))
    now = _chance_besides(picks, fanout, total)
    for e in range(begin, end):
        p = positions[e]
        inside = _is_in(row, held, p)
        bound, some, all_ = (bounds[1], picks, held) if inside else (bounds[0], min(np.int64(kept), joined), joined)
        chance = min(1.0, (weight_at(root, patch, p) * bound) * 2.0**-32)
        share = some / all_
        drawn = share + (1.0 - share) * _chance_besides(some, fanout, total)
        weights[e] = 1.0 / (chance * drawn + (1.0 - chance) * (besides if inside else now))


@kernel
def _chance_besides(picks: _Number, fanout: int, total: _Number) -> float:
    """How likely an edge that is not among the picks is drawn besides."""
    return float((fanout - picks) / (total - picks)) if picks < fanout else 0.0


@kernel
def first_from(values: Int64s, count: _Number, value: _Number) -> _Number:
    """The place of the first of `count` ascending values that is not less."""
    low, high = np.int64(0), np.int64(count)
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _is_in(values: Int64s, count: _Number, value: _Number) -> bool:
    """Whether one of the first `count` ascending values is this one."""
    place = first_from(values, count, value)
    return bool(place < count and values[place] == value)

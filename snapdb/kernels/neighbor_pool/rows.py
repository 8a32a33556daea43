"""Rows of the neighbour pool: the key of each row, its edges, and the probability of each edge.

A pool row contains C = ⌈amplify * fanout⌉ of a node's edges, and many batches reuse it. It is a pure function of its
key, so it can be redrawn at any time on any device instead of being stored. A batch draws its fanout from the row,
except for the part that the refresh rule (FETCH) reserves for the residual draw from the node's other edges.

Reference implementations: `hold`, `serve` and `_chances` in tests/support/oracle/rows.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Float64s, Int32s, Int64s
from snapdb.kernels.adjacency.forms import LiveArrays, has_values, value_at
from snapdb.kernels.adjacency.spans import BASE_LEN, BASE_LIVE, BASE_START, DEGREE, DELTA_LEN, DELTA_START, list_spans
from snapdb.kernels.bits import live_before, select_live
from snapdb.kernels.compiled import kernel
from snapdb.kernels.draw.eligible import TraversalArrays
from snapdb.kernels.draw.floyd import draw_ranks_sorted
from snapdb.kernels.draw.hop import DraftArrays
from snapdb.kernels.draw.scores import PRIORITY, comes_first, nth_smallest, score_edges
from snapdb.kernels.rng import fold

_Number = int | np.int64


class RowKeys(NamedTuple):
    """The keys of all pool rows of one edge type at one hop for one batch, before a node is folded into them."""

    now: np.uint64
    """The key of the rows of round `round`."""
    later: np.uint64
    """The key of the next round's rows, for nodes that are already in that round."""
    phase: np.uint64
    """The key of phases. A node is in the next round if the upper half of fold(phase, node) plus `share` reaches
    2^32."""
    share: np.uint64
    """The elapsed share of the round, in units of 2^-32. 0 means that all nodes are in the same round."""
    round: int
    """The round of nodes that are not in the next round yet."""
    stem: np.uint64
    """The key of the parts that precede the round. A node's `now` is fold(fold(fold(stem, its round), hop), kind)."""
    hop: np.uint64
    """The hop, in the form that is folded into keys."""
    kind: np.uint64
    """The kind of draw, in the form that is folded into keys."""
    rounds: Int32s
    """[nodes] The round of each node, under SCOPE VISITED. Empty if `round`, `phase` and `share` determine the
    rounds."""


class PoolRule(NamedTuple):
    """The rule by which the edges of one hop over one edge type are drawn from the pool."""

    method: int
    """The method: FLOYD or PRIORITY."""
    fanout: int
    """The maximum number of edges per node."""
    pooled: int
    """The number of edges in the fanout that are drawn from the pool row. The residual draw adds the others."""
    size: int
    """The number of edges in a pool row, fanout ≤ size. Nodes with at most this many edges have no pool row."""
    above: int
    """Nodes with at most this many edges also have no pool row."""
    few: int
    """Under PRIORITY, nodes with at most this many edges of positive weight also have no pool row."""
    skips_zeros: bool
    """Whether edges of weight 0 are never drawn. If True, even a row with no more edges than the fanout is searched for
    such edges."""
    pick: np.uint64
    """The key of draws from pool rows, before a node is folded into it."""
    residual: np.uint64
    """The key of residual draws, before a node is folded into it."""


class PoolRow(NamedTuple):
    """The pool row of one node, and working memory for drawing from it."""

    positions: Int64s
    """[size] Physical positions, ascending."""
    neighbors: Int64s
    """[size] The dense ids of the neighbours, or -1 if they are not known yet."""
    chosen: Int64s
    """[size] The indices of the drawn edges, ascending, and later their ranks in the whole row."""
    table: Int64s
    """[table_size(size)] Working memory for sorting ranks."""
    bounds: Float64s
    """[2] Under PRIORITY, the greatest score in the row and the lowest score outside it."""


@kernel
def row_round(keys: RowKeys, node: _Number) -> _Number:
    """Return the round of a node's row."""
    if keys.rounds.size > 0:
        return np.int64(keys.rounds[node])
    if keys.share == np.uint64(0):
        return np.int64(keys.round)
    turn = (fold(keys.phase, np.uint64(node)) >> np.uint64(32)) + keys.share
    return np.int64(keys.round) + np.int64(turn >> np.uint64(32))


@kernel
def row_key(keys: RowKeys, round_: _Number, node: _Number) -> np.uint64:
    """Return the key with which a node's row of a round is drawn."""
    if keys.rounds.size > 0:
        prefix = fold(fold(fold(keys.stem, np.uint64(round_)), keys.hop), keys.kind)
    else:
        prefix = keys.now if round_ == keys.round else keys.later
    key: np.uint64 = fold(prefix, np.uint64(node))
    return key


# A row is drawn uniformly by Floyd's sampling of ranks, O(size) for any degree. Under PRIORITY, it is drawn by a pass
# over all of the node's edges, O(degree). If there are dead positions, select queries convert ranks to positions.
@kernel
def draw_row(live: LiveArrays, key: np.uint64, spans: Int64s, span: int, row: PoolRow) -> None:
    """Draw a row uniformly. Its positions ascend."""
    size = row.positions.size
    draw_ranks_sorted(key, spans[span, DEGREE], size, row.table, row.positions)
    place_row(live, spans, span, row.positions, 0, size)


@kernel
def draw_best(
    traversal: TraversalArrays, key: np.uint64, few: int, spans: Int64s, span: int, draft: DraftArrays, row: PoolRow
) -> tuple[int, _Number]:
    """Draw a row under PRIORITY: the edges of a located row with the smallest scores. Their positions ascend.

    Returns the index of the row's edge with the greatest score, and the position of the edge outside it with the lowest
    score. Their scores are written to `bounds`. Returns -1 if at most `few` ≥ `size` edges have a positive weight.
    """
    candidates, size = draft.candidates, row.positions.size
    places, floats = candidates.places, candidates.floats
    count = int(list_spans(traversal.rows.live.words, spans[span : span + 1], 1, places, np.int64(0)))
    count = score_edges(PRIORITY, key, traversal, count, candidates)
    if count <= few:
        return -1, np.int64(-1)
    next_ = nth_smallest(candidates, count, size + 1)
    at = 0
    last = -1
    best = -1
    for i in range(count):
        if comes_first(candidates, i, next_):
            row.positions[at] = places[i]
            if best < 0 or comes_first(candidates, best, i):
                best, last = i, at
            at += 1
    row.bounds[0] = floats[best]
    row.bounds[1] = floats[next_]
    return last, places[next_]


@kernel
def place_row(live: LiveArrays, spans: Int64s, span: int, positions: Int64s, begin: int, end: int) -> None:
    """Map ranks in a located row to physical positions."""
    words, before = live.words, live.before
    first, kept, alive = spans[span, BASE_START], spans[span, BASE_LEN], spans[span, BASE_LIVE]
    second, rest = spans[span, DELTA_START], spans[span, DELTA_LEN]
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
def rank_in(live: LiveArrays, spans: Int64s, span: int, position: _Number) -> _Number:
    """Return the rank, in a located row, of the edge at a position, or -1 if the edge is not in the row."""
    first, second, start = spans[span, BASE_START], spans[span, DELTA_START], np.int64(-1)
    rank: _Number = np.int64(-1)
    if position >= first and position - first < spans[span, BASE_LEN]:
        start, rank = first, np.int64(0)
    elif position >= second and position - second < spans[span, DELTA_LEN]:
        start, rank = second, spans[span, BASE_LIVE]
    if rank < 0:
        return rank
    if live.words.size == 0:
        return rank + position - start
    return rank + live_before(live.words, live.before, position) - live_before(live.words, live.before, start)


# The residual draw is uniform over the edges that the first draw left, so its ranks skip the drawn edges. This costs
# O(k²) steps for k edges, which is faster than a search for fanouts of 5 to 50.
@kernel
def pass_over(chosen: Int64s, count: _Number, ranks: Int64s, begin: _Number, end: _Number) -> None:
    """Map ranks among the edges that are not chosen to ranks among all edges. `chosen` is ascending."""
    for e in range(begin, end):
        passed = np.int64(0)
        for j in range(count):  # a rank passes chosen edge j if at most `rank` free edges precede that edge
            passed += np.int64(chosen[j] - j <= ranks[e])
        ranks[e] += passed


# Horvitz-Thompson weights of draws from a PRIORITY row. Given the scores of all other edges, an edge is in the row with
# probability weight * threshold. If it is, it is drawn from the row or by the residual draw, and otherwise only by the
# residual draw. The weight is the reciprocal of the total probability.
@kernel
def weight_at(traversal: TraversalArrays, position: _Number) -> float:
    """Return the weight of the edge at a position, or 1 if edges have no weights."""
    if not has_values(traversal.weights):
        return 1.0
    weight: float = value_at(traversal.weights, position)
    return weight


class RowShare(NamedTuple):
    """The eligible part of a PRIORITY row, among all eligible edges of its node."""

    total: _Number
    """The number of all eligible edges, which are listed in the draft's candidates."""
    held: _Number
    """The number of eligible edges in the row."""
    last: _Number
    """The position of the row's edge with the greatest score, or -1 if the row contains every edge."""
    following: _Number
    """The position of the edge with the lowest score outside the row."""


@kernel
def weigh(
    rule: PoolRule,
    traversal: TraversalArrays,
    share: RowShare,
    row: PoolRow,
    draft: DraftArrays,
    begin: _Number,
    end: _Number,
) -> None:
    """Write the weights of the edges drawn from a row and by the residual draw to weights[begin:end]."""
    fanout, pooled, places, weights = rule.fanout, rule.pooled, draft.candidates.places, draft.weights
    total, held = share.total, share.held
    if total <= fanout or share.last < 0:
        for e in range(begin, end):
            weights[e] = 1.0 if total <= fanout else 1.0 / (fanout / total)
        return
    picks = min(np.int64(pooled), held)
    others = held - 1 + np.int64(_is_in(places, total, share.following))
    without = _residual_chance(min(np.int64(pooled), others), fanout, total)
    joined = held + 1 - np.int64(_is_in(places, total, share.last))
    now = _residual_chance(picks, fanout, total)
    for e in range(begin, end):
        p = draft.positions[e]
        inside = _is_in(row.positions, held, p)
        bound = row.bounds[1] if inside else row.bounds[0]
        some, all_ = (picks, held) if inside else (min(np.int64(pooled), joined), joined)
        chance = min(1.0, (weight_at(traversal, p) * bound) * 2.0**-32)
        part = some / all_
        drawn = part + (1.0 - part) * _residual_chance(some, fanout, total)
        weights[e] = 1.0 / (chance * drawn + (1.0 - chance) * (without if inside else now))


@kernel
def _residual_chance(picks: _Number, fanout: int, total: _Number) -> float:
    """Return the probability that the residual draw takes an edge that is not among the picks."""
    return float((fanout - picks) / (total - picks)) if picks < fanout else 0.0


@kernel
def first_from(values: Int64s, count: _Number, value: _Number) -> _Number:
    """Binary search for the index of the first of `count` ascending values that is not less than `value`."""
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
    """Return whether the first `count` ascending values contain a value."""
    place = first_from(values, count, value)
    return bool(place < count and values[place] == value)

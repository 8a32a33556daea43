"""A node's row of so many of its edges: by which key it is drawn, and at which positions its edges stand."""

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Float64s, Int32s, Int64s, UInt64s
from snapdb.kernels.bits import live_before, select_live
from snapdb.kernels.compiled import inlined, kernel
from snapdb.kernels.eligible import WalkArrays, value_at
from snapdb.kernels.rng import fold
from snapdb.kernels.scores import PRIORITY, score_edges
from snapdb.kernels.select import comes_first, nth_smallest
from snapdb.kernels.spans import ALIVE, FIRST, KEPT, REST, SECOND, list_spans

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


@inlined
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

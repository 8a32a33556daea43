"""How the edges of rows that serve many batches are drawn, and how likely each of them was under PRIORITY."""

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Float64s, Int64s
from snapdb.kernels.compiled import inlined, kernel
from snapdb.kernels.drawn_rows import weight_at

_Number = int | np.int64


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


@inlined
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

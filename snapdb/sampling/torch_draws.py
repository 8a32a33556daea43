"""How torch draws from the eligible edges: every method, for all rows of a hop at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from snapdb.kernels.draw.uniform import EVERY
from snapdb.kernels.torch_ops import (
    below,
    draw,
    floyd,
    heavy,
    high_half,
    order_in_rows,
    priority,
    race,
    spread,
    unsigned_order,
)
from snapdb.sampling.torch_eligible import Candidates, Eligible, Frontier, candidates, eligible_by_weight
from snapdb.sampling.torch_kept import Kept, draw_from_rows
from snapdb.sampling.torch_keys import HopKeys
from snapdb.sampling.torch_walks import TorchWalk
from snapdb.types import Drawing


class Drawn(NamedTuple):
    """Edges in emission order."""

    sides: Tensor
    """Which row each is of."""
    positions: Tensor
    weights: Tensor | None
    """Horvitz-Thompson's, under PRIORITY."""


class _Picks(NamedTuple):
    """The draws from some rows."""

    counts: Tensor
    """[rows]"""
    ranks: Tensor
    """Among the eligible edges of a row, row after row."""
    weights: Tensor | None = None


@dataclass(frozen=True, slots=True)
class HopDraws:
    """How one hop draws over one relation."""

    walk: TorchWalk
    drawing: Drawing
    fanout: int
    keys: HopKeys
    table: Tensor
    """`LOG_TABLE` on the device."""
    kept: Kept | None = None
    """None: all batches draw afresh."""

    @property
    def skips_zeros(self) -> bool:
        """Whether edges of weight 0 are not in the rows. Where all edges are taken, they are there."""
        return self.walk.skips_zeros and self.fanout != EVERY

    def draw_edges(self, frontier: Frontier, eligible: Eligible) -> Drawn:
        """Up to `fanout` edges of each node; all of them, ascending, where there are no more."""
        many = eligible.degrees > self.fanout
        if self.kept is not None and self.drawing.weighted:
            eligible = eligible_by_weight(self.walk, eligible, many | self.skips_zeros)
            many = eligible.degrees > self.fanout
        elif self.skips_zeros:  # of the others only candidates that weigh something are drawn
            eligible = eligible_by_weight(self.walk, eligible, ~many)
        counts = eligible.degrees
        picks = self._picks(frontier, many.nonzero().squeeze(1), eligible)
        counts = counts.masked_scatter(many, picks.counts)
        sides, ranks = spread(counts)
        drawn = many[sides]
        ranks[drawn] = picks.ranks
        weights = None
        if picks.weights is not None:
            weights = torch.ones(ranks.shape, dtype=torch.float64, device=ranks.device)
            weights[drawn] = picks.weights
        return Drawn(sides, eligible.positions(sides, ranks), weights)

    def _picks(self, frontier: Frontier, rows: Tensor, eligible: Eligible) -> _Picks:
        """The draws from rows that have more eligible edges than the fanout."""
        some = Frontier(frontier.nodes[rows], frontier.trees[rows] if frontier.trees.numel() else frontier.trees)
        k, drawing, weigh = self.fanout, self.drawing, self.drawing.method == "PRIORITY"
        if rows.numel() == 0:
            return _Picks(rows, rows, rows.to(torch.float64) if weigh else None)
        eligible = eligible.of(rows)
        if self.kept is not None:
            ranks, weights = draw_from_rows(self.walk, k, self.kept, some, eligible, self.keys, weigh=weigh)
            return _Picks(torch.full_like(rows, k), ranks.reshape(-1), None if weights is None else weights.reshape(-1))
        if not is_scored(drawing, self.walk):
            return _by_rank(drawing, k, some, eligible.degrees, self.keys)
        return _by_score(self, some, candidates(self.walk, eligible))


def is_scored(drawing: Drawing, walk: TorchWalk) -> bool:
    """Whether a draw reads all eligible edges of a row, not only those that it returns."""
    if drawing.method == "LATEST":
        return walk.turn is not None
    return drawing.weighted or drawing.method not in ("UNIFORM", "FULL")


def _by_rank(drawing: Drawing, k: int, frontier: Frontier, degrees: Tensor, keys: HopKeys) -> _Picks:
    """Draws that need to know only how many edges are eligible."""
    slots = torch.arange(k, device=degrees.device)
    if drawing.method == "LATEST":
        ranks = (degrees - k)[:, None] + slots
    elif drawing.replace:
        ranks = below(draw(keys.picks(frontier)[:, None], slots), degrees[:, None])
    else:
        ranks = floyd(keys.picks(frontier), degrees, k)
    return _Picks(torch.full_like(degrees, k), ranks.reshape(-1))


def _by_score(hop: HopDraws, frontier: Frontier, found: Candidates) -> _Picks:
    """Draws that look at every eligible edge."""
    if hop.drawing.replace:
        found = found.of_weight() if hop.skips_zeros else found
        return _with_replacement(found, hop.fanout, hop.keys.picks(frontier), skips_zeros=hop.skips_zeros)
    if hop.drawing.method in ("UNIFORM", "PRIORITY"):
        found = found.of_weight()
    return _least(found, hop.fanout, _scores(hop, frontier, found), weigh=hop.drawing.method == "PRIORITY")


def _scores(hop: HopDraws, frontier: Frontier, found: Candidates) -> tuple[Tensor, ...]:
    """What the candidates of a row are sorted by: the least are drawn."""
    walk, drawing, keys = hop.walk, hop.drawing, hop.keys
    assert walk.edge_id is not None
    ids = walk.edge_id[found.positions].to(torch.int64)
    nodes = frontier.nodes[found.rows]
    match drawing.method:
        case "TOPK":
            return 0.0 - found.weights, ~ids  # so that there is no -0
        case "LATEST":
            return (~ids,) if walk.time is None else (~walk.time[found.positions], ~ids)
        case "BOTTOMK":
            return unsigned_order(keys.edges(nodes, ids)), ids
        case "LABOR":
            far = walk.indices[found.positions].to(torch.int64)
            return unsigned_order(keys.neighbours(far, drawing.dependent)), ids
        case "PRIORITY":
            return priority(high_half(keys.edges(nodes, ids)), found.weights), ids
        case _:
            return race(high_half(keys.edges(nodes, ids)), found.weights, hop.table), ids


def _least(found: Candidates, k: int, scores: tuple[Tensor, ...], *, weigh: bool) -> _Picks:
    """The k least of each row, by ascending rank; weighed by one over the chance to be less than the next."""
    order = order_in_rows(found.rows, *scores)
    _, places = spread(found.counts)
    chosen = torch.zeros_like(order, dtype=torch.bool)
    chosen[order[places < k]] = True
    weights = None
    if weigh:
        after = order[places == k]
        threshold = torch.full(found.counts.shape, torch.inf, dtype=torch.float64, device=order.device)
        threshold[found.rows[after]] = scores[0][after]
        chances = (found.weights[chosen] * threshold[found.rows[chosen]]) * 2.0**-32
        weights = 1.0 / chances.clamp(max=1.0)
    return _Picks(found.counts.clamp(max=k), found.ranks[chosen], weights)


def _with_replacement(found: Candidates, k: int, keys: Tensor, *, skips_zeros: bool) -> _Picks:
    """k draws from each row, with probability proportional to weight; none from a row of weight 0.

    `skips_zeros`: all candidates weigh something, and where there are no more than k they are taken once each.
    """
    most = torch.zeros(found.counts.shape, dtype=torch.float64, device=keys.device)
    most = most.scatter_reduce(0, found.rows, found.weights, "amax")
    upto = torch.nn.functional.pad(heavy(found.weights, most[found.rows]).cumsum(0), (1, 0))
    ends = found.counts.cumsum(0)
    base, total = upto[ends - found.counts], upto[ends] - upto[ends - found.counts]
    rows = (total > 0).nonzero().squeeze(1)
    slots = torch.arange(k, device=keys.device)
    at = base[rows, None] + below(draw(keys[rows, None], slots), total[rows, None])
    drawn, sizes = torch.searchsorted(upto[1:], at, right=True), torch.where(total > 0, k, 0)
    if not skips_zeros:
        return _Picks(sizes, found.ranks[drawn.reshape(-1)])
    sizes, first = found.counts.clamp(max=k), ends - found.counts
    drawn = torch.where((found.counts <= k)[rows, None], first[rows, None] + slots, drawn)
    return _Picks(sizes, found.ranks[drawn[slots < sizes[rows, None]]])

"""How edges are drawn from those that are eligible: every method, for all rows of a hop at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from snapdb.kernels.torch_floyd import floyd
from snapdb.kernels.torch_rng import below, draw, fold, high_half, shifted, signed, unsigned_order
from snapdb.kernels.torch_rows import counts_of, order_in_rows, spread
from snapdb.kernels.torch_scores import heavy, priority, race
from snapdb.sampling.keys import hash_prefix, labor_keys, pick_prefix
from snapdb.sampling.torch_eligible import Eligible, Frontier
from snapdb.sampling.torch_walks import TorchWalk
from snapdb.types import Drawing

__all__ = ["Drawn", "HopKeys", "draw_edges", "is_scored"]


@dataclass(frozen=True, slots=True)
class HopKeys:
    """The keys of one hop over one edge type."""

    seed: int
    batch: int
    hop: int
    edge_type: int
    ordinals: Tensor | None
    """Of the seeds, by tree, where trees are disjoint."""

    def picks(self, frontier: Frontier) -> Tensor:
        """The pick key of each node."""
        keys = fold(_word(pick_prefix(self.seed, self.batch, self.hop, self.edge_type)), frontier.nodes)
        return keys if self.ordinals is None else fold(keys, self.ordinals[frontier.trees])

    def edges(self, nodes: Tensor, edge_ids: Tensor) -> Tensor:
        """The hash key of each edge, whatever the tree."""
        return fold(fold(_word(hash_prefix(self.seed, self.batch, self.hop, self.edge_type)), nodes), edge_ids)

    def neighbours(self, nodes: Tensor, dependent: int) -> Tensor:
        """The hash key of each neighbour, whoever asks."""
        now, later, turns, share = labor_keys(self.seed, self.batch, self.hop, self.edge_type, dependent)
        turned = shifted(fold(_word(turns), nodes), 32) + int(share) >= 1 << 32
        return fold(torch.where(turned, _word(later), _word(now)), nodes)


def _word(key: np.uint64) -> int:
    return signed(int(key))


class Drawn(NamedTuple):
    """Edges in emission order."""

    sides: Tensor
    """Which row each is of."""
    positions: Tensor
    weights: Tensor | None
    """Horvitz-Thompson's, under PRIORITY."""


class _Picks(NamedTuple):
    """What is drawn of some rows."""

    counts: Tensor
    """[rows]"""
    ranks: Tensor
    """Among the eligible edges of a row, row after row."""
    weights: Tensor | None = None


class _Candidates(NamedTuple):
    """All eligible edges of some rows, one after another."""

    counts: Tensor
    """[rows]"""
    rows: Tensor
    ranks: Tensor
    positions: Tensor
    weights: Tensor

    def of_weight(self) -> _Candidates:
        """Those that weigh something."""
        kept = self.weights > 0
        return _Candidates(counts_of(kept, self.counts), *(column[kept] for column in self[1:]))


def is_scored(drawing: Drawing, walk: TorchWalk) -> bool:
    """Whether all eligible edges of a row are looked at, not only those drawn."""
    if drawing.method == "LATEST":
        return walk.turn is not None
    return drawing.weighted or drawing.method not in ("UNIFORM", "FULL")


def draw_edges(
    walk: TorchWalk, drawing: Drawing, fanout: int, frontier: Frontier, eligible: Eligible, keys: HopKeys, table: Tensor
) -> Drawn:
    """Up to `fanout` edges of each node; all of them, ascending, where there are no more.

    `table` is `LOG_TABLE` on the device.
    """
    counts = eligible.degrees
    many = counts > fanout
    picks = _picks(walk, drawing, fanout, frontier, many.nonzero().squeeze(1), eligible, keys, table)
    counts = counts.masked_scatter(many, picks.counts)
    sides, ranks = spread(counts)
    drawn = many[sides]
    ranks[drawn] = picks.ranks
    weights = None
    if picks.weights is not None:
        weights = torch.ones(ranks.shape, dtype=torch.float64, device=ranks.device)
        weights[drawn] = picks.weights
    return Drawn(sides, eligible.positions(sides, ranks), weights)


def _picks(
    walk: TorchWalk,
    drawing: Drawing,
    k: int,
    frontier: Frontier,
    rows: Tensor,
    eligible: Eligible,
    keys: HopKeys,
    table: Tensor,
) -> _Picks:
    """What is drawn of the rows that have more than k eligible edges."""
    some = Frontier(frontier.nodes[rows], frontier.trees[rows] if frontier.trees.numel() else frontier.trees)
    degrees = eligible.degrees[rows]
    if rows.numel() == 0:
        return _Picks(rows, rows, rows.to(torch.float64) if drawing.method == "PRIORITY" else None)
    if not is_scored(drawing, walk):
        return _by_rank(drawing, k, some, degrees, keys)
    local, ranks = spread(degrees)
    positions = eligible.positions(rows[local], ranks)
    weights = torch.ones(ranks.shape, dtype=torch.float64, device=ranks.device)
    if drawing.weighted and walk.weight is not None:
        weights = walk.weight[positions]
    return _by_score(walk, drawing, k, some, _Candidates(degrees, local, ranks, positions, weights), keys, table)


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


def _by_score(
    walk: TorchWalk, drawing: Drawing, k: int, frontier: Frontier, found: _Candidates, keys: HopKeys, table: Tensor
) -> _Picks:
    """Draws that look at every eligible edge."""
    if drawing.replace:
        return _with_replacement(found, k, keys.picks(frontier))
    if drawing.method in ("UNIFORM", "PRIORITY"):
        found = found.of_weight()
    scores = _scores(walk, drawing, frontier, found, keys, table)
    return _least(found, k, scores, weigh=drawing.method == "PRIORITY")


def _scores(
    walk: TorchWalk, drawing: Drawing, frontier: Frontier, found: _Candidates, keys: HopKeys, table: Tensor
) -> tuple[Tensor, ...]:
    """What the candidates of a row are sorted by: the least are drawn."""
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
            return race(high_half(keys.edges(nodes, ids)), found.weights, table), ids


def _least(found: _Candidates, k: int, scores: tuple[Tensor, ...], *, weigh: bool) -> _Picks:
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


def _with_replacement(found: _Candidates, k: int, keys: Tensor) -> _Picks:
    """k draws of each row, each edge as often as its weight says; none of a row that weighs nothing."""
    most = torch.zeros(found.counts.shape, dtype=torch.float64, device=keys.device)
    most = most.scatter_reduce(0, found.rows, found.weights, "amax")
    upto = torch.nn.functional.pad(heavy(found.weights, most[found.rows]).cumsum(0), (1, 0))
    ends = found.counts.cumsum(0)
    base, total = upto[ends - found.counts], upto[ends] - upto[ends - found.counts]
    rows = (total > 0).nonzero().squeeze(1)
    slots = torch.arange(k, device=keys.device)
    at = base[rows, None] + below(draw(keys[rows, None], slots), total[rows, None])
    drawn = torch.searchsorted(upto[1:], at, right=True)
    return _Picks(torch.where(total > 0, k, 0), found.ranks[drawn.reshape(-1)])

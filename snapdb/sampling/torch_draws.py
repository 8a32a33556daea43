"""Draws of a hop in torch: draw keys, neighbor pool rows, and all sampling methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from snapdb.kernels.draw.uniform import EVERY
from snapdb.kernels.neighbor_pool.rows import RowKeys
from snapdb.kernels.rng import fresh_prefix, hash_prefix, labor_keys, pick_prefix
from snapdb.kernels.torch_ops import (
    FAR,
    below,
    draw,
    floyd,
    fold,
    heavy,
    high_half,
    is_among,
    order_in_rows,
    past,
    priority,
    race,
    shifted,
    signed,
    spread,
    unsigned_order,
)
from snapdb.sampling.torch_eligible import Candidates, Eligible, Frontier, candidates, eligible_by_weight, stretches
from snapdb.sampling.torch_traversals import TorchTraversal
from snapdb.types import Drawing


@dataclass(frozen=True, slots=True)
class HopKeys:
    """The keys of one hop over one edge type."""

    seed: int
    """The seed from REPEATABLE."""
    batch: int
    """The global batch number."""
    hop: int
    """The hop, or EVERY_HOP."""
    edge_type: int
    """`Relation.hash`."""
    ordinals: Tensor | None
    """[trees] the seeds' ordinals if trees are disjoint, else None."""

    def picks(self, frontier: Frontier) -> Tensor:
        """Return [nodes], the pick key of each node."""
        return self._of_nodes(pick_prefix(self.seed, self.batch, self.hop, self.edge_type), frontier)

    def fresh(self, frontier: Frontier) -> Tensor:
        """Return [nodes], the key of each node's residual draw."""
        return self._of_nodes(fresh_prefix(self.seed, self.batch, self.hop, self.edge_type), frontier)

    def _of_nodes(self, prefix: np.uint64, frontier: Frontier) -> Tensor:
        """Return the prefix extended by each node and, if trees are disjoint, by its tree's ordinal."""
        keys = fold(_word(prefix), frontier.nodes)
        return keys if self.ordinals is None else fold(keys, self.ordinals[frontier.trees])

    def edges(self, nodes: Tensor, edge_ids: Tensor) -> Tensor:
        """Return [edges], the hash key of each edge, which does not depend on the tree."""
        return fold(fold(_word(hash_prefix(self.seed, self.batch, self.hop, self.edge_type)), nodes), edge_ids)

    def neighbors(self, nodes: Tensor, dependent: int) -> Tensor:
        """Return [edges], the hash key of each neighbour, which does not depend on the node that it is drawn for."""
        now, later, turns, share = labor_keys(self.seed, self.batch, self.hop, self.edge_type, dependent)
        return fold(_turned(now, later, turns, share, nodes), nodes)


def _row_words(keys: RowKeys, nodes: Tensor) -> Tensor:
    """Return [nodes], the key of each node's pool row."""
    if keys.rounds.size == 0:
        return fold(_turned(keys.now, keys.later, keys.phase, keys.share, nodes), nodes)
    rounds = torch.from_numpy(keys.rounds[nodes.cpu().numpy()]).to(nodes.device, torch.int64)
    hop, kind = (torch.tensor(_word(part), device=nodes.device) for part in (keys.hop, keys.kind))
    return fold(fold(fold(fold(_word(keys.stem), rounds), hop), kind), nodes)


def _turned(now: np.uint64, later: np.uint64, turns: np.uint64, share: np.uint64, nodes: Tensor) -> Tensor:
    """Return [nodes], the key `later` for nodes in the next round, and `now` for all other nodes."""
    turned = shifted(fold(_word(turns), nodes), 32) + int(share) >= 1 << 32
    return torch.where(turned, _word(later), _word(now))


def _word(key: np.uint64) -> int:
    """Return the key as an int64 with the same bits."""
    return signed(int(key))


# Draws from neighbor pool rows, for all rows of a hop at once.
class Kept(NamedTuple):
    """The pool rows that a hop draws from."""

    keys: RowKeys
    """The keys of pool rows."""
    size: int
    """The number of edges in a row."""
    above: int
    """The largest degree of nodes without a pool row."""
    few: int
    """Under PRIORITY, nodes with at most this many edges of positive weight have no pool row either."""
    picks: int
    """The number of edges of a fanout that are drawn from the row."""


class _Rows(NamedTuple):
    """The pool rows of the nodes in a frontier that have one."""

    which: Tensor
    """[frontier] whether a node has a pool row."""
    positions: Tensor
    """[rows, size] positions, ascending."""
    bounds: tuple[Tensor, Tensor] | None
    """Under PRIORITY: [rows] the score of the last edge in each row, and of the first edge outside it."""
    at: tuple[Tensor, Tensor] | None
    """Under PRIORITY: [rows] the positions of the last edge in each row and of the first edge outside it."""


def _draw_from_rows(
    traversal: TorchTraversal,
    fanout: int,
    kept: Kept,
    frontier: Frontier,
    eligible: Eligible,
    keys: HopKeys,
    *,
    weigh: bool,
) -> tuple[Tensor, Tensor | None]:
    """Return [rows, fanout] ranks among the eligible edges of nodes with more than `fanout` edges, with their weights.

    The weights are Horvitz-Thompson weights. Each row has picks from the eligible edges of the pool row, then the
    residual draw from the other edges.
    """
    rows = _rows(traversal, kept, frontier, weigh=weigh)
    held, counts = _held(rows, eligible)
    chosen, taken = _chosen(keys.picks(frontier), kept.picks, rows, held, counts)
    left = fanout - taken
    fresh = floyd(keys.fresh(frontier), eligible.degrees - taken, int(left.max()), left)
    both = torch.cat((chosen, past(chosen, fresh)), 1)
    slots = torch.arange(fanout, device=both.device)
    # Rows with fewer picks are compacted: their residual draws follow directly, so that every row has `fanout` ranks.
    delivered = both.gather(1, torch.where(slots < taken[:, None], slots, slots + (kept.picks - taken)[:, None]))
    if not weigh:
        return delivered, None
    return delivered, 1.0 / _chances(traversal, kept.picks, eligible, rows, held, delivered)


def _held(rows: _Rows, eligible: Eligible) -> tuple[Tensor, Tensor]:
    """Return the ranks of the pool rows' eligible edges, padded with FAR, and [frontier] their number per node."""
    ranks, inside = eligible.ranks(rows.which.nonzero().squeeze(1), rows.positions)
    held, _ = ranks.where(inside, FAR).sort(1)
    return held, eligible.degrees.masked_scatter(rows.which, inside.sum(1))


def _chosen(keys: Tensor, k: int, rows: _Rows, held: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return [rows, k], the ranks of up to k picks from each pool row, padded with FAR, and [rows] their number.

    If a row has no more than k eligible edges, all are taken.
    """
    slots, taken = torch.arange(k, device=keys.device), counts.clamp(max=k)
    places = floyd(keys, counts.clamp(min=k + 1), k).where((counts > k)[:, None], slots)
    chosen = places.where(slots < taken[:, None], FAR)
    chosen[rows.which] = held.gather(1, places[rows.which])  # k is at most a row's size, so every place is in range
    return chosen, taken


def _rows(traversal: TorchTraversal, kept: Kept, frontier: Frontier, *, weigh: bool) -> _Rows:
    """Draw the pool rows of a frontier's nodes."""
    whole = stretches(traversal, frontier, None)
    which = whole.degrees > max(kept.size, kept.above)
    nodes, whole = frontier.nodes[which], whole.of(which)
    keys = _row_words(kept.keys, nodes)
    if not weigh:
        ranks, _ = floyd(keys, whole.degrees, kept.size).sort(1)
        return _Rows(which, whole.starts[0][:, None] + ranks, None, None)
    assert traversal.edge_id is not None
    edges = candidates(traversal, whole).of_weight()
    ids = traversal.edge_id[edges.positions].to(torch.int64)
    scores = priority(high_half(fold(keys[edges.rows], ids)), edges.weights)
    # One sort of all edges by score replaces the CPU's heap per row, whose branches would diverge on a GPU.
    order = order_in_rows(edges.rows, scores, ids)
    less = edges.counts > kept.few
    # For rows that contain all edges, size + 1 selects no position.
    places = torch.where(less[edges.rows], spread(edges.counts)[1], kept.size + 1)
    last, after = order[places == kept.size - 1], order[places == kept.size]
    positions, _ = edges.positions[order[places < kept.size]].reshape(-1, kept.size).sort(1)
    which = which.masked_scatter(which, less)
    return _Rows(which, positions, (scores[last], scores[after]), (edges.positions[last], edges.positions[after]))


def _chances(
    traversal: TorchTraversal, picks: int, eligible: Eligible, rows: _Rows, held: Tensor, delivered: Tensor
) -> Tensor:
    """Return the probability of each drawn edge, given the scores of all other edges."""
    assert rows.bounds is not None
    assert rows.at is not None
    fanout, degrees = delivered.shape[1], eligible.degrees.to(torch.float64)
    whole = torch.full_like(degrees, fanout) / degrees  # a Python number divided by a tensor would be rounded twice
    chances = whole[:, None].expand(delivered.shape).clone()
    some = rows.which.nonzero().squeeze(1)
    ranks = delivered[some]
    inside, mine = is_among(held, ranks), (held < FAR).sum(1)[:, None]
    last, after = (eligible.ranks(some, at[:, None])[1].to(torch.int64) for at in rows.at)
    own = torch.where(inside, mine, mine + 1 - last).to(torch.float64)
    other = torch.where(inside, mine - 1 + after, mine).to(torch.float64)
    weights: Tensor | float = 1.0
    if traversal.weight is not None:
        weights = traversal.weight[eligible.positions(some[:, None], ranks)]
    last_score, next_score = (bound[:, None] for bound in rows.bounds)
    likely = ((weights * torch.where(inside, next_score, last_score)) * 2.0**-32).clamp(max=1.0)
    picked, beside, without = (
        own.clamp(max=picks) / own,
        _fresh(fanout, own.clamp(max=picks), degrees[some, None]),
        _fresh(fanout, other.clamp(max=picks), degrees[some, None]),
    )
    chances[some] = likely * (picked + (1.0 - picked) * beside) + (1.0 - likely) * without
    return chances


def _fresh(fanout: int, picked: Tensor, degrees: Tensor) -> Tensor:
    """Return the probability that the residual draw takes an edge that was not picked."""
    return torch.where(picked < fanout, (fanout - picked) / (degrees - picked), 0.0)


class Drawn(NamedTuple):
    """Edges in emission order."""

    sides: Tensor
    """[edges] the row of each edge."""
    positions: Tensor
    """[edges] positions in the flat rows."""
    weights: Tensor | None
    """[edges] Horvitz-Thompson weights under PRIORITY, else None."""


class _Picks(NamedTuple):
    """The draws from a set of rows."""

    counts: Tensor
    """[rows] the number of draws from each row."""
    ranks: Tensor
    """[draws] ranks among the eligible edges of their row, row by row."""
    weights: Tensor | None = None
    """[draws] Horvitz-Thompson weights, or None."""


@dataclass(frozen=True, slots=True)
class HopDraws:
    """The rule and keys of one hop's draws over one relation."""

    traversal: TorchTraversal
    drawing: Drawing
    fanout: int
    """The maximum number of edges per node."""
    keys: HopKeys
    table: Tensor
    """`LOG_TABLE` on the device."""
    kept: Kept | None = None
    """The pool rows, or None if every batch is resampled."""

    @property
    def skips_zeros(self) -> bool:
        """Whether edges of weight 0 are excluded. If all edges are taken, edges of weight 0 are included."""
        return self.traversal.skips_zeros and self.fanout != EVERY

    def draw_edges(self, frontier: Frontier, eligible: Eligible) -> Drawn:
        """Return up to `fanout` edges of each node. A node with at most `fanout` edges gets all of them, ascending."""
        many = eligible.degrees > self.fanout
        if self.kept is not None and self.drawing.weighted:
            eligible = eligible_by_weight(self.traversal, eligible, many | self.skips_zeros)
            many = eligible.degrees > self.fanout
        elif self.skips_zeros:  # longer rows are filtered among their candidates, in the method's draw
            eligible = eligible_by_weight(self.traversal, eligible, ~many)
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
        """Return the draws from rows that have more eligible edges than the fanout."""
        some = Frontier(frontier.nodes[rows], frontier.trees[rows] if frontier.trees.numel() else frontier.trees)
        k, drawing, weigh = self.fanout, self.drawing, self.drawing.method == "PRIORITY"
        if rows.numel() == 0:
            return _Picks(rows, rows, rows.to(torch.float64) if weigh else None)
        eligible = eligible.of(rows)
        if self.kept is not None:
            ranks, weights = _draw_from_rows(self.traversal, k, self.kept, some, eligible, self.keys, weigh=weigh)
            return _Picks(torch.full_like(rows, k), ranks.reshape(-1), None if weights is None else weights.reshape(-1))
        if not is_scored(drawing, self.traversal):
            return _by_rank(drawing, k, some, eligible.degrees, self.keys)
        return _by_score(self, some, candidates(self.traversal, eligible))


def is_scored(drawing: Drawing, traversal: TorchTraversal) -> bool:
    """Return whether a draw reads all eligible edges of a row, not only the edges that it returns."""
    if drawing.method == "LATEST":
        return traversal.turn is not None
    return drawing.weighted or drawing.method not in ("UNIFORM", "FULL")


def _by_rank(drawing: Drawing, k: int, frontier: Frontier, degrees: Tensor, keys: HopKeys) -> _Picks:
    """Return draws that depend only on the number of eligible edges."""
    slots = torch.arange(k, device=degrees.device)
    if drawing.method == "LATEST":
        ranks = (degrees - k)[:, None] + slots
    elif drawing.replace:
        ranks = below(draw(keys.picks(frontier)[:, None], slots), degrees[:, None])
    else:
        ranks = floyd(keys.picks(frontier), degrees, k)
    return _Picks(torch.full_like(degrees, k), ranks.reshape(-1))


def _by_score(hop: HopDraws, frontier: Frontier, edges: Candidates) -> _Picks:
    """Return draws that score every eligible edge."""
    if hop.drawing.replace:
        edges = edges.of_weight() if hop.skips_zeros else edges
        return _with_replacement(edges, hop.fanout, hop.keys.picks(frontier), skips_zeros=hop.skips_zeros)
    if hop.drawing.method in ("UNIFORM", "PRIORITY"):
        edges = edges.of_weight()
    return _least(edges, hop.fanout, _scores(hop, frontier, edges), weigh=hop.drawing.method == "PRIORITY")


def _scores(hop: HopDraws, frontier: Frontier, edges: Candidates) -> tuple[Tensor, ...]:
    """Return the sort keys of each row's candidates. The smallest keys are drawn: see `kernels/draw/scores.py`."""
    traversal, drawing, keys = hop.traversal, hop.drawing, hop.keys
    assert traversal.edge_id is not None
    ids = traversal.edge_id[edges.positions].to(torch.int64)
    nodes = frontier.nodes[edges.rows]
    match drawing.method:
        case "TOPK":
            return 0.0 - edges.weights, ~ids  # 0.0 - x, because -x would turn 0.0 into -0.0, which sorts differently
        case "LATEST":
            return (~ids,) if traversal.time is None else (~traversal.time[edges.positions], ~ids)
        case "BOTTOMK":
            return unsigned_order(keys.edges(nodes, ids)), ids
        case "LABOR":
            far = traversal.indices[edges.positions].to(torch.int64)
            return unsigned_order(keys.neighbors(far, drawing.dependent)), ids
        case "PRIORITY":
            return priority(high_half(keys.edges(nodes, ids)), edges.weights), ids
        case _:
            return race(high_half(keys.edges(nodes, ids)), edges.weights, hop.table), ids


def _least(edges: Candidates, k: int, scores: tuple[Tensor, ...], *, weigh: bool) -> _Picks:
    """Return the k smallest candidates of each row by ascending rank, weighted by inverse sampling probabilities."""
    order = order_in_rows(edges.rows, *scores)
    _, places = spread(edges.counts)
    chosen = torch.zeros_like(order, dtype=torch.bool)
    chosen[order[places < k]] = True
    weights = None
    if weigh:
        after = order[places == k]
        threshold = torch.full(edges.counts.shape, torch.inf, dtype=torch.float64, device=order.device)
        # The (k+1)-th score of a row is the threshold of priority sampling. A row without one keeps all its candidates.
        threshold[edges.rows[after]] = scores[0][after]
        chances = (edges.weights[chosen] * threshold[edges.rows[chosen]]) * 2.0**-32
        weights = 1.0 / chances.clamp(max=1.0)
    return _Picks(edges.counts.clamp(max=k), edges.ranks[chosen], weights)


def _with_replacement(edges: Candidates, k: int, keys: Tensor, *, skips_zeros: bool) -> _Picks:
    """Return k draws per row, in proportion to weights, but no draws from a row whose weights are all 0.

    If `skips_zeros`, all candidates have positive weight, and a row of at most k candidates takes each of them once.
    """
    most = torch.zeros(edges.counts.shape, dtype=torch.float64, device=keys.device)
    most = most.scatter_reduce(0, edges.rows, edges.weights, "amax")
    # Inverse transform sampling over one global prefix sum: rows are adjacent, so each row draws from its part of the
    # sum.
    upto = torch.nn.functional.pad(heavy(edges.weights, most[edges.rows]).cumsum(0), (1, 0))
    ends = edges.counts.cumsum(0)
    base, total = upto[ends - edges.counts], upto[ends] - upto[ends - edges.counts]
    rows = (total > 0).nonzero().squeeze(1)
    slots = torch.arange(k, device=keys.device)
    at = base[rows, None] + below(draw(keys[rows, None], slots), total[rows, None])
    drawn, sizes = torch.searchsorted(upto[1:], at, right=True), torch.where(total > 0, k, 0)
    if not skips_zeros:
        return _Picks(sizes, edges.ranks[drawn.reshape(-1)])
    sizes, first = edges.counts.clamp(max=k), ends - edges.counts
    drawn = torch.where((edges.counts <= k)[rows, None], first[rows, None] + slots, drawn)
    return _Picks(sizes, edges.ranks[drawn[slots < sizes[rows, None]]])

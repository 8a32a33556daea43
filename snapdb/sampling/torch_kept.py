"""What batches draw from rows that serve many of them, for all rows of a hop at once."""

from typing import NamedTuple

import torch
from torch import Tensor

from snapdb.kernels.neighbor_pool.rows import RowKeys
from snapdb.kernels.torch_ops import FAR, floyd, fold, high_half, is_among, order_in_rows, past, priority, spread
from snapdb.sampling.torch_eligible import Eligible, Frontier, candidates, stretches
from snapdb.sampling.torch_keys import HopKeys, row_words
from snapdb.sampling.torch_walks import TorchWalk


class Kept(NamedTuple):
    """Which rows a hop draws from."""

    keys: RowKeys
    size: int
    """How many edges a row holds."""
    above: int
    """The largest degree of nodes whose rows hold all of their edges."""
    few: int
    """Under PRIORITY so do nodes with at most this many edges of a weight above 0."""
    picks: int
    """The number of edges of a fanout that are drawn from the row."""


class _Rows(NamedTuple):
    """The rows that do not hold everything."""

    which: Tensor
    """[all rows] these."""
    positions: Tensor
    """[these, size] ascending."""
    bounds: tuple[Tensor, Tensor] | None
    """Under PRIORITY: [these] the score of the last edge that is held, and of the first that is not …"""
    at: tuple[Tensor, Tensor] | None
    """… and their positions."""


def draw_from_rows(
    walk: TorchWalk, fanout: int, kept: Kept, frontier: Frontier, eligible: Eligible, keys: HopKeys, *, weigh: bool
) -> tuple[Tensor, Tensor | None]:
    """[rows, fanout] ranks among the eligible edges of nodes that have more, and Horvitz-Thompson's weights.

    Row by row: picks from what the row holds of them, then fresh draws from the others.
    """
    rows = _rows(walk, kept, frontier, weigh=weigh)
    held, counts = _held(rows, eligible)
    chosen, taken = _chosen(keys.picks(frontier), kept.picks, rows, held, counts)
    left = fanout - taken
    fresh = floyd(keys.fresh(frontier), eligible.degrees - taken, int(left.max()), left)
    both = torch.cat((chosen, past(chosen, fresh)), 1)
    slots = torch.arange(fanout, device=both.device)
    delivered = both.gather(1, torch.where(slots < taken[:, None], slots, slots + (kept.picks - taken)[:, None]))
    if not weigh:
        return delivered, None
    return delivered, 1.0 / _chances(walk, kept.picks, eligible, rows, held, delivered)


def _held(rows: _Rows, eligible: Eligible) -> tuple[Tensor, Tensor]:
    """The ranks of what rows hold of the eligible edges, FAR behind them; of all rows, how many these are."""
    ranks, found = eligible.ranks(rows.which.nonzero().squeeze(1), rows.positions)
    held, _ = ranks.where(found, FAR).sort(1)
    return held, eligible.degrees.masked_scatter(rows.which, found.sum(1))


def _chosen(keys: Tensor, k: int, rows: _Rows, held: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """[rows, k] the ranks of up to k picks of what each row holds, FAR behind them; how many these are.

    A row that holds no more is taken as it is.
    """
    slots, taken = torch.arange(k, device=keys.device), counts.clamp(max=k)
    places = floyd(keys, counts.clamp(min=k + 1), k).where((counts > k)[:, None], slots)
    chosen = places.where(slots < taken[:, None], FAR)
    chosen[rows.which] = held.gather(1, places[rows.which])  # k is at most a row's size, so no place leads out
    return chosen, taken


def _rows(walk: TorchWalk, kept: Kept, frontier: Frontier, *, weigh: bool) -> _Rows:
    """What the rows of these nodes hold."""
    whole = stretches(walk, frontier, None)
    which = whole.degrees > max(kept.size, kept.above)
    nodes, whole = frontier.nodes[which], whole.of(which)
    keys = row_words(kept.keys, nodes)
    if not weigh:
        ranks, _ = floyd(keys, whole.degrees, kept.size).sort(1)
        return _Rows(which, whole.starts[0][:, None] + ranks, None, None)
    assert walk.edge_id is not None
    found = candidates(walk, whole).of_weight()
    ids = walk.edge_id[found.positions].to(torch.int64)
    scores = priority(high_half(fold(keys[found.rows], ids)), found.weights)
    order = order_in_rows(found.rows, scores, ids)
    less = found.counts > kept.few
    places = torch.where(less[found.rows], spread(found.counts)[1], kept.size + 1)  # of rows that hold all: none
    last, after = order[places == kept.size - 1], order[places == kept.size]
    positions, _ = found.positions[order[places < kept.size]].reshape(-1, kept.size).sort(1)
    which = which.masked_scatter(which, less)
    return _Rows(which, positions, (scores[last], scores[after]), (found.positions[last], found.positions[after]))


def _chances(walk: TorchWalk, picks: int, eligible: Eligible, rows: _Rows, held: Tensor, delivered: Tensor) -> Tensor:
    """The probability that each edge is drawn, given the scores of the others."""
    assert rows.bounds is not None
    assert rows.at is not None
    fanout, degrees = delivered.shape[1], eligible.degrees.to(torch.float64)
    whole = torch.full_like(degrees, fanout) / degrees  # a number over a tensor would be rounded twice
    chances = whole[:, None].expand(delivered.shape).clone()
    some = rows.which.nonzero().squeeze(1)
    ranks = delivered[some]
    inside, mine = is_among(held, ranks), (held < FAR).sum(1)[:, None]
    last, after = (eligible.ranks(some, at[:, None])[1].to(torch.int64) for at in rows.at)
    own = torch.where(inside, mine, mine + 1 - last).to(torch.float64)
    other = torch.where(inside, mine - 1 + after, mine).to(torch.float64)
    weights: Tensor | float = 1.0
    if walk.weight is not None:
        weights = walk.weight[eligible.positions(some[:, None], ranks)]
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
    """How likely an edge that was not picked is drawn beside those that were."""
    return torch.where(picked < fanout, (fanout - picked) / (degrees - picked), 0.0)

"""Draws from eligible edges: every METHOD of the contract on a list of entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import inf
from typing import Literal, NamedTuple

from tests.support.oracle.graph import Entry
from tests.support.oracle.numbers import (
    FRESH,
    HASH,
    MASK,
    NO_HOP,
    PHASE,
    below,
    draw,
    floyd,
    fold,
    key,
    pick_key,
    race_length,
    u32,
)
from tests.support.oracle.rows import Refresh

FULL = -1
"""A fanout that includes every neighbour."""
Method = Literal["UNIFORM", "LATEST", "TOPK", "FULL", "PRIORITY", "BOTTOMK", "LABOR"]

_prefix = lru_cache(maxsize=256)(key)  # folds the parts shared by a row's edges only once


@dataclass(frozen=True)
class Options:
    """The sampling options of a batch, except its fanouts."""

    method: Method = "UNIFORM"
    replace: bool = False
    weighted: bool = False
    dependent: int = 1
    inclusive: bool | None = None
    """None without TEMPORAL. True means TEMPORAL <=."""
    within: int | None = None
    layout: Literal["NODES", "BLOCKS"] = "NODES"
    reuse_hops: bool = False
    refresh: Refresh | None = None
    """The refresh policy. None means FBL."""
    zeros_with_all: bool = False
    """Whether an edge of weight 0 is drawn if the node has at most as many edges as the fanout. This rule applies to
    lineages that do not record a rule."""

    def of_row(self, row: list[Entry], fanout: int) -> list[Entry]:
        """Return the edges of a logical row that can be drawn ("Weighted, hashed, ordered": weight 0 means never).

        Edges of weight 0 are removed before edges are counted, so a row with at most `fanout` other edges yields all of
        those.
        """
        by_weight = self.method == "PRIORITY" or (self.method == "UNIFORM" and self.weighted)
        if not by_weight or fanout == FULL or self.zeros_with_all:
            return row
        return [entry for entry in row if entry.edge.weight > 0]

    @property
    def temporal(self) -> bool:
        """Whether each seed has a separate tree."""
        return self.inclusive is not None


class Place(NamedTuple):
    """The parts of a draw's keys."""

    seed: int
    batch: int
    hop: int
    et: int
    node: int
    ordinal: int | None = None
    """The seed's ordinal for disjoint trees."""

    @property
    def pick(self) -> int:
        """The key of draws by rank ("Keys": pick)."""
        return pick_key(*self)

    @property
    def fresh(self) -> int:
        """The key of residual draws ("Keys": fresh)."""
        ordinal = [] if self.ordinal is None else [self.ordinal]
        return key(self.seed, FRESH, self.batch, self.hop, self.et, self.node, *ordinal)

    def hash(self, edge_id: int) -> int:
        """Return the key of an edge, which does not depend on the tree ("Weighted, hashed, ordered": BOTTOMK)."""
        return fold(_prefix(self.seed, HASH, self.batch, self.hop, self.et, self.node), edge_id & MASK)

    def labor(self, neighbor: int, dependent: int) -> int:
        """Return the key of a neighbour, which does not depend on the node ("Weighted, hashed, ordered": LABOR)."""
        return fold(_prefix(self.seed, HASH, staggered(self, neighbor, dependent), self.hop), neighbor)

    @staticmethod
    def of(options: Options, seed: int, batch: int, hop: int, et: int, node: int, ordinal: int) -> Place:
        """Return the parts of the keys, without those that the options exclude."""
        return Place(
            seed, batch, NO_HOP if options.reuse_hops else hop, et, node, ordinal if options.temporal else None
        )


class Pick(NamedTuple):
    """A drawn edge."""

    rank: int
    """The rank among the eligible edges."""
    weight: float | None = None
    """The Horvitz-Thompson weight under PRIORITY."""


def staggered(place: Place, neighbor: int, batches: int) -> int:
    """Return the batch number in a neighbour's key. It changes every `batches` batches, staggered by neighbour."""
    phase = fold(_prefix(place.seed, PHASE, place.hop, place.et), neighbor) >> 32
    return (((place.batch << 32) // batches) + phase) >> 32


def choose(eligible: list[Entry], fanout: int, options: Options, place: Place) -> list[Pick]:
    """Return a node's draws in emission order ("Eligibility", "Uniform draws", "Weighted, hashed, ordered")."""
    if fanout == 0:
        return []
    if fanout == FULL or options.method == "FULL" or len(eligible) <= fanout:
        return [Pick(rank, 1.0 if options.method == "PRIORITY" else None) for rank in range(len(eligible))]
    return DRAWS[options.method](eligible, fanout, options, place)


def _uniform(eligible: list[Entry], fanout: int, options: Options, place: Place) -> list[Pick]:
    """METHOD UNIFORM: Floyd's draws without replacement, draws with replacement, or either of them by weight."""
    count = len(eligible)
    if options.replace and options.weighted:
        return [Pick(rank) for rank in _heavy([entry.edge.weight for entry in eligible], fanout, place.pick)]
    if options.replace:
        return [Pick(below(draw(place.pick, j), count)) for j in range(fanout)]
    if not options.weighted:
        return [Pick(rank) for rank in floyd(place.pick, count, fanout)]
    lengths = {
        rank: race_length(u32(place.hash(entry.edge.edge_id))) / entry.edge.weight
        for rank, entry in enumerate(eligible)
        if entry.edge.weight > 0
    }
    return _least(eligible, fanout, lengths)


def _heavy(weights: list[float], fanout: int, pick: int) -> list[int]:
    """Return ranks drawn with replacement in proportion to weights, in units of 2^-32 of the largest weight."""
    most = max(weights)
    if most == 0:
        return []
    upto = list(accumulate(round(weight / most * 2**32) for weight in weights))
    drawn = (below(draw(pick, j), upto[-1]) for j in range(fanout))
    return [next(rank for rank, bound in enumerate(upto) if bound > t) for t in drawn]


def _priority(eligible: list[Entry], fanout: int, options: Options, place: Place) -> list[Pick]:
    """METHOD PRIORITY: the smallest (u32 + .5) / weight, with 1 / the probability of a smaller score as the weight."""
    scores = {
        rank: (u32(place.hash(entry.edge.edge_id)) + 0.5) / entry.edge.weight
        for rank, entry in enumerate(eligible)
        if entry.edge.weight > 0
    }
    ordered = sorted(scores.values())
    threshold = ordered[fanout] if len(ordered) > fanout else inf

    def weight(rank: int) -> float:
        return 1.0 / min(1.0, (eligible[rank].edge.weight * threshold) * 2.0**-32)

    return [Pick(pick.rank, weight(pick.rank)) for pick in _least(eligible, fanout, scores)]


def _least(eligible: list[Entry], fanout: int, scores: dict[int, float] | dict[int, int]) -> list[Pick]:
    """Return the ranks of the smallest (score, edge id, rank), ascending."""
    ordered = sorted(scores, key=lambda rank: (scores[rank], eligible[rank].edge.edge_id, rank))
    return [Pick(rank) for rank in sorted(ordered[:fanout])]


def _bottomk(eligible: list[Entry], fanout: int, options: Options, place: Place) -> list[Pick]:
    """METHOD BOTTOMK: the smallest hashes of edges."""
    return _least(eligible, fanout, {rank: place.hash(e.edge.edge_id) for rank, e in enumerate(eligible)})


def _labor(eligible: list[Entry], fanout: int, options: Options, place: Place) -> list[Pick]:
    """METHOD LABOR: the smallest hashes of neighbours, which are the same for all nodes."""
    hashes = {rank: place.labor(entry.neighbor, options.dependent) for rank, entry in enumerate(eligible)}
    return _least(eligible, fanout, hashes)


def _greatest(value: Callable[[Entry], float]) -> Callable[[list[Entry], int, Options, Place], list[Pick]]:
    """Return a method that draws the greatest (value, edge id). Ties are resolved by the lowest rank."""

    def chosen(eligible: list[Entry], fanout: int, options: Options, place: Place) -> list[Pick]:
        ordered = sorted(
            range(len(eligible)), key=lambda rank: (-value(eligible[rank]), -eligible[rank].edge.edge_id, rank)
        )
        return [Pick(rank) for rank in sorted(ordered[:fanout])]

    return chosen


DRAWS: dict[Method, Callable[[list[Entry], int, Options, Place], list[Pick]]] = {
    "UNIFORM": _uniform,
    "PRIORITY": _priority,
    "BOTTOMK": _bottomk,
    "LABOR": _labor,
    "TOPK": _greatest(lambda entry: entry.edge.weight),
    "LATEST": _greatest(lambda entry: entry.edge.since),
}

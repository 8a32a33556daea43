"""How edges are drawn from those that are eligible: every METHOD of the contract on a list of entries."""

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
"""A fanout that delivers every neighbour."""
Method = Literal["UNIFORM", "LATEST", "TOPK", "FULL", "PRIORITY", "BOTTOMK", "LABOR"]

_prefix = lru_cache(maxsize=256)(key)  # folding goes left to right: what all edges of a row share is folded once


@dataclass(frozen=True)
class Options:
    """How a batch is drawn, beside its fanouts."""

    method: Method = "UNIFORM"
    replace: bool = False
    weighted: bool = False
    dependent: int = 1
    inclusive: bool | None = None
    """None: not temporal. True: TEMPORAL <=."""
    within: int | None = None
    layout: Literal["NODES", "BLOCKS"] = "NODES"
    reuse_hops: bool = False
    refresh: Refresh | None = None
    """None: FBL."""
    zeros_with_all: bool = False
    """The rule of lineages that record no other: an edge of weight 0 comes where a node has no more than the fanout."""

    def of_row(self, row: list[Entry], fanout: int) -> list[Entry]:
        """The edges of a logical row that draws go by ("Weighted, hashed, ordered": weight 0 means never).

        They are taken out before any are counted: a row of no more than the fanout then delivers the others.
        """
        by_weight = self.method == "PRIORITY" or (self.method == "UNIFORM" and self.weighted)
        if not by_weight or fanout == FULL or self.zeros_with_all:
            return row
        return [entry for entry in row if entry.edge.weight > 0]

    @property
    def temporal(self) -> bool:
        """Whether each seed has a tree of its own."""
        return self.inclusive is not None


class Place(NamedTuple):
    """Where a draw happens: the parts of its keys."""

    seed: int
    batch: int
    hop: int
    et: int
    node: int
    ordinal: int | None = None
    """Of the seed, in disjoint trees."""

    @property
    def pick(self) -> int:
        """The key of draws by rank ("Keys": pick)."""
        return pick_key(*self)

    @property
    def fresh(self) -> int:
        """The key of draws beside a row ("Keys": fresh)."""
        ordinal = [] if self.ordinal is None else [self.ordinal]
        return key(self.seed, FRESH, self.batch, self.hop, self.et, self.node, *ordinal)

    def hash(self, edge_id: int) -> int:
        """The key of an edge, whatever the tree ("Weighted, hashed, ordered": BOTTOMK)."""
        return fold(_prefix(self.seed, HASH, self.batch, self.hop, self.et, self.node), edge_id & MASK)

    def labor(self, neighbor: int, dependent: int) -> int:
        """The key of a neighbour, whoever asks ("Weighted, hashed, ordered": LABOR)."""
        return fold(_prefix(self.seed, HASH, staggered(self, neighbor, dependent), self.hop), neighbor)

    @staticmethod
    def of(options: Options, seed: int, batch: int, hop: int, et: int, node: int, ordinal: int) -> Place:
        """The place with what the options leave out of its keys left out."""
        return Place(
            seed, batch, NO_HOP if options.reuse_hops else hop, et, node, ordinal if options.temporal else None
        )


class Pick(NamedTuple):
    """One edge that was drawn."""

    rank: int
    """Among the eligible."""
    weight: float | None = None
    """Horvitz-Thompson's, under PRIORITY."""


def staggered(place: Place, neighbor: int, batches: int) -> int:
    """The batch number that a neighbour draws by: it moves once in so many batches, each neighbour in its own one."""
    phase = fold(_prefix(place.seed, PHASE, place.hop, place.et), neighbor) >> 32
    return (((place.batch << 32) // batches) + phase) >> 32


def choose(eligible: list[Entry], fanout: int, options: Options, place: Place) -> list[Pick]:
    """The edges that a node gets, in emission order ("Eligibility", "Uniform draws", "Weighted, hashed, ordered")."""
    if fanout == 0:
        return []
    if fanout == FULL or options.method == "FULL" or len(eligible) <= fanout:
        return [Pick(rank, 1.0 if options.method == "PRIORITY" else None) for rank in range(len(eligible))]
    return DRAWS[options.method](eligible, fanout, options, place)


def _uniform(eligible: list[Entry], fanout: int, options: Options, place: Place) -> list[Pick]:
    """METHOD UNIFORM: Floyd's draws, or with replacement, or weighed either way."""
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
    """Ranks drawn with replacement, each as often as its weight says, in units of 2^-32 of the greatest."""
    most = max(weights)
    if most == 0:
        return []
    upto = list(accumulate(round(weight / most * 2**32) for weight in weights))
    drawn = (below(draw(pick, j), upto[-1]) for j in range(fanout))
    return [next(rank for rank, bound in enumerate(upto) if bound > t) for t in drawn]


def _priority(eligible: list[Entry], fanout: int, options: Options, place: Place) -> list[Pick]:
    """METHOD PRIORITY: the smallest (u32 + .5) / weight, each with one over its chance to be smaller than the next."""
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
    """The ranks of the least (score, edge id, rank), ascending."""
    ordered = sorted(scores, key=lambda rank: (scores[rank], eligible[rank].edge.edge_id, rank))
    return [Pick(rank) for rank in sorted(ordered[:fanout])]


def _bottomk(eligible: list[Entry], fanout: int, options: Options, place: Place) -> list[Pick]:
    """METHOD BOTTOMK: the smallest hashes of edges."""
    return _least(eligible, fanout, {rank: place.hash(e.edge.edge_id) for rank, e in enumerate(eligible)})


def _labor(eligible: list[Entry], fanout: int, options: Options, place: Place) -> list[Pick]:
    """METHOD LABOR: the smallest hashes of neighbours, the same for all who have them."""
    hashes = {rank: place.labor(entry.neighbor, options.dependent) for rank, entry in enumerate(eligible)}
    return _least(eligible, fanout, hashes)


def _greatest(value: Callable[[Entry], float]) -> Callable[[list[Entry], int, Options, Place], list[Pick]]:
    """A method that takes the greatest (value, edge id), the first rank among those still equal."""

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

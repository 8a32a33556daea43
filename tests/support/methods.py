"""Settings for all methods, and weighted edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.sampling import vertex_input
from snapdb.types import Direction, Drawing, EdgeType, Fanout, Relation, Temporal
from tests.support.forms import Changing, changing
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec
from tests.support.inside.sampling import open_sampler
from tests.support.inside.storage import EdgeArrays
from tests.support.worlds import weights

OF = EdgeType("leaf", "of", "hub")


def hub(degree: int, seed: int = 0) -> MemoryGraph:
    """Return a graph with a hub of `degree` leaves and a hub of one leaf, with weights and times."""
    rng = np.random.default_rng(seed)
    leaf = np.concatenate([rng.permutation(degree), [0]])
    near = np.concatenate([np.zeros(degree, np.int64), [1]])
    time = rng.integers(0, 50, degree + 1)
    listed = EdgeList(leaf, near, time, weights(rng, leaf, near))
    return MemoryGraph({"leaf": max(degree, 1), "hub": 3}, {OF: listed})


@dataclass(frozen=True)
class Weighed(Changing):
    """A changing graph whose edges have weights and end times."""

    def pick(self, chosen: Any) -> EdgeArrays:
        e = self.edges
        assert e.time is not None
        assert e.weight is not None
        until = None if e.until is None else e.until[chosen]
        return EdgeArrays(
            e.source[chosen], e.destination[chosen], e.edge_id[chosen], e.time[chosen], e.weight[chosen], until
        )

    def listed(self, form: str) -> MemoryGraph:
        """Return the edges of a form, from which the oracle's lists are built."""
        held = self.pick(self.chosen(form))
        edges = EdgeList(held.source, held.destination, held.time, held.weight, until=held.until, ids=held.edge_id)
        return MemoryGraph({"customer": self.nodes}, {EdgeType("customer", "knows", "customer"): edges})


def weighed(seed: int, hub: int, *, ends: bool) -> Weighed:
    """Return random edges between 12 nodes, of which some are added later and some are removed."""
    graph = changing(seed, 12, 60, hub)
    rng, e = np.random.default_rng(seed), graph.edges
    assert e.time is not None
    until = np.where(rng.random(e.time.size) < 0.3, 2**63 - 1, np.maximum(e.time, 0) + rng.integers(1, 5, e.time.size))
    edges = replace(e, weight=rng.choice([0.25, 1.0, 4.0], e.time.size), until=until if ends else None)
    return Weighed(graph.nodes, edges, graph.old, graph.gone, graph.kept)


@dataclass(frozen=True)
class Draw:
    """A draw of 40 edges from one row of 300, with all parts of its keys."""

    drawing: Drawing
    seed: int = 5
    batch: int = 9
    hop: int = 0
    edge: str = "of"
    direction: Direction = "IN"
    node: int = 1
    ids: int = 0
    """The first edge id."""
    leaves: int = 4
    """The first neighbour id."""
    ordinal: int = 3
    temporal: bool = False
    time: int = 50
    further: tuple[Fanout, ...] = ()
    seeds: tuple[int, ...] = ()
    rounds: Mapping[tuple[Relation, int], npt.NDArray[np.int32]] | None = None
    clauses: Mapping[str, Any] = field(default_factory=dict)
    """Additional fields of the statement."""

    def ranks(self) -> list[int]:
        """Return the drawn ranks."""
        leaf, near = np.arange(300) + self.leaves, np.full(300, self.node)
        ends = (leaf, near) if self.direction == "IN" else (near, leaf)
        edge = EdgeType(
            "leaf" if self.direction == "IN" else "hub", self.edge, "hub" if self.direction == "IN" else "leaf"
        )
        ids = np.arange(300) + self.ids
        listed = EdgeList(*ends, np.zeros(300, np.int64), np.ones(300), ids=ids)
        back = EdgeList(np.array([9]), np.array([4]), np.zeros(1, np.int64), np.ones(1))
        graph = MemoryGraph({"leaf": 999, "hub": 10}, {edge: listed, EdgeType("hub", "back", "hub"): back})
        fanout = Fanout(edge, self.direction, (*[0] * self.hop, 40))
        spec = sample_spec(
            "hub",
            fanout,
            *self.further,
            seed=self.seed,
            drawing=self.drawing,
            layout="BLOCKS",
            temporal=Temporal(True, None) if self.temporal else None,
            allow_duplicates=True,
            **self.clauses,
        )
        sampler = open_sampler(graph.view(), spec)
        seeds = np.array([*self.seeds, self.node])
        ordinals = np.arange(seeds.size) + 100
        ordinals[-1] = self.ordinal
        times = np.full(seeds.size, self.time) if self.temporal else None
        entry = vertex_input("hub", seeds, ordinals, times)
        found = sampler.sample(entry, self.batch, sampler.scratch(), self.rounds)
        traversal = next(traversal for traversal in sampler.traversals if traversal.relation.edge == edge)
        (block,) = (block for block in found.hops[self.hop] if block.relation == traversal.relation)
        mine = block.position[block.seed_side == seeds.size - 1]
        ranks: list[int] = (traversal.adjacency.edge_id.read(mine) - self.ids).tolist()
        assert len(ranks) == 40
        return ranks


PARTS: dict[str, dict[str, Any]] = {
    "seed": {"seed": 6},
    "seed above 2^63": {"seed": 2**63 + 5},
    "batch": {"batch": 10},
    "batch above 2^32": {"batch": 9 + 2**32},
    "hop": {"hop": 1},
    "type": {"edge": "also"},
    "direction": {"direction": "OUT"},
    "node": {"node": 2},
    "edge id": {"ids": 1},
    "edge id above 2^32": {"ids": 2**32},
    "neighbour": {"leaves": 5},
    "ordinal": {"ordinal": 8, "temporal": True},
    "ordinal or not": {"temporal": True},
    "seed time": {"time": 51, "temporal": True, "ordinal": 3},
    "other types traversed": {"further": (Fanout(EdgeType("hub", "back", "hub"), "IN", (1,)),)},
    "other seeds": {"seeds": (4, 5, 9)},
}
"""Name → the changed fields of a draw."""


PICKS = {"seed", "seed above 2^63", "batch", "batch above 2^32", "hop", "type", "direction", "node"}

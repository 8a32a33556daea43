"""Hubs with separate leaves, from which draws are easy to count, all refresh policies, and caches of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb.sampling import NeighborSampler, SamplerInput, Subgraph, open_sampler, vertex_input
from snapdb.types import Drawing, EdgeType, Fanout, Refresh, Relation
from tests.support import oracle
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec
from tests.support.inside.sampling import Rounds, RowCache, choose_rows, slot_of

OF = EdgeType("leaf", "of", "hub")
DEGREES = (1, 2, 3, 5, 8, 12, 20, 40, 100, 200)
EVERY = 5
Ints = npt.NDArray[np.int64]


def _modes() -> dict[str, Refresh | None]:
    """Return refresh policies by clause: full or partial, all or visited rows, full or partial fetch, shared or not."""
    part, fetch = Fraction("0.15"), Fraction("0.4")
    alone = {
        "FCR EVERY 5 BATCHES": Refresh("FCR", EVERY),
        "OTF 15 PERCENT EVERY 5 BATCHES": Refresh("OTF", EVERY, share=part),
        "OTF 100 PERCENT EVERY 5 BATCHES FETCH 40 PERCENT": Refresh("OTF", EVERY, fetch=fetch),
        "OTF 15 PERCENT EVERY 5 BATCHES FETCH 40 PERCENT": Refresh("OTF", EVERY, share=part, fetch=fetch),
        "OTF 15 PERCENT EVERY 5 BATCHES SCOPE VISITED": Refresh("OTF", EVERY, share=part, visited=True),
        "OTF 15 PERCENT EVERY 5 BATCHES SCOPE VISITED FETCH 40 PERCENT": Refresh(
            "OTF", EVERY, share=part, visited=True, fetch=fetch
        ),
    }
    shared = {f"{clause} SHARED": replace(mode, shared=True) for clause, mode in alone.items()}
    return {"FBL": None, **alone, **shared}


MODES = _modes()
KEPT = {clause: mode for clause, mode in MODES.items() if mode is not None}
FCR, OTF, OTF_FETCH, OTF_PART_FETCH, VISITED, VISITED_FETCH = list(KEPT.values())[:6]


def rounds_of(sampler: Any, batch: int) -> Rounds | None:
    """Return the rounds of rows under SCOPE VISITED if every node is in a batch of every window."""
    spec = sampler.spec
    if spec.refresh is None or not spec.refresh.visited:
        return None
    slots = {
        (w.relation, slot_of(spec, hop)): w.adjacency.nodes for w in sampler.traversals for hop in range(spec.hops)
    }
    return {slot: np.full(nodes, batch // spec.refresh.every, np.int32) for slot, nodes in slots.items()}


def sampled(sampler: Any, entry: SamplerInput, batch: int) -> Subgraph:
    """Sample one batch after windows that contain every node."""
    found: Subgraph = sampler.sample(entry, batch, sampler.scratch(), rounds_of(sampler, batch))
    return found


def cache_of(sampler: NeighborSampler) -> RowCache:
    """Return an empty cache with room for all rows."""
    cache = RowCache(sampler.spec, sampler.traversals)
    cache.build(choose_rows(sampler.spec, sampler.traversals, None, dict), lambda count: np.zeros(count, np.uint8))
    return cache


def filled(cache: RowCache, sampler: Any, batch: int) -> RowCache:
    """Fill the cache with the rows of a batch and return it."""
    cache.fill(lambda: batch, lambda: rounds_of(sampler, batch), lambda: None)
    return cache


class Drawn(NamedTuple):
    """The edges of hubs in a batch."""

    hubs: Ints
    ranks: Ints
    weights: Any

    def sets(self, k: int) -> Ints:
        """Return [hubs, k] ranks. Every hub must have k edges."""
        assert (self.hubs == np.repeat(np.arange(self.hubs.size // k), k)).all()
        return self.ranks.reshape(-1, k)

    def distinct(self) -> bool:
        """Return whether no hub got an edge twice."""
        return bool(np.unique(self.hubs << 32 | self.ranks).size == self.ranks.size)


class Stars:
    """Hubs with these degrees, repeated, and separate leaves. A rank counts the edges of a hub."""

    def __init__(self, degrees: Sequence[int], copies: int, weights: Sequence[float] | None = None) -> None:
        self.degrees = np.tile(np.array(degrees), copies)
        self.first = np.cumsum(self.degrees) - self.degrees
        self.hubs = np.repeat(np.arange(self.degrees.size), self.degrees)
        weight = None if weights is None else np.tile(np.array(weights, np.float64), copies)
        listed = EdgeList(np.arange(self.hubs.size), self.hubs, weight=weight)
        self.graph = MemoryGraph({"hub": self.degrees.size, "leaf": self.hubs.size}, {OF: listed})
        self.view = self.graph.view()
        self.drawing = Drawing() if weights is None else Drawing("PRIORITY", weights=(("of", "weight"),), weighted=True)

    def sampler(self, fanout: int, refresh: Refresh | None, **further: Any) -> Any:
        """Return a sampler of the hubs' edges. `further` contains other fields of SampleSpec."""
        spec = sample_spec("hub", Fanout(OF, "IN", (fanout,)), drawing=self.drawing, refresh=refresh, **further)
        return open_sampler(self.view, spec)

    def drawn(self, fanout: int, refresh: Refresh | None, batch: int, **further: Any) -> Drawn:
        """Return each hub's edges in a batch."""
        return self.of(self.sampler(fanout, refresh, **further), batch)

    def of(self, sampler: Any, batch: int) -> Drawn:
        """Return each hub's edges in a sampler's batch."""
        found = sampled(sampler, vertex_input("hub", np.arange(self.degrees.size)), batch)
        ((block,),), (edges,) = found.hops, found.edges.values()
        ids = sampler.traversals[0].adjacency.edge_id.read(block.position)
        return Drawn(block.seed_side, ids - self.first[block.seed_side], edges.weight)

    def rows(self, size: int, refresh: Refresh, batch: int, **further: Any) -> Drawn:
        """Return the content of rows with `size` edges. With AMPLIFY 1, a batch returns whole rows."""
        return self.drawn(size, replace(refresh, amplify=Fraction(1), fetch=None), batch, **further)


stars_of = cache(Stars)
"""Cached instances of `Stars`."""


def turns(refresh: Refresh, hubs: int, batches: Iterable[int], *, seed: int = 42) -> list[Ints]:
    """Return, for each batch, the [hubs] rounds of the rows according to the contract."""
    slot = oracle.Slot.of(oracle.Refresh("OTF", 1), False, seed, 0, Relation(OF, "IN").hash)
    asked = oracle.Refresh(refresh.strategy, refresh.every or 1, refresh.share)
    phases = [oracle.phase(slot, hub) for hub in range(hubs)]
    return [np.array([asked.round(batch, phase) for phase in phases]) for batch in batches]

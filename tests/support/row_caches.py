"""Row caches of samplers, and a graph to test them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from snapdb.sampling import NeighborSampler, Seeds, Subgraph
from snapdb.types import EdgeType, Fanout, Refresh, SampleSpec
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec
from tests.support.inside.sampling import Rounds, RowCache, choose_rows, expected_accesses
from tests.support.worlds import NODES

FOLLOWS = EdgeType("person", "follows", "person")


PEOPLE = 400


Bytes = npt.NDArray[np.uint8]


def zeros(size: int) -> Bytes:
    return np.zeros(size, np.uint8)


class Stopped(Exception):  # noqa: N818
    """Stops a fill early."""


def followers(seed: int = 1, edges: int = 9_000) -> MemoryGraph:
    """Return a graph in which a few persons have many followers."""
    rng = np.random.default_rng(seed)
    popular = np.minimum(rng.zipf(1.3, edges) - 1, PEOPLE - 1)
    return MemoryGraph({"person": PEOPLE}, {FOLLOWS: EdgeList(rng.integers(0, PEOPLE, edges), popular)})


def followed(refresh: Refresh | None = None, *counts: int) -> SampleSpec:
    return sample_spec("person", Fanout(FOLLOWS, "IN", counts or (5, 3)), batch_size=16, refresh=refresh)


def everybody(kind: str = "person", count: int = PEOPLE) -> Seeds:
    return Seeds(kind, np.arange(count), None, None)


def cache_of(
    sampler: NeighborSampler,
    batch: int,
    rounds: Rounds | None = None,
    *,
    room: int | None = None,
    allocate: Callable[[int], Bytes] = zeros,
    check: Callable[[], None] = lambda: None,
) -> RowCache:
    """Return a cache with the rows of a batch, filled until `check` stops it."""
    nodes = {traversal.relation.expands: traversal.arrays.rows.nodes for traversal in sampler.traversals}
    counts = {name: nodes.get(name, NODES.get(name, PEOPLE)) for name in sampler.node_types}
    seeds = everybody(sampler.node_types[0], counts[sampler.node_types[0]])
    found = RowCache(sampler.spec, sampler.traversals)
    visits = lambda: expected_accesses(replace(sampler.spec, link=None), sampler.traversals, seeds, counts)  # noqa: E731
    found.build(choose_rows(sampler.spec, sampler.traversals, room, visits), allocate)
    with suppress(Stopped):
        found.fill(lambda: batch, lambda: rounds, check)
    return found


def assert_equal(found: Subgraph, expected: Subgraph) -> None:
    assert found.nodes.keys() == expected.nodes.keys()
    for name in found.nodes:
        assert np.array_equal(found.nodes[name], expected.nodes[name])
    for relation, edges in expected.edges.items():
        assert np.array_equal(found.edges[relation].index, edges.index)
        assert np.array_equal(found.edges[relation].position, edges.position)
        assert (edges.weight is None) == (found.edges[relation].weight is None)
        assert edges.weight is None or np.array_equal(found.edges[relation].weight, edges.weight)

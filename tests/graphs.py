"""Small graphs in memory: the same edge lists as the engine's GraphView and as the oracle's Graph.

Rows are sorted here by numpy, independently of the engine's topology builder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.graph.adjacency import rows_adjacency
from snapdb.graph.view import Adjacency, GraphView
from snapdb.sampling import Sampler, Seeds, Subgraph, node_entry
from snapdb.storage.topology import Rows as StoredRows
from snapdb.types import Direction, EdgeType, Fanout, Relation, SampleSpec, SeedOrder
from tests import oracle

__all__ = ["ArrowKeys", "EdgeList", "MemoryGraph", "Rows", "agreed", "all_seeds", "sample_spec", "ties"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """A Feature held in memory."""

    values: npt.NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def read(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return self.values[ids]


@dataclass(frozen=True)
class ArrowKeys:
    """A KeyReader held in memory."""

    values: pa.Array

    def read(self, ids: Ints) -> pa.Array:
        return self.values.take(pa.array(ids))


@dataclass(frozen=True)
class EdgeList:
    """The edges of one type, in any order; edge ids count from 0 in list order."""

    source: Ints
    destination: Ints
    time: Ints | None = None
    weight: npt.NDArray[np.float64] | None = None
    features: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    @staticmethod
    def of(pairs: Sequence[tuple[int, int]], time: Sequence[int] | None = None) -> EdgeList:
        """From (source, destination) pairs."""
        ends = np.array(pairs, np.int64).reshape(-1, 2)
        return EdgeList(ends[:, 0], ends[:, 1], None if time is None else np.array(time, np.int64))

    def entries(self, direction: Direction) -> tuple[Ints, Ints, Ints, Ints]:
        """(node expanded, neighbour, edge id, 1 if walked outward) of each entry."""
        ids = np.arange(self.source.size, dtype=np.int64)
        inward = (self.destination, self.source, ids, np.zeros_like(ids))
        outward = (self.source, self.destination, ids, np.ones_like(ids))
        if direction == "BOTH":
            joined = [np.concatenate(pair) for pair in zip(inward, outward, strict=True)]
            return joined[0], joined[1], joined[2], joined[3]
        return inward if direction == "IN" else outward

    def rows(self, direction: Direction, nodes: int, indices: npt.DTypeLike, before: int | None) -> Adjacency:
        """The rows of one relation, by (node, IN then OUT, time, edge id); `before` ends each row at that time."""
        expanded, neighbour, ids, outward = self.entries(direction)
        time = np.zeros_like(ids) if self.time is None else self.time[ids]
        order = np.lexsort((ids, time, outward, expanded))
        bounds = np.concatenate([[0], np.cumsum(np.bincount(expanded, minlength=nodes))]).astype(np.int64)
        degrees = None
        if before is not None and self.time is not None:
            assert direction != "BOTH", "a BOTH row is not in time order as a whole"
            degrees = np.bincount(expanded[time < before], minlength=nodes)
        rows = StoredRows(
            bounds,
            neighbour[order].astype(indices),
            ids[order],
            None if self.time is None else time[order],
            None if self.weight is None else self.weight[ids[order]],
        )
        both = outward[order].astype(np.bool_) if direction == "BOTH" else None
        return rows_adjacency(rows, degrees=degrees, outward=both)


@dataclass(frozen=True)
class MemoryGraph:
    """A graph that both engines read."""

    nodes: Mapping[str, int]
    """Vertex type → how many."""
    edges: Mapping[EdgeType, EdgeList]
    features: Mapping[str, Mapping[str, npt.NDArray[Any]]] = field(default_factory=dict)
    targets: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    keys: Mapping[str, pa.Array] = field(default_factory=dict)
    before: int | None = None
    """The snapshot's end of time; rows hold later edges too, beyond their ends."""
    indices: npt.DTypeLike = np.int32

    def view(self) -> GraphView:
        """As the sampler reads it."""
        cache: dict[Relation, Adjacency] = {}

        def adjacency(relation: Relation) -> Adjacency:
            if relation not in cache:
                count = self.nodes[relation.expands]
                cache[relation] = self.edges[relation.edge].rows(relation.direction, count, self.indices, self.before)
            return cache[relation]

        keys = {name: self.keys.get(name, pa.array(range(count))) for name, count in self.nodes.items()}
        return GraphView(
            node_counts=dict(self.nodes),
            alive=dict.fromkeys(self.nodes),
            edge_types=tuple(self.edges),
            adjacency=adjacency,
            node_features={t: {n: Rows(v) for n, v in self.features.get(t, {}).items()} for t in self.nodes},
            edge_features={e.edge: {n: Rows(v) for n, v in x.features.items()} for e, x in self.edges.items()},
            targets={name: Rows(values) for name, values in self.targets.items()},
            keys={name: ArrowKeys(values) for name, values in keys.items()},
            lineage={"snapshot": "s", "graph": "g", "version": 1, "window": [None, self.before], "database": None},
        )

    def oracle(self) -> oracle.Graph:
        """As the oracle reads it."""
        found: dict[oracle.EdgeKey, list[oracle.Edge]] = {}
        for edge, listed in self.edges.items():
            times = [None] * listed.source.size if listed.time is None else listed.time.tolist()
            ends = zip(listed.source.tolist(), listed.destination.tolist(), times, strict=True)
            made = [oracle.Edge(source, destination, i, time) for i, (source, destination, time) in enumerate(ends)]
            kept = [e for e in made if self.before is None or e.time is None or e.time < self.before]
            found[tuple(edge)] = kept
        return oracle.Graph(dict(self.nodes), found)


def agreed(view: GraphView, graph: oracle.Graph, spec: SampleSpec, seeds: list[int], batch: int) -> Subgraph:
    """Samples, and compares nodes, hops and edges with the oracle's."""
    sampler = Sampler(view, spec)
    found = sampler.sample(node_entry(spec.seed_type, np.array(seeds, np.int64)), batch, sampler.scratch())
    fanouts: list[Any] = [(tuple(f.edge), f.direction, list(f.counts)) for f in spec.fanouts]
    expected = oracle.sample(graph, seeds, spec.seed_type, fanouts, spec.seed, batch)
    for name in sampler.node_types:
        assert found.nodes[name].tolist() == expected.nodes[name]
        assert list(found.nodes_per_hop[name]) == expected.nodes_per_hop[name]
    assert len(found.hops) == len(expected.hops)
    for blocks, wanted in zip(found.hops, expected.hops, strict=True):
        assert [(tuple(b.relation.edge), b.relation.direction) for b in blocks] == [
            (w.edge, w.direction) for w in wanted
        ]
        for block, want in zip(blocks, wanted, strict=True):
            rows = view.adjacency(block.relation)
            assert block.neighbour.tolist() == [e.neighbour for e in want.edges]
            assert block.seed_side.tolist() == [e.seed_side for e in want.edges]
            assert rows.edge_id.read(block.position).tolist() == [e.edge_id for e in want.edges]
            if rows.outward is not None:
                assert rows.outward[block.position].tolist() == [e.outward for e in want.edges]
    return found


def all_seeds(graph: MemoryGraph, name: str, y: npt.NDArray[Any] | None = None) -> Seeds:
    """Every vertex of a type as a seed; the query's order is the reverse."""
    count = graph.nodes[name]
    return Seeds(name, np.arange(count, dtype=np.int64), y, np.arange(count, dtype=np.int64)[::-1].copy())


def sample_spec(
    seed_type: str, *fanouts: Fanout, batch_size: int = 4, seed: int = 42, order: SeedOrder = "SHUFFLE"
) -> SampleSpec:
    """A bound SAMPLE statement."""
    return SampleSpec("s", seed_type, "SELECT …", fanouts, batch_size, seed, order, "SAMPLE FROM s …")


def ties() -> MemoryGraph:
    """Customers buy products and know each other: parallel edges, self loops, equal times, features, keys, targets."""
    rng = np.random.default_rng(0)
    bought = EdgeList(
        rng.integers(0, 30, 200),
        rng.integers(0, 20, 200),
        time=rng.integers(0, 10, 200),
        weight=rng.random(200),
        features={"edge_attr": rng.random((200, 3)).astype(np.float32)},
    )
    knows = EdgeList(rng.integers(0, 30, 120), rng.integers(0, 30, 120))
    return MemoryGraph(
        nodes={"customer": 30, "product": 20},
        edges={EdgeType("customer", "bought", "product"): bought, EdgeType("customer", "knows", "customer"): knows},
        features={
            "customer": {"x": rng.random((30, 5)).astype(np.float32), "age": rng.integers(0, 99, 30)},
            "product": {"x": rng.random((20, 4)).astype(np.float32)},
        },
        targets={"customer": rng.integers(0, 3, 30)},
        keys={"customer": pa.array([f"c{i}" for i in range(30)]), "product": pa.array(range(1000, 1020))},
    )

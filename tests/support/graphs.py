"""Small graphs in memory: the same edge lists as the engine's GraphView and as the oracle's Graph.

Rows are sorted here with numpy, independently of the engine's topology builder. `agreed` compares a batch of either
back end with the oracle's batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.sampling import Seeds, Subgraph, vertex_input
from snapdb.types import Direction, EdgeType, Fanout, Relation, SampleSpec, SeedOrder
from tests.support import oracle
from tests.support.inside.graph import Adjacency, GraphView, rows_adjacency
from tests.support.inside.kernels import row_arrays
from tests.support.inside.sampling import SamplerInput, open_sampler
from tests.support.inside.storage import AdjacencyRows as StoredRows

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rounds = Mapping[tuple[Relation, int], npt.NDArray[np.int32]]


@dataclass(frozen=True)
class Rows:
    """A Feature in memory."""

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
    """A KeyReader in memory."""

    values: pa.Array

    def read(self, ids: Ints) -> pa.Array:
        return self.values.take(pa.array(ids))


@dataclass(frozen=True)
class EdgeList:
    """The edges of one type, in any order."""

    source: Ints
    destination: Ints
    time: Ints | None = None
    weight: Floats | None = None
    """The weights of the graph itself, by position in the list."""
    features: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    until: Ints | None = None
    ids: npt.NDArray[Any] | None = None
    """Edge ids, or None for ids that count from 0 in list order."""

    @property
    def edge_id(self) -> npt.NDArray[Any]:
        return np.arange(self.source.size, dtype=np.int64) if self.ids is None else self.ids

    @staticmethod
    def of(pairs: Sequence[tuple[int, int]], time: Sequence[int] | None = None) -> EdgeList:
        """Return the edge list for (source, destination) pairs."""
        ends = np.array(pairs, np.int64).reshape(-1, 2)
        return EdgeList(ends[:, 0], ends[:, 1], None if time is None else np.array(time, np.int64))

    def entries(self, direction: Direction) -> tuple[Ints, Ints, Ints, Ints]:
        """Return each row entry's expanded node, neighbour, list index, and 1 if it is traversed from its source."""
        places = np.arange(self.source.size, dtype=np.int64)
        inward = (self.destination, self.source, places, np.zeros_like(places))
        outward = (self.source, self.destination, places, np.ones_like(places))
        if direction == "BOTH":
            joined = [np.concatenate(pair) for pair in zip(inward, outward, strict=True)]
            return joined[0], joined[1], joined[2], joined[3]
        return inward if direction == "IN" else outward

    def rows(self, direction: Direction, nodes: int, indices: npt.DTypeLike, before: int | None) -> Adjacency:
        """Return the rows of one relation, sorted by (node, IN before OUT, time, edge id).

        Each row ends at the time `before`, if it is given.
        """
        expanded, neighbor, places, outward = self.entries(direction)
        time = np.zeros_like(places) if self.time is None else self.time[places]
        order = np.lexsort((self.edge_id[places], time, outward, expanded))
        bounds = np.concatenate([[0], np.cumsum(np.bincount(expanded, minlength=nodes))]).astype(np.int64)
        degrees = None
        if before is not None and self.time is not None:
            assert direction != "BOTH", "a BOTH row is not in time order as a whole"
            degrees = np.bincount(expanded[time < before], minlength=nodes)
        taken = places[order]
        values = (None if column is None else column[taken] for column in (self.time, self.weight, self.until))
        ids = taken.astype(indices) if self.ids is None else self.ids[taken]  # stored dtype, for the same kernels
        rows = StoredRows(bounds, neighbor[order].astype(indices), ids, *values)
        both = outward[order].astype(np.bool_) if direction == "BOTH" else None
        adjacency = rows_adjacency(rows, outward=both)
        return (
            adjacency if degrees is None else replace(adjacency, rows=row_arrays(bounds, rows.indices, degrees=degrees))
        )

    def listed(self, weights: Floats | None) -> list[oracle.Edge]:
        """Return the edges for the oracle. `weights`, by edge id, replaces the graph's own weights."""
        size = self.source.size
        weight = np.ones(size) if self.weight is None else self.weight
        columns = (
            self.source.tolist(),
            self.destination.tolist(),
            self.edge_id.tolist(),
            [None] * size if self.time is None else self.time.tolist(),
            (weight if weights is None else weights[self.edge_id]).tolist(),
            [None] * size if self.until is None else self.until.tolist(),
        )
        return [oracle.Edge(*values) for values in zip(*columns, strict=True)]


@dataclass(frozen=True)
class MemoryGraph:
    """A graph for both the engine and the oracle."""

    nodes: Mapping[str, int]
    """Vertex type → its number of nodes."""
    edges: Mapping[EdgeType, EdgeList]
    features: Mapping[str, Mapping[str, npt.NDArray[Any]]] = field(default_factory=dict)
    targets: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    keys: Mapping[str, pa.Array] = field(default_factory=dict)
    before: int | None = None
    """The end of the snapshot's window. Rows also contain later edges, which are past their ends."""
    indices: npt.DTypeLike = np.int32
    weights: Mapping[str, Floats] = field(default_factory=dict)
    """Name of an edge type → weights by edge id, which replace the graph's own weights."""
    born: Mapping[str, Ints] = field(default_factory=dict)
    alive: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    destination_weights: Floats | None = None

    def view(self) -> GraphView:
        """Return the graph for the sampler."""
        cache: dict[Relation, Adjacency] = {}

        def adjacency(relation: Relation) -> Adjacency:
            if relation not in cache:
                count = self.nodes[relation.expands]
                cache[relation] = self.edges[relation.edge].rows(relation.direction, count, self.indices, self.before)
            return cache[relation]

        keys = {name: self.keys[name] if name in self.keys else pa.array(range(n)) for name, n in self.nodes.items()}
        return GraphView(
            node_counts=dict(self.nodes),
            alive={name: self.alive.get(name) for name in self.nodes},
            edge_types=tuple(self.edges),
            adjacency=adjacency,
            node_features={t: {n: Rows(v) for n, v in self.features.get(t, {}).items()} for t in self.nodes},
            edge_features={e.edge: {n: Rows(v) for n, v in x.features.items()} for e, x in self.edges.items()},
            targets={name: Rows(values) for name, values in self.targets.items()},
            keys={name: ArrowKeys(values) for name, values in keys.items()},
            weights=self.weights,
            born=self.born,
            destination_weights=self.destination_weights,
            lineage={"snapshot": "s", "graph": "g", "version": 1, "window": [None, self.before], "database": None},
        )

    def oracle(self) -> oracle.Graph:
        """Return the graph for the oracle."""
        found: dict[oracle.EdgeKey, list[oracle.Edge]] = {}
        for edge, listed in self.edges.items():
            made = listed.listed(self.weights.get(edge.edge))
            found[tuple(edge)] = [e for e in made if self.before is None or e.time is None or e.time < self.before]
        born = {name: values.tolist() for name, values in self.born.items()}
        return oracle.Graph(dict(self.nodes), found, born, {n: values.tolist() for n, values in self.alive.items()})


def _refresh_of(spec: SampleSpec) -> oracle.Refresh | None:
    """Return the refresh policy for the oracle."""
    asked = spec.refresh
    if asked is None:
        return None
    assert asked.every is not None, "AUTO is told only when it is known how many batches an epoch has"
    return oracle.Refresh(
        asked.strategy,
        asked.every,
        asked.share,
        asked.amplify,
        asked.fetch,
        asked.visited,
        asked.shared,
        asked.above,
        spec.generation,
    )


def options_of(spec: SampleSpec) -> oracle.Options:
    """Return the sampling options for the oracle."""
    drawing, temporal = spec.drawing, spec.temporal
    return oracle.Options(
        method=drawing.method,
        replace=drawing.replace,
        weighted=drawing.weighted,
        dependent=drawing.dependent,
        inclusive=None if temporal is None else temporal.inclusive,
        within=None if temporal is None else temporal.within,
        layout=spec.layout,
        reuse_hops=spec.reuse_hops,
        refresh=_refresh_of(spec),
        zeros_with_all=drawing.zero_weight == "WITH ALL",
    )


def _entrants(spec: SampleSpec, entry: SamplerInput) -> oracle.Entrants:
    """Return the sampler's input as lists."""
    groups = [(group.type, group.ids.tolist(), group.trees.tolist()) for group in entry.groups]
    times, out = entry.times, entry.excluded
    pairs = {}
    if out is not None:
        listed = zip(out.source.tolist(), out.destination.tolist(), out.trees.tolist(), strict=True)
        pairs[tuple(out.edge)] = list(listed)
    return oracle.Entrants(
        groups, entry.ordinals.tolist(), None if times is None else times.tolist(), pairs, spec.link is not None
    )


def _weighed(graph: oracle.Graph, spec: SampleSpec) -> oracle.Graph:
    """Return the graph with weight 1 for edge types whose weights the statement does not use."""
    used = {name.lower() for name, _ in spec.drawing.weights}
    edges = {
        key: listed if key[1].lower() in used else [replace(e, weight=1.0) for e in listed]
        for key, listed in graph.edges.items()
    }
    return replace(graph, edges=edges)


def expected(
    graph: oracle.Graph, spec: SampleSpec, entry: SamplerInput, batch: int, rounds: Rounds | None = None
) -> oracle.Result:
    """Return the oracle's batch."""
    fanouts: list[oracle.Fanout] = [(tuple(f.edge), f.direction, list(f.counts)) for f in spec.fanouts]
    drawn = _weighed(graph, spec) if spec.drawing.weighted else graph
    told = None
    if rounds is not None:
        told = {(tuple(r.edge), r.direction, slot): values.tolist() for (r, slot), values in rounds.items()}
    return oracle.sample_entrants(drawn, _entrants(spec, entry), fanouts, spec.seed, batch, options_of(spec), told)


def agreed(
    view: GraphView,
    graph: oracle.Graph,
    spec: SampleSpec,
    seeds: Sequence[int] | SamplerInput,
    batch: int,
    rounds: Rounds | None = None,
) -> Subgraph:
    """Sample a batch, and compare every part of it with the oracle's batch."""
    entry = seeds if isinstance(seeds, SamplerInput) else vertex_input(spec.seed_type, np.array(seeds, np.int64))
    sampler = open_sampler(view, spec)
    told = {} if rounds is None else {"rounds": rounds}
    found = sampler.sample(entry, batch, sampler.scratch(), **told)
    compared(sampler, found, expected(graph, spec, entry, batch, rounds))
    return found


def compared(sampler: Any, found: Subgraph, wanted: oracle.Result) -> None:
    """Compare nodes, hops, edges, weights, groups and trees. `sampler` can have either back end."""
    for name in sampler.node_types:
        assert found.nodes[name].tolist() == wanted.nodes[name]
        assert list(found.nodes_per_hop[name]) == wanted.nodes_per_hop[name]
        assert (found.trees is None) == (wanted.trees is None)
        if found.trees is not None and wanted.trees is not None:
            assert found.trees[name].tolist() == wanted.trees[name]
    assert [ids.tolist() for ids in found.entered] == wanted.entered
    adjacency = {traversal.relation: traversal.adjacency for traversal in sampler.traversals}
    assert len(found.hops) == len(wanted.hops)
    for blocks, wants in zip(found.hops, wanted.hops, strict=True):
        assert [(tuple(b.relation.edge), b.relation.direction) for b in blocks] == [
            (w.edge, w.direction) for w in wants
        ]
        for block, want in zip(blocks, wants, strict=True):
            rows, position = adjacency[block.relation], np.array(block.position.tolist(), np.int64)
            assert block.seed_side.tolist() == [e.seed_side for e in want.edges]
            assert rows.edge_id.read(position).tolist() == [e.edge_id for e in want.edges]
            assert block.neighbor.tolist() == [e.neighbor for e in want.edges]
            if rows.outward is not None:
                assert rows.outward[position].tolist() == [e.outward for e in want.edges]
    _compare_edges(found, wanted)


def _compare_edges(found: Subgraph, wanted: oracle.Result) -> None:
    """Compare the edges of all hops together: their ends, and their weights bit for bit."""
    for place, (relation, edges) in enumerate(found.edges.items()):
        joined = [e for blocks in wanted.hops for e in blocks[place].edges]
        if wanted.hops:
            block = wanted.hops[0][place]
            assert (block.edge, block.direction) == (tuple(relation.edge), relation.direction)
        assert edges.index.tolist() == [[e.neighbor for e in joined], [e.seed_side for e in joined]]
        weights = [e.weight for e in joined if e.weight is not None]
        assert (edges.weight.tolist() if edges.weight is not None else []) == weights


def all_seeds(graph: MemoryGraph, name: str, y: npt.NDArray[Any] | None = None) -> Seeds:
    """Return every vertex of a type as a seed. The query order is the reverse."""
    count = graph.nodes[name]
    return Seeds(name, np.arange(count, dtype=np.int64), y, np.arange(count, dtype=np.int64)[::-1].copy())


def sample_spec(
    seed_type: str, *fanouts: Fanout, batch_size: int = 4, seed: int = 42, order: SeedOrder = "SHUFFLE", **further: Any
) -> SampleSpec:
    """Return a bound SAMPLE statement. `further` contains other fields of SampleSpec."""
    return SampleSpec("s", seed_type, "SELECT …", fanouts, batch_size, seed, order, "SAMPLE FROM s …", **further)


def ties() -> MemoryGraph:
    """Return a graph of customers and products with parallel edges, self loops, equal times, features and keys."""
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

"""The data types of sampling: seeds, a sampler's input, and the relabelled subgraph."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.types import EdgeType, Relation

Ints: TypeAlias = Any
"""Integers as a numpy array, or as a torch tensor if a GPU samples: int64, or int32 if the statement's ids are
int32."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """The seed set of a stream in its canonical order. A seed's index in that order is its ordinal.

    Vertices are ordered by (dense id, time, y, columns), edges by (time, edge id, y, columns).
    """

    type: str
    """The vertex type. For seed edges, the vertex type of their sources."""
    ids: Int64s
    """[seeds] dense ids of vertices, or ids of edges."""
    y: Array | None
    """[seeds] targets from the seed query, by ordinal. None means that the graph's TARGET applies, if any."""
    query_order: Int64s | None
    """[seeds] ordinals in the order of the query's rows, for IN ORDER. None otherwise."""
    time: Int64s | None = None
    """[seeds] each seed's time, in the unit of event times. None if the query returns no times."""
    ends: tuple[Int64s, Int64s] | None = None
    """For seed edges: ([seeds] dense ids of their sources, [seeds] dense ids of their destinations)."""
    columns: Mapping[str, Array] = field(default_factory=dict)
    """The other columns of the query: name → [seeds] or [seeds, n]."""

    def digest(self) -> str:
        """Return the SHA-256 of the seed set in its canonical order, including all columns of its query."""
        digest = sha256(f"{self.type}\0{self.ids.size}".encode())
        for values in (self.ids, self.y, self.query_order, self.time, *(self.ends or (None, None))):
            digest.update(b"\0" if values is None else np.ascontiguousarray(values).tobytes())
        for name, values in self.columns.items():
            # Names and dtypes are included because columns with equal bytes can have different values.
            digest.update(f"{name}\0{values.dtype}\0".encode())
            digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()


class SeedGroup(NamedTuple):
    """Vertices of one type that are added to a batch together."""

    type: str
    ids: Int64s
    """[vertices] dense ids."""
    trees: Int64s
    """[vertices] the index, in the batch, of the seed that each vertex belongs to."""


class ExcludedEdges(NamedTuple):
    """Edges of one type, as pairs of ends, that a batch must not sample."""

    edge: EdgeType
    source: Int64s
    """[pairs] dense ids of sources."""
    destination: Int64s
    """[pairs] dense ids of destinations."""
    trees: Int64s
    """[pairs] the seed of each pair. A disjoint tree excludes only the pairs of its seed."""


@dataclass(frozen=True, slots=True)
class SamplerInput:
    """The sampler's input for one batch. A seed is a vertex, or an edge with its ends and negatives."""

    groups: tuple[SeedGroup, ...]
    """The vertices to add, in the order of their local ids. For seed edges: sources, destinations, negatives."""
    ordinals: Int64s
    """[seeds] ordinals in the seed set."""
    times: Int64s | None = None
    """[seeds] the seeds' times, or None."""
    excluded: ExcludedEdges | None = None
    """Edges that must not be sampled, or None."""
    negatives: Int64s | None = None
    """[seeds, n] for seed edges with negatives: the index of each negative in the last group, or -1 for a negative that
    could not be drawn."""


@dataclass(frozen=True, slots=True)
class Block:
    """The edges that one hop drew over one relation, in emission order."""

    relation: Relation
    neighbor: Ints
    """[edges] local ids of the neighbours, in `nodes[relation.reaches]`."""
    seed_side: Ints
    """[edges] local ids of the expanded nodes, in `nodes[relation.expands]`."""
    position: Ints
    """[edges] the position of each edge in the relation's Adjacency."""
    weight: Any = None
    """[edges] as in `Edges`."""


@dataclass(frozen=True, slots=True)
class Edges:
    """All edges that a batch drew over one relation, hop by hop, each hop in emission order."""

    index: Ints
    """[2, edges] local ids: neighbours in row 0, expanded nodes in row 1."""
    position: Ints
    """[edges] the position of each edge in the relation's Adjacency."""
    weight: Any = None
    """[edges] float64 Horvitz-Thompson weights under PRIORITY, the numbers of visits under BY WALKS, else None."""

    def block(self, relation: Relation, start: int, stop: int) -> Block:
        """Return the edges start ≤ e < stop, as views."""
        some = slice(start, stop)
        weight = None if self.weight is None else self.weight[some]
        return Block(relation, self.index[0, some], self.index[1, some], self.position[some], weight)


@dataclass(frozen=True, slots=True)
class Subgraph:
    """The sampled neighbourhood of a batch's seeds.

    Local ids are assigned per vertex type: seeds first, then other vertices by first appearance.
    """

    nodes: Mapping[str, Ints]
    """Vertex type → [nodes] dense ids by local id. Every vertex type of the sampler has an entry, which may be
    empty."""
    hops: tuple[tuple[Block, ...], ...]
    """For each hop, the seeds' hop first, one block per relation in sampling order."""
    nodes_per_hop: Mapping[str, tuple[int, ...]]
    """Vertex type → hops + 1 counts: the seeds, then the new nodes of each hop."""
    edges: Mapping[Relation, Edges]
    """The same edges by relation, in sampling order. The blocks of `hops` are views of them."""
    entered: tuple[Ints, ...] = ()
    """For each group of the input, the local ids of its vertices."""
    trees: Mapping[str, Ints] | None = None
    """For disjoint trees: vertex type → [nodes] the index, in the batch, of the seed whose tree a node is in. Otherwise
    None."""


def vertex_input(kind: str, ids: Int64s, ordinals: Int64s | None = None, times: Int64s | None = None) -> SamplerInput:
    """Return the input for vertex seeds, each of which is the root of a separate tree. Ordinals default to 0, 1, …"""
    places = np.arange(ids.size, dtype=np.int64)
    return SamplerInput((SeedGroup(kind, ids, places),), places if ordinals is None else ordinals, times)

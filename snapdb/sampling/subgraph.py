"""The input and the output of sampling: seeds, a sampler's input, and the relabeled neighborhood."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.types import EdgeType, Relation

Ints: TypeAlias = Any
"""int64 values, or int32 where the statement's ids are: a numpy array, or a torch tensor where a GPU samples."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """The seed set of a stream in its canonical order. The index in that order is the seed's ordinal.

    Vertices are ordered by (dense id, time, y, columns), edges by (time, edge id, y, columns).
    """

    type: str
    """Vertex type; of edges that of their sources."""
    ids: Int64s
    """Dense ids of vertices, or ids of edges."""
    y: Array | None
    """Targets that the seed query gave, by ordinal; None: the graph's TARGET, if any."""
    query_order: Int64s | None
    """Ordinals in the order of the query's rows, for IN ORDER; None otherwise."""
    time: Int64s | None = None
    """Each seed's time, in the unit of event times; None when the query returns none."""
    ends: tuple[Int64s, Int64s] | None = None
    """Of seed edges: dense ids of their sources and of their destinations."""
    columns: Mapping[str, Array] = field(default_factory=dict)
    """The other columns of the query: name → [seeds] or [seeds, n]."""

    def digest(self) -> str:
        """The SHA-256 of the seed set in its canonical order, with all columns of its query."""
        digest = sha256(f"{self.type}\0{self.ids.size}".encode())
        for values in (self.ids, self.y, self.query_order, self.time, *(self.ends or (None, None))):
            digest.update(b"\0" if values is None else np.ascontiguousarray(values).tobytes())
        for name, values in self.columns.items():
            digest.update(f"{name}\0{values.dtype}\0".encode())
            digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()


class SeedGroup(NamedTuple):
    """Vertices of one type that enter a batch together."""

    type: str
    ids: Int64s
    """Dense ids."""
    trees: Int64s
    """The index in the batch of the seed that each belongs to."""


class ExcludedEdges(NamedTuple):
    """Edges of one type, as pairs of ends, that a batch must not see."""

    edge: EdgeType
    source: Int64s
    destination: Int64s
    trees: Int64s
    """The seed that each pair belongs to: of disjoint trees only its own is kept from it."""


@dataclass(frozen=True, slots=True)
class SamplerInput:
    """The sampler's input for one batch: a seed is a vertex, or an edge with its ends and negatives."""

    groups: tuple[SeedGroup, ...]
    """In the order in which they are numbered: of seed edges sources, destinations, negatives."""
    ordinals: Int64s
    """[seeds] in the seed set."""
    times: Int64s | None = None
    """[seeds]"""
    excluded: ExcludedEdges | None = None
    negatives: Int64s | None = None
    """[seeds, n] of seed edges with negatives: where each is in the last group, -1 where there was none left."""


@dataclass(frozen=True, slots=True)
class Block:
    """The edges that one hop drew over one relation, in emission order."""

    relation: Relation
    neighbor: Ints
    """[edges] local ids of the far ends, in `nodes[relation.reaches]`."""
    seed_side: Ints
    """[edges] local ids of the expanded nodes, in `nodes[relation.expands]`."""
    position: Ints
    """[edges] the position of each edge in the relation's Adjacency."""


@dataclass(frozen=True, slots=True)
class Edges:
    """All edges that a batch drew over one relation, hop after hop, each hop in emission order."""

    index: Ints
    """[2, edges] local ids: neighbours above, expanded nodes below."""
    position: Ints
    """[edges] the position of each edge in the relation's Adjacency."""
    weight: Any = None
    """[edges] float64 Horvitz-Thompson weights, under PRIORITY; None otherwise."""

    def block(self, relation: Relation, start: int, stop: int) -> Block:
        """The edges from start up to stop, as views."""
        return Block(relation, self.index[0, start:stop], self.index[1, start:stop], self.position[start:stop])


@dataclass(frozen=True, slots=True)
class Subgraph:
    """The neighbourhood of some seeds. Local ids count per vertex type: seeds first, then by first appearance."""

    nodes: Mapping[str, Ints]
    """Vertex type → dense ids; the position is the local id. Every vertex type of the sampler is there, if empty."""
    hops: tuple[tuple[Block, ...], ...]
    """Per hop, nearest first, one block for each relation, in sampling order."""
    nodes_per_hop: Mapping[str, tuple[int, ...]]
    """Vertex type → how many nodes are new at the seeds and at each hop: hops + 1 numbers."""
    edges: Mapping[Relation, Edges]
    """The same edges by relation, in sampling order; the blocks of `hops` are views of them."""
    entered: tuple[Ints, ...] = ()
    """For each group that entered, its local ids."""
    trees: Mapping[str, Ints] | None = None
    """Of disjoint trees: vertex type → [nodes] the index in the batch of the seed whose tree a node is in."""


def vertex_input(kind: str, ids: Int64s, ordinals: Int64s | None = None, times: Int64s | None = None) -> SamplerInput:
    """Vertices as seeds, each the root of its own tree; their ordinals are 0, 1, … where they are None."""
    places = np.arange(ids.size, dtype=np.int64)
    return SamplerInput((SeedGroup(kind, ids, places),), places if ordinals is None else ordinals, times)

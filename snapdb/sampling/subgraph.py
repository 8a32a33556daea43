"""What sampling yields: seeds, and the neighbourhood of some seeds, renumbered from zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.types import Relation

__all__ = ["Block", "Edges", "Seeds", "Subgraph"]


@dataclass(frozen=True, slots=True)
class Seeds:
    """The seed set of a stream in its canonical order: by dense id. The index in that order is the seed's ordinal."""

    type: str
    """Vertex type."""
    ids: npt.NDArray[np.int64]
    """Dense ids, ascending, without duplicates."""
    y: npt.NDArray[Any] | None
    """Targets that the seed query gave, by ordinal; None: the graph's TARGET, if any."""
    query_order: npt.NDArray[np.int64] | None
    """Ordinals in the order of the query's rows, for IN ORDER; None otherwise."""


@dataclass(frozen=True, slots=True)
class Block:
    """The edges that one hop drew over one relation, in emission order."""

    relation: Relation
    neighbour: npt.NDArray[np.int64]
    """[edges] local ids of the far ends, in `nodes[relation.reaches]`."""
    seed_side: npt.NDArray[np.int64]
    """[edges] local ids of the expanded nodes, in `nodes[relation.expands]`."""
    position: npt.NDArray[np.int64]
    """[edges] where each edge stands in the relation's Adjacency."""


@dataclass(frozen=True, slots=True)
class Edges:
    """All edges that a batch drew over one relation, hop after hop, each hop in emission order."""

    index: npt.NDArray[np.int64]
    """[2, edges] local ids: neighbours above, expanded nodes below."""
    position: npt.NDArray[np.int64]
    """[edges] where each edge stands in the relation's Adjacency."""

    def block(self, relation: Relation, start: int, stop: int) -> Block:
        """The edges from start up to stop, as views."""
        return Block(relation, self.index[0, start:stop], self.index[1, start:stop], self.position[start:stop])


@dataclass(frozen=True, slots=True)
class Subgraph:
    """The neighbourhood of some seeds. Local ids count per vertex type: seeds first, then by first appearance."""

    nodes: Mapping[str, npt.NDArray[np.int64]]
    """Vertex type → dense ids; the position is the local id. Every vertex type of the sampler is there, if empty."""
    hops: tuple[tuple[Block, ...], ...]
    """Per hop, nearest first, one block for each relation, in sampling order."""
    nodes_per_hop: Mapping[str, tuple[int, ...]]
    """Vertex type → how many nodes are new at the seeds and at each hop: hops + 1 numbers."""
    edges: Mapping[Relation, Edges]
    """The same edges by relation, in sampling order; the blocks of `hops` are views of them."""

"""The subgraph of one batch in a thread's scratch memory, for numba back ends."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Array, Int64s
from snapdb.kernels import buffers
from snapdb.sampling.sampler import SampleRequest
from snapdb.sampling.scratch import NodeMap, Scratch
from snapdb.sampling.subgraph import Edges, SeedGroup
from snapdb.types import Relation


class NumbaSubgraph(ABC):
    """The subgraph of one batch, to which hops are added. Subclasses specify how the edges of a hop are drawn."""

    def __init__(self, batch: SampleRequest, edges: dict[Relation, Edges], scratch: Scratch) -> None:
        """`edges` contains the empty edges of each relation."""
        self.batch, self.edges, self.scratch = batch, edges, scratch

    def enter(self, group: SeedGroup, *, each: bool) -> Int64s:
        nodes = self.scratch.nodes[group.type]
        if each:
            assert isinstance(nodes, NodeMap)
            return nodes.enter_each(group.ids)
        return nodes.enter(group.ids, group.trees)

    @abstractmethod
    def expand(self, place: int, hop: int, low: int, high: int) -> None:
        """Draw the edges of one hop over traversal `place`, for the nodes with local ids low ≤ id < high."""

    def node_counts(self) -> dict[str, int]:
        return self.scratch.counts()

    def edge_counts(self) -> dict[Relation, int]:
        return {relation: edges.position.size for relation, edges in self.edges.items()}

    def finish(self) -> tuple[dict[str, Int64s], dict[Relation, Edges], dict[str, Int64s] | None]:
        """Return the batch's nodes, edges and trees. Nodes and trees are copied because scratch memory is reused."""
        if self.batch.cache is not None:
            self.batch.cache.count(self.scratch.draft.reads)
        maps, ids = self.scratch.nodes, np.dtype(self.batch.spec.ids)
        nodes = {name: _copied(each.nodes[: each.count], ids) for name, each in maps.items()}
        if not self.batch.spec.disjoint:
            return nodes, self.edges, None
        return nodes, self.edges, {name: _copied(each.trees[: each.count], np.int64) for name, each in maps.items()}


def _copied(values: Int64s, dtype: npt.DTypeLike) -> Array:
    """Return a copy in recycled memory, converted to `dtype`."""
    copy = buffers.empty(values.shape, dtype)
    copy[:] = values
    return copy


def extended(before: Edges, new: int) -> Edges:
    """Return a copy of the edges with room for `new` more."""
    old = before.position.size
    weight = None if before.weight is None else buffers.empty((old + new,), np.float64)
    index = buffers.empty((2, old + new), before.index.dtype)
    edges = Edges(index, buffers.empty((old + new,), before.position.dtype), weight)
    edges.index[:, :old] = before.index
    edges.position[:old] = before.position
    if weight is not None:
        weight[:old] = before.weight
    return edges

"""One thread's working memory: stamp maps and buffers that live from batch to batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from snapdb.kernels.sample import number, restamp
from snapdb.types import Relation

__all__ = ["EdgeBuffer", "NodeMap", "Scratch"]

Int64s = npt.NDArray[np.int64]

LIMIT = 2**31 - 1
"""Stamps are int32: half the bytes of the map that every sampled edge touches at random."""


class NodeMap:
    """The nodes of one vertex type that a batch has met. Memory is touched only where batches reach."""

    def __init__(self, node_count: int) -> None:
        self.nodes: Int64s = np.empty(node_count + 1, np.int64)  # one slot is the kernel's spare
        self.count = 0
        self.stamps = np.zeros(node_count, np.int32)
        self.base = 1

    def start(self) -> None:
        """Forgets the last batch: its stamps fall below the new base."""
        self.base += self.count
        self.count = 0

    def reserve(self, edges: int) -> None:
        """Makes sure that so many more edges, each maybe a new node, cannot overflow a stamp."""
        most = min(self.count + edges, self.nodes.size)
        if self.base + most > LIMIT:
            self.base = 1
            restamp(self.nodes, self.count, self.stamps, self.base)

    def enter(self, ids: Int64s) -> None:
        """Numbers these nodes; ids that are known already keep their number."""
        self.reserve(ids.size)
        self.count = number(np.array(ids, np.int64), 0, ids.size, self.nodes, self.count, self.stamps, self.base)


class EdgeBuffer:
    """The edges that a batch has drawn over one relation, hop after hop."""

    def __init__(self) -> None:
        self.count = 0
        self.positions: Int64s = np.empty(0, np.int64)
        self.neighbours: Int64s = np.empty(0, np.int64)
        self.seed_side: Int64s = np.empty(0, np.int64)

    @property
    def room(self) -> int:
        """Edges that fit in without growing."""
        return self.positions.size - self.count

    def reserve(self, edges: int) -> None:
        """Grows, half as much again as needed, until so many more edges fit."""
        if edges <= self.room:
            return
        size = (self.count + edges) * 3 // 2
        self.positions = _grown(self.positions, self.count, size)
        self.neighbours = _grown(self.neighbours, self.count, size)
        self.seed_side = _grown(self.seed_side, self.count, size)


class Scratch:
    """What one thread needs to sample batch after batch. Never share it between threads at work."""

    def __init__(self, node_counts: Mapping[str, int], relations: Iterable[Relation]) -> None:
        self.nodes = {name: NodeMap(count) for name, count in node_counts.items()}
        self.edges = {relation: EdgeBuffer() for relation in relations}

    def start(self) -> None:
        """Forgets the last batch."""
        for nodes in self.nodes.values():
            nodes.start()
        for edges in self.edges.values():
            edges.count = 0


def _grown(old: Int64s, count: int, size: int) -> Int64s:
    new = np.empty(size, np.int64)
    new[:count] = old[:count]
    return new

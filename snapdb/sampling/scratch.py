"""One thread's working memory: stamp maps and node lists that live from batch to batch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from snapdb.kernels.sample import number, restamp

__all__ = ["NodeMap", "Scratch"]

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


class Scratch:
    """What one thread needs to sample batch after batch. Never share it between threads at work."""

    def __init__(self, node_counts: Mapping[str, int]) -> None:
        self.nodes = {name: NodeMap(count) for name, count in node_counts.items()}

    def start(self) -> None:
        """Forgets the last batch."""
        for nodes in self.nodes.values():
            nodes.start()

    def counts(self) -> dict[str, int]:
        """How many nodes of each type the batch has met."""
        return {name: nodes.count for name, nodes in self.nodes.items()}

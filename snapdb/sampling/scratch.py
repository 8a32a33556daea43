"""A thread's scratch memory: maps from vertices to local ids, and drafts of hops, reused from batch to batch."""

from collections.abc import Mapping

import numpy as np

from snapdb.arrays import Int64s
from snapdb.kernels.adjacency.spans import BLOCK, FIELDS
from snapdb.kernels.draw.eligible import WINDOW_FIELDS, Frontier
from snapdb.kernels.draw.hop import DraftArrays
from snapdb.kernels.draw.relabel import LocalIds, TreeLocalIds, enter_again, relabel, relabel_all, relabel_in_trees
from snapdb.kernels.draw.scores import Candidates

_LIMIT = 2**31 - 1
"""The largest stamp. Stamps are int32, which halves the size of the map that every sampled edge accesses at random."""


class _Nodes:
    """The nodes of one vertex type in a batch: `nodes` and, for disjoint trees, `trees` by local id."""

    def __init__(self, node_count: int, nodes: int, trees: int) -> None:
        self.node_count = node_count
        self.nodes: Int64s = np.empty(nodes, np.int64)
        self.trees: Int64s = np.empty(trees, np.int64)
        self.count, self.first_stamp = 0, 1

    @property
    def frontier(self) -> Frontier:
        """The nodes in the form required by kernels that draw."""
        return Frontier(self.nodes, self.trees)

    def start(self) -> None:
        """Discard the last batch in O(1): its stamps are less than the new first stamp."""
        self.first_stamp += self.count
        self.count = 0


class NodeMap(_Nodes):
    """The map of nodes that all seeds share, as visited stamps. Memory is touched only where batches need it."""

    def __init__(self, node_count: int) -> None:
        super().__init__(node_count, node_count + 1, 0)  # the extra slot is for the kernel
        self.stamps = np.zeros(node_count, np.int32)

    @property
    def local_ids(self) -> LocalIds:
        """The map in the form required by kernels that relabel."""
        return LocalIds(self.nodes, self.stamps, self.first_stamp, self.node_count)

    def reserve(self, edges: int) -> None:
        """Ensure that `edges` more edges, each possibly to a new node, do not overflow a stamp."""
        most = min(self.count + edges, self.nodes.size)
        # Stamps run out after about 2^31 nodes. Only then is the whole array cleared, and the batch's nodes are stamped
        # again.
        if self.first_stamp + most > _LIMIT:
            self.first_stamp = 1
            self.stamps[:] = 0
            self._stamp(0)

    def enter(self, ids: Int64s, trees: Int64s) -> Int64s:
        """Return the local ids of these nodes. Nodes that are already in the batch keep theirs."""
        self.reserve(ids.size)
        local = np.array(ids, np.int64)
        self.count = relabel(local, 0, ids.size, self.local_ids, self.count)
        return local

    def enter_each(self, ids: Int64s) -> Int64s:
        """Return a new local id for each of these nodes, even for duplicates.

        Later edges to a vertex get its first local id.
        """
        before, room = self.count, self.stamps.size + ids.size + 1
        local = self.enter(ids, self.trees)
        if self.count == before + ids.size:
            return local
        # Duplicates also get local ids, so `nodes` may need more entries than there are vertices.
        if self.nodes.size < room:
            self.nodes = np.concatenate([self.nodes[:before], np.empty(room - before, np.int64)])
            self.reserve(ids.size)
        self.count = before + ids.size
        self.nodes[before : self.count] = ids
        self._stamp(before)
        return np.arange(before, self.count, dtype=np.int64)

    def renumber(self, neighbors: Int64s, trees: Int64s, row_nodes: Int64s) -> None:
        """Replace dense ids with local ids."""
        self.reserve(neighbors.size)
        self.count = relabel_all(neighbors, self.local_ids, self.count)

    def _stamp(self, first: int) -> None:
        """Stamp nodes[first:] again.

        Among duplicates, the first one wins, because the assignments are reversed and numpy keeps the last one.
        """
        self.stamps[self.nodes[first : self.count][::-1]] = np.arange(first, self.count)[::-1] + self.first_stamp


class _TreeNodeMap(_Nodes):
    """The map of (tree, vertex) pairs. It grows with batches, and its int64 stamps do not run out."""

    def __init__(self, node_count: int) -> None:
        super().__init__(node_count, 1 << 10, 1 << 10)
        self.table: Int64s = np.zeros(1 << 11, np.int64)

    @property
    def local_ids(self) -> TreeLocalIds:
        """The map in the form required by kernels that relabel."""
        return TreeLocalIds(self.nodes, self.trees, self.table, self.first_stamp)

    def reserve(self, edges: int) -> None:
        """Make room for `edges` more edges, each possibly to a new node."""
        size = self.nodes.size
        while size < self.count + edges:
            size *= 2
        if size == self.nodes.size:
            return
        self.nodes, self.trees = (
            np.concatenate([values[: self.count], np.empty(size - self.count, np.int64)])
            for values in (self.nodes, self.trees)
        )
        # Twice as many slots as nodes keep probe sequences short. A grown table is rehashed.
        self.table = np.zeros(2 * size, np.int64)
        enter_again(self.local_ids, self.count)

    def enter(self, ids: Int64s, trees: Int64s) -> Int64s:
        """Return the local ids of these nodes. Nodes that are already in a tree keep theirs."""
        local = np.array(ids, np.int64)
        self.renumber(local, np.array(trees, np.int64), np.arange(ids.size))
        return local

    def renumber(self, neighbors: Int64s, trees: Int64s, row_nodes: Int64s) -> None:
        """Replace dense ids with local ids. Each node is in the tree of the node for which it was drawn."""
        self.reserve(neighbors.size)
        self.count = relabel_in_trees(neighbors, trees, row_nodes, self.local_ids, self.count)


class Draft:
    """Growing buffers for the edges of a hop, whose number is known only after they are drawn."""

    def __init__(self, *, weighted: bool = False) -> None:
        """`weighted` specifies whether edges are drawn with Horvitz-Thompson weights."""
        self._weighted = weighted
        self.arrays = _draft(0, 0, weighted, np.zeros(4, np.int64))

    @property
    def reads(self) -> Int64s:
        """[4] counts of the batch: cache hits, cache misses, edges from the cache, edges from the adjacency."""
        return self.arrays.reads

    def reserve(self, edges: int, row: int) -> None:
        """Make room for `edges` edges, keeping the existing ones, and for rows of length `row`."""
        old = self.arrays
        held, longest = old.positions.size, old.candidates.places.size
        if edges <= held and row <= longest:
            return
        self.arrays = _draft(_grown(held, edges), _grown(longest, row), self._weighted, old.reads)
        # The first four arrays are edge columns that the next kernel call extends. The other arrays are working memory.
        for new, drawn in zip(self.arrays[:4], old[:4], strict=True):
            new[: drawn.size] = drawn


def _draft(edges: int, row: int, weighted: bool, reads: Int64s) -> DraftArrays:
    """Return new arrays for `edges` edges and for rows of length `row`."""
    scores = np.empty(row, np.uint64)
    places, ties, heap = (np.empty(row, np.int64) for _ in range(3))
    return DraftArrays(
        positions=np.empty(edges, np.int64),
        row_nodes=np.empty(edges, np.int64),
        neighbors=np.empty(edges, np.int64),
        weights=np.empty(edges if weighted else 0, np.float64),
        candidates=Candidates(places, scores, scores.view(np.float64), ties, heap),
        spans=np.empty((BLOCK, FIELDS), np.int64),
        windows=np.empty((BLOCK, WINDOW_FIELDS), np.int64),
        reads=reads,
    )


def _grown(size: int, needed: int) -> int:
    """Return a size of at least `needed`. Growth at least doubles it, so copies cost amortized O(1) per edge."""
    return size if needed <= size else max(needed, 2 * size, 1 << 10)


class Scratch:
    """The scratch memory of one thread for any number of batches. Threads must not share it."""

    def __init__(self, node_counts: Mapping[str, int], *, disjoint: bool = False, weighted: bool = False) -> None:
        """Allocate scratch memory.

        Args:
            node_counts: The number of nodes of each vertex type.
            disjoint: Whether nodes belong to trees. Memory then grows with batches, not with the snapshot.
            weighted: Whether edges are drawn with Horvitz-Thompson weights.
        """
        self.nodes: Mapping[str, NodeMap | _TreeNodeMap] = {
            name: _TreeNodeMap(count) if disjoint else NodeMap(count) for name, count in node_counts.items()
        }
        self.draft = Draft(weighted=weighted)

    def start(self) -> None:
        """Discard the last batch."""
        self.draft.reads[:] = 0
        for nodes in self.nodes.values():
            nodes.start()

    def counts(self) -> dict[str, int]:
        """Return the number of nodes in the batch, by vertex type."""
        return {name: nodes.count for name, nodes in self.nodes.items()}

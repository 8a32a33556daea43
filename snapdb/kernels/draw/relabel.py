"""Relabeling: dense ids of neighbours become local ids, which number a batch's nodes by first appearance.

A map of visited stamps contains a batch's nodes. It is never cleared between batches, because the stamps of earlier
batches are less than the batch's first stamp. If all seeds share nodes, an array has one stamp per vertex. Nodes of
disjoint trees are (tree, vertex) pairs, whose stamps are in a hash table that grows with the batches. In both cases,
relabeling costs one random access per edge, which is prefetched one block ahead.

Reference implementation: `_Numbering` in tests/support/oracle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Int32s, Int64s
from snapdb.kernels.adjacency.forms import RowArrays
from snapdb.kernels.adjacency.spans import AHEAD, BLOCK
from snapdb.kernels.compiled import allocating_kernel, kernel, prefetch
from snapdb.kernels.rng import mix

_Number = int | np.int64


class LocalIds(NamedTuple):
    """The nodes of one vertex type in a batch whose seeds share nodes."""

    nodes: Int64s
    """Dense ids by local id, with one more slot than the maximum number of nodes."""
    stamps: Int32s
    """Visited stamps by dense id: `first` + local id for the nodes of this batch, and less than `first` for others.
    Empty if nodes are not shared."""
    first: int
    """The stamp of local id 0. first + nodes.size must fit into int32."""
    node_count: int
    """The number of vertices. A neighbour that is not in 0 ≤ id < node_count indicates damage."""


# One random read and write of a stamp per edge, without a branch or a hash. PyG's and DGL's samplers hash each id.
@kernel
def relabel(neighbors: Int64s, begin: int, end: int, local: LocalIds, num_nodes: int) -> int:
    """Replace the ids in neighbors[begin:end] with local ids, and append new nodes to nodes[num_nodes:].

    Returns the new number of nodes. The loop has no branches, because they would be mispredicted for half of the edges.
    Each id is written to the next free slot of `nodes`, and the slot remains free if the id was known. Indices are
    unsigned here and in other loops over edges. For signed indices, numba supports counting from the end, which costs
    one more comparison per access.
    """
    nodes, stamps, first = local.nodes, local.stamps, local.first
    for edge in range(begin, end):
        e = np.uint64(edge)
        node = np.uint64(neighbors[e])
        stamp: _Number = np.int64(stamps[node])
        new = stamp < first
        stamp = first + num_nodes if new else stamp
        nodes[np.uint64(num_nodes)] = node
        stamps[node] = stamp
        num_nodes += int(new)
        neighbors[e] = stamp - first
    return num_nodes


@kernel
def relabel_all(neighbors: Int64s, local: LocalIds, num_nodes: int) -> int:
    """Call `relabel` for all edges, with their stamps prefetched one block ahead."""
    stamps = local.stamps
    for begin in range(0, neighbors.size, BLOCK):
        end = min(begin + BLOCK, neighbors.size)
        for e in range(end, min(end + BLOCK, neighbors.size)):
            prefetch(stamps, neighbors[e])
        num_nodes = relabel(neighbors, begin, end, local, num_nodes)
    return num_nodes


# Positions are random, so each neighbour is prefetched AHEAD edges before it is read.
@kernel
def load_neighbors(rows: RowArrays, positions: Int64s, node_count: int, neighbors: Int64s) -> bool:
    """Write the ids at physical positions to `neighbors`. Returns whether all ids are in 0 ≤ id < node_count."""
    outside: bool | np.bool_ = False
    indices, tail = rows.indices, rows.delta.indices
    held, last = indices.size, positions.size - 1
    for edge in range(positions.size):
        e = np.uint64(edge)
        prefetch(indices, min(positions[np.uint64(min(edge + AHEAD, last))], held))
        p = positions[e]
        node = np.int64(indices[np.uint64(p)]) if p < held else np.int64(tail[np.uint64(p - held)])
        outside |= (node < 0) | (node >= node_count)
        neighbors[e] = node
    return not outside


# Nodes of disjoint trees are in a hash table with open addressing and linear probing. A slot contains first + local id,
# or a smaller number if it is free, so the table is never cleared between batches. Its size is a power of two that is
# at least twice the number of nodes.
class TreeLocalIds(NamedTuple):
    """The nodes of one vertex type in a batch of disjoint trees."""

    nodes: Int64s
    """Dense ids, by local id."""
    trees: Int64s
    """The tree of each node, by local id."""
    table: Int64s
    """The slots of the hash table. Each contains the stamp of a node, or a smaller number."""
    first: int
    """The stamp of local id 0."""


@kernel
def _slot(tree: np.int64, node: np.int64, last: int) -> int:
    """Return the first slot to search for a (tree, node) pair."""
    return int(np.int64(mix(np.uint64(node) ^ (np.uint64(tree) << np.uint64(32)))) & last)


@allocating_kernel
def relabel_in_trees(neighbors: Int64s, trees: Int64s, row_nodes: Int64s, local: TreeLocalIds, num_nodes: int) -> int:
    """Replace ids with local ids, append new nodes and their trees, and return the new number of nodes.

    Edge e belongs to the tree of its row's node, trees[row_nodes[e]]. `trees` can be `local.trees`.
    """
    nodes, owners, table, first = local.nodes, local.trees, local.table, local.first
    last = table.size - 1
    slots = np.empty(BLOCK, np.int64)
    for begin in range(0, neighbors.size, BLOCK):
        end = min(begin + BLOCK, neighbors.size)
        for e in range(begin, end):  # hash and prefetch a whole block before its first slot is read
            slots[e - begin] = _slot(trees[row_nodes[e]], neighbors[e], last)
            prefetch(table, slots[e - begin])
        for e in range(begin, end):
            node, tree, slot = neighbors[e], trees[row_nodes[e]], slots[e - begin]
            at = table[slot] - first
            while at >= 0 and (nodes[at] != node or owners[at] != tree):
                slot = (slot + 1) & last
                at = table[slot] - first
            if at < 0:
                at = np.int64(num_nodes)
                table[slot] = first + num_nodes
                nodes[num_nodes] = node
                owners[num_nodes] = tree
                num_nodes += 1
            neighbors[e] = at
    return num_nodes


@kernel
def enter_again(local: TreeLocalIds, count: int) -> None:
    """Insert the first `count` nodes into a table with only free slots, to rehash a grown table."""
    table, last = local.table, local.table.size - 1
    for at in range(count):
        slot = _slot(local.trees[at], local.nodes[at], last)
        while table[slot] >= local.first:
            slot = (slot + 1) & last
        table[slot] = local.first + at

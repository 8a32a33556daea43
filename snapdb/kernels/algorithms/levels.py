"""Breadth-first search from a set of nodes, one level at a time, top-down or bottom-up."""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Array, Bools, Int64s, UInt64s
from snapdb.kernels.algorithms.rows import AHEAD, Neighbors
from snapdb.kernels.compiled import kernel, prefetch


# Direction-optimizing breadth-first search (Beamer, Asanović and Patterson, SC 2012). A small frontier pushes: the
# edges that leave it are read. A large one is pulled: every node that is not reached looks for one predecessor in the
# frontier, a bitmap that fits into the cache, and stops at the first. Threads pull disjoint words of the bitmap.
@kernel
def push_level(rows: Neighbors, level: Array, frontier: Array, count: int, next_: Array, listed: int, at: int) -> int:
    """Reach the neighbors of the first `count` nodes of a frontier.

    Args:
        rows: The edges that leave a node.
        level: int32 [nodes] The level of each node, or -1.
        frontier: The nodes of the frontier.
        count: Their number.
        next_: The nodes of the next frontier.
        listed: The number of nodes that are in `next_` already.
        at: The level of the next frontier.

    Returns:
        The number of nodes in `next_`.
    """
    last = rows.indices.size - 1
    for i in range(count):
        v = np.int64(frontier[i])
        for p in range(rows.indptr[v], rows.indptr[v + 1]):
            prefetch(level, np.int64(rows.indices[min(p + AHEAD, last)]))
            u = rows.indices[p]
            if level[u] < 0:
                level[u] = at
                next_[listed] = u
                listed += 1
    return listed


@kernel
def pull_level(
    rows: Neighbors, alive: Bools, level: Array, frontier: UInt64s, next_: UInt64s, at: int, low: int, high: int
) -> int:
    """Reach the nodes of the words low ≤ w < high that have a predecessor in the frontier. Returns their number.

    Args:
        rows: The edges that arrive at a node.
        alive: [nodes] The nodes that exist, or [0] if all do.
        level: int32 [nodes] The level of each node, or -1.
        frontier: [words] The nodes of the frontier as a bitmap.
        next_: [words] The nodes of the next frontier, to which nodes are added.
        at: The level of the next frontier.
        low: The first word.
        high: The end of the words.
    """
    found, one = 0, np.uint64(1)
    for word in range(low, high):
        bits = next_[word]
        for v in range(64 * word, min(64 * word + 64, level.size)):
            if level[v] >= 0 or (alive.size > 0 and not alive[v]):
                continue
            for p in range(rows.indptr[v], rows.indptr[v + 1]):
                u = rows.indices[p]
                if (frontier[u >> np.uint64(6)] >> np.uint64(u & np.uint64(63))) & one:
                    level[v] = at
                    bits |= one << np.uint64(v & 63)
                    found += 1
                    break
        next_[word] = bits
    return found


@kernel
def set_bits(nodes: Array, count: int, bits: UInt64s) -> None:
    """Set the bits of the first `count` nodes in a bitmap."""
    for i in range(count):
        v = np.int64(nodes[i])
        bits[v >> 6] |= np.uint64(1) << np.uint64(v & 63)


@kernel
def list_level(level: Array, at: int, nodes: Array) -> int:
    """Fill `nodes` with the nodes of one level. Returns their number."""
    count = 0
    for v in range(level.size):
        nodes[count] = v
        count += level[v] == at
    return count


@kernel
def count_leaving(indptr: Int64s, nodes: Array, count: int) -> int | np.int64:
    """Return the number of edges in the rows of the first `count` nodes."""
    edges = np.int64(0)
    for i in range(count):
        edges += indptr[nodes[i] + 1] - indptr[nodes[i]]
    return edges

"""Weakly connected components by a union-find forest, and their numbers in an order of the nodes."""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Array, Bools, Int64s
from snapdb.kernels.algorithms.rows import AHEAD
from snapdb.kernels.compiled import kernel, prefetch


# Rem's union-find with splicing (Dijkstra, 1976; the fastest of the 53 compared by Patwary, Blair and Manne, SEA 2010).
# A parent is never greater than its child, so a root is the least node of its tree. An edge within a tree costs one
# read at a random place, if its ends have the same parent. That holds for most edges after the forest of the first
# edge of each row is flat, as in Afforest (Sutton, Ben-Nun and Barak, IPDPS 2018).
@kernel
def _link(parent: Array, one: int | np.int64, other: int | np.int64) -> None:
    """Join the trees of two nodes."""
    u, v = np.int64(one), np.int64(other)
    while parent[u] != parent[v]:
        if parent[u] < parent[v]:
            u, v = v, u
        above = np.int64(parent[u])
        parent[u] = parent[v]
        if u == above:
            return
        u = above


@kernel
def link_first(indptr: Int64s, indices: Array, parent: Array, count: int) -> None:
    """Join the ends of the first `count` edges of every row."""
    for v in range(indptr.size - 1):
        for p in range(indptr[v], min(indptr[v] + count, indptr[v + 1])):
            _link(parent, np.int64(indices[p]), v)


@kernel
def link_rows(indptr: Int64s, indices: Array, parent: Array, low: int, high: int) -> None:
    """Join the ends of the edges in the rows low ≤ v < high."""
    last = indices.size - 1
    for v in range(low, high):
        for p in range(indptr[v], indptr[v + 1]):
            prefetch(parent, np.int64(indices[min(p + AHEAD, last)]))
            if parent[indices[p]] != parent[v]:
                _link(parent, np.int64(indices[p]), v)


@kernel
def link_forest(other: Array, parent: Array) -> None:
    """Join the trees of another forest over the same nodes to a forest."""
    for v in range(parent.size):
        if parent[other[v]] != parent[v]:
            _link(parent, np.int64(other[v]), v)


@kernel
def flatten(parent: Array) -> None:
    """Make the parent of each node its root. One ascending pass is enough, because parents come before children."""
    for v in range(parent.size):
        parent[v] = parent[parent[v]]


@kernel
def number_in_order(component: Array, order: Int64s, alive: Bools, number: Array, labels: Int64s) -> int | np.int64:
    """Fill `labels` [nodes] with numbers 0, 1, … of the components, and return how many there are.

    Args:
        component: [nodes] A number 0 ≤ c < number.size of the component of each node.
        order: The nodes in the order in which components get their numbers, -1 for a gap, or [0] for ascending nodes.
        alive: [nodes] The nodes that count, or [0] for all of them.
        number: Space for the number of each component, filled with -1.
        labels: [nodes] The result, untouched where a node does not count.
    """
    count = np.int64(0)
    for i in range(order.size if order.size > 0 else component.size):
        v = order[i] if order.size > 0 else np.int64(i)
        if v < 0 or (alive.size > 0 and not alive[v]):
            continue
        if number[component[v]] < 0:
            number[component[v]] = count
            count += 1
        labels[v] = number[component[v]]
    return count


# Forward-backward search (Fleischer, Hendrickson and Pinar, 2000) for the component of one pivot, which is a giant one
# in many graphs, with rows of one direction: a search against the edges marks all nodes from which the pivot is
# reached. A node among them is in the component if one of its predecessors is, which sweeps over the rows decide. A
# depth-first search would read the same edges one after the other.
MARKED, MEMBER = 1, 2


@kernel
def mark_ancestors(indptr: Int64s, indices: Array, pivot: int, state: Array, queue: Array, stop: Array) -> int:
    """Mark all nodes from which a pivot is reached, by breadth-first search over the rows of arriving edges.

    `state` [nodes] is `MARKED` for them, and was 0. Returns their number, or fewer after `stop` became 1.
    """
    last = indices.size - 1
    state[pivot] = MARKED
    queue[0] = pivot
    count, at = 1, 0
    while at < count:
        if at & 0xFFFF == 0 and stop[0] != 0:
            return count
        v = np.int64(queue[at])
        at += 1
        for p in range(indptr[v], indptr[v + 1]):
            prefetch(state, np.int64(indices[min(p + AHEAD, last)]))
            u = indices[p]
            if state[u] == 0:
                state[u] = MARKED
                queue[count] = u
                count += 1
    return count


# Threads may read a state while another thread writes it. States only grow, and sweeps are repeated until none changes,
# so the result is the same.
@kernel
def sweep_members(indptr: Int64s, indices: Array, state: Array, low: int, high: int) -> int:
    """Make marked nodes low ≤ v < high members if a predecessor is one. Returns the number of new members."""
    changed = 0
    for v in range(low, high):
        if state[v] != MARKED:
            continue
        for p in range(indptr[v], indptr[v + 1]):
            if state[indices[p]] == MEMBER:
                state[v] = MEMBER
                changed += 1
                break
    return changed


# Pearce's algorithm (2016, a refinement of Tarjan's, 1972): one depth-first search without recursion. Both stacks, of
# the path and of the visited nodes without a component, share one array, because a node is on at most one of them. The
# components of the reversed graph are the same, so rows of arriving edges will do. O(nodes + edges).
@kernel
def strong_components(
    indptr: Int64s, indices: Array, index: Array, stack: Array, cursor: Int64s, rooted: Array, stop: Array
) -> int:
    """Fill `index` [nodes] with a number 0 ≤ c < nodes of the strongly connected component of each node.

    Args:
        indptr: [nodes + 1] The starts of rows of either direction.
        indices: [edges] The neighbors.
        index: 0, or nodes + 1 for nodes that are left out, and then stay so. There are fewer than 2^31 - 2 nodes.
        stack: [nodes] Space.
        cursor: [nodes] Space for the next edge of each node of the path.
        rooted: [nodes] Space for one byte per node of the path.
        stop: The search ends soon after it becomes 1, with a useless result.

    Returns:
        The number of components.
    """
    nodes = index.size
    free, component, steps, last = 1, nodes, 0, indices.size - 1
    for start in range(nodes):
        if index[start] != 0:
            continue
        depth, back = 1, nodes
        stack[0], cursor[0], rooted[0] = start, indptr[start], 1
        index[start] = free
        free += 1
        while depth > 0:
            steps += 1
            if steps & 0xFFFF == 0 and stop[0] != 0:
                return 0
            v = np.int64(stack[depth - 1])
            p, end, low = cursor[depth - 1], indptr[v + 1], index[v]
            below = np.int64(-1)
            while p < end:
                prefetch(index, np.int64(indices[min(p + AHEAD, last)]))
                w = np.int64(indices[p])
                if index[w] == 0:
                    below = w
                    break
                if index[w] < low:
                    low = index[w]
                    rooted[depth - 1] = 0
                p += 1
            index[v] = low
            if below >= 0:
                cursor[depth - 1] = p
                stack[depth], cursor[depth], rooted[depth] = below, indptr[below], 1
                index[below] = free
                free += 1
                depth += 1
                continue
            depth -= 1
            if rooted[depth] == 0:
                back -= 1
                stack[back] = v
                continue
            free -= 1
            while back < nodes and index[v] <= index[stack[back]]:
                index[stack[back]] = component
                back += 1
                free -= 1
            index[v] = component
            component -= 1
    for i in range(nodes):
        index[i] -= 1
    return nodes - component

"""The core number of each node of a simple undirected graph."""

from __future__ import annotations

from snapdb.arrays import Array, Int64s
from snapdb.kernels.algorithms.rows import AHEAD
from snapdb.kernels.compiled import kernel, prefetch


# Batagelj and Zaversnik's bin sort ("An O(m) algorithm for cores decomposition of networks", 2003). Nodes are kept
# sorted by their remaining degree. The first node is removed, and each neighbor of a greater degree is moved to the
# front of its bin, which then ends one place later. O(nodes + edges).
@kernel
def core_numbers(
    indptr: Int64s, indices: Array, degree: Array, order: Array, place: Array, bins: Array, stop: Array
) -> None:
    """Replace the degrees in `degree` [nodes] by core numbers.

    Args:
        indptr: [nodes + 1] The starts of the rows of both directions, without parallel edges and loops.
        indices: [edges] The neighbors.
        degree: [nodes] The degrees.
        order: [nodes] Space for the nodes by degree.
        place: [nodes] Space for the position of each node in `order`.
        bins: [max degree + 2] Zeros, space for the first position of each degree.
        stop: The loop ends soon after it becomes 1.
    """
    nodes = degree.size
    for v in range(nodes):
        bins[degree[v] + 1] += 1
    for d in range(1, bins.size):
        bins[d] += bins[d - 1]
    for v in range(nodes):
        place[v] = bins[degree[v]]
        order[place[v]] = v
        bins[degree[v]] += 1
    for d in range(bins.size - 1, 0, -1):
        bins[d] = bins[d - 1]
    bins[0] = 0
    last = indices.size - 1
    for i in range(nodes):
        if i & 0xFFFF == 0 and stop[0] != 0:
            return
        v = order[i]
        for p in range(indptr[v], indptr[v + 1]):
            prefetch(degree, indices[min(p + AHEAD, last)])
            u = indices[p]
            own = degree[u]
            if own > degree[v]:
                first = bins[own]
                moved = order[first]
                if moved != u:
                    order[place[u]], place[moved] = moved, place[u]
                    order[first], place[u] = u, first
                bins[own] = first + 1
                degree[u] = own - 1

"""Triangles of a simple undirected graph, by node, and common neighbors of pairs of nodes."""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Array, Bools, Float64s, Int64s
from snapdb.kernels.compiled import allocating_kernel, kernel, prefetch


# The forward algorithm (Schank and Wagner, WEA 2005): an edge points to the end of the greater degree, so a row has at
# most sqrt(2 * edges) neighbors, and each triangle is in the rows of exactly one node twice. Nodes are renumbered by
# descending degree, so that the marks that are read most often are in few cache lines. O(edges * sqrt(edges)).
@kernel
def count_greater(indptr: Int64s, indices: Array, number: Array, counts: Int64s, low: int, high: int) -> None:
    """Fill `counts[number[v]]` with the neighbors of a lesser number of each node low ≤ v < high."""
    for v in range(low, high):
        count, own = 0, number[v]
        for p in range(indptr[v], indptr[v + 1]):
            count += number[indices[p]] < own
        counts[own] = count


@kernel
def list_greater(
    indptr: Int64s, indices: Array, number: Array, starts: Int64s, out: Array, low: int, high: int
) -> None:
    """Fill the row of each node low ≤ v < high, at `starts[number[v]]`, with its neighbors of a lesser number."""
    for v in range(low, high):
        own = number[v]
        at = starts[own]
        for p in range(indptr[v], indptr[v + 1]):
            other = number[indices[p]]
            if other < own:
                out[at] = other
                at += 1


@allocating_kernel
def count_triangles(starts: Int64s, greater: Array, marks: Array, counts: Int64s, stop: Array, node: Int64s) -> None:
    """Add the triangles of nodes to `counts` [nodes], by number. Threads take the nodes from `node` in turns.

    Args:
        starts: [nodes + 1] The starts of the rows.
        greater: [edges / 2] The neighbors of a lesser number.
        marks: [ceil(nodes / 64)] uint64 zeros, space for the marks of the neighbors of one node.
        counts: [nodes] The triangles of each node that this thread found.
        stop: The loop ends soon after it becomes 1.
        node: [2] The first number and the end of the numbers.
    """
    one, last = np.uint64(1), greater.size - 1
    for v in range(node[0], node[1]):
        if stop[0] != 0:
            return
        first, end = starts[v], starts[v + 1]
        if end - first < 2:
            continue
        for p in range(first, end):
            marks[greater[p] >> 6] |= one << np.uint64(greater[p] & 63)
        own = 0
        for p in range(first, end):
            prefetch(starts, greater[min(p + 8, last)])
            prefetch(greater, starts[greater[min(p + 4, last)]])
            u = greater[p]
            both = 0
            for q in range(starts[u], starts[u + 1]):
                w = greater[q]
                if (marks[w >> 6] >> np.uint64(w & 63)) & one:
                    counts[w] += 1
                    both += 1
            counts[u] += both
            own += both
        counts[v] += own
        for p in range(first, end):
            marks[greater[p] >> 6] = 0


# Rows are sorted, so two of them are merged. If one is much longer, its elements are searched instead, from the last
# match on, by doubling steps (galloping search, Bentley and Yao, 1976). O(min(a + b, a * log(b))) per pair.
@kernel
def _seek(values: Array, low: int, end: int, value: int) -> int:
    """Return the first position from `low` on whose value is at least `value`."""
    step = 1
    high = low
    while high < end and values[high] < value:
        low = high + 1
        high += step
        step *= 2
    high = min(high, end)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def mark_common(
    indptr: Int64s,
    indices: Array,
    source: Int64s,
    destination: Int64s,
    counts: Int64s,
    marks: Bools,
    low: int,
    high: int,
) -> None:
    """Fill `counts` with the common neighbors of the pairs low ≤ i < high, and mark these in `marks` [nodes] or [0]."""
    for i in range(low, high):
        p, p_end, q, q_end = _rows_of(indptr, source[i], destination[i])
        count = 0
        while p < p_end and q < q_end:
            q = _seek(indices, q, q_end, indices[p])
            if q < q_end and indices[q] == indices[p]:
                count += 1
                if marks.size > 0:
                    marks[indices[p]] = True
            p += 1
        counts[i] = count


@kernel
def add_common(
    indptr: Int64s,
    indices: Array,
    source: Int64s,
    destination: Int64s,
    worth: Float64s,
    sums: Float64s,
    low: int,
    high: int,
) -> None:
    """Fill `sums` with the worth of the common neighbors of the pairs low ≤ i < high, in ascending order."""
    for i in range(low, high):
        p, p_end, q, q_end = _rows_of(indptr, source[i], destination[i])
        total = 0.0
        while p < p_end and q < q_end:
            q = _seek(indices, q, q_end, indices[p])
            if q < q_end and indices[q] == indices[p]:
                total += worth[indices[p]]
            p += 1
        sums[i] = total


@kernel
def _rows_of(indptr: Int64s, one: int, other: int) -> tuple[int, int, int, int]:
    """Return the bounds of the shorter and of the longer row of two nodes."""
    a, a_end, b, b_end = indptr[one], indptr[one + 1], indptr[other], indptr[other + 1]
    if a_end - a > b_end - b:
        return b, b_end, a, a_end
    return a, a_end, b, b_end


@kernel
def number_by_degree(degrees: Int64s, bins: Int64s, number: Array) -> None:
    """Fill `number` [nodes] with the positions of nodes by descending degree, by counting sort.

    `bins` has max degree + 2 zeros.
    """
    for v in range(degrees.size):
        bins[degrees[v]] += 1
    total = np.int64(0)
    for d in range(bins.size - 1, -1, -1):
        count = bins[d]
        bins[d] = total
        total += count
    for v in range(degrees.size):
        number[v] = bins[degrees[v]]
        bins[degrees[v]] += 1

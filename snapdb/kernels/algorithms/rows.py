"""Rows of neighbors: degrees, ranges of equal work, and rows without parallel edges and loops."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Bools, Float64s, Int64s
from snapdb.kernels.compiled import allocating_kernel, kernel, prefetch

Range = tuple[int, int]
"""The first item and the end of a range."""
AHEAD = 24
"""The number of edges between the prefetch of a neighbor's value and its use."""
_SHORT = 24
"""The maximum length of a row for which insertion sort is faster than quicksort."""


class Neighbors(NamedTuple):
    """Rows of neighbors in the types that kernels read."""

    indptr: Int64s
    """[nodes + 1] Where each row starts."""
    indices: Array
    """[edges] uint32 or uint64: the neighbor. Kernels test no unsigned index for being negative."""
    weight: Float64s
    """[edges], or [0] if all weights are 1."""


def as_neighbors(indptr: Int64s, indices: Array, weight: Float64s) -> Neighbors:
    """Return rows as kernels read them. The arrays are views."""
    return Neighbors(indptr, indices.view(np.uint32 if indices.itemsize == 4 else np.uint64), weight)


def no_neighbors(nodes: int, like: Neighbors) -> Neighbors:
    """Return empty rows with the types of other rows."""
    return Neighbors(np.zeros(nodes + 1, np.int64), np.empty(0, like.indices.dtype), np.empty(0, np.float64))


def equal_ranges(indptr: Int64s, block: int, count: int) -> list[Range]:
    """Return at most `count` ranges of blocks of `block` rows, with about the same number of rows and edges in each.

    >>> equal_ranges(np.array([0, 10, 11, 12, 13, 14]), 2, 2)
    [(0, 1), (1, 3)]
    """
    nodes = indptr.size - 1
    blocks = -(-nodes // block)
    starts = np.minimum(np.arange(blocks + 1) * block, nodes)
    work = indptr[starts] - indptr[0] + 2 * starts
    bounds = np.searchsorted(work, np.linspace(0, work[-1], max(count, 1) + 1)[1:-1])
    cuts = np.unique(np.concatenate([[0], bounds, [blocks]]))
    return list(pairwise(cuts.tolist()))


def even_ranges(size: int, step: int) -> list[Range]:
    """Return the ranges of `step` items that cover `size` items.

    >>> even_ranges(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(low, min(low + step, size)) for low in range(0, size, step)]


@kernel
def count_neighbors(indices: Array, counts: Int64s, low: int, high: int) -> None:
    """Add to `counts` [nodes] how often each node is the neighbor at a position low ≤ p < high."""
    last = high - 1
    for p in range(low, high):
        prefetch(counts, np.int64(indices[min(p + AHEAD, last)]))
        counts[indices[p]] += 1


@kernel
def add_weights(indices: Array, weight: Float64s, sums: Float64s, low: int, high: int) -> None:
    """Add to `sums` [nodes] the weights of the edges low ≤ p < high of each neighbor, in the order of the positions."""
    last = high - 1
    for p in range(low, high):
        prefetch(sums, np.int64(indices[min(p + AHEAD, last)]))
        sums[indices[p]] += weight[p]


@kernel
def sum_rows(indptr: Int64s, weight: Float64s, sums: Float64s, low: int, high: int) -> None:
    """Add to `sums` [nodes] the weights in the row of each node low ≤ v < high, in the order of the positions."""
    for v in range(low, high):
        total = 0.0
        for p in range(indptr[v], indptr[v + 1]):
            total += weight[p]
        sums[v] += total


# The neighbors of a node in both directions are copied, sorted and made distinct in the place of both rows. Each row is
# touched by one thread, and reads and writes are sequential. O(edges * log(degree)).
@allocating_kernel
def merge_rows(
    one: Neighbors, other: Neighbors, wanted: Bools, starts: Int64s, out: Array, degrees: Int64s, low: int, high: int
) -> None:
    """Fill `out` from `starts[v]` on with the distinct neighbors of each node low ≤ v < high, ascending, without v.

    Args:
        one: Rows.
        other: The rows of the other direction.
        wanted: [nodes] The nodes that get a row, or [0] for all of them.
        starts: [nodes] The first position of a row, with room for both rows.
        out: int32 or int64 [positions] The neighbors.
        degrees: [nodes] The number of distinct neighbors.
        low: The first node.
        high: The end of the nodes.
    """
    for v in range(low, high):
        degrees[v] = 0
        if wanted.size > 0 and not wanted[v]:
            continue
        first = end = starts[v]
        for p in range(one.indptr[v], one.indptr[v + 1]):
            out[end] = one.indices[p]
            end += 1
        for p in range(other.indptr[v], other.indptr[v + 1]):
            out[end] = other.indices[p]
            end += 1
        if end - first <= _SHORT:
            _insert(out, first, end)
        else:
            out[first:end].sort()
        degrees[v] = _distinct(out, first, end, v) - first


@kernel
def _insert(values: Array, first: int, end: int) -> None:
    """Sort values by insertion."""
    for i in range(first + 1, end):
        value, at = values[i], i
        while at > first and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value


@kernel
def _distinct(values: Array, first: int, end: int, without: int) -> int:
    """Move the distinct values of a sorted range to its start, without one value. Returns their end."""
    at = first
    for i in range(first, end):
        value = values[i]
        if value != without and (at == first or values[at - 1] != value):
            values[at] = value
            at += 1
    return at


@kernel
def close_gaps(starts: Int64s, degrees: Int64s, values: Array, indptr: Int64s) -> None:
    """Move rows to the left until there are no gaps, and fill `indptr` [nodes + 1]."""
    at = np.int64(0)
    for v in range(degrees.size):
        indptr[v] = at
        for p in range(starts[v], starts[v] + degrees[v]):
            values[at] = values[p]
            at += 1
    indptr[degrees.size] = at

"""Uniform sampling without replacement over one relation, with the neighbours renumbered as they appear.

A hop runs in blocks of frontier nodes that stay in the cache: draw positions (prefetching the adjacency), load the
neighbours there (prefetching their stamps), then renumber. A stamp map holds base + local id for each node seen in
this batch and something below base for the others, so that it is never cleared between batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.kernels.compiled import kernel
from snapdb.kernels.intrinsics import prefetch
from snapdb.kernels.rng import below, draw, fold

__all__ = ["EVERY", "count_edges", "number", "restamp", "sample_uniform"]

Number = int | np.int64
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

EVERY = 2**63 - 1
"""The fanout that takes every edge."""

BLOCK = 128
"""Frontier nodes whose edges go through the three loops together."""
AHEAD = 16
"""How many frontier nodes ahead the row bounds are prefetched."""
SCANNED = 128
"""Up to so many picks, looking through the earlier ones beats a hash table."""


@kernel
def count_edges(starts: Int64s, ends: Int64s, held: int, fanout: int, frontier: Int64s, low: int, high: int) -> int:
    """How many edges `sample_uniform` emits for frontier[low:high]; -1 when a row is not within `held` positions."""
    total = 0
    outside: bool | np.bool_ = False
    for i in range(low, high):
        node = frontier[i]
        ahead = frontier[min(i + AHEAD, high - 1)]
        prefetch(starts, ahead)
        prefetch(ends, ahead)
        start, end = starts[node], ends[node]
        outside |= (start < 0) | (end < start) | (end > held)
        total += int(min(end - start, fanout))
    return -1 if outside else total


@kernel
def sample_uniform(
    starts: Int64s,
    ends: Int64s,
    indices: npt.NDArray[Any],
    prefix: np.uint64,
    fanout: int,
    frontier: Int64s,
    low: int,
    high: int,
    nodes: Int64s,
    count: int,
    stamps: Int32s,
    base: int,
    positions: Int64s,
    neighbours: Int64s,
    seed_side: Int64s,
    edges: int,
) -> tuple[int, int]:
    """Draws up to `fanout` edges for each of frontier[low:high]; returns how many nodes and edges there are now.

    -1 nodes: an index is not a node, one of 0 ≤ id < stamps.size. The rows must have passed `count_edges`.

    Edge e ≥ `edges` gets positions[e] in the relation's rows, neighbours[e] as a local id and seed_side[e], its
    frontier index. New neighbours go to nodes[count:], which needs one spare slot; the frontier may be `nodes`.
    The pick key of a node is fold(prefix, node); base + nodes.size must fit into int32.
    """
    table = np.empty(0, np.int64)
    for first in range(low, high, BLOCK):
        begin = edges
        for i in range(first, min(first + BLOCK, high)):
            ahead = frontier[min(i + AHEAD, high - 1)]
            prefetch(starts, ahead)
            prefetch(ends, ahead)
            node = frontier[i]
            start = starts[node]
            degree = ends[node] - start
            picks = min(degree, fanout)
            for j in range(edges, edges + picks):
                seed_side[j] = i
            if degree <= fanout:
                _take_all(start, degree, indices, positions, edges)
            elif degree <= 64:
                _floyd_mask(fold(prefix, np.uint64(node)), start, degree, fanout, indices, positions, edges)
            elif fanout <= SCANNED:
                _floyd_scan(fold(prefix, np.uint64(node)), start, degree, fanout, indices, positions, edges)
            else:
                if table.size == 0:
                    table = np.empty(_table_size(fanout), np.int64)
                _floyd_table(fold(prefix, np.uint64(node)), start, degree, fanout, table, positions, edges)
            edges += picks
        if not _load(indices, stamps, positions, neighbours, begin, edges):
            return -1, edges
        count = number(neighbours, begin, edges, nodes, count, stamps, base)
    return count, edges


@kernel
def number(neighbours: Int64s, begin: int, end: int, nodes: Int64s, count: int, stamps: Int32s, base: int) -> int:
    """Replaces the ids in neighbours[begin:end] by local ids, and appends the new ones to nodes[count:].

    Returns how many nodes there are then. Free of branches: each id is written to the next free slot of `nodes`,
    which stays free when the id was known.
    """
    for e in range(begin, end):
        node = neighbours[e]
        stamp: Number = np.int64(stamps[node])
        new = stamp < base
        stamp = base + count if new else stamp
        nodes[count] = node
        stamps[node] = stamp
        count += int(new)
        neighbours[e] = stamp - base
    return count


@kernel
def restamp(nodes: Int64s, count: int, stamps: Int32s, base: int) -> None:
    """Clears the stamp map and enters nodes[:count] again, as local ids from 0."""
    stamps[:] = 0
    for i in range(count):
        stamps[nodes[i]] = base + i


@kernel
def _take_all(start: int, degree: int, indices: npt.NDArray[Any], positions: Int64s, edges: int) -> None:
    """All positions of a row, ascending."""
    if degree > 0:
        prefetch(indices, start)
        prefetch(indices, start + degree - 1)
    for j in range(degree):
        positions[edges + j] = start + j


@kernel
def _floyd_mask(
    key: np.uint64, start: int, degree: int, k: int, indices: npt.NDArray[Any], positions: Int64s, edges: int
) -> None:
    """Floyd's k of at most 64 positions, in draw order; the chosen ones are bits of one word."""
    chosen = np.uint64(0)
    one = np.uint64(1)
    for j in range(k):
        top = np.uint64(degree - k + j + 1)
        pick = below(draw(key, np.uint64(j)), top)
        pick = top - one if (chosen >> pick) & one else pick
        chosen |= one << pick
        position = start + np.int64(pick)
        prefetch(indices, position)
        positions[edges + j] = position


@kernel
def _floyd_scan(
    key: np.uint64, start: int, degree: int, k: int, indices: npt.NDArray[Any], positions: Int64s, edges: int
) -> None:
    """Floyd's k positions in draw order; the chosen ones are looked for among those emitted."""
    for j in range(k):
        top = degree - k + j + 1
        position: Number = start + np.int64(below(draw(key, np.uint64(j)), np.uint64(top)))
        chosen = False
        for q in range(edges, edges + j):
            chosen |= positions[q] == position
        position = start + top - 1 if chosen else position
        prefetch(indices, position)
        positions[edges + j] = position


@kernel
def _floyd_table(key: np.uint64, start: int, degree: int, k: int, table: Int64s, positions: Int64s, edges: int) -> None:
    """Floyd's k positions in draw order; the chosen ones are in an open-addressing hash table."""
    table[:] = -1
    for j in range(k):
        top = degree - k + j + 1
        pick: Number = np.int64(below(draw(key, np.uint64(j)), np.uint64(top)))
        if not _insert(table, pick):
            pick = top - 1  # never chosen before, as earlier draws were below it
            _insert(table, pick)
        positions[edges + j] = start + pick


@kernel
def _table_size(k: int) -> int:
    """The power of two that keeps a table of k entries at most half full."""
    size = 1
    while size < 2 * k:
        size *= 2
    return size


@kernel
def _insert(table: Int64s, value: Number) -> bool:
    """Whether the value was not yet in the table, where it now is."""
    last = table.size - 1
    slot = np.int64((np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & last
    while table[slot] >= 0:
        if table[slot] == value:
            return False
        slot = (slot + 1) & last
    table[slot] = value
    return True


@kernel
def _load(
    indices: npt.NDArray[Any], stamps: Int32s, positions: Int64s, neighbours: Int64s, begin: int, end: int
) -> bool:
    """The ids at positions[begin:end]; whether all of them have a stamp."""
    outside: bool | np.bool_ = False
    for e in range(begin, end):
        node = np.int64(indices[positions[e]])
        outside |= (node < 0) | (node >= stamps.size)
        prefetch(stamps, node)
        neighbours[e] = node
    return not outside

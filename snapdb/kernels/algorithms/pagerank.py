"""One iteration of PageRank: every node collects the shares of the nodes that link to it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Bools, Float64s
from snapdb.kernels.algorithms.rows import AHEAD, Neighbors
from snapdb.kernels.compiled import kernel, prefetch

BLOCK = 1 << 14
"""The number of nodes whose sums are added one after the other. Blocks are added in their order."""


class Ranks(NamedTuple):
    """The state of an iteration, [nodes] each."""

    rank: Float64s
    """The ranks, which sum up to 1."""
    share: Float64s
    """What a node passes on over an edge of weight 1: its rank divided by its sum of weights."""
    next: Float64s
    """The shares of the next iteration."""
    inverse: Float64s
    """1 / the sum of the weights of the edges that leave a node, or 0 if it is dangling."""
    teleport: Float64s
    """The distribution of restarts and of the ranks of dangling nodes, or [0] if it is uniform over living nodes."""
    alive: Bools
    """The nodes that exist, or [0] if all do."""


# Pull-based power iteration (Page et al., 1999), as a product of a sparse matrix by a vector: a node reads the shares
# of its predecessors and writes only its own values, so that threads share no sums. The shares of the next iteration,
# the change and the mass of dangling nodes come from the same pass. Sums are sequential within a node and within a
# block of nodes, so that they have the same bits on any number of threads. O(nodes + edges), one read at a random place
# per edge, prefetched.
@kernel
def pull_ranks(
    rows: Neighbors,
    other: Neighbors,
    state: Ranks,
    damping: float,
    mass: float,
    uniform: float,
    sums: Float64s,
    low: int,
    high: int,
) -> None:
    """Compute the next rank of the nodes in the blocks low ≤ b < high.

    Args:
        rows: The edges that arrive at a node.
        other: Further such edges, without their self loops, or rows without edges.
        state: The state. `rank` and `next` are overwritten.
        damping: The share of the ranks that follows the edges.
        mass: The sum of the ranks of dangling nodes.
        uniform: The share of a node in a uniform distribution, if the teleport distribution is.
        sums: [blocks * 2] The change of each block in L1, and its next mass of dangling nodes.
        low: The first block.
        high: The end of the blocks.
    """
    nodes, last, weighted = state.rank.size, rows.indices.size - 1, rows.weight.size > 0
    two = other.indices.size > 0
    for block in range(low, high):
        change, dangling = 0.0, 0.0
        for v in range(block * BLOCK, min((block + 1) * BLOCK, nodes)):
            total = 0.0
            if weighted:
                for p in range(rows.indptr[v], rows.indptr[v + 1]):
                    prefetch(state.share, np.int64(rows.indices[min(p + AHEAD, last)]))
                    total += state.share[rows.indices[p]] * rows.weight[p]
            else:
                for p in range(rows.indptr[v], rows.indptr[v + 1]):
                    prefetch(state.share, np.int64(rows.indices[min(p + AHEAD, last)]))
                    total += state.share[rows.indices[p]]
            if two:
                total += _pull_other(other, state.share, v)
            restart = uniform
            if state.teleport.size > 0:
                restart = state.teleport[v]
            elif state.alive.size > 0 and not state.alive[v]:
                restart = 0.0
            rank = damping * (total + mass * restart) + (1.0 - damping) * restart
            change += abs(rank - state.rank[v])
            if state.inverse[v] == 0.0:
                dangling += rank
            state.rank[v] = rank
            state.next[v] = rank * state.inverse[v]
        sums[2 * block] = change
        sums[2 * block + 1] = dangling


@kernel
def _pull_other(other: Neighbors, share: Float64s, v: int) -> float:
    """Return the shares that arrive at a node over its second row. Its self loops are in the first one as well."""
    total, last = 0.0, other.indices.size - 1
    for p in range(other.indptr[v], other.indptr[v + 1]):
        prefetch(share, np.int64(other.indices[min(p + AHEAD, last)]))
        if other.indices[p] != v:
            total += share[other.indices[p]] * (other.weight[p] if other.weight.size > 0 else 1.0)
    return total


@kernel
def start_ranks(state: Ranks, uniform: float, sums: Float64s, low: int, high: int) -> None:
    """Fill the ranks of blocks with a uniform distribution, their shares, and the mass of dangling nodes in `sums`."""
    nodes = state.rank.size
    for block in range(low, high):
        dangling = 0.0
        for v in range(block * BLOCK, min((block + 1) * BLOCK, nodes)):
            rank = 0.0 if state.alive.size > 0 and not state.alive[v] else uniform
            state.rank[v] = rank
            state.share[v] = rank * state.inverse[v]
            if state.inverse[v] == 0.0:
                dangling += rank
        sums[2 * block + 1] = dangling


@kernel
def add_in_order(values: Float64s, first: int, step: int) -> float:
    """Return the sum of every `step`-th value from `first` on, added one after the other."""
    total = 0.0
    for i in range(first, values.size, step):
        total += values[i]
    return total


@kernel
def subtract_loops(rows: Neighbors, sums: Float64s, low: int, high: int) -> None:
    """Subtract the weights of the self loops of the nodes low ≤ v < high from `sums` [nodes]."""
    for v in range(low, high):
        for p in range(rows.indptr[v], rows.indptr[v + 1]):
            if rows.indices[p] == v:
                sums[v] -= rows.weight[p] if rows.weight.size > 0 else 1.0

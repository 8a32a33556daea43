"""The most visited vertices of random walks, which are the neighbours of PinSAGE."""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Bools, Int64s, UInt64s
from snapdb.kernels.compiled import allocating_kernel, kernel
from snapdb.kernels.rng import fold

NODE_BITS = 40
"""A dense id has at most this many bits, so that a count and an id fit in one integer."""


@kernel
def key_visits(prefix: UInt64s, ordinals: Int64s, nodes: Int64s, per_node: int, keys: UInt64s) -> None:
    """Write the keys of all walks, `per_node` for each node. prefix[0] is the key of the batch and hop.

    `ordinals` contains the ordinal of each node's seed if trees are disjoint, and is empty otherwise.
    """
    for i in range(nodes.size):
        key = prefix[0] if ordinals.size == 0 else fold(prefix[0], np.uint64(ordinals[i]))
        key = fold(key, np.uint64(nodes[i]))
        for number in range(per_node):
            keys[i * per_node + number] = fold(key, np.uint64(number))


# The importance-based neighbourhood of PinSAGE (Ying et al., 2018): visit counts of short random walks estimate
# personalized PageRank. Sorting a start's visits costs O(v log v) for v visits, which fit in the CPU cache. The sort of
# numba allocates its stack.
@allocating_kernel
def most_visited(
    walks: Int64s, start: int, stop: int, counted: Bools, visits: Int64s, neighbors: Int64s, counts: Int64s
) -> None:
    """Write the most visited vertices of each start, most visits first, then by ascending dense id.

    The start itself is not counted. Unused places are -1, with count 0.

    Args:
        walks: [starts * n, length + 1] Dense ids, -1 after the end of a walk. Each start has n walks in succession.
        start: The first of the starts to do.
        stop: The start after the last one to do.
        counted: [length + 1] Whether the vertices of a column count.
        visits: [n * length] Scratch memory.
        neighbors: [starts, top] The dense ids that are written.
        counts: [starts, top] The numbers of visits that are written.
    """
    starts, top = neighbors.shape
    per = walks.shape[0] // starts
    low_bits = (1 << NODE_BITS) - 1
    for s in range(start, stop):
        own, size = walks[s * per, 0], 0
        for w in range(s * per, (s + 1) * per):
            for column in range(1, walks.shape[1]):
                node = walks[w, column]
                if node < 0:
                    break
                if counted[column] and node != own:
                    visits[size] = node
                    size += 1
        visits[:size].sort()
        # Runs become (most - count, node), which are then sorted by count descending and node ascending.
        runs, at = 0, 0
        while at < size:
            end = at + 1
            while end < size and visits[end] == visits[at]:
                end += 1
            visits[runs] = ((visits.size - (end - at)) << NODE_BITS) | visits[at]
            runs += 1
            at = end
        visits[:runs].sort()
        for slot in range(top):
            neighbors[s, slot] = visits[slot] & low_bits if slot < runs else -1
            counts[s, slot] = visits.size - (visits[slot] >> NODE_BITS) if slot < runs else 0

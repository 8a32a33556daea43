"""Distances from sources, summed for each node, and the shares of shortest paths that pass through it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Float64s, Int64s, UInt64s
from snapdb.kernels.algorithms.rows import AHEAD, Neighbors
from snapdb.kernels.bits import count_bits
from snapdb.kernels.compiled import kernel, prefetch

LANES = 64
"""The number of sources that search together."""
_SPARSE = 16
"""A frontier of fewer than 1 / 16 of the nodes pushes. Otherwise all nodes pull."""


class Lanes(NamedTuple):
    """One bit per source, [nodes] each, and the sums of a thread."""

    seen: UInt64s
    frontier: UInt64s
    arriving: UInt64s
    listed: Array
    """The nodes of the frontier, and then those at which it arrives."""
    touched: Array
    total: Int64s
    """The sums of the distances from sources."""
    reached: Int64s
    """The numbers of other sources that reach a node."""


# MS-BFS (Then et al., "The more the merrier", VLDB 2014): one pass over the edges of a frontier advances 64 searches,
# because their bits are combined by one OR. A node needs the number of lanes that arrive at a level and not which ones,
# so the sums are popcounts. They are integers: any order of the sources and any number of threads gives the same ones.
@kernel
def add_distances(
    leaving: Neighbors, arriving: Neighbors, sources: Int64s, low: int, high: int, lanes: Lanes, stop: Array
) -> None:
    """Add the distances from at most 64 sources low ≤ i < high to the sums of every node that they reach.

    Args:
        leaving: The edges that leave a node.
        arriving: The same edges, by the node at which they arrive.
        sources: Different nodes.
        low: The first source.
        high: The end of the sources.
        lanes: Space, in which only `total` and `reached` are kept.
        stop: The search ends soon after it becomes 1.
    """
    nodes = lanes.seen.size
    all_lanes = ~np.uint64(0) >> np.uint64(64 - (high - low))
    for v in range(nodes):
        lanes.seen[v] = lanes.frontier[v] = lanes.arriving[v] = 0
    count = 0
    for i in range(low, high):
        bit = np.uint64(1) << np.uint64(i - low)
        lanes.frontier[sources[i]] = lanes.seen[sources[i]] = bit
        lanes.listed[count] = sources[i]
        count += 1
    level = 0
    while count > 0 and stop[0] == 0:
        level += 1
        if count * _SPARSE < nodes:
            count = _settle(lanes, _push(leaving, lanes, count), level, False)
        else:
            _pull(arriving, lanes, all_lanes)
            lanes.frontier[:] = 0
            count = _settle(lanes, nodes, level, True)


@kernel
def _push(leaving: Neighbors, lanes: Lanes, count: int) -> int:
    """Send the lanes of the listed nodes over their edges. Returns the number of touched nodes."""
    touched, last = 0, leaving.indices.size - 1
    for i in range(count):
        v = np.int64(lanes.listed[i])
        bits = lanes.frontier[v]
        lanes.frontier[v] = 0
        for p in range(leaving.indptr[v], leaving.indptr[v + 1]):
            prefetch(lanes.arriving, np.int64(leaving.indices[min(p + AHEAD, last)]))
            u = leaving.indices[p]
            if lanes.arriving[u] == 0:
                lanes.touched[touched] = u
                touched += 1
            lanes.arriving[u] |= bits
    return touched


@kernel
def _pull(arriving: Neighbors, lanes: Lanes, all_lanes: np.uint64) -> None:
    """Collect the lanes of the predecessors of every node that some lane has not seen."""
    last = arriving.indices.size - 1
    for v in range(lanes.seen.size):
        seen = lanes.seen[v]
        if seen == all_lanes:
            continue
        bits = np.uint64(0)
        for p in range(arriving.indptr[v], arriving.indptr[v + 1]):
            prefetch(lanes.frontier, np.int64(arriving.indices[min(p + AHEAD, last)]))
            bits |= lanes.frontier[arriving.indices[p]]
            if bits | seen == all_lanes:
                break
        lanes.arriving[v] = bits


@kernel
def _settle(lanes: Lanes, count: int, level: int, every: bool) -> int:
    """Make the lanes that are new at a node its frontier, and add to its sums. Returns the size of the frontier."""
    listed = 0
    for i in range(count):
        v = np.int64(i) if every else np.int64(lanes.touched[i])
        new = lanes.arriving[v] & ~lanes.seen[v]
        lanes.arriving[v] = 0
        if new == 0:
            continue
        lanes.seen[v] |= new
        lanes.frontier[v] = new
        lanes.listed[listed] = v
        listed += 1
        lanes.total[v] += level * count_bits(new)
        lanes.reached[v] += count_bits(new)
    return listed


class Dependencies(NamedTuple):
    """The state of a search from one source, [nodes] each, and the sums of a block of sources."""

    distance: Array
    order: Array
    """The nodes in the order in which they were reached."""
    paths: Float64s
    """The number of shortest paths from the source."""
    share: Float64s
    """(1 + dependency) / paths of a node: what it passes on to each of its predecessors per path."""
    sums: Float64s
    """The sums of the dependencies of the sources of a block."""


# Brandes' algorithm ("A faster algorithm for betweenness centrality", 2001): a search counts the shortest paths from
# its source, and then adds dependencies in reverse order. A node collects them from its successors, whose distance is
# one greater, so no lists of predecessors are kept, and sums have a fixed order. O(edges) per source.
@kernel
def add_dependencies(
    indptr: Int64s, indices: Array, sources: Int64s, low: int, high: int, state: Dependencies, stop: Array
) -> None:
    """Add the dependencies on every node of the sources low ≤ i < high to `state.sums`, in the order of the sources.

    Args:
        indptr: [nodes + 1] The starts of the rows of leaving edges.
        indices: int32 or int64 [edges] The neighbors, distinct in a row.
        sources: Nodes.
        low: The first source.
        high: The end of the sources.
        state: Space. `distance` is -1 before and after the call.
        stop: The loop ends soon after it becomes 1.
    """
    distance, order, paths, share = state.distance, state.order, state.paths, state.share
    last = indices.size - 1
    for i in range(low, high):
        if stop[0] != 0:
            return
        source = sources[i]
        order[0], distance[source], paths[source] = source, 0, 1.0
        at, count = 0, 1
        while at < count:
            v = np.int64(order[at])
            at += 1
            for p in range(indptr[v], indptr[v + 1]):
                prefetch(distance, indices[min(p + AHEAD, last)])
                u = indices[p]
                if distance[u] < 0:
                    distance[u] = distance[v] + 1
                    paths[u] = 0.0
                    order[count] = u
                    count += 1
                if distance[u] == distance[v] + 1:
                    paths[u] += paths[v]
        for j in range(count - 1, -1, -1):
            v = np.int64(order[j])
            total = 0.0
            for p in range(indptr[v], indptr[v + 1]):
                prefetch(distance, indices[min(p + AHEAD, last)])
                if distance[indices[p]] == distance[v] + 1:
                    total += share[indices[p]]
            share[v] = total + 1.0 / paths[v]
            if v != source:
                state.sums[v] += total * paths[v]
        for j in range(count):
            distance[order[j]] = -1

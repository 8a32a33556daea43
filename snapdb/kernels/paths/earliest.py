"""One path of earliest arrival from each source to each target: a single scan over the edges in order of time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Int32s, Int64s, UInt64s
from snapdb.kernels.bits import count_bits, last_zeros
from snapdb.kernels.compiled import kernel, load_first
from snapdb.kernels.paths.problem import STRICT, Limits, PathEdges, Paths, Program
from snapdb.kernels.paths.targets import ENDS, GOES_ON, Ends, Outcomes, join_paths, new_ends, outcomes_of, whole_paths

_TICKS = 1 << 16
"""The number of edges between two looks at `stop`."""


class _Arrivals(NamedTuple):
    """Bits of lanes, one word per node, and the edges over which they first arrived."""

    onward: UInt64s
    """[nodes] Lanes that may go on from the node."""
    arrived: UInt64s
    """[nodes] Lanes with a path to the node: over an edge, or without edges if it may end there."""
    without: UInt64s
    """[nodes] Lanes with a path without edges that ends at the node."""
    parent: Int64s
    """[nodes, lanes] The position of the last edge. It is set where a lane arrived over an edge."""
    pending: Int32s
    """[nodes] Nodes at which lanes arrived at the present time, under `STRICT`."""
    late: UInt64s
    """[nodes] The lanes that arrived there at the present time."""


def earliest(
    order: Int64s,
    tail: Array,
    edges: PathEdges,
    program: Program,
    limits: Limits,
    sources: Int64s,
    stop: Array,
    lanes: int,
) -> Paths:
    """Return one path of earliest arrival from each source to each target, by source and then by target.

    The memory is up to 36 + 8 * lanes bytes per node that is reached.

    Args:
        order: [edges] Positions of edges by (time, position).
        tail: int32 or int64 [edges] The node whose row has the edge, by position.
        edges: The edges, each with an event time.
        program: One state, with transitions to itself and to `ACCEPT`.
        limits: `WALK` with a clock, and without `most` and `within`. `least` is 0 or 1.
        sources: [sources] Nodes. There are fewer than 2^31 nodes.
        stop: uint8 [1] The search ends soon after it becomes 1, with the paths of some sources.
        lanes: The number of sources per scan, 1 to 64.
    """
    outcomes = outcomes_of(program, limits)
    parts, lanes = [], min(lanes, 64, max(sources.size, 1))
    for low in range(0, sources.size, lanes):
        if stop[0]:
            break
        parts.append(_search(order, tail, edges, limits, sources[low : low + lanes], stop, outcomes))
        parts[-1].source[:] += low
    return join_paths(parts)


def _search(
    order: Int64s, tail: Array, edges: PathEdges, limits: Limits, sources: Int64s, stop: Array, outcomes: Outcomes
) -> Paths:
    """Return the paths of at most 64 sources."""
    nodes, strict = outcomes.node.size, limits.clock == STRICT
    arrivals = _Arrivals(
        np.zeros(nodes, np.uint64),
        np.zeros(nodes, np.uint64),
        np.zeros(nodes, np.uint64),
        np.empty((nodes, sources.size), np.int64),
        np.empty(nodes if strict else 0, np.int32),
        np.zeros(nodes if strict else 0, np.uint64),
    )
    pairs = _start(sources, outcomes, arrivals)
    counts = np.zeros(sources.size, np.int64)
    if _scan(order, tail, edges, strict, stop, outcomes, arrivals, pairs):
        _count_ends(outcomes, arrivals, counts)
    ends = new_ends(counts)
    _list_ends(tail, sources, outcomes, arrivals, np.cumsum(counts) - counts, ends)
    paths = whole_paths(ends)
    _trace(tail, edges, sources, outcomes, arrivals, ends, paths)
    return paths


@kernel
def _start(sources: Int64s, outcomes: Outcomes, arrivals: _Arrivals) -> int:
    """Set the lanes of the sources. Returns the number of pairs of a lane and a target that are not reached.

    A source at which its path without edges does not end can be reached as a target, over a cycle.
    """
    pairs = 0
    for lane in range(sources.size):
        node, bit = sources[lane], np.uint64(1) << np.uint64(lane)
        if outcomes.initial[node] & GOES_ON:
            arrivals.onward[node] |= bit
            pairs += outcomes.targets
        if outcomes.initial[node] & ENDS:
            arrivals.arrived[node] |= bit
            arrivals.without[node] |= bit
            if outcomes.initial[node] & GOES_ON and outcomes.node[node] & ENDS:
                pairs -= 1
    return pairs


# Connection scan (Dibbelt et al., "Intriguingly simple and fast transit routing", SEA 2013) for 64 sources at once. As
# edges are scanned in order of time, the first arrival of a lane at a node is the earliest, and no times are stored: a
# bit per lane says that it arrived. Edges of one time are scanned until nothing changes, as they may follow each other
# in any order, or under STRICT their arrivals are put off until the time has passed.
@kernel
def _scan(  # noqa: PLR0912 -- one loop over the edges, whose cases share what they know
    order: Int64s,
    tail: Array,
    edges: PathEdges,
    strict: bool,
    stop: Array,
    outcomes: Outcomes,
    arrivals: _Arrivals,
    pairs: int,
) -> bool:
    """Scan the edges until all `pairs` are reached. Returns False if it was stopped."""
    begin, ticks = 0, 0
    while begin < order.size and pairs > 0:
        time, end = edges.time[order[begin]], begin + 1
        while end < order.size and edges.time[order[end]] == time:
            end += 1
        changed, pending = True, 0
        while changed:
            changed = False
            for i in range(begin, end):
                ticks += 1
                if ticks % _TICKS == 0 and load_first(stop, 0) != 0:
                    return False
                position = order[i]
                node = np.int64(edges.neighbor[position])
                new = arrivals.onward[tail[position]] & ~arrivals.arrived[node]
                outcome = outcomes.node[node]
                if new == 0 or outcome == 0:
                    continue
                arrivals.arrived[node] |= new
                if outcome & ENDS:
                    pairs -= count_bits(new)
                rest = new
                while rest != 0:
                    arrivals.parent[node, last_zeros(rest)] = position
                    rest &= rest - np.uint64(1)
                if outcome & GOES_ON == 0:
                    continue
                if strict:
                    if arrivals.late[node] == 0:
                        arrivals.pending[pending] = node
                        pending += 1
                    arrivals.late[node] |= new
                else:
                    arrivals.onward[node] |= new
                    changed = end - begin > 1
        for i in range(pending):
            arrivals.onward[arrivals.pending[i]] |= arrivals.late[arrivals.pending[i]]
            arrivals.late[arrivals.pending[i]] = 0
        begin = end
    return True


@kernel
def _ending(outcomes: Outcomes, arrivals: _Arrivals, node: int) -> np.uint64:
    """Return the lanes with a path that ends at a node."""
    return np.uint64(arrivals.arrived[node] if outcomes.node[node] & ENDS else arrivals.without[node])


@kernel
def _count_ends(outcomes: Outcomes, arrivals: _Arrivals, counts: Int64s) -> None:
    """Fill `counts` [lanes] with the number of targets that each lane has reached."""
    for node in range(outcomes.node.size):
        rest = _ending(outcomes, arrivals, node)
        while rest != 0:
            counts[last_zeros(rest)] += 1
            rest &= rest - np.uint64(1)


@kernel
def _list_ends(
    tail: Array, sources: Int64s, outcomes: Outcomes, arrivals: _Arrivals, starts: Int64s, ends: Ends
) -> None:
    """Fill the targets and lengths of `ends`, those of each lane from starts[lane] on in order of the targets."""
    for node in range(outcomes.node.size if ends.source.size > 0 else 0):
        rest = _ending(outcomes, arrivals, node)
        while rest != 0:
            lane = last_zeros(rest)
            length, at = 0, np.int64(node)
            if (arrivals.without[node] >> np.uint64(lane)) & np.uint64(1) == 0:
                length, at = 1, np.int64(tail[arrivals.parent[node, lane]])
                while at != sources[lane]:
                    length, at = length + 1, np.int64(tail[arrivals.parent[at, lane]])
            ends.target[starts[lane]], ends.length[starts[lane]] = node, length
            starts[lane] += 1
            rest &= rest - np.uint64(1)


@kernel
def _trace(
    tail: Array, edges: PathEdges, sources: Int64s, outcomes: Outcomes, arrivals: _Arrivals, ends: Ends, paths: Paths
) -> None:
    """Fill the nodes, edges and transitions of the paths from their last node back."""
    for i in range(ends.source.size):
        lane, node, at = ends.source[i], np.int64(ends.target[i]), paths.ptr[i + 1] - 1
        paths.nodes[at] = node
        paths.transitions[at] = outcomes.ending[node] if ends.length[i] > 0 else outcomes.initial_ending[node]
        for left in range(ends.length[i] - 1, -1, -1):
            position = arrivals.parent[node, lane]
            paths.edges[at - 1 - i] = edges.edge[position]
            node, at = np.int64(tail[position]), at - 1
            paths.nodes[at] = node
            paths.transitions[at] = outcomes.going_on[node] if left > 0 else outcomes.initial_going_on[node]

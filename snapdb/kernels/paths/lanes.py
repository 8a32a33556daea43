"""One shortest path from each source to each target: breadth-first search of many sources, one bit per source."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Int32s, Int64s, UInt8s, UInt64s
from snapdb.kernels.bits import count_bits, last_zeros
from snapdb.kernels.compiled import kernel, load_first, prefetch
from snapdb.kernels.paths.problem import Limits, PathEdges, Paths, Program
from snapdb.kernels.paths.records import Records, append_record, count_ends, list_ends, trace
from snapdb.kernels.paths.targets import (
    ENDS,
    GOES_ON,
    Outcomes,
    ends_only,
    join_paths,
    new_ends,
    outcomes_of,
    whole_paths,
)

_SPARSE = 16
"""A frontier of fewer than 1 / 16 of the nodes lists the nodes at which it arrives. Otherwise all nodes are scanned."""
_AHEAD = 16
"""The number of edges between the prefetch of a neighbor's word and its use."""


class _Lanes(NamedTuple):
    """Bits of lanes in words, [nodes * words], and of the lanes that still search, [words]."""

    visited: UInt64s
    frontier: UInt64s
    arriving: UInt64s
    live: UInt64s
    listed: Int32s
    """[nodes] The nodes of the frontier."""
    touched: Int32s
    """[nodes] The nodes at which a sparse frontier arrives."""
    open: Int32s
    """[lanes] The number of targets that a lane has not reached, or [0] if it is not counted."""


_DONE, _GROW, _STOPPED = range(3)
_LISTED, _TOUCHED, _COUNT, _LEVEL, _ARRIVED, _OPEN, _CURSOR = range(7)
"""The cursor: nodes of the frontier, touched nodes (-1 for all), records, edges of the paths to the frontier, 1 if the
frontier has arrived but is not recorded, pairs of a lane and a target that are not reached."""


def shortest(
    edges: PathEdges, program: Program, limits: Limits, sources: Int64s, stop: Array, reverse: PathEdges | None
) -> Paths:
    """Return one shortest path from each source to each target that it reaches, by source and then by target.

    The memory is about 12 + 24 * words bytes per node, where a word has 64 sources, and a record of 8 + 8 * words
    bytes for each node and each level at which sources arrive there.

    Args:
        edges: The edges. There are fewer than 2^31 nodes.
        program: One state, with transitions to itself and to `ACCEPT`.
        limits: `WALK` without a clock, and `least` is 0 or 1.
        sources: [sources] Nodes.
        stop: uint8 [1] The search ends soon after it becomes 1, with the paths of some sources.
        reverse: The same edges in rows by the node at which they arrive, with the node before as `neighbor`, from row 0
            on. Of several edges before the last node, the first in its reverse row is taken. Without it, paths have
            only their ends.
    """
    outcomes = outcomes_of(program, limits)
    words = 1 if sources.size <= 64 else 2 if sources.size <= 128 else 4
    parts = []
    for low in range(0, sources.size, 64 * words):
        if stop[0]:
            break
        parts.append(_search(edges, program, limits, sources[low : low + 64 * words], stop, reverse, outcomes, words))
        parts[-1].source[:] += low
    return join_paths(parts)


def _search(
    edges: PathEdges,
    program: Program,
    limits: Limits,
    sources: Int64s,
    stop: Array,
    reverse: PathEdges | None,
    outcomes: Outcomes,
    words: int,
) -> Paths:
    """Return the paths of at most 64 * words sources."""
    nodes, width = outcomes.node.size, (0,) * words
    lanes = _Lanes(
        np.zeros(nodes * words, np.uint64),
        np.zeros(nodes * words, np.uint64),
        np.zeros(nodes * words, np.uint64),
        np.zeros(words, np.uint64),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
        # Lanes end one by one only where targets are few: counting costs as much as an edge for each pair.
        np.full(64 * words if outcomes.targets * 16 <= nodes else 0, outcomes.targets, np.int32),
    )
    size = max(1024, 64 * words)
    records = Records(np.full(nodes, -1, np.int32), np.empty(size * (1 + words), np.uint64))
    cursor = np.zeros(_CURSOR, np.int64)
    _start(sources, outcomes, lanes, records, cursor, width)
    base, whole = int(program.base[0]), reverse is not None
    while True:
        status = _spread(
            edges, base, limits.most, outcomes, stop, reverse or edges, whole, lanes, records, cursor, width
        )
        if status != _GROW:
            break
        count = int(cursor[_COUNT])
        arriving = int(cursor[_TOUCHED]) if cursor[_TOUCHED] >= 0 else nodes
        size = max(2 * size, count + arriving)
        rows = np.empty(size * (1 + words), np.uint64)
        rows[: count * (1 + words)] = records.rows[: count * (1 + words)]
        records = records._replace(rows=rows)
    counts = np.zeros(sources.size, np.int64)
    if status != _STOPPED:
        count_ends(records, outcomes.node, counts, width)
    ends = new_ends(counts)
    starts = np.cumsum(counts) - counts
    if ends.source.size:
        list_ends(records, outcomes.node, starts, ends, width)
    if reverse is None:
        return ends_only(ends, sources)
    paths = whole_paths(ends)
    trace(reverse, sources, outcomes, records, ends, np.argsort(ends.target, kind="stable"), paths, width)
    return paths


@kernel
def _start(
    sources: Int64s, outcomes: Outcomes, lanes: _Lanes, records: Records, cursor: Int64s, width: tuple[int, ...]
) -> None:
    """Put every source into the frontier of its lane, and record the paths without edges.

    A source with such a path is visited. Without one, a cycle back to the source is a path to it.
    """
    words = len(width)
    for lane in range(sources.size):
        node, word, bit = sources[lane], lane >> 6, np.uint64(1) << np.uint64(lane & 63)
        at = node * words + word
        pairs = 0
        if outcomes.initial[node] & GOES_ON:
            known = False
            for i in range(words):
                known = known or lanes.frontier[node * words + i] != 0
            if not known:
                lanes.listed[cursor[_LISTED]] = node
                cursor[_LISTED] += 1
            lanes.frontier[at] |= bit
            lanes.live[word] |= bit
            pairs = outcomes.targets
        if outcomes.initial[node] & ENDS:
            lanes.visited[at] |= bit
            record = cursor[_COUNT]
            cursor[_COUNT] += 1
            append_record(records, record, node, 0, width)
            for i in range(words):
                records.rows[record * (1 + words) + 1 + i] = bit if i == word else np.uint64(0)
            if outcomes.node[node] & ENDS and pairs > 0:
                pairs -= 1
                if lanes.open.size > 0:
                    lanes.open[lane] -= 1
        if pairs == 0:
            lanes.live[word] &= ~bit
        cursor[_OPEN] += pairs


# MS-BFS (Then et al., "The more the merrier", VLDB 2014): one pass over the edges of the frontier advances all lanes,
# because a word of 64 lanes is combined by one OR. A sparse frontier lists the nodes that it touches, so that a level
# costs no more than its edges. A dense one scans all nodes, and given reverse rows it goes bottom-up (Beamer et al.,
# "Direction-optimizing breadth-first search", SC 2012): a node reads the words of its predecessors until no lane is
# missing, so that writes are sequential and most edges of late levels are not read.
@kernel
def _spread(
    edges: PathEdges,
    base: int,
    most: int,
    outcomes: Outcomes,
    stop: Array,
    reverse: PathEdges,
    whole: bool,
    lanes: _Lanes,
    records: Records,
    cursor: Int64s,
    width: tuple[int, ...],
) -> int:
    """Go on level by level until all lanes have reached all targets or nothing new. Returns a status."""
    nodes = outcomes.node.size
    while True:
        if load_first(stop, 0) != 0:
            return _STOPPED
        if cursor[_ARRIVED] == 0:
            if cursor[_LISTED] == 0 or cursor[_OPEN] == 0 or 0 <= most <= cursor[_LEVEL]:
                return _DONE
            if cursor[_LISTED] * _SPARSE < nodes:
                cursor[_TOUCHED] = _push_few(edges, base, lanes, cursor[_LISTED], width)
            else:
                cursor[_TOUCHED] = -1
                if whole:
                    _pull(reverse, outcomes.node, lanes, width)
                else:
                    _push(edges, base, lanes, cursor[_LISTED], width)
                lanes.frontier[:] = 0
            cursor[_LEVEL] += 1
            cursor[_ARRIVED] = 1
        arriving = cursor[_TOUCHED] if cursor[_TOUCHED] >= 0 else nodes
        if (cursor[_COUNT] + arriving) * (1 + len(width)) > records.rows.size:
            return _GROW
        _settle(outcomes.node, whole, lanes, records, cursor, width)
        cursor[_ARRIVED] = 0


@kernel
def _push_few(edges: PathEdges, base: int, lanes: _Lanes, listed: int, width: tuple[int, ...]) -> int:
    """Send the words of the listed nodes over their edges. Returns the number of touched nodes."""
    words, touched = len(width), 0
    arriving, frontier = lanes.arriving, lanes.frontier
    for i in range(listed):
        node = np.int64(lanes.listed[i])
        for p in range(edges.indptr[base + node], edges.indptr[base + node + 1]):
            at = np.int64(edges.neighbor[p]) * words
            before = np.uint64(0)
            for j in range(words):
                before |= arriving[at + j]
                arriving[at + j] |= frontier[node * words + j]
            if before == 0:
                lanes.touched[touched] = edges.neighbor[p]
                touched += 1
        for j in range(words):
            frontier[node * words + j] = 0
    return touched


@kernel
def _push(edges: PathEdges, base: int, lanes: _Lanes, listed: int, width: tuple[int, ...]) -> None:
    """Send the words of the listed nodes over their edges."""
    words, arriving, frontier, last = len(width), lanes.arriving, lanes.frontier, edges.neighbor.size - 1
    for i in range(listed):
        node = np.int64(lanes.listed[i])
        for p in range(edges.indptr[base + node], edges.indptr[base + node + 1]):
            prefetch(arriving, np.int64(edges.neighbor[min(p + _AHEAD, last)]) * words)
            at = np.int64(edges.neighbor[p]) * words
            for j in range(words):
                arriving[at + j] |= frontier[node * words + j]


@kernel
def _pull(reverse: PathEdges, outcomes: UInt8s, lanes: _Lanes, width: tuple[int, ...]) -> None:
    """Collect the words of the predecessors of every node at which a lane is missing."""
    words, frontier, last = len(width), lanes.frontier, reverse.neighbor.size - 1
    for node in range(outcomes.size):
        missing = np.uint64(0)
        for j in range(words):
            missing |= lanes.live[j] & ~lanes.visited[node * words + j]
        if missing == 0 or outcomes[node] == 0:
            continue
        for p in range(reverse.indptr[node], reverse.indptr[node + 1]):
            prefetch(frontier, np.int64(reverse.neighbor[min(p + _AHEAD, last)]) * words)
            at = np.int64(reverse.neighbor[p]) * words
            missing = np.uint64(0)
            for j in range(words):
                lanes.arriving[node * words + j] |= frontier[at + j]
                missing |= lanes.live[j] & ~(lanes.visited[node * words + j] | lanes.arriving[node * words + j])
            if missing == 0:
                break


@kernel
def _settle(
    outcomes: UInt8s, whole: bool, lanes: _Lanes, records: Records, cursor: Int64s, width: tuple[int, ...]
) -> None:
    """Record the lanes that arrived where they were not before, and make them the frontier."""
    words, listed, every = len(width), 0, cursor[_TOUCHED] < 0
    for i in range(outcomes.size if every else cursor[_TOUCHED]):
        node = i if every else np.int64(lanes.touched[i])
        at, outcome, record = node * words, outcomes[node], cursor[_COUNT]
        some, pairs = np.uint64(0), 0
        for j in range(words):
            new = lanes.arriving[at + j] & ~lanes.visited[at + j] & lanes.live[j]
            lanes.arriving[at + j] = 0
            lanes.visited[at + j] |= new
            records.rows[record * (1 + words) + 1 + j] = new
            some |= new
            pairs += count_bits(new)
        if some == 0 or outcome == 0:
            continue
        if outcome & GOES_ON:
            for j in range(words):
                lanes.frontier[at + j] = records.rows[record * (1 + words) + 1 + j]
            lanes.listed[listed] = node
            listed += 1
        if outcome & ENDS:
            cursor[_OPEN] -= pairs
            if lanes.open.size > 0:
                _close(lanes, records, record, width)
        elif not whole:
            continue
        append_record(records, record, node, cursor[_LEVEL], width)
        cursor[_COUNT] += 1
    cursor[_LISTED] = listed


@kernel
def _close(lanes: _Lanes, records: Records, record: int, width: tuple[int, ...]) -> None:
    """Count down the targets of the lanes of a record. A lane without further targets searches no longer."""
    for j in range(len(width)):
        rest = records.rows[record * (1 + len(width)) + 1 + j]
        while rest != 0:
            lane = last_zeros(rest)
            rest &= rest - np.uint64(1)
            lanes.open[j * 64 + lane] -= 1
            if lanes.open[j * 64 + lane] == 0:
                lanes.live[j] &= ~(np.uint64(1) << np.uint64(lane))

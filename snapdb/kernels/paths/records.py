"""The nodes at which lanes arrived, level by level, and the ends and paths that are read from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Int32s, Int64s, UInt8s, UInt64s
from snapdb.kernels.bits import last_zeros
from snapdb.kernels.compiled import kernel
from snapdb.kernels.paths.problem import Number, PathEdges, Paths
from snapdb.kernels.paths.targets import ENDS, GOES_ON, Ends, Outcomes

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


# A record is one row, because a trace reads few records of many nodes: each costs a cache miss.
class Records(NamedTuple):
    """The lanes that first arrived at a node at one level, in a list for each node."""

    newest: Int32s
    """[nodes] The newest record of a node, or -1."""
    rows: UInt64s
    """[records * (1 + words)] The level in the high half, the next older record of the node plus 1 in the low half, and
    the words of the lanes."""


@kernel
def append_record(records: Records, record: Number, node: Number, level: Number, width: tuple[int, ...]) -> None:
    """Make a record the newest of a node. The words of its lanes are set by the caller."""
    older = np.uint64(records.newest[node] + 1)
    records.rows[record * (1 + len(width))] = (np.uint64(level) << _HALF) | older
    records.newest[node] = record


@kernel
def _level(records: Records, record: Number, width: tuple[int, ...]) -> np.int64:
    return np.int64(records.rows[record * (1 + len(width))] >> _HALF)


@kernel
def _older(records: Records, record: Number, width: tuple[int, ...]) -> np.int64:
    return np.int64(records.rows[record * (1 + len(width))] & _LOW) - np.int64(1)


@kernel
def count_ends(records: Records, outcomes: UInt8s, counts: Int64s, width: tuple[int, ...]) -> None:
    """Fill `counts` [lanes] with the number of targets that each lane has reached."""
    for node in range(outcomes.size):
        record = np.int64(records.newest[node])
        while record >= 0:
            if outcomes[node] & ENDS or _level(records, record, width) == 0:
                for j in range(len(width)):
                    rest = records.rows[record * (1 + len(width)) + 1 + j]
                    while rest != 0:
                        counts[j * 64 + last_zeros(rest)] += 1
                        rest &= rest - np.uint64(1)
            record = _older(records, record, width)


@kernel
def list_ends(records: Records, outcomes: UInt8s, starts: Int64s, ends: Ends, width: tuple[int, ...]) -> None:
    """Fill the targets and lengths of `ends`, those of each lane from starts[lane] on in order of the targets."""
    for node in range(outcomes.size):
        record = np.int64(records.newest[node])
        while record >= 0:
            if outcomes[node] & ENDS or _level(records, record, width) == 0:
                for j in range(len(width)):
                    rest = records.rows[record * (1 + len(width)) + 1 + j]
                    while rest != 0:
                        lane = j * 64 + last_zeros(rest)
                        rest &= rest - np.uint64(1)
                        ends.target[starts[lane]], ends.length[starts[lane]] = node, _level(records, record, width)
                        starts[lane] += 1
            record = _older(records, record, width)


# Each node before is looked up in the reverse row: it is the first whose records say that the lane arrived there one
# level before. Records of a node are few, because all lanes that arrive at one level share one. Paths are traced by
# target, because those of all lanes to one target read the same rows and records.
@kernel
def trace(
    reverse: PathEdges,
    sources: Int64s,
    outcomes: Outcomes,
    records: Records,
    ends: Ends,
    order: Int64s,
    paths: Paths,
    width: tuple[int, ...],
) -> None:
    """Fill the nodes, edges and transitions of the paths from their last node back, in the given order of paths."""
    words = len(width)
    for i in order:
        lane, node, at = ends.source[i], np.int64(ends.target[i]), paths.ptr[i + 1] - 1
        bit = np.uint64(1) << np.uint64(lane & 63)
        paths.nodes[at] = node
        paths.transitions[at] = outcomes.ending[node] if ends.length[i] > 0 else outcomes.initial_ending[node]
        for level in range(ends.length[i] - 1, -1, -1):
            for p in range(reverse.indptr[node], reverse.indptr[node + 1]):
                before = np.int64(reverse.neighbor[p])
                if level == 0:
                    reached = before == sources[lane]
                else:
                    record = np.int64(records.newest[before])
                    while record >= 0 and _level(records, record, width) > level:
                        record = _older(records, record, width)
                    reached = (
                        record >= 0
                        and _level(records, record, width) == level
                        and records.rows[record * (1 + words) + 1 + (lane >> 6)] & bit != 0
                        and outcomes.node[before] & GOES_ON != 0
                    )
                if reached:
                    paths.edges[at - 1 - i] = reverse.edge[p]
                    node, at = before, at - 1
                    paths.nodes[at] = node
                    paths.transitions[at] = outcomes.going_on[node] if level > 0 else outcomes.initial_going_on[node]
                    break

"""The arrays of a path search: edges by row, an automaton over (state, node), limits, and the paths that come back.

A search from a source s starts with the initial transitions whose test s passes. Each leads to a state, or to `ACCEPT`,
which makes a path without edges. From (state p, node u) every edge in p's row of u arrives at a node v, and every
transition of p whose test v passes leads on. Each combination of an edge and a transition is one continuation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Bools, Float64s, Int32s, Int64s
from snapdb.kernels.compiled import kernel

Number = int | np.int64

ACCEPT = -1
"""The state in which a path is complete."""
STATIC = -(2**63)
"""The event time of an edge without one, as in the stored arrays."""
WALK, TRAIL, ACYCLIC, SIMPLE = range(4)
"""Modes: no restriction, no edge twice, no node twice, no node twice except that the last may be the first."""
STRICT = 2
"""The clock under which times increase. Under clock 1 they do not decrease, and 0 is no clock."""


class PathEdges(NamedTuple):
    """Edges by row. The row of a node v in state p is indptr[base[p] + v] to indptr[base[p] + v + 1]."""

    indptr: Int64s
    """[rows + 1] Positions in the arrays below."""
    neighbor: Array
    """int32 or int64 [edges] The node at which the edge arrives."""
    edge: Array
    """int32 or int64 [edges] The identity of the edge. An undirected edge is at two positions."""
    time: Int64s
    """[edges] The event time, `STATIC` for an edge without one, or [0] if no edge has one."""
    cost: Float64s
    """[edges] ≥ 0, or [0] if every edge costs 1."""


class Program(NamedTuple):
    """An automaton without epsilon transitions over (state, node)."""

    base: Int64s
    """[states] The offset in `PathEdges.indptr` of the rows that a state reads."""
    first: Int32s
    """[states + 2] The transitions of state p are first[p] to first[p + 1]. The initial ones are those of `states`."""
    to: Int32s
    """[transitions] The next state, or `ACCEPT`."""
    test: Int32s
    """[transitions] The row of `tests` that the node must pass, or -1."""
    tests: Bools
    """[tests, nodes] The number of columns is the number of nodes, also without tests."""


class Limits(NamedTuple):
    """Conditions on whole paths."""

    mode: int
    """`WALK`, `TRAIL`, `ACYCLIC` or `SIMPLE`."""
    least: int
    """The least number of edges. It is greater than 0 only for programs with one state."""
    most: int
    """The greatest number of edges, or -1."""
    clock: int
    """0 without a clock, 1 if event times do not decrease along a path, `STRICT` if they increase."""
    within: int
    """The greatest difference between the last and the first event time, or -1."""


class Paths(NamedTuple):
    """Paths as flat arrays. Path i has nodes[ptr[i] : ptr[i + 1]], and transitions likewise.

    It has one edge fewer: edges[ptr[i] - i : ptr[i + 1] - (i + 1)]. Where only ends are wanted, a path has two nodes,
    its source and its target, and the arrays of edges and transitions are empty.
    """

    source: Int64s
    """[paths] The position in `sources`."""
    length: Int32s
    """[paths] The number of edges."""
    ptr: Int64s
    """[paths + 1]"""
    nodes: Int64s
    edges: Int64s
    """Identities, from `PathEdges.edge`."""
    transitions: Int32s
    """The initial transition first."""


def new_paths(paths: int, elements: int) -> Paths:
    """Return uninitialized buffers for a number of paths and of their nodes. The first offset is 0."""
    ptr = np.empty(paths + 1, np.int64)
    ptr[0] = 0
    source, length = np.empty(paths, np.int64), np.empty(paths, np.int32)
    nodes, edges = np.empty(elements, np.int64), np.empty(elements, np.int64)
    return Paths(source, length, ptr, nodes, edges, np.empty(elements, np.int32))


def cut_paths(buffers: Paths, count: int) -> Paths:
    """Return copies of the first `count` paths in the buffers, which can then be filled again."""
    end = int(buffers.ptr[count])
    return Paths(
        buffers.source[:count].copy(),
        buffers.length[:count].copy(),
        buffers.ptr[: count + 1].copy(),
        buffers.nodes[:end].copy(),
        buffers.edges[: end - count].copy(),
        buffers.transitions[:end].copy(),
    )


def grown_paths(buffers: Paths, count: int, paths: int, elements: int) -> Paths:
    """Return larger buffers that begin with the first `count` paths."""
    larger, end = new_paths(paths, elements), int(buffers.ptr[count])
    larger.source[:count], larger.length[:count] = buffers.source[:count], buffers.length[:count]
    larger.ptr[: count + 1] = buffers.ptr[: count + 1]
    larger.nodes[:end], larger.transitions[:end] = buffers.nodes[:end], buffers.transitions[:end]
    larger.edges[: end - count] = buffers.edges[: end - count]
    return larger


@kernel
def passes(program: Program, transition: Number, node: Number) -> bool:
    """Return whether the node passes the test of a transition."""
    return bool(program.test[transition] < 0 or program.tests[program.test[transition], node])


@kernel
def may_follow(limits: Limits, start: Number, last: Number, time: Number) -> bool:
    """Return whether an edge with an event time may extend a path with the event times start, …, last.

    `start` and `last` are `STATIC` if the path has no event time.
    """
    if limits.clock == 0 or time == STATIC:
        return True
    if last == STATIC:
        return True
    return bool(time > last or (time == last and limits.clock != STRICT)) and is_within(limits, start, time)


@kernel
def is_within(limits: Limits, start: Number, last: Number) -> bool:
    """Return whether a path with the event times start, …, last is within the interval. Both may be `STATIC`.

    A difference that overflows is negative, although last > start.
    """
    return bool(limits.within < 0 or last <= start or 0 <= last - start <= limits.within)

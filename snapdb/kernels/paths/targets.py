"""What the nodes mean to a program with one state, and paths from pairs of ends. Searches of many lanes share these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Bools, Int32s, Int64s, UInt8s
from snapdb.kernels.paths.problem import ACCEPT, Limits, Paths, Program

GOES_ON, ENDS = 1, 2
"""Bits of an outcome: a path that arrives at the node may go on, a path may end at the node."""


class Outcomes(NamedTuple):
    """The tests of a program with one state, evaluated once per node."""

    node: UInt8s
    """[nodes] Bits for a path with edges."""
    initial: UInt8s
    """[nodes] Bits for the path without edges."""
    going_on: Int32s
    """[nodes] The first transition by which a path with edges goes on, or -1."""
    ending: Int32s
    """[nodes] The first transition by which a path with edges ends, or -1."""
    initial_going_on: Int32s
    """[nodes] The first initial transition to the state, or -1."""
    initial_ending: Int32s
    """[nodes] The first initial transition to `ACCEPT`, or -1."""
    targets: int
    """The number of nodes at which a path with edges may end."""


class Ends(NamedTuple):
    """Pairs of a source and a target, by source and then by target."""

    source: Int64s
    """[paths] The position in `sources`."""
    target: Int32s
    """[paths]"""
    length: Int32s
    """[paths] The number of edges."""


def outcomes_of(program: Program, limits: Limits) -> Outcomes:
    """Return the outcomes of the nodes. Paths without edges do not end if `limits.least` is greater than 0."""
    nodes = program.tests.shape[1]

    def first_passing(state: int, to: int) -> Int32s:
        first = np.full(nodes, -1, np.int32)
        for transition in range(int(program.first[state + 1]) - 1, int(program.first[state]) - 1, -1):
            test = program.test[transition]
            if program.to[transition] == to:
                first[program.tests[test] if test >= 0 else slice(None)] = transition
        return first

    going_on, ending = first_passing(0, 0), first_passing(0, ACCEPT)
    initial_going_on, initial_ending = first_passing(1, 0), first_passing(1, ACCEPT)
    if limits.least > 0:
        initial_ending[:] = -1
    targets: Bools = ending >= 0
    return Outcomes(
        _bits(going_on, ending),
        _bits(initial_going_on, initial_ending),
        going_on,
        ending,
        initial_going_on,
        initial_ending,
        int(np.count_nonzero(targets)),
    )


def _bits(going_on: Int32s, ending: Int32s) -> UInt8s:
    return ((going_on >= 0) * GOES_ON + (ending >= 0) * ENDS).astype(np.uint8)


def new_ends(counts: Int64s) -> Ends:
    """Return ends for the number of targets of each source, without the targets and lengths."""
    size = int(counts.sum())
    source = np.repeat(np.arange(counts.size, dtype=np.int64), counts)
    return Ends(source, np.empty(size, np.int32), np.empty(size, np.int32))


def ends_only(ends: Ends, sources: Int64s) -> Paths:
    """Return paths with two nodes, the source and the target, and without edges and transitions."""
    count = ends.source.size
    nodes = np.empty((count, 2), np.int64)
    nodes[:, 0], nodes[:, 1] = sources[ends.source], ends.target
    none = np.empty(0, np.int64)
    return Paths(ends.source, ends.length, np.arange(count + 1) * 2, nodes.ravel(), none, np.empty(0, np.int32))


def whole_paths(ends: Ends) -> Paths:
    """Return paths of the right lengths, without their elements."""
    ptr = np.zeros(ends.source.size + 1, np.int64)
    np.cumsum(ends.length + np.int64(1), out=ptr[1:])
    elements = int(ptr[-1])
    edges = np.empty(elements - ends.source.size, np.int64)
    return Paths(ends.source, ends.length, ptr, np.empty(elements, np.int64), edges, np.empty(elements, np.int32))


def join_paths(parts: Sequence[Paths]) -> Paths:
    """Return the paths of all parts in order."""
    if len(parts) == 1:
        return parts[0]
    ptr, end = [np.zeros(1, np.int64)], 0
    for part in parts:
        ptr.append(part.ptr[1:] + end)
        end += int(part.ptr[-1])

    def joined(column: int, dtype: type) -> Array:
        arrays: list[Array] = [part[column] for part in parts]
        return np.concatenate([np.empty(0, dtype), *arrays])

    return Paths(
        joined(0, np.int64),
        joined(1, np.int32),
        np.concatenate(ptr),
        joined(3, np.int64),
        joined(4, np.int64),
        joined(5, np.int32),
    )

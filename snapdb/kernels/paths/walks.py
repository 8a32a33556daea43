"""All paths of a search, without selection, by a depth-first search that can be suspended."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.kernels.compiled import kernel, load_first
from snapdb.kernels.paths.problem import (
    ACCEPT,
    ACYCLIC,
    SIMPLE,
    STATIC,
    TRAIL,
    WALK,
    Limits,
    PathEdges,
    Paths,
    Program,
    cut_paths,
    is_within,
    may_follow,
    new_paths,
    passes,
)

_DONE, _FULL, _DEEP, _STOPPED = range(4)
"""Why the kernel returns: the search is complete, the output is full, the stack is full, the caller stopped it."""
_SOURCE, _INITIAL, _DEPTH, _PATHS, _CURSOR = range(5)
"""The cursor: position in `sources`, next initial transition, frames on the stack, paths in the output."""
_NODE, _STATE, _POSITION, _TAKEN, _NEXT, _END, _BRANCH, _START, _LAST, _FRAME = range(10)
"""A frame: node and state, the position of the edge and the transition that led there, the next position and the end of
the row, the next transition over the edge at the next position, the first and the last event time of the path."""
_TICKS = 4096
"""The number of steps between two looks at `stop`."""


def walks(
    edges: PathEdges, program: Program, limits: Limits, sources: Int64s, stop: Array, rows: int
) -> Iterator[Paths]:
    """Yield all paths in parts of about `rows` nodes, by source, and depth-first in the order of rows and transitions.

    The search must be finite: a program or mode that bounds the length, or `limits.most`. Memory is bounded by `rows`
    and the longest path.

    Args:
        edges: The edges.
        program: The automaton.
        limits: Conditions on whole paths.
        sources: [sources] Nodes.
        stop: uint8 [1] The generator ends soon after it becomes 1.
        rows: The number of nodes of paths for which buffers are allocated. A longer path enlarges them.
    """
    stack, buffers = np.empty((16, _FRAME), np.int64), new_paths(max(rows, 16), max(rows, 16))
    cursor = np.zeros(_CURSOR, np.int64)
    cursor[_INITIAL] = program.first[-2]
    while True:
        status = _walk(edges, program, limits, sources, stop, stack, buffers, cursor)
        count = int(cursor[_PATHS])
        if status == _STOPPED:
            return
        if status == _DEEP:
            stack = np.concatenate([stack, np.empty_like(stack)])
        elif count:
            yield cut_paths(buffers, count)
            cursor[_PATHS] = 0
        elif status == _FULL:
            buffers = new_paths(2 * buffers.nodes.size, 2 * buffers.nodes.size)
        if status == _DONE:
            return


# Depth-first search with an explicit stack. Everything that outlives a call is in `stack` and `cursor`: the kernel
# returns before the step for which the output or the stack has no room, and repeats that step when it is called again.
# One step takes one transition over one edge. Modes are checked once per edge by a scan of the stack, which is shorter
# than a set of visited elements is fast for the lengths that an enumeration can reach.
@kernel
def _walk(  # noqa: PLR0912, PLR0915 -- one loop, whose cases share the state of the search
    edges: PathEdges,
    program: Program,
    limits: Limits,
    sources: Int64s,
    stop: Array,
    stack: Int64s,
    out: Paths,
    cursor: Int64s,
) -> int:
    """Fill `out` from where the cursor and the stack are. Returns a status, and the number of paths in the cursor."""
    source, initial, depth, count = cursor[_SOURCE], cursor[_INITIAL], cursor[_DEPTH], cursor[_PATHS]
    begin, end = program.first[program.base.size], program.first[program.base.size + 1]
    timed = edges.time.size > 0
    status, ticks = -1, 0
    while status < 0:
        ticks += 1
        if ticks % _TICKS == 0 and load_first(stop, 0) != 0:
            status = _STOPPED
            break
        top, position, start, last = depth - 1, np.int64(-1), np.int64(STATIC), np.int64(STATIC)
        if depth == 0:
            if source >= sources.size:
                status = _DONE
                break
            if initial == end:
                source, initial = source + 1, np.int64(begin)
                continue
            node, taken = sources[source], np.int64(initial)
        else:
            position, taken = stack[top, _NEXT], stack[top, _BRANCH]
            if position == stack[top, _END]:
                depth -= 1
                continue
            state = stack[top, _STATE]
            start, last = stack[top, _START], stack[top, _LAST]
            time = edges.time[position] if timed else np.int64(STATIC)
            if taken == program.first[state + 1] or (
                taken == program.first[state]
                and not (may_follow(limits, start, last, time) and _is_new(edges, limits, stack, depth, position))
            ):
                stack[top, _NEXT] += 1
                stack[top, _BRANCH] = program.first[state]
                continue
            node = np.int64(edges.neighbor[position])
            if time != STATIC:
                start, last = (time if start == STATIC else start), time
        to = np.int64(program.to[taken])
        if not passes(program, taken, node):
            pass
        elif to == ACCEPT:
            if depth >= limits.least and is_within(limits, start, last):
                at = out.ptr[count]
                if count == out.source.size or at + depth + 1 > out.nodes.size:
                    status = _FULL
                    break
                for i in range(depth):
                    out.nodes[at + i] = stack[i, _NODE]
                    out.transitions[at + i] = stack[i, _TAKEN]
                    out.edges[at - count + i] = edges.edge[stack[i + 1, _POSITION] if i < top else position]
                out.nodes[at + depth], out.transitions[at + depth] = node, taken
                out.source[count], out.length[count], out.ptr[count + 1] = source, depth, at + depth + 1
                count += 1
        elif (limits.most < 0 or depth < limits.most) and not (
            limits.mode == SIMPLE and depth > 0 and node == sources[source]
        ):
            if depth == stack.shape[0]:
                status = _DEEP
                break
            row = program.base[to] + node
            stack[depth, _NODE], stack[depth, _STATE] = node, to
            stack[depth, _POSITION], stack[depth, _TAKEN] = position, taken
            stack[depth, _NEXT], stack[depth, _END] = edges.indptr[row], edges.indptr[row + 1]
            stack[depth, _BRANCH], stack[depth, _START], stack[depth, _LAST] = program.first[to], start, last
            depth += 1
        if top < 0:
            initial += 1
        else:
            stack[top, _BRANCH] += 1
    cursor[_SOURCE], cursor[_INITIAL], cursor[_DEPTH], cursor[_PATHS] = source, initial, depth, count
    return status


@kernel
def _is_new(edges: PathEdges, limits: Limits, stack: Int64s, depth: int, position: int) -> bool:
    """Return whether the path on the stack may go over an edge in its mode.

    A path that has returned to its source under `SIMPLE` is not on the stack.
    """
    if limits.mode == WALK:
        return True
    for i in range(int(limits.mode != ACYCLIC), depth):
        if limits.mode == TRAIL:
            if edges.edge[stack[i, _POSITION]] == edges.edge[position]:
                return False
        elif stack[i, _NODE] == edges.neighbor[position]:
            return False
    return True

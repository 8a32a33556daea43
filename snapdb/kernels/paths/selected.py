"""The best paths from each source to each target, by length, cost or arrival: a best-first search over labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Bools, Float64s, Int32s, Int64s
from snapdb.kernels.compiled import kernel, load_first
from snapdb.kernels.paths.problem import (
    ACCEPT,
    ACYCLIC,
    SIMPLE,
    STATIC,
    TRAIL,
    WALK,
    Limits,
    Number,
    PathEdges,
    Paths,
    Program,
    cut_paths,
    grown_paths,
    is_within,
    may_follow,
    new_paths,
    passes,
)

LENGTH, COST, ARRIVAL = range(3)
"""Values of paths: the number of edges, the sum of their costs, the event time of the last edge that has one."""


class Selection(NamedTuple):
    """Which paths from a source to a target are selected. Ties are settled by the order of discovery."""

    by: int
    """`LENGTH`, `COST` or `ARRIVAL`, the value of a path. `ARRIVAL` needs a clock."""
    count: int  # type: ignore[assignment]  # a tuple has a method of this name
    """The number of paths, ≥ 1, or of distinct values."""
    groups: int
    """0 for at most `count` paths, 1 for all paths whose value is among the `count` least distinct values."""


_NODE, _STATE, _PARENT, _TAKEN, _LENGTH, _OLDER, _INTS = range(7)
"""int32 columns of a label. `_OLDER` links the labels of one state and node, the newest first, and ends with -1."""
_POSITION, _VALUE, _START, _LAST, _LONGS = range(5)
"""int64 columns of a label. A cost is stored as the bits of its float64: those of numbers ≥ 0 have the same order."""


class _Labels(NamedTuple):
    """Prefixes of the paths of one source, in order of discovery."""

    ints: Int32s
    longs: Int64s
    costs: Float64s
    """`longs` as float64."""
    heap: Int32s
    """[labels] A binary heap of labels by (value, label). `LENGTH` does not use it, because discovery is in order."""
    accepted: Int32s
    """[labels] The labels of selected paths, in order of their values."""


class _Index(NamedTuple):
    """Dense tables, which are reset between two sources through the labels."""

    newest: Int32s
    """[states * nodes] The newest label in the list of a state and node, or -1."""
    best: Int64s
    """[states * nodes] The least value that was discovered, or [0] if it does not decide."""
    selected: Int32s
    """[nodes] The number of paths, or of distinct values, that are selected for a target."""
    greatest: Int64s
    """[nodes] The value of the last path that is selected for a target."""


class _Problem(NamedTuple):
    edges: PathEdges
    program: Program
    limits: Limits
    selection: Selection
    prune: bool
    """Whether labels that others dominate are left out."""


_DONE, _GROW, _FULL, _MANY, _STOPPED = range(5)
"""Why the kernel returns: complete, no room for labels, no room for paths, too many labels, stopped."""
_SOURCE, _COUNT, _QUEUED, _ACCEPTED, _OPEN, _CLOSING, _PATHS, _NEED, _CURSOR = range(9)
"""The cursor: the position in `sources`, labels (-1 before a source starts), the size of the heap or the head of the
queue, selected labels, targets that lack values, the greatest value that completed a target, paths in the output, the
room that is needed."""
_TICKS = 1024
"""The number of labels between two looks at `stop`."""
_UNREACHED = 2**63 - 1


def selected(
    edges: PathEdges,
    program: Program,
    limits: Limits,
    sources: Int64s,
    selection: Selection,
    stop: Array,
    most_labels: int,
) -> Paths:
    """Return the selected paths of each pair of a source and a target, by source and then by value.

    With `groups`, a search that can go round a cycle without changing the value does not end, and neither may one by
    `ARRIVAL`, unless the length is limited. ALL SHORTEST has one
    label per shortest path to each state and node, also to those from which no target is reached.

    Args:
        edges: The edges. There are fewer than 2^31 nodes.
        program: The automaton.
        limits: Conditions on whole paths.
        sources: [sources] Nodes.
        selection: Which paths are selected.
        stop: uint8 [1] The search ends soon after it becomes 1, with the paths of the sources before.
        most_labels: The greatest number of labels of one source. A label takes 64 bytes.

    Raises:
        OverflowError: A source has more labels.
    """
    prune = limits.mode == WALK and not (selection.groups and selection.by == ARRIVAL)
    nodes, problem = program.tests.shape[1], _Problem(edges, program, limits, selection, prune)
    size = program.base.size * nodes
    index = _Index(
        np.full(size, -1, np.int32),
        np.full(size if _one_value_decides(limits, selection) else 0, _UNREACHED, np.int64),
        np.zeros(nodes, np.int32),
        np.zeros(nodes, np.int64),
    )
    labels, out = _new_labels(256), new_paths(256, 1024)
    cursor = np.zeros(_CURSOR, np.int64)
    cursor[_COUNT] = -1
    targets, most = _open_targets(problem, sources), min(most_labels, 2**31 - 2)
    while True:
        status = _search(problem, sources, targets, stop, most, labels, index, out, cursor)
        paths, need = int(cursor[_PATHS]), int(cursor[_NEED])
        if status == _GROW:
            labels = _grown(labels, max(need, 2 * labels.heap.size))
        elif status == _FULL:
            elements = max(int(out.ptr[paths]) + need, 2 * out.nodes.size)
            out = grown_paths(out, paths, max(paths + int(cursor[_ACCEPTED]), 2 * paths), elements)
        elif status == _MANY:
            raise OverflowError("labels")
        else:
            return cut_paths(out, paths)


def _new_labels(size: int) -> _Labels:
    longs = np.empty((size, _LONGS), np.int64)
    return _Labels(
        np.empty((size, _INTS), np.int32),
        longs,
        longs.view(np.float64),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
    )


def _grown(labels: _Labels, size: int) -> _Labels:
    """Return longer arrays that begin with the labels."""
    larger = _new_labels(size)
    larger.ints[: labels.heap.size], larger.longs[: labels.heap.size] = labels.ints, labels.longs
    larger.heap[: labels.heap.size], larger.accepted[: labels.heap.size] = labels.heap, labels.accepted
    return larger


def _one_value_decides(limits: Limits, selection: Selection) -> bool:
    """Whether a label is useless if the value of another is less, because nothing else decides what can follow."""
    if limits.mode != WALK or limits.within >= 0 or limits.least > 1 or selection.count > 1:
        return False
    if selection.by == ARRIVAL:
        return limits.most < 0 and not selection.groups
    return limits.clock == 0 and (limits.most < 0 or selection.by == LENGTH)


def _count_targets(program: Program) -> int:
    """The number of nodes that a transition to `ACCEPT` lets pass."""
    nodes = program.tests.shape[1]
    rows = np.unique(program.test[program.to == ACCEPT])
    if rows.size == 0 or rows[0] < 0:
        return nodes if rows.size else 0
    targets: Bools = program.tests[rows].any(axis=0)
    return int(np.count_nonzero(targets))


def _open_targets(problem: _Problem, sources: Int64s) -> Int64s:
    """The number of targets of each source that can have a path. The search of a source ends once they have enough."""
    program, nodes = problem.program, problem.program.tests.shape[1]
    if problem.limits.mode == WALK:  # a search under WALK ends anyway
        return np.full(sources.size, _count_targets(program))
    counts, size = np.empty(sources.size, np.int64), program.base.size * nodes
    _count_reached(
        problem.edges,
        program,
        problem.limits,
        sources,
        np.full(size, -1, np.int32),
        np.empty(size, np.int64),
        np.full(nodes, -1, np.int32),
        counts,
    )
    return counts


# Breadth-first search over (state, node) without modes and times: an upper bound of what paths reach. Each source has
# its own stamp, so that the marks do not have to be reset.
@kernel
def _count_reached(  # noqa: PLR0912 -- one loop over two kinds of continuations
    edges: PathEdges,
    program: Program,
    limits: Limits,
    sources: Int64s,
    stamps: Int32s,
    queue: Int64s,
    met: Int32s,
    counts: Int64s,
) -> None:
    """Set the number of targets that walks from each source reach. ACYCLIC paths do not return to their source."""
    states, nodes = program.base.size, program.tests.shape[1]
    for number in range(sources.size):
        source, count = sources[number], np.int64(0)
        head, tail = np.int64(0), np.int64(0)
        for taken in range(program.first[states], program.first[states + 1]):
            if not passes(program, taken, source):
                continue
            if program.to[taken] != ACCEPT:
                slot = np.int64(program.to[taken]) * nodes + source
                if stamps[slot] != number:
                    stamps[slot], queue[tail] = number, slot
                    tail += 1
            elif limits.least == 0 and met[source] != number:
                met[source] = number
                count += 1
        while head < tail:
            state, node = queue[head] // nodes, queue[head] % nodes
            head += 1
            row = program.base[state] + node
            for position in range(edges.indptr[row], edges.indptr[row + 1]):
                arrived = np.int64(edges.neighbor[position])
                for taken in range(program.first[state], program.first[state + 1]):
                    if not passes(program, taken, arrived):
                        continue
                    if program.to[taken] != ACCEPT:
                        slot = np.int64(program.to[taken]) * nodes + arrived
                        if stamps[slot] != number:
                            stamps[slot], queue[tail] = number, slot
                            tail += 1
                    elif met[arrived] != number and not (limits.mode == ACYCLIC and arrived == source):
                        met[arrived] = number
                        count += 1
        counts[number] = count


# Label correcting by a best-first search (Martins' algorithm for several criteria), by a queue for LENGTH and by a
# binary heap otherwise. Under WALK a label is useless if `count` labels of its state and node dominate it, because each
# of its completions is then a completion of them, with a value that is not greater. For groups the value must be less,
# which says nothing for ARRIVAL, where paths with different last times go on over the same edge. Under the other modes
# what may follow depends on the whole path, so all paths are enumerated, the best ones first. The kernel returns before
# a label for whose continuations there is no room, and is called again.
@kernel
def _search(  # noqa: PLR0912, PLR0915 -- one loop, whose cases share the state of the search
    problem: _Problem,
    sources: Int64s,
    targets: Int64s,
    stop: Array,
    most_labels: int,
    labels: _Labels,
    index: _Index,
    out: Paths,
    cursor: Int64s,
) -> int:
    """Fill `out` from where the cursor is. Returns a status."""
    edges, program, limits, selection, prune = problem
    ints, longs, heap = labels.ints, labels.longs, labels.heap
    states, nodes = program.base.size, program.tests.shape[1]
    queue, timed = selection.by == LENGTH, edges.time.size > 0
    ticks = 0
    while True:
        ticks += 1
        if ticks % _TICKS == 0 and load_first(stop, 0) != 0:
            return _STOPPED
        if cursor[_COUNT] < 0:
            if cursor[_SOURCE] >= sources.size:
                return _DONE
            begin, end = program.first[states], program.first[states + 1]
            if end - begin + 1 > heap.size:
                cursor[_NEED] = end - begin + 1
                return _GROW
            cursor[_COUNT] = cursor[_QUEUED] = cursor[_ACCEPTED] = 0
            cursor[_OPEN], cursor[_CLOSING] = targets[cursor[_SOURCE]], STATIC
            for taken in range(begin, end):
                if passes(program, taken, sources[cursor[_SOURCE]]):
                    _start(labels, cursor[_COUNT], sources[cursor[_SOURCE]], taken, selection.by)
                    _offer(problem, labels, index, cursor, sources[cursor[_SOURCE]])
        label = cursor[_QUEUED]
        if queue:
            while label < cursor[_COUNT] and ints[label, _STATE] == ACCEPT:
                label += 1
            cursor[_QUEUED] = label
            ended = label == cursor[_COUNT]
        else:
            ended = label == 0
            label = np.int64(heap[0])
        if not ended and cursor[_OPEN] == 0:
            ended = selection.groups == 0 or longs[label, _VALUE] + int(queue) > cursor[_CLOSING]
        if ended:
            if not _write(problem, labels, out, cursor):
                return _FULL
            _reset(labels, index, cursor, nodes)
            continue
        state, node, length = np.int64(ints[label, _STATE]), np.int64(ints[label, _NODE]), ints[label, _LENGTH]
        if state == ACCEPT or (not queue and prune and _is_dominated(problem, labels, index, label)):
            cursor[_QUEUED] = _pop(heap, longs, cursor[_QUEUED])
            if state == ACCEPT and _takes(index, selection, node, longs[label, _VALUE]):
                _accept(labels, index, selection, cursor, label)
            continue
        row = program.base[state] + node
        begin, end = program.first[state], program.first[state + 1]
        need = cursor[_COUNT] + (edges.indptr[row + 1] - edges.indptr[row]) * (end - begin) + 1
        if cursor[_COUNT] > most_labels:
            return _MANY
        if need > heap.size:
            cursor[_NEED] = need
            return _GROW
        if queue:
            cursor[_QUEUED] += 1
        else:
            cursor[_QUEUED] = _pop(heap, longs, cursor[_QUEUED])
            if prune:
                _enlist(labels, index, nodes, label)
        start, last = longs[label, _START], longs[label, _LAST]
        for position in range(edges.indptr[row], edges.indptr[row + 1]):
            time = edges.time[position] if timed else np.int64(STATIC)
            if not may_follow(limits, start, last, time):
                continue
            arrived = np.int64(edges.neighbor[position])
            if limits.mode != WALK and not _is_new(edges, limits, labels, label, position):
                continue
            for taken in range(begin, end):
                if not passes(program, taken, arrived):
                    continue
                new = cursor[_COUNT]
                ints[new, _NODE], ints[new, _STATE], ints[new, _PARENT] = arrived, program.to[taken], label
                ints[new, _TAKEN], ints[new, _LENGTH], longs[new, _POSITION] = taken, length + 1, position
                longs[new, _START] = time if start == STATIC else start
                longs[new, _LAST] = last if time == STATIC else time
                if queue:
                    longs[new, _VALUE] = length + 1
                elif selection.by == ARRIVAL:
                    longs[new, _VALUE] = longs[new, _LAST]
                else:
                    cost = edges.cost[position] if edges.cost.size > 0 else 1.0
                    labels.costs[new, _VALUE] = labels.costs[label, _VALUE] + cost
                _offer(problem, labels, index, cursor, sources[cursor[_SOURCE]])


@kernel
def _start(labels: _Labels, new: int, node: int, taken: int, by: int) -> None:
    """Set the label `new` to the path of one node, without its state."""
    ints, longs = labels.ints, labels.longs
    ints[new, _NODE], ints[new, _PARENT], ints[new, _TAKEN], ints[new, _LENGTH] = node, -1, taken, 0
    longs[new, _POSITION], longs[new, _START], longs[new, _LAST] = -1, STATIC, STATIC
    longs[new, _VALUE] = STATIC if by == ARRIVAL else 0


@kernel
def _offer(problem: _Problem, labels: _Labels, index: _Index, cursor: Int64s, source: int) -> None:
    """Keep the label after the last one, if a selected path may begin with it."""
    _, program, limits, selection, prune = problem
    ints, longs, new, nodes = labels.ints, labels.longs, cursor[_COUNT], program.tests.shape[1]
    node, length, value = np.int64(ints[new, _NODE]), ints[new, _LENGTH], longs[new, _VALUE]
    state = np.int64(program.to[ints[new, _TAKEN]])
    ints[new, _STATE], ints[new, _OLDER] = state, -1
    if state == ACCEPT:
        if length < limits.least or not is_within(limits, longs[new, _START], longs[new, _LAST]):
            return
        if not _takes(index, selection, node, value):
            return
        if selection.by == LENGTH:
            _accept(labels, index, selection, cursor, new)
    else:
        if 0 <= limits.most <= length or (limits.mode == SIMPLE and length > 0 and node == source):
            return
        if index.best.size > 0:
            slot = state * nodes + node
            if value > index.best[slot] or (selection.groups == 0 and value == index.best[slot]):
                return
            index.best[slot] = value
        if prune:
            if _is_dominated(problem, labels, index, new):
                return
            if selection.by == LENGTH:
                _enlist(labels, index, nodes, new)
    cursor[_COUNT] += 1
    if selection.by != LENGTH:
        cursor[_QUEUED] = _push(labels.heap, longs, cursor[_QUEUED], new)


@kernel
def _is_dominated(problem: _Problem, labels: _Labels, index: _Index, label: int) -> bool:
    """Return whether `count` labels, or labels with `count` lesser values, of the state and node dominate a label.

    A label dominates another if whatever may follow the other may follow it: it is not later (under a clock), its
    first event is not earlier (under `within`), it is not longer (under `most`) and not too short (under `least`). The
    list is in order of values, the greatest first, because labels are discovered or taken from the heap in that order.
    """
    program, limits, selection = problem.program, problem.limits, problem.selection
    ints, longs = labels.ints, labels.longs
    other = np.int64(index.newest[ints[label, _STATE] * program.tests.shape[1] + ints[label, _NODE]])
    count, before = 0, longs[label, _VALUE] if selection.groups else np.int64(_UNREACHED)
    while other >= 0:
        if longs[other, _VALUE] < before and _leaves_more(limits, ints, longs, other, label):
            count += 1
            if count == selection.count:
                return True
            if selection.groups:
                before = longs[other, _VALUE]
        other = np.int64(ints[other, _OLDER])
    return False


@kernel
def _leaves_more(limits: Limits, ints: Int32s, longs: Int64s, label: Number, other: Number) -> bool:
    """Return whether a label dominates another in all but the value. `STATIC` is before all times as a last time."""
    length, length_other = ints[label, _LENGTH], ints[other, _LENGTH]
    if limits.most >= 0 and length > length_other:
        return False
    if limits.least > 1 and min(length, limits.least - 1) < min(length_other, limits.least - 1):
        return False
    if (limits.clock > 0 or limits.within >= 0) and longs[label, _LAST] > longs[other, _LAST]:
        return False
    if limits.within < 0:
        return True
    start, start_other = longs[label, _START], longs[other, _START]
    # Without a clock, the first event that follows may be earlier than the other's.
    if start == STATIC:
        return limits.clock > 0 or start_other == STATIC
    return bool(start_other != STATIC and start >= start_other)


@kernel
def _enlist(labels: _Labels, index: _Index, nodes: int, label: int) -> None:
    """Add a label to the list of its state and node."""
    slot = labels.ints[label, _STATE] * nodes + labels.ints[label, _NODE]
    labels.ints[label, _OLDER] = index.newest[slot]
    index.newest[slot] = label


@kernel
def _takes(index: _Index, selection: Selection, target: Number, value: Number) -> bool:
    """Return whether one more path of this value is selected for a target."""
    if index.selected[target] < selection.count:
        return True
    return bool(selection.groups) and value == index.greatest[target]


@kernel
def _accept(labels: _Labels, index: _Index, selection: Selection, cursor: Int64s, label: int) -> None:
    """Select the path of a label. Counts the targets that still lack paths or values."""
    target, value = labels.ints[label, _NODE], labels.longs[label, _VALUE]
    labels.accepted[cursor[_ACCEPTED]] = label
    cursor[_ACCEPTED] += 1
    if not selection.groups or index.selected[target] == 0 or value != index.greatest[target]:
        index.selected[target] += 1
        index.greatest[target] = value
        if index.selected[target] == selection.count:
            cursor[_OPEN] -= 1
            cursor[_CLOSING] = max(cursor[_CLOSING], value)


@kernel
def _is_new(edges: PathEdges, limits: Limits, labels: _Labels, label: Number, position: Number) -> bool:
    """Return whether the path of a label may go over an edge in its mode. Walks up the parents."""
    while label >= 0:
        parent = np.int64(labels.ints[label, _PARENT])
        if limits.mode == TRAIL:
            if parent >= 0 and edges.edge[labels.longs[label, _POSITION]] == edges.edge[position]:
                return False
        elif (parent >= 0 or limits.mode == ACYCLIC) and labels.ints[label, _NODE] == edges.neighbor[position]:
            return False
        label = parent
    return True


@kernel
def _write(problem: _Problem, labels: _Labels, out: Paths, cursor: Int64s) -> bool:
    """Append the selected paths of a source to `out`. Returns whether there is room for all of them."""
    edges, ints, count, need = problem.edges, labels.ints, cursor[_PATHS], 0
    for i in range(cursor[_ACCEPTED]):
        need += ints[labels.accepted[i], _LENGTH] + 1
    if count + cursor[_ACCEPTED] > out.source.size or out.ptr[count] + need > out.nodes.size:
        cursor[_NEED] = need
        return False
    for i in range(cursor[_ACCEPTED]):
        label = np.int64(labels.accepted[i])
        out.source[count], out.length[count] = cursor[_SOURCE], ints[label, _LENGTH]
        at = out.ptr[count] + ints[label, _LENGTH]
        out.ptr[count + 1] = at + 1
        while True:
            out.nodes[at], out.transitions[at] = ints[label, _NODE], ints[label, _TAKEN]
            if ints[label, _PARENT] < 0:
                break
            out.edges[at - count - 1] = edges.edge[labels.longs[label, _POSITION]]
            label, at = np.int64(ints[label, _PARENT]), at - 1
        count += 1
    cursor[_PATHS] = count
    return True


@kernel
def _reset(labels: _Labels, index: _Index, cursor: Int64s, nodes: int) -> None:
    """Clear the entries of all labels in the index, and go on to the next source."""
    for label in range(cursor[_COUNT]):
        if labels.ints[label, _STATE] == ACCEPT:
            index.selected[labels.ints[label, _NODE]] = 0
        else:
            slot = labels.ints[label, _STATE] * nodes + labels.ints[label, _NODE]
            index.newest[slot] = -1
            if index.best.size > 0:
                index.best[slot] = _UNREACHED
    cursor[_COUNT] = -1
    cursor[_SOURCE] += 1


@kernel
def _push(heap: Int32s, longs: Int64s, size: int, label: int) -> int:
    """Add a label to the heap. Returns the new size."""
    at = np.int64(size)
    while at > 0:
        above = (at - 1) // 2
        if longs[heap[above], _VALUE] <= longs[label, _VALUE]:  # an equal label there was discovered before
            break
        heap[at] = heap[above]
        at = above
    heap[at] = label
    return size + 1


@kernel
def _pop(heap: Int32s, longs: Int64s, size: int) -> int:
    """Remove the first label from the heap. Returns the new size."""
    size -= 1
    label = np.int64(heap[size])
    value, at = longs[label, _VALUE], np.int64(0)
    while 2 * at + 1 < size:
        below = 2 * at + 1
        low = np.int64(heap[below])
        if below + 1 < size:
            right = np.int64(heap[below + 1])
            if longs[right, _VALUE] < longs[low, _VALUE] or (
                longs[right, _VALUE] == longs[low, _VALUE] and right < low
            ):
                below, low = below + 1, right
        if longs[low, _VALUE] > value or (longs[low, _VALUE] == value and low > label):
            break
        heap[at] = low
        at = below
    heap[at] = label
    return size

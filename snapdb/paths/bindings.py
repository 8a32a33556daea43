"""Paths without those that bind the same elements, which an automaton can find in several runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from snapdb.arrays import Int64s
from snapdb.kernels.paths.problem import Paths
from snapdb.plan.searches import PathSearch, Transition


def ordered_transitions(search: PathSearch) -> list[Transition]:
    """Return the transitions in the order of the automaton's arrays."""
    return sorted(search.automaton.transitions, key=lambda transition: transition.state)


def take_paths(paths: Paths, chosen: Int64s) -> Paths:
    """Return the paths at the given positions."""
    counts = np.diff(paths.ptr)[chosen]
    nodes, ptr = _ranges(paths.ptr[:-1][chosen], counts)
    if not paths.transitions.size:  # ends only
        return paths._replace(
            source=paths.source[chosen], length=paths.length[chosen], ptr=ptr, nodes=paths.nodes[nodes]
        )
    edges, _ = _ranges((paths.ptr[:-1] - np.arange(paths.length.size))[chosen], counts - 1)
    return Paths(
        paths.source[chosen],
        paths.length[chosen],
        ptr,
        paths.nodes[nodes],
        paths.edges[edges],
        paths.transitions[nodes],
    )


def _ranges(starts: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return the positions of ranges one after another, and the [ranges + 1] offsets."""
    offsets = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return np.repeat(starts - offsets[:-1], counts) + np.arange(int(offsets[-1])), offsets


def without_cycles(paths: Paths) -> Paths:
    """Return the paths except those with edges that end where they start."""
    first, last = paths.nodes[paths.ptr[:-1]], paths.nodes[paths.ptr[1:] - 1]
    return take_paths(paths, np.flatnonzero((paths.length == 0) | (first != last)))


def distinct_bindings(found: Iterator[Paths], search: PathSearch) -> Iterator[Paths]:
    """Yield paths without those that bind the same elements as an earlier one of the same source."""
    marks = _marks(search)
    seen: set[tuple[bytes, ...]] = set()
    source = -1
    for paths in found:
        keep = []
        for i in range(paths.length.size):
            if paths.source[i] != source:
                source = int(paths.source[i])
                seen.clear()
            key = _binding(paths, i, marks)
            if key not in seen:
                seen.add(key)
                keep.append(i)
        yield take_paths(paths, np.array(keep, np.int64))


def first_of_pairs(paths: Paths, count: int) -> Paths:
    """Return the first `count` paths of each pair of ends."""
    taken: Counter[tuple[int, int]] = Counter()
    keep = []
    for i, pair in enumerate(_pairs(paths)):
        taken[pair] += 1
        if taken[pair] <= count:
            keep.append(i)
    return take_paths(paths, np.array(keep, np.int64))


def lacking(before: Paths, after: Paths, limit: int, count: int) -> bool:
    """Return whether a pair of ends has fewer than `count` paths because a search stopped at `limit` runs."""
    runs, distinct = Counter(_pairs(before)), Counter(_pairs(after))
    return any(number >= limit and distinct[pair] < count for pair, number in runs.items())


def _pairs(paths: Paths) -> list[tuple[int, int]]:
    last = paths.nodes[paths.ptr[1:] - 1]
    return list(zip(paths.source.tolist(), last.tolist(), strict=True))


def _binding(paths: Paths, index: int, marks: Int64s) -> tuple[bytes, ...]:
    """Return the elements of a path, and which of them each named variable is bound to."""
    start, stop = int(paths.ptr[index]), int(paths.ptr[index + 1])
    named = marks[paths.transitions[start:stop]]
    edges = paths.edges[start - index : stop - index - 1]
    return paths.nodes[start:stop].tobytes(), edges.tobytes(), named.tobytes()


def _marks(search: PathSearch) -> Int64s:
    """Return a number per transition, equal for transitions that bind the same named variables."""
    states, numbers, marks = search.automaton.states, dict[object, int](), []
    for t in ordered_transitions(search):
        edge = search.steps[states[t.state].step].variables[states[t.state].place] if t.state < len(states) else " "
        names = tuple(v for i in t.nodes if not (v := search.nodes[i].variable).startswith(" "))
        marks.append(numbers.setdefault((names, " " if edge.startswith(" ") else edge), len(numbers)))
    return np.array(marks, np.int64)

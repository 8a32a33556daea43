"""The choice of a kernel for a path search, and its results with the clauses that no kernel evaluates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np

from snapdb.arrays import Int64s
from snapdb.errors import InputError
from snapdb.kernels.paths import earliest, lanes, selected, walks
from snapdb.kernels.paths.problem import Limits, Paths
from snapdb.memory import usable_memory
from snapdb.paths.arrays import SearchArrays
from snapdb.paths.bindings import distinct_bindings, first_of_pairs, lacking, without_cycles
from snapdb.paths.groups import Run, SourceGroups
from snapdb.plan.searches import ACCEPT, PathSearch

Method: TypeAlias = Literal["walks", "lanes", "earliest", "best-first"]

_ROWS = 1 << 17
"""The number of path elements per batch of rows."""
_LABEL_BYTES = 64
"""The memory of a partial path."""
_SHARE = 0.2
"""The share of the usable memory for the partial paths of all threads."""
_LANES = 64
"""The number of sources that one scan in time order searches."""
_MODES = ("WALK", "TRAIL", "ACYCLIC", "SIMPLE")
_CLOCKS = {"any": 0, "ordered": 1, "increasing": 2}
_BY = {"shortest": 0, "cheapest": 1, "earliest": 2}


def method_of(search: PathSearch, *, timed: bool = True) -> Method:
    """Return the method that finds the paths of a search.

    Args:
        search: The search.
        timed: Whether every edge has an event time.
    """
    wanted = search.search
    if wanted.kind == "all":
        return "walks"
    if not _single(search) or wanted.count != 1 or wanted.groups or search.within is not None:
        return "best-first"
    if wanted.kind == "shortest" and _as_walks(search):
        return "lanes"
    plain = search.mode == "WALK" and search.automaton.most is None
    return "earliest" if wanted.kind == "earliest" and timed and plain else "best-first"


def _single(search: PathSearch) -> bool:
    """Return whether the automaton has one state, which is not part of a chain."""
    return len(search.automaton.states) == 1 and len(search.steps[0].variables) == 1


def _as_walks(search: PathSearch) -> bool:
    """Return whether the shortest walks satisfy the mode. ACYCLIC also excludes those that return to their start.

    A shortest walk of an automaton with one state repeats no vertex, except that it can return to its first one. An
    undirected edge can then be traversed twice, back and forth.
    """
    both = any(part.traversal == "both" or part.query is not None for step in search.steps for part in step.parts)
    return _single(search) and search.times == "any" and not (search.mode == "TRAIL" and both)


def find_paths(search: PathSearch, arrays: SearchArrays, groups: SourceGroups) -> Iterator[Paths]:
    """Yield the paths of a search in the order of their sources.

    Raises:
        InputError: The search from one vertex needs too much memory.
        QueryError: A stop was requested.
    """
    method, sources = method_of(search, timed=arrays.timed), arrays.sources
    shortest = search.search.kind == "shortest" and search.search.count == 1
    walked = shortest and _as_walks(search)
    limits = Limits(
        0 if walked else _MODES.index(search.mode),
        search.automaton.least,
        -1 if search.automaton.most is None else search.automaton.most,
        _CLOCKS[search.times],
        -1 if search.within is None else search.within,
    )
    run = _kernel(method, search, arrays, limits, groups)
    found = groups.paths(run, sources, _size(method, sources.size, groups.threads))
    for paths in distinct_bindings(found, search) if search.distinct else found:
        if walked and search.mode == "ACYCLIC":
            yield without_cycles(paths)
        elif paths.length.size:
            yield paths


def _kernel(method: Method, search: PathSearch, arrays: SearchArrays, limits: Limits, groups: SourceGroups) -> Run:
    """Return the function that searches from a group of sources."""
    edges, program, stop = arrays.edges, arrays.program, groups.stop
    ends = limits._replace(least=0 if _accepts_empty(search) else 1)
    match method:
        case "walks":
            return lambda sources: walks.walks(edges, program, limits, sources, stop, _ROWS)
        case "lanes":
            return lambda sources: iter([lanes.shortest(edges, program, ends, sources, stop, arrays.reverse)])
        case "earliest":
            order, tail = np.argsort(edges.time, kind="stable"), _tails(arrays)
            return lambda sources: iter([earliest.earliest(order, tail, edges, program, ends, sources, stop, _LANES)])
    return lambda sources: iter([_best(search, arrays, limits, sources, groups)])


def _tails(arrays: SearchArrays) -> Int64s:
    """Return [edges] the node in whose row each edge is."""
    counts = np.diff(arrays.edges.indptr)
    return np.repeat(np.arange(counts.size, dtype=np.int64), counts)


def _best(search: PathSearch, arrays: SearchArrays, limits: Limits, sources: Int64s, groups: SourceGroups) -> Paths:
    """Return the selected paths from a group of sources (best-first search)."""
    wanted = search.search
    most = max(1 << 16, int(usable_memory() * _SHARE) // groups.threads // _LABEL_BYTES)
    count = wanted.count
    while True:
        selection = selected.Selection(_BY[wanted.kind], count, int(wanted.groups))
        try:
            paths = selected.selected(arrays.edges, arrays.program, limits, sources, selection, groups.stop, most)
        except OverflowError:
            raise InputError(
                f"the search {wanted} needs more than {most:,} partial paths from one vertex; lower the upper bound of "
                "its quantifier, restrict the vertices and edges, or use ANY SHORTEST and WALK",
                code="memory",
            ) from None
        if not search.distinct or wanted.groups or count == 1 or groups.stop[0]:
            return paths
        # Several runs can bind the same elements, so more runs are needed for as many different paths.
        (distinct,) = distinct_bindings(iter([paths]), search)
        if not lacking(paths, distinct, count, wanted.count):
            return first_of_pairs(distinct, wanted.count)
        count *= 2


def _accepts_empty(search: PathSearch) -> bool:
    """Return whether a path without edges is accepted."""
    states = len(search.automaton.states)
    return any(t.state == states and t.to == ACCEPT for t in search.automaton.transitions)


def _size(method: Method, sources: int, threads: int) -> int:
    """Return the number of sources of a group, which one call of a kernel searches."""
    if method == "walks":
        return max(1, min(256, -(-sources // (threads * 8))))
    return max(64, min(1024, -(-sources // threads)))

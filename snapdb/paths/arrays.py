"""The arrays of a path search: the edges of each state in rows, and the automaton with its tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from snapdb.arrays import Bools, Int64s
from snapdb.kernels.paths.problem import ACCEPT, STATIC, PathEdges, Program
from snapdb.paths.bindings import ordered_transitions
from snapdb.paths.edges import EdgeReader, Edges, in_rows, joined_edges
from snapdb.paths.numbering import Numbering
from snapdb.plan.searches import PathSearch
from snapdb.types import EdgeType, Relation


@dataclass(slots=True)
class SearchArrays:
    """The arrays of a search."""

    edges: PathEdges
    program: Program
    sources: Int64s
    """The nodes at which paths can start, in ascending order."""
    real: Int64s | None
    """[nodes] The vertex of each node inside a chain, or None without chains."""
    reverse: PathEdges | None
    """The edges of a single step by arrival node, or None."""
    timed: bool
    """Whether every edge has an event time."""


def search_arrays(numbering: Numbering, search: PathSearch, *, ends_only: bool) -> SearchArrays:
    """Return the arrays of a search.

    Raises:
        DataError: A cost is negative, NULL or NaN.
    """
    alive, masks = numbering.alive(), [numbering.passing(node) for node in search.nodes]
    single = len(search.automaton.states) == 1
    shared = _shared_rows(numbering, search) if single else None
    if shared is not None:
        edges, reverse = shared
        program, sources = _program(search, masks, alive, numbering.total, [0])
        timed = edges.time.size > 0 and not bool((edges.time == STATIC).any())
        return SearchArrays(edges, program, sources, None, None if ends_only else reverse, timed)
    reader = EdgeReader(numbering, search, numbering.total)
    places = [reader.step(step) for step in search.steps]
    base, indptrs, rows, position, offset = dict[tuple[int, int], int](), list[Int64s](), list[Edges](), 0, 0
    for i, step in enumerate(places):
        for j, own in enumerate(step):
            starts, sorted_ = in_rows(own, reader.nodes)
            base[i, j] = position
            indptrs.append(starts + offset)
            rows.append(sorted_)
            position, offset = position + starts.size, offset + sorted_.tail.size
    every = joined_edges(rows)
    narrow = np.int32 if reader.nodes < 2**31 else np.int64
    timed = bool((every.time != STATIC).any())
    edges = PathEdges(
        np.concatenate(indptrs) if indptrs else np.zeros(1, np.int64),
        every.head.astype(narrow),
        every.edge,
        every.time if timed else np.empty(0, np.int64),
        every.cost,
    )
    bases = [base[state.step, state.place] for state in search.automaton.states]
    program, sources = _program(search, masks, alive, reader.nodes, bases)
    reverse = None
    if single and not ends_only:
        back, sorted_ = in_rows(every._replace(tail=every.head, head=every.tail), reader.nodes)
        reverse = PathEdges(back, sorted_.head.astype(narrow), sorted_.edge, np.empty(0, np.int64), np.empty(0))
    real = None
    if reader.real:
        real = np.concatenate([np.arange(numbering.total, dtype=np.int64), *reader.real])
    return SearchArrays(edges, program, sources, real, reverse, timed and not bool((every.time == STATIC).any()))


def _shared_rows(numbering: Numbering, search: PathSearch) -> tuple[PathEdges, PathEdges | None] | None:
    """Return the rows of a snapshot's topology and their reverse, without copies, if a search needs only these."""
    (step,) = search.steps
    if len(step.parts) != 1 or step.parts[0].query is not None or step.parts[0].traversal == "both":
        return None
    if numbering.opened is None or len(search.vertices) != 1 or len(search.edges) != 1:
        return None
    view = numbering.opened.view
    type_: EdgeType = next(t for t in view.edge_types if t.edge == step.parts[0].edges[0])
    both = [view.adjacency(Relation(type_, direction)).flat() for direction in ("OUT", "IN")]
    one, other = both if step.parts[0].traversal == "right" else both[::-1]
    empty = np.empty(0, np.int64), np.empty(0)
    edges, reverse = (
        PathEdges(r.indptr, r.indices, r.edge_id, empty[0] if r.time is None else np.asarray(r.time), empty[1])
        for r in (one, other)
    )
    if edges.time.size and (edges.time == STATIC).all():
        edges = edges._replace(time=empty[0])
    return edges, reverse


def _program(
    search: PathSearch, masks: Sequence[Bools | None], alive: Bools, nodes: int, base: Sequence[int]
) -> tuple[Program, Int64s]:
    """Return the automaton as arrays, and the nodes at which a path can start."""
    states = search.automaton.states
    rows: dict[frozenset[int], int] = {}
    tests: list[Bools] = []
    starting = np.zeros(alive.size, np.bool_)
    ordered = ordered_transitions(search)
    to, test = [], []
    for transition in ordered:
        inside = transition.to != ACCEPT and states[transition.to].place > 0
        tested = frozenset() if inside else frozenset(i for i in transition.nodes if masks[i] is not None)
        number = -1
        if tested:
            if tested not in rows:
                rows[tested] = len(tests)
                row = np.zeros(nodes, np.bool_)
                row[: alive.size] = np.logical_and.reduce([mask for i in tested if (mask := masks[i]) is not None])
                tests.append(row)
            number = rows[tested]
        if transition.state == len(states):
            starting |= tests[number][: alive.size] if number >= 0 else True
        to.append(transition.to)
        test.append(number)
    first = np.searchsorted([t.state for t in ordered], np.arange(len(states) + 2)).astype(np.int32)
    stacked = np.stack(tests) if tests else np.empty((0, nodes), np.bool_)
    program = Program(np.array(base, np.int64), first, np.array(to, np.int32), np.array(test, np.int32), stacked)
    return program, np.flatnonzero(starting & alive)

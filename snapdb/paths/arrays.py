"""The arrays of a path search: the edges of each state in rows, and the automaton with its tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Bools, Float64s, Int64s
from snapdb.errors import DataError
from snapdb.kernels.paths.problem import ACCEPT, STATIC, PathEdges, Program
from snapdb.paths.bindings import ordered_transitions
from snapdb.paths.numbering import Numbering
from snapdb.plan.searches import PathSearch, SearchStep, StepPart
from snapdb.types import EdgeType, Relation


class Edges(NamedTuple):
    """Edges in any order, or in rows."""

    tail: Int64s
    """[edges] The node before each edge."""
    head: Int64s
    """[edges] The node after each edge."""
    edge: Int64s
    """[edges] Identities: e_id times the number of edge types, plus the number of the edge's type."""
    time: Int64s
    """[edges] Event times, STATIC for edges without one."""
    cost: Float64s
    """[edges]"""


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
    tail: Int64s | None
    """[edges] The node before each edge of a single step, or None."""
    timed: bool
    """Whether every edge has an event time."""
    costs: bool


@dataclass(slots=True)
class _Builder:
    """Collects the edges of all steps."""

    numbering: Numbering
    search: PathSearch
    nodes: int
    """The number of nodes, with those inside chains."""
    real: list[Int64s] = field(default_factory=list)

    def step(self, step: SearchStep) -> list[Edges]:
        """Return the edges of each place of a step's chain."""
        places: list[list[Edges]] = [[] for _ in step.variables]
        for part in step.parts:
            edges = self._topology(part) if part.query is None else None
            rows = [edges] if edges is not None else self._queried(part, step)
            for place, own in zip(places, rows, strict=True):
                place.append(own)
        return [_joined(place) for place in places]

    def _code(self, ids: Array, name: str) -> Int64s:
        types = self.search.edges
        if len(types) == 1:
            return ids.astype(np.int64, copy=False)
        return ids.astype(np.int64) * len(types) + [t.lower() for t in types].index(name.lower())

    def _topology(self, part: StepPart) -> Edges:
        """Return all edges of a type in a snapshot, traversed as the part says."""
        opened, (name,) = self.numbering.opened, part.edges
        assert opened is not None
        type_ = next(t for t in opened.view.edge_types if t.edge == name)
        rows = opened.view.adjacency(Relation(type_, "IN")).flat()
        head = np.repeat(np.arange(rows.indptr.size - 1, dtype=np.int64), np.diff(rows.indptr))
        tail = rows.indices.astype(np.int64) + self.numbering.offsets[type_.source.lower()]
        head += self.numbering.offsets[type_.destination.lower()]
        time = np.full(tail.size, STATIC, np.int64) if rows.time is None else np.asarray(rows.time)
        edges = Edges(tail, head, self._code(rows.edge_id, name), time, np.ones(tail.size))
        if part.traversal == "right":
            return edges
        reverse = edges._replace(tail=head, head=tail)
        if part.traversal == "left":
            return reverse
        keep = head != tail
        return _joined([edges, Edges._make(values[keep] for values in reverse)])

    def _queried(self, part: StepPart, step: SearchStep) -> list[Edges]:
        """Return the edges, or the edges of each place of the chains, that a query finds."""
        assert part.query is not None
        types = list(self.search.vertices)
        what = f"edges of {', '.join(part.edges)}"
        table = self.numbering.table(part.query, types, what)
        column = {name: table.column(name) for name in table.column_names}
        length = len(part.edges)
        cost = np.ones(table.num_rows) if "cost" not in column else self._costs(column["cost"], part, step)
        nodes = [column[f"node{i}"].to_numpy() + self._offset(part, i) for i in range(length + 1)]
        if length > 1:
            nodes = self._chained(nodes)
        places = []
        for i in range(length):
            time = column[f"time{i}"].fill_null(STATIC).to_numpy()
            own = cost if i == 0 else np.zeros(table.num_rows) if step.costs else np.ones(table.num_rows)
            code = self._code(column[f"edge{i}"].to_numpy(), part.edges[i])
            places.append(Edges(nodes[i], nodes[i + 1], code, time.astype(np.int64), own))
        return places

    def _offset(self, part: StepPart, place: int) -> int:
        return self.numbering.offsets[part.nodes[place]]

    def _costs(self, column: object, part: StepPart, step: SearchStep) -> Float64s:
        cost: Float64s = column.to_numpy()  # type: ignore[attr-defined]
        bad = ~(cost >= 0)
        if bad.any():
            count, first = int(bad.sum()), cost[bad][0]
            shown = "NULL or NaN" if np.isnan(first) else f"{first:g}"
            raise DataError(
                f"COST must be at least 0, and is not for {count:,} of {cost.size:,} edges of {', '.join(part.edges)}, "
                f"such as {shown}; exclude them by WHERE, or write COST greatest(…, 0)",
                span=step.cost_span,
                code="bad-cost",
            )
        return cost

    def _chained(self, nodes: list[Int64s]) -> list[Int64s]:
        """Return the nodes of chains, with nodes of their own for the inner vertices of each chain."""
        count = nodes[0].size
        inner = []
        for own in nodes[1:-1]:
            inner.append(np.arange(self.nodes, self.nodes + count, dtype=np.int64))
            self.real.append(own)
            self.nodes += count
        return [nodes[0], *inner, nodes[-1]]


def _joined(parts: Sequence[Edges]) -> Edges:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        empty = np.empty(0, np.int64)
        return Edges(empty, empty, empty, empty, np.empty(0))
    return Edges._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _rows(edges: Edges, nodes: int) -> tuple[Int64s, Edges]:
    """Return the edges in rows by the node before them, each by (time, identity, node after)."""
    order = np.lexsort((edges.head, edges.edge, edges.time, edges.tail))
    counts = np.bincount(edges.tail, minlength=nodes)
    indptr = np.zeros(nodes + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    return indptr, Edges._make(values[order] for values in edges)


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
        return SearchArrays(edges, program, sources, None, None if ends_only else reverse, None, timed, False)
    builder = _Builder(numbering, search, numbering.total)
    places = [builder.step(step) for step in search.steps]
    flat = {(i, j): own for i, step in enumerate(places) for j, own in enumerate(step)}
    indptrs, sorted_, offset, base = [], [], 0, {}
    position = 0
    for key, own in flat.items():
        indptr, rows = _rows(own, builder.nodes)
        base[key] = position
        indptrs.append(indptr + offset)
        sorted_.append(rows)
        offset += rows.tail.size
        position += indptr.size
    every = _joined(sorted_)
    indptr = np.concatenate(indptrs) if indptrs else np.zeros(1, np.int64)
    timed = bool(every.time.size) and bool((every.time != STATIC).all())
    costs = any(step.costs for step in search.steps)
    edges = PathEdges(
        indptr,
        every.head.astype(np.int32 if builder.nodes < 2**31 else np.int64),
        every.edge,
        every.time if bool((every.time != STATIC).any()) else np.empty(0, np.int64),
        every.cost if costs else np.empty(0),
    )
    real = None
    if builder.real:
        real = np.concatenate([np.arange(numbering.total, dtype=np.int64), *builder.real])
    bases = [base[state.step, state.place] for state in search.automaton.states]
    program, sources = _program(search, masks, alive, builder.nodes, bases)
    reverse = None
    if single and not ends_only:
        back, rows = _rows(every._replace(tail=every.head, head=every.tail), builder.nodes)
        reverse = PathEdges(back, rows.head.astype(edges.neighbor.dtype), rows.edge, np.empty(0, np.int64), np.empty(0))
    return SearchArrays(edges, program, sources, real, reverse, every.tail if single else None, timed, costs)


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

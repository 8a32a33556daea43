"""A naive matcher of path patterns: the oracle of GRAPH_TABLE.

The matcher enumerates every walk by recursion over the pattern's parts, and selects paths afterwards. It shares no code
with the statement. Source of the semantics: ISO/IEC 9075-16 (SQL/PGQ), and Deutsch et al., "Graph Pattern Matching in
GQL and SQL/PGQ" (SIGMOD 2022).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

from tests.support.path_patterns import (
    Condition,
    Cost,
    Direction,
    Edge,
    EdgePattern,
    Filler,
    Graph,
    Group,
    NodePattern,
    Part,
    PathPattern,
    Quantified,
    Scope,
    Selection,
    Vertex,
    property_of,
)


class TooManyMatches(Exception):  # noqa: N818 - it asks for another pattern, and is no error
    """A pattern has too many walks for a test."""


class Match(NamedTuple):
    """A path binding, or a part of one while it is searched."""

    vertices: tuple[int, ...]
    edges: tuple[int, ...] = ()
    bound: frozenset[tuple[str, int]] = frozenset()
    """(variable, position on the path): 2 i for vertex i, and 2 i + 1 for edge i."""
    cost: float = 0
    arrival: float = float("-inf")
    """The time of the last timed edge."""
    start: float = float("inf")
    """The time of the first timed edge."""
    scope: Mapping[str, int] = MappingProxyType({})
    """The singleton variables in reach, and in a complete match all of them, by their positions on the path."""

    @property
    def identity(self) -> tuple[object, ...]:
        """The path and which variables its elements are bound to: what distinguishes matches."""
        return self.vertices, self.edges, self.bound

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last vertex."""
        return self.vertices[0], self.vertices[-1]

    def place(self, position: int) -> tuple[str, int]:
        """Return the identity of the element at a position: its kind and its place in the graph."""
        if position % 2:
            return "edge", self.edges[position // 2]
        return "vertex", self.vertices[position // 2]

    def group(self, variable: str) -> list[int]:
        """Return the positions that a group variable is bound to, in path order."""
        return sorted(position for name, position in self.bound if name == variable)

    def element(self, graph: Graph, position: int) -> Vertex | Edge:
        """Return the element at a position."""
        kind, place = self.place(position)
        return graph.edges[place] if kind == "edge" else graph.vertices[place]

    def elements(self, graph: Graph) -> dict[str, Vertex | Edge | None]:
        """Return the elements of the singleton variables in reach."""
        return {name: self.element(graph, position) for name, position in self.scope.items()}


Binding = tuple[Match, ...]
"""One match per path pattern."""


class Matcher:
    """The matches of one path pattern, before its selection."""

    def __init__(self, graph: Graph, pattern: PathPattern, most_steps: int) -> None:
        self.graph, self.pattern, self.steps = graph, pattern, most_steps
        self.clock, self.mode = pattern.clock, pattern.mode
        if pattern.selection.by == "arrival" and not self.clock:
            self.clock = "TIME RESPECTING"
        # A walk at whose iterations an unbounded quantifier meets a vertex k + 1 times has k shorter walks with the
        # same ends, without the cycles between these visits: they cost no more and arrive no later.
        self.visits = pattern.selection.count if pattern.mode in (None, "WALK") else None

    def matches(self) -> list[Match]:
        """Return the distinct matches, each with its least cost."""
        found: dict[tuple[object, ...], Match] = {}
        for place in range(len(self.graph.vertices)):
            for match in self._run(self.pattern.parts, Match((place,))):
                known = found.setdefault(match.identity, match)
                if match.cost < known.cost:
                    found[match.identity] = match
        return list(found.values())

    def _run(self, parts: Sequence[Part], run: Match) -> Iterator[Match]:
        """Yield the continuations of a walk by a sequence of parts."""
        if not parts:
            yield run
            return
        for longer in self._step(parts[0], run):
            yield from self._run(parts[1:], longer)

    def _step(self, part: Part, run: Match) -> Iterator[Match]:
        """Yield the continuations of a walk by one part."""
        self.steps -= 1
        if self.steps < 0:
            raise TooManyMatches
        match part:
            case NodePattern():
                yield from self._bind(part.filler, run, 2 * len(run.edges))
            case EdgePattern():
                for place in self.graph.incident[run.vertices[-1]]:
                    extended = self._extend(part.direction, run, place)
                    if extended is not None:
                        yield from self._bind(part.filler, extended, 2 * len(run.edges) + 1)
            case Group():
                for longer in self._run(part.parts, run):
                    elements = longer.elements(self.graph)
                    if part.where is None or part.where.holds(elements):
                        yield longer if part.cost is None else _with_cost(longer, part.cost, elements)
            case Quantified():
                yield from self._repeat(part, run, 0, ())

    def _repeat(self, part: Quantified, run: Match, count: int, visited: tuple[int, ...]) -> Iterator[Match]:
        """Yield the continuations after `count` iterations, of which those after the minimum began at `visited`."""
        if count >= part.least:
            here = run.vertices[-1]
            if part.most is None and self.visits is not None and visited.count(here) >= self.visits:
                return
            visited = (*visited, here)
            yield run
        if part.most is None or count < part.most:
            optional = part.quantifier == "?"
            for longer in self._step(part.part, run if optional else run._replace(scope={})):
                kept = longer if optional else longer._replace(scope=run.scope)
                yield from self._repeat(part, kept, count + 1, visited)

    def _extend(self, direction: Direction, run: Match, place: int) -> Match | None:
        """Return the walk with one more edge, or None if the direction, the mode or the clock does not admit it."""
        edge, here = self.graph.edges[place], run.vertices[-1]
        rightward = edge.source == here
        if (direction == "right" and not rightward) or (direction == "left" and edge.destination != here):
            return None
        # In either direction, a self loop is met once.
        vertex = edge.source if direction == "left" or not rightward else edge.destination
        once = {"ACYCLIC": run.vertices, "SIMPLE": run.vertices[1:]}.get(self.mode or "", ())
        if vertex in once or not self._admits_edge(run, place):
            return None
        longer = run._replace(vertices=(*run.vertices, vertex), edges=(*run.edges, place), cost=run.cost + 1)
        if edge.time is None:
            return longer
        return longer._replace(start=min(run.start, edge.time), arrival=edge.time)

    def _admits_edge(self, run: Match, place: int) -> bool:
        """Return whether the mode and the clock admit an edge after a walk."""
        time = self.graph.edges[place].time
        if self.mode == "TRAIL" and place in run.edges:
            return False
        if self.mode == "SIMPLE" and run.edges and run.vertices[0] == run.vertices[-1]:
            return False
        if not self.clock or time is None:
            return True
        if time < run.arrival or (time == run.arrival and self.clock.endswith("STRICT")):
            return False
        return self.pattern.within is None or time - min(run.start, time) <= self.pattern.within

    def _bind(self, filler: Filler, run: Match, position: int) -> Iterator[Match]:
        """Yield the walk with the element at `position` bound, if it satisfies the element pattern."""
        element = run.element(self.graph, position)
        if filler.labels is not None and element.type not in filler.labels.types:
            return
        if filler.variable is not None:
            other = run.scope.get(filler.variable)
            if other is not None and run.place(other) != run.place(position):
                return
            scope = {**run.scope, filler.variable: position}
            run = run._replace(bound=run.bound | {(filler.variable, position)}, scope=scope)
        if filler.where is None and filler.cost is None:
            yield run
            return
        elements = run.elements(self.graph)
        if filler.where is None or filler.where.holds(elements):
            yield run if filler.cost is None else _with_cost(run, filler.cost, elements)


def _with_cost(run: Match, cost: Cost, elements: Scope) -> Match:
    """Return the walk with the cost of its last edge, which was counted as 1, replaced."""
    value = property_of(elements[cost.variable], "w") + cost.added
    return run._replace(cost=run.cost - 1 + value)


def value_of(selection: Selection, match: Match) -> float:
    """Return the value of a match by which a prefix selects: the smallest is best."""
    match selection.by:
        case "length":
            return len(match.edges)
        case "cost":
            return match.cost
        case "arrival":
            return match.arrival
    return 0


def select(selection: Selection, matches: Sequence[Match]) -> list[Match]:
    """Return the matches that a prefix selects per pair of ends; of equal ones, the first."""
    if selection.by is None:
        return list(matches)
    partitions: dict[tuple[int, int], list[Match]] = {}
    for match in matches:
        partitions.setdefault(match.ends, []).append(match)
    selected = []
    for partition in partitions.values():
        ranked = sorted(partition, key=lambda match: value_of(selection, match))
        best = set(sorted({value_of(selection, match) for match in partition})[: selection.count])
        grouped = [match for match in ranked if value_of(selection, match) in best]
        selected += grouped if selection.groups else ranked[: selection.count]
    return selected


def match(
    graph: Graph, patterns: Sequence[PathPattern], where: Condition | None = None, most_steps: int = 100_000
) -> list[Binding]:
    """Return the bindings of a graph pattern: one match per path pattern, equal in the variables that they share.

    Raises:
        TooManyMatches: The patterns need more than `most_steps` steps, or have as many combinations.
    """
    selected = [select(p.selection, Matcher(graph, p, most_steps).matches()) for p in patterns]
    combinations = 1
    for matches in selected:
        combinations *= len(matches)
    if combinations > most_steps:
        raise TooManyMatches
    bindings = [binding for binding in product(*selected) if _is_consistent(binding)]
    return [b for b in bindings if where is None or where.holds(_Absent(elements_of(graph, b)))]


def _is_consistent(binding: Binding) -> bool:
    """Return whether each variable that several matches bind is bound to one element."""
    places: dict[str, tuple[str, int]] = {}
    return all(
        places.setdefault(name, match.place(position)) == match.place(position)
        for match in binding
        for name, position in match.scope.items()
    )


def elements_of(graph: Graph, binding: Binding) -> dict[str, Vertex | Edge | None]:
    """Return the elements of all singleton variables that a binding binds."""
    return {name: element for each in binding for name, element in each.elements(graph).items()}


class _Absent(dict[str, Vertex | Edge | None]):
    """Elements by variable, with None for the variables of absent parts."""

    def __missing__(self, key: str) -> None:
        return None

"""Path patterns of fixed length as joins over the views of elements, one SELECT per combination of types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Literal, TypeAlias

from snapdb.errors import BindError, Span
from snapdb.plan.patterns.access import Access, identity_columns
from snapdb.plan.patterns.graphs import EdgeType, ElementType, PatternGraph
from snapdb.plan.patterns.paths import BoundPath, Node, Patterns, Step
from snapdb.plan.patterns.references import Condition
from snapdb.plan.searches import EdgeTraversal
from snapdb.sql_engine import quote, text_literal

_MOST = 256
"""The maximum number of combinations of types."""

Needed: TypeAlias = Mapping[str, Sequence[str]]
"""The columns that expressions read, by variable."""


@dataclass(slots=True)
class Hop:
    """An edge between two vertices of a path pattern."""

    source: str
    """The variable of the vertex before the edge."""
    edge: str
    target: str
    step: Step


@dataclass(slots=True)
class Combination:
    """One type per variable of the fixed path patterns, and the direction of each hop."""

    types: dict[str, str] = field(default_factory=dict)
    traversals: list[EdgeTraversal] = field(default_factory=list)


@dataclass(slots=True)
class Joined:
    """A SELECT over one combination of types."""

    sources: list[str] = field(default_factory=list)
    """The items of FROM."""
    where: list[str] = field(default_factory=list)
    accesses: dict[str, Access] = field(default_factory=dict)
    """The variables of the path patterns."""
    conditions: list[Condition] = field(default_factory=list)
    """The conditions that the user wrote in the path patterns."""


def hops(path: BoundPath) -> Iterator[Hop]:
    """Yield the edges of a path pattern without repeated parts, with the vertices beside them."""
    items = path.items
    for index, item in enumerate(items):
        if isinstance(item, Step):
            before, after = items[index - 1], items[index + 1]
            assert isinstance(before, Node)
            assert isinstance(after, Node)
            yield Hop(before.variable, item.variable, after.variable, item)


def merged(path: BoundPath) -> Iterator[tuple[str, str]]:
    """Yield the variables of adjacent vertex patterns, which denote the same vertex."""
    for one, other in pairwise(path.items):
        if isinstance(one, Node) and isinstance(other, Node):
            yield one.variable, other.variable


def join_paths(patterns: Patterns, paths: Sequence[BoundPath], needed: Needed) -> list[Joined]:
    """Return one SELECT per combination of types. There is none if no types fit the patterns.

    Raises:
        BindError: There are too many combinations.
    """
    return [_join(patterns, paths, each, needed) for each in _combinations(patterns, paths)]


def _combinations(patterns: Patterns, paths: Sequence[BoundPath]) -> list[Combination]:
    """Return the assignments of types to variables that fit the edges' ends, in graph order."""
    every = [hop for path in paths for hop in hops(path)]
    equal = [pair for path in paths for pair in merged(path)]
    alone = [item.variable for path in paths for item in path.items if isinstance(item, Node)]
    found: list[Combination] = []
    _assign(patterns, every, equal, alone, Combination(), found, paths[0].span if paths else Span(0, 0))
    return found


def _assign(
    patterns: Patterns,
    every: Sequence[Hop],
    equal: Sequence[tuple[str, str]],
    alone: Sequence[str],
    chosen: Combination,
    found: list[Combination],
    span: Span,
) -> None:
    """Add the combinations that extend `chosen` over the remaining hops (depth-first)."""
    graph, types = patterns.graph, chosen.types
    if len(chosen.traversals) < len(every):
        hop = every[len(chosen.traversals)]
        for name in patterns.variable(hop.edge).types:
            if types.get(hop.edge, name) != name:
                continue
            for traversal, one, other in traversals(graph.edges[name], hop.step):
                wanted = {hop.edge: name, hop.source: one, hop.target: other}
                if hop.source == hop.target and one != other:
                    continue
                fits = all(types.get(v, t) == t and t in patterns.variable(v).types for v, t in wanted.items())
                if fits:
                    more = Combination({**types, **wanted}, [*chosen.traversals, traversal])
                    _assign(patterns, every, equal, alone, more, found, span)
        return
    rest = next((name for name in alone if name not in types), None)
    if rest is not None:
        for name in patterns.variable(rest).types:
            more = Combination({**types, rest: name}, chosen.traversals)
            _assign(patterns, every, equal, alone, more, found, span)
        return
    if all(types[one] == types[other] for one, other in equal):
        if len(found) == _MOST:
            raise BindError(
                f"the patterns match more than {_MOST} combinations of vertex and edge types; add labels, such as "
                "(a:person)-[e:knows]->(b:person)",
                span=span,
                code="pattern-size",
            )
        found.append(chosen)


def traversals(edge: EdgeType, step: Step) -> Iterator[tuple[EdgeTraversal, str, str]]:
    """Yield the ways in which a step can traverse an edge type, with the vertex types before and after it."""
    source, destination = edge.element.source.lower(), edge.element.destination.lower()
    if step.direction == "any" and source == destination:
        yield "both", source, source
        return
    if step.direction != "left":
        yield "right", source, destination
    if step.direction != "right":
        yield "left", destination, source


def _join(patterns: Patterns, paths: Sequence[BoundPath], chosen: Combination, needed: Needed) -> Joined:
    graph, joined = patterns.graph, Joined()
    columns: dict[str, list[tuple[str, ...]]] = {}
    """The keys of each vertex variable in the edges beside it."""
    numbers = iter(chosen.traversals)
    for hop in (hop for path in paths for hop in hops(path)):
        traversal, edge = next(numbers), graph.edges[chosen.types[hop.edge]]
        alias, first = hop.edge, joined.accesses.get(hop.edge)
        if first is None:
            joined.accesses[alias] = _joined(graph, "edge", alias, edge.name.lower())
        else:  # an edge that is declared twice is one edge, which can be traversed in different directions
            alias = f"{hop.edge} {len(joined.sources)}"
            joined.where += _equal(_key(joined, hop.edge), [f"{quote(alias)}.e_id"])
        joined.sources.append(f"{_edge_source(edge, traversal)} AS {quote(alias)}")
        before, after = _hop_columns(edge, traversal, alias)
        columns.setdefault(hop.source, []).append(before)
        columns.setdefault(hop.target, []).append(after)
    for path in paths:
        for one, other in merged(path):
            columns.setdefault(one, []), columns.setdefault(other, [])
        for item in path.items:
            if isinstance(item, Node | Step):
                joined.conditions += item.conditions
            if isinstance(item, Node):
                columns.setdefault(item.variable, [])
        joined.conditions += path.conditions
    for name, ends in columns.items():
        _join_vertex(graph, joined, name, graph.vertices[chosen.types[name]], ends, needed.get(name, ()))
    for path in paths:
        for one, other in merged(path):
            joined.where += _equal(_key(joined, one), _key(joined, other))
        joined.where += _mode(path, joined, chosen)
    return joined


def _key(joined: Joined, variable: str) -> tuple[str, ...]:
    ((_, key),) = joined.accesses[variable].keys.items()
    return key


def _joined(graph: PatternGraph, kind: Literal["vertex", "edge"], alias: str, name: str) -> Access:
    """Return the access to an element whose view is joined under an alias."""
    element = graph.of_kind(kind)[name]
    key = tuple(f"{quote(alias)}.{quote(c.name)}" for c in identity_columns(element))
    return Access(kind, {name: element}, text_literal(name), {name: key}, lambda c: _column(alias, element, c))


def joined_vertex(graph: PatternGraph, alias: str, name: str) -> Access:
    """Return the access to a vertex whose view is joined under an alias."""
    return _joined(graph, "vertex", alias, name)


def joined_element(graph: PatternGraph, kind: Literal["vertex", "edge"], alias: str, name: str) -> Access:
    """Return the access to an element whose view is joined under an alias."""
    return _joined(graph, kind, alias, name)


def _column(alias: str, element: ElementType, name: str) -> str:
    column = element.column(name)
    return "NULL" if column is None else f"{quote(alias)}.{quote(column.name)}"


_BEFORE, _AFTER = "before {}", "after {}"


def _edge_source(edge: EdgeType, traversal: EdgeTraversal) -> str:
    """Return the FROM item of an edge. In both directions, each edge has one row per direction, a self loop one."""
    if traversal != "both":
        return edge.relation
    source, destination = edge.typed(edge.element.source_key), edge.typed(edge.element.destination_key)
    sides = []
    for before, after in ((source, destination), (destination, source)):
        ends = [f"{quote(c.name)} AS {quote(_BEFORE.format(i))}" for i, c in enumerate(before)]
        ends += [f"{quote(c.name)} AS {quote(_AFTER.format(i))}" for i, c in enumerate(after)]
        sides.append(f"SELECT {', '.join(ends)}, * FROM {edge.relation}")
    loop = " AND ".join(f"{quote(a.name)} = {quote(b.name)}" for a, b in zip(source, destination, strict=True))
    return f"({sides[0]} UNION ALL {sides[1]} WHERE NOT ({loop}))"


def _hop_columns(edge: EdgeType, traversal: EdgeTraversal, alias: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns with the keys of the vertices before and after an edge."""
    source, destination = edge.element.source_key, edge.element.destination_key
    if traversal == "both":
        before = tuple(f"{quote(alias)}.{quote(_BEFORE.format(i))}" for i in range(len(source)))
        return before, tuple(f"{quote(alias)}.{quote(_AFTER.format(i))}" for i in range(len(destination)))
    ends = [tuple(f"{quote(alias)}.{quote(c.name)}" for c in edge.typed(key)) for key in (source, destination)]
    return (ends[0], ends[1]) if traversal == "right" else (ends[1], ends[0])


def _join_vertex(
    graph: PatternGraph,
    joined: Joined,
    name: str,
    vertex: ElementType,
    ends: Sequence[tuple[str, ...]],
    needed: Sequence[str],
) -> None:
    """Add a vertex: its view, or only the keys in the edges beside it if nothing else is read."""
    access = _joined(graph, "vertex", name, vertex.name.lower())
    key = _key_names(vertex)
    # Both ends of a snapshot's edges exist, so a view of which only the key is read does not have to be joined.
    if ends and graph.snapshot is not None and all(column.lower() in key for column in needed):
        own = dict(zip(key, ends[0], strict=True))
        types = {c.name.lower(): c.type for c in identity_columns(vertex)}

        def column(wanted: str) -> str:
            return f"CAST({own[wanted.lower()]} AS {types[wanted.lower()]})"

        keys = tuple(map(column, key))
        joined.accesses[name] = Access("vertex", access.types, access.tag, {vertex.name.lower(): keys}, column)
        for other in ends[1:]:
            joined.where += _equal(ends[0], other)
        return
    joined.accesses[name] = access
    joined.sources.append(f"{vertex.relation} AS {quote(name)}")
    for other in ends:
        joined.where += _equal(_key(joined, name), other)


def _key_names(vertex: ElementType) -> list[str]:
    return [c.name.lower() for c in identity_columns(vertex)]


def _equal(one: Sequence[str], other: Sequence[str]) -> list[str]:
    return [f"{a} = {b}" for a, b in zip(one, other, strict=True)]


def _mode(path: BoundPath, joined: Joined, chosen: Combination) -> list[str]:
    """Return the conditions of a path pattern's mode."""
    mode = path.prefix.mode
    if mode == "WALK":
        return []
    nodes = [hop.source for hop in hops(path)]
    nodes += [hop.target for hop in list(hops(path))[-1:]]
    if mode == "TRAIL":
        pairs = combinations([hop.edge for hop in hops(path)], 2)
    else:
        pairs = combinations(nodes, 2)
    places = list(combinations(range(len(nodes)), 2)) if mode != "TRAIL" else []
    conditions = []
    for index, (one, other) in enumerate(pairs):
        closes = mode == "SIMPLE" and places[index] == (0, len(nodes) - 1)
        if not closes and chosen.types[one] == chosen.types[other]:
            equal = " AND ".join(_equal(_key(joined, one), _key(joined, other)))
            conditions.append(f"NOT ({equal})")
    return conditions

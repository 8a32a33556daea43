"""Path patterns with quantifiers, searches or event times, as path searches whose rows a query reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snapdb.errors import BindError, Span
from snapdb.plan.patterns.access import identity_columns
from snapdb.plan.patterns.automata import Numbers, automaton_of
from snapdb.plan.patterns.expressions import Rewriter
from snapdb.plan.patterns.graphs import ElementType, PatternGraph, with_views
from snapdb.plan.patterns.joins import joined_vertex
from snapdb.plan.patterns.needs import Needs
from snapdb.plan.patterns.paths import BoundPath, Node, Patterns, Repeat, Step
from snapdb.plan.patterns.references import Condition, Expression, conjuncts
from snapdb.plan.patterns.relations import SearchRelation
from snapdb.plan.patterns.rows import path_types
from snapdb.plan.patterns.steps import DENSE_IDS, Parts, parts_of
from snapdb.plan.queries import BoundQuery, compose
from snapdb.plan.scope import BindContext
from snapdb.plan.searches import Output, PathSearch, SearchNode, SearchStep, SearchVertex
from snapdb.sql.patterns import Prefix
from snapdb.sql_engine import quote


def search_relation(
    context: BindContext,
    patterns: Patterns,
    path: BoundPath,
    needs: Needs,
    name: str,
    restricted: Mapping[str, BoundQuery],
) -> SearchRelation:
    """Return the path search of a path pattern.

    Args:
        context: The binding context.
        patterns: The patterns of the GRAPH_TABLE.
        path: The path pattern.
        needs: What the query reads of the paths.
        name: A name that no other search of the statement has.
        restricted: Variable → a SELECT of the only keys that it can have, because other patterns bind it too.

    Raises:
        BindError: A condition or time clause does not fit the search.
    """
    graph = patterns.graph
    parts = parts_of(context, patterns, path)
    nodes = tuple(_search_node(context, patterns, path, node, needs, restricted) for node in parts.nodes)
    _check_times(graph, path.prefix, parts.steps, path.span)
    outputs = _outputs(patterns, path, needs)
    bound = [item.variable for item in path.items if not isinstance(item, Repeat)]
    equal = tuple(v for v in dict.fromkeys(bound) if bound.count(v) > 1)
    if path.selects and (inner := [v for v in equal if not path.is_end(v)]):
        raise BindError(
            f"{patterns.variable(inner[0]).name} occurs twice in a pattern that selects paths, where only the first "
            "and the last vertex can be the same; use two variables, and compare them in WHERE without a search",
            span=path.span,
            code="pattern-condition",
        )
    automaton = automaton_of(path, Numbers(parts.numbers, parts.chains))
    search = PathSearch(
        name,
        graph.snapshot,
        {n: _search_vertex(graph, v) for n, v in graph.vertices.items() if n in _reached(graph, parts, patterns)},
        tuple(e.name for e in graph.edges.values() if e.name in _traversed(parts)),
        nodes,
        tuple(parts.steps),
        automaton,
        path.prefix.search,
        path.prefix.mode,
        "ordered" if path.prefix.search.kind == "earliest" and path.prefix.times == "any" else path.prefix.times,
        _within(context, graph, path.prefix),
        outputs,
        equal,
        _is_ambiguous(patterns, path),
        (),
        graph.counts,
    )
    return SearchRelation(context, patterns, path, search, parts.rest)


def _is_ambiguous(patterns: Patterns, path: BoundPath) -> bool:
    """Return whether several runs of the automaton can bind the same elements: two parts without names repeat."""
    repeated = [item for item in path.items if isinstance(item, Repeat)]
    return sum(not any(patterns.variable(s.variable).named for s in item.steps) for item in repeated) > 1


def _search_vertex(graph: PatternGraph, vertex: ElementType) -> SearchVertex:
    key = identity_columns(vertex)
    columns = ", ".join(quote(c.name) for c in key)
    text = f"SELECT DISTINCT {columns} FROM {vertex.relation} ORDER BY {columns}"
    keys = with_views(graph, BoundQuery(text, Span(0, 0)), Span(0, 0))
    return SearchVertex(vertex.name, key, keys, quote(DENSE_IDS.format(vertex.name)))


def _search_node(
    context: BindContext,
    patterns: Patterns,
    path: BoundPath,
    node: Node,
    needs: Needs,
    restricted: Mapping[str, BoundQuery],
) -> SearchNode:
    """Return a node with the SELECTs of the keys that satisfy its conditions, per type."""
    variable = patterns.variable(node.variable)
    conditions = [*node.conditions, *_pushed(patterns, path, node, needs.where)]
    conditions = [c for c in conditions if not (patterns.has_ctes and c.has_subquery)]
    tests = {}
    # An inner vertex of a pattern that selects paths is joined with other patterns only after the selection.
    free = path.selects and not path.is_end(node.variable)
    for name in node.types if free else variable.types:
        vertex = patterns.graph.vertices[name]
        queries = []
        if conditions:
            access = joined_vertex(patterns.graph, node.variable, name)
            rewriter = Rewriter(context, patterns, {node.variable: access})
            columns = ", ".join(access.keys[name])
            text: list[str | BoundQuery] = [
                f"SELECT {columns} FROM {vertex.relation} AS {quote(node.variable)} WHERE ("
            ]
            for index, condition in enumerate(conditions):
                text += [") AND (" if index else "", rewriter.sql(condition)]
            query = compose(path.span, *text, ")")
            queries.append(with_views(patterns.graph, query, path.span))
        if node.variable in restricted and len(variable.types) == 1 and not free:
            queries.append(restricted[node.variable])
        tests[name] = tuple(queries)
    return SearchNode(node.variable, tests)


def _pushed(patterns: Patterns, path: BoundPath, node: Node, where: Expression | None) -> list[Condition]:
    """Return the parts of the condition after the patterns that are about one vertex and can restrict the search."""
    if where is None or patterns.variable(node.variable).depth != "singleton":
        return []
    # Paths are selected per first and last vertex, so conditions on these two commute with the selection.
    if path.selects and not path.is_end(node.variable):
        return []
    return [c for c in conjuncts(where.fragment, patterns.names) if c.variables == {node.variable}]


def _traversed(parts: Parts) -> set[str]:
    """Return the names of the edge types of all steps."""
    return {name for step in parts.steps for part in step.parts for name in part.edges}


def _reached(graph: PatternGraph, parts: Parts, patterns: Patterns) -> set[str]:
    """Return the vertex types that paths can visit."""
    names = _traversed(parts)
    reached = {name for node in parts.nodes for name in patterns.variable(node.variable).types} if not names else set()
    for edge in graph.edges.values():
        if edge.name in names:
            reached |= {edge.element.source.lower(), edge.element.destination.lower()}
    # A path of length zero can have a first vertex without edges.
    ends = (parts.nodes[0], parts.nodes[-1])
    return reached | {name for node in ends for name in patterns.variable(node.variable).types}


def _check_times(graph: PatternGraph, prefix: Prefix, steps: Sequence[SearchStep], span: Span) -> None:
    """Raise BindError for a time clause if no edge of the pattern has an event time."""
    timed = prefix.times != "any" or prefix.within is not None or prefix.search.kind == "earliest"
    names = {name.lower() for step in steps for part in step.parts for name in part.edges}
    if timed and not any(graph.edges[name].event_time is not None for name in names):
        clause = "ANY EARLIEST" if prefix.search.kind == "earliest" else "TIME RESPECTING"
        edges = ", ".join(sorted(graph.edges[name].name for name in names)) or "no edge"
        raise BindError(
            f"{clause} needs event times, and none of the pattern's edges ({edges}) has them; declare EVENT TIME in "
            f"graph {graph.graph.name}, or leave the clause out",
            span=prefix.span or span,
            code="needs-event-time",
        )


def _within(context: BindContext, graph: PatternGraph, prefix: Prefix) -> int | None:
    if prefix.within is None:
        return None
    if prefix.times == "any" and prefix.search.kind != "earliest":
        raise BindError(
            "WITHIN limits the duration of paths that respect time; write TIME RESPECTING WITHIN …",
            span=prefix.within.span,
            code="pattern-condition",
        )
    value = prefix.within.value
    if graph.unit == "integer":
        length = context.time_value(value, "integer", "the event times of this graph are integers")
    elif value.text.upper().startswith("INTERVAL") or not value.text.isdecimal():
        length = context.duration(value)
    else:
        raise BindError(
            f"the event times of this graph are timestamps: write INTERVAL '{value.text} days'",
            span=value.span,
            code="time-kind",
        )
    if length < 0:
        raise BindError("WITHIN must not be negative", span=value.span, code="bad-length")
    return length


def _outputs(patterns: Patterns, path: BoundPath, needs: Needs) -> tuple[Output, ...]:
    """Return the columns that a query reads: named elements, lists of group variables, and lists of the path."""
    outputs = [Output("match"), Output("length")]
    elsewhere = {item.variable for other in patterns.paths if other is not path for item in other.flat}
    seen: set[str] = set()
    for item in path.flat:
        variable = patterns.variable(item.variable)
        read = patterns.has_ctes or item.variable in needs.referenced | elsewhere
        if item.variable in seen or not variable.named or not read:
            continue
        seen.add(item.variable)
        kind = "node" if isinstance(item, Node) else "edge"
        if variable.depth != "group":
            outputs.append(Output(kind, item.variable, variable.types))  # type: ignore[arg-type]
        elif item.variable in needs.groups and not (item.variable in needs.counted and item.variable == path.only_step):
            outputs.append(Output(f"{kind}s", item.variable, variable.types))  # type: ignore[arg-type]
    rows = needs.rows
    unnested = rows is not None and any(path is each for each in rows.paths)
    if unnested or (path.variable is not None and "vertices" in needs.lists):
        types = rows.vertices if unnested and rows is not None else path_types(patterns, path, Node)
        outputs.append(Output("vertices", "", types))
    if unnested or (path.variable is not None and "edges" in needs.lists):
        types = rows.edges if unnested and rows is not None else path_types(patterns, path, Step)
        outputs.append(Output("path_edges", "", types))
    if path.variable is not None:
        nodes, edges = path_types(patterns, path, Node), path_types(patterns, path, Step)
        if "element_id" in needs.lists:
            outputs.append(Output("elements", "", (*nodes, *edges)))
    return tuple(outputs)

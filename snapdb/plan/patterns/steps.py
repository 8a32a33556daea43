"""The edges of path searches: one step per edge of a pattern, or per chain of edges that a condition compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from snapdb.catalog.elements import time_expression
from snapdb.errors import BindError
from snapdb.plan.patterns.automata import Chain
from snapdb.plan.patterns.expressions import Rewriter
from snapdb.plan.patterns.graphs import with_views
from snapdb.plan.patterns.joins import Joined, join_paths, traversals
from snapdb.plan.patterns.paths import BoundPath, Item, Node, Patterns, Repeat, Step
from snapdb.plan.patterns.references import Condition, Expression, expression
from snapdb.plan.queries import BoundQuery, compose, conjunction
from snapdb.plan.scope import BindContext
from snapdb.plan.searches import SearchStep, StepPart
from snapdb.sql.patterns import Prefix
from snapdb.sql.syntax import SqlFragment
from snapdb.sql_engine import quote

DENSE_IDS = "dense ids of {}"
"""The name of the relation of a vertex type's keys and dense ids."""


@dataclass(slots=True)
class Parts:
    """The nodes and steps of a path pattern."""

    nodes: list[Node] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    chains: dict[int, Chain] = field(default_factory=dict)
    steps: list[SearchStep] = field(default_factory=list)
    rest: list[Condition] = field(default_factory=list)
    """The conditions that apply after the search."""


def parts_of(context: BindContext, patterns: Patterns, path: BoundPath) -> Parts:
    """Return the nodes and steps of a path pattern, and the conditions that apply to the paths found.

    Raises:
        BindError: A condition compares elements that a search which selects paths cannot compare.
    """
    parts = Parts()
    for item in path.items:
        for node in item.items if isinstance(item, Repeat) else (item,):
            if isinstance(node, Node):
                parts.numbers[id(node)] = len(parts.nodes)
                parts.nodes.append(node)
    rest = [*path.conditions, *_deferred(patterns, path)]
    for index, item in enumerate(path.items):
        if isinstance(item, Step):
            before, after = path.items[index - 1], path.items[index + 1]
            assert isinstance(before, Node)
            assert isinstance(after, Node)
            local = {before.variable, item.variable, after.variable}
            inner = [c for c in rest if c.variables <= local and item.variable in c.variables]
            own = [c for c in inner if not (patterns.has_ctes and c.has_subquery)]
            rest = [c for c in rest if not any(c is each for each in own)]
            parts.chains[id(item)] = Chain(len(parts.steps))
            parts.steps.append(_step(context, patterns, path, (before, item, after), own, [item.cost]))
        elif isinstance(item, Repeat):
            _repeat(context, patterns, path, item, parts)
    _check_costs(path)
    if path.selects:
        for condition in rest:
            if not condition.variables <= {path.first.variable, path.last.variable}:
                raise BindError(
                    "a condition inside a pattern that selects paths can compare the elements of one edge, of one "
                    "quantified path, or the first and the last vertex; move it to WHERE after the patterns, which "
                    "applies to the selected paths",
                    span=condition.fragment.span,
                    code="pattern-condition",
                )
    parts.rest = rest
    return parts


def _deferred(patterns: Patterns, path: BoundPath) -> list[Condition]:
    """Return the conditions of single elements that apply after the search, because they can read the query's CTEs.

    Raises:
        BindError: A condition of an element that is bound to a list can read them.
    """
    if not patterns.has_ctes:
        return []
    found = []
    for item in path.items:
        for element in item.items if isinstance(item, Repeat) else (item,):
            for condition in element.conditions:
                if not condition.has_subquery:
                    continue
                if isinstance(item, Repeat):
                    raise BindError(
                        "a subquery in a quantified path cannot read the common table expressions of WITH; write the "
                        "query without WITH, or create a table",
                        span=condition.fragment.span,
                        code="pattern-condition",
                    )
                found.append(condition)
    return found


def _repeat(context: BindContext, patterns: Patterns, path: BoundPath, item: Repeat, parts: Parts) -> None:
    """Add the steps of a repeated part: one per edge, or one chain if its conditions or its cost compare edges."""
    items = item.items
    triples = [_Triple(items[i - 1], each, items[i + 1]) for i, each in enumerate(items) if isinstance(each, Step)]
    rest, own = list(item.conditions), list[list[Condition]]()
    for triple in triples:
        own.append([c for c in rest if c.variables <= triple.variables])
        rest = [c for c in rest if c.variables - triple.variables]
    costs = _costs(patterns, item, triples)
    merged = any(isinstance(a, Node) and isinstance(b, Node) for a, b in pairwise(items))
    if not rest and costs is not None and not merged:
        for triple, conditions, cost in zip(triples, own, costs, strict=True):
            parts.chains[id(triple.step)] = Chain(len(parts.steps))
            free = item.cost is not None and cost is None
            parts.steps.append(_step(context, patterns, path, triple, conditions, [cost], free=free))
        return
    if path.prefix.mode in ("ACYCLIC", "SIMPLE"):
        raise BindError(
            f"a quantified path whose condition compares several edges cannot be {path.prefix.mode}; use TRAIL or WALK",
            span=item.span,
            code="pattern-condition",
        )
    inside = inner_nodes(items)
    parts.chains[id(item)] = Chain(len(parts.steps), tuple(parts.numbers[id(node)] for node in inside))
    every = [item.cost] if item.cost is not None else [step.cost for step in item.steps]
    parts.steps.append(_step(context, patterns, path, items, item.conditions, every, chain=True))


class _Triple(NamedTuple):
    """An edge with the vertices beside it."""

    before: Item
    step: Step
    after: Item

    @property
    def variables(self) -> set[str]:
        return {each.variable for each in self if not isinstance(each, Repeat)}


def _costs(patterns: Patterns, item: Repeat, triples: Sequence[_Triple]) -> list[SqlFragment | None] | None:
    """Return the cost of each edge of a repeated part, or None if a cost compares edges.

    The cost of the part is that of the edge that it refers to, and the other edges are free.
    """
    if item.cost is None:
        return [triple.step.cost for triple in triples]
    read = expression(item.cost, patterns.names).variables
    place = next((i for i, triple in enumerate(triples) if read <= triple.variables), None)
    return None if place is None else [item.cost if i == place else None for i, _ in enumerate(triples)]


def inner_nodes(items: Sequence[Item]) -> list[Node]:
    """Return one node between each two edges of a chain."""
    after_edges = [b for a, b in pairwise(items) if isinstance(a, Step) and isinstance(b, Node)]
    return after_edges[:-1]


def _step(
    context: BindContext,
    patterns: Patterns,
    path: BoundPath,
    items: Sequence[Item],
    conditions: Sequence[Condition],
    costs: Sequence[SqlFragment | None],
    *,
    chain: bool = False,
    free: bool = False,
) -> SearchStep:
    """Return a step: the edges or chains of each combination of types.

    Args:
        context: The binding context.
        patterns: The patterns.
        path: The path pattern.
        items: The vertices and edges of the step.
        conditions: The conditions over several of them.
        costs: The cost of each edge, or of the whole chain.
        chain: Whether the step is a chain, whose query also tests its vertices.
        free: Whether the edges cost nothing, because COST of their part refers to another edge.
    """
    steps = [item for item in items if isinstance(item, Step)]
    # The automaton tests the vertices beside an edge.
    bare = tuple(_bare(patterns, item, tested=isinstance(item, Node) and not chain) for item in items)
    part = BoundPath(None, Prefix(), bare, tuple(conditions), path.span)
    read = [expression(cost, patterns.names) for cost in costs if cost is not None]
    plain = not chain and not conditions and not read and not free and not part.flat[1].conditions
    parts: list[StepPart] = []
    if plain and patterns.graph.snapshot is not None:
        for name in steps[0].types if path.selects else patterns.variable(steps[0].variable).types:
            edge = patterns.graph.edges[name]
            parts += [
                StepPart((edge.name,), (before, after), traversal, None)
                for traversal, before, after in traversals(edge, steps[0])
            ]
    else:
        needed: dict[str, list[str]] = {}
        for each in (*conditions, *read, *(c for item in part.flat for c in item.conditions)):
            for reference in each.references:
                if reference.column is not None:
                    needed.setdefault(reference.variable, []).append(reference.column.identifier.lower())
        for joined in join_paths(_without_others(patterns, part, selects=path.selects), [part], needed):
            parts.append(_part(context, patterns, part, joined, read, free=free))
    inner = tuple(node.variable for node in inner_nodes(items)) if chain else ()
    span = read[0].fragment.span if read else None
    return SearchStep(tuple(step.variable for step in steps), inner, tuple(parts), bool(read) or free, span)


def _bare(patterns: Patterns, item: Item, *, tested: bool) -> Node | Step:
    """Return an element without the conditions that are evaluated elsewhere."""
    assert not isinstance(item, Repeat)
    own = tuple(c for c in item.conditions if not tested and not (patterns.has_ctes and c.has_subquery))
    return replace(item, conditions=own)


def _without_others(patterns: Patterns, part: BoundPath, *, selects: bool) -> Patterns:
    """Return the patterns with the ends of a step unrestricted, because the automaton tests their types.

    With `selects`, the types of its other elements are those of their own labels, without those of other patterns.
    """
    every = tuple(patterns.graph.vertices)
    own = {item.variable: item.types for item in part.flat} if selects else {}
    own |= dict.fromkeys((part.first.variable, part.last.variable), every)
    variables = {n: replace(v, types=own.get(n, v.types)) for n, v in patterns.variables.items()}
    return replace(patterns, variables=variables)


def _check_costs(path: BoundPath) -> None:
    """Raise BindError for a COST that no search compares."""
    if path.prefix.search.kind == "cheapest":
        return
    for item in path.items:
        costs = [item.cost, *(s.cost for s in item.steps)] if isinstance(item, Repeat) else []
        costs += [item.cost] if isinstance(item, Step) else []
        for cost in costs:
            if cost is not None:
                raise BindError(
                    "COST is compared by ANY CHEAPEST; write it before the pattern, or leave COST out",
                    span=cost.span,
                    code="pattern-condition",
                )


def _part(
    context: BindContext,
    patterns: Patterns,
    part: BoundPath,
    joined: Joined,
    costs: Sequence[Expression],
    *,
    free: bool,
) -> StepPart:
    """Return the SELECT of the edges or chains of one combination of types."""
    rewriter = Rewriter(context, patterns, joined.accesses)
    nodes = [item for item in part.items if isinstance(item, Node)]
    chosen = [nodes[0], *inner_nodes(part.items), nodes[-1]]
    edges = [item.variable for item in part.items if isinstance(item, Step)]
    selected, sources, where = list[str](), list[str](), list[str | BoundQuery](joined.where)
    types = []
    for number, node in enumerate(chosen):
        access = joined.accesses[node.variable]
        ((name, key),) = access.keys.items()
        types.append(name)
        alias = quote(f"node {number}")
        sources.append(f"{quote(DENSE_IDS.format(patterns.graph.vertices[name].name))} AS {alias}")
        where += [f"{alias}.k{i} = {value}" for i, value in enumerate(key)]
        selected.append(f"{alias}.dense AS node{number}")
    names = []
    for number, variable in enumerate(edges):
        ((name, key),) = joined.accesses[variable].keys.items()
        edge = patterns.graph.edges[name]
        names.append(edge.name)
        selected.append(f"{key[0]} AS edge{number}")
        time = edge.event_time
        value = "CAST(NULL AS BIGINT)" if time is None else time_expression(time, f"{quote(variable)}.")
        selected.append(f"{value} AS time{number}")
    where += [rewriter.sql(condition) for condition in joined.conditions]
    pieces: list[str | BoundQuery] = []
    for index, cost in enumerate(costs):
        pieces += [" + " if index else ", CAST((", rewriter.sql(cost)]
    if costs:
        pieces.append(") AS DOUBLE) AS cost")
    elif free:
        pieces.append(", CAST(0 AS DOUBLE) AS cost")
    query = compose(
        part.span,
        f"SELECT {', '.join(selected)}",
        *pieces,
        f" FROM {', '.join([*joined.sources, *sources])}",
        *conjunction(where),
    )
    return StepPart(tuple(names), tuple(types), "right", with_views(patterns.graph, query, part.span))

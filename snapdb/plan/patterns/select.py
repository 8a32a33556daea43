"""GRAPH_TABLE as a subquery: joins for path patterns of fixed length, path searches for the others, then COLUMNS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from snapdb.errors import Span
from snapdb.plan.patterns.access import Access, same
from snapdb.plan.patterns.expressions import PathAccess, Rewriter
from snapdb.plan.patterns.graphs import open_graph, with_views
from snapdb.plan.patterns.joins import hops, join_paths
from snapdb.plan.patterns.lists import alternating, listed
from snapdb.plan.patterns.narrowing import narrow_types
from snapdb.plan.patterns.needs import Needs, needs_of, path_functions
from snapdb.plan.patterns.paths import BoundPath, Node, Patterns, bind_paths
from snapdb.plan.patterns.references import Expression, expression
from snapdb.plan.patterns.relations import SearchRelation
from snapdb.plan.patterns.rows import PerElement, bind_rows, exposed_access
from snapdb.plan.patterns.searches import search_relation
from snapdb.plan.patterns.unions import union_of
from snapdb.plan.queries import BoundQuery, compose, conjunction
from snapdb.plan.scope import BindContext
from snapdb.sql.patterns import GraphTable
from snapdb.sql_engine import quote

_MATCHES = quote("matches")
"""The alias of the matches under ONE ROW PER VERTEX or STEP."""


def bind_graph_table(context: BindContext, table: GraphTable, *, has_ctes: bool = False) -> BoundQuery:
    """Return a GRAPH_TABLE as a subquery in parentheses.

    Args:
        context: The binding context.
        table: The GRAPH_TABLE.
        has_ctes: Whether the query has common table expressions. Searches, which run queries of their own, do not see
            them.

    Raises:
        BindError: A graph, label, variable or property does not exist, or a clause does not fit the pattern.
    """
    graph = open_graph(context, table)
    patterns = bind_paths(graph, table)
    patterns.has_ctes = has_ctes
    for path in patterns.paths:
        narrow_types(patterns, path)
    rows = bind_rows(patterns, table.rows)
    where = None if table.where is None else expression(table.where, patterns.variables)
    columns = expression(table.columns, patterns.variables)
    matches = _matches(context, patterns, needs_of(patterns, columns, where, rows))
    if where is not None:
        matches.where.append(matches.rewriter(context, patterns).sql(where))
    if rows is None:
        selected = matches.rewriter(context, patterns).sql(columns, selected=True)
        query = matches.select(selected, table.span)
    else:
        query = _per_element(context, patterns, matches, rows, columns, table.span)
    searches = [relation.named() for relation in matches.searches]
    return compose(table.span, with_views(graph, query, table.span), *searches)


@dataclass(slots=True)
class _Matches:
    """FROM and WHERE of the matches, and how expressions refer to their elements."""

    needs: Needs
    sources: list[str | BoundQuery] = field(default_factory=list)
    where: list[str | BoundQuery] = field(default_factory=list)
    accesses: dict[str, Access] = field(default_factory=dict)
    paths: dict[str, PathAccess] = field(default_factory=dict)
    searches: list[SearchRelation] = field(default_factory=list)

    def rewriter(self, context: BindContext, patterns: Patterns) -> Rewriter:
        """Return the rewriter of expressions over the matches."""
        return Rewriter(context, patterns, self.accesses, self.paths, self.aggregate)

    def aggregate(self, variable: str, call: Expression, first: int, last: int) -> str:
        """Return the SQL of an aggregate over a group variable, whose values the search's FROM item computes."""
        relation = next(r for r in self.searches if any(variable == item.variable for item in r.bound.flat))
        return relation.aggregate(variable, call, first, last)

    def select(self, columns: BoundQuery, span: Span) -> BoundQuery:
        """Return a subquery of columns over the matches, once all expressions are rewritten."""
        shared = [relation.materialized() for relation in self.searches if relation.groups]
        parts: list[str | BoundQuery] = [f"WITH {', '.join(shared)} " if shared else "", "SELECT ", columns, " FROM "]
        for index, source in enumerate([*self.sources, *map(self._searched, self.searches)]):
            parts += [", " if index else "", source]
        return compose(span, "(", *parts, *conjunction(self.where), ")")

    def _searched(self, relation: SearchRelation) -> BoundQuery:
        """Return the FROM item of a search, with the views of the variables that no other pattern binds."""
        own = relation.accesses(self.needs.columns)
        needed = {v: columns for v, columns in self.needs.columns.items() if v in own and v in relation.binds}
        return relation.joined(needed)


def _matches(context: BindContext, patterns: Patterns, needs: Needs) -> _Matches:
    """Return the matches of all path patterns."""
    matches, restricted = _Matches(needs), dict[str, BoundQuery]()
    joined = [path for path in patterns.paths if path.joined]
    if joined:
        combined = join_paths(patterns, joined, needs.columns)
        if len(combined) == 1:
            (one,) = combined
            matches.sources += one.sources
            matches.accesses |= one.accesses
            rewriter = Rewriter(context, patterns, one.accesses)
            matches.where += [*one.where, *(rewriter.sql(condition) for condition in one.conditions)]
            restricted = _restricted(patterns, matches, joined)
        else:
            source, accesses = union_of(context, patterns, combined, joined, needs.columns)
            matches.sources.append(source)
            matches.accesses |= accesses
    for path in patterns.paths:
        if path.joined:
            _add_path(matches, path)
        else:
            _add_search(context, patterns, matches, path, restricted)
    return matches


def _restricted(patterns: Patterns, matches: _Matches, joined: Sequence[BoundPath]) -> dict[str, BoundQuery]:
    """Return the keys of each vertex that the joined patterns bind, to restrict the searches that bind it too."""
    bound = {item.variable for path in joined for item in path.items if isinstance(item, Node)}
    searched = [path for path in patterns.paths if not path.joined]
    restricted = {}
    for name in bound & {item.variable for path in searched for item in path.items if isinstance(item, Node)}:
        ((_, key),) = matches.accesses[name].keys.items()
        text = f"SELECT DISTINCT {', '.join(key)} FROM {', '.join(map(str, matches.sources))}"
        query = compose(joined[0].span, text, *conjunction(matches.where))
        restricted[name] = with_views(patterns.graph, query, joined[0].span)
    return restricted


def _add_path(matches: _Matches, path: BoundPath) -> None:
    """Add the expressions of a joined path pattern's variable."""
    if path.variable is not None:
        nodes, edges = _elements(matches, path)
        matches.paths[path.variable.text.lower()] = PathAccess(
            str(len(edges)), listed(nodes), listed(edges), alternating(nodes, edges)
        )


def _elements(matches: _Matches, path: BoundPath) -> tuple[list[Access], list[Access]]:
    """Return the accesses to the vertices and edges of a joined path pattern, in order."""
    every = list(hops(path))
    nodes = [matches.accesses[path.first.variable], *(matches.accesses[hop.target] for hop in every)]
    return nodes, [matches.accesses[hop.edge] for hop in every]


def _add_search(
    context: BindContext, patterns: Patterns, matches: _Matches, path: BoundPath, restricted: dict[str, BoundQuery]
) -> None:
    """Add a path search, joined with the patterns before it through their common variables."""
    relation = search_relation(context, patterns, path, matches.needs, f"paths {path.span.start}", restricted)
    matches.searches.append(relation)
    accesses = relation.accesses(matches.needs.columns)
    for name, access in accesses.items():
        if name in matches.accesses:
            matches.where.append(same(matches.accesses[name], access))
        else:
            matches.accesses[name] = access
            relation.binds.add(name)
    if relation.conditions:  # they can read columns of variables that an earlier pattern binds
        relation.binds |= accesses.keys()
    if path.variable is not None:
        matches.paths[path.variable.text.lower()] = relation.path
    paths = {} if path.variable is None else {path.variable.text.lower(): relation.path}
    rewriter = Rewriter(context, patterns, accesses, paths, matches.aggregate)
    matches.where += [rewriter.sql(condition) for condition in relation.conditions]


def _per_element(
    context: BindContext, patterns: Patterns, matches: _Matches, rows: PerElement, columns: Expression, span: Span
) -> BoundQuery:
    """Return one row per vertex or step: the matches with the lists of their paths, unnested."""
    values: dict[str, str] = {}

    def exposed(sql: str) -> str:
        return values.setdefault(sql, f"{_MATCHES}.value{len(values)}")

    functions = path_functions([columns])
    rewriter = Rewriter(
        context,
        patterns,
        {
            **{name: exposed_access(access, exposed) for name, access in matches.accesses.items()},
            **rows.accesses(patterns),
        },
        {name: path.exposed(exposed, functions) for name, path in matches.paths.items()},
        lambda *call: exposed(matches.aggregate(*call)),
        rows.numbers,
        f"{_MATCHES}.match_number",
    )
    selected = rewriter.sql(columns, selected=True)
    shown = ["row_number() OVER () AS match_number"]
    for number, path in enumerate(rows.paths):
        vertices, edges = _lists(patterns, matches, rows, path)
        shown += [f"{vertices} AS {quote(f'vertices {number}')}", f"{edges} AS {quote(f'edges {number}')}"]
    shown += [f"{sql} AS {name.removeprefix(f'{_MATCHES}.')}" for sql, name in values.items()]
    inside = matches.select(BoundQuery(", ".join(shown), span), span)
    after = f" AS {_MATCHES}, {rows.lateral(_MATCHES)}{rows.joins(patterns, matches.needs.columns)})"
    return compose(span, "(SELECT ", selected, " FROM ", inside, after)


def _lists(patterns: Patterns, matches: _Matches, rows: PerElement, path: BoundPath) -> tuple[str, str]:
    """Return the lists of a path's vertices and edges, with the types of the clause's variables."""
    relation = next((r for r in matches.searches if r.bound is path), None)
    if relation is not None:
        return relation.path.vertices, relation.path.edges
    nodes, edges = _elements(matches, path)
    vertex_types = {name: patterns.graph.vertices[name] for name in rows.vertices}
    edge_types = {name: patterns.graph.edges[name] for name in rows.edges}
    return listed(nodes, vertex_types), listed(edges, edge_types)

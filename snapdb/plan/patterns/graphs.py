"""The graph of a GRAPH_TABLE: its vertex and edge types with their columns, as views of one snapshot or version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from snapdb.catalog.elements import element_columns, shown_rows, snapshot_rows
from snapdb.errors import BindError, SnapdbError, Span
from snapdb.plan.names import find_named
from snapdb.plan.queries import BoundQuery, compose
from snapdb.plan.scope import BindContext
from snapdb.plan.views import View
from snapdb.sql.patterns import GraphTable, Label
from snapdb.sql.syntax import Name
from snapdb.sql_engine import Names, quote
from snapdb.storage.tables.segments import check_table
from snapdb.types import ALL_TIME, Column, EdgeElement, PropertyGraph, Snapshot, Table, TimeUnit, VertexElement
from snapdb.types.text import did_you_mean

_FIRST = "full"


@dataclass(frozen=True, slots=True, eq=False)
class ElementType:
    """A vertex or edge type, as a view."""

    element: VertexElement | EdgeElement
    relation: str
    """The quoted name of the view."""
    columns: tuple[Column, ...]
    """The columns of the view. An edge type has e_id."""

    @property
    def name(self) -> str:
        return self.element.name

    def column(self, name: str) -> Column | None:
        """Return the column with this name, ignoring case, or None."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)

    def typed(self, names: Iterable[str]) -> tuple[Column, ...]:
        """Return columns that exist, by name."""
        columns = tuple(self.column(name) for name in names)
        assert all(column is not None for column in columns)
        return columns  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, eq=False)
class VertexType(ElementType):
    """A vertex type."""

    element: VertexElement

    @property
    def key(self) -> tuple[Column, ...]:
        """The columns of the key."""
        return self.typed(self.element.key)


@dataclass(frozen=True, slots=True, eq=False)
class EdgeType(ElementType):
    """An edge type."""

    element: EdgeElement

    @property
    def event_time(self) -> Column | None:
        """The column with the event time, or None."""
        return None if self.element.event_time is None else self.column(self.element.event_time)


Kind: TypeAlias = Literal["vertex", "edge"]


@dataclass(frozen=True, slots=True, eq=False)
class PatternGraph:
    """The graph of a GRAPH_TABLE."""

    name: str
    graph: PropertyGraph
    schema: str
    """The schema of the views."""
    views: Mapping[str, View]
    """The name of each element → its view."""
    vertices: Mapping[str, VertexType]
    """Vertex types by case-folded name."""
    edges: Mapping[str, EdgeType]
    """Edge types by case-folded name."""
    snapshot: Snapshot | None
    """The snapshot, or None for the tables of a property graph."""
    unit: TimeUnit | None
    """The unit of event times, or None without event times."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The number of rows of each element's table, by case-folded name."""

    def of_kind(self, kind: Kind) -> Mapping[str, VertexType] | Mapping[str, EdgeType]:
        """Return the vertex types, or the edge types, by case-folded name."""
        return self.vertices if kind == "vertex" else self.edges

    def labelled(self, kind: Kind, label: Label | None) -> tuple[str, ...]:
        """Return the case-folded names of the types that satisfy a label expression, in graph order.

        Raises:
            BindError: The graph has no element of this kind with one of the labels.
        """
        types = self.of_kind(kind)
        if label is None:
            return tuple(types)
        denoted = {name.text.lower(): self._denoted(kind, name) for name in label.names()}
        return tuple(
            name
            for name in types
            if label.holds(frozenset(label for label, elements in denoted.items() if name in elements))
        )

    def _denoted(self, kind: Kind, name: Name) -> set[str]:
        types = self.of_kind(kind)
        denoted = {e.name.lower() for e in self.graph.labelled(name.text)}
        if denoted & types.keys():
            return denoted
        labels = [label for t in types.values() for label in (t.name, *t.element.labels)]
        listed = ", ".join(dict.fromkeys(labels))
        hint = did_you_mean(name.text, labels) or (f"; its {kind} labels are {listed}" if labels else "; it has none")
        if denoted:
            hint = (
                f"; it is the label of an edge, -[e:{name}]-" if kind == "vertex" else f"; it is a vertex, (a:{name})"
            )
        raise BindError(f'graph {self.name} has no {kind} label "{name}"{hint}', span=name.span, code="unknown-label")


def open_graph(context: BindContext, table: GraphTable) -> PatternGraph:
    """Return the graph that a GRAPH_TABLE names: a snapshot, or the tables of a property graph at a version.

    Raises:
        BindError: There is no snapshot or graph with this name, or AT follows the name of a snapshot.
    """
    name, catalog = table.graph, context.catalog
    if (snapshot := catalog.snapshots.get(name.text.lower())) is not None:
        if table.at is not None:
            raise BindError(
                f"{name} is a snapshot, which is pinned to its version; leave AT out, or name its graph "
                f"{snapshot.graph.name}",
                span=table.at.span,
                code="misplaced-at",
            )
        tables = context.tables_under(snapshot)
        views = context.elements(snapshot)
        return _opened(name.text, snapshot.graph, snapshot.name, views, tables, snapshot)
    if name.text.lower() not in catalog.graphs:
        known = [*(s.name for s in catalog.snapshots.values()), *(g.name for g in catalog.graphs.values())]
        hint = did_you_mean(name.text, known)
        kind = catalog.kind_of(name.text)
        if kind is not None:
            hint = f'; "{name}" is a {kind}'
        elif not hint:
            hint = f"; available: {', '.join(known[:8])}" if known else "; create one with CREATE PROPERTY GRAPH"
        raise BindError(
            f'snapshot or property graph "{name}" does not exist{hint}', span=name.span, code="unknown-graph"
        )
    graph = find_named(catalog.graph, name)
    schema, tables = f"snapdb graph {graph.name}", dict[str, Table]()
    if table.at is not None:
        version = context.resolve_version(table.at)
        schema += f" {version}"
        try:
            tables = {e.table.lower(): context.table_at(e.table, version) for e in graph.elements}
        except SnapdbError as error:
            error.span = table.at.span
            raise
    else:
        # The rows of a view are those that the last snapshot of the graph stored.
        tables = {e.table.lower(): catalog.tables[e.table.lower()] for e in graph.elements}
    return _opened(name.text, graph, schema, _graph_views(context, graph, tables), tables, None)


def _graph_views(context: BindContext, graph: PropertyGraph, tables: Mapping[str, Table]) -> dict[str, View]:
    """Return the elements of a graph over the given tables as views."""
    db_dir = context.store.db_dir
    # The rows of a graph without filters and without an event-time window are those of a snapshot of all times.
    whole = Snapshot(0, graph.name, graph, 0, ALL_TIME, None, (), _FIRST, 0, 0, 0, 0, "")
    rows = snapshot_rows(whole, tables, db_dir.path)
    for table in {table.id: table for each in rows.values() for table in each.tables}.values():
        check_table(db_dir, table)
    return {e.name: View(shown_rows(rows[e.name]), element_columns(e, tables[e.table.lower()])) for e in graph.elements}


def _opened(
    name: str,
    graph: PropertyGraph,
    schema: str,
    views: Mapping[str, View],
    tables: Mapping[str, Table],
    snapshot: Snapshot | None,
) -> PatternGraph:
    def relation(element: VertexElement | EdgeElement) -> str:
        return f"{quote(schema)}.{quote(element.name)}"

    def shown(element: VertexElement | EdgeElement) -> tuple[Column, ...]:
        return element_columns(element, tables[element.table.lower()])

    vertices = {v.name.lower(): VertexType(v, relation(v), shown(v)) for v in graph.vertices}
    edges = {e.name.lower(): EdgeType(e, relation(e), shown(e)) for e in graph.edges}
    counts = {e.name.lower(): tables[e.table.lower()].rows for e in graph.elements}
    times = [e.event_time for e in edges.values() if e.event_time is not None]
    unit: TimeUnit | None = None
    if times:
        unit = "timestamp" if times[0].type.startswith(("TIMESTAMP", "DATE")) else "integer"
    return PatternGraph(name, graph, schema, views, vertices, edges, snapshot, unit, counts)


def with_views(graph: PatternGraph, query: BoundQuery, span: Span) -> BoundQuery:
    """Return a query with the views of the elements that its text mentions."""
    elements = (*graph.vertices.values(), *graph.edges.values())
    named = {e.name: graph.views[e.name] for e in elements if e.relation in query.text}
    full = Names(schemas={graph.schema: {n: view.sql for n, view in named.items() if view.sql is not None}})
    bare = Names(schemas={graph.schema: {n: view.shape for n, view in named.items()}}, lasting=True)
    return compose(span, query, BoundQuery("", span, full, bare))

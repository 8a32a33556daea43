"""CREATE SNAPSHOT: the version, the window of event time and the filters, resolved once and for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from snapdb.errors import BindError, Span
from snapdb.plan.asked import written
from snapdb.plan.bind_window import bind_window, event_unit
from snapdb.plan.fits import misfits
from snapdb.plan.moments import resolve_version
from snapdb.plan.names import check_new, find_graph
from snapdb.plan.plan import NothingPlan, Plan
from snapdb.plan.repeatable import check_repeatable
from snapdb.plan.scope import Context
from snapdb.plan.snapshots import CreateSnapshotPlan
from snapdb.relational import Conjunct, Names, Session, conjuncts, no_rows, quote, quote_all
from snapdb.sql.ast import CreateSnapshot, Island, Name, WindowBound
from snapdb.sql.tokens import scan, string_value
from snapdb.sql.travel import bare_ats
from snapdb.types import ALL_TIME, Column, EdgeElement, Filter, Pin, PropertyGraph, Table, VertexElement
from snapdb.types.text import did_you_mean


def bind_create_snapshot(statement: CreateSnapshot, context: Context) -> Plan:
    """A pinned snapshot: nothing in it is relative to now any more, but its pin tells what was."""
    replacing = ("snapshot",) if statement.or_replace or statement.if_not_exists else ()
    exists = check_new(context.catalog, statement.name, replacing) is not None
    if exists and statement.if_not_exists:
        return NothingPlan(f'there is a snapshot "{statement.name}" already')
    graph = _reduced(find_graph(context, statement.graph), statement.elements)
    version = context.catalog.version if statement.at is None else resolve_version(context, statement.at)
    tables = _check_tables(context, graph, version, statement)
    bound = statement.event_time
    unit = event_unit(graph, tables, None if bound is None else bound.span)
    window = ALL_TIME if bound is None else bind_window(context, bound, unit, graph, tables)
    filters = _filters(context, graph, tables, statement.where) if statement.where else ()
    return CreateSnapshotPlan(
        name=statement.name.text,
        graph=graph,
        version=version,
        tables=tables,
        window=window,
        unit=unit,
        filters=filters,
        replaces=context.catalog.snapshots.get(statement.name.text.lower()),
        pin=_pin(statement),
        layout=None if statement.layout is None else statement.layout.form,
    )


def _reduced(graph: PropertyGraph, elements: Sequence[Name]) -> PropertyGraph:
    """The graph with only these elements, and the vertex types that its edges end in."""
    if not elements:
        return graph
    wanted: set[str] = set()
    for name in elements:
        meant = graph.labelled(name.text)
        if not meant:
            known = [said for e in graph.elements for said in (e.name, *e.labels)]
            hint = did_you_mean(name.text, known) or f"; it has {', '.join(known)}"
            raise BindError(f'no element "{name}" in graph {graph.name}{hint}', span=name.span, code="unknown-element")
        for element in meant:
            ends = {element.source, element.destination} if isinstance(element, EdgeElement) else set()
            wanted |= {element.name, *ends}
    return replace(
        graph,
        vertices=tuple(v for v in graph.vertices if v.name in wanted),
        edges=tuple(e for e in graph.edges if e.name in wanted),
    )


def _check_tables(
    context: Context, graph: PropertyGraph, version: int, statement: CreateSnapshot
) -> Mapping[str, Table]:
    """The tables at the version, when they fit the graph."""
    tables = context.tables_at(version)
    if problem := next(misfits(graph, tables), None):
        raise BindError(
            f"version {version} does not fit graph {graph.name}: {problem}; take a version that fits, or "
            "create the graph anew",
            span=statement.at.span if statement.at else statement.graph.span,
            code="does-not-fit",
        )
    return tables


def _pin(statement: CreateSnapshot) -> Pin:
    """What REFRESH resolves again: the version without AT or by a tag, a window that ends at the latest event."""
    at, bound = statement.at, statement.event_time
    tag = string_value(scan(at.value.text)[0]) if at is not None and at.kind == "TAG" else None
    trails = isinstance(bound, WindowBound) and bound.ending is None
    length = bound.length.text if isinstance(bound, WindowBound) and trails else None
    return Pin(at is None, tag, length)


def element_shapes(graph: PropertyGraph, tables: Mapping[str, Table]) -> Names:
    """Every element of a graph with its columns, and no rows."""
    views = {e.name: no_rows(_columns(e, tables[e.table.lower()])) for e in graph.elements}
    return Names(views, lasting=True)


def _columns(element: VertexElement | EdgeElement, table: Table) -> tuple[Column, ...]:
    """What a condition can name: a graph's PROPERTIES only choose what is shown."""
    return (*table.columns, Column("e_id", "BIGINT")) if isinstance(element, EdgeElement) else table.columns


def check_filters(session: Session, filters: Sequence[Filter]) -> None:
    """Nothing when the conditions can be read in the form in which they are kept, from `element_shapes`."""
    selects = (f"SELECT 1 FROM {quote(f.element)} WHERE {f.condition}" for f in filters)
    session.describe("\nUNION ALL ".join(selects))


def _filters(context: Context, graph: PropertyGraph, tables: Mapping[str, Table], where: Island) -> tuple[Filter, ...]:
    """The parts of a condition, each given to the one element whose columns it names."""
    shapes = element_shapes(graph, tables)
    asked = written(where, shapes, replacements=[(span, '"at"') for span in bare_ats(where.text)])
    with context.session(asked) as session:
        check_repeatable(context.relational, where, "what a snapshot holds must not change")
        session.describe(asked.text, around=(f"SELECT 1 FROM {quote_all(shapes.views)} WHERE (", ")"))
        columns = {e.name: {c.name.lower() for c in _columns(e, tables[e.table.lower()])} for e in graph.elements}
        found = tuple(_filter(part, columns, where.span) for part in conjuncts(session, asked.text))
        check_filters(session, found)  # in the form in which they will be read ever after
        return found


def _owner(parts: tuple[str, ...], columns: Mapping[str, set[str]]) -> str | None:
    """The element whose column, or whole row, a reference names; None for what is no column: a lambda's parameter."""
    names = [name.lower() for name in parts]
    for name in names[:-1] or names:
        if owner := next((element for element in columns if element.lower() == name), None):
            return owner
    return next((element for element, known in columns.items() if names[0] in known), None)


def _filter(part: Conjunct, columns: Mapping[str, set[str]], span: Span) -> Filter:
    condition = part.sql
    try:
        named = part.references
    except BindError as error:
        error.span = span
        raise
    owners = {owner for parts in named if (owner := _owner(parts, columns)) is not None}
    if len(owners) != 1:
        found = f"{condition} speaks of {' and '.join(sorted(owners))}" if owners else f"{condition} names no column"
        raise BindError(
            f"each part of WHERE that AND joins is about one element; {found}", span=span, code="mixed-condition"
        )
    return Filter(owners.pop(), condition)

"""CREATE PROPERTY GRAPH: tables, keys, times, features and targets, checked against the tables at the head."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.errors import BindError
from snapdb.plan.bind_features import bind_features
from snapdb.plan.bind_keys import bind_end, check_ends, key_column, vertex_key
from snapdb.plan.bind_labels import bind_labels, bind_properties, check_shown
from snapdb.plan.fits import graph_times, is_target, is_text, is_weight, time_unit
from snapdb.plan.graphs import CreateGraphPlan
from snapdb.plan.names import check_new, find_column, find_event_time, find_table
from snapdb.plan.plan import NothingPlan, Plan
from snapdb.plan.scope import Context
from snapdb.sql.ast import ClassesClause, CreateGraph, EdgeClause, EventTime, Name, VertexClause
from snapdb.types import EdgeElement, PropertyGraph, Table, VertexElement


def bind_create_graph(statement: CreateGraph, context: Context) -> Plan:
    """A definition in which every name is there and every type fits."""
    replacing = ("graph",) if statement.or_replace or statement.if_not_exists else ()
    exists = check_new(context.catalog, statement.name, replacing) is not None
    if exists and statement.if_not_exists:
        return NothingPlan(f'there is a graph "{statement.name}" already')
    vertices = tuple(_vertex(context, clause, vertex_key(statement, clause)) for clause in statement.vertices)
    graph = PropertyGraph(statement.name.text, vertices, ())
    edges = tuple(_edge(context, graph, clause) for clause in statement.edges)
    aliases = [v.alias or v.table for v in statement.vertices] + [e.alias or e.table for e in statement.edges]
    _check_unique(aliases, "the graph has two elements called {}; give one another name with AS")
    graph = PropertyGraph(statement.name.text, vertices, edges)
    _check_histories(context, statement, graph)
    return CreateGraphPlan(graph, replaces=exists)


def _vertex(context: Context, clause: VertexClause, key_names: Sequence[Name]) -> VertexElement:
    table = find_table(context, clause.table)
    key = [key_column(table, name) for name in key_names]
    _check_unique(key_names, "column {} is named twice")
    target = _target(table, clause.target)
    element = VertexElement(
        name=str(clause.alias or table.name),
        table=table.name,
        key=tuple(c.name for c in key),
        features=bind_features(context, table, clause.features, "x", key),
        target=target,
        on_duplicate=clause.on_duplicate,
        event_time=time[0] if (time := _event_time(table, clause.event_time)) else None,
        nulls_static=clause.event_time is not None and clause.event_time.nulls_static,
        labels=bind_labels(clause),
        properties=bind_properties(table, clause),
        classes=_classes(table, target, clause.classes),
    )
    check_shown(element, table, clause)
    return element


def _edge(context: Context, graph: PropertyGraph, clause: EdgeClause) -> EdgeElement:
    table = find_table(context, clause.table)
    if taken := table.column("e_id"):
        raise BindError(
            f'edge table {table.name} has a column "{taken.name}", a name that snapshots need; rename it',
            span=clause.table.span,
            code="reserved-name",
        )
    for name in clause.key:
        find_column(table, name)
    check_ends(clause)
    source, source_key = bind_end(context, graph, table, clause.source_key, clause.source, clause.source_columns)
    destination, destination_key = bind_end(
        context, graph, table, clause.destination_key, clause.destination, clause.destination_columns
    )
    start, end = (*_event_time(table, clause.event_time), None, None)[:2]
    element = EdgeElement(
        name=str(clause.alias or table.name),
        table=table.name,
        source_key=source_key,
        source=source,
        destination_key=destination_key,
        destination=destination,
        event_time=start,
        weight=_weight(table, clause.weight),
        features=bind_features(context, table, clause.features, "edge_attr", None),
        on_dangling=clause.on_dangling,
        event_end=end,
        nulls_static=clause.event_time is not None and clause.event_time.nulls_static,
        labels=bind_labels(clause),
        properties=bind_properties(table, clause),
    )
    check_shown(element, table, clause)
    return element


def _target(table: Table, name: Name | None) -> str | None:
    if name is None:
        return None
    column = find_column(table, name)
    if not is_target(column.type):
        raise BindError(
            f'column "{column.name}" of type {column.type} cannot be TARGET, which is a number or a string',
            span=name.span,
            code="column-type",
        )
    return column.name


def _classes(table: Table, target: str | None, clause: ClassesClause | None) -> tuple[str, ...] | None:
    """The classes that are declared of a target that is text, each once."""
    if clause is None or target is None:
        return None
    column = table.column(target)
    if column is not None and not is_text(column.type):
        raise BindError(
            f'CLASSES declares the codes of a text, and column "{column.name}" is {column.type}: a number '
            "is its own code; leave CLASSES out",
            span=clause.span,
            code="column-type",
        )
    if twice := next((value for i, value in enumerate(clause.values) if value in clause.values[:i]), None):
        raise BindError(f"CLASSES names {twice!r} twice; keep one", span=clause.span, code="duplicate-name")
    return clause.values


def _event_time(table: Table, clause: EventTime | None) -> tuple[str, ...]:
    """The column of event times, and of ends; of one kind, so that they can be compared."""
    if clause is None:
        return ()
    columns = [find_event_time(table, name) for name in clause.columns]
    if len(columns) == 2:
        start, end = columns
        place = clause.columns[1].span
        if start == end:
            raise BindError(
                f'column "{end.name}" is named twice: an edge would end when it begins',
                span=place,
                code="duplicate-name",
            )
        if time_unit(start.type) != time_unit(end.type):
            raise BindError(
                f'"{start.name}" is {start.type}, but "{end.name}" is {end.type}: an edge begins and ends '
                "in times of one kind; cast one of them when loading",
                span=place,
                code="mixed-times",
            )
    return tuple(column.name for column in columns)


def _check_histories(context: Context, statement: CreateGraph, graph: PropertyGraph) -> None:
    """Nothing when the times of histories can be compared with the graph's, and with each other's."""
    known = {unit: name for name, _, unit in graph_times(graph, context.catalog.tables, histories=False)}
    for vertex in statement.vertices:
        for history in (clause.history for clause in vertex.features if clause.history is not None):
            unit = time_unit(find_event_time(find_table(context, history.table), history.event_time).type)
            if known and unit not in known:
                other, owner = next(iter(known.items()))
                raise BindError(
                    f"event times differ in kind: {owner} has {other}s, the history {history.table} has "
                    f"{unit}s; load one in the other's kind",
                    span=history.event_time.span,
                    code="mixed-times",
                )
            known.setdefault(unit, history.table.text)


def _weight(table: Table, name: Name | None) -> str | None:
    if name is None:
        return None
    column = find_column(table, name)
    if not is_weight(column.type):
        raise BindError(
            f'column "{column.name}" of type {column.type} cannot be WEIGHT, which is a number',
            span=name.span,
            code="column-type",
        )
    return column.name


def _check_unique(names: Sequence[Name], complaint: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name.text.lower() in seen:
            raise BindError(complaint.format(f'"{name}"'), span=name.span, code="duplicate-name")
        seen.add(name.text.lower())

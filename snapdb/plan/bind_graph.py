"""CREATE PROPERTY GRAPH: tables, keys, times, features and targets, checked against the tables at the head."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snapdb.errors import BindError
from snapdb.plan.fits import is_event_time, is_key, is_target, is_weight, key_family
from snapdb.plan.logical import CreateGraphPlan, NothingPlan, Plan
from snapdb.plan.names import check_new, find_column, find_table
from snapdb.plan.scope import Context
from snapdb.sql.ast import CreateGraph, EdgeClause, FeatureClause, Name, VertexClause
from snapdb.storage.features import is_feature_type
from snapdb.types import Column, EdgeElement, FeatureSpec, PropertyGraph, Table, VertexElement
from snapdb.types.suggest import did_you_mean

__all__ = ["bind_create_graph"]

_RESERVED_FEATURES = frozenset(
    ("batch", "batch_size", "e_id", "edge_index", "edge_time", "edge_weight", "input_id", "n_id", "num_nodes",
     "num_sampled_edges", "num_sampled_nodes", "y")
)  # fmt: skip
"""Names that a batch gives to other things."""


def bind_create_graph(statement: CreateGraph, context: Context) -> Plan:
    """A definition in which every name is there and every type fits."""
    replacing = ("graph",) if statement.or_replace or statement.if_not_exists else ()
    exists = check_new(context.catalog, statement.name, replacing) is not None
    if exists and statement.if_not_exists:
        return NothingPlan(f'there is a graph "{statement.name}" already')
    vertices = tuple(_vertex(context, clause) for clause in statement.vertices)
    graph = PropertyGraph(statement.name.text, vertices, ())
    edges = tuple(_edge(context, graph, clause) for clause in statement.edges)
    aliases = [v.alias or v.table for v in statement.vertices] + [e.alias or e.table for e in statement.edges]
    _check_unique(aliases, "the graph has two elements called {}; give one another name with AS")
    return CreateGraphPlan(PropertyGraph(statement.name.text, vertices, edges), replaces=exists)


def _vertex(context: Context, clause: VertexClause) -> VertexElement:
    table = find_table(context, clause.table)
    key = [_key_column(table, name) for name in clause.key]
    _check_unique(clause.key, "column {} is named twice")
    target = _target(table, clause.target)
    return VertexElement(
        name=str(clause.alias or table.name),
        table=table.name,
        key=tuple(c.name for c in key),
        features=_features(table, clause.features, "x"),
        target=target,
        on_duplicate=clause.on_duplicate,
    )


def _edge(context: Context, graph: PropertyGraph, clause: EdgeClause) -> EdgeElement:
    table = find_table(context, clause.table)
    if taken := table.column("e_id"):
        raise BindError(f'edge table {table.name} has a column "{taken.name}", a name that snapshots need; rename it',
                        span=clause.table.span)  # fmt: skip
    source, source_key = _end(context, graph, table, clause.source_key, clause.source, clause.source_columns)
    destination, destination_key = _end(
        context, graph, table, clause.destination_key, clause.destination, clause.destination_columns
    )
    return EdgeElement(
        name=str(clause.alias or table.name),
        table=table.name,
        source_key=source_key,
        source=source,
        destination_key=destination_key,
        destination=destination,
        event_time=_event_time(table, clause.event_time),
        weight=_weight(table, clause.weight),
        features=_features(table, clause.features, "edge_attr"),
        on_dangling=clause.on_dangling,
    )


def _end(
    context: Context, graph: PropertyGraph, table: Table, key: Sequence[Name], name: Name, named: Sequence[Name]
) -> tuple[str, tuple[str, ...]]:
    """One end of an edge: the vertex type's name, and the edge table's columns in the order of its key."""
    vertex = graph.vertex(name.text)
    if vertex is None:
        known = [v.name for v in graph.vertices]
        hint = did_you_mean(name.text, known) or f"; the graph has {', '.join(known)}"
        raise BindError(f'no vertex type "{name}" in graph {graph.name}{hint}', span=name.span, code="unknown-type")
    vertices = context.catalog.table(vertex.table)
    columns = [_key_column(table, column) for column in key]
    wanted = [find_column(vertices, n).name for n in named] or list(vertex.key)
    if sorted(wanted) != sorted(vertex.key) or len(columns) != len(wanted):
        keys = ", ".join(vertex.key)
        raise BindError(f"{vertex.name} has KEY ({keys}); {table.name} must refer to just these columns",
                        span=(named or key)[0].span)  # fmt: skip
    pairs = dict(zip(wanted, columns, strict=True))
    for (referred, column), place in zip(pairs.items(), key, strict=True):
        there = vertices.column(referred)
        assert there is not None
        if key_family(there.type) != key_family(column.type):
            differ = f"{table.name}.{column.name} is {column.type}, but {vertices.name}.{referred} is {there.type}"
            raise BindError(f"{differ}; cast one of them when loading", span=place.span)
    return vertex.name, tuple(pairs[k].name for k in vertex.key)


def _key_column(table: Table, name: Name) -> Column:
    column = find_column(table, name)
    if not is_key(column.type):
        raise BindError(f'column "{column.name}" of type {column.type} cannot be a key; '
                        "keys are integers, strings, UUIDs, dates, timestamps or decimals", span=name.span)  # fmt: skip
    return column


def _target(table: Table, name: Name | None) -> str | None:
    if name is None:
        return None
    column = find_column(table, name)
    if not is_target(column.type):
        raise BindError(f'column "{column.name}" of type {column.type} cannot be TARGET, which is a number or a string',
                        span=name.span)  # fmt: skip
    return column.name


def _event_time(table: Table, name: Name | None) -> str | None:
    if name is None:
        return None
    column = find_column(table, name)
    if not is_event_time(column.type):
        wanted = f"CAST({column.name} AS TIMESTAMP)"
        if column.type in ("DOUBLE", "FLOAT"):
            wanted = f"to_timestamp({column.name})"
        raise BindError(f'column "{column.name}" of type {column.type} cannot be EVENT TIME, which is a timestamp, '
                        f"a date or an integer; load it as {wanted}", span=name.span)  # fmt: skip
    return column.name


def _weight(table: Table, name: Name | None) -> str | None:
    if name is None:
        return None
    column = find_column(table, name)
    if not is_weight(column.type):
        raise BindError(
            f'column "{column.name}" of type {column.type} cannot be WEIGHT, which is a number', span=name.span
        )
    return column.name


def _features(table: Table, clauses: Sequence[FeatureClause], standard: str) -> tuple[FeatureSpec, ...]:
    """The features in order; columns of one name, `standard` where none is said, are laid side by side."""
    found: dict[str, FeatureSpec] = {}
    for clause in clauses:
        columns = tuple(_feature_column(table, name) for name in clause.columns)
        name = clause.name.text if clause.name else standard
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            assert clause.name is not None
            raise BindError(f'a feature is named with letters, digits and _, not "{name}"', span=clause.name.span)
        if name in _RESERVED_FEATURES:
            assert clause.name is not None
            raise BindError(
                f'a batch gives "{name}" to something else; name the feature otherwise', span=clause.name.span
            )
        before = found.get(name)
        if before is not None:
            if before.default != clause.default:
                raise BindError(f'feature "{name}" is built from columns with different DEFAULTs; give them one',
                                span=clause.columns[0].span)  # fmt: skip
            columns = before.columns + columns
        found[name] = FeatureSpec(name, columns, clause.default)
    return tuple(found.values())


def _feature_column(table: Table, name: Name) -> str:
    column = find_column(table, name)
    if not is_feature_type(column.type):
        raise BindError(f'column "{column.name}" of type {column.type} cannot be a feature, which is a number or a '
                        "list of numbers; encode it when loading", span=name.span)  # fmt: skip
    return column.name


def _check_unique(names: Sequence[Name], complaint: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name.text.lower() in seen:
            raise BindError(complaint.format(f'"{name}"'), span=name.span)
        seen.add(name.text.lower())

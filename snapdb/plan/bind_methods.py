"""METHOD, WEIGHT BY and WITH REPLACEMENT: how a node's edges are drawn, and which of these go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snapdb.errors import BindError, Span
from snapdb.plan.fits import is_weight
from snapdb.plan.names import find_column, find_edge_type
from snapdb.plan.scope import Context
from snapdb.relational import quote_odd
from snapdb.sql.ast import MethodClause, Name, Sample, WeightColumn
from snapdb.types import Column, Drawing, EdgeElement, Fanout, Method, Snapshot, Table
from snapdb.types.text import did_you_mean

_BY_WEIGHT: tuple[Method, ...] = ("TOPK", "PRIORITY")
_WEIGHTLESS: tuple[Method, ...] = ("LATEST", "FULL", "BOTTOMK", "LABOR")
_MOST_BATCHES = 2**31


def bind_drawing(
    statement: Sample, snapshot: Snapshot, fanouts: Sequence[Fanout], context: Context, tables: Mapping[str, Table]
) -> Drawing:
    """How edges are drawn.

    Raises:
        BindError: clauses that do not go together, columns that are not there or are no numbers.
    """
    clauses = statement.clauses
    method: Method = "UNIFORM" if clauses.method is None else clauses.method.method
    walked = walked_edges(snapshot, fanouts)
    with_replacement = clauses.replace is not None and clauses.replace.value
    if clauses.replace is not None and with_replacement and method != "UNIFORM":
        raise BindError(
            f"METHOD {method} draws no edge twice; leave WITH REPLACEMENT out, or METHOD",
            span=clauses.replace.span,
            code="clauses-clash",
        )
    if clauses.weights is not None and method in _WEIGHTLESS:
        raise BindError(
            f"METHOD {method} does not look at weights; leave WEIGHT BY out, or take METHOD UNIFORM, PRIORITY or TOPK",
            span=clauses.weights.span,
            code="clauses-clash",
        )
    if method == "LATEST" and not any(edge.event_time for edge in walked):
        raise BindError(
            f"METHOD LATEST takes the newest edges, and no edge type in FANOUT ({_names(walked)}) has an EVENT TIME",
            span=_place(statement),
            code="needs-event-time",
        )
    weights = _weights(statement, method, snapshot, walked, context, tables)
    return Drawing(
        method=method,
        replace=with_replacement,
        weights=tuple(weights.items()),
        weighted=clauses.weights is not None or method in _BY_WEIGHT,
        dependent=_dependent(clauses.method),
    )


def walked_edges(snapshot: Snapshot, fanouts: Sequence[Fanout]) -> list[EdgeElement]:
    """The edge types that FANOUT names, once each, in the graph's order."""
    names = {fanout.edge.edge for fanout in fanouts}
    return [edge for edge in snapshot.graph.edges if edge.name in names]


def find_weight(table: Table, name: Name) -> Column:
    """The column of that name when it holds numbers, or BindError at its place."""
    column = find_column(table, name)
    if not is_weight(column.type):
        raise BindError(
            f'column "{column.name}" of type {column.type} cannot be a weight, which is a number; '
            "encode it when loading",
            span=name.span,
            code="column-type",
        )
    return column


def _dependent(clause: MethodClause | None) -> int:
    if clause is None:
        return 1
    if not 1 <= clause.dependent <= _MOST_BATCHES:
        raise BindError(
            f"DEPENDENT BATCHES takes a number from 1 to 2^31, found {clause.dependent}",
            span=clause.span,
            code="out-of-range",
        )
    return clause.dependent


def _weights(
    statement: Sample,
    method: Method,
    snapshot: Snapshot,
    walked: Sequence[EdgeElement],
    context: Context,
    tables: Mapping[str, Table],
) -> dict[str, str]:
    """The weight column of each edge type that has one, in the graph's order."""
    clause = statement.clauses.weights
    said = {} if clause is None else _said(clause.value, snapshot, walked, context, tables)
    if method not in _BY_WEIGHT:
        return {edge.name: said[edge.name] for edge in walked if edge.name in said}
    found = {edge.name: said.get(edge.name) or edge.weight for edge in walked}
    if missing := [name for name, column in found.items() if column is None]:
        raise BindError(
            f"METHOD {method} needs a weight of every edge type in FANOUT, and {missing[0]} has none; say "
            f"WEIGHT BY {quote_odd(missing[0])}.column, or give it a WEIGHT in the graph",
            span=_place(statement),
            code="needs-weight",
        )
    return {name: column for name, column in found.items() if column is not None}


def _said(
    columns: Sequence[WeightColumn],
    snapshot: Snapshot,
    walked: Sequence[EdgeElement],
    context: Context,
    tables: Mapping[str, Table],
) -> dict[str, str]:
    """What WEIGHT BY names, by edge type."""
    found: dict[str, str] = {}
    for item in columns:
        if item.edge is None:
            if len(columns) > 1:
                raise BindError(
                    f"of several columns each names its edge type, as in "
                    f"{quote_odd(walked[0].name)}.{quote_odd(item.column.text)}",
                    span=item.column.span,
                    code="ambiguous-weight",
                )
            return {edge.name: _weight_of(edge, item.column, tables, alone=len(walked) == 1) for edge in walked}
        edge = find_edge_type(context, snapshot, item.edge)
        if edge not in walked:
            hint = did_you_mean(item.edge.text, [e.name for e in walked]) or f"; it has {_names(walked)}"
            raise BindError(
                f'WEIGHT BY names edge type "{edge.name}", which FANOUT has not{hint}',
                span=item.edge.span,
                code="weight-not-walked",
            )
        if edge.name in found:
            raise BindError(f"WEIGHT BY names {edge.name} twice; keep one", span=item.edge.span, code="duplicate-name")
        found[edge.name] = _weight_of(edge, item.column, tables, alone=True)
    return found


def _weight_of(edge: EdgeElement, name: Name, tables: Mapping[str, Table], *, alone: bool) -> str:
    try:
        return find_weight(tables[edge.table.lower()], name).name
    except BindError as error:
        if not alone:
            error.message += (
                f" (a column by itself is one of every edge type in FANOUT; say type.{quote_odd(name.text)} for some)"
            )
        raise


def _names(edges: Sequence[EdgeElement]) -> str:
    return ", ".join(edge.name for edge in edges)


def _place(statement: Sample) -> Span:
    return (statement.clauses.method or statement.fanouts).span

"""FOR EVENT_TIME: what event times count in, and the bounds of a window of them as integers."""

from __future__ import annotations

from collections.abc import Mapping

from snapdb.catalog.elements import time_expression
from snapdb.errors import BindError, Span
from snapdb.plan.asked import Asked
from snapdb.plan.fits import graph_times
from snapdb.plan.moments import INTEGERS, LAST, number, time_value, type_of, whole
from snapdb.plan.scope import Context
from snapdb.sql.ast import TimeBound, WindowBound
from snapdb.types import PropertyGraph, Table, TimeUnit, Window

_FIRST = 1 - 2**63
"""The earliest moment; the number before it stands for what is always there."""


def event_unit(graph: PropertyGraph, tables: Mapping[str, Table], bound: Span | None) -> TimeUnit | None:
    """What the event times of the graph count in.

    Args:
        bound: Where the statement speaks of event times, which then must be there and of one kind.
    """
    units: dict[TimeUnit, str] = {}
    for name, _, unit in graph_times(graph, tables):
        units.setdefault(unit, name)
    if bound is not None and len(units) > 1:
        raise BindError(
            f"event times differ in kind: {units['integer']} has integers, {units['timestamp']} has timestamps; choose "
            "with ELEMENTS, or load one of them in the other's kind",
            span=bound,
            code="mixed-times",
        )
    if bound is not None and not units:
        raise BindError(
            f"no element of graph {graph.name} has an EVENT TIME, so there is none to choose by",
            span=bound,
            code="needs-event-time",
        )
    return next(iter(units), None)


def bind_window(
    context: Context,
    bound: TimeBound | WindowBound,
    unit: TimeUnit | None,
    graph: PropertyGraph,
    tables: Mapping[str, Table],
) -> Window:
    """The bounds as integers, half-open."""
    if isinstance(bound, WindowBound):
        ending = None if bound.ending is None else time_value(context, bound.ending, unit)
        return trailing_window(context, context.asked(bound.length), unit, graph, tables, ending)
    start = None if bound.start is None else time_value(context, bound.start, unit)
    stop = time_value(context, bound.stop, unit)
    if start is not None and stop < start:
        raise BindError(
            "the window ends before it begins; write the earlier time first", span=bound.span, code="empty-window"
        )
    closed = bound.kind != "FROM"
    return _closed(start, stop) if closed else Window(start, stop)


def trailing_window(
    context: Context,
    length: Asked,
    unit: TimeUnit | None,
    graph: PropertyGraph,
    tables: Mapping[str, Table],
    ending: int | None = None,
) -> Window:
    """The window of that length up to a moment, itself included: the latest event where none is said.

    Raises:
        BindError: the length is not positive or of the wrong kind, or there is no event.
    """
    check_length(context, length, unit, "WINDOW")
    last = _latest_event(context, graph, tables, length.span) if ending is None else ending
    if unit == "integer":
        before = last - whole(context, length)
    else:
        # DuckDB's arithmetic, for months differ in length.
        before = number(context, length, f"SELECT epoch_us(make_timestamp({last}) - (", "))")
    if before >= last:
        raise BindError("WINDOW takes a length greater than zero", span=length.span, code="out-of-range")
    return _closed(max(before + 1, _FIRST), last)


def _closed(start: int | None, last: int) -> Window:
    """The window up to a moment that is in it."""
    return Window(start, None if last == LAST else last + 1, closed=True)  # nothing is later than LAST


def check_length(context: Context, length: Asked, unit: TimeUnit | None, keyword: str) -> None:
    """Nothing when the length after a keyword is of the kind of the graph's event times."""
    type_ = type_of(context, length)
    if unit == "integer" and type_ not in INTEGERS:
        raise BindError(
            f"this graph's event times are integers: write {keyword} 100, not {length.text}",
            span=length.span,
            code="time-kind",
        )
    if unit == "timestamp" and type_ != "INTERVAL":
        raise BindError(
            f"this graph's event times are timestamps: write {keyword} INTERVAL '7 days', not {length.text}",
            span=length.span,
            code="time-kind",
        )


def _latest_event(context: Context, graph: PropertyGraph, tables: Mapping[str, Table], span: Span) -> int:
    """The greatest event time of the graph's edges; what has none, or is always there, counts for nothing."""
    found = []
    for edge in graph.edges:
        table = tables[edge.table.lower()]
        if edge.event_time is None or (column := table.column(edge.event_time)) is None:
            continue
        greatest = Asked(f"SELECT max({time_expression(column)}) FROM ({context.rows(table, ordered=False)})", span)
        with context.session(greatest) as session:
            found += [value for (value,) in session.rows(greatest.text) if value is not None]
    if not found:
        raise BindError(
            f"graph {graph.name} has no edge with an event time, so there is no event that WINDOW could "
            "end at; say ENDING and a time",
            span=span,
            code="needs-event-time",
        )
    return int(max(found))

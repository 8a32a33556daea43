"""Snapshots: CREATE and REFRESH."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from snapdb.errors import ParseError, Span
from snapdb.sql.maintenance import ExpireSnapshots
from snapdb.sql.printer import (
    print_at,
    print_columns,
    print_creation,
    print_fragment,
    print_name,
    print_statement,
    print_string,
    print_time,
)
from snapdb.sql.syntax import (
    ColumnList,
    Island,
    Leaf,
    Name,
    Place,
    Statement,
    TimeBound,
    Tree,
    VersionBound,
    WindowBound,
    bound,
    columns,
    has,
    integer,
    island,
    leaves,
    name,
    once,
    span_of,
    string,
    trees,
)
from snapdb.types import FORMS, Form, did_you_mean


@dataclass(frozen=True, slots=True)
class LayoutClause:
    """WITH (layout = 'full' | 'ends' | 'bitmap' | 'materialized')."""

    form: Form
    span: Span = field(compare=False)
    """Of the form."""


@dataclass(frozen=True, slots=True)
class CreateSnapshot(Statement):
    """CREATE [OR REPLACE] SNAPSHOT [IF NOT EXISTS] name OF graph [AT …] [FOR EVENT_TIME …] [ELEMENTS (…)] [WITH …] …"""

    name: Name
    graph: Name
    at: VersionBound | None
    event_time: TimeBound | WindowBound | None
    elements: ColumnList
    """Empty: all elements of the graph."""
    layout: LayoutClause | None
    where: Island | None
    or_replace: bool
    if_not_exists: bool

    def to_sql(self) -> str:
        kept = print_creation("SNAPSHOT", self.name, or_replace=self.or_replace, if_not_exists=self.if_not_exists)
        return print_statement(
            f"{kept} OF {print_name(self.graph)}",
            print_at(self.at),
            self.event_time and f"FOR EVENT_TIME {_print_time(self.event_time)}",
            bool(self.elements) and f"ELEMENTS {print_columns(self.elements)}",
            self.layout and f"WITH (layout = {print_string(self.layout.form)})",
            print_fragment("WHERE", self.where),
        )


@dataclass(frozen=True, slots=True)
class RefreshSnapshot(Statement):
    """REFRESH SNAPSHOT name [FULL] [DRY RUN]."""

    name: Name
    full: bool
    dry_run: bool

    def to_sql(self) -> str:
        return print_statement(
            f"REFRESH SNAPSHOT {print_name(self.name)}", self.full and "FULL", self.dry_run and "DRY RUN"
        )


def build_snapshot(tree: Tree, place: Place) -> Statement:
    """CREATE SNAPSHOT, REFRESH SNAPSHOT or EXPIRE SNAPSHOTS."""
    (statement,) = trees(tree)
    match statement.data:
        case "expire":
            return _expire(statement, place)
        case "refresh":
            full, dry_run = has(statement, "full"), has(statement, "dry_run")
            return RefreshSnapshot(*place, name=name(leaves(statement)[0]), full=full, dry_run=dry_run)
        case _:
            return _create(statement, place)


def _create(tree: Tree, place: Place) -> CreateSnapshot:
    snapshot, graph = leaves(tree)
    clauses = once(trees(tree))
    at, event_time, where = clauses.get("at"), clauses.get("event_time"), clauses.get("where")
    return CreateSnapshot(
        *place,
        name=name(snapshot),
        graph=name(graph),
        at=None if at is None else bound(at),
        event_time=None if event_time is None else _time(event_time, place.source),
        elements=columns(clauses.get("elements")),
        layout=_layout(clauses.get("options")),
        where=None if where is None else island(leaves(where)[0]),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
    )


def _expire(tree: Tree, place: Place) -> ExpireSnapshots:
    clauses = once(trees(tree))
    graph, older, last = clauses.get("of"), clauses.get("older"), clauses.get("last")
    if older is None and last is None and not has(tree, "by_retention"):
        message = "EXPIRE SNAPSHOTS lacks which: OLDER THAN INTERVAL '30 days', RETAIN LAST 10, both, or BY RETENTION"
        raise ParseError(message, span=Span(place.span.stop, place.span.stop), code="missing-clause")
    return ExpireSnapshots(
        *place,
        graph=None if graph is None else name(leaves(graph)[0]),
        older=None if older is None else _moment(trees(older)[0], place.source),
        last=None if last is None else integer(trees(last)[0], "RETAIN LAST"),
        last_span=None if last is None else span_of(last),
        by_retention=has(tree, "by_retention"),
        dry_run=has(tree, "dry_run"),
    )


_BOUNDS: dict[str, Literal["AS OF", "FROM", "BETWEEN"]] = {"as_of": "AS OF", "from_to": "FROM", "between": "BETWEEN"}


def _time(tree: Tree, source: str) -> TimeBound | WindowBound:
    (window,) = trees(tree)
    moments = [_moment(time, source) for time in trees(window)]
    if window.data == "window":
        return WindowBound(moments[0], moments[1] if len(moments) > 1 else None, span_of(tree))
    *start, stop = moments
    return TimeBound(_BOUNDS[str(window.data)], start[0] if start else None, stop, span_of(tree))


def _moment(tree: Tree, source: str) -> Island:
    """A time or a length as it was written, without the parentheses around an expression that is all of it."""
    inside = leaves(tree)[-1]
    if inside.type == "EXPRESSION":
        return island(inside)
    span = span_of(tree)
    return Island(source[span.start : span.stop], span)


def _layout(tree: Tree | None) -> LayoutClause | None:
    """The form that WITH names."""
    if tree is None:
        return None
    found: LayoutClause | None = None
    for option in trees(tree):
        key, value = leaves(option)
        if key.lower() != "layout":
            near = did_you_mean(key, ["layout"]) or "; it takes layout"
            raise ParseError(f"no option {key[:40]} in WITH{near}", span=span_of(key), code="unknown-option")
        if found is not None:
            raise ParseError("layout is given twice; keep one", span=span_of(option), code="duplicate-clause")
        found = _form(value)
    return found


def _form(value: Leaf) -> LayoutClause:
    said = string(value) if value.type == "STRING" else name(value).text
    form = next((form for form in FORMS if form == said.lower()), None)
    if form is None:
        near = did_you_mean(said, FORMS) or f"; layout is one of {', '.join(FORMS)}"
        raise ParseError(f'no layout "{said[:40]}"{near}', span=span_of(value), code="unknown-layout")
    return LayoutClause(form, span_of(value))


def _print_time(bound: TimeBound | WindowBound) -> str:
    if isinstance(bound, WindowBound):
        ending = "" if bound.ending is None else f" ENDING {print_time(bound.ending)}"
        return f"WINDOW {print_time(bound.length, length=True)}{ending}"
    stop = print_time(bound.stop)
    match bound.kind, bound.start:
        case "FROM", start if start is not None:
            return f"FROM {print_time(start)} TO {stop}"
        case "BETWEEN", start if start is not None:
            return f"BETWEEN {print_time(start)} AND {stop}"
        case _:
            return f"AS OF {stop}"

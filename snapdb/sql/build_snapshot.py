"""Trees of snapshot.lark as CREATE, REFRESH and EXPIRE."""

from __future__ import annotations

from typing import Literal

from snapdb.errors import ParseError, Span
from snapdb.sql.ast import (
    CreateSnapshot,
    ExpireSnapshots,
    Island,
    LayoutClause,
    RefreshSnapshot,
    Statement,
    TimeBound,
    WindowBound,
)
from snapdb.sql.build import (
    Leaf,
    Place,
    Tree,
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
from snapdb.types import FORMS, did_you_mean


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

"""Trees of snapshot.lark as CREATE SNAPSHOT."""

from __future__ import annotations

from typing import Literal

from snapdb.sql.ast import CreateSnapshot, Island, TimeBound
from snapdb.sql.build import Place, Tree, bound, columns, has, island, leaves, name, once, span_of, trees

__all__ = ["build_snapshot"]


def build_snapshot(tree: Tree, place: Place) -> CreateSnapshot:
    """CREATE SNAPSHOT."""
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
        where=None if where is None else island(leaves(where)[0]),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
    )


_BOUNDS: dict[str, Literal["AS OF", "FROM", "BETWEEN"]] = {"as_of": "AS OF", "from_to": "FROM", "between": "BETWEEN"}


def _time(tree: Tree, source: str) -> TimeBound:
    (window,) = trees(tree)
    *start, stop = (_moment(time, source) for time in trees(window))
    return TimeBound(_BOUNDS[str(window.data)], start[0] if start else None, stop, span_of(tree))


def _moment(tree: Tree, source: str) -> Island:
    """A time as it was written, without the parentheses around an expression."""
    inside = leaves(tree)[-1]
    if inside.type == "EXPRESSION":
        return island(inside)
    span = span_of(tree)
    return Island(source[span.start : span.stop], span)

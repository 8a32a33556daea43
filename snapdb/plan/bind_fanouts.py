"""FANOUT: every edge type that is walked, with its direction and how many to draw at each hop."""

from __future__ import annotations

from dataclasses import replace

from snapdb.errors import BindError, Span
from snapdb.plan.names import find_edge_type
from snapdb.plan.scope import Context
from snapdb.sql.ast import FanoutClause, Name, Sample
from snapdb.types import FULL, EdgeElement, Fanout, Snapshot


def bind_fanouts(statement: Sample, snapshot: Snapshot, context: Context) -> tuple[Fanout, ...]:
    """One fanout for each edge type and direction, DEFAULT spread over the types that are not named.

    METHOD FULL leaves a 0 and makes every other number FULL.
    """
    said, method = statement.fanouts, statement.clauses.method
    lengths = {len(clause.counts) for clause in said.value}
    found: dict[tuple[str, str], Fanout] = {}
    defaults: dict[str, FanoutClause] = {}
    for clause in said.value:
        _check_counts(clause, lengths, said.span)
        if clause.edge is None:
            _check_direction("DEFAULT", set(defaults), clause)
            defaults[clause.direction] = clause
            continue
        for edge in _meant(snapshot, clause.edge) or [find_edge_type(context, snapshot, clause.edge)]:
            _check_direction(edge.name, {d for name, d in found if name == edge.name}, clause)
            found[edge.name, clause.direction] = Fanout(edge.type, clause.direction, clause.counts)
    named = {name for name, _ in found}
    rest = [edge for edge in snapshot.graph.edges if edge.name not in named]
    spread = (Fanout(e.type, default.direction, default.counts) for e in rest for default in defaults.values())
    fanouts = (*found.values(), *spread)
    if method is not None and method.method == "FULL":
        return tuple(replace(f, counts=tuple(FULL if count > 0 else count for count in f.counts)) for f in fanouts)
    return fanouts


def _meant(snapshot: Snapshot, name: Name) -> list[EdgeElement]:
    """The edge type of that name, or all that have the label."""
    return [element for element in snapshot.graph.labelled(name.text) if isinstance(element, EdgeElement)]


def _check_direction(name: str, taken: set[str], clause: FanoutClause) -> None:
    """Nothing when the clause's direction is not among those that are taken already."""
    if clause.direction in taken or (taken and "BOTH" in (*taken, clause.direction)):
        raise BindError(
            f"{name} has this direction already (BOTH is IN and OUT); keep one",
            span=clause.span,
            code="duplicate-fanout",
        )


def _check_counts(clause: FanoutClause, lengths: set[int], place: Span) -> None:
    if len(lengths) > 1:
        raise BindError(
            f"every fanout needs one number for each hop; found lists of {_and(lengths)}",
            span=place,
            code="fanout-lengths",
        )
    for count in clause.counts:
        if count < 0 and count != FULL:
            raise BindError(
                f"a fanout is 0 or more, or FULL (-1); found {count}", span=clause.span, code="out-of-range"
            )
        if count >= 2**31:
            raise BindError(
                f"a fanout of {count} is too large; say FULL for every neighbour", span=clause.span, code="out-of-range"
            )


def _and(numbers: set[int]) -> str:
    return " and ".join(map(str, sorted(numbers)))

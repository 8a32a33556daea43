"""TEMPORAL and WITHIN: what of the past a seed sees."""

from __future__ import annotations

from collections.abc import Mapping

from snapdb.errors import BindError
from snapdb.plan.bind_window import check_length, event_unit
from snapdb.plan.fits import graph_times
from snapdb.plan.moments import duration, whole
from snapdb.plan.repeatable import check_repeatable
from snapdb.plan.scope import Context
from snapdb.sql.ast import Island, Sample
from snapdb.types import Snapshot, Table, Temporal, TimeUnit


def bind_temporal(
    statement: Sample, snapshot: Snapshot, context: Context, tables: Mapping[str, Table]
) -> Temporal | None:
    """How far a seed sees; None: whatever the snapshot holds.

    Raises:
        BindError: the graph has no event time, or WITHIN's length is not of its kind or negative.
    """
    clause, length = statement.clauses.temporal, statement.clauses.within
    if clause is None:
        if length is not None:
            raise BindError(
                "WITHIN is counted back from each seed's time; add TEMPORAL < SEED_TIME",
                span=length.value.span,
                code="needs-temporal",
            )
        return None
    if not graph_times(snapshot.graph, tables):
        raise BindError(
            f"TEMPORAL keeps from a seed what is later than it, and nothing of graph {snapshot.graph.name} "
            "has an EVENT TIME; leave it out, or name the time in the graph",
            span=clause.span,
            code="needs-event-time",
        )
    unit = event_unit(snapshot.graph, tables, clause.span)
    within = None if length is None else _length(context, length.value, unit)
    return Temporal(clause.value, within)


def _length(context: Context, length: Island, unit: TimeUnit | None) -> int:
    asked = context.asked(length)
    check_repeatable(context.relational, length, "what a seed sees must be repeatable", "write the length itself")
    check_length(context, asked, unit, "WITHIN")
    found = whole(context, asked) if unit == "integer" else duration(context, length)
    if found < 0:
        raise BindError(
            f"WITHIN takes a length of 0 or more, found {length.text}", span=length.span, code="out-of-range"
        )
    return found

"""A rule: a condition on the event time of an edge type becomes bounds, which the order of its rows answers."""

from __future__ import annotations

from dataclasses import replace

from snapdb.plan.parts import on_snapshot
from snapdb.plan.plan import Plan
from snapdb.plan.snapshots import CreateSnapshotPlan, Pushed
from snapdb.plan.time_bounds import Bounds, time_bounds
from snapdb.types import EdgeElement, Filter


def push_filters(plan: Plan) -> Plan:
    """A snapshot's plan whose edges are left out by their times in the topology, instead of by reading the table.

    A condition drops what has no time, which bounds keep, and bounds tell nothing of ends: edge types with static
    edges or with ends keep their conditions.
    """
    return on_snapshot(plan, _pushed)


def _pushed(plan: CreateSnapshotPlan) -> CreateSnapshotPlan:
    found = (_of_edges(plan, edge) for edge in plan.graph.edges)
    return replace(plan, pushed=tuple(pushed for pushed in found if pushed.filters))


def _of_edges(plan: CreateSnapshotPlan, edge: EdgeElement) -> Pushed:
    """What times tell of one edge type's conditions."""
    pushed = Pushed(edge.name)
    if edge.event_end is not None or edge.nulls_static:
        return pushed
    for condition in plan.filters_of(edge.name):
        if (bounds := _bounds(plan, edge, condition)) is not None:
            starts = [moment for moment in (pushed.start, bounds.start) if moment is not None]
            stops = [moment for moment in (pushed.stop, bounds.stop) if moment is not None]
            filters = (*pushed.filters, condition)
            pushed = Pushed(edge.name, max(starts, default=None), min(stops, default=None), filters)
    return pushed


def _bounds(plan: CreateSnapshotPlan, edge: EdgeElement, condition: Filter) -> Bounds | None:
    table = plan.tables[edge.table.lower()]
    column = None if edge.event_time is None else table.column(edge.event_time)
    if column is None or table.column(edge.name) is not None:  # then "name.time" may be a field of that column
        return None
    return time_bounds(condition.condition, edge.name, column.name, column.type)

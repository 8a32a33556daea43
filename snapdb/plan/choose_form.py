"""A rule: how a snapshot's edges lie on the disk follows from what it leaves out."""

from __future__ import annotations

from dataclasses import replace

from snapdb.plan.logical import CreateSnapshotPlan, Form, Plan
from snapdb.types import EdgeElement

__all__ = ["choose_form"]


def choose_form(plan: Plan) -> Plan:
    """Give each edge type of a new snapshot the cheapest form that can hold it.

    Rows are sorted by time, so that leaving out the late edges takes one offset a node ('ends'). What leaves out
    early edges, or edges by a condition, is written out ('materialized'). Nothing left out: the topology ('full').
    """
    if not isinstance(plan, CreateSnapshotPlan):
        return plan
    return replace(plan, forms={edge.name: _form(plan, edge) for edge in plan.graph.edges})


def _form(plan: CreateSnapshotPlan, edge: EdgeElement) -> Form:
    filtered = {f.element for f in plan.filters}
    if filtered & {edge.name, edge.source, edge.destination}:
        return "materialized"
    if edge.event_time is None or (plan.window.start is None and plan.window.stop is None):
        return "full"
    return "ends" if plan.window.start is None else "materialized"

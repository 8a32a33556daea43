"""A rule: each edge type of a snapshot lies in the form that costs least (snapdb.plan.forms)."""

from __future__ import annotations

from dataclasses import replace

from snapdb.plan.parts import on_snapshot
from snapdb.plan.plan import Plan
from snapdb.plan.snapshots import CreateSnapshotPlan


def choose_form(plan: Plan) -> Plan:
    """A snapshot's plan in which what it takes decides the form, instead of rows of its own for every edge type."""
    return on_snapshot(plan, _cheapest)


def _cheapest(plan: CreateSnapshotPlan) -> CreateSnapshotPlan:
    return plan if plan.layout is not None else replace(plan, cheapest=True)

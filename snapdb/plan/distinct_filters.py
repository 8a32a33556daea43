"""A rule: a condition that was said twice is asked once."""

from __future__ import annotations

from dataclasses import replace

from snapdb.plan.parts import on_snapshot
from snapdb.plan.plan import Plan
from snapdb.plan.snapshots import CreateSnapshotPlan


def distinct_filters(plan: Plan) -> Plan:
    """A snapshot's plan with each of its filters once, in the order in which they were first said."""
    return on_snapshot(plan, _distinct)


def _distinct(plan: CreateSnapshotPlan) -> CreateSnapshotPlan:
    return replace(plan, filters=tuple(dict.fromkeys(plan.filters)))

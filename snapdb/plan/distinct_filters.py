"""A rule: a condition that was said twice is asked once."""

from __future__ import annotations

from dataclasses import replace

from snapdb.plan.logical import CreateSnapshotPlan, Plan, RefreshPlan

__all__ = ["distinct_filters"]


def distinct_filters(plan: Plan) -> Plan:
    """A snapshot's plan with each of its filters once, in the order in which they were first said."""
    if isinstance(plan, RefreshPlan):
        create = distinct_filters(plan.create)
        assert isinstance(create, CreateSnapshotPlan)
        return replace(plan, create=create)
    if not isinstance(plan, CreateSnapshotPlan):
        return plan
    return replace(plan, filters=tuple(dict.fromkeys(plan.filters)))

"""The part of a plan that a rule speaks of, wherever it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from snapdb.plan.exports import CopySamplePlan
from snapdb.plan.plan import Plan
from snapdb.plan.samples import AuditPlan, CreateSamplerPlan, SamplePlan
from snapdb.plan.snapshots import CreateSnapshotPlan, RefreshPlan


def on_sample(plan: Plan, change: Callable[[SamplePlan], SamplePlan]) -> Plan:
    """The plan with its sampler changed, if it has one."""
    if isinstance(plan, AuditPlan | CopySamplePlan | CreateSamplerPlan):
        return replace(plan, sample=change(plan.sample))
    return change(plan) if isinstance(plan, SamplePlan) else plan


def on_snapshot(plan: Plan, change: Callable[[CreateSnapshotPlan], CreateSnapshotPlan]) -> Plan:
    """The plan with the snapshot that it makes changed, if it makes one."""
    if isinstance(plan, RefreshPlan):
        return replace(plan, create=change(plan.create))
    return change(plan) if isinstance(plan, CreateSnapshotPlan) else plan

"""A rule: who samples a batch reads its features at once, while the ids are in the cache."""

from __future__ import annotations

from dataclasses import replace

from snapdb.plan.parts import on_sample
from snapdb.plan.plan import Plan
from snapdb.plan.samples import SamplePlan


def fuse_gather(plan: Plan) -> Plan:
    """A stream's plan whose threads gather what they sampled, instead of the reader when a batch is handed over."""
    return on_sample(plan, _fused)


def _fused(plan: SamplePlan) -> SamplePlan:
    return plan if plan.delivers == "rows" else replace(plan, way=replace(plan.way, fused=True))

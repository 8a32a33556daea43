"""A rule: batches are made by all threads that the database may use."""

from __future__ import annotations

from dataclasses import replace

from snapdb.plan.parts import on_sample
from snapdb.plan.plan import Plan


def choose_threads(plan: Plan) -> Plan:
    """A sampler's plan with all threads at work, instead of one; batches and rows keep their order."""
    return on_sample(plan, lambda sample: replace(sample, way=replace(sample.way, threads=None)))

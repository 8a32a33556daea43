"""A rule: features and targets that nobody gets are not read."""

from __future__ import annotations

from dataclasses import replace

from snapdb.plan.parts import on_sample
from snapdb.plan.plan import Plan
from snapdb.plan.samples import SamplePlan
from snapdb.types import SampleSpec


def prune_columns(plan: Plan) -> Plan:
    """A sampler's plan that reads features of what is delivered with them only: none for rows of edges."""
    return on_sample(plan, _pruned)


def _pruned(plan: SamplePlan) -> SamplePlan:
    reads = set() if plan.delivers == "rows" else _delivered(plan.spec)
    every = {element.name for element in plan.snapshot.graph.elements}
    return plan if reads >= every else replace(plan, way=replace(plan.way, reads=frozenset(reads)))


def _delivered(spec: SampleSpec) -> set[str]:
    """The elements that batches have entries for."""
    types = [fanout.edge for fanout in spec.fanouts] + ([] if spec.link is None else [spec.link.edge])
    return {spec.seed_type, *(name for type_ in types for name in type_)}

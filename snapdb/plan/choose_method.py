"""A rule: where every neighbour is wanted none is drawn, and a GPU samples what it is told to deliver."""

from __future__ import annotations

from dataclasses import replace

from snapdb.plan.parts import on_sample
from snapdb.plan.plan import Plan
from snapdb.plan.samples import SamplePlan
from snapdb.types import FULL, Drawing, SampleSpec


def choose_method(plan: Plan) -> Plan:
    """A sampler's plan with METHOD FULL where all fanouts are, and with the back end that fits the device."""
    return on_sample(plan, _chosen)


def _chosen(plan: SamplePlan) -> SamplePlan:
    drawing = Drawing("FULL") if _takes_all(plan.spec) else plan.way.drawing
    return replace(plan, way=replace(plan.way, drawing=drawing, backend=None))


def _takes_all(spec: SampleSpec) -> bool:
    """Whether each row is delivered whole, whatever the method. Weights are looked at, because they may be wrong."""
    counts = {count for fanout in spec.fanouts for count in fanout.counts}
    drawing = spec.drawing
    return counts <= {0, FULL} and not drawing.weighted and drawing.method not in ("FULL", "PRIORITY")

"""A rule: what the fanouts cannot reach from the seeds is neither opened nor walked."""

from __future__ import annotations

from dataclasses import replace

from snapdb.plan.logical import Plan, SamplePlan
from snapdb.plan.parts import on_sample
from snapdb.types import Relation, SampleSpec

__all__ = ["prune_types"]


def prune_types(plan: Plan) -> Plan:
    """A sampler's plan without the relations that expand no node at any hop; batches keep empty entries for them."""
    return on_sample(plan, _pruned)


def _pruned(plan: SamplePlan) -> SamplePlan:
    walked = _walked(plan.spec)
    idle = _unneeded(plan.spec) - walked
    met = _seeds(plan.spec) | {name for relation in walked for name in (relation.expands, relation.reaches)}
    meets = None if met >= {vertex.name for vertex in plan.snapshot.graph.vertices} else frozenset(met)
    return replace(plan, way=replace(plan.way, idle=frozenset(idle), meets=meets))


def _seeds(spec: SampleSpec) -> set[str]:
    """The vertex types that enter a batch."""
    return {spec.seed_type} if spec.link is None else {spec.link.edge.source, spec.link.edge.destination}


def _unneeded(spec: SampleSpec) -> set[Relation]:
    """The relations that are of no use when they draw no edge.

    Weights may be wrong, and negatives know the seeds' own type: both are looked at wherever the fanouts lead.
    """
    weighed = {name for name, _ in spec.drawing.weights} if spec.drawing.weighted else set()
    return {
        relation
        for fanout in spec.fanouts
        for relation in fanout.relations
        if relation.edge.edge not in weighed and (spec.link is None or relation.edge != spec.link.edge)
    }


def _walked(spec: SampleSpec) -> set[Relation]:
    """The relations that may draw an edge: hop after hop, those that expand types which were reached before."""
    walked: set[Relation] = set()
    new = _seeds(spec)
    for hop in range(spec.hops):
        found = {
            relation
            for fanout in spec.fanouts
            if hop < len(fanout.counts) and fanout.counts[hop]
            for relation in fanout.relations
            if relation.expands in new
        }
        walked |= found
        reached = {relation.reaches for relation in found}
        new = new | reached if spec.layout == "BLOCKS" else reached
    return walked

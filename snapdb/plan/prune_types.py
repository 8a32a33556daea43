"""A rule: what the fanouts cannot reach from the seeds is neither opened nor walked."""

from __future__ import annotations

from dataclasses import replace

from snapdb.plan.parts import on_sample
from snapdb.plan.plan import Plan
from snapdb.plan.reached import reached_relations, seed_types
from snapdb.plan.samples import SamplePlan
from snapdb.types import Relation, SampleSpec


def prune_types(plan: Plan) -> Plan:
    """A sampler's plan without the relations that expand no node at any hop; batches keep empty entries for them."""
    return on_sample(plan, _pruned)


def _pruned(plan: SamplePlan) -> SamplePlan:
    walked = reached_relations(plan.spec)
    idle = _unneeded(plan.spec) - walked
    met = seed_types(plan.spec) | {name for relation in walked for name in (relation.expands, relation.reaches)}
    meets = None if met >= {vertex.name for vertex in plan.snapshot.graph.vertices} else frozenset(met)
    return replace(plan, way=replace(plan.way, idle=frozenset(idle), meets=meets))


def _unneeded(spec: SampleSpec) -> set[Relation]:
    """The relations that are of no use when they draw no edge.

    Weights may be wrong, seeds are edges of their own type, and negatives know some: all are looked at wherever the
    fanouts lead.
    """
    weighed = {name for name, _ in spec.drawing.weights} if spec.drawing.weighted else set()
    linked = set() if spec.link is None else {spec.link.edge, *spec.link.known_types}
    return {
        relation
        for fanout in spec.fanouts
        for relation in fanout.relations
        if relation.edge.edge not in weighed and relation.edge not in linked
    }

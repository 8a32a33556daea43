"""Which relations a sampler's hops reach from its seeds: those that may draw an edge, by vertex types alone."""

from __future__ import annotations

from snapdb.types import Fanout, Relation, SampleSpec


def seed_types(spec: SampleSpec) -> set[str]:
    """The vertex types that enter a batch."""
    return {spec.seed_type} if spec.link is None else {spec.link.edge.source, spec.link.edge.destination}


def reached_relations(spec: SampleSpec) -> set[Relation]:
    """The relations that may draw an edge: hop after hop, those that expand types which were reached before."""
    walked: set[Relation] = set()
    new = seed_types(spec)
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


def unreached_fanouts(spec: SampleSpec) -> list[Fanout]:
    """The fanouts that draw nothing in any batch; those that only say 0 mean to, and are left out."""
    walked = reached_relations(spec)
    return [f for f in spec.fanouts if any(f.counts) and not walked.intersection(f.relations)]

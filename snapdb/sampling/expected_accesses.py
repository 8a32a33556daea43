"""The expected number of accesses of each node at each hop of a batch, from the seed set and the topology alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from snapdb.arrays import Float64s
from snapdb.kernels.adjacency.rows import spread
from snapdb.sampling.subgraph import Seeds
from snapdb.sampling.walks import Walk, damaged
from snapdb.types import Relation, SampleSpec

Accesses = Mapping[tuple[Relation, int], Float64s]
"""(relation, hop) → [nodes] how often a batch expands each node there."""

_AT_ONCE = 1 << 18
"""Nodes whose rows are read between two checks for interruption."""


def expected_accesses(
    spec: SampleSpec,
    walks: Sequence[Walk],
    seeds: Seeds,
    node_counts: Mapping[str, int],
    check: Callable[[], None] = lambda: None,
) -> Accesses:
    """The expected visits of each hop over each relation, at one pass over the topology for each hop but the last.

    Neighbours are taken for drawn alike and independently, whatever their time and weight. `check` is called now and
    then; what it raises ends the work.

    Raises:
        CorruptError: a row leads out of its arrays.
    """
    new = _entering(spec, seeds, node_counts)
    met, found = new, {}
    for hop in range(spec.hops):
        frontier = met if spec.layout == "BLOCKS" else new
        reached = {name: np.zeros(count) for name, count in node_counts.items()}
        for walk in walks:
            if walk.count(hop):
                found[walk.relation, hop] = frontier[walk.relation.expands]
                if hop + 1 < spec.hops:
                    _hand_on(walk, hop, frontier, reached, check)
        new = reached if spec.disjoint else {name: -np.expm1(-many) * (1 - met[name]) for name, many in reached.items()}
        met = {name: before + new[name] for name, before in met.items()}
    return found


def _entering(spec: SampleSpec, seeds: Seeds, node_counts: Mapping[str, int]) -> dict[str, Float64s]:
    """How often each node is among those that enter a batch; of trees that share no node, in how many it is."""
    found = {name: np.zeros(count) for name, count in node_counts.items()}
    share = min(1.0, spec.batch_size / max(1, seeds.ids.size))
    if spec.link is None or seeds.ends is None:
        entering = [(seeds.type, seeds.ids)]
    else:
        entering = list(zip((spec.link.edge.source, spec.link.edge.destination), seeds.ends, strict=True))
        if spec.link.negatives is not None:
            other = spec.link.edge.destination
            found[other] += spec.batch_size * spec.link.negatives.count / max(1, node_counts[other])
    for name, ids in entering:
        found[name] += np.bincount(ids, minlength=node_counts[name]) * share
    return found if spec.disjoint else {name: np.minimum(many, 1.0) for name, many in found.items()}


def _hand_on(
    walk: Walk, hop: int, frontier: Mapping[str, Float64s], reached: Mapping[str, Float64s], check: Callable[[], None]
) -> None:
    """Adds what a relation's nodes hand on to their neighbours."""
    rows, relation = walk.for_one_pass().arrays.rows, walk.relation
    for low in range(0, rows.nodes, _AT_ONCE):
        check()
        high = min(low + _AT_ONCE, rows.nodes)
        if not spread(rows, frontier[relation.expands], walk.count(hop), low, high, reached[relation.reaches]):
            raise damaged(relation)

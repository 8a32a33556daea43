"""EVERY AUTO: a period told by counts alone, so that it is the same wherever and whenever it is asked for."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from snapdb.graph.view import GraphView
from snapdb.sampling.rounds import row_size, slot_of
from snapdb.types import FULL, Fanout, Refresh, Relation, SampleSpec


@dataclass(frozen=True, slots=True)
class _Step:
    """A hop of a batch over one relation."""

    relation: Relation
    fanout: Fanout
    hop: int
    count: int
    edges: int
    """That it draws at most."""


def auto_every(view: GraphView, spec: SampleSpec, batches: int) -> int:
    """The batches of a period that is AUTO, where the first epoch has so many.

    Between two draws of a row, batches draw as many edges as all rows hold, and no row is drawn twice in an epoch:
    what is read to draw rows is then no more than what is drawn from them. OTF draws a row once in period / share
    batches. Of rows that only visits make new, the period is the epoch.

    Raises:
        CorruptError: a row leads out of its arrays.
    """
    refresh = spec.refresh
    if refresh is None or refresh.visited:
        return max(1, batches)
    steps = tuple(_steps(view, spec))
    drawn = max(1, sum(step.edges for step in steps))
    between = max(batches, math.ceil(Fraction(_held(view, spec, refresh, steps), drawn)))
    return max(1, math.floor(refresh.share * between + Fraction(1, 2)))


def _steps(view: GraphView, spec: SampleSpec) -> Iterator[_Step]:
    """What a batch walks, hop by hop: as many nodes as fanouts allow, and no more than there are in each tree."""
    trees = spec.batch_size if spec.disjoint else 1
    met, new = Counter[str](), _entering(spec)
    for hop in range(spec.hops):
        met += new
        frontier, new = (met if spec.layout == "BLOCKS" else new), Counter[str]()
        for fanout in spec.fanouts:
            count = fanout.counts[hop] if hop < len(fanout.counts) else 0
            for relation in fanout.relations:
                nodes = min(frontier[relation.expands], view.node_counts[relation.expands] * trees)
                if nodes and count:
                    edges = _all_edges(view, relation, nodes, trees) if count == FULL else nodes * count
                    yield _Step(relation, fanout, hop, count, edges)
                    new[relation.reaches] += edges


def _entering(spec: SampleSpec) -> Counter[str]:
    """How many nodes of each type enter a batch."""
    if spec.link is None:
        return Counter({spec.seed_type: spec.batch_size})
    negatives = 0 if spec.link.negatives is None else spec.link.negatives.count
    entering = Counter({spec.link.edge.source: spec.batch_size})
    entering[spec.link.edge.destination] += spec.batch_size * (1 + negatives)
    return entering


def _all_edges(view: GraphView, relation: Relation, nodes: int, trees: int) -> int:
    """How many edges so many nodes have at most."""
    degrees = view.adjacency(relation).degrees()
    return min(nodes * int(degrees.max(initial=0)), int(degrees.sum()) * trees)


def _held(view: GraphView, spec: SampleSpec, refresh: Refresh, steps: tuple[_Step, ...]) -> int:
    """How many edges the rows hold that batches may come to; what no seed leads to may not be opened."""
    tables = {
        (step.relation, slot_of(spec, step.hop), row_size(refresh, step.fanout, step.count))
        for step in steps
        if step.count != FULL
    }
    degrees = {relation: view.adjacency(relation).degrees() for relation, _, _ in tables}
    return sum(
        size * int(np.count_nonzero(degrees[relation] > max(size, refresh.above))) for relation, _, size in tables
    )

"""The period of EVERY AUTO, and the variance of neighbor pools: draws from one row are correlated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from snapdb.arrays import Float64s, Int64s
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
    """The number of batches of EVERY AUTO, where the first epoch has `batches`.

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
    """The largest number of edges that this number of nodes can have."""
    degrees = view.adjacency(relation).degrees()
    return min(nodes * int(degrees.max(initial=0)), int(degrees.sum()) * trees)


def _held(view: GraphView, spec: SampleSpec, refresh: Refresh, steps: tuple[_Step, ...]) -> int:
    """The number of edges in rows that batches can access; relations that no seed reaches may not be opened."""
    tables = {
        (step.relation, slot_of(spec, step.hop), row_size(refresh, step.fanout, step.count))
        for step in steps
        if step.count != FULL
    }
    degrees = {relation: view.adjacency(relation).degrees() for relation, _, _ in tables}
    return sum(
        size * int(np.count_nonzero(degrees[relation] > max(size, refresh.above))) for relation, _, size in tables
    )


_Numbers = int | float | Int64s | Float64s


def _draw_correlation(degree: _Numbers, size: int, fanout: int, kept: int | None = None) -> Float64s:
    """The correlation of the means of two draws from one row of a node of this degree.

    A draw of `fanout` takes `kept` edges from the row's `size` and the others from outside of these; None: all of them
    from the row. A node without more edges than the fanout is drawn whole, without any variance: its correlation is 0.

    >>> [_draw_correlation(40, size, 10).item() for size in (20, 40)], _draw_correlation(40, 20, 10, 0).item()
    ([0.3333333333333333, 0.0], 0.0)
    """
    degrees = np.atleast_1d(np.asarray(degree, np.float64))
    kept, drawn = fanout if kept is None else kept, degrees > fanout
    many = np.where(drawn, degrees, fanout + 1.0)
    row = np.minimum(size, many)
    towards = kept / fanout * (many - fanout) / (many - kept)
    found: Float64s = np.where(drawn, towards**2 * (1 / row - 1 / many) / (1 / fanout - 1 / many), 0.0)
    return found


def variance_factor(degree: _Numbers, size: int, fanout: int, draws: _Numbers, kept: int | None = None) -> Float64s:
    """The variance of the mean over `draws` draws of one row, relative to as many draws by FBL.

    The mean of draws x₁ … xₙ of variance V and correlation r has the variance V / n · (1 + (n-1) r); FBL's are
    independent.

    >>> round(variance_factor(40, 20, 10, 20).item(), 2)
    7.33
    """
    pairs = np.maximum(np.asarray(draws, np.float64) - 1, 0)
    found: Float64s = 1 + pairs * _draw_correlation(degree, size, fanout, kept)
    return found

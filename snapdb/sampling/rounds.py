"""Rounds of the neighbor pool: the round of each batch and row, the keys of rows, and the period of EVERY AUTO.

A pool has one row per node and slot, which is redrawn in every round. The slot is part of a row's key: the hop, or
EVERY_HOP if a node has one row for all hops.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from snapdb.arrays import Float64s, Int32s, Int64s, UInt64s
from snapdb.graph.view import GraphView
from snapdb.kernels.neighbor_pool.rows import RowKeys
from snapdb.kernels.rng import EVERY_HOP, Domain, fold_parts
from snapdb.sampling.traversals import Traversal
from snapdb.types import FULL, Fanout, Refresh, Relation, SampleSpec

Rounds = Mapping[tuple[Relation, int], Int32s]
"""Under OTF SCOPE VISITED: (relation, slot) → [nodes] the round of each node's row."""

_NONE: Int32s = np.empty(0, np.int32)

_folded = lru_cache(1 << 10)(fold_parts)
"""`fold_parts` with a cache, because every batch folds the same parts."""


class RowTable(NamedTuple):
    """The pool rows of one size over one relation, at the hops that share a slot."""

    traversal: Traversal
    slot: int
    """The slot in their keys: a hop, or EVERY_HOP."""
    size: int
    """The number of edges in a row. Only nodes with more edges than this, and more than `above`, have a row."""
    above: int
    """The refresh policy's degree limit. Nodes up to this degree have no row."""

    @property
    def few(self) -> int:
        """Under PRIORITY, nodes with at most this many edges of positive weight have no row."""
        return max(self.size, self.above) if self.traversal.skips_zeros else self.size


def slot_of(spec: SampleSpec, hop: int) -> int:
    """Return the slot of a hop. The keys of rows and phases contain the slot instead of the hop."""
    shared = spec.reuse_hops or (spec.refresh is not None and spec.refresh.shared)
    return EVERY_HOP if shared else hop


def row_tables(spec: SampleSpec, traversals: Sequence[Traversal]) -> tuple[RowTable, ...]:
    """Return the tables of pool rows that a sampler draws from, relation by relation. Empty under FBL."""
    refresh = spec.refresh
    if refresh is None:
        return ()
    tables = [
        RowTable(traversal, slot_of(spec, hop), refresh.row_size(traversal.fanout, count), refresh.above)
        for traversal in traversals
        for hop, count in enumerate(traversal.fanout.counts)
        if count > 0
    ]
    # Hops that share a slot and a size share their rows.
    return tuple({(table.traversal.relation, *table[1:]): table for table in tables}.values())


def _round_at(refresh: Refresh, batch: int) -> tuple[int, int]:
    """Return the round of a batch, and the elapsed share of that round in units of 2^-32.

    The elapsed share determines which nodes are already in the next round.

    Under SCOPE VISITED, each node has its own round, and the result is the initial round of all nodes.

    >>> from fractions import Fraction
    >>> _round_at(Refresh("FCR", 50), 120)
    (2, 0)
    >>> _round_at(Refresh("OTF", 4, share=Fraction("0.5")), 9)
    (1, 536870912)
    """
    if refresh.visited:
        return 0, 0
    if refresh.strategy == "FCR":
        return batch // refresh.period, 0
    # Use integer arithmetic, because floats would lose the fraction of a round at large batch numbers.
    return divmod(batch * refresh.turned // refresh.period, 2**32)


def row_keys(spec: SampleSpec, relation: Relation, hop: int, batch: int, rounds: Rounds | None = None) -> RowKeys:
    """Return the keys of the rows that a batch draws from at one hop.

    Under SCOPE VISITED, `rounds` contains the round of each node, or 0 for a node without one.
    """
    assert spec.refresh is not None
    slot, kind = slot_of(spec, hop), relation.hash
    whole, part = _round_at(spec.refresh, batch)
    stem = _folded(spec.seed, Domain.ROW, spec.generation)
    now, later = (_folded(spec.seed, Domain.ROW, spec.generation, turn, slot, kind) for turn in (whole, whole + 1))
    phase = _folded(spec.seed, Domain.PHASE, slot, kind)
    own = _NONE if rounds is None else rounds.get((relation, slot), _NONE)
    return RowKeys(now, later, phase, np.uint64(part), whole, stem, np.uint64(slot), np.uint64(kind), own)


_TURN = 4
"""The number of cache passes per round under OTF: between two passes, one row in this many is redrawn.

Each pass reads nearly every page of the topology. Until the next pass, batches themselves draw the rows that are due,
on average one row in four times this number."""


def next_pass(refresh: Refresh | None, batch: int) -> int | None:
    """Return the next batch at which a cache is checked for rows of an older round, or None if there are no pool rows.

    >>> from fractions import Fraction
    >>> next_pass(Refresh("FCR", 50), 120), next_pass(Refresh("OTF", 80, share=Fraction(1, 2)), 120)
    (150, 160)
    """
    if refresh is None:
        return None
    if refresh.at_once:
        return (batch // refresh.period + 1) * refresh.period
    return batch + max(1, math.floor(refresh.period / refresh.share / _TURN))


def ahead(refresh: Refresh, batch: int) -> int:
    """Return the batch for which a pass draws rows: halfway to the next pass if rows are redrawn one after another."""
    following = next_pass(refresh, batch)
    assert following is not None
    return batch if refresh.at_once else (batch + following) // 2


def begun(refresh: Refresh, rounds: Int64s, phases: UInt64s) -> Float64s:
    """Return [rows], the batch at which each row entered its round. Under OTF it depends on the node's phase.

    >>> from fractions import Fraction
    >>> phases = np.array([0, 2**31], np.uint64)
    >>> begun(Refresh("OTF", 80, share=Fraction(1, 2)), np.array([1, 1]), phases).tolist()
    [160.0, 80.0]
    """
    if refresh.at_once:
        return rounds.astype(np.float64) * refresh.period
    if refresh.turned == 0:  # the share is so small that no row is ever redrawn
        return np.zeros(rounds.size)
    first: Float64s = np.ceil((rounds * 2.0**32 - phases) * (refresh.period / refresh.turned))
    return np.maximum(first, 0.0)


# The period of EVERY AUTO, and the additional variance of neighbor pools: draws from the same row are correlated.
@dataclass(frozen=True, slots=True)
class _Step:
    """One hop of a batch over one relation, with estimates of its size."""

    relation: Relation
    fanout: Fanout
    hop: int
    count: int
    edges: int
    """The maximum number of edges that the hop draws."""


def auto_every(view: GraphView, spec: SampleSpec, batches: int) -> int:
    """Return the period of EVERY AUTO, in batches, for a first epoch of `batches` batches.

    Between two redraws of a row, batches draw as many edges as all rows contain, and no row is drawn twice in an epoch.
    Drawing rows therefore never reads more edges than batches draw from them. OTF redraws a row once every period /
    share batches. If only visits redraw rows, the period is the epoch.

    Raises:
        CorruptError: A row extends beyond its arrays.
    """
    refresh = spec.refresh
    if refresh is None or refresh.visited:
        return max(1, batches)
    steps = tuple(_steps(view, spec))
    drawn = max(1, sum(step.edges for step in steps))
    between = max(batches, math.ceil(Fraction(_held(view, spec, refresh, steps), drawn)))
    return max(1, math.floor(refresh.share * between + Fraction(1, 2)))


def _steps(view: GraphView, spec: SampleSpec) -> Iterator[_Step]:
    """Yield the hops of a batch, with upper bounds from the fanouts and from the size that each tree can reach."""
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
    """Return the number of seeds, ends and negatives of a batch, by vertex type."""
    if spec.link is None:
        return Counter({spec.seed_type: spec.batch_size})
    negatives = 0 if spec.link.negatives is None else spec.link.negatives.count
    entering = Counter({spec.link.edge.source: spec.batch_size})
    entering[spec.link.edge.destination] += spec.batch_size * (1 + negatives)
    return entering


def _all_edges(view: GraphView, relation: Relation, nodes: int, trees: int) -> int:
    """Return the maximum number of edges that this many nodes can have."""
    degrees = view.adjacency(relation).degrees()
    return min(nodes * int(degrees.max(initial=0)), int(degrees.sum()) * trees)


def _held(view: GraphView, spec: SampleSpec, refresh: Refresh, steps: tuple[_Step, ...]) -> int:
    """Return the number of edges in the rows that batches can access. Unreachable relations need not be open."""
    tables = {
        (step.relation, slot_of(spec, step.hop), refresh.row_size(step.fanout, step.count))
        for step in steps
        if step.count != FULL
    }
    degrees = {relation: view.adjacency(relation).degrees() for relation, _, _ in tables}
    return sum(
        size * int(np.count_nonzero(degrees[relation] > max(size, refresh.above))) for relation, _, size in tables
    )


_Numbers = int | float | Int64s | Float64s


def _draw_correlation(degree: _Numbers, size: int, fanout: int, kept: int | None = None) -> Float64s:
    """Return the correlation between the means of two draws from the same row, for a node of this degree.

    A draw of `fanout` edges takes `kept` from the row's `size` edges, or all of them if `kept` is None, and the rest
    from outside the row. If a node has no more edges than the fanout, all edges are taken, so the mean has no variance
    and the correlation is 0.

    >>> [_draw_correlation(40, size, 10).item() for size in (20, 40)], _draw_correlation(40, 20, 10, 0).item()
    ([0.3333333333333333, 0.0], 0.0)
    """
    degrees = np.atleast_1d(np.asarray(degree, np.float64))
    kept, drawn = fanout if kept is None else kept, degrees > fanout
    many = np.where(drawn, degrees, fanout + 1.0)
    row = np.minimum(size, many)
    towards = kept / fanout * (many - fanout) / (many - kept)
    correlation: Float64s = np.where(drawn, towards**2 * (1 / row - 1 / many) / (1 / fanout - 1 / many), 0.0)
    return correlation


def variance_factor(degree: _Numbers, size: int, fanout: int, draws: _Numbers, kept: int | None = None) -> Float64s:
    """Return the variance of the mean over `draws` draws from one row, relative to that of independent draws under FBL.

    The mean of n draws with variance V and pairwise correlation r has variance V / n · (1 + (n-1) r).

    >>> round(variance_factor(40, 20, 10, 20).item(), 2)
    7.33
    """
    pairs = np.maximum(np.asarray(draws, np.float64) - 1, 0)
    factor: Float64s = 1 + pairs * _draw_correlation(degree, size, fanout, kept)
    return factor

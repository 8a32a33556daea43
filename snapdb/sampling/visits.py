"""Neighbours by random walks: a node's neighbours are the vertices that walks from it visit most (PinSAGE).

The back ends return the same arrays, bit for bit (docs/adr/0017).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from snapdb.arrays import Bools, Int64s, UInt64s
from snapdb.graph.view import Adjacency, EdgeColumn, GraphView
from snapdb.kernels.adjacency.forms import row_arrays
from snapdb.kernels.rng import EVERY_HOP, Domain, fold_parts
from snapdb.kernels.walks.visits import key_visits, most_visited
from snapdb.sampling.numba_subgraph import NumbaSubgraph, extended
from snapdb.sampling.numba_walker import NumbaWalker
from snapdb.sampling.sampler import SampleRequest
from snapdb.sampling.scratch import Scratch
from snapdb.sampling.subgraph import Edges, SamplerInput, SeedGroup
from snapdb.sampling.traversals import Traversal
from snapdb.types import Backend, Fanout, Relation, SampleSpec, Visits


@dataclass(frozen=True)
class VisitTraversal:
    """The relation from visited vertices to the nodes whose walks visited them. It has no rows in the snapshot."""

    visits: Visits
    fanout: Fanout
    """The maximum number of neighbours per hop."""
    nodes: int
    """The number of dense ids."""
    skips_zeros = False

    @property
    def relation(self) -> Relation:
        return self.visits.relation

    @cached_property
    def adjacency(self) -> Adjacency:
        """Rows with a single position, the id of which is -1: visits are no edges of the graph."""
        indptr = np.zeros(self.nodes + 1, np.int64)
        indptr[1:] = 1
        return Adjacency(row_arrays(indptr, np.zeros(1, np.int32)), EdgeColumn(np.full(1, -1, np.int64)))

    @property
    def counted(self) -> Bools:
        """[length + 1] whether the vertices of a column of the walks count as visits."""
        types = np.array(self.visits.walk.vertex_types)
        counted: Bools = types == self.relation.reaches
        return counted

    def count(self, hop: int) -> int:
        """Return the maximum number of neighbours of a node at this hop."""
        return self.fanout.counts[hop] if hop < len(self.fanout.counts) else 0


def open_visits(view: GraphView, spec: SampleSpec) -> VisitTraversal:
    """Return the relation of the edges of a statement with BY WALKS."""
    visits = visits_of(spec)
    return VisitTraversal(visits, Fanout(visits.relation.edge, "IN", visits.tops), view.node_counts[spec.seed_type])


def visits_of(spec: SampleSpec) -> Visits:
    """Return the clauses of BY WALKS. Raises ValueError for a statement that samples edges."""
    if spec.visits is None:
        raise ValueError("the statement has no FANOUT (BY WALKS …)")
    return spec.visits


def walks_of(spec: SampleSpec) -> SampleSpec:
    """Return the statement of the walks from a hop's nodes, in which the nodes are the seeds."""
    return replace(spec, walk=visits_of(spec).walk, visits=None, link=None)


def walk_starts(batch: SampleRequest, nodes: Int64s, trees: Int64s) -> SamplerInput:
    """Return the nodes of a hop as the seeds of walks. `trees` is empty unless trees are disjoint."""
    entry, places = batch.entry, np.arange(nodes.size, dtype=np.int64)
    times = entry.times[trees] if entry.times is not None and batch.spec.disjoint else None
    return SamplerInput((SeedGroup(batch.spec.seed_type, nodes, places),), places, times)


def walk_keys(batch: SampleRequest, hop: int, nodes: Int64s, trees: Int64s) -> UInt64s:
    """Return [nodes * walks] keys of the walks from the nodes of a hop. `trees` is as in `walk_starts`."""
    spec, per_node = batch.spec, visits_of(batch.spec).walk.per_seed
    number = EVERY_HOP if spec.reuse_hops else hop
    prefix = np.array([fold_parts(spec.seed, Domain.VISIT, batch.number, number)], np.uint64)
    ordinals = np.array(batch.entry.ordinals[trees] if spec.disjoint else trees[:0], np.int64)
    keys = np.empty(nodes.size * per_node, np.uint64)
    key_visits(prefix, ordinals, nodes, per_node, keys)
    return keys


class _VisitScratch(Scratch):
    """The scratch memory of one thread, with that of its walks."""

    def __init__(self, node_counts: Mapping[str, int], walks: Any, *, disjoint: bool) -> None:
        super().__init__(node_counts, disjoint=disjoint)
        self.walks = walks


class NumbaVisits:
    """The relations of the walks as the arrays that kernels read."""

    name: Backend = "numba"
    on_gpu = False
    host_traversals: tuple[Traversal, ...] = ()

    def __init__(self, view: GraphView, spec: SampleSpec) -> None:
        """Open the relations of the walks. Raises the same errors as `open_walker`."""
        self.walker = NumbaWalker(view, walks_of(spec))
        self.traversals = (open_visits(view, spec),)
        self._disjoint = spec.disjoint

    def scratch(self, node_counts: Mapping[str, int]) -> _VisitScratch:
        """Return scratch memory for one thread."""
        return _VisitScratch(node_counts, self.walker.scratch(), disjoint=self._disjoint)

    def begin(self, batch: SampleRequest, traversals: Sequence[Any], scratch: Scratch) -> NumbaSubgraph:
        """Return an empty subgraph in a thread's scratch memory, to which seeds and hops are added."""
        scratch.start()
        assert isinstance(scratch, _VisitScratch)
        return _VisitedSubgraph(batch, traversals[0], self.walker, scratch)


class _VisitedSubgraph(NumbaSubgraph):
    """The subgraph of one batch whose edges lead from the most visited vertices."""

    def __init__(
        self, batch: SampleRequest, traversal: VisitTraversal, walker: NumbaWalker, scratch: _VisitScratch
    ) -> None:
        none = Edges(np.empty((2, 0), np.dtype(batch.spec.ids)), np.empty(0, np.int64), np.empty(0, np.float64))
        super().__init__(batch, {traversal.relation: none}, scratch)
        self._traversal, self._walker, self._walks = traversal, walker, scratch.walks

    def expand(self, place: int, hop: int, low: int, high: int) -> None:
        batch, traversal, relation = self.batch, self._traversal, self._traversal.relation
        nodes = self.scratch.nodes[relation.expands]
        some, trees = nodes.nodes[low:high].copy(), nodes.trees[low:high].copy()
        keys = walk_keys(batch, hop, some, trees)
        walks = self._walker.sample(walk_starts(batch, some, trees), batch.number, self._walks, keys)
        neighbors: Int64s = np.empty((some.size, traversal.count(hop)), np.int64)
        counts = np.empty_like(neighbors)
        walk = traversal.visits.walk
        visits = np.empty(walk.per_seed * walk.length, np.int64)
        most_visited(walks.nodes, 0, some.size, traversal.counted, visits, neighbors, counts)
        found = neighbors >= 0
        before = self.edges[relation]
        old = before.position.size
        edges = extended(before, int(np.count_nonzero(found)))
        edges.index[0, old:], edges.weight[old:] = neighbors[found], counts[found]
        edges.index[1, old:] = np.repeat(np.arange(low, high), np.count_nonzero(found, axis=1))
        edges.position[old:] = 0
        nodes.renumber(edges.index[0, old:], nodes.trees, edges.index[1, old:])
        self.edges[relation] = edges

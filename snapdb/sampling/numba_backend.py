"""The numba back end, which calls a kernel for each hop and relation to draw into a thread's scratch memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Array, Int64s
from snapdb.graph.view import GraphView
from snapdb.kernels import buffers
from snapdb.kernels.adjacency.spans import FIELDS, PLAIN_FIELDS
from snapdb.kernels.draw.eligible import Eligibility
from snapdb.kernels.draw.hop import draw_rows
from snapdb.kernels.draw.relabel import LocalIds, load_neighbors
from snapdb.kernels.draw.scores import FLOYD, LABOR, LAST, DrawKeys, DrawRule
from snapdb.kernels.draw.uniform import EVERY, EdgeBuffers, count_edges, sample_uniform
from snapdb.kernels.neighbor_pool.cache import MISSES, READ_EDGES, NeighborPool, RowCopies, load_pooled
from snapdb.kernels.neighbor_pool.limited import draw_limited
from snapdb.kernels.neighbor_pool.rows import PoolRule
from snapdb.kernels.neighbor_pool.uniform import draw_unlimited
from snapdb.kernels.rng import EVERY_HOP, fresh_prefix, hash_prefix, labor_keys, pick_prefix
from snapdb.sampling.neighbor_pool_cache import NO_KEYS, NO_RECORDS, CacheReader, no_copies
from snapdb.sampling.rounds import Rounds, RowTable, row_keys, slot_of
from snapdb.sampling.sampler import SampleRequest
from snapdb.sampling.scratch import NodeMap, Scratch
from snapdb.sampling.subgraph import Edges, SeedGroup
from snapdb.sampling.traversals import NO_PAIRS, Traversal, damaged, open_traversals, time_bounds
from snapdb.types import Backend, Relation, SampleSpec

_NO_STAMPS = np.empty(0, np.int32)
"""The stamps passed for disjoint trees, whose nodes are relabelled separately."""


class NumbaBackend:
    """The relations of a sampler as the arrays that kernels read."""

    name: Backend = "numba"
    on_gpu = False

    def __init__(self, view: GraphView, spec: SampleSpec) -> None:
        """Open the relations. Raises the same errors as `open_sampler`."""
        self.traversals = self.host_traversals = open_traversals(view, spec)
        self._disjoint, self._weighted = spec.disjoint, spec.drawing.method == "PRIORITY"

    def scratch(self, node_counts: Mapping[str, int]) -> Scratch:
        """Return scratch memory for one thread: at most 12 bytes per node, touched only where batches need it.

        For disjoint trees, it grows with the largest batch instead.
        """
        return Scratch(node_counts, disjoint=self._disjoint, weighted=self._weighted)

    def begin(self, batch: SampleRequest, traversals: Sequence[Any], scratch: Scratch) -> _NumbaSubgraph:
        """Return an empty subgraph in a thread's scratch memory, to which seeds and hops are added."""
        scratch.start()
        return _NumbaSubgraph(batch, traversals, scratch)


class _NumbaSubgraph:
    """The subgraph of one batch in a thread's scratch memory."""

    def __init__(self, batch: SampleRequest, traversals: Sequence[Traversal], scratch: Scratch) -> None:
        spec, entry = batch.spec, batch.entry
        self._batch, self._traversals, self._scratch = batch, traversals, scratch
        weighted = spec.drawing.method == "PRIORITY"
        self._ids = np.dtype(spec.ids)
        self._edges = {traversal.relation: _no_edges(traversal, self._ids, weighted) for traversal in traversals}
        bounds = time_bounds(entry, spec.temporal)
        self._eligible = [
            Eligibility(bounds, traversal.excluded_pairs(entry.excluded, spec.temporal)) for traversal in traversals
        ]

    def enter(self, group: SeedGroup, *, each: bool) -> Int64s:
        nodes = self._scratch.nodes[group.type]
        if each:
            assert isinstance(nodes, NodeMap)
            return nodes.enter_each(group.ids)
        return nodes.enter(group.ids, group.trees)

    def expand(self, place: int, hop: int, low: int, high: int) -> None:
        batch, traversal, eligible = self._batch, self._traversals[place], self._eligible[place]
        drawn = _Hop(batch.spec, traversal, batch.number, hop, low, high, eligible, batch.rounds, batch.cache)
        self._edges[traversal.relation] = _expand(drawn, self._scratch, self._edges[traversal.relation])

    def node_counts(self) -> dict[str, int]:
        return self._scratch.counts()

    def edge_counts(self) -> dict[Relation, int]:
        return {relation: edges.position.size for relation, edges in self._edges.items()}

    def finish(self) -> tuple[dict[str, Int64s], dict[Relation, Edges], dict[str, Int64s] | None]:
        """Return the batch's nodes, edges and trees. Nodes and trees are copied because scratch memory is reused."""
        if self._batch.cache is not None:
            self._batch.cache.count(self._scratch.draft.reads)
        maps = self._scratch.nodes
        nodes = {name: _copied(each.nodes[: each.count], self._ids) for name, each in maps.items()}
        if not self._batch.spec.disjoint:
            return nodes, self._edges, None
        return nodes, self._edges, {name: _copied(each.trees[: each.count], np.int64) for name, each in maps.items()}


def _copied(values: Int64s, dtype: npt.DTypeLike) -> Array:
    """Return a copy in recycled memory, converted to `dtype`."""
    copy = buffers.empty(values.shape, dtype)
    copy[:] = values
    return copy


@dataclass(frozen=True, slots=True)
class _Hop:
    """The nodes that one hop expands over one relation, and the rule and keys of its draws."""

    spec: SampleSpec
    traversal: Traversal
    batch: int
    """The global batch number."""
    number: int
    """The number of the hop."""
    low: int
    """The hop expands the nodes with local ids low ≤ id < high."""
    high: int
    eligible: Eligibility
    rounds: Rounds | None = None
    cache: CacheReader | None = None

    @property
    def fanout(self) -> int:
        return self.traversal.count(self.number)

    @property
    def pooled(self) -> bool:
        """Whether nodes have rows in the neighbor pool."""
        return self.spec.refresh is not None and self.fanout != EVERY

    @property
    def unlimited(self) -> bool:
        """Whether all edges of a node are eligible and equally likely."""
        limits = self.eligible.bounds.high.size + self.eligible.excluded.neighbor.size
        return self.traversal.method == FLOYD and limits == 0

    @property
    def parts(self) -> tuple[int, int, int, int]:
        """The parts of the draw keys shared by the whole hop."""
        # With `reuse_hops`, a node's key does not contain the hop, so that the node draws the same edges wherever it
        # appears in the batch.
        number = EVERY_HOP if self.spec.reuse_hops else self.number
        return self.spec.seed, self.batch, number, self.traversal.relation.hash

    @property
    def skips_zeros(self) -> bool:
        """Whether edges of weight 0 are excluded. If all edges are taken, edges of weight 0 are included."""
        return self.traversal.skips_zeros and self.fanout != EVERY

    def copies(self) -> RowCopies:
        """Return the whole rows that a cache holds, if any."""
        copies = None if self.cache is None else self.cache.copies(self.traversal.relation)
        return no_copies(self.traversal.arrays.rows.indices.dtype) if copies is None else copies

    def pool(self) -> NeighborPool:
        """Return the keys, rule and cached rows of the neighbor pool. Under FBL, it contains only whole rows."""
        refresh, fanout, relation = self.spec.refresh, self.fanout, self.traversal.relation
        picks = pick_prefix(*self.parts), fresh_prefix(*self.parts)
        if refresh is None or not self.pooled:
            rule = PoolRule(self.traversal.method, fanout, fanout, 0, EVERY, EVERY, self.skips_zeros, *picks)
            return NeighborPool(NO_KEYS, rule, NO_RECORDS, self.copies())
        size, slot = refresh.row_size(self.traversal.fanout, fanout), slot_of(self.spec, self.number)
        few = RowTable(self.traversal, slot, size, refresh.above).few
        rule = PoolRule(
            self.traversal.method, fanout, refresh.kept(fanout), size, refresh.above, few, self.skips_zeros, *picks
        )
        rows = None if self.cache is None else self.cache.rows(relation, slot, size)
        keys = row_keys(self.spec, relation, self.number, self.batch, self.rounds)
        return NeighborPool(keys, rule, NO_RECORDS if rows is None else rows, self.copies())

    def rule(self) -> DrawRule:
        """Return the rule for draws that are resampled in every batch."""
        ranked = self.fanout if self.traversal.method > LAST else EVERY
        return DrawRule(self.traversal.method, self.fanout, self.skips_zeros, 0 if self.skips_zeros else ranked)

    def keys(self) -> DrawKeys:
        """Return the keys of all draws of the hop."""
        seed, batch, number, kind = self.parts
        pick, none = pick_prefix(*self.parts), np.uint64(0)
        if self.traversal.method == LABOR:
            return DrawKeys(pick, *labor_keys(seed, batch, number, kind, self.spec.drawing.dependent))
        return DrawKeys(pick, hash_prefix(seed, batch, number, kind), none, none, none)


def _no_edges(traversal: Traversal, ids: np.dtype[Any], weighted: bool) -> Edges:
    """Return the empty edges before the first hop. `weighted` specifies whether edges have Horvitz-Thompson weights."""
    rows, weights = traversal.arrays.rows, np.empty(0, np.float64) if weighted else None
    # There are more positions than nodes, so they may need int64 even if ids are int32.
    fits = rows.indices.size + rows.delta.indices.size <= np.iinfo(ids).max
    return Edges(np.empty((2, 0), ids), np.empty(0, ids if fits else np.int64), weights)


def _expand(hop: _Hop, scratch: Scratch, before: Edges) -> Edges:
    """Return the edges of earlier hops and of this one.

    Chooses the kernel: `sample_uniform` for plain uniform draws, which relabels while it draws. Otherwise, the edges
    are drawn from the pool, or by the method's rule, and then relabelled.
    """
    relation, cached = hop.traversal.relation, hop.copies().places.size > 0
    frontier, reached = scratch.nodes[relation.expands], scratch.nodes[relation.reaches]
    # The common case has a separate kernel, which needs no draft of the hop and relabels neighbours while they are in
    # the CPU cache.
    if isinstance(frontier, NodeMap) and not _touches(hop, frontier):
        hop = replace(hop, eligible=hop.eligible._replace(excluded=NO_PAIRS))
        if hop.traversal.is_direct(hop.fanout) and not hop.pooled and not cached:
            assert isinstance(reached, NodeMap)
            return _expand_directly(hop, scratch, reached, before)
    at_once = hop.unlimited and (hop.pooled or cached)
    new = _draw_unlimited(hop, scratch) if at_once else (_draw_limited if hop.pooled else _draw)(hop, scratch)
    drawn = scratch.draft.arrays
    edges = _longer(before, new)
    old = edges.position.size - new
    edges.position[old:] = drawn.positions[:new]
    edges.index[1, old:] = drawn.row_nodes[:new]
    if edges.weight is not None:
        edges.weight[old:] = drawn.weights[:new]
    neighbors = edges.index[0, old:]
    if at_once or hop.pooled:
        neighbors[:] = drawn.neighbors[:new]
    else:
        _load(hop, scratch, edges, old)
    if not (at_once and isinstance(reached, NodeMap)):
        reached.renumber(neighbors, frontier.trees, edges.index[1, old:])
    return edges


def _load(hop: _Hop, scratch: Scratch, edges: Edges, old: int) -> None:
    """Write the neighbour ids of the edges from index `old` on."""
    rows, relation, copies = hop.traversal.arrays.rows, hop.traversal.relation, hop.copies()
    node_count = scratch.nodes[relation.reaches].node_count
    positions, neighbors, row_nodes = edges.position[old:], edges.index[0, old:], edges.index[1, old:]
    if copies.places.size == 0:
        sound = load_neighbors(rows, positions, node_count, neighbors)
        if hop.cache is not None:
            _count_misses(scratch, row_nodes)
    else:
        neighbors[:] = -1
        draft = scratch.draft.arrays._replace(positions=positions, row_nodes=row_nodes, neighbors=neighbors)
        nodes = scratch.nodes[relation.expands].nodes
        sound = load_pooled(rows, copies, nodes, draft, 0, positions.size, node_count)
    if not sound:
        raise damaged(relation)


def _draw_unlimited(hop: _Hop, scratch: Scratch) -> int:
    """Draw from pool rows, or from whole rows under FBL, into the scratch's draft and return the number of edges.

    Neighbours are relabelled to local ids, unless trees are disjoint.
    """
    traversal, pool = hop.traversal, hop.pool()
    frontier, reached = scratch.nodes[traversal.relation.expands], scratch.nodes[traversal.relation.reaches]
    local = LocalIds(reached.nodes, _NO_STAMPS, 0, reached.node_count)
    if isinstance(reached, NodeMap):
        reached.reserve((hop.high - hop.low) * min(hop.fanout, reached.node_count))
        # The kernel stops when the draft is full and returns the size that it needs. Doubling keeps restarts rare.
        local = reached.local_ids
    at, edges = hop.low, 0
    while at < hop.high:
        at, edges, reached.count, room = draw_unlimited(
            traversal.arrays.rows, pool, frontier.nodes, at, hop.high, local, reached.count, scratch.draft.arrays, edges
        )
        if at < 0:
            raise damaged(traversal.relation)
        scratch.draft.reserve(int(room), 0)
    return edges


def _draw_limited(hop: _Hop, scratch: Scratch) -> int:
    """Draw from pool rows under bounds or weights into the scratch's draft and return the number of edges."""
    traversal, pool, frontier = hop.traversal, hop.pool(), scratch.nodes[hop.traversal.relation.expands].frontier
    limit = scratch.nodes[traversal.relation.reaches].node_count
    at, edges = hop.low, 0
    while at < hop.high:
        at, edges, room, longest = draw_limited(
            traversal.arrays, hop.eligible, pool, frontier, at, hop.high, limit, scratch.draft.arrays, edges
        )
        if at < 0:
            raise damaged(traversal.relation)
        scratch.draft.reserve(int(room), int(longest))
    return edges


def _draw(hop: _Hop, scratch: Scratch) -> int:
    """Draw by the method's rule into the scratch's draft, which grows as needed, and return the number of edges."""
    traversal, keys, rule = hop.traversal, hop.keys(), hop.rule()
    frontier = scratch.nodes[traversal.relation.expands].frontier
    at, edges = hop.low, 0
    while at < hop.high:
        at, edges, room, longest = draw_rows(
            traversal.arrays, hop.eligible, keys, rule, frontier, at, hop.high, scratch.draft.arrays, edges
        )
        if at < 0:
            raise damaged(traversal.relation)
        scratch.draft.reserve(int(room), int(longest))
    return edges


def _expand_directly(hop: _Hop, scratch: Scratch, reached: NodeMap, before: Edges) -> Edges:
    """Run `_expand` for uniform draws without replacement from whole rows, into arrays of exactly the right size."""
    traversal, fanout, low, high = hop.traversal, hop.fanout, hop.low, hop.high
    rows, frontier, old = traversal.arrays.rows, scratch.nodes[traversal.relation.expands].nodes, before.position.size
    # Counting first costs one read per row, which also locates the rows for drawing, and avoids copying all edges.
    spans = buffers.empty((high - low, PLAIN_FIELDS if traversal.plain else FIELDS), np.int64)
    new = count_edges(rows, fanout, frontier, low, high, spans)
    if new < 0:
        raise damaged(traversal.relation)
    reached.reserve(new)
    edges = _longer(before, new)
    drawn, local, count = EdgeBuffers(edges.position, *edges.index), reached.local_ids, reached.count
    count, _ = sample_uniform(rows, hop.keys(), fanout, frontier, low, high, spans, local, count, drawn, old)
    if count < 0:
        raise damaged(traversal.relation)
    reached.count = count
    if hop.cache is not None:
        _count_misses(scratch, edges.index[1, old:])
    return edges


def _count_misses(scratch: Scratch, row_nodes: Int64s) -> None:
    """Count one cache miss per node. `row_nodes` contains each node once per edge, in order."""
    if row_nodes.size:
        scratch.draft.reads[MISSES] += 1 + np.count_nonzero(np.diff(row_nodes))
        scratch.draft.reads[READ_EDGES] += row_nodes.size


def _longer(before: Edges, new: int) -> Edges:
    """Return a copy of the edges with room for `new` more."""
    old = before.position.size
    weight = None if before.weight is None else buffers.empty((old + new,), np.float64)
    index = buffers.empty((2, old + new), before.index.dtype)
    edges = Edges(index, buffers.empty((old + new,), before.position.dtype), weight)
    edges.index[:, :old] = before.index
    edges.position[:old] = before.position
    if weight is not None:
        weight[:old] = before.weight
    return edges


def _touches(hop: _Hop, frontier: NodeMap) -> bool:
    """Return whether any expanded node is the corresponding end of an excluded pair."""
    # Most hops contain no excluded pair. They use the kernels without bounds, which neither truncate nor list rows.
    row_nodes = hop.eligible.excluded.row_node
    if row_nodes.size == 0:
        return False
    # Look up the stamps of the few pairs instead of searching the frontier for each pair.
    places = frontier.stamps[row_nodes].astype(np.int64) - frontier.first_stamp
    return bool(((places >= hop.low) & (places < hop.high)).any())

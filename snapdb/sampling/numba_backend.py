"""The numba back end: for each hop over each relation, the kernel that fits draws into the thread's scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from snapdb.arrays import Int64s
from snapdb.graph.view import GraphView
from snapdb.kernels import buffers
from snapdb.kernels.adjacency.spans import FIELDS, PLAIN_FIELDS
from snapdb.kernels.draw.eligible import Moments, Pairs
from snapdb.kernels.draw.hop import draw_rows
from snapdb.kernels.draw.pairs import load_neighbours
from snapdb.kernels.draw.scores import FLOYD, LABOR, LAST, DrawKeys, DrawRule
from snapdb.kernels.draw.uniform import EVERY, count_edges, sample_uniform
from snapdb.kernels.neighbor_pool.cache import BASE_EDGES, MISSES, BaseRows, CachedRows, load_kept
from snapdb.kernels.neighbor_pool.limited import draw_kept
from snapdb.kernels.neighbor_pool.rows import KeptRule, RowKeys
from snapdb.kernels.neighbor_pool.uniform import draw_unlimited
from snapdb.sampling.keys import EVERY_HOP, fresh_prefix, hash_prefix, labor_keys, pick_prefix
from snapdb.sampling.limits import NO_PAIRS, moments_of, pairs_of
from snapdb.sampling.neighbor_pool_cache import NO_KEYS, NO_RECORDS, CacheReader, no_copies
from snapdb.sampling.rounds import Rounds, RowTable, row_keys, row_size, slot_of
from snapdb.sampling.sampler import SampleRequest
from snapdb.sampling.scratch import NodeMap, Scratch
from snapdb.sampling.subgraph import Edges, SeedGroup
from snapdb.sampling.walks import Walk, damaged, open_walks
from snapdb.types import Backend, Relation, SampleSpec

_NO_STAMPS = np.empty(0, np.int32)
"""Nodes of trees are numbered apart."""


class NumbaBackend:
    """The relations of a sampler as the arrays that kernels read."""

    name: Backend = "numba"
    on_gpu = False

    def __init__(self, view: GraphView, spec: SampleSpec) -> None:
        """Open the relations; errors are those of `open_sampler`."""
        self.walks = self.host_walks = open_walks(view, spec)
        self._disjoint, self._weighted = spec.disjoint, spec.drawing.method == "PRIORITY"

    def scratch(self, node_counts: Mapping[str, int]) -> Scratch:
        """Working memory: at most 12 bytes per node of the snapshot, touched only where batches reach.

        That of disjoint trees grows with the largest batch instead.
        """
        return Scratch(node_counts, disjoint=self._disjoint, weighted=self._weighted)

    def begin(self, batch: SampleRequest, walks: Sequence[Any], scratch: Scratch) -> _NumbaSubgraph:
        """A neighborhood without nodes."""
        scratch.start()
        return _NumbaSubgraph(batch, walks, scratch)


class _NumbaSubgraph:
    """The neighborhood of one batch in a thread's scratch."""

    def __init__(self, batch: SampleRequest, walks: Sequence[Walk], scratch: Scratch) -> None:
        spec, entry = batch.spec, batch.entry
        self._batch, self._walks, self._scratch = batch, walks, scratch
        weighted = spec.drawing.method == "PRIORITY"
        self._edges = {walk.relation: _no_edges(weighted) for walk in walks}
        self._moments = moments_of(entry, spec.temporal)
        self._pairs = [pairs_of(entry.excluded, walk, spec.temporal) for walk in walks]

    def enter(self, group: SeedGroup, *, each: bool) -> Int64s:
        nodes = self._scratch.nodes[group.type]
        if each:
            assert isinstance(nodes, NodeMap)
            return nodes.enter_each(group.ids)
        return nodes.enter(group.ids, group.trees)

    def expand(self, place: int, hop: int, low: int, high: int) -> None:
        batch, walk = self._batch, self._walks[place]
        pairs = self._pairs[place]
        drawn = _Hop(batch.spec, walk, batch.number, hop, low, high, self._moments, pairs, batch.rounds, batch.cache)
        self._edges[walk.relation] = _expand(drawn, self._scratch, self._edges[walk.relation])

    def node_counts(self) -> dict[str, int]:
        return self._scratch.counts()

    def edge_counts(self) -> dict[Relation, int]:
        return {relation: edges.position.size for relation, edges in self._edges.items()}

    def finish(self) -> tuple[dict[str, Int64s], dict[Relation, Edges], dict[str, Int64s] | None]:
        """The scratch's nodes and trees are copied into arrays of their own."""
        if self._batch.cache is not None:
            self._batch.cache.count(self._scratch.reads)
        maps = self._scratch.nodes
        nodes = {name: _copied(each.nodes[: each.count]) for name, each in maps.items()}
        if not self._batch.spec.disjoint:
            return nodes, self._edges, None
        return nodes, self._edges, {name: _copied(each.trees[: each.count]) for name, each in maps.items()}


def _copied(values: Int64s) -> Int64s:
    copy: Int64s = buffers.empty(values.shape, values.dtype)
    copy[:] = values
    return copy


@dataclass(frozen=True, slots=True)
class _Hop:
    """The nodes that a hop expands over a relation, and what it draws."""

    spec: SampleSpec
    walk: Walk
    batch: int
    """Its global number."""
    number: int
    low: int
    """Expanded are the nodes with the local ids low ≤ id < high."""
    high: int
    moments: Moments
    pairs: Pairs
    rounds: Rounds | None = None
    cache: CacheReader | None = None

    @property
    def fanout(self) -> int:
        return self.walk.count(self.number)

    @property
    def kept(self) -> bool:
        """Whether nodes have rows that serve many batches."""
        return self.spec.refresh is not None and self.fanout != EVERY

    @property
    def unlimited(self) -> bool:
        """Whether all edges of a node are eligible, and equally likely."""
        return self.walk.method == FLOYD and self.moments.high.size == 0 and self.pairs.far.size == 0

    @property
    def parts(self) -> tuple[int, int, int, int]:
        """What draw keys of the whole hop are made of."""
        number = EVERY_HOP if self.spec.reuse_hops else self.number
        return self.spec.seed, self.batch, number, self.walk.relation.hash

    @property
    def skips_zeros(self) -> bool:
        """Whether edges of weight 0 are not in the rows. Where all edges are taken, they are there."""
        return self.walk.skips_zeros and self.fanout != EVERY

    def copies(self) -> BaseRows:
        """Whole rows that a cache holds."""
        found = None if self.cache is None else self.cache.base(self.walk.relation)
        return no_copies(self.walk.arrays.rows.indices.dtype) if found is None else found

    def rows(self) -> tuple[RowKeys, KeptRule, CachedRows]:
        """Rows that serve many batches, how edges are drawn from them, and those that a cache holds; none under FBL."""
        refresh, fanout, relation = self.spec.refresh, self.fanout, self.walk.relation
        picks = pick_prefix(*self.parts), fresh_prefix(*self.parts)
        if refresh is None or not self.kept:
            rule = KeptRule(self.walk.method, fanout, fanout, 0, EVERY, EVERY, self.skips_zeros, *picks)
            return NO_KEYS, rule, NO_RECORDS
        size, slot = row_size(refresh, self.walk.fanout, fanout), slot_of(self.spec, self.number)
        few = RowTable(self.walk, slot, size, refresh.above).few
        rule = KeptRule(
            self.walk.method, fanout, refresh.kept(fanout), size, refresh.above, few, self.skips_zeros, *picks
        )
        found = None if self.cache is None else self.cache.rows(relation, slot, size)
        keys = row_keys(self.spec, relation, self.number, self.batch, self.rounds)
        return keys, rule, NO_RECORDS if found is None else found

    def rule(self) -> DrawRule:
        """How edges are drawn where batches draw afresh."""
        ranked = self.fanout if self.walk.method > LAST else EVERY
        return DrawRule(self.walk.method, self.fanout, self.skips_zeros, 0 if self.skips_zeros else ranked)

    def keys(self) -> DrawKeys:
        """The keys of all its draws."""
        seed, batch, number, kind = self.parts
        pick, none = pick_prefix(*self.parts), np.uint64(0)
        if self.walk.method == LABOR:
            return DrawKeys(pick, *labor_keys(seed, batch, number, kind, self.spec.drawing.dependent))
        return DrawKeys(pick, hash_prefix(seed, batch, number, kind), none, none, none)


def _no_edges(weighted: bool) -> Edges:
    """Edges to begin with, with Horvitz-Thompson weights where edges are `weighted`."""
    weights = np.empty(0, np.float64) if weighted else None
    return Edges(np.empty((2, 0), np.int64), np.empty(0, np.int64), weights)


def _expand(hop: _Hop, scratch: Scratch, before: Edges) -> Edges:
    """The edges of the hops before, and those of this one."""
    relation, copies = hop.walk.relation, hop.copies()
    frontier, near = scratch.nodes[relation.expands], scratch.nodes[relation.reaches]
    if isinstance(frontier, NodeMap) and not _touches(hop, frontier):
        hop = replace(hop, pairs=NO_PAIRS)
        if hop.walk.is_direct(hop.fanout) and not hop.kept and copies.places.size == 0:
            assert isinstance(near, NodeMap)
            return _expand_directly(hop, scratch, near, before)
    at_once = hop.unlimited and (hop.kept or copies.places.size > 0)
    edges = _draw_unlimited(hop, scratch) if at_once else (_draw_kept if hop.kept else _draw)(hop, scratch)
    drawn = scratch.draft.arrays
    found = _longer(before, edges)
    old = found.position.size - edges
    found.position[old:] = drawn.positions[:edges]
    found.index[1, old:] = drawn.sides[:edges]
    if found.weight is not None:
        found.weight[old:] = drawn.weights[:edges]
    far = found.index[0, old:]
    if at_once or hop.kept:
        far[:] = drawn.neighbours[:edges]
    else:
        _load(hop, scratch, found, old)
    if not (at_once and isinstance(near, NodeMap)):
        near.renumber(far, frontier.trees, found.index[1, old:])
    return found


def _load(hop: _Hop, scratch: Scratch, found: Edges, old: int) -> None:
    """Writes the ids of the neighbours from edge number `old` on."""
    rows, relation, copies = hop.walk.arrays.rows, hop.walk.relation, hop.copies()
    indices, tail, nodes = rows.indices, rows.patch.indices, scratch.nodes[relation.reaches].node_count
    position, far, sides = found.position[old:], found.index[0, old:], found.index[1, old:]
    if copies.places.size == 0:
        sound = load_neighbours(indices, tail, position, nodes, far)
        if hop.cache is not None:
            _count_misses(scratch, sides)
    else:
        far[:] = -1
        who, edges = scratch.nodes[relation.expands].nodes, position.size
        sound = load_kept(indices, tail, copies, who, sides, position, 0, edges, nodes, far, scratch.reads)
    if not sound:
        raise damaged(relation)


def _draw_unlimited(hop: _Hop, scratch: Scratch) -> int:
    """Draws from rows, whole ones under FBL, into the scratch's draft; returns how many edges.

    Their neighbours are local ids then, unless each tree has nodes of its own.
    """
    walk, frontier, near = hop.walk, scratch.nodes[hop.walk.relation.expands], scratch.nodes[hop.walk.relation.reaches]
    keys, rule, records = hop.rows()
    at, edges, nodes, stamps, base = hop.low, 0, near.nodes, _NO_STAMPS, 0
    if isinstance(near, NodeMap):
        near.reserve((hop.high - hop.low) * min(hop.fanout, near.node_count))
        nodes, stamps, base = near.nodes, near.stamps, near.base
    while at < hop.high:
        draft = scratch.draft.arrays
        at, edges, met, room = draw_unlimited(
            walk.arrays.rows,
            keys,
            rule,
            records,
            hop.copies(),
            frontier.nodes,
            at,
            hop.high,
            near.node_count,
            nodes,
            near.count,
            stamps,
            base,
            draft.positions,
            draft.sides,
            draft.neighbours,
            edges,
            scratch.reads,
        )
        if at < 0:
            raise damaged(walk.relation)
        near.count = met
        scratch.draft.reserve(int(room), 0)
    return edges


def _draw_kept(hop: _Hop, scratch: Scratch) -> int:
    """Draws from rows that serve many batches into the scratch's draft; returns how many edges."""
    walk, frontier, copies = hop.walk, scratch.nodes[hop.walk.relation.expands], hop.copies()
    keys, rule, records = hop.rows()
    limit = scratch.nodes[walk.relation.reaches].node_count
    at, edges = hop.low, 0
    while at < hop.high:
        at, edges, room, longest = draw_kept(
            walk.arrays,
            hop.moments,
            hop.pairs,
            keys,
            rule,
            records,
            copies,
            frontier.nodes,
            at,
            hop.high,
            limit,
            frontier.trees,
            scratch.draft.arrays,
            edges,
            scratch.reads,
        )
        if at < 0:
            raise damaged(walk.relation)
        scratch.draft.reserve(int(room), int(longest))
    return edges


def _draw(hop: _Hop, scratch: Scratch) -> int:
    """Draws into the scratch's draft, which grows as needed; returns how many edges."""
    walk, frontier, keys, rule = hop.walk, scratch.nodes[hop.walk.relation.expands], hop.keys(), hop.rule()
    at, edges = hop.low, 0
    while at < hop.high:
        at, edges, room, longest = draw_rows(
            walk.arrays,
            hop.moments,
            hop.pairs,
            keys,
            rule,
            frontier.nodes,
            frontier.trees,
            at,
            hop.high,
            scratch.draft.arrays,
            edges,
        )
        if at < 0:
            raise damaged(walk.relation)
        scratch.draft.reserve(int(room), int(longest))
    return edges


def _expand_directly(hop: _Hop, scratch: Scratch, near: NodeMap, before: Edges) -> Edges:
    """The same for uniform draws without replacement from whole rows, drawn into arrays of just the right size."""
    walk, fanout, low, high = hop.walk, hop.fanout, hop.low, hop.high
    rows, frontier = walk.arrays.rows, scratch.nodes[walk.relation.expands]
    spans = buffers.empty((high - low, PLAIN_FIELDS if walk.plain else FIELDS), np.int64)
    new = count_edges(rows, fanout, frontier.nodes, low, high, spans)
    if new < 0:
        raise damaged(walk.relation)
    near.reserve(new)
    found = _longer(before, new)
    near.count, _ = sample_uniform(
        rows,
        hop.keys().pick,
        fanout,
        frontier.nodes,
        low,
        high,
        spans,
        near.nodes,
        near.count,
        near.stamps,
        near.base,
        found.position,
        found.index[0],
        found.index[1],
        before.position.size,
    )
    if near.count < 0:
        raise damaged(walk.relation)
    if hop.cache is not None:
        _count_misses(scratch, found.index[1, before.position.size :])
    return found


def _count_misses(scratch: Scratch, sides: Int64s) -> None:
    """Counts nodes whose edges a cache has none of; `sides` names them in order, once for each edge."""
    if sides.size:
        scratch.reads[MISSES] += 1 + np.count_nonzero(np.diff(sides))
        scratch.reads[BASE_EDGES] += sides.size


def _longer(before: Edges, new: int) -> Edges:
    """The edges, with room for `new` more."""
    old = before.position.size
    weight = None if before.weight is None else buffers.empty((old + new,), np.float64)
    found = Edges(buffers.empty((2, old + new), np.int64), buffers.empty((old + new,), np.int64), weight)
    found.index[:, :old] = before.index
    found.position[:old] = before.position
    if weight is not None:
        weight[:old] = before.weight
    return found


def _touches(hop: _Hop, frontier: NodeMap) -> bool:
    """Whether a node that is expanded is an end of an excluded pair on its side."""
    if hop.pairs.near.size == 0:
        return False
    places = frontier.stamps[hop.pairs.near].astype(np.int64) - frontier.base
    return bool(((places >= hop.low) & (places < hop.high)).any())

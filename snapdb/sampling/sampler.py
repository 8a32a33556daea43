"""From seeds to their neighbourhood: a pure function of the batch number and the sampler's seed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from snapdb.errors import BindError, CorruptError
from snapdb.graph.view import Adjacency, GraphView
from snapdb.kernels import buffers
from snapdb.kernels.sample import EVERY, count_edges, sample_uniform
from snapdb.kernels.spans import FIELDS, is_plain
from snapdb.sampling.keys import pick_prefix
from snapdb.sampling.scratch import Scratch
from snapdb.sampling.subgraph import Edges, Entry, Subgraph
from snapdb.types import FULL, Fanout, Relation, SampleSpec

__all__ = ["Sampler", "Walk"]

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Walk:
    """One relation as a sampler walks it, hop by hop."""

    relation: Relation
    fanout: Fanout
    adjacency: Adjacency
    plain: bool
    """The adjacency is nothing but a root: rows need not be located."""

    def count(self, hop: int) -> int:
        """How many edges a node gets at this hop."""
        counts = self.fanout.counts
        if hop >= len(counts):
            return 0
        return EVERY if counts[hop] == FULL else counts[hop]


class Sampler:
    """Samples neighbourhoods in one snapshot. It holds no state: threads share it, each with its own scratch."""

    def __init__(self, view: GraphView, spec: SampleSpec) -> None:
        """Opens the relations that the sampler walks.

        Raises:
            BindError: two fanouts lead to the same key of a batch.
            CorruptError: a relation's rows are not those of its nodes.
            ValueError: a fanout is negative and not FULL, or the seed type is not in the snapshot.
        """
        _check(view, spec)
        self.spec = spec
        self.walks = tuple(
            Walk(relation, fanout, adjacency := view.adjacency(relation), bool(is_plain(adjacency.rows)))
            for fanout in sorted(spec.fanouts, key=lambda fanout: fanout.sort_key)
            for relation in fanout.relations
        )
        for walk in self.walks:
            if walk.adjacency.nodes != view.node_counts[walk.relation.expands]:
                raise _damaged(walk)
        reached = [name for walk in self.walks for name in (walk.relation.expands, walk.relation.reaches)]
        self.node_types = tuple(dict.fromkeys([spec.seed_type, *reached]))
        """The seed type, then the others in the order in which the walks name them."""
        self.relations = tuple(walk.relation for walk in self.walks)
        self._node_counts = {name: view.node_counts[name] for name in self.node_types}

    def scratch(self) -> Scratch:
        """Working memory for one thread: at most 12 bytes a node of the snapshot, touched only where batches reach."""
        return Scratch(self._node_counts)

    def sample(self, entry: Entry, batch: int, scratch: Scratch) -> Subgraph:
        """The neighbourhood of those who enter, in global batch number `batch`.

        The same arguments give the same arrays, bit for bit, whatever the scratch did before. Raises IndexError when
        an id is not of the snapshot.
        """
        seeds = entry.groups[0].ids
        count = self._node_counts[self.spec.seed_type]
        if seeds.size and not 0 <= int(seeds.min()) <= int(seeds.max()) < count:
            raise IndexError(f"seeds are dense ids 0 ≤ id < {count}, found {int(seeds.min())} to {int(seeds.max())}")
        scratch.start()
        scratch.nodes[self.spec.seed_type].enter(seeds)
        edges = {relation: Edges(np.empty((2, 0), np.int64), np.empty(0, np.int64)) for relation in self.relations}
        met = [dict.fromkeys(self.node_types, 0), scratch.counts()]
        drawn = [dict.fromkeys(self.relations, 0)]
        for hop in range(self.spec.hops):
            for walk in self.walks:
                low, high = (counts[walk.relation.expands] for counts in met[-2:])
                if low < high and (fanout := walk.count(hop)):
                    prefix = pick_prefix(self.spec.seed, batch, hop, walk.fanout.hash)
                    edges[walk.relation] = _expand(walk, prefix, fanout, low, high, scratch, edges[walk.relation])
            met.append(scratch.counts())
            drawn.append({relation: found.position.size for relation, found in edges.items()})
        return _subgraph(scratch, edges, met, drawn)


def _expand(walk: Walk, prefix: np.uint64, fanout: int, low: int, high: int, scratch: Scratch, before: Edges) -> Edges:
    """The edges of the hops before, and those of one hop more, drawn into arrays of just the right size."""
    rows = walk.adjacency.rows
    frontier, near = scratch.nodes[walk.relation.expands].nodes, scratch.nodes[walk.relation.reaches]
    spans = buffers.empty((0 if walk.plain else high - low, FIELDS), np.int64)
    new = count_edges(rows, fanout, frontier, low, high, spans)
    if new < 0:
        raise _damaged(walk)
    near.reserve(new)
    old = before.position.size
    found = Edges(buffers.empty((2, old + new), np.int64), buffers.empty((old + new,), np.int64))
    found.index[:, :old] = before.index
    found.position[:old] = before.position
    near.count, _ = sample_uniform(
        rows,
        prefix,
        fanout,
        frontier,
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
        old,
    )
    if near.count < 0:
        raise _damaged(walk)
    return found


def _damaged(walk: Walk) -> CorruptError:
    edge = walk.relation.edge.edge
    return CorruptError(
        f"the adjacency of {edge} is damaged: it leads out of its arrays; CHECK DATABASE names the file"
    )


def _subgraph(
    scratch: Scratch, edges: dict[Relation, Edges], met: list[dict[str, int]], drawn: list[dict[Relation, int]]
) -> Subgraph:
    """What was drawn, and the scratch's nodes in arrays of their own."""
    hops = tuple(
        tuple(found.block(relation, before[relation], after[relation]) for relation, found in edges.items())
        for before, after in pairwise(drawn)
    )
    nodes = {name: _copied(found.nodes[: found.count]) for name, found in scratch.nodes.items()}
    new = {name: tuple(after[name] - before[name] for before, after in pairwise(met)) for name in nodes}
    return Subgraph(nodes, hops, new, edges)


def _copied(values: Int64s) -> Int64s:
    copy: Int64s = buffers.empty(values.shape, values.dtype)
    copy[:] = values
    return copy


def _check(view: GraphView, spec: SampleSpec) -> None:
    """Refuses what cannot be sampled."""
    if spec.seed_type not in view.node_counts:
        found = ", ".join(view.node_counts)
        raise ValueError(f"seeds of type {spec.seed_type!r} were asked, but the snapshot has: {found}")
    keys: dict[tuple[str, ...], Fanout] = {}
    for fanout in spec.fanouts:
        if wrong := [count for count in fanout.counts if count < 0 and count != FULL]:
            raise ValueError(f"a fanout is 0, a positive number or FULL ({FULL}), found {wrong[0]} for {fanout.edge}")
        for relation in fanout.relations:
            if other := keys.get(relation.key):
                raise BindError(
                    f"{_name(other)} and {_name(fanout)} both fill {tuple(relation.key)} of a batch; "
                    "keep one of them, or rename an edge type in the graph"
                )
            keys[relation.key] = fanout


def _name(fanout: Fanout) -> str:
    return f"{fanout.edge.edge} {fanout.direction}"

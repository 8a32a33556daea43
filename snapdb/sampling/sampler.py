"""From seeds to their neighbourhood: a pure function of the batch number and the sampler's seed."""

from collections.abc import Mapping
from itertools import pairwise

from snapdb.arrays import Int64s
from snapdb.graph.view import GraphView
from snapdb.kernels import buffers
from snapdb.sampling.hops import Hop, expand, no_edges
from snapdb.sampling.kept import CacheReader
from snapdb.sampling.limits import moments_of, pairs_of
from snapdb.sampling.rounds import Rounds
from snapdb.sampling.scratch import NodeMap, Scratch
from snapdb.sampling.subgraph import Edges, Entry, Subgraph
from snapdb.sampling.walks import open_walks
from snapdb.types import Relation, SampleSpec


class Sampler:
    """Samples neighbourhoods in one snapshot. It holds no state: threads share it, each with its own scratch."""

    def __init__(self, view: GraphView, spec: SampleSpec) -> None:
        """Opens the relations that the sampler walks.

        Raises:
            BindError: two fanouts lead to the same key of a batch, or an edge type has no weights.
            CorruptError: a relation's rows or columns are not those of its nodes.
            DataError: weights are not finite, or negative.
            ValueError: a fanout is negative and not FULL, or the seed type is not in the snapshot.
        """
        if spec.seed_type not in view.node_counts:
            found = ", ".join(view.node_counts)
            raise ValueError(f"seeds of type {spec.seed_type!r} were asked, but the snapshot has: {found}")
        self.spec = spec
        self.walks = open_walks(view, spec)
        ends = [] if spec.link is None else [spec.link.edge.destination]
        reached = [name for walk in self.walks for name in (walk.relation.expands, walk.relation.reaches)]
        self.node_types = tuple(dict.fromkeys([spec.seed_type, *ends, *reached]))
        """The seed type, that of seed edges' destinations, then the others in the order in which walks name them."""
        self.relations = tuple(walk.relation for walk in self.walks)
        self._node_counts = {name: view.node_counts[name] for name in self.node_types}
        self._weighted = spec.drawing.method == "PRIORITY"
        self.cache: CacheReader | None = None
        """Where rows are looked for first. No batch depends on it."""

    def scratch(self) -> Scratch:
        """Working memory for one thread: at most 12 bytes a node of the snapshot, touched only where batches reach.

        That of disjoint trees goes with the greatest batch instead.
        """
        return Scratch(self._node_counts, disjoint=self.spec.disjoint, weighted=self._weighted)

    def sample(self, entry: Entry, batch: int, scratch: Scratch, rounds: Rounds | None = None) -> Subgraph:
        """The neighbourhood of those who enter, in global batch number `batch`.

        `rounds` of rows are given under REFRESH OTF SCOPE VISITED; without them all rows are of round 0.

        The same arguments give the same arrays, bit for bit, whatever the scratch did before. Raises IndexError when
        an id is not of the snapshot.
        """
        spec, cache = self.spec, self.cache
        _check(entry, self._node_counts)
        scratch.start()
        entered = self._enter(entry, scratch)
        edges = {relation: no_edges(self._weighted) for relation in self.relations}
        moments = moments_of(entry, spec.temporal)
        pairs = {walk.relation: pairs_of(entry.excluded, walk, spec.temporal) for walk in self.walks}
        met = [dict.fromkeys(self.node_types, 0), scratch.counts()]
        drawn = [dict.fromkeys(self.relations, 0)]
        for number in range(spec.hops):
            for walk in self.walks:
                low, high = (counts[walk.relation.expands] for counts in met[-2:])
                hop = Hop(
                    spec,
                    walk,
                    batch,
                    number,
                    0 if spec.layout == "BLOCKS" else low,
                    high,
                    moments,
                    pairs[walk.relation],
                    rounds,
                    cache,
                )
                if hop.low < high and hop.fanout:
                    edges[walk.relation] = expand(hop, scratch, edges[walk.relation])
            met.append(scratch.counts())
            drawn.append({relation: found.position.size for relation, found in edges.items()})
        if cache is not None:
            cache.count(scratch.reads)
        return _subgraph(scratch, edges, met, drawn, entered, spec.disjoint)

    def _enter(self, entry: Entry, scratch: Scratch) -> tuple[Int64s, ...]:
        """The local ids of each group; seeds that are vertices get one each, even where they are the same vertex."""
        found = []
        for group in entry.groups:
            nodes = scratch.nodes[group.type]
            if isinstance(nodes, NodeMap) and self.spec.link is None and len(entry.groups) == 1:
                found.append(nodes.enter_each(group.ids))
            else:
                found.append(nodes.enter(group.ids, group.trees))
        return tuple(found)


def _check(entry: Entry, node_counts: Mapping[str, int]) -> None:
    """Refuses who cannot enter."""
    seeds = entry.ordinals.size
    for i, group in enumerate(entry.groups):
        who = "seeds" if len(entry.groups) == 1 else f"group {i} of those who enter, of type {group.type},"
        for what, ids, count in (("dense ids", group.ids, node_counts[group.type]), ("trees", group.trees, seeds)):
            if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < count:
                sort = what if what == "dense ids" else "of trees"
                raise IndexError(f"{who} are {sort} 0 ≤ id < {count}, found {int(ids.min())} to {int(ids.max())}")


def _subgraph(
    scratch: Scratch,
    edges: dict[Relation, Edges],
    met: list[dict[str, int]],
    drawn: list[dict[Relation, int]],
    entered: tuple[Int64s, ...],
    disjoint: bool,
) -> Subgraph:
    """What was drawn, and the scratch's nodes in arrays of their own."""
    hops = tuple(
        tuple(found.block(relation, before[relation], after[relation]) for relation, found in edges.items())
        for before, after in pairwise(drawn)
    )
    nodes = {name: _copied(found.nodes[: found.count]) for name, found in scratch.nodes.items()}
    trees = {name: _copied(found.trees[: found.count]) for name, found in scratch.nodes.items()} if disjoint else None
    new = {name: tuple(after[name] - before[name] for before, after in pairwise(met)) for name in nodes}
    return Subgraph(nodes, hops, new, edges, entered, trees)


def _copied(values: Int64s) -> Int64s:
    copy: Int64s = buffers.empty(values.shape, values.dtype)
    copy[:] = values
    return copy

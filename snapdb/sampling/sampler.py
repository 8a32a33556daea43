"""The neighbor sampler: a loop over hops and relations whose edges are drawn by a numba or torch back end.

The back ends return the same arrays, bit for bit (docs/adr/0005).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from snapdb.graph.view import Adjacency, GraphView
from snapdb.sampling.neighbor_pool_cache import CacheReader
from snapdb.sampling.rounds import Rounds
from snapdb.sampling.scratch import Scratch
from snapdb.sampling.subgraph import Edges, Ints, SamplerInput, SeedGroup, Subgraph
from snapdb.sampling.traversals import Traversal
from snapdb.types import Backend, Fanout, Relation, SampleSpec
from snapdb.types.sampling import ZeroWeight


class RelationTraversal(Protocol):
    """One relation, prepared by a back end for sampling hop by hop."""

    @property
    def relation(self) -> Relation: ...
    @property
    def fanout(self) -> Fanout: ...
    @property
    def adjacency(self) -> Adjacency:
        """The rows to which a batch's positions refer."""

    @property
    def skips_zeros(self) -> bool:
        """Whether some edges have weight 0 and are never drawn."""

    def count(self, hop: int) -> int:
        """Return the number of edges that a node draws at this hop."""


class SampleRequest(NamedTuple):
    """The input of one batch's draws. It determines the draws completely, and the cache only makes them faster."""

    spec: SampleSpec
    entry: SamplerInput
    """The seeds of the batch, with times and excluded edges."""
    number: int
    """The global batch number."""
    rounds: Rounds | None = None
    """The rounds of rows, under REFRESH OTF SCOPE VISITED. None means round 0."""
    cache: CacheReader | None = None
    """The cache in which rows are looked up first. It never changes a batch."""


class _PartialSubgraph(Protocol):
    """The subgraph of one batch, to which hops are added."""

    def enter(self, group: SeedGroup, *, each: bool) -> Ints:
        """Add vertices and return their local ids. With `each`, every duplicate gets its own local id."""

    def expand(self, place: int, hop: int, low: int, high: int) -> None:
        """Draw the edges of one hop over traversal `place`, for the nodes with local ids low ≤ id < high."""

    def node_counts(self) -> dict[str, int]:
        """Return the number of nodes so far, per vertex type."""

    def edge_counts(self) -> dict[Relation, int]:
        """Return the number of edges so far, per relation."""

    def finish(self) -> tuple[dict[str, Ints], dict[Relation, Edges], dict[str, Ints] | None]:
        """Return nodes per vertex type, edges per relation and, for disjoint trees, the tree of each node."""


class SamplerBackend(Protocol):
    """Opened relations and the code that draws their edges. Threads can share it."""

    @property
    def name(self) -> Backend: ...
    @property
    def on_gpu(self) -> bool: ...
    @property
    def traversals(self) -> Sequence[RelationTraversal]:
        """The relations, in sampling order."""

    @property
    def host_traversals(self) -> tuple[Traversal, ...]:
        """The same relations as arrays in host memory."""

    def scratch(self, node_counts: Mapping[str, int]) -> Scratch:
        """Return scratch memory for one thread."""

    def begin(
        self, batch: SampleRequest, traversals: Sequence[RelationTraversal], scratch: Scratch
    ) -> _PartialSubgraph:
        """Return an empty subgraph, whose edges are drawn over these traversals."""


class NeighborSampler:
    """Samples the neighbourhoods of seeds in one snapshot. Threads can share it, each with separate scratch memory.

    A batch is a pure function of the statement, the batch number and the input.
    """

    def __init__(self, view: GraphView, spec: SampleSpec, backend: SamplerBackend) -> None:
        self.spec, self.backend, self.traversals = spec, backend, backend.traversals
        ends = [] if spec.link is None else [spec.link.edge.destination]
        reached = [
            name for traversal in self.traversals for name in (traversal.relation.expands, traversal.relation.reaches)
        ]
        self.node_types = tuple(dict.fromkeys([spec.seed_type, *ends, *reached]))
        """The seed type, the type of the seed edges' destinations, then the other types in traversal order."""
        self.relations = tuple(traversal.relation for traversal in self.traversals)
        self._node_counts = {name: view.node_counts[name] for name in self.node_types}
        self.cache: CacheReader | None = None
        """The cache in which rows are looked up first. It never changes a batch."""

    @property
    def on_gpu(self) -> bool:
        """Whether sampling runs on a GPU."""
        return self.backend.on_gpu

    @property
    def zero_weight(self) -> ZeroWeight | None:
        """The rule for edges of weight 0, or None if there are no such edges."""
        return "NEVER" if any(traversal.skips_zeros for traversal in self.traversals) else None

    def scratch(self) -> Scratch:
        """Return scratch memory for one thread."""
        return self.backend.scratch(self._node_counts)

    def sample(self, entry: SamplerInput, batch: int, scratch: Scratch, rounds: Rounds | None = None) -> Subgraph:
        """Sample the neighbourhood of an input. Returns arrays, or tensors on a GPU.

        Args:
            entry: The seeds of the batch.
            batch: The global batch number.
            scratch: The calling thread's scratch memory. Its contents never change a batch.
            rounds: The rounds of rows, under REFRESH OTF SCOPE VISITED. None means round 0.

        Raises:
            CorruptError: A row extends beyond its arrays.
            IndexError: An id of the input is not in the snapshot.
        """
        spec = self.spec
        _check(entry, self._node_counts)
        partial = self.backend.begin(SampleRequest(spec, entry, batch, rounds, self.cache), self.traversals, scratch)
        # Each vertex seed gets its own local id, even if a vertex occurs twice, so that row i of a model's output
        # belongs to seed i.
        each = not spec.disjoint and spec.link is None and len(entry.groups) == 1
        entered = tuple(partial.enter(group, each=each) for group in entry.groups)
        nodes = [dict.fromkeys(self.node_types, 0), partial.node_counts()]
        edges = [dict.fromkeys(self.relations, 0)]
        # All relations of a hop expand the same frontier: nodes[-2:] are the counts before and after the previous hop,
        # and nothing is appended to `nodes` until every relation is done.
        for hop in range(spec.hops):
            for place, traversal in enumerate(self.traversals):
                low, high = (counts[traversal.relation.expands] for counts in nodes[-2:])
                low = 0 if spec.layout == "BLOCKS" else low
                if low < high and traversal.count(hop):
                    partial.expand(place, hop, low, high)
            nodes.append(partial.node_counts())
            edges.append(partial.edge_counts())
        ids, drawn, trees = partial.finish()
        blocks = tuple(
            tuple(found.block(relation, before[relation], after[relation]) for relation, found in drawn.items())
            for before, after in pairwise(edges)
        )
        new = {name: tuple(after[name] - before[name] for before, after in pairwise(nodes)) for name in ids}
        return Subgraph(ids, blocks, new, drawn, entered, trees)


def _check(entry: SamplerInput, node_counts: Mapping[str, int]) -> None:
    """Raise IndexError if an id or a tree of the input is out of range."""
    seeds = entry.ordinals.size
    for i, group in enumerate(entry.groups):
        who = "seeds" if len(entry.groups) == 1 else f"seeds of group {i}, of type {group.type},"
        for what, ids, count in (("dense ids", group.ids, node_counts[group.type]), ("trees", group.trees, seeds)):
            if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < count:
                raise IndexError(
                    f"{what} of {who} must be 0 ≤ id < {count}, found {int(ids.min())} to {int(ids.max())}"
                )

"""The sampling contract `snapdb-1` in plain Python integers: a slow, short reference for every engine.

It is written from the contract alone and does not import snapdb, so it cannot repeat an error of the engine. Section
names in parentheses ("Keys", "Rows", …) refer to the contract. This module contains whole batches and the SAMPLE
statement. The other modules contain numbers, graphs, methods and seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

from tests.support.oracle.graph import ALWAYS, OPEN, Bounds, Edge, Entry, Graph, bounds_of, logical_row, may_see
from tests.support.oracle.methods import FULL, Method, Options, Pick, Place, choose
from tests.support.oracle.numbers import (
    FRESH,
    HASH,
    MASK,
    NEG,
    PHASE,
    PICK,
    ROW,
    SEEDPERM,
    Direction,
    EdgeKey,
    G,
    below,
    draw,
    floyd,
    fold,
    key,
    mix,
    pick_key,
    race_length,
    type_hash,
    type_text,
    u32,
)
from tests.support.oracle.rows import Refresh, Rounds, Slot, hold, phase, serve
from tests.support.oracle.seeds import (
    Known,
    Order,
    batches_before,
    candidates,
    epoch_batches,
    epoch_seeds,
    global_batch,
    negatives,
    seed_order,
    slices,
    weighted_negatives,
)

__all__ = [
    "ALWAYS",
    "FRESH",
    "FULL",
    "HASH",
    "MASK",
    "NEG",
    "OPEN",
    "PHASE",
    "PICK",
    "ROW",
    "SEEDPERM",
    "Block",
    "Bounds",
    "Direction",
    "Edge",
    "EdgeKey",
    "Entrants",
    "Entry",
    "Fanout",
    "G",
    "Graph",
    "Known",
    "Method",
    "Options",
    "Order",
    "Pick",
    "Place",
    "Refresh",
    "Result",
    "Rounds",
    "Row",
    "SampledEdge",
    "Slot",
    "batches_before",
    "below",
    "bounds_of",
    "candidates",
    "choose",
    "draw",
    "entered",
    "epoch_batches",
    "epoch_seeds",
    "floyd",
    "fold",
    "global_batch",
    "hold",
    "key",
    "logical_row",
    "may_see",
    "mix",
    "negatives",
    "phase",
    "pick_key",
    "race_length",
    "rows",
    "sample",
    "sample_entrants",
    "seed_order",
    "serve",
    "slices",
    "type_hash",
    "type_text",
    "u32",
    "weighted_negatives",
]

Fanout = tuple[EdgeKey, Direction, list[int]]
"""An edge type, its direction, and the number of neighbours to draw at each hop."""


class SampledEdge(NamedTuple):
    """A sampled edge, whose ends are local ids."""

    neighbor: int
    seed_side: int
    edge_id: int
    outward: bool
    weight: float | None = None
    """The Horvitz-Thompson weight under PRIORITY."""


@dataclass(frozen=True)
class Block:
    """The edges that one hop drew over one edge type, in emission order."""

    edge: EdgeKey
    direction: Direction
    """BOTH occurs only between equal vertex types. Otherwise, BOTH is traversed as an IN block and an OUT block."""
    edges: list[SampledEdge] = field(default_factory=list)


@dataclass(frozen=True)
class Result:
    """The neighbourhood of one batch, with local ids from 0 per vertex type, seeds first."""

    nodes: dict[str, list[int]]
    """Vertex type → dense ids by local id."""
    hops: list[list[Block]]
    nodes_per_hop: dict[str, list[int]]
    """Vertex type → the number of new nodes at the seeds and at each hop."""
    entered: list[list[int]] = field(default_factory=list)
    """For each group of the input, its local ids."""
    trees: dict[str, list[int]] | None = None
    """For disjoint trees: vertex type → the index, in the batch, of the seed whose tree each node is in."""


class Entrants(NamedTuple):
    """The input of a batch: its seeds and the vertices that are added with them."""

    groups: list[tuple[str, list[int], list[int]]]
    """(vertex type, dense ids, the index in the batch of the seed to which each belongs)."""
    ordinals: list[int]
    """Each seed's ordinal in the seed set."""
    times: list[int] | None = None
    """Each seed's time."""
    excluded: Mapping[EdgeKey, list[tuple[int, int, int]]] = {}
    """Edge type → (source, destination, seed) of edges that the batch, or the seed's tree, must not sample."""
    link: bool = False
    """Whether seeds are edges. A vertex then gets one local id, however many groups contain it."""


def entered(kind: str, ids: list[int], ordinals: list[int] | None = None, times: list[int] | None = None) -> Entrants:
    """Return the input for vertex seeds. Ordinals default to 0, 1, …"""
    places = list(range(len(ids)))
    return Entrants([(kind, ids, places)], places if ordinals is None else ordinals, times)


def traversals(edge: EdgeKey, direction: Direction) -> list[tuple[Direction, str, str]]:
    """Return (direction, expanded vertex type, reached type). BOTH between different types is IN, then OUT ("Rows")."""
    source, _, destination = edge
    inward: tuple[Direction, str, str] = ("IN", destination, source)
    outward: tuple[Direction, str, str] = ("OUT", source, destination)
    if direction == "BOTH":
        return [("BOTH", source, source)] if source == destination else [inward, outward]
    return [inward if direction == "IN" else outward]


class _Numbering:
    """Local ids of one vertex type, assigned at first appearance ("Batch": relabelling)."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int | None, int]] = []
        """(tree, dense id) by local id. The tree is None if trees share their nodes."""
        self._local: dict[tuple[int | None, int], int] = {}

    def local(self, tree: int | None, node: int, *, again: bool = False) -> int:
        """Return a node's local id. With `again`, a known node gets another one, and later edges use its first one."""
        if again or (tree, node) not in self._local:
            self._local.setdefault((tree, node), len(self.nodes))
            self.nodes.append((tree, node))
            return len(self.nodes) - 1
        return self._local[tree, node]


@dataclass(frozen=True)
class _Batch:
    """A batch during sampling."""

    graph: Graph
    entrants: Entrants
    options: Options
    seed: int
    number: int
    numbering: dict[str, _Numbering]
    rounds: Rounds | None = None

    def counts(self) -> dict[str, int]:
        """Return, by vertex type, the number of nodes so far."""
        return {name: len(numbered.nodes) for name, numbered in self.numbering.items()}

    def enter(self) -> list[list[int]]:
        """Add the groups in order and return the local ids of each group."""
        temporal = self.options.temporal
        again = not temporal and not self.entrants.link
        return [
            [
                self.numbering[kind].local(tree if temporal else None, node, again=again)
                for node, tree in zip(ids, trees, strict=True)
            ]
            for kind, ids, trees in self.entrants.groups
        ]

    def eligible(self, edge: EdgeKey, row: list[Entry], reaches: str, tree: int | None) -> list[int]:
        """Return the ranks of a row's edges that a tree may draw."""
        pairs = self.entrants.excluded.get(edge, [])
        if tree is None:
            return [rank for rank, e in enumerate(row) if not _is_pair(e.edge, pairs)]
        assert self.entrants.times is not None
        assert self.options.inclusive is not None
        bounds = bounds_of(self.entrants.times[tree], self.options.inclusive, self.options.within)
        born = self.graph.born.get(reaches)
        own = [pair for pair in pairs if pair[2] == tree]
        return [
            rank
            for rank, e in enumerate(row)
            if may_see(e.edge, bounds)
            and (born is None or born[e.neighbor] < bounds.high)
            and not ((e.edge.since >= bounds.time or e.edge.since == ALWAYS) and _is_pair(e.edge, own))
        ]

    def hop(self, ordered: list[Fanout], hop: int, low: dict[str, int], high: dict[str, int]) -> Iterator[Block]:
        """Yield the blocks of one hop in sampling order. New nodes are numbered by first appearance ("Batch")."""
        for edge, direction, counts in ordered:
            for traversed, expands, reaches in traversals(edge, direction):
                block, fanout = Block(edge, traversed), counts[hop] if hop < len(counts) else 0
                for near in range(low[expands], high[expands]):
                    tree, node = self.numbering[expands].nodes[near]
                    row = self.options.of_row(logical_row(self.graph, edge, traversed, node), fanout)
                    seen = self.eligible(edge, row, reaches, tree)
                    ordinal = 0 if tree is None else self.entrants.ordinals[tree]
                    et = type_hash(edge, traversed)
                    place = Place.of(self.options, self.seed, self.number, hop, et, node, ordinal)
                    for rank, weight in self.picks((edge, traversed), hop, counts, row, seen, place):
                        far, stored, outward = row[seen[rank]]
                        neighbor = self.numbering[reaches].local(tree, far)
                        block.edges.append(SampledEdge(neighbor, near, stored.edge_id, outward, weight))
                yield block

    def picks(
        self,
        traversal: tuple[EdgeKey, Direction],
        hop: int,
        counts: list[int],
        row: list[Entry],
        seen: list[int],
        place: Place,
    ) -> list[Pick]:
        """Return a node's draws from the edges `seen`, which are ranks in its row."""
        options, refresh = self.options, self.options.refresh
        fanout = counts[hop] if hop < len(counts) else 0
        if refresh is None or fanout in (0, FULL):
            return choose([row[rank] for rank in seen], fanout, options, place)
        slot = Slot.of(refresh, options.reuse_hops, self.seed, hop, place.et)
        if refresh.visited:
            now = 0 if self.rounds is None else self.rounds[*traversal, slot.hop][place.node]
        else:
            now = refresh.round(self.number, phase(slot, place.node))
        size = refresh.size(max(counts) if refresh.shared else fanout)
        weighted = options.method == "PRIORITY"
        held = hold(row, size, refresh.above, slot.key(refresh.generation, now, place.node), weighted=weighted)
        keys = place.pick, place.fresh
        found = serve(row, seen, fanout, refresh.kept(fanout), held, keys, weighted=weighted)
        return [Pick(*each) for each in found]


def _is_pair(edge: Edge, pairs: list[tuple[int, int, int]]) -> bool:
    return any((edge.source, edge.destination) == pair[:2] for pair in pairs)


def sample_entrants(
    graph: Graph,
    entrants: Entrants,
    fanouts: list[Fanout],
    seed: int,
    batch: int,
    options: Options | None = None,
    rounds: Rounds | None = None,
) -> Result:
    """Return the neighbourhood of a batch's input ("Batch").

    `batch` is the global batch number. The edge types of a hop are in byte order of the text that is hashed to ET. Each
    edge type expands its frontier in local order: the new nodes of the last hop, or with LAYOUT BLOCKS all nodes so
    far. `rounds` are the rounds of rows under VISITED, or 0 if they are not given.
    """
    numbering = {name: _Numbering() for name in graph.vertex_counts}
    growing = _Batch(graph, entrants, options or Options(), seed, batch, numbering, rounds)
    low, groups = growing.counts(), growing.enter()
    met = [growing.counts()]
    ordered = sorted(fanouts, key=lambda f: type_text(f[0], f[1]))
    hops: list[list[Block]] = []
    for hop in range(max((len(counts) for _, _, counts in fanouts), default=0)):
        hops.append(list(growing.hop(ordered, hop, low, met[-1])))
        if growing.options.layout == "NODES":
            low = met[-1]
        met.append(growing.counts())
    nodes = {name: [node for _, node in numbered.nodes] for name, numbered in growing.numbering.items()}
    new = {
        name: [after[name] - before[name] for before, after in zip([dict.fromkeys(nodes, 0), *met], met, strict=False)]
        for name in nodes
    }
    trees = {name: [tree or 0 for tree, _ in numbered.nodes] for name, numbered in growing.numbering.items()}
    return Result(nodes, hops, new, groups, trees if growing.options.temporal else None)


def sample(
    graph: Graph,
    seeds: list[int],
    seed_type: str,
    fanouts: list[Fanout],
    seed: int,
    batch: int,
    options: Options | None = None,
) -> Result:
    """Return the neighbourhood of vertices, given as dense ids in batch order, without times. Uniform by default."""
    return sample_entrants(graph, entered(seed_type, seeds), fanouts, seed, batch, options)


# The SAMPLE statement in SQL.


class Row(NamedTuple):
    """A row of a SAMPLE statement's result, with the edge's ends as dense ids."""

    batch: int
    """The batch number over all epochs, starting at 0."""
    hop: int
    type: str
    direction: Literal["in", "out"]
    source: int
    """The source in the edge table, regardless of the direction."""
    destination: int
    e_id: int


def rows(
    graph: Graph,
    seeds: Iterable[int],
    seed_type: str,
    fanouts: list[Fanout],
    seed: int,
    batch_size: int,
    order: Order = "SHUFFLE",
    epochs: int = 1,
    options: Options | None = None,
    share: Fraction | None = None,
    times: Mapping[int, int] | None = None,
) -> list[Row]:
    """Return the result of `SAMPLE FROM … SEEDS (…) … EPOCHS n` by batch, hop and emission order ("Seeds", "Keys": b).

    `seeds` are distinct dense ids in query order. A seed's ordinal is its rank by dense id. `times` contains each
    seed's time.
    """
    asked = list(seeds)
    canonical = sorted(asked)
    query_order = [canonical.index(node) for node in asked]
    found: list[Row] = []
    for epoch in range(epochs):
        batches = epoch_batches(len(canonical), seed, epoch, batch_size, order, query_order, share)
        before = batches_before(len(canonical), batch_size, epoch, share)
        for index, ordinals in enumerate(batches):
            ids = [canonical[o] for o in ordinals]
            entrants = entered(seed_type, ids, ordinals, None if times is None else [times[node] for node in ids])
            result = sample_entrants(graph, entrants, fanouts, seed, before + index, options)
            found += _result_rows(before + index, result)
    return found


def _result_rows(batch: int, result: Result) -> Iterator[Row]:
    """Yield a batch's edges with their stored source and destination as dense ids."""
    for hop, blocks in enumerate(result.hops):
        for block in blocks:
            source, name, destination = block.edge
            for edge in block.edges:
                out = edge.outward
                tail, head = (edge.seed_side, edge.neighbor) if out else (edge.neighbor, edge.seed_side)
                ends = result.nodes[source][tail], result.nodes[destination][head]
                yield Row(batch, hop, name, "out" if out else "in", *ends, edge.edge_id)

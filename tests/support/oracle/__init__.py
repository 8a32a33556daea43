"""The sampling contract `snapdb-1` in plain Python integers: slow, short, and what every engine must agree with.

Written from the contract alone. It imports nothing of snapdb, so that a mistake there cannot be repeated here.
Sections named below ("Keys", "Rows", …) are those of the contract. Here are whole batches and the statement; numbers,
graphs, methods and seeds are in the modules beside.
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
"""How an edge type is walked, and how many neighbours to draw at each hop."""


class SampledEdge(NamedTuple):
    """One sampled edge, its ends as local ids."""

    neighbor: int
    seed_side: int
    edge_id: int
    outward: bool
    weight: float | None = None
    """Horvitz-Thompson's, under PRIORITY."""


@dataclass(frozen=True)
class Block:
    """What one hop drew over one edge type, in emission order."""

    edge: EdgeKey
    direction: Direction
    """BOTH only between equal vertex types; else BOTH is walked as a block IN and a block OUT."""
    edges: list[SampledEdge] = field(default_factory=list)


@dataclass(frozen=True)
class Result:
    """One batch's neighbourhood, renumbered from zero per vertex type, seeds first."""

    nodes: dict[str, list[int]]
    """Vertex type → dense ids; the position is the local id."""
    hops: list[list[Block]]
    nodes_per_hop: dict[str, list[int]]
    """Vertex type → nodes new at the seeds and at each hop."""
    entered: list[list[int]] = field(default_factory=list)
    """For each group that entered, its local ids."""
    trees: dict[str, list[int]] | None = None
    """Of disjoint trees: vertex type → the index in the batch of the seed whose tree each node is in."""


class Entrants(NamedTuple):
    """Who enters a batch."""

    groups: list[tuple[str, list[int], list[int]]]
    """(vertex type, dense ids, the index in the batch of the seed that each belongs to)."""
    ordinals: list[int]
    """Of each seed, in the seed set."""
    times: list[int] | None = None
    """Of each seed."""
    excluded: Mapping[EdgeKey, list[tuple[int, int, int]]] = {}
    """Edge type → (source, destination, seed) that the batch, or that seed's tree, must not see."""
    link: bool = False
    """Seeds are edges: a vertex enters once, however many groups name it."""


def entered(kind: str, ids: list[int], ordinals: list[int] | None = None, times: list[int] | None = None) -> Entrants:
    """Vertices as seeds; their ordinals count from 0 where none are given."""
    places = list(range(len(ids)))
    return Entrants([(kind, ids, places)], places if ordinals is None else ordinals, times)


def walks(edge: EdgeKey, direction: Direction) -> list[tuple[Direction, str, str]]:
    """(direction walked, vertex type expanded, type reached); BOTH of different types is IN, then OUT ("Rows")."""
    source, _, destination = edge
    inward: tuple[Direction, str, str] = ("IN", destination, source)
    outward: tuple[Direction, str, str] = ("OUT", source, destination)
    if direction == "BOTH":
        return [("BOTH", source, source)] if source == destination else [inward, outward]
    return [inward if direction == "IN" else outward]


class _Numbering:
    """Local ids of one vertex type, handed out at first appearance ("Batch": relabelling)."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int | None, int]] = []
        """(tree, dense id); the tree is None where trees share their nodes."""
        self._local: dict[tuple[int | None, int], int] = {}

    def local(self, tree: int | None, node: int, *, again: bool = False) -> int:
        """The local id of a node; `again`: a new one even where it has one already, which it keeps."""
        if again or (tree, node) not in self._local:
            self._local.setdefault((tree, node), len(self.nodes))
            self.nodes.append((tree, node))
            return len(self.nodes) - 1
        return self._local[tree, node]


@dataclass(frozen=True)
class _Batch:
    """A batch while it grows."""

    graph: Graph
    entrants: Entrants
    options: Options
    seed: int
    number: int
    numbering: dict[str, _Numbering]
    rounds: Rounds | None = None

    def counts(self) -> dict[str, int]:
        """Vertex type → how many nodes it has so far."""
        return {name: len(numbered.nodes) for name, numbered in self.numbering.items()}

    def enter(self) -> list[list[int]]:
        """The local ids of each group, numbered in their order."""
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
        """The ranks of a row's edges that a tree may draw."""
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
        """The blocks of one hop in sampling order; new nodes are numbered as they appear ("Batch")."""
        for edge, direction, counts in ordered:
            for walked, expands, reaches in walks(edge, direction):
                block, fanout = Block(edge, walked), counts[hop] if hop < len(counts) else 0
                for near in range(low[expands], high[expands]):
                    tree, node = self.numbering[expands].nodes[near]
                    row = self.options.of_row(logical_row(self.graph, edge, walked, node), fanout)
                    seen = self.eligible(edge, row, reaches, tree)
                    ordinal = 0 if tree is None else self.entrants.ordinals[tree]
                    et = type_hash(edge, walked)
                    place = Place.of(self.options, self.seed, self.number, hop, et, node, ordinal)
                    for rank, weight in self.picks((edge, walked), hop, counts, row, seen, place):
                        far, stored, outward = row[seen[rank]]
                        neighbor = self.numbering[reaches].local(tree, far)
                        block.edges.append(SampledEdge(neighbor, near, stored.edge_id, outward, weight))
                yield block

    def picks(
        self,
        walk: tuple[EdgeKey, Direction],
        hop: int,
        counts: list[int],
        row: list[Entry],
        seen: list[int],
        place: Place,
    ) -> list[Pick]:
        """What a node gets of the edges `seen`, which are ranks in its row."""
        options, refresh = self.options, self.options.refresh
        fanout = counts[hop] if hop < len(counts) else 0
        if refresh is None or fanout in (0, FULL):
            return choose([row[rank] for rank in seen], fanout, options, place)
        slot = Slot.of(refresh, options.reuse_hops, self.seed, hop, place.et)
        if refresh.visited:
            now = 0 if self.rounds is None else self.rounds[*walk, slot.hop][place.node]
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
    """The neighbourhood of those who enter a batch ("Batch").

    `batch` is the global batch number. Edge types of a hop go in byte order of the text that ET hashes, each over its
    frontier in local order: the nodes that are new in the last hop, or under LAYOUT BLOCKS all that were met before.
    `rounds` are those of rows under VISITED; 0 where there are none.
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
    """The neighbourhood of vertices, by dense id in batch order, without times; uniform if nothing else is said."""
    return sample_entrants(graph, entered(seed_type, seeds), fanouts, seed, batch, options)


# The SQL statement


class Row(NamedTuple):
    """One row of a SAMPLE statement's result, its ends as dense ids."""

    batch: int
    """Counted over all epochs, from 0."""
    hop: int
    type: str
    direction: Literal["in", "out"]
    source: int
    """As stored in the edge table, whatever the direction."""
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
    """What `SAMPLE FROM … SEEDS (…) … EPOCHS n` returns: by batch, hop, then emission order ("Seeds", "Keys": b).

    `seeds` are distinct dense ids in the query's order; the ordinal of each is its place by dense id. `times` gives
    each one's seed time.
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
    """A batch's edges with their ends back as dense ids, stored side by stored side."""
    for hop, blocks in enumerate(result.hops):
        for block in blocks:
            source, name, destination = block.edge
            for edge in block.edges:
                out = edge.outward
                tail, head = (edge.seed_side, edge.neighbor) if out else (edge.neighbor, edge.seed_side)
                ends = result.nodes[source][tail], result.nodes[destination][head]
                yield Row(batch, hop, name, "out" if out else "in", *ends, edge.edge_id)

"""The sampling contract `snapdb-1` in plain Python integers: slow, short, and what every engine must agree with.

Written from the contract alone. It imports nothing of snapdb, so that a mistake there cannot be repeated here.
Sections named below ("Numbers", "Keys", …) are those of the contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, NamedTuple

__all__ = [
    "FULL",
    "HASH",
    "NEG",
    "PHASE",
    "PICK",
    "ROW",
    "SEEDPERM",
    "Block",
    "Direction",
    "Edge",
    "EdgeKey",
    "Entry",
    "Fanout",
    "Graph",
    "Result",
    "Row",
    "SampledEdge",
    "below",
    "draw",
    "epoch_batches",
    "floyd",
    "fold",
    "global_batch",
    "key",
    "logical_row",
    "mix",
    "pick_key",
    "rows",
    "sample",
    "seed_order",
    "type_hash",
    "type_text",
    "uniform",
]

Direction = Literal["IN", "OUT", "BOTH"]
Order = Literal["SHUFFLE", "IN ORDER", "FIXED"]
EdgeKey = tuple[str, str, str]
"""(source vertex type, edge type, destination vertex type)."""
Fanout = tuple[EdgeKey, Direction, list[int]]
"""How an edge type is walked, and how many neighbours to draw at each hop."""

FULL = -1
"""A fanout that delivers every neighbour."""

MASK = 2**64 - 1
G = 0x9E3779B97F4A7C15
ROW, PICK, FRESH, PHASE, SEEDPERM, NEG, HASH = 1, 2, 3, 4, 5, 6, 7


# Numbers and keys


def mix(z: int) -> int:
    """A 64-bit integer scrambled ("Numbers").

    >>> hex(mix(1))
    '0x5692161d100b05e5'
    """
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def fold(k: int, x: int) -> int:
    """The key `k` with one more part `x` ("Numbers")."""
    return mix(((k ^ mix((x + G) & MASK)) + G) & MASK)


def key(seed: int, *parts: int) -> int:
    """The parts folded left to right, starting from fold(0, seed) ("Numbers")."""
    k = fold(0, seed & MASK)
    for part in parts:
        k = fold(k, part & MASK)
    return k


def draw(k: int, i: int) -> int:
    """The i-th draw of a key, 64 random bits ("Numbers": r_i)."""
    return mix((k + i * G) & MASK)


def below(r: int, n: int) -> int:
    """A draw brought into 0 ≤ result < n: floor(r * n / 2^64), exactly ("Numbers")."""
    return (r * n) >> 64


def type_text(edge: EdgeKey, direction: Direction) -> bytes:
    """The text that names an edge type and direction; its byte order is that of a hop's types ("Keys", "Batch")."""
    source, name, destination = edge
    return b"\x00".join(word.lower().encode() for word in (source, name, destination)) + b"\x00" + direction.encode()


def type_hash(edge: EdgeKey, direction: Direction) -> int:
    """An edge type and direction as a part of draw keys ("Keys": ET).

    >>> hex(type_hash(("customer", "bought", "product"), "IN"))
    '0x860da7d90bdd38f6'
    """
    return int.from_bytes(sha256(type_text(edge, direction)).digest()[:8], "little")


def pick_key(seed: int, batch: int, hop: int, et: int, node: int) -> int:
    """The key of one node's draw in one batch and hop ("Keys": pick, without an ordinal)."""
    return key(seed, PICK, batch, hop, et, node)


# Draws


def floyd(k: int, d: int, count: int) -> list[int]:
    """`count` distinct positions of 0 ≤ p < d in draw order; all d in ascending order when d ≤ count ("Uniform draws").

    >>> floyd(0xF0A625C1C1AB29D8, 20, 5)
    [15, 12, 7, 14, 6]
    """
    if d <= count:
        return list(range(d))
    chosen: list[int] = []
    for j in range(count):
        top = d - count + j + 1
        t = below(draw(k, j), top)
        chosen.append(top - 1 if t in chosen else t)
    return chosen


def uniform(k: int, d: int, fanout: int) -> list[int]:
    """The positions that a row of d edges delivers: no cached row, so Floyd(pick) over all ("Eligibility", FBL)."""
    return list(range(d)) if fanout == FULL else floyd(k, d, fanout)


# Seeds


def seed_order(n: int, seed: int, epoch: int) -> list[int]:
    """The shuffled ordinals of an epoch: argsort of their keys, ties by ordinal ("Seeds").

    >>> seed_order(8, seed=42, epoch=0)
    [7, 2, 4, 5, 0, 1, 6, 3]
    """
    return sorted(range(n), key=lambda ordinal: (key(seed, SEEDPERM, epoch, ordinal), ordinal))


def epoch_batches(
    n: int, seed: int, epoch: int, batch_size: int, order: Order = "SHUFFLE", query_order: list[int] | None = None
) -> list[list[int]]:
    """The ordinals of each batch of an epoch, the last batch possibly smaller ("Seeds").

    FIXED is the shuffle of epoch 0; IN ORDER is `query_order`, the ordinals as the query's ORDER BY gave them.
    """
    if order == "IN ORDER":
        assert query_order is not None
        assert sorted(query_order) == list(range(n))
        ordinals = query_order
    else:
        ordinals = seed_order(n, seed, 0 if order == "FIXED" else epoch)
    return [ordinals[i : i + batch_size] for i in range(0, n, batch_size)]


def global_batch(epoch: int, index: int, batches_per_epoch: int) -> int:
    """The batch number that enters draw keys: batches of all earlier epochs + index in the epoch ("Keys": b)."""
    return epoch * batches_per_epoch + index


# Graphs


@dataclass(frozen=True)
class Edge:
    """One edge by the dense ids of its ends; `time` is None in types without event time."""

    source: int
    destination: int
    edge_id: int
    time: int | None = None


@dataclass(frozen=True)
class Graph:
    """What a snapshot holds: how many dense ids each vertex type has, and the edges of each type in any order."""

    vertex_counts: dict[str, int]
    edges: dict[EdgeKey, list[Edge]]


class Entry(NamedTuple):
    """One position of a logical row."""

    neighbour: int
    """Dense id of the far end."""
    edge: Edge
    outward: bool
    """Walked from source to destination."""


def logical_row(graph: Graph, edge: EdgeKey, direction: Direction, node: int) -> list[Entry]:
    """A node's edges by (event time, edge id); BOTH is one row, IN then OUT ("Rows")."""
    found: list[Entry] = []
    stored = sorted(graph.edges[edge], key=lambda e: (e.time is not None, e.time or 0, e.edge_id))
    if direction in ("IN", "BOTH"):
        found += [Entry(e.source, e, False) for e in stored if e.destination == node]
    if direction in ("OUT", "BOTH"):
        found += [Entry(e.destination, e, True) for e in stored if e.source == node]
    return found


# Batches


class SampledEdge(NamedTuple):
    """One sampled edge, its ends as local ids."""

    neighbour: int
    seed_side: int
    edge_id: int
    outward: bool


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
        self.ids: list[int] = []

    def local(self, node: int) -> int:
        if node not in self.ids:
            self.ids.append(node)
        return self.ids.index(node)


def sample(graph: Graph, seeds: list[int], seed_type: str, fanouts: list[Fanout], seed: int, batch: int) -> Result:
    """The neighbourhood of a batch's seeds, drawn uniformly without replacement ("Uniform draws", "Batch").

    `seeds` are dense ids in batch order; `batch` is the global batch number. Edge types of a hop go in byte order of
    the text that ET hashes, each over its frontier in local order; only nodes new in a hop expand in the next.
    """
    numbering = {name: _Numbering() for name in graph.vertex_counts}
    for node in seeds:
        numbering[seed_type].local(node)
    frontier = {name: list(numbered.ids) for name, numbered in numbering.items()}
    per_hop = {name: [len(nodes)] for name, nodes in frontier.items()}
    ordered = sorted(fanouts, key=lambda f: type_text(f[0], f[1]))
    hops: list[list[Block]] = []
    for hop in range(max((len(counts) for _, _, counts in fanouts), default=0)):
        before = {name: len(numbered.ids) for name, numbered in numbering.items()}
        hops.append(list(_hop(graph, ordered, frontier, numbering, seed, batch, hop)))
        frontier = {name: numbered.ids[before[name] :] for name, numbered in numbering.items()}
        for name, nodes in frontier.items():
            per_hop[name].append(len(nodes))
    return Result({name: numbered.ids for name, numbered in numbering.items()}, hops, per_hop)


def _hop(
    graph: Graph,
    ordered: list[Fanout],
    frontier: dict[str, list[int]],
    numbering: dict[str, _Numbering],
    seed: int,
    batch: int,
    hop: int,
) -> Iterator[Block]:
    """The blocks of one hop in sampling order; new nodes are numbered as they appear ("Batch")."""
    for edge, direction, counts in ordered:
        et = type_hash(edge, direction)
        fanout = counts[hop] if hop < len(counts) else 0
        for walked, expands, reaches in walks(edge, direction):
            block = Block(edge, walked)
            for node in frontier[expands]:
                row = logical_row(graph, edge, walked, node)
                for position in uniform(pick_key(seed, batch, hop, et, node), len(row), fanout):
                    far, stored, outward = row[position]
                    near = numbering[expands].local(node)
                    block.edges.append(SampledEdge(numbering[reaches].local(far), near, stored.edge_id, outward))
            yield block


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
) -> list[Row]:
    """What `SAMPLE FROM … SEEDS (…) … EPOCHS n` returns: by batch, hop, then emission order ("Seeds", "Keys": b).

    `seeds` are distinct dense ids in the query's order; the ordinal of each is its place by dense id.
    """
    asked = list(seeds)
    canonical = sorted(asked)
    query_order = [canonical.index(node) for node in asked]
    found: list[Row] = []
    for epoch in range(epochs):
        batches = epoch_batches(len(canonical), seed, epoch, batch_size, order, query_order)
        for index, ordinals in enumerate(batches):
            b = global_batch(epoch, index, len(batches))
            result = sample(graph, [canonical[o] for o in ordinals], seed_type, fanouts, seed, b)
            found += _result_rows(b, result)
    return found


def _result_rows(batch: int, result: Result) -> Iterator[Row]:
    """A batch's edges with their ends back as dense ids, stored side by stored side."""
    for hop, blocks in enumerate(result.hops):
        for block in blocks:
            source, name, destination = block.edge
            for edge in block.edges:
                out = edge.outward
                tail, head = (edge.seed_side, edge.neighbour) if out else (edge.neighbour, edge.seed_side)
                ends = result.nodes[source][tail], result.nodes[destination][head]
                yield Row(batch, hop, name, "out" if out else "in", *ends, edge.edge_id)

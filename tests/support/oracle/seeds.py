"""The order of seeds, the seeds of an epoch, and the negatives of seed edges."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Literal

from tests.support.oracle.graph import ALWAYS, Edge, Graph
from tests.support.oracle.numbers import NEG, SEEDPERM, EdgeKey, below, draw, key, race_length, u32

Order = Literal["SHUFFLE", "IN ORDER", "FIXED"]
Known = Literal["EVER", "BEFORE", "AT"]


def seed_order(n: int, seed: int, epoch: int) -> list[int]:
    """Return an epoch's shuffled ordinals: argsort of their keys, with ties broken by ordinal ("Seeds").

    >>> seed_order(8, seed=42, epoch=0)
    [7, 2, 4, 5, 0, 1, 6, 3]
    """
    return sorted(range(n), key=lambda ordinal: (key(seed, SEEDPERM, epoch, ordinal), ordinal))


def slices(n: int, share: Fraction | None) -> tuple[int, int]:
    """Return (seeds per whole slice, slices that together contain every seed once) under SUBSET ("Seeds").

    >>> slices(10, Fraction(3, 10))
    (3, 4)
    """
    size = n if share is None else ceil(n * share)
    return size, ceil(n / size) if n else 1


def epoch_seeds(
    n: int,
    seed: int,
    epoch: int,
    order: Order = "SHUFFLE",
    query_order: list[int] | None = None,
    share: Fraction | None = None,
) -> list[int]:
    """Return the ordinals of an epoch in order: a slice of the order of the super-epoch ("Seeds": SUBSET).

    FIXED is the shuffle of epoch 0. IN ORDER is `query_order`, the ordinals in the order of the query's ORDER BY.
    """
    size, count = slices(n, share)
    if order == "IN ORDER":
        assert query_order is not None
        assert sorted(query_order) == list(range(n))
        ordinals = query_order
    else:
        ordinals = seed_order(n, seed, 0 if order == "FIXED" else epoch // count)
    start = (epoch % count) * size
    return ordinals[start : start + size]


def epoch_batches(
    n: int,
    seed: int,
    epoch: int,
    batch_size: int,
    order: Order = "SHUFFLE",
    query_order: list[int] | None = None,
    share: Fraction | None = None,
) -> list[list[int]]:
    """Return the ordinals of each batch of an epoch. The last batch can be smaller ("Seeds")."""
    ordinals = epoch_seeds(n, seed, epoch, order, query_order, share)
    return [ordinals[i : i + batch_size] for i in range(0, len(ordinals), batch_size)]


def batches_before(n: int, batch_size: int, epoch: int, share: Fraction | None = None) -> int:
    """Return the number of batches of all earlier epochs, counted one by one ("Keys": b)."""
    size, count = slices(n, share)
    found = 0
    for earlier in range(epoch):
        start = (earlier % count) * size
        found += ceil((min(start + size, n) - start) / batch_size)
    return found


def global_batch(epoch: int, index: int, batches_per_epoch: int) -> int:
    """Return the batch number in draw keys: batches of all earlier epochs + index in the epoch ("Keys": b)."""
    return epoch * batches_per_epoch + index


# Negatives.


def _is_known(edge: Edge, known: Known | None, time: int | None) -> bool:
    """Return whether an edge makes its destination known at a seed's time ("Time": EXCLUDE KNOWN)."""
    if known in (None, "EVER"):
        return known == "EVER"
    assert time is not None
    if edge.since == ALWAYS:
        return True
    if known == "BEFORE":
        return edge.since < time
    return edge.since == time if edge.until is None else edge.since <= time < edge.until


def candidates(
    graph: Graph, edge: EdgeKey, source: int, known: Known | None, time: int | None, among: Sequence[EdgeKey] = ()
) -> list[int]:
    """Return the candidates for the negatives of a seed edge from `source`, in the order of dense ids ("Time").

    `among` are the edge types of IN whose edges are known, or empty for the seed edges' own type.
    """
    kind = edge[2]
    count = graph.vertex_counts[kind]
    alive, born = graph.alive.get(kind, [True] * count), graph.born.get(kind, [ALWAYS] * count)
    edges = [e for name in among or (edge,) for e in graph.edges[name]]
    taken = {e.destination for e in edges if e.source == source and _is_known(e, known, time)}
    here = (node for node in range(count) if alive[node] and (time is None or born[node] <= time))
    return [node for node in here if node not in taken]


def negatives(pool: list[int], count: int, seed: int, epoch: int, ordinal: int) -> list[int]:
    """Return the negatives of a seed edge from its candidates, slot by slot, or -1 if none is left ("Time").

    >>> negatives(list(range(1000)), 2, seed=42, epoch=0, ordinal=3)[1]
    47
    """
    left, found = list(pool), []
    for slot in range(count):
        drawn = below(draw(key(seed, NEG, epoch, ordinal, slot), 0), len(left))
        found.append(left.pop(drawn) if left else -1)
    return found


def weighted_negatives(
    pool: list[int], weights: list[float], count: int, seed: int, epoch: int, ordinal: int
) -> list[int]:
    """Return the negatives drawn by the race of WEIGHT BY, with `weights` by dense id ("Time")."""

    def score(node: int) -> float:
        return race_length(u32(key(seed, NEG, epoch, ordinal, node))) / weights[node]

    ordered = sorted((node for node in pool if weights[node] > 0), key=lambda node: (score(node), node))
    return (ordered + [-1] * count)[:count]

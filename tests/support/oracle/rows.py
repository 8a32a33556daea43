"""Neighbor pool rows: the edges in a node's row at a round, and a batch's draws from the row.

Like the other modules, this one is written from the contract alone ("Keys", "Rows", "Eligibility, refresh and fetch").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal, NamedTuple

from tests.support.oracle.graph import Entry
from tests.support.oracle.numbers import MASK, NO_HOP, PHASE, ROW, Direction, EdgeKey, floyd, fold, key, u32

Rounds = Mapping[tuple[EdgeKey, Direction, int], list[int]]
"""(edge type, direction, slot) → the round of each node, under VISITED."""


@dataclass(frozen=True)
class Refresh:
    """The refresh policy: the lifetime and size of rows, and the part of a fanout that is drawn from them."""

    strategy: Literal["FCR", "OTF"]
    every: int
    share: Fraction = Fraction(1)
    amplify: Fraction = Fraction(2)
    fetch: Fraction | None = None
    visited: bool = False
    shared: bool = False
    above: int = 0
    generation: int = 0

    def size(self, fanout: int) -> int:
        """Return C, the number of edges in a row."""
        return ceil(self.amplify * fanout)

    def kept(self, fanout: int) -> int:
        """Return k, the number of edges of a fanout that are drawn from the row."""
        return fanout if self.fetch is None else int(fanout * (100 * self.fetch) + 50) // 100

    def round(self, batch: int, phase: int) -> int:
        """Return the round of a node's row in a batch, except under VISITED.

        >>> [Refresh("OTF", 2, Fraction("0.5")).round(batch, 2**31) for batch in range(8)]
        [0, 0, 1, 1, 1, 1, 2, 2]
        """
        if self.strategy == "FCR":
            return batch // self.every
        turned = (100 * self.share * 2**32 + 50) // 100
        return (batch * turned // self.every + phase) >> 32


class Slot(NamedTuple):
    """The rows of an edge type that a hop uses."""

    seed: int
    hop: int
    """NO_HOP if all hops share the rows."""
    et: int

    @staticmethod
    def of(refresh: Refresh, reuse_hops: bool, seed: int, hop: int, et: int) -> Slot:
        """Return the slot of a hop."""
        return Slot(seed, NO_HOP if refresh.shared or reuse_hops else hop, et)

    def key(self, generation: int, round_: int, node: int) -> int:
        """Return the key of a node's row at a round ("Keys": row)."""
        return key(self.seed, ROW, generation, round_, self.hop, self.et, node)


def phase(slot: Slot, node: int) -> int:
    """Return the position within a period at which a node's row is redrawn ("Keys": phase)."""
    return key(slot.seed, PHASE, slot.hop, slot.et, node) >> 32


class Held(NamedTuple):
    """The content of a row that does not contain all edges."""

    ranks: list[int]
    """The ranks of its edges in the logical row, ascending."""
    last: tuple[float, int] = (0.0, 0)
    """The greatest score of its edges under PRIORITY, and the rank of that edge."""
    next: tuple[float, int] = (0.0, 0)
    """The least score of the edges outside the row under PRIORITY, and the rank of that edge."""


def hold(row: list[Entry], size: int, above: int, row_key: int, *, weighted: bool) -> Held | None:
    """Return the row R of a node's logical row, or None if it contains all edges."""
    if len(row) <= max(size, above):
        return None
    if not weighted:
        return Held(sorted(floyd(row_key, len(row), size)))
    scores = sorted(
        ((u32(fold(row_key, e.edge.edge_id & MASK)) + 0.5) / e.edge.weight, e.edge.edge_id, rank)
        for rank, e in enumerate(row)
        if e.edge.weight > 0
    )
    if len(scores) <= size:
        return None
    (last, _, last_rank), (after, _, next_rank) = scores[size - 1], scores[size]
    return Held(sorted(rank for _, _, rank in scores[:size]), (last, last_rank), (after, next_rank))


def serve(
    row: list[Entry],
    seen: list[int],
    fanout: int,
    kept: int,
    held: Held | None,
    keys: tuple[int, int],
    *,
    weighted: bool,
) -> list[tuple[int, float | None]]:
    """Return (index in `seen`, Horvitz-Thompson weight) of the edges drawn from the eligible edges, in emission order.

    `seen` are ranks in the logical row, and `keys` are the keys of picks and of residual draws. The caller handles
    FULL. If the row has exactly as many edges as the fanout, its edges are ascending, because Floyd's draw of all edges
    is ("Uniform draws").
    """
    one = 1.0 if weighted else None
    if len(seen) <= fanout:
        return [(place, one) for place in range(len(seen))]
    eligible = [place for place, rank in enumerate(seen) if not weighted or row[rank].edge.weight > 0]
    if len(eligible) <= fanout:
        return [(place, one) for place in eligible]
    mine = [at for at, place in enumerate(eligible) if held is None or seen[place] in held.ranks]
    count = min(kept, len(mine))
    chosen = [mine[at] for at in floyd(keys[0], len(mine), count)]
    fresh = floyd(keys[1], len(eligible) - count, fanout - count)
    delivered = [*chosen, *(_past(sorted(chosen), at) for at in fresh)]
    if not weighted:
        return [(eligible[at], None) for at in delivered]
    chance = _chances(row, [seen[place] for place in eligible], held, fanout, kept)
    return [(eligible[at], 1.0 / chance(at)) for at in delivered]


def _past(chosen: list[int], at: int) -> int:
    """Convert a rank among the edges that were not chosen to a rank among all edges."""
    for taken in chosen:
        if taken > at:
            break
        at += 1
    return at


def _chances(row: list[Entry], ranks: list[int], held: Held | None, fanout: int, kept: int) -> Callable[[int], float]:
    """Return a function for the probability of each eligible edge, given the scores of the other edges."""
    if held is None:
        return lambda at: fanout / len(ranks)
    mine = {rank for rank in ranks if rank in held.ranks}

    def fresh(count: int) -> float:
        return (fanout - count) / (len(ranks) - count) if count < fanout else 0.0

    def chance(at: int) -> float:
        weight, holds = row[ranks[at]].edge.weight, len(mine)
        if ranks[at] in mine:
            bound, held_so, else_so = held.next[0], holds, holds - 1 + (held.next[1] in ranks)
        else:
            bound, held_so, else_so = held.last[0], holds + 1 - (held.last[1] in ranks), holds
        in_row, not_in_row = min(kept, held_so), min(kept, else_so)
        picked = in_row / held_so
        likely = min(1.0, (weight * bound) * 2.0**-32)
        return likely * (picked + (1.0 - picked) * fresh(in_row)) + (1.0 - likely) * fresh(not_in_row)

    return chance

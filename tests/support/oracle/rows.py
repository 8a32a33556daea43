"""Rows that serve many batches: which edges a node's row holds at a round, and what a batch takes of it.

Written from the contract alone, like the modules beside ("Keys", "Rows", "Eligibility, refresh and fetch").
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
"""(Edge type, direction, slot) → the round of each node, under VISITED."""


@dataclass(frozen=True)
class Refresh:
    """How long rows stay, how much they hold, and how much of a batch comes from them."""

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
        """C: how many edges a row holds."""
        return ceil(self.amplify * fanout)

    def kept(self, fanout: int) -> int:
        """k: how many edges of a fanout come from the row."""
        return fanout if self.fetch is None else int(fanout * (100 * self.fetch) + 50) // 100

    def round(self, batch: int, phase: int) -> int:
        """The round of a node's row in a batch, apart from VISITED.

        >>> [Refresh("OTF", 2, Fraction("0.5")).round(batch, 2**31) for batch in range(8)]
        [0, 0, 1, 1, 1, 1, 2, 2]
        """
        if self.strategy == "FCR":
            return batch // self.every
        turned = (100 * self.share * 2**32 + 50) // 100
        return (batch * turned // self.every + phase) >> 32


class Slot(NamedTuple):
    """Which rows of an edge type serve a hop."""

    seed: int
    hop: int
    """NO_HOP where all hops share them."""
    et: int

    @staticmethod
    def of(refresh: Refresh, reuse_hops: bool, seed: int, hop: int, et: int) -> Slot:
        """The slot of a hop."""
        return Slot(seed, NO_HOP if refresh.shared or reuse_hops else hop, et)

    def key(self, generation: int, round_: int, node: int) -> int:
        """The key of a node's row at a round ("Keys": row)."""
        return key(self.seed, ROW, generation, round_, self.hop, self.et, node)


def phase(slot: Slot, node: int) -> int:
    """When in a period a node's row is drawn anew ("Keys": phase)."""
    return key(slot.seed, PHASE, slot.hop, slot.et, node) >> 32


class Held(NamedTuple):
    """What a row holds that does not hold everything."""

    ranks: list[int]
    """In the logical row, ascending."""
    last: tuple[float, int] = (0.0, 0)
    """The greatest score of its edges and the rank of that edge, under PRIORITY."""
    next: tuple[float, int] = (0.0, 0)
    """The least score of the others, and whose it is."""


def hold(row: list[Entry], size: int, above: int, row_key: int, *, weighted: bool) -> Held | None:
    """The row R of a node's logical row; None: everything."""
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
    """(place in `seen`, Horvitz-Thompson's weight) of what is delivered of the eligible edges, in emission order.

    `seen` are ranks in the logical row, `keys` those of picks and of fresh draws. A fanout that takes all is not asked
    here. A row of just the fanout is delivered as it is, since Floyd's draw of all is ascending ("Uniform draws").
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
    """A rank among the edges that were not chosen, as a rank among all."""
    for taken in chosen:
        if taken > at:
            break
        at += 1
    return at


def _chances(row: list[Entry], ranks: list[int], held: Held | None, fanout: int, kept: int) -> Callable[[int], float]:
    """How likely each eligible edge is delivered, given the scores of the others."""
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

"""The rows of a neighbor pool: one per node and slot, redrawn with every round; and the round of each batch.

A slot is a part of a row's key: the hop, or EVERY_HOP where a node has one row for all hops.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from snapdb.arrays import Float64s, Int32s, Int64s, UInt64s
from snapdb.kernels.neighbor_pool.rows import RowKeys
from snapdb.kernels.rng import fold_parts
from snapdb.sampling.keys import EVERY_HOP, Domain
from snapdb.sampling.walks import Walk
from snapdb.types import Fanout, Refresh, Relation, SampleSpec

Rounds = Mapping[tuple[Relation, int], Int32s]
"""Under OTF SCOPE VISITED: (relation, slot) → [nodes] the round of each node's row."""

_NONE: Int32s = np.empty(0, np.int32)

_folded = lru_cache(1 << 10)(fold_parts)
"""Every batch folds the same parts."""


class RowTable(NamedTuple):
    """The rows of one size that a sampler draws from over one relation, at the hops that share a slot."""

    walk: Walk
    slot: int
    size: int
    """How many edges each row holds. Where a node has more, and more than `above`, that is."""
    above: int
    """The refresh's."""

    @property
    def few(self) -> int:
        """Under PRIORITY rows hold all edges of a weight above 0 where there are at most this many."""
        return max(self.size, self.above) if self.walk.skips_zeros else self.size


def slot_of(spec: SampleSpec, hop: int) -> int:
    """What the keys of rows and phases name in a hop's place."""
    shared = spec.reuse_hops or (spec.refresh is not None and spec.refresh.shared)
    return EVERY_HOP if shared else hop


def row_size(refresh: Refresh, fanout: Fanout, count: int) -> int:
    """How many edges a row holds that a hop with a finite count draws from."""
    return refresh.size(max(fanout.counts) if refresh.shared else count)


def row_tables(spec: SampleSpec, walks: Sequence[Walk]) -> tuple[RowTable, ...]:
    """The rows that a sampler draws from, relation by relation; none under FBL."""
    refresh = spec.refresh
    if refresh is None:
        return ()
    found = [
        RowTable(walk, slot_of(spec, hop), row_size(refresh, walk.fanout, count), refresh.above)
        for walk in walks
        for hop, count in enumerate(walk.fanout.counts)
        if count > 0
    ]
    return tuple({(table.walk.relation, *table[1:]): table for table in found}.values())


def _round_at(refresh: Refresh, batch: int) -> tuple[int, int]:
    """The round of a batch, and the share of it so far in units of 2^-32, by which nodes enter the next one.

    Under SCOPE VISITED, where nodes have rounds of their own, the round in which all nodes begin.

    >>> from fractions import Fraction
    >>> _round_at(Refresh("FCR", 50), 120)
    (2, 0)
    >>> _round_at(Refresh("OTF", 4, share=Fraction("0.5")), 9)
    (1, 536870912)
    """
    if refresh.visited:
        return 0, 0
    if refresh.strategy == "FCR":
        return batch // refresh.period, 0
    return divmod(batch * refresh.turned // refresh.period, 2**32)


def row_keys(spec: SampleSpec, relation: Relation, hop: int, batch: int, rounds: Rounds | None = None) -> RowKeys:
    """The keys of the rows that a batch of a sampler with a refresh draws from at one hop.

    Under SCOPE VISITED each node's round is in `rounds`, 0 where there are none.
    """
    assert spec.refresh is not None
    slot, kind = slot_of(spec, hop), relation.hash
    whole, part = _round_at(spec.refresh, batch)
    stem = _folded(spec.seed, Domain.ROW, spec.generation)
    now, later = (_folded(spec.seed, Domain.ROW, spec.generation, turn, slot, kind) for turn in (whole, whole + 1))
    phase = _folded(spec.seed, Domain.PHASE, slot, kind)
    own = _NONE if rounds is None else rounds.get((relation, slot), _NONE)
    return RowKeys(now, later, phase, np.uint64(part), whole, stem, np.uint64(slot), np.uint64(kind), own)


_TURN = 4
"""OTF's rows are checked this many times per round: between two checks, one row in this many is redrawn.

Each check reads nearly every page of the topology; until then batches draw for themselves the rows that are due: on
average one in four times as many.
"""


def next_pass(refresh: Refresh | None, batch: int) -> int | None:
    """The next batch at which a cache checks for rows of an older round; None: there are no rows.

    >>> from fractions import Fraction
    >>> next_pass(Refresh("FCR", 50), 120), next_pass(Refresh("OTF", 80, share=Fraction(1, 2)), 120)
    (150, 160)
    """
    if refresh is None:
        return None
    if refresh.at_once:
        return (batch // refresh.period + 1) * refresh.period
    return batch + max(1, math.floor(refresh.period / refresh.share / _TURN))


def ahead(refresh: Refresh, batch: int) -> int:
    """For which batch rows are drawn at a batch: halfway to the next time, where they turn one after another."""
    following = next_pass(refresh, batch)
    assert following is not None
    return batch if refresh.at_once else (batch + following) // 2


def begun(refresh: Refresh, rounds: Int64s, phases: UInt64s) -> Float64s:
    """The batches at which rows entered these rounds; under OTF they depend on the nodes' phases.

    >>> from fractions import Fraction
    >>> phases = np.array([0, 2**31], np.uint64)
    >>> begun(Refresh("OTF", 80, share=Fraction(1, 2)), np.array([1, 1]), phases).tolist()
    [160.0, 80.0]
    """
    if refresh.at_once:
        return rounds.astype(np.float64) * refresh.period
    if refresh.turned == 0:  # a share this small redraws none of them
        return np.zeros(rounds.size)
    first: Float64s = np.ceil((rounds * 2.0**32 - phases) * (refresh.period / refresh.turned))
    return np.maximum(first, 0.0)

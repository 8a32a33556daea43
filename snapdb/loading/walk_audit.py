"""Audit of a batch of random walks: steps, seed times, clocks and pairs, checked from the batch alone.

AUDIT WALK also reads the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdb.arrays import Bools, Int64s
from snapdb.loading.lazy import host
from snapdb.storage.array_files import STATIC
from snapdb.types.sampling import RandomWalk

if TYPE_CHECKING:
    from snapdb.loading.walk_batch import WalkBatch

_SILENT: dict[str, Any] = {"steps": [], "clock": "any", "strict": False, "window": None}
"""The rules for a batch whose lineage does not record any."""


def walk_rules(walk: RandomWalk) -> dict[str, Any]:
    """Return the rules of walks as plain JSON values (`rules.walk` in their lineage)."""
    steps = [[step.edge.edge, step.direction] for step in walk.steps]
    return {"steps": steps, "clock": walk.clock, "strict": walk.strict, "window": walk.window}


def audit(batch: WalkBatch) -> dict[str, int]:
    """Count the violations of each rule that can be checked from the batch. In a correct engine, all counts are 0.

    'steps': walks that do not start at the seed of their row, continue after their end, or restart elsewhere.
    'time': edges outside the time bounds of their seed, or against the clock of their walk. 'snapshot': edges outside
    the snapshot's window. 'pairs': pairs that are not those of the walks, and negatives out of range.
    """
    recorded = dict(batch.lineage.get("rules", {}))
    rules, lasting = _SILENT | dict(recorded.get("walk", {})), recorded.get("lasting")
    walks, e_id = host(batch.walks), host(batch.e_id)
    timed = None if batch.edge_time is None else _Timed.of(batch, host(batch.edge_time), e_id, rules, lasting)
    return {
        "steps": int(wrong_steps(walks, e_id, batch.per_seed).sum()),
        "time": 0 if timed is None else int((timed.untimely(batch) | timed.against_clock(rules)).sum()),
        "snapshot": 0 if timed is None else int(timed.outside(batch).sum()),
        "pairs": _wrong_pairs(batch, walks, rules["window"]),
    }


def wrong_steps(walks: Int64s, e_id: Int64s, per_seed: int) -> Bools:
    """Return a [walks, length] mask of the steps that continue an ended walk, or restart at another vertex."""
    wrong: Bools = (walks[:, :-1] < 0) & ((walks[:, 1:] >= 0) | (e_id >= 0))
    wrong |= (walks[:, 1:] < 0) & (e_id >= 0)
    seeds = np.repeat(walks[::per_seed, :1], per_seed, axis=0)[: len(walks)]
    wrong |= (walks[:, 1:] >= 0) & (e_id < 0) & (walks[:, 1:] != seeds)
    wrong[:, :1] |= (walks[:, :1] != seeds) | (seeds < 0)
    return wrong


def clock_before(time: Int64s, e_id: Int64s, walks: Int64s) -> Int64s:
    """Return [walks, length], the time of the last edge with a time before each step, or STATIC if there is none.

    A restart resets the clock.
    """
    clock = np.full(time.shape, STATIC, np.int64)
    for step in range(1, time.shape[1]):
        last = time[:, step - 1]
        clock[:, step] = np.where(last != STATIC, last, clock[:, step - 1])
        restarted = (e_id[:, step - 1] < 0) & (walks[:, step] >= 0)
        clock[restarted, step] = STATIC
    return clock


def _wrong_pairs(batch: WalkBatch, walks: Int64s, window: int | None) -> int:
    if batch.pairs is None or window is None:
        return 0
    pairs, expected = (
        host(batch.pairs),
        pairs_of(walks, [batch.node_offsets[name] for name in batch.vertex_types], window),
    )
    if pairs.shape != expected.shape:
        return abs(pairs.shape[1] - expected.shape[1])
    wrong = int((pairs != expected).any(axis=0).sum())
    if batch.negatives is None:
        return wrong
    negatives = host(batch.negatives)
    return wrong + int((negatives >= batch.num_nodes).sum()) + abs(len(negatives) - pairs.shape[1])


def pairs_of(walks: Int64s, offsets: list[int], window: int) -> Int64s:
    """Return [2, pairs] node numbers of the skip-gram pairs of walks, in order of (walk, center, context)."""
    columns = walks.shape[1]
    numbers = np.where(walks >= 0, walks + np.array(offsets, np.int64), -1)
    near = [(i, j) for i in range(columns) for j in range(columns) if i != j and abs(i - j) <= window]
    if not near or not len(walks):
        return np.empty((2, 0), np.int64)
    center, context = (numbers[:, [pair[side] for pair in near]].ravel() for side in (0, 1))
    there = (center >= 0) & (context >= 0)
    return np.stack([center[there], context[there]])


class _Timed:
    """The event times of a batch's steps."""

    def __init__(self, time: Int64s, clock: Int64s, lasts: Bools) -> None:
        self.time, self.clock, self.lasts = time, clock, lasts

    @staticmethod
    def of(batch: WalkBatch, time: Int64s, e_id: Int64s, rules: Mapping[str, Any], lasting: list[str] | None) -> _Timed:
        names = [edge for edge, _ in rules["steps"]] or [""]
        lasts = [lasting is None or names[step % len(names)] in lasting for step in range(batch.length)]
        return _Timed(time, clock_before(time, e_id, host(batch.walks)), np.array(lasts, np.bool_))

    def untimely(self, batch: WalkBatch) -> Bools:
        """Return a mask of the steps over edges outside the bounds of their seed's TEMPORAL."""
        if batch.temporal is None or batch.seed_time is None:
            return np.zeros(self.time.shape, np.bool_)
        seed = np.repeat(host(batch.seed_time), batch.per_seed)[:, None]
        late: Bools = self.time > seed if batch.temporal.inclusive else self.time >= seed
        if (within := batch.temporal.within) is not None:
            # The lower bound is clamped because seed - within can be less than the smallest int64.
            late |= (self.time < np.maximum(seed, STATIC + within) - within) & ~self.lasts
        return late & (self.time != STATIC)

    def against_clock(self, rules: Mapping[str, Any]) -> Bools:
        """Return a mask of the steps over edges before (or, for BACKWARD, after) the previous edge of the walk."""
        if rules["clock"] == "any":
            return np.zeros(self.time.shape, np.bool_)
        earlier, later = (self.time, self.clock) if rules["clock"] == "forward" else (self.clock, self.time)
        wrong: Bools = earlier <= later if rules["strict"] else earlier < later
        return wrong & (self.time != STATIC) & (self.clock != STATIC)

    def outside(self, batch: WalkBatch) -> Bools:
        """Return a mask of the steps over edges outside the snapshot's window."""
        start, stop = batch.lineage.get("window") or (None, None)
        out: Bools = np.zeros(self.time.shape, np.bool_)
        if stop is not None:
            out |= self.time >= stop
        if start is not None:
            out |= (self.time < start) & ~self.lasts
        return out & (self.time != STATIC)

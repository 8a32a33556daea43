"""Audit of a batch of random walks: steps, seed times, clocks and pairs, checked from the batch alone.

AUDIT WALK also reads the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from snapdb.arrays import Bools, Int64s
from snapdb.loading.lazy import host
from snapdb.loading.walk_steps import against_clock, clock_before, pairs_of, wrong_steps
from snapdb.storage.array_files import STATIC

if TYPE_CHECKING:
    from snapdb.loading.walk_batch import WalkBatch

_SILENT: dict[str, Any] = {"steps": [], "clock": "any", "strict": False, "window": None}
"""The rules for a batch whose lineage does not record any."""


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


def _wrong_pairs(batch: WalkBatch, walks: Int64s, window: int | None) -> int:
    if batch.pairs is None or window is None:
        return 0
    pairs, expected = (
        host(batch.pairs),
        pairs_of(walks, [batch.node_offsets[name] for name in batch.vertex_types], window),
    )
    if pairs.shape != expected.shape:
        return abs(int(pairs.shape[1]) - int(expected.shape[1]))
    wrong = int((pairs != expected).any(axis=0).sum())
    if batch.negatives is None:
        return wrong
    negatives = host(batch.negatives)
    return wrong + int((negatives >= batch.num_nodes).sum()) + abs(len(negatives) - int(pairs.shape[1]))


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
        timed: Bools = self.time != STATIC
        return late & timed

    def against_clock(self, rules: Mapping[str, Any]) -> Bools:
        """Return a mask of the steps over edges against the clock of their walk."""
        return against_clock(rules["clock"], self.time, self.clock, strict=rules["strict"])

    def outside(self, batch: WalkBatch) -> Bools:
        """Return a mask of the steps over edges outside the snapshot's window."""
        start, stop = batch.lineage.get("window") or (None, None)
        out: Bools = np.zeros(self.time.shape, np.bool_)
        if stop is not None:
            out |= self.time >= stop
        if start is not None:
            out |= (self.time < start) & ~self.lasts
        timed: Bools = self.time != STATIC
        return out & timed

"""Rules of random walks over arrays, without torch: their steps, their clocks and their skip-gram pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdb.arrays import Bools, Int64s
from snapdb.storage.array_files import STATIC
from snapdb.types.sampling import RandomWalk


def walk_rules(walk: RandomWalk) -> dict[str, Any]:
    """Return the rules of walks as plain JSON values (`rules.walk` in their lineage)."""
    steps = [[step.edge.edge, step.direction] for step in walk.steps]
    return {"steps": steps, "clock": walk.clock, "strict": walk.strict, "window": walk.window}


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


def against_clock(clock: str, time: Int64s, before: Int64s, *, strict: bool) -> Bools:
    """Return a mask of the steps over edges before (or, for a backward clock, after) the previous edge of the walk.

    Args:
        clock: 'any', 'forward' or 'backward'.
        time: [walks, length] The time of each edge, or STATIC.
        before: The result of `clock_before`.
        strict: Whether equal times are wrong too.
    """
    if clock == "any":
        return np.zeros(time.shape, np.bool_)
    earlier, later = (time, before) if clock == "forward" else (before, time)
    wrong: Bools = earlier <= later if strict else earlier < later
    timed: Bools = (time != STATIC) & (before != STATIC)
    return wrong & timed


def pair_columns(columns: int, window: int) -> list[tuple[int, int]]:
    """Return the columns of a walk that form skip-gram pairs, as (center, context) in order."""
    return [(i, j) for i in range(columns) for j in range(max(0, i - window), min(columns, i + window + 1)) if i != j]


def pairs_of(walks: Int64s, offsets: list[int], window: int) -> Int64s:
    """Return [2, pairs] node numbers of the skip-gram pairs of walks, in order of (walk, center, context)."""
    numbers = np.where(walks >= 0, walks + np.array(offsets, np.int64), -1)
    near = pair_columns(walks.shape[1], window)
    if not near or not len(walks):
        return np.empty((2, 0), np.int64)
    center, context = (numbers[:, [pair[side] for pair in near]].ravel() for side in (0, 1))
    there = (center >= 0) & (context >= 0)
    return np.stack([center[there], context[there]])

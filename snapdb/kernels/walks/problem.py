"""The rule and the state of a batch's random walks, as kernels read and write them.

Reference implementation: tests/support/oracle/walks.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Int64s, UInt64s
from snapdb.kernels.compiled import kernel
from snapdb.kernels.rng import below, draw, fold

UNTIMED, FORWARD, BACKWARD = range(3)
"""The clocks: times along a walk are arbitrary, do not decrease, or do not increase."""
FIRST_TIME, LAST_TIME = -(2**63), 2**63 - 1
"""The bounds of a walk whose clock has not started. Static edges, with time -2^63, are within all bounds."""
NO_STEP = np.int64(-1)
"""The vertex or the position of a step that a walk does not take."""


class WalkRule(NamedTuple):
    """The rule of the steps over one relation."""

    reached: int
    """The number of dense ids of the vertex type that the relation reaches."""
    restart: np.uint64
    """The numerator of the restart probability, or 0 if the relation does not reach the seeds' vertex type."""
    restart_of: np.uint64
    """The denominator of the restart probability."""
    back: np.uint64
    """node2vec: the largest acceptance draw with which the previous vertex is taken."""
    near: np.uint64
    """node2vec: the same for a neighbour of the previous vertex."""
    far: np.uint64
    """node2vec: the same for any other vertex."""
    clock: int
    """UNTIMED, FORWARD or BACKWARD."""
    strict: bool
    """Whether times must increase or decrease."""


def largest_draw(weight: int, top: int) -> np.uint64:
    """Return the largest draw with below(draw, top) < weight, for 1 ≤ weight ≤ top.

    A comparison with it saves the multiplication in `below`.

    >>> int(largest_draw(1, 4)) == 2**62 - 1, int(largest_draw(3, 3)) == 2**64 - 1
    (True, True)
    """
    return np.uint64(((weight << 64) - 1) // top)


class WalkArrays(NamedTuple):
    """A batch's walks so far. A walk's seed is nodes[walk, 0], and its tree is its seed's index in the batch."""

    nodes: Int64s
    """[walks, length + 1] The vertices of each walk, as dense ids. -1 from where the walk cannot continue."""
    positions: Int64s
    """[walks, length] The physical position of each step's edge. -1 for a restart, and where the walk has ended."""
    keys: UInt64s
    """[walks] The key of each walk."""
    low: Int64s
    """[walks] The lower bound of the next edge's time by the clock. Empty without a clock."""
    high: Int64s
    """[walks] The exclusive upper bound of the next edge's time by the clock. Empty without a clock."""


@kernel
def key_walks(prefix: UInt64s, ordinals: Int64s, per_seed: int, keys: UInt64s) -> None:
    """Write the keys of all walks, `per_seed` for each ordinal. prefix[0] is the key of the batch."""
    for seed in range(ordinals.size):
        key = fold(prefix[0], np.uint64(ordinals[seed]))
        for number in range(per_seed):
            keys[seed * per_seed + number] = fold(key, np.uint64(number))


@kernel
def restarts(rule: WalkRule, key: np.uint64) -> bool:
    """Return whether a step goes to the seed, by the step's draw 0."""
    if rule.restart == np.uint64(0):
        return False
    return bool(below(draw(key, np.uint64(0)), rule.restart_of) < rule.restart)

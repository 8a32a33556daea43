"""What the trees of a batch may not see, as the arrays that kernels read."""

import numpy as np

from snapdb.arrays import Int64s
from snapdb.kernels.draw.eligible import Moments, Pairs
from snapdb.sampling.subgraph import ExcludedEdges, SamplerInput
from snapdb.sampling.walks import Walk
from snapdb.types import Temporal

FIRST, LAST = -(2**63), 2**63 - 1
_NONE: Int64s = np.empty(0, np.int64)
NO_PAIRS = Pairs(0, _NONE, _NONE, _NONE)


def moments_of(entry: SamplerInput, temporal: Temporal | None) -> Moments:
    """The time bounds of each tree; empty arrays where the statement has none.

    Raises:
        ValueError: the seeds have no times although a bound was asked for.
    """
    if temporal is None:
        return Moments(_NONE, _NONE, _NONE, _NONE, _NONE)
    if entry.times is None:
        raise ValueError("TEMPORAL was asked, but these seeds have no times; let the seed query give a seed_time")
    times = np.array(entry.times, np.int64)  # kernels are compiled for arrays that may be written
    high = _later(times, 1) if temporal.inclusive else times
    low = np.full_like(times, FIRST) if temporal.within is None else _earlier(times, min(temporal.within, LAST))
    after = low if temporal.within is not None else times if temporal.inclusive else _earlier(times, 1)
    return Moments(low, high, after, times, np.array(entry.ordinals, np.int64))


def _later(times: Int64s, by: int) -> Int64s:
    return np.where(times > LAST - by, LAST, times + by)


def _earlier(times: Int64s, by: int) -> Int64s:
    return np.where(times < FIRST + by, FIRST, times - by)


def pairs_of(excluded: ExcludedEdges | None, walk: Walk, temporal: Temporal | None) -> Pairs:
    """The pairs that a walk must leave out.

    What happens at a seed's time or later is out of its tree's sight already, unless the bound includes that time.
    """
    relation = walk.relation
    seen = temporal is None or temporal.inclusive or walk.undated
    if excluded is None or excluded.edge != relation.edge or not seen:
        return NO_PAIRS
    trees = np.zeros_like(excluded.trees) if temporal is None else excluded.trees
    inward = _sorted(trees, excluded.destination, excluded.source)
    outward = _sorted(trees, excluded.source, excluded.destination)
    if relation.direction == "BOTH":
        joined = [np.concatenate(pair) for pair in zip(inward, outward, strict=True)]
        return Pairs(trees.size, *joined)
    return Pairs(trees.size, *(inward if relation.direction == "IN" else outward))


def _sorted(trees: Int64s, near: Int64s, far: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    order = np.lexsort((far, near, trees))
    first, second, third = (np.asarray(values, np.int64)[order] for values in (trees, near, far))
    return first, second, third

"""The skip-gram pairs of walks, and their negatives (Mikolov et al., 2013).

Reference implementation: `pairs` in tests/support/oracle/walks.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Int64s, UInt64s
from snapdb.kernels.compiled import kernel
from snapdb.kernels.rng import below, draw, fold


class NodeNumbers(NamedTuple):
    """The node numbers of several vertex types, and the vertices from which negatives are drawn."""

    types: Int64s
    """[length + 1] The type of each column of a walk, as an index."""
    offsets: Int64s
    """[types] The node number of each type's dense id 0."""
    starts: Int64s
    """[types] The start of each type's vertices in `ids`, or -1 if the type's vertices are the ids 0 ≤ id < count."""
    counts: Int64s
    """[types] The number of vertices of each type."""
    ids: Int64s
    """Dense ids, type by type: ascending, or by (birth, id) if births limit the negatives."""
    born: Int64s
    """The births of `ids`. Empty if births do not limit the negatives."""


@kernel
def count_pairs(nodes: Int64s, window: int) -> int:
    """Return the number of pairs of columns with a vertex that are at most `window` apart."""
    count = 0
    for w in range(nodes.shape[0]):
        held = _held(nodes, w)
        for i in range(held):
            count += min(held - 1, i + window) - max(0, i - window)
    return count


@kernel
def _held(nodes: Int64s, w: int) -> int:
    """Return the number of vertices of a walk, which are its first columns."""
    held = 0
    while held < nodes.shape[1] and nodes[w, held] >= 0:
        held += 1
    return held


@kernel
def write_pairs(nodes: Int64s, window: int, numbers: NodeNumbers, pairs: Int64s) -> None:
    """Write the pairs of centers and contexts by (walk, center, context) to `pairs` [2, pairs]."""
    offsets, types, at = numbers.offsets, numbers.types, 0
    for w in range(nodes.shape[0]):
        held = _held(nodes, w)
        for i in range(held):
            for j in range(max(0, i - window), min(held, i + window + 1)):
                if i != j:
                    pairs[0, at] = offsets[types[i]] + nodes[w, i]
                    pairs[1, at] = offsets[types[j]] + nodes[w, j]
                    at += 1


# Every pair has its own key, so that negatives do not depend on other pairs. A draw costs one hash.
@kernel
def write_negatives(
    nodes: Int64s, window: int, numbers: NodeNumbers, keys: UInt64s, high: Int64s, per_seed: int, negatives: Int64s
) -> None:
    """Write the negatives of each pair to `negatives` [pairs, n], in the order of `write_pairs`.

    Args:
        nodes: [walks, length + 1] the walks.
        window: The maximum distance of a pair.
        numbers: The node numbers and the vertices that can be drawn.
        keys: [walks] the pair key of each walk.
        high: [seeds] the time before which negatives are born. Empty without time bounds.
        per_seed: The number of walks per seed.
        negatives: Receives node numbers, or -1 if the context's type has no vertices by then.
    """
    at, width = 0, nodes.shape[1]
    for w in range(nodes.shape[0]):
        held = _held(nodes, w)
        for i in range(held):
            for j in range(max(0, i - window), min(held, i + window + 1)):
                if i == j:
                    continue
                kind, key = numbers.types[j], fold(keys[w], np.uint64(i * width + j))
                start, count, offset = numbers.starts[kind], numbers.counts[kind], numbers.offsets[kind]
                if high.size > 0 and numbers.born.size > 0 and start >= 0:
                    count = _count_before(numbers.born, start, count, high[w // per_seed])
                for slot in range(negatives.shape[1]):
                    negatives[at, slot] = -1
                    if count > 0:
                        rank = np.int64(below(draw(key, np.uint64(slot)), np.uint64(count)))
                        negatives[at, slot] = offset + (rank if start < 0 else numbers.ids[start + rank])
                at += 1


@kernel
def _count_before(born: Int64s, start: np.int64, count: np.int64, high: np.int64) -> np.int64:
    """Return the number of the ascending born[start : start + count] that are less than `high`."""
    low, end = start, start + count
    while low < end:
        middle = (low + end) >> 1
        if born[middle] < high:
            low = middle + 1
        else:
            end = middle
    return low - start

"""Walks of the second order (node2vec) over plain rows, if every edge of a row is eligible and has the same weight.

Reference implementation: `walk` in tests/support/oracle/walks.py.
"""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Array, Int64s, UInt64s
from snapdb.kernels.adjacency.forms import RowArrays
from snapdb.kernels.compiled import kernel, prefetch
from snapdb.kernels.rng import below, draw, fold
from snapdb.kernels.walks.neighbors import holds
from snapdb.kernels.walks.problem import NO_STEP, WalkArrays, WalkRule, restarts

BLOCK = 256
"""The number of walks that take a step together."""
AHEAD = 4
"""The number of attempts whose candidates are prefetched together."""
WALK, START, DEGREE, BEFORE, ATTEMPT, CANDIDATE, POSITION = range(7)
"""Columns of the steps in progress, an int64 [BLOCK, STEP_FIELDS]: the walk, the start and the length of its vertex's
row, its previous vertex or -1, the number of rejected candidates, and a candidate that must be looked up among the
previous vertex's neighbors, or -1, with its position."""
STEP_FIELDS = 7


# Rejection sampling (KnightKing, Yang et al., 2019): a candidate is drawn uniformly, and accepted with a probability in
# proportion to its bias. Unlike alias tables per edge, it needs no memory that grows with the sum of squared degrees.
# The acceptance draw is compared with the smaller and the larger bias of neighbors and of others first, so that most
# candidates are decided without a search among the previous vertex's neighbors. All walks of a block take a step
# together: each pass prefetches the next candidates, or the first probes of the search.
@kernel
def walk_biased(
    rows: RowArrays,
    ordered: Array,
    rule: WalkRule,
    walks: WalkArrays,
    first: int,
    last: int,
    steps: Int64s,
    step_keys: UInt64s,
) -> bool:
    """Take the steps first ≤ i < last of all walks. Returns whether all rows and neighbours are within their arrays.

    `ordered` contains the rows with their neighbours in ascending order.
    """
    for low in range(0, walks.keys.size, BLOCK):
        high = min(low + BLOCK, walks.keys.size)
        for w in range(low, high):
            prefetch(rows.indptr, walks.nodes[w, first])
        for i in range(first, last):
            pending = _begin(rows, rule, walks, i, low, high, steps, step_keys)
            while pending > 0:
                pending = _try(rows, ordered, rule, walks, i, pending, steps, step_keys)
            if pending < 0:
                return False
    return True


@kernel
def _begin(
    rows: RowArrays, rule: WalkRule, walks: WalkArrays, i: int, low: int, high: int, steps: Int64s, step_keys: UInt64s
) -> int:
    """Start step i of the walks low ≤ w < high: restart, end, or list the step. Returns their number, -1 for damage."""
    nodes, positions, indptr = walks.nodes, walks.positions, rows.indptr
    pending = 0
    for w in range(low, high):
        node = nodes[w, i]
        nodes[w, i + 1] = NO_STEP
        positions[w, i] = NO_STEP
        if node < 0:
            continue
        key = fold(walks.keys[w], np.uint64(i))
        if restarts(rule, key):
            nodes[w, i + 1] = nodes[w, 0]
            prefetch(indptr, nodes[w, 0])
        elif node < indptr.size - 1:
            start, degree = indptr[node], indptr[node + 1] - indptr[node]
            if start < 0 or degree < 0 or degree > rows.indices.size - start:
                return -1
            if degree == 0:
                continue
            # The first step, a step after a restart, and the step over an only edge take any candidate.
            alone = degree == 1 or i == 0 or positions[w, i - 1] < 0
            steps[pending, WALK] = w
            steps[pending, START] = start
            steps[pending, DEGREE] = degree
            steps[pending, BEFORE] = NO_STEP if alone else nodes[w, i - 1]
            steps[pending, ATTEMPT] = 0
            steps[pending, CANDIDATE] = NO_STEP
            step_keys[pending] = key
            _prefetch_attempts(rows.indices, steps, pending, key)
            pending += 1
    return pending


@kernel
def _position(steps: Int64s, s: int, key: np.uint64, attempt: np.int64) -> np.int64:
    """Return the position of a step's candidate."""
    bits = draw(key, np.uint64(2 * attempt + 1))
    return steps[s, START] + np.int64(below(bits, np.uint64(steps[s, DEGREE])))


@kernel
def _prefetch_attempts(indices: Array, steps: Int64s, s: int, key: np.uint64) -> None:
    """Prefetch the candidates of a step's next attempts, or the only one if any candidate is taken."""
    attempt = steps[s, ATTEMPT]
    for ahead in range(AHEAD if steps[s, BEFORE] >= 0 else 1):
        prefetch(indices, _position(steps, s, key, attempt + ahead))


@kernel
def _try(
    rows: RowArrays,
    ordered: Array,
    rule: WalkRule,
    walks: WalkArrays,
    i: int,
    pending: int,
    steps: Int64s,
    step_keys: UInt64s,
) -> int:
    """Try the next candidates of the listed steps. Returns the number of steps that remain, or -1 for damage."""
    kept = 0
    for s in range(pending):
        key = step_keys[s]
        position = _next(rows.indices, rule, steps, s, key)
        if position >= 0:
            if not _take(rows, rule, walks, i, steps[s, WALK], position):
                return -1
            continue
        for field in range(STEP_FIELDS):
            steps[kept, field] = steps[s, field]
        step_keys[kept] = key
        if steps[kept, CANDIDATE] >= 0:
            start, end = rows.indptr[steps[kept, BEFORE]], rows.indptr[steps[kept, BEFORE] + 1]
            quarter = (end - start) >> 2
            for probe in range(1, 4):
                prefetch(ordered, start + probe * quarter)
        else:
            _prefetch_attempts(rows.indices, steps, kept, key)
        kept += 1
    left = 0
    for s in range(kept):
        key = step_keys[s]
        if steps[s, CANDIDATE] >= 0:
            before = steps[s, BEFORE]
            near = holds(ordered, rows.indptr[before], rows.indptr[before + 1], steps[s, CANDIDATE])
            if near == (rule.near > rule.far):
                if not _take(rows, rule, walks, i, steps[s, WALK], steps[s, POSITION]):
                    return -1
                continue
            steps[s, CANDIDATE] = NO_STEP
            _prefetch_attempts(rows.indices, steps, s, key)
        for field in range(STEP_FIELDS):
            steps[left, field] = steps[s, field]
        step_keys[left] = key
        left += 1
    return left


@kernel
def _next(indices: Array, rule: WalkRule, steps: Int64s, s: int, key: np.uint64) -> np.int64:
    """Return the position of the first accepted candidate among a step's next attempts, or -1.

    Sets CANDIDATE if the next candidate must be looked up.
    """
    before = steps[s, BEFORE]
    if before < 0:
        return _position(steps, s, key, np.int64(0))
    top = max(rule.back, rule.near, rule.far)
    sure, never = min(rule.near, rule.far), max(rule.near, rule.far)
    for _ in range(AHEAD):
        attempt = steps[s, ATTEMPT]
        position = _position(steps, s, key, attempt)
        bar = below(draw(key, np.uint64(2 * attempt + 2)), top)
        candidate = np.int64(indices[position])
        steps[s, ATTEMPT] = attempt + 1
        if candidate == before:
            if bar < rule.back:
                return position
        elif bar < sure:
            return position
        elif bar < never:
            steps[s, CANDIDATE] = candidate
            steps[s, POSITION] = position
            break
    return NO_STEP


@kernel
def _take(rows: RowArrays, rule: WalkRule, walks: WalkArrays, i: int, w: np.int64, position: np.int64) -> bool:
    """Take an edge as step i of a walk. Returns whether the neighbour exists."""
    neighbor = np.int64(rows.indices[position])
    if neighbor < 0 or neighbor >= rule.reached:
        return False
    walks.nodes[w, i + 1] = neighbor
    walks.positions[w, i] = position
    prefetch(rows.indptr, neighbor)
    return True

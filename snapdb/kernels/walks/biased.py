"""Walks of the second order (node2vec) over plain rows, if every edge of a row is eligible and has the same weight.

Reference implementation: `walk` in tests/support/oracle/walks.py.
"""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Array, Int64s, UInt64s
from snapdb.kernels.adjacency.forms import RowArrays
from snapdb.kernels.compiled import kernel, prefetch
from snapdb.kernels.rng import below, draw, fold
from snapdb.kernels.walks.neighbors import NeighborSets, holds, may_hold, prefetch_filter, prefetch_search
from snapdb.kernels.walks.problem import LAST_TIME, NO_STEP, WalkArrays, WalkRule, restarts

_Number = int | np.int64

BLOCK = 256
"""The number of walks that take a step together."""
AHEAD = 4
"""The number of attempts whose candidates are prefetched together in long rows, if most attempts are rejected."""
SCANNED = 512
"""The largest degree of rows that are scanned for the previous vertex, if most draws accept no other vertex."""
LINES = 8
"""The maximum number of cache lines of a row that are prefetched. The rest of a row follows in sequence."""
WALK, START, DEGREE, BEFORE, BEFORE_START, BEFORE_DEGREE, RANK, ATTEMPT, CANDIDATE, POSITION, FILTERED, SLOT = range(12)
"""Columns of the steps in progress, an int64 [BLOCK, STEP_FIELDS]: the walk, the row of its vertex, the previous vertex
(or -1) and its row, the previous vertex's rank in the row, the number of attempts so far, and a candidate that must be
looked up among the previous vertex's neighbours (or -1), with its position and whether it passed the filter. The first
elements of column SLOT are the rows of the steps that have not been taken."""
STEP_FIELDS = 12
_ABSENT, _SEVERAL, _UNKNOWN = -1, -2, -3
"""Values of RANK: the previous vertex is not in the row, it is there more than once, or the row was not scanned."""


# Rejection sampling (KnightKing, Yang et al., 2019): a candidate is drawn uniformly, and accepted with a probability in
# proportion to its bias. Unlike alias tables per edge, it needs no memory that grows with the sum of squared degrees.
# Most candidates are decided without a search among the previous vertex's neighbours:
# - An acceptance draw below both biases of neighbours and of others accepts, whichever the candidate is.
# - A draw above both accepts only the previous vertex. If returning is likely, most draws do so, and the previous
#   vertex's rank in a row is found first, so that such attempts read no memory.
# - Otherwise, a filter of a byte per edge excludes most vertices that are not neighbours (see `NeighborSets`).
# All walks of a block take a step together, and each pass prefetches what the next one reads.
# With p = 1/4 and q = 4, about 13 of 14 candidates are rejected. benchmarks/WALKS.md has the costs of steps.
@kernel
def walk_biased(
    rows: RowArrays,
    sets: NeighborSets,
    rule: WalkRule,
    walks: WalkArrays,
    first: int,
    last: int,
    steps: Int64s,
    step_keys: UInt64s,
) -> bool:
    """Take the steps first ≤ i < last of all walks. Returns whether all rows and neighbours are within their arrays."""
    for low in range(0, walks.keys.size, BLOCK):
        high = min(low + BLOCK, walks.keys.size)
        for w in range(low, high):
            prefetch(rows.indptr, walks.nodes[w, first])
        for i in range(first, last):
            pending = _begin(rows, sets, rule, walks, i, low, high, steps, step_keys)
            while pending > 0:
                pending = _try(rows, sets, rule, walks, i, pending, steps, step_keys)
            if pending < 0:
                return False
    return True


@kernel
def _begin(
    rows: RowArrays,
    sets: NeighborSets,
    rule: WalkRule,
    walks: WalkArrays,
    i: int,
    low: int,
    high: int,
    steps: Int64s,
    step_keys: UInt64s,
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
            before = NO_STEP if alone else nodes[w, i - 1]
            steps[pending, SLOT] = pending
            steps[pending, WALK] = w
            steps[pending, START] = start
            steps[pending, DEGREE] = degree
            steps[pending, BEFORE] = before
            steps[pending, BEFORE_START] = indptr[before] if before >= 0 else np.int64(0)
            steps[pending, BEFORE_DEGREE] = indptr[before + 1] - indptr[before] if before >= 0 else np.int64(0)
            steps[pending, RANK] = _UNKNOWN
            steps[pending, ATTEMPT] = 0
            steps[pending, CANDIDATE] = NO_STEP
            step_keys[pending] = key
            _prefetch(rows.indices, sets, rule, steps, pending, key)
            pending += 1
    return pending


@kernel
def _is_scanned(rule: WalkRule, steps: Int64s, s: _Number) -> bool:
    """Return whether a step's row is scanned for the previous vertex."""
    return bool(rule.back > max(rule.near, rule.far) and steps[s, BEFORE] >= 0 and steps[s, DEGREE] <= SCANNED)


@kernel
def _prefetch(indices: Array, sets: NeighborSets, rule: WalkRule, steps: Int64s, s: _Number, key: np.uint64) -> None:
    """Prefetch what the first pass over a step reads."""
    if _is_scanned(rule, steps, s):
        for line in range(min((steps[s, DEGREE] >> 4) + 1, LINES)):
            prefetch(indices, steps[s, START] + 16 * line)
        for line in range(min((steps[s, BEFORE_DEGREE] >> 6) + 1, LINES)):
            prefetch(sets.filter, steps[s, BEFORE_START] + 64 * line)
    else:
        _prefetch_attempts(indices, rule, steps, s, key)


@kernel
def _position(steps: Int64s, s: _Number, key: np.uint64, attempt: np.int64) -> np.int64:
    """Return the position of a step's candidate."""
    bits = draw(key, np.uint64(2 * attempt + 1))
    return np.int64(steps[s, START] + np.int64(below(bits, np.uint64(steps[s, DEGREE]))))


@kernel
def _ahead(rule: WalkRule) -> int:
    """Return the number of attempts whose candidates are prefetched together: one if the first is likely accepted."""
    return AHEAD if rule.back > max(rule.near, rule.far) else 1


@kernel
def _prefetch_attempts(indices: Array, rule: WalkRule, steps: Int64s, s: _Number, key: np.uint64) -> None:
    """Prefetch the candidates of a step's next attempts, or the only one if any candidate is taken."""
    attempt = steps[s, ATTEMPT]
    for ahead in range(_ahead(rule) if steps[s, BEFORE] >= 0 else 1):
        prefetch(indices, _position(steps, s, key, attempt + ahead))


@kernel
def _try(
    rows: RowArrays,
    sets: NeighborSets,
    rule: WalkRule,
    walks: WalkArrays,
    i: int,
    pending: int,
    steps: Int64s,
    step_keys: UInt64s,
) -> int:
    """Try the next candidates of the listed steps. Returns the number of steps that remain, or -1 for damage."""
    kept = 0
    for at in range(pending):
        s = steps[at, SLOT]
        if steps[s, CANDIDATE] < 0:
            position = _next(rows.indices, sets, rule, steps, s, step_keys[s])
            if position >= 0:
                if not _take(rows, rule, walks, i, steps[s, WALK], position):
                    return -1
                continue
        steps[kept, SLOT] = s
        kept += 1
    left = 0
    for at in range(kept):
        s = steps[at, SLOT]
        if steps[s, CANDIDATE] >= 0 and _looks_up(sets, steps, s, bool(rule.near > rule.far)):
            if not _take(rows, rule, walks, i, steps[s, WALK], steps[s, POSITION]):
                return -1
            continue
        if steps[s, CANDIDATE] < 0 and steps[s, RANK] == _UNKNOWN:
            _prefetch_attempts(rows.indices, rule, steps, s, step_keys[s])
        steps[left, SLOT] = s
        left += 1
    return left


# A candidate is looked up in two passes: first in the filter, and only if it may be a neighbour, in the ordered row,
# whose first probes are prefetched between the passes.
@kernel
def _looks_up(sets: NeighborSets, steps: Int64s, s: _Number, wants_near: bool) -> bool:
    """Return whether a step's candidate is accepted. Clears CANDIDATE if it is rejected.

    `wants_near` is whether neighbours of the previous vertex are accepted, instead of other vertices.
    """
    start, degree, candidate = steps[s, BEFORE_START], steps[s, BEFORE_DEGREE], steps[s, CANDIDATE]
    if steps[s, FILTERED] != 0:
        near = holds(sets.ordered, start, start + degree, candidate)
    elif may_hold(sets, start, degree, candidate):
        steps[s, FILTERED] = 1
        prefetch_search(sets, start, degree)
        return False
    else:
        near = False
    if near == wants_near:
        return True
    steps[s, CANDIDATE] = NO_STEP
    return False


@kernel
def _next(indices: Array, sets: NeighborSets, rule: WalkRule, steps: Int64s, s: _Number, key: np.uint64) -> np.int64:
    """Return the position of the first accepted candidate among a step's next attempts, or -1.

    Sets CANDIDATE if the next candidate must be looked up.
    """
    before, start, degree = steps[s, BEFORE], steps[s, START], np.uint64(steps[s, DEGREE])
    if before < 0:
        return _position(steps, s, key, np.int64(0))
    if steps[s, RANK] == _UNKNOWN and _is_scanned(rule, steps, s):
        steps[s, RANK] = _rank_of(indices, start, steps[s, DEGREE], before)
    rank_before, attempt = steps[s, RANK], steps[s, ATTEMPT]
    sure, never = min(rule.near, rule.far), max(rule.near, rule.far)
    stop = attempt + _ahead(rule) if rank_before == _UNKNOWN else LAST_TIME
    while attempt < stop:
        bits = draw(key, np.uint64(2 * attempt + 2))
        rank = np.int64(below(draw(key, np.uint64(2 * attempt + 1)), degree))
        attempt += 1
        if bits > never and rank_before >= _ABSENT:
            if rank == rank_before:
                return np.int64(start + rank)
            continue
        candidate = np.int64(indices[start + rank])
        if candidate == before:
            if bits <= rule.back:
                return np.int64(start + rank)
        elif bits <= sure:
            return np.int64(start + rank)
        elif bits <= never:
            steps[s, POSITION] = start + rank
            if _may_be_near(sets, steps, s, candidate):
                break
            if rule.far > rule.near:
                return np.int64(start + rank)
    steps[s, ATTEMPT] = attempt
    return NO_STEP


@kernel
def _may_be_near(sets: NeighborSets, steps: Int64s, s: _Number, candidate: np.int64) -> bool:
    """Return whether a candidate must be looked up, and prefetch what is read then. Sets CANDIDATE if it must."""
    start, degree = steps[s, BEFORE_START], steps[s, BEFORE_DEGREE]
    # The filters of previous vertices of scanned rows have been prefetched, because most steps read them several times.
    scanned = steps[s, RANK] != _UNKNOWN
    if scanned and not may_hold(sets, start, degree, candidate):
        return False
    if scanned:
        prefetch_search(sets, start, degree)
    else:
        prefetch_filter(sets, start, degree, candidate)
    steps[s, CANDIDATE] = candidate
    steps[s, FILTERED] = np.int64(scanned)
    return True


@kernel
def _rank_of(indices: Array, start: np.int64, degree: np.int64, node: np.int64) -> np.int64:
    """Return the rank of a vertex in a row, _ABSENT or _SEVERAL."""
    row, wanted = indices[start : start + degree], indices.dtype.type(node)
    # The number of matches is in the upper half of one sum, and the sum of their ranks in the lower half, so that the
    # loop has no branches and is vectorised.
    sum_ = np.int64(0)
    for at in range(row.size):
        sum_ += (1 << 32) + at if row[at] == wanted else 0
    count = sum_ >> 32
    if count == 1:
        return np.int64(sum_ & 0xFFFFFFFF)
    return np.int64(_ABSENT if count == 0 else _SEVERAL)


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

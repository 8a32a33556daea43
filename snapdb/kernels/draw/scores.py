"""Draws by score: each eligible edge of a row gets a score, and the edges with the k smallest scores are drawn.

A score has 64 bits and is compared as an unsigned integer. The bits of non-negative floats have the same order as the
floats, so weights and hashes share one selection. Scores depend only on the key and the edge, not on the order in which
edges are visited, so every thread and device draws the same edges. The cost is one hash per edge of a row.

Reference implementations: `_heavy`, `_priority`, `_bottomk`, `_labor` and `_greatest` in
tests/support/oracle/methods.py.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from snapdb.arrays import Float64s, Int64s, UInt64s
from snapdb.kernels.adjacency.forms import ColumnArrays, RowArrays, has_values, neighbor_at, value_at
from snapdb.kernels.adjacency.spans import BASE_LEN, BASE_START, BLOCK, DELTA_LEN, DELTA_START, FIELDS, locate_range
from snapdb.kernels.bits import is_set
from snapdb.kernels.compiled import allocating_kernel, kernel
from snapdb.kernels.draw.eligible import TraversalArrays
from snapdb.kernels.rng import draw, fold

FLOYD, REPLACE, LAST, SHARES, RACE, PRIORITY, TOPK, NEWEST, BOTTOMK, LABOR = range(10)
"""The methods of drawing a row. Methods up to LAST draw by rank, SHARES draws by prefix sums of weights, and the others
draw by scores."""


class DrawKeys(NamedTuple):
    """The keys of one hop over one edge type, before a node is folded into them."""

    pick: np.uint64
    """The key of draws by rank."""
    hash: np.uint64
    """The key of scores. Under LABOR, it does not contain the edge type, and applies to neighbours that are not in the
    next period yet."""
    later: np.uint64
    """Under LABOR, the key of scores for neighbours that are already in the next period."""
    phase: np.uint64
    """Under LABOR, the key of phases. A neighbour is in the next period if the upper half of fold(phase, id) plus
    `share` reaches 2^32."""
    share: np.uint64
    """Under LABOR, the elapsed share of the period, in units of 2^-32."""


class DrawRule(NamedTuple):
    """The rule by which the edges of one hop over one edge type are drawn."""

    method: int
    """The method, from FLOYD to LABOR."""
    fanout: int
    """The maximum number of edges per node."""
    skips_zeros: bool
    """Whether edges of weight 0 are never drawn. If True, even a row with no more edges than the fanout is searched for
    such edges."""
    ranked: int
    """The maximum number of edges in a row that is drawn by rank. Rows with more edges are listed before they are
    drawn."""


class Candidates(NamedTuple):
    """The listed edges of a row, by rank, with room for the longest row."""

    places: Int64s
    """Physical positions."""
    scores: UInt64s
    """Scores, compared as unsigned integers."""
    floats: Float64s
    """The same memory as `scores`, as floats."""
    ties: Int64s
    """Tie breakers. Of edges with equal scores, the edge with the smaller tie breaker comes first."""
    heap: Int64s
    """Working memory of `nth_smallest`."""


@intrinsic
def _high_zeros(typing: Any, word: Any) -> Any:
    """Return the number of leading zeros in a uint64."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), emit


@kernel
def race_score(bits: np.uint64, weight: float) -> float:
    """Return the finishing time of an edge of weight > 0 in an exponential race, from the first draw of its hash key.

    The time is -log2 of the upper 32 bits, as an integer in units of 2^-40, divided by the weight.
    """
    y = np.int64(bits >> np.uint64(32)) * 2 + 1
    e = 63 - _high_zeros(np.uint64(y))
    m = y << (33 - e)
    c, x = (m >> 21) & 4095, m & ((1 << 21) - 1)
    length = ((33 - e) << 40) - LOG_TABLE[c] - (((LOG_TABLE[c + 1] - LOG_TABLE[c]) * x) >> 21)
    return np.float64(length) / weight


@kernel
def _priority_score(bits: np.uint64, weight: float) -> float:
    """Return the upper 32 bits of `bits`, plus 1/2, divided by the weight, which is not 0."""
    return (np.float64(bits >> np.uint64(32)) + 0.5) / weight


# One pass over the listed edges of a row. Under RACE (weighted reservoir sampling by Efraimidis and Spirakis, 2006, as
# an exponential race) and PRIORITY (Duffield, Lund and Thorup, 2007), a score is a random number divided by the weight.
# Under BOTTOMK (Cohen and Kaplan, 2007), it is the hash of the edge. Under LABOR (Balin and Çatalyürek, 2023), it is
# the hash of the neighbour.
@kernel
def score_edges(method: int, key: np.uint64, traversal: TraversalArrays, count: int, edges: Candidates) -> int:
    """Score the edges in places[:count], remove those with weight 0, and return the number of remaining edges.

    `key` is the hash key of the row's node. Of edges with equal scores, the smaller tie breaker comes first, then the
    smaller rank. Draws by time or by neighbour are then scored by `score_times` and `score_neighbors`.
    """
    places, scores, floats, ties = edges.places, edges.scores, edges.floats, edges.ties
    weighted = has_values(traversal.weights)
    drawn = (method == RACE) | (method == PRIORITY)
    kept, weight = 0, 1.0
    for i in range(count):
        p = places[i]
        if weighted:
            weight = value_at(traversal.weights, p)
            if drawn and weight <= 0.0:
                continue
        edge = np.int64(value_at(traversal.ids, p))
        places[kept] = p
        ties[kept] = ~edge if method in (TOPK, NEWEST) else edge
        if method == RACE:
            floats[kept] = race_score(draw(fold(key, np.uint64(edge)), np.uint64(0)), weight)
        elif method == PRIORITY:
            floats[kept] = _priority_score(draw(fold(key, np.uint64(edge)), np.uint64(0)), weight)
        elif method == TOPK:
            floats[kept] = weight + 0.0  # -0.0 and 0.0 are equal
        elif method == BOTTOMK:
            scores[kept] = fold(key, np.uint64(edge))
        kept += 1
    if method == TOPK:
        _reverse(scores, kept)
    return kept


@kernel
def _reverse(scores: UInt64s, count: int) -> None:
    """Map the bits of floats of any sign to scores, so that the greatest float gets the smallest score."""
    sign = np.uint64(1) << np.uint64(63)
    for i in range(count):
        scores[i] = scores[i] if scores[i] & sign else ~(scores[i] | sign)


@kernel
def score_times(times: ColumnArrays, count: int, edges: Candidates) -> None:
    """Score edges so that the latest edges have the smallest scores. Without times, all scores are equal."""
    timed = has_values(times)
    for i in range(count):
        time = value_at(times, edges.places[i]) if timed else np.int64(0)
        # Flipping the sign bit makes signed times comparable as unsigned integers. The complement reverses their order.
        edges.scores[i] = ~(np.uint64(time) ^ (np.uint64(1) << np.uint64(63)))


@kernel
def score_neighbors(keys: DrawKeys, rows: RowArrays, count: int, edges: Candidates) -> None:
    """Score edges by neighbour. All edges to a neighbour have the same score, in every row."""
    for i in range(count):
        neighbor = np.uint64(neighbor_at(rows, edges.places[i]))
        turn = (fold(keys.phase, neighbor) >> np.uint64(32)) + keys.share
        edges.scores[i] = fold(keys.later if turn >> np.uint64(32) else keys.hash, neighbor)


# log2 as a table of integers with linear interpolation. Devices round their logarithm functions differently, so the
# same seed would draw different edges on a CPU and on a GPU. Reference implementation: `race_length` in
# tests/support/oracle/numbers.py.
_CELLS = 4096
"""The number of cells in the table, one for each 2^-12 of the mantissa."""
_SCALE = 104
"""The number of bits after the binary point of intermediate sums, whose error is below 2^-88."""
_TERMS = 4
"""The number of terms in the series, which suffices for that error."""


def _step(n: int) -> int:
    """ln((n + 1) / n) / 2 in units of 2^-SCALE, by the artanh series.

    >>> round(_step(4096) * 2 / 2**_SCALE, 9)
    0.000244111
    """
    d = 2 * n + 1
    return sum((1 << _SCALE) // ((2 * t + 1) * d ** (2 * t + 1)) for t in range(_TERMS))


def _table() -> Int64s:
    """Compute LOG_TABLE from prefix sums of the logarithm's steps."""
    sums = list(accumulate((_step(_CELLS + i) for i in range(_CELLS)), initial=0))
    table = np.array([((each << 41) + sums[-1]) // (2 * sums[-1]) for each in sums], np.int64)
    table.flags.writeable = False
    return table


LOG_TABLE = _table()
"""[4097] round(log2(1 + i/4096) * 2^40)."""


# Selection of the k smallest scores in one pass, with a max-heap of the k smallest so far, O(count log k) in the worst
# case. Most edges of a long row are only compared with the top of the heap, because the heap changes O(k log(count /
# k)) times on average.
@kernel
def comes_first(edges: Candidates, one: int, other: int) -> bool:
    """Return whether edge `one` of a row precedes edge `other`, by score, then by tie breaker, then by rank."""
    scores, ties = edges.scores, edges.ties
    if scores[one] != scores[other]:
        return bool(scores[one] < scores[other])
    if ties[one] != ties[other]:
        return bool(ties[one] < ties[other])
    return one < other


@kernel
def nth_smallest(edges: Candidates, count: int, n: int) -> int:
    """Return the rank of the n-th smallest of `count` edges, 1 ≤ n ≤ count."""
    heap = edges.heap
    for i in range(n):
        heap[i] = i
    for parent in range(n // 2 - 1, -1, -1):
        _sink(edges, parent, n)
    for i in range(n, count):
        if comes_first(edges, i, heap[0]):
            heap[0] = i
            _sink(edges, 0, n)
    return int(heap[0])


@kernel
def _sink(edges: Candidates, place: int, size: int) -> None:
    """Restore the max-heap if only heap[place] can be out of place (sift down)."""
    heap = edges.heap
    edge = heap[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and comes_first(edges, heap[child], heap[child + 1]):
            child += 1
        if not comes_first(edges, edge, heap[child]):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = edge


# Weights are validated once, when a sampler is opened, and then gathered in the order of positions.
LEAST = 1e-250
"""The smallest positive weight."""


@kernel
def by_edge_id(weights: Float64s, ids: npt.NDArray[np.integer], out: Float64s) -> None:
    """Fill `out` with weights[ids[i]], or NaN for an id without a weight, which no snapshot has."""
    for i in range(ids.size):
        edge = np.int64(ids[i])
        out[i] = weights[edge] if 0 <= edge < weights.size else np.nan


@allocating_kernel
def find_bad_weights(rows: RowArrays, weights: ColumnArrays, signed: bool, shown: Int64s) -> tuple[int, int]:
    """Count the edges of the rows with an invalid weight, and the edges with weight 0. The counts are -1 for damage.

    A valid weight is 0, or finite and at least LEAST, because a score is divided by it and must not become infinite. If
    `signed`, it can also be negative, or closer to 0. The positions of the first invalid weights are written to
    `shown`.
    """
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    words, bad, zeros = rows.live.words, 0, 0
    for low in range(0, rows.nodes, BLOCK):
        count = min(BLOCK, rows.nodes - low)
        if not locate_range(rows, low, count, nodes, spans):
            return -1, 0
        for span in range(count):
            for field in (BASE_START, DELTA_START):
                start, length = spans[span, field], spans[span, BASE_LEN if field == BASE_START else DELTA_LEN]
                for p in range(start, start + length):
                    if words.size > 0 and not is_set(words, p):
                        continue
                    weight = value_at(weights, p)
                    zeros += int(weight == 0.0)
                    if not (np.isfinite(weight) and (signed or weight == 0.0 or weight >= LEAST)):
                        if bad < shown.size:
                            shown[bad] = p
                        bad += 1
    return bad, zeros

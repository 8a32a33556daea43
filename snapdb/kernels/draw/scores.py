"""Draws where ranks are not equally likely: each eligible edge of a row gets a score, and the k smallest are taken.

A score is 64 bits that are compared as an unsigned integer. A float that is not negative keeps its order that way, so
that weights and hashes share one selection. Scores depend on the key and on the edge alone, never on the order in
which edges are looked at, so every thread and device takes the same ones. The cost is one hash per edge of a row.

Naive twins: `_heavy`, `_priority`, `_bottomk`, `_labor` and `_greatest` of tests/support/oracle/methods.py.
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
from snapdb.kernels.draw.eligible import WalkArrays
from snapdb.kernels.rng import draw, fold

FLOYD, REPLACE, LAST, SHARES, RACE, PRIORITY, TOPK, NEWEST, BOTTOMK, LABOR = range(10)
"""How a row is drawn: up to LAST by ranks alone, SHARES by prefix sums of weights, the others by scores."""


class DrawKeys(NamedTuple):
    """The keys of one hop over one edge type, before a node is folded into them."""

    pick: np.uint64
    hash: np.uint64
    """Of scores. Under LABOR without the edge type, and of the round before a neighbour's turn."""
    later: np.uint64
    """LABOR: the same, from a neighbour's turn on."""
    phase: np.uint64
    """LABOR: of the neighbours' turns."""
    share: np.uint64
    """LABOR: how much of the round is over, in 2^-32."""


class DrawRule(NamedTuple):
    """How the edges of one hop over one edge type are drawn."""

    method: int
    fanout: int
    skips_zeros: bool
    """Edges of weight 0 are never drawn, so that a row of no more edges than the fanout is searched for them too."""
    ranked: int
    """Rows of more edges than this are listed before they are drawn; in the others ranks decide."""


class Candidates(NamedTuple):
    """The edges of a row that were listed, by rank; room for the longest row."""

    places: Int64s
    """Physical positions."""
    scores: UInt64s
    floats: Float64s
    """The memory of `scores`."""
    ties: Int64s
    """Of equal scores the smaller tie comes first."""
    heap: Int64s
    """Working memory of `nth_smallest`."""


@intrinsic
def _high_zeros(typing: Any, word: Any) -> Any:
    """How many bits are above the highest set one of a uint64."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), emit


@kernel
def race_score(bits: np.uint64, weight: float) -> float:
    """The finishing time of an edge whose hash key's first draw is `bits`, in a race of exponentials; weight > 0.

    An integer -log2 of the upper half, in units of 2^-40, over the weight.
    """
    y = np.int64(bits >> np.uint64(32)) * 2 + 1
    e = 63 - _high_zeros(np.uint64(y))
    m = y << (33 - e)
    c, x = (m >> 21) & 4095, m & ((1 << 21) - 1)
    length = ((33 - e) << 40) - LOG_TABLE[c] - (((LOG_TABLE[c + 1] - LOG_TABLE[c]) * x) >> 21)
    return np.float64(length) / weight


@kernel
def _priority_score(bits: np.uint64, weight: float) -> float:
    """The upper half of `bits` over the weight, which is not 0."""
    return (np.float64(bits >> np.uint64(32)) + 0.5) / weight


# One pass over the listed edges of a row. Under RACE (Efraimidis and Spirakis, 2006, as a race of exponentials) and
# PRIORITY (Duffield, Lund and Thorup, 2007) a score is a random number over the weight; under BOTTOMK (Cohen and
# Kaplan, 2007) it is the hash of the edge, and under LABOR (Balin and Çatalyürek, 2023) that of the neighbour.
@kernel
def score_edges(method: int, key: np.uint64, walk: WalkArrays, count: int, edges: Candidates) -> int:
    """Scores the edges at places[:count]; returns how many are left without those of weight 0, which are moved out.

    `key` is the hash key of the row's node. Of equal scores the smaller of `ties` comes first, then the smaller rank.
    `score_times` and `score_neighbors` still have to score what is drawn by times or neighbours.
    """
    places, scores, floats, ties = edges.places, edges.scores, edges.floats, edges.ties
    weighted = has_values(walk.weights)
    drawn = (method == RACE) | (method == PRIORITY)
    kept, weight = 0, 1.0
    for i in range(count):
        p = places[i]
        if weighted:
            weight = value_at(walk.weights, p)
            if drawn and weight <= 0.0:
                continue
        edge = np.int64(value_at(walk.ids, p))
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
    """From the bits of floats of any sign to scores of which the greatest float has the smallest."""
    sign = np.uint64(1) << np.uint64(63)
    for i in range(count):
        scores[i] = scores[i] if scores[i] & sign else ~(scores[i] | sign)


@kernel
def score_times(times: ColumnArrays, count: int, edges: Candidates) -> None:
    """Gives the latest edges the smallest scores; without times all are equal."""
    timed = has_values(times)
    for i in range(count):
        time = value_at(times, edges.places[i]) if timed else np.int64(0)
        edges.scores[i] = ~(np.uint64(time) ^ (np.uint64(1) << np.uint64(63)))


@kernel
def score_neighbors(keys: DrawKeys, rows: RowArrays, count: int, edges: Candidates) -> None:
    """Gives all edges to a neighbour its score, whichever node they are drawn for."""
    for i in range(count):
        neighbor = np.uint64(neighbor_at(rows, edges.places[i]))
        turn = (fold(keys.phase, neighbor) >> np.uint64(32)) + keys.share
        edges.scores[i] = fold(keys.later if turn >> np.uint64(32) else keys.hash, neighbor)


# log2 as a table of integers with linear interpolation. Devices round their own logarithms differently, and then one
# seed would draw different edges on a CPU and on a GPU. Naive twin: `race_length` of tests/support/oracle/numbers.py.
_CELLS = 4096
_SCALE = 104
"""Bits after the point; the sums are off by less than 2^-88."""
_TERMS = 4


def _step(n: int) -> int:
    """ln((n + 1) / n) / 2 in units of 2^-SCALE.

    >>> round(_step(4096) * 2 / 2**_SCALE, 9)
    0.000244111
    """
    d = 2 * n + 1
    return sum((1 << _SCALE) // ((2 * t + 1) * d ** (2 * t + 1)) for t in range(_TERMS))


def _table() -> Int64s:
    sums = list(accumulate((_step(_CELLS + i) for i in range(_CELLS)), initial=0))
    table = np.array([((each << 41) + sums[-1]) // (2 * sums[-1]) for each in sums], np.int64)
    table.flags.writeable = False
    return table


LOG_TABLE = _table()
"""[4097] round(log2(1 + i/4096) * 2^40)."""


# Selection of the k smallest scores: one pass with a max-heap of the best so far, O(count log k) at worst. Most edges
# of a long row are compared with the top of the heap alone, as the heap changes O(k log(count / k)) times on average.
@kernel
def comes_first(edges: Candidates, one: int, other: int) -> bool:
    """Whether edge `one` of a row comes before edge `other`: by score, tie and rank."""
    scores, ties = edges.scores, edges.ties
    if scores[one] != scores[other]:
        return bool(scores[one] < scores[other])
    if ties[one] != ties[other]:
        return bool(ties[one] < ties[other])
    return one < other


@kernel
def nth_smallest(edges: Candidates, count: int, n: int) -> int:
    """The rank of the edge that comes n-th of `count` ≥ n ≥ 1."""
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
    """Restores the heap, whose top comes last, where only heap[place] may be out of place."""
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


# Weights are checked once, when a sampler is opened, and then brought into the order of positions.
LEAST = 1e-250
"""The smallest positive weight."""


@kernel
def by_edge_id(weights: Float64s, ids: npt.NDArray[np.integer], out: Float64s) -> None:
    """out[i] = weights[ids[i]]; NaN for an id that has none, which no snapshot holds."""
    for i in range(ids.size):
        edge = np.int64(ids[i])
        out[i] = weights[edge] if 0 <= edge < weights.size else np.nan


@allocating_kernel
def find_bad_weights(rows: RowArrays, weights: ColumnArrays, signed: bool, shown: Int64s) -> tuple[int, int]:
    """How many edges of the rows have a weight that is not valid, and how many the weight 0; -1: damaged.

    A weight is 0, or LEAST or more and finite: a score is divided by it, which must not become infinite. `signed`:
    it may also be negative, or closer to 0. The positions of the first ones that are not valid are written to `shown`.
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

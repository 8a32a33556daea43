"""What decides which edges of a row are drawn when not all ranks are alike: each gets a score, and the smallest win.

A score is 64 bits that are compared as an unsigned integer. A float that is not negative keeps its order that way, so
that weights and hashes share one selection.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from snapdb.arrays import Array, Float64s, Int64s, UInt64s
from snapdb.kernels.adjacency.forms import RowArrays
from snapdb.kernels.adjacency.spans import BLOCK, FIELDS, FIRST, KEPT, REST, SECOND, locate_range
from snapdb.kernels.bits import is_set
from snapdb.kernels.compiled import allocating_kernel, kernel
from snapdb.kernels.draw.eligible import value_at
from snapdb.kernels.rng import draw, fold

FLOYD, REPLACE, LAST, SHARES, RACE, PRIORITY, TOPK, NEWEST, BOTTOMK, LABOR = range(10)
"""How a row is drawn. Up to LAST by ranks alone, SHARES by prefix sums of weights, the rest by scores."""


class DrawKeys(NamedTuple):
    """The keys of one hop over one edge type, before a node is folded into them."""

    pick: np.uint64
    hash: np.uint64
    """Of LABOR: without the edge type, of the round before a neighbour's turn comes."""
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
    """Edges of weight 0 are not in a row, so that a row of no more edges than the fanout is looked through too."""
    ranked: int
    """The edges of rows with more than this many are listed before they are drawn; ranks decide in the others."""


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


@kernel
def score_edges(
    method: int,
    key: np.uint64,
    id_root: Array,
    id_patch: Array,
    root: Float64s,
    patch: Float64s,
    count: int,
    places: Int64s,
    scores: UInt64s,
    floats: Float64s,
    ties: Int64s,
) -> int:
    """Scores the edges at places[:count]; returns how many there are without those of weight 0, which move out.

    `key` is the hash key of the row's node, `floats` the memory of `scores`. Of equal scores the smaller of `ties`
    comes first, then the smaller rank. What goes by times or neighbours has scores still to come.
    """
    weighted = root.size + patch.size > 0
    drawn = (method == RACE) | (method == PRIORITY)
    kept, weight = 0, 1.0
    for i in range(count):
        p = places[i]
        if weighted:
            weight = value_at(root, patch, p)
            if drawn and weight <= 0.0:
                continue
        edge = np.int64(value_at(id_root, id_patch, p))
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
def score_times(root: Int64s, patch: Int64s, places: Int64s, count: int, scores: UInt64s) -> None:
    """Gives the latest the smallest score; without times all are alike."""
    timed = root.size + patch.size > 0
    for i in range(count):
        time = value_at(root, patch, places[i]) if timed else np.int64(0)
        scores[i] = ~(np.uint64(time) ^ (np.uint64(1) << np.uint64(63)))


@kernel
def score_neighbours(keys: DrawKeys, root: Array, patch: Array, places: Int64s, count: int, scores: UInt64s) -> None:
    """Gives all edges to a neighbour its score, whichever node they are drawn for."""
    for i in range(count):
        far = np.uint64(np.int64(value_at(root, patch, places[i])))
        turn = (fold(keys.phase, far) >> np.uint64(32)) + keys.share
        scores[i] = fold(keys.later if turn >> np.uint64(32) else keys.hash, far)


# The logarithms that weighted draws are made of, as integers, so that no device's own rounding enters a draw


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
    table = np.array([((found << 41) + sums[-1]) // (2 * sums[-1]) for found in sums], np.int64)
    table.flags.writeable = False
    return table


LOG_TABLE = _table()
"""[4097] round(log2(1 + i/4096) * 2^40)."""


# The edges of a row with the smallest scores, found by one pass over them with a heap of the best so far


@kernel
def comes_first(scores: UInt64s, ties: Int64s, one: int, other: int) -> bool:
    """Whether edge `one` of a row comes before edge `other`: by score, tie and rank."""
    if scores[one] != scores[other]:
        return bool(scores[one] < scores[other])
    if ties[one] != ties[other]:
        return bool(ties[one] < ties[other])
    return one < other


@kernel
def nth_smallest(scores: UInt64s, ties: Int64s, count: int, n: int, heap: Int64s) -> int:
    """The rank of the edge that comes n-th of `count` ≥ n ≥ 1; `heap` has room for n."""
    for i in range(n):
        heap[i] = i
    for root in range(n // 2 - 1, -1, -1):
        _sink(scores, ties, heap, root, n)
    for i in range(n, count):
        if comes_first(scores, ties, i, heap[0]):
            heap[0] = i
            _sink(scores, ties, heap, 0, n)
    return int(heap[0])


@kernel
def _sink(scores: UInt64s, ties: Int64s, heap: Int64s, place: int, size: int) -> None:
    """Restores a heap whose last comes first, where only heap[place] may be out of place."""
    edge = heap[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and comes_first(scores, ties, heap[child], heap[child + 1]):
            child += 1
        if not comes_first(scores, ties, edge, heap[child]):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = edge


# Weights of edges before a sampler draws by them: brought into the order of positions, and looked at


LEAST = 1e-250
"""The smallest positive weight."""


@kernel
def by_edge_id(weights: Float64s, ids: npt.NDArray[np.integer], out: Float64s) -> None:
    """out[i] = weights[ids[i]]; NaN for an id that has none, which no snapshot holds."""
    for i in range(ids.size):
        edge = np.int64(ids[i])
        out[i] = weights[edge] if 0 <= edge < weights.size else np.nan


@allocating_kernel
def find_bad_weights(rows: RowArrays, root: Float64s, patch: Float64s, signed: bool, shown: Int64s) -> tuple[int, int]:
    """How many edges of the rows have a weight that no draw can go by, and how many the weight 0; -1: damage.

    A weight is 0, or LEAST or more and finite: a score is divided by it, which must not become infinite.

    The positions of the first bad ones go to `shown`. `signed`: weights may be of any sign, and zero.
    """
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    words, held, bad, zeros = rows.live.words, rows.indices.size, 0, 0
    for low in range(0, rows.nodes, BLOCK):
        count = min(BLOCK, rows.nodes - low)
        if not locate_range(rows, low, count, nodes, spans):
            return -1, 0
        for span in range(count):
            for field in (FIRST, SECOND):
                start, length = spans[span, field], spans[span, KEPT if field == FIRST else REST]
                for p in range(start, start + length):
                    if words.size > 0 and not is_set(words, p):
                        continue
                    weight = root[p] if p < held else patch[p - held]
                    zeros += int(weight == 0.0)
                    if not (np.isfinite(weight) and (signed or weight == 0.0 or weight >= LEAST)):
                        if bad < shown.size:
                            shown[bad] = p
                        bad += 1
    return bad, zeros

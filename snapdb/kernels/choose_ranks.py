"""Draws of ranks: rows cost what they draw, however long they are; ranks go to stretches, and those to positions."""

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Float64s, Int64s, UInt64s
from snapdb.kernels.bits import live_before, select_live
from snapdb.kernels.compiled import kernel
from snapdb.kernels.eligible import COUNT, LENGTH, LISTED, START, STRETCHES, TOTAL
from snapdb.kernels.floyd import floyd_mask, floyd_scan, floyd_table, table_for
from snapdb.kernels.rng import below, draw, fold
from snapdb.kernels.scores import LAST, REPLACE, DrawRule

SCANNED = 128
"""Up to so many picks, looking through the earlier ones beats a hash table."""


@kernel
def draw_ranked(
    rule: DrawRule,
    pick: np.uint64,
    ordinals: Int64s,
    indices: npt.NDArray[np.generic],
    words: UInt64s,
    before: Int64s,
    frontier: Int64s,
    trees: Int64s,
    first: int,
    i: int,
    last: int,
    windows: Int64s,
    positions: Int64s,
    sides: Int64s,
    weights: Float64s,
    edges: int,
) -> tuple[int, int]:
    """Draws rows from number i on, up to the first that must be listed or `last`; returns that and the edges then.

    Arrays are handed over one by one, once for many rows: numba counts references to every array of a tuple.
    """
    method, k, ranked = rule.method, rule.fanout, rule.ranked
    while i < last:
        span = i - first
        total = int(windows[span, TOTAL])
        if windows[span, LISTED] != 0 or total > ranked:
            break
        whole = (windows[span, COUNT] == total) & (windows[span, LENGTH] == total)
        start, begin = int(windows[span, START]) if whole else 0, edges
        edges += min(total, k)
        for e in range(begin, edges):
            sides[e] = i
        key = fold(pick, np.uint64(frontier[i]))
        if ordinals.size > 0:
            key = fold(key, np.uint64(ordinals[trees[i]]))
        draw_ranks(method, key, start, total, k, indices, positions, begin)
        if not whole:
            place_ranks(words, before, windows, span, positions, begin, edges)
        if weights.size > 0:
            for e in range(begin, edges):
                weights[e] = 1.0
        i += 1
    return i, edges


@kernel
def draw_ranks(
    method: int,
    key: np.uint64,
    start: int,
    total: int,
    k: int,
    indices: npt.NDArray[np.generic],
    positions: Int64s,
    edges: int,
) -> None:
    """Draws up to k of `total` places from `start` on: all of them, the last ones, each for itself, or by Floyd."""
    if total <= k or method == LAST:
        picks = min(total, k)
        for j in range(picks):
            positions[edges + j] = start + total - picks + j
    elif method == REPLACE:
        for j in range(k):
            positions[edges + j] = start + np.int64(below(draw(key, np.uint64(j)), np.uint64(total)))
    elif total <= 64:
        floyd_mask(key, start, total, k, indices, positions, edges)
    elif k <= SCANNED:
        floyd_scan(key, start, total, k, indices, positions, edges)
    else:
        floyd_table(key, start, total, k, table_for(np.empty(0, np.int64), k), positions, edges)


@kernel
def place_ranks(
    words: UInt64s, before: Int64s, windows: Int64s, span: int, positions: Int64s, begin: int, end: int
) -> None:
    """Turns ranks among the edges of a row's stretches into positions."""
    for e in range(begin, end):
        rank, w = positions[e], 0
        while w < STRETCHES - 1 and rank >= windows[span, COUNT + w]:
            rank -= windows[span, COUNT + w]
            w += 1
        start, length, count = windows[span, START + w], windows[span, LENGTH + w], windows[span, COUNT + w]
        if length == count:
            positions[e] = start + rank
        else:
            guess = start + min(np.int64(np.float64(rank) * (np.float64(length) / np.float64(count))), length - 1)
            rank += live_before(words, before, start)
            positions[e] = select_live(words, before, start, start + length, rank, guess)

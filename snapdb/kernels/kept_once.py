"""Draws for nodes who draw once: from all of their edges, which then have no row, or from a row of the cache alone."""

import numpy as np

from snapdb.arrays import Array, Int32s, Int64s, UInt64s
from snapdb.kernels.choose_ranks import SCANNED, draw_ranks
from snapdb.kernels.compiled import inlined, kernel
from snapdb.kernels.drawn_rows import place_row
from snapdb.kernels.floyd import floyd_mask, floyd_scan, take_all
from snapdb.kernels.intrinsics import prefetch
from snapdb.kernels.kept_rule import KeptRule
from snapdb.kernels.rng import fold
from snapdb.kernels.row_cache import TORN, is_torn, take_recorded
from snapdb.kernels.scores import FLOYD
from snapdb.kernels.spans import DEGREE, KEPT, REST


@kernel
def draw_whole(
    rule: KeptRule,
    indices: Array,
    copies: Array,
    words: UInt64s,
    before: Int64s,
    spans: Int64s,
    origins: Int64s,
    frontier: Int64s,
    first: int,
    last: int,
    apart: Int64s,
    starts: Int64s,
    positions: Int64s,
) -> None:
    """Draws for those of first ≤ i < last who take all edges, or draw once from all: a row in one piece at its place,
    in the adjacency or in its copy.

    Arrays are handed over one by one, once for many rows: numba counts references to every array of a tuple, and a
    call takes as long as an edge.
    """
    pick, fanout, most = rule.pick, rule.fanout, drawn_once(rule)
    for i in range(first, last):
        span, begin = apart[i - first], starts[i - first]
        if span < 0 or spans[span, DEGREE] > most:
            continue
        degree, start = int(spans[span, DEGREE]), int(origins[span, 1])
        whole = spans[span, KEPT] == degree and spans[span, REST] == 0
        if whole and origins[span, 0] >= 0:
            _draw_once(pick, frontier[i], start, degree, fanout, copies, positions, begin)
        else:
            _draw_once(pick, frontier[i], start, degree, fanout, indices, positions, begin)
        if not whole:
            place_row(words, before, spans, span, positions, begin, starts[i - first + 1])


@inlined
def _draw_once(
    pick: np.uint64,
    node: int | np.int64,
    start: int,
    degree: int,
    fanout: int,
    indices: Array,
    positions: Int64s,
    begin: int,
) -> None:
    """All of a row's edges, or Floyd's draw from them."""
    if degree <= fanout:
        take_all(start, degree, indices, positions, begin)
    else:
        draw_floyd(fold(pick, np.uint64(node)), start, degree, fanout, indices, positions, begin)


@inlined
def draw_floyd(key: np.uint64, start: int, total: int, k: int, indices: Array, positions: Int64s, begin: int) -> None:
    """Floyd's k of `total` numbers from `start` on, no fewer than k."""
    if k < total <= 64:
        floyd_mask(key, start, total, k, indices, positions, begin)
    elif k < total and k <= SCANNED:
        floyd_scan(key, start, total, k, indices, positions, begin)
    else:
        draw_ranks(FLOYD, key, start, total, k, indices, positions, begin)


@kernel
def draw_recorded(
    rule: KeptRule,
    records: Array,
    frontier: Int64s,
    first: int,
    last: int,
    found: Int64s,
    apart: Int64s,
    starts: Int64s,
    placed: Int64s,
    positions: Int64s,
    neighbours: Int64s,
    limit: int,
    stamps: Int32s,
) -> int:
    """Draws for those who are not apart, by their records alone; returns how many; -1: damaged, or TORN."""
    pick, fanout, size, known = rule.pick, rule.fanout, rule.size, 0
    sound: bool | np.bool_ = True
    for i in range(first, last):
        if apart[i - first] >= 0:
            continue
        record, begin = found[i - first, 0], starts[i - first]
        placed[i - first] = begin + fanout
        known += 1
        draw_floyd(fold(pick, np.uint64(frontier[i])), 0, size, fanout, records, positions, begin)
        sound &= take_recorded(records, record, size, limit, positions, neighbours, begin, begin + fanout)
        for e in range(begin, begin + fanout):
            prefetch(stamps, neighbours[e])
        if is_torn(records, record, found[i - first, 1]):
            return TORN
    return known if sound else -1


@kernel
def drawn_once(rule: KeptRule) -> int:
    """Nodes that have no more edges than this draw once from all of them, or take all."""
    return max(rule.size, rule.above) if rule.kept == rule.fanout else rule.fanout

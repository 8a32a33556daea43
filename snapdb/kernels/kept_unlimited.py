"""Draws from rows that serve many batches where all edges of a node are eligible, and equally likely.

Then ranks decide alone: which of its row's edges a node takes, and which others besides. They become positions in the
end; only where a cache holds the row are positions, and neighbours, known at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.kernels.bits import live_before
from snapdb.kernels.choose_ranks import draw_ranks
from snapdb.kernels.compiled import kernel
from snapdb.kernels.drawn_rows import (
    FREE,
    RowKeys,
    RowParts,
    draw_ranks_sorted,
    place_row,
    row_key,
    row_parts,
    row_round,
    sort_ranks,
    table_size,
)
from snapdb.kernels.forms import RowArrays
from snapdb.kernels.intrinsics import prefetch
from snapdb.kernels.kept_rule import KeptRule, pass_over
from snapdb.kernels.rng import fold
from snapdb.kernels.row_cache import HEAD, TORN, BaseRows, CachedRows, find_records, is_torn, load_kept
from snapdb.kernels.scores import FLOYD
from snapdb.kernels.spans import ALIVE, BLOCK, DEGREE, FIRST, KEPT, REST, SECOND, locate

__all__ = ["draw_unlimited"]

Number = int | np.int64
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@kernel
def draw_unlimited(
    rows: RowArrays,
    keys: RowKeys,
    rule: KeptRule,
    cached: CachedRows,
    base: BaseRows,
    frontier: Int64s,
    low: int,
    high: int,
    limit: int,
    positions: Int64s,
    sides: Int64s,
    neighbours: Int64s,
    edges: int,
    counts: Int64s,
) -> tuple[int, int, Number]:
    """Draws as the rule says for each of frontier[low:high], from edge number `edges` on.

    Neighbours are 0 ≤ id < limit. Returns where in the frontier it stopped (-1: damaged), how many edges there are
    then, and for how many edges it needs room to go on.
    """
    indices, tail, words, before = rows.indices, rows.patch.indices, rows.live.words, rows.live.before
    records, parts, rounds, alone = cached.records, row_parts(keys), keys.rounds, rule.kept == rule.fanout
    found, spans = np.empty((BLOCK, 2), np.int64), np.empty((BLOCK, FIELDS), np.int64)
    apart, who = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    row, chosen = np.empty(rule.size, np.int64), np.empty(rule.size, np.int64)
    table = np.empty(table_size(rule.size), np.int64)
    first = low
    while first < high:
        last, begin = min(first + BLOCK, high), edges
        find_records(keys, cached, frontier, first, last, high, found)
        count = _set_apart(alone, frontier, first, last, found, apart, who)
        if not locate(rows, who, 0, count, count, spans):
            return -1, edges, 0
        room = edges + (last - first - count) * rule.fanout
        for span in range(count):
            room += min(spans[span, DEGREE], np.int64(rule.fanout))
        if room > sides.size:
            return first, edges, room
        edges = _draw_rows(
            rule, parts, rounds, records, indices, words, before, spans, frontier, first, last, found, apart,
            positions, sides, neighbours, limit, edges, row, chosen, table,
        )  # fmt: skip
        if edges == TORN:  # all over again
            edges = begin
            continue
        if edges < 0 or not load_kept(
            indices, tail, base, frontier, sides, positions, begin, edges, limit, neighbours, counts
        ):
            return -1, edges, 0
        first = last
    return high, edges, 0

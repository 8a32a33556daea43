"""Draws from rows that serve many batches where all edges of a node are eligible, and equally likely.

Then ranks decide alone: which of its row's edges a node takes, and which others besides. They become positions in the
end; only where a cache holds the row are positions, and neighbours, known at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.kernels.choose_ranks import draw_ranks
from snapdb.kernels.compiled import kernel
from snapdb.kernels.drawn_rows import (
    FREE,
    RowKeys,
    RowParts,
    draw_ranks_sorted,
    place_row,
    rank_in,
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
from snapdb.kernels.row_cache import (
    HEAD,
    TORN,
    BaseRows,
    CachedRows,
    find_records,
    is_torn,
    load_kept,
    take_recorded,
)
from snapdb.kernels.scores import FLOYD
from snapdb.kernels.spans import BLOCK, DEGREE, FIELDS, locate

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


@kernel
def _set_apart(
    alone: bool, frontier: Int64s, first: int, last: int, found: Int64s, apart: Int64s, who: Int64s
) -> int:
    """Lists in `who` the nodes for which no record is enough, and where each is there in `apart`; how many they are."""
    count = 0
    for i in range(first, last):
        if alone and found[i - first, 0] >= 0:
            apart[i - first] = -1
        else:
            apart[i - first] = count
            who[count] = frontier[i]
            count += 1
    return count


@kernel
def _draw_rows(
    rule: KeptRule,
    parts: RowParts,
    rounds: Int32s,
    records: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    words: Words,
    before: Int64s,
    spans: Int64s,
    frontier: Int64s,
    first: int,
    last: int,
    found: Int64s,
    apart: Int64s,
    positions: Int64s,
    sides: Int64s,
    neighbours: Int64s,
    limit: int,
    edges: int,
    row: Int64s,
    chosen: Int64s,
    table: Int64s,
) -> int:
    """Draws rows first ≤ i < last, and returns how many edges there are then; -1: damaged, or TORN.

    Arrays are handed over one by one: numba counts references to every array of a tuple.
    """
    fanout, kept, size, everything = rule.fanout, rule.kept, rule.size, max(rule.size, rule.above)
    pick, fresh = rule.pick, rule.fresh
    sound: bool | np.bool_ = True
    for i in range(first, last):
        span, record, node, begin = apart[i - first], found[i - first, 0], frontier[i], edges
        degree = spans[span, DEGREE] if span >= 0 else np.int64(FREE)
        edges += min(degree, np.int64(fanout))
        for e in range(begin, edges):
            sides[e], neighbours[e] = i, -1
        every = degree <= everything
        among, picks = (degree if every else np.int64(size)), (kept if degree > fanout else edges - begin)
        draw_ranks(FLOYD, fold(pick, np.uint64(node)), 0, among, picks, indices, positions, begin)
        if not every and record < 0:
            draw_ranks_sorted(row_key(parts, row_round(parts, rounds, node), node), degree, size, table, row)
        middle, placed = begin + picks, begin
        if middle < edges:
            sort_ranks(positions, begin, picks, among, table, chosen)
            if not every and record < 0:
                for j in range(picks):
                    chosen[j] = row[chosen[j]]
            elif not every:
                sound &= _rank_recorded(words, before, spans, span, records, record, picks, chosen)
            key = fold(fresh, np.uint64(node))
            draw_ranks(FLOYD, key, 0, degree - picks, fanout - picks, indices, positions, middle)
            pass_over(chosen, picks, positions, middle, edges)
        if not every and record < 0:
            for e in range(begin, middle):
                positions[e] = row[positions[e]]
        elif not every:
            placed = middle
            sound &= take_recorded(records, record, size, limit, positions, neighbours, begin, middle)
            if is_torn(records, record, found[i - first, 1]):
                return TORN
        if placed < edges:
            place_row(words, before, spans, span, positions, placed, edges)
        for e in range(placed, edges):
            prefetch(indices, positions[e])
    return edges if sound else -1


@kernel
def _rank_recorded(
    words: Words,
    before: Int64s,
    spans: Int64s,
    span: int,
    records: npt.NDArray[Any],
    record: Number,
    count: int,
    chosen: Int64s,
) -> bool:
    """Turns numbers of a record's edges into ranks in the whole row; whether all of them are in it."""
    inside: bool | np.bool_ = True
    for j in range(count):
        rank = rank_in(words, before, spans, span, np.int64(records[record, HEAD + chosen[j]]))
        inside &= rank >= 0
        chosen[j] = rank
    return bool(inside)

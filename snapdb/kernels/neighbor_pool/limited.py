"""Draws from pool rows under time bounds, excluded pairs or weights, for which ranks alone are not enough.

A node's eligible edges are ranges of its row or, if each edge must be checked, a list of positions. They are
intersected with the pool row. The pool's part of the fanout is drawn from the intersection, and the residual draw takes
the remaining edges from the other eligible edges. If the row alone determines the draw, because the whole fanout comes
from it and every edge is eligible, only a cache record is read.

Reference implementation: `serve` in tests/support/oracle/rows.py.
"""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Int64s
from snapdb.kernels.adjacency.forms import LiveArrays, RowArrays
from snapdb.kernels.adjacency.spans import BLOCK, DEGREE
from snapdb.kernels.bits import live_before
from snapdb.kernels.compiled import allocating_kernel, kernel, prefetch
from snapdb.kernels.draw.eligible import (
    COUNT,
    LENGTH,
    LISTED,
    START,
    STRETCHES,
    TOTAL,
    Eligibility,
    Frontier,
    TraversalArrays,
    drop_zeros,
    find_windows,
    key_in_tree,
    list_live,
    list_row,
    tree_of,
)
from snapdb.kernels.draw.floyd import draw_ranks, place_ranks, sort_ranks, table_size
from snapdb.kernels.draw.hop import DraftArrays
from snapdb.kernels.draw.scores import FLOYD, PRIORITY
from snapdb.kernels.neighbor_pool.cache import (
    BLOCK_FIELDS,
    HEAD,
    RECORD,
    SPAN,
    TORN,
    VERSION,
    CachedRows,
    NeighborPool,
    find_records,
    is_torn,
    load_pooled,
    take_recorded,
)
from snapdb.kernels.neighbor_pool.rows import (
    PoolRow,
    PoolRule,
    RowShare,
    draw_best,
    draw_row,
    first_from,
    pass_over,
    row_key,
    row_round,
    weigh,
    weight_at,
)
from snapdb.kernels.rng import fold

_Number = int | np.int64


@allocating_kernel
def draw_limited(
    traversal: TraversalArrays,
    eligible: Eligibility,
    pool: NeighborPool,
    frontier: Frontier,
    low: int,
    high: int,
    limit: int,
    draft: DraftArrays,
    edges: int,
) -> tuple[int, int, int, int]:
    """Draw by the pool's rule for each node in frontier[low:high] into the draft, from edge index `edges` on.

    Neighbours must be in 0 ≤ id < limit. Returns the frontier index where it stopped (-1 for damage), the new number of
    edges, and the number of edges and the row length for which the draft needs room to continue.
    """
    rule, spans, windows = pool.rule, draft.spans, draft.windows
    block, who = np.empty((BLOCK, BLOCK_FIELDS), np.int64), np.empty(BLOCK, np.int64)
    listed = Frontier(who, np.empty(BLOCK if frontier.trees.size > 0 else 0, np.int64))
    row = PoolRow(
        np.empty(rule.size, np.int64),
        np.empty(rule.size, np.int64),
        np.empty(rule.size, np.int64),
        np.empty(table_size(rule.size), np.int64),
        np.zeros(2, np.float64),
    )
    limits = eligible.bounds.high.size + eligible.excluded.neighbor.size
    enough = rule.method == PRIORITY and rule.pooled == rule.fanout and limits == 0
    first = low
    while first < high:
        last, begin = min(first + BLOCK, high), edges
        find_records(pool.keys, pool.cached, frontier.nodes, first, last, high, block)
        count = _list_uncached(pool, enough, frontier, first, last, block, listed)
        if not find_windows(traversal, eligible, listed, 0, count, count, spans, windows):
            return -1, edges, 0, 0
        room, longest = _needed(windows, spans, count, rule)
        room += (last - first - count) * rule.fanout
        if edges + room > draft.positions.size or longest > draft.candidates.places.size:
            return first, edges, edges + room, longest
        i = first
        while i < last and edges >= 0:  # each kind of row has its own loop, so rows of the same kind are drawn in runs
            i, edges = _draw_recorded(traversal, pool, frontier.nodes, first, i, last, block, limit, draft, edges)
            if edges >= 0 and i < last:
                i, edges = _draw_uncached(traversal, eligible, pool, frontier, first, i, last, block, draft, row, edges)
        # A writer overtook this reader, so redraw the whole block, because its other records may also be newer.
        if edges == TORN:
            edges = begin
            continue
        if edges < 0 or not load_pooled(traversal.rows, pool.copies, frontier.nodes, draft, begin, edges, limit):
            return -1, edges, 0, 0
        first = last
    return high, edges, 0, 0


@kernel
def _list_uncached(
    pool: NeighborPool, enough: bool, frontier: Frontier, first: int, last: int, block: Int64s, listed: Frontier
) -> int:
    """List the nodes whose record is not enough, and write SPAN for all nodes. Returns the number of listed nodes."""
    records, everything = pool.cached.records, HEAD + 2 * pool.rule.size
    count = 0
    for i in range(first, last):
        record = block[i - first, RECORD]
        if enough and record >= 0 and records[record, everything] >= 0:
            block[i - first, SPAN] = -1
            continue
        block[i - first, SPAN] = count
        listed.nodes[count] = frontier.nodes[i]
        if frontier.trees.size > 0:
            listed.trees[count] = frontier.trees[i]
        count += 1
    return count


@kernel
def _needed(windows: Int64s, spans: Int64s, count: int, rule: PoolRule) -> tuple[int, int]:
    """Return the maximum number of edges that a block of rows can draw, and the length of the longest listed row."""
    room: _Number = np.int64(0)
    longest: _Number = np.int64(0)
    for span in range(count):
        total = windows[span, TOTAL]
        room += min(total, rule.fanout)
        if rule.method == PRIORITY and total > rule.fanout:
            longest = max(longest, spans[span, DEGREE])
        elif windows[span, LISTED] != 0 or rule.skips_zeros:
            longest = max(longest, total)
    return int(room), int(longest)


@kernel
def _draw_recorded(
    traversal: TraversalArrays,
    pool: NeighborPool,
    nodes: Int64s,
    first: int,
    i: int,
    last: int,
    block: Int64s,
    limit: int,
    draft: DraftArrays,
    edges: int,
) -> tuple[int, int]:
    """Draw rows from index i on, only from their records, up to the first row that is listed.

    Returns the index where it stopped, and the new number of edges, -1 for damage, or TORN. Costs O(fanout) per row.
    The probability that an edge in the row has a lower score than the next edge outside it is the edge's weight times
    the next edge's score.
    """
    rule, records, positions = pool.rule, pool.cached.records, draft.positions
    size, picks = rule.size, rule.fanout
    inside = np.float64(picks) / np.float64(size)
    while i < last and block[i - first, SPAN] < 0:
        record, begin = block[i - first, RECORD], edges
        edges += picks
        draw_ranks(
            FLOYD, fold(rule.pick, np.uint64(nodes[i])), 0, size, picks, traversal.rows.indices, positions, begin
        )
        sound = take_recorded(records, record, size, limit, draft, begin, edges)
        bound = pool.cached.scores[record, 1]
        if is_torn(records, record, block[i - first, VERSION]):
            return i, TORN
        if not sound:
            return i, -1
        for e in range(begin, edges):
            draft.row_nodes[e] = i
            chance = min(1.0, (weight_at(traversal, positions[e]) * bound) * 2.0**-32)
            draft.weights[e] = 1.0 / (chance * inside)
        i += 1
    return i, edges


# Rows that are drawn one by one, because a record is not enough. The pool row is read or drawn, at O(size), or
# O(degree) under PRIORITY. Its eligible edges are found by a merge with the list of eligible edges, or by comparing
# each edge with the row's four ranges. The pool's part of the fanout is then drawn from them, and the residual draw
# takes the other edges.
@kernel
def _draw_uncached(
    traversal: TraversalArrays,
    eligible: Eligibility,
    pool: NeighborPool,
    frontier: Frontier,
    first: int,
    i: int,
    last: int,
    block: Int64s,
    draft: DraftArrays,
    row: PoolRow,
    edges: int,
) -> tuple[int, int]:
    """Draw rows from index i up to the first row that is not listed. Returns -1 edges for damage, or TORN."""
    rule, spans, windows, places = pool.rule, draft.spans, draft.windows, draft.candidates.places
    weighted, everything = rule.method == PRIORITY, max(rule.size, rule.above)
    while i < last and block[i - first, SPAN] >= 0:
        span, node, tree, begin = block[i - first, SPAN], frontier.nodes[i], tree_of(frontier, i), edges
        total, record = windows[span, TOTAL], block[i - first, RECORD]
        best: _Number = np.int64(-1)
        next_: _Number = np.int64(-1)
        if windows[span, LISTED] != 0:
            total = np.int64(list_row(traversal, eligible, tree, windows, span, places))
            if total < 0:
                return i, -1
        every = bool(total <= rule.fanout or spans[span, DEGREE] <= everything)
        if not every and record >= 0:
            best, next_ = _read_record(pool.cached, record, weighted, row)
            if is_torn(pool.cached.records, record, block[i - first, VERSION]):
                return i, TORN
        elif not every:
            key = row_key(pool.keys, row_round(pool.keys, node), node)
            row.neighbors[:] = -1
            if weighted:
                best, next_ = draw_best(traversal, key, rule.few, spans, span, draft, row)
            else:
                draw_row(traversal.rows.live, key, spans, span, row)
        if weighted:
            every |= bool(best < 0)
            best = row.positions[best] if best >= 0 else best
            if total > rule.fanout or rule.skips_zeros:
                total = _list_weighted(traversal, eligible, tree, windows, span, places)
                every |= bool(total <= rule.fanout)
        pick = key_in_tree(rule.pick, node, eligible.bounds, tree)
        residual = key_in_tree(rule.residual, node, eligible.bounds, tree)
        edges += min(int(total), rule.fanout)
        held = total if every else _meet(total, span, draft, row)
        picks = total if edges - begin == total else min(np.int64(rule.pooled), held)
        _draw_twice(traversal.rows, pick, residual, every, total, held, picks, span, draft, row, (begin, edges))
        if weighted:
            weigh(rule, traversal, RowShare(total, held, best, next_), row, draft, begin, edges)
        draft.row_nodes[begin:edges] = i
        i += 1
    return i, edges


@kernel
def _read_record(cached: CachedRows, record: _Number, weighted: bool, row: PoolRow) -> tuple[_Number, _Number]:
    """Copy a record to the row. Returns the same as `draw_best`."""
    records, size = cached.records, row.positions.size
    for j in range(size):
        row.positions[j], row.neighbors[j] = records[record, HEAD + j], records[record, HEAD + size + j]
    if not weighted:
        return np.int64(-1), np.int64(-1)
    row.bounds[0], row.bounds[1] = cached.scores[record, 0], cached.scores[record, 1]
    return np.int64(records[record, HEAD + 2 * size]), np.int64(records[record, HEAD + 2 * size + 1])


@kernel
def _list_weighted(
    traversal: TraversalArrays, eligible: Eligibility, tree: _Number, windows: Int64s, span: int, places: Int64s
) -> _Number:
    """List a row's eligible edges with positive weights, mark the row as LISTED, and return the number of edges."""
    if windows[span, LISTED] != 0:
        total = np.int64(list_row(traversal, eligible, tree, windows, span, places))
    else:
        total = np.int64(list_live(traversal.rows.live.words, windows, span, places))
    windows[span, LISTED] = 1
    return drop_zeros(traversal.weights, places, total)


@kernel
def _draw_twice(
    rows: RowArrays,
    pick: np.uint64,
    residual: np.uint64,
    every: bool,
    total: _Number,
    held: _Number,
    picks: _Number,
    span: int,
    draft: DraftArrays,
    row: PoolRow,
    drawn: tuple[int, int],
) -> None:
    """Draw the edges drawn[0] ≤ e < drawn[1], `picks` of them from the row, and the others by the residual draw.

    The `picks` come from the row's `held` eligible edges, or from all eligible edges if `every` is True. The eligible
    edges are the candidates if the row is LISTED, and otherwise the edges in its ranges.
    """
    positions, neighbors, windows, places = draft.positions, draft.neighbors, draft.windows, draft.candidates.places
    (begin, end), listed, chosen = drawn, windows[span, LISTED] != 0, row.chosen
    unread, middle = begin, begin + int(picks)
    draw_ranks(FLOYD, pick, 0, int(held), int(picks), rows.indices, positions, begin)
    if middle < end:
        sort_ranks(positions, begin, int(picks), int(held), row.table, chosen)
        if not every:
            _rank_all(rows.live, total, span, draft, row, picks)
        draw_ranks(FLOYD, residual, 0, int(total - picks), end - middle, rows.indices, positions, middle)
        pass_over(chosen, picks, positions, middle, end)
    if not every:
        unread = middle
        for e in range(begin, middle):
            positions[e], neighbors[e] = row.positions[positions[e]], row.neighbors[positions[e]]
    if listed:
        for e in range(unread, end):
            positions[e] = places[positions[e]]
    else:
        place_ranks(rows.live, windows, span, positions, unread, end)
    for e in range(unread, end):
        prefetch(rows.indices, positions[e])
        neighbors[e] = -1


@kernel
def _meet(total: _Number, span: int, draft: DraftArrays, row: PoolRow) -> _Number:
    """Reduce a pool row to its eligible edges and return their number."""
    if draft.windows[span, LISTED] != 0:
        return _meet_listed(draft.candidates.places, total, row)
    if total < draft.spans[span, DEGREE]:
        return _meet_ranges(draft.windows, span, row)
    return np.int64(row.positions.size)


@kernel
def _meet_listed(places: Int64s, total: _Number, row: PoolRow) -> _Number:
    """Reduce a pool row to the edges in the ascending places[:total] with a merge, and return their number."""
    positions, neighbors = row.positions, row.neighbors
    held: _Number = np.int64(0)
    passed = np.int64(0)
    for j in range(positions.size):
        while passed < total and places[passed] < positions[j]:
            passed += 1
        positions[held], neighbors[held] = positions[j], neighbors[j]
        held += np.int64(passed < total and places[passed] == positions[j])
    return held


@kernel
def _meet_ranges(windows: Int64s, span: _Number, row: PoolRow) -> _Number:
    """Reduce a pool row to the edges in the eligible ranges and return their number."""
    positions, neighbors = row.positions, row.neighbors
    held: _Number = np.int64(0)
    for j in range(positions.size):
        p, inside = positions[j], False
        for w in range(STRETCHES):
            inside |= (p >= windows[span, START + w]) & (p - windows[span, START + w] < windows[span, LENGTH + w])
        positions[held], neighbors[held] = p, neighbors[j]
        held += np.int64(inside)
    return held


@kernel
def _rank_all(live: LiveArrays, total: _Number, span: int, draft: DraftArrays, row: PoolRow, count: _Number) -> None:
    """Replace the indices of a pool row's edges with their ranks among all eligible edges."""
    listed, places, chosen = draft.windows[span, LISTED] != 0, draft.candidates.places, row.chosen
    for j in range(count):
        position = row.positions[chosen[j]]
        if listed:
            chosen[j] = first_from(places, total, position)
        else:
            chosen[j] = _rank_of(live, draft.windows, span, position)


@kernel
def _rank_of(live: LiveArrays, windows: Int64s, span: _Number, position: _Number) -> _Number:
    """Return the rank, among the edges in a row's ranges, of the edge at a position in one of these ranges."""
    words, before = live.words, live.before
    rank: _Number = np.int64(0)
    for w in range(STRETCHES):
        start, length = windows[span, START + w], windows[span, LENGTH + w]
        if position >= start and position - start < length:
            if words.size > 0:
                rank += live_before(words, before, position) - live_before(words, before, start)
            else:
                rank += position - start
            break
        rank += windows[span, COUNT + w]
    return rank

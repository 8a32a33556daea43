"""Draws from pool rows, and from cached copies of whole rows, if a node's edges are all eligible and equally likely.

In this case, ranks alone determine the edges. A node with a pool row draws `pooled` edges of its fanout from the row,
and the remaining ones from its other edges (the residual draw). A node without a pool row draws once, from all of its
edges. Ranks become positions at the end. Positions and neighbours are known at once only if the cache has the row's
record. A block of nodes is drawn, read and relabeled while its data is in the processor's cache. A node with a record
costs the read of that record (2 to 5 cache lines) instead of a random read per edge.

Reference implementation: `serve` in tests/support/oracle/rows.py.
"""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.kernels.adjacency.forms import LiveArrays, RowArrays
from snapdb.kernels.adjacency.spans import BASE_START, BLOCK, DEGREE, FIELDS, is_whole, locate
from snapdb.kernels.compiled import allocating_kernel, kernel, load_first, prefetch
from snapdb.kernels.draw.floyd import (
    SCANNED,
    draw_ranks,
    draw_ranks_sorted,
    floyd_mask,
    floyd_scan,
    sort_ranks,
    table_size,
    take_all,
)
from snapdb.kernels.draw.hop import DraftArrays
from snapdb.kernels.draw.relabel import LocalIds, relabel
from snapdb.kernels.draw.scores import FLOYD
from snapdb.kernels.neighbor_pool.cache import (
    BEGIN,
    BLOCK_FIELDS,
    CACHED_EDGES,
    HEAD,
    HITS,
    MISSES,
    READ_EDGES,
    RECORD,
    SPAN,
    TORN,
    UNREAD,
    VERSION,
    NeighborPool,
    RowCopies,
    find_records,
    is_torn,
    take_recorded,
)
from snapdb.kernels.neighbor_pool.rows import PoolRow, PoolRule, pass_over, place_row, rank_in, row_key, row_round
from snapdb.kernels.rng import fold

_Number = int | np.int64

COPY, ORIGIN = FIELDS, FIELDS + 1
"""Two additional columns of spans. COPY is the number of a row's copy, or -1. ORIGIN is an offset that is added to the
ranks of a row that is a single range: the start of its copy, or its start in the adjacency. It is 0 for other rows."""


@allocating_kernel
def draw_unlimited(
    rows: RowArrays,
    pool: NeighborPool,
    frontier: Int64s,
    low: int,
    high: int,
    local: LocalIds,
    num_nodes: int,
    draft: DraftArrays,
    edges: int,
) -> tuple[int, int, int, int]:
    """Draw by the pool's rule for each node in frontier[low:high] into the draft, from edge index `edges` on.

    If nodes are shared by all seeds, neighbours become local ids. Returns the frontier index where it stopped (-1 for
    damage), the new numbers of edges and nodes, and the number of edges for which the draft needs room to continue.
    """
    rule, block = pool.rule, np.empty((BLOCK + 1, BLOCK_FIELDS), np.int64)
    spans, who = np.empty((BLOCK, FIELDS + 2), np.int64), np.empty(BLOCK, np.int64)
    ids, table = np.empty(rule.size, np.int64), np.empty(table_size(rule.size), np.int64)
    row = PoolRow(np.empty(rule.size, np.int64), ids, ids, table, np.zeros(2, np.float64))
    first = low
    while first < high:
        last, begin = min(first + BLOCK, high), edges
        find_records(pool.keys, pool.cached, frontier, first, last, high, block)
        count = _list_uncached(rows, pool, frontier, first, last, block, who)
        if not locate(rows, who, 0, count, count, spans):
            return -1, edges, num_nodes, 0
        edges = _lay_out(rule.fanout, spans, last - first, block, edges)
        if edges > draft.positions.size:
            return first, begin, num_nodes, edges
        _find_copies(pool.copies, who, count, spans)
        _draw_once(rows, pool, frontier, first, last, spans, block, draft)
        known = _draw_recorded(pool, frontier, first, last, block, local, draft)
        if known >= 0 and count > 0:
            known = _draw_twice(rows, pool, frontier, first, last, spans, block, local, draft, row)
        if known == TORN:  # a writer overtook this reader, so redraw the whole block
            edges = begin
            continue
        if known < 0 or not _load_block(rows, pool.copies, spans, block, last - first, local, draft):
            return -1, edges, num_nodes, 0
        if local.stamps.size > 0:
            num_nodes = relabel(draft.neighbors, begin, edges, local, num_nodes)
        for i in range(first, last):
            for e in range(block[i - first, BEGIN], block[i - first + 1, BEGIN]):
                draft.row_nodes[e] = i
        first = last
    return high, edges, num_nodes, 0


@kernel
def _list_uncached(
    rows: RowArrays, pool: NeighborPool, frontier: Int64s, first: int, last: int, block: Int64s, who: Int64s
) -> int:
    """List nodes whose record is not enough in `who`, and write SPAN for all nodes. Returns the number of listed nodes.

    A record is enough if the whole fanout comes from the row. The bounds of the other nodes' rows are prefetched.
    """
    enough = pool.rule.pooled == pool.rule.fanout
    count = 0
    for i in range(first, last):
        if enough and block[i - first, RECORD] >= 0:
            block[i - first, SPAN] = -1
        else:
            block[i - first, SPAN] = count
            who[count] = frontier[i]
            prefetch(rows.indptr, frontier[i])
            prefetch(pool.copies.places, frontier[i])
            count += 1
    return count


@kernel
def _lay_out(fanout: int, spans: Int64s, count: int, block: Int64s, edges: int) -> int:
    """Write the index of each row's first edge to BEGIN and UNREAD, and return the end of the edges.

    A row that is drawn only from its record has more edges than the fanout, so its number of drawn edges is known
    without its bounds.
    """
    for i in range(count):
        span = block[i, SPAN]
        block[i, BEGIN] = block[i, UNREAD] = edges
        edges += min(int(spans[span, DEGREE]), fanout) if span >= 0 else fanout
    block[count, BEGIN] = edges
    return edges


# Nodes that draw once, from all of their edges if they have no pool row, or from a row whose record is enough. Each
# node costs O(fanout), and edges need no branch on the encoding.
@kernel
def _drawn_once(rule: PoolRule) -> int:
    """Return the degree up to which nodes draw once from all edges, or take all of them."""
    return max(rule.size, rule.above) if rule.pooled == rule.fanout else rule.fanout


@kernel
def _draw_once(
    rows: RowArrays,
    pool: NeighborPool,
    frontier: Int64s,
    first: int,
    last: int,
    spans: Int64s,
    block: Int64s,
    draft: DraftArrays,
) -> None:
    """Draw for the nodes in first ≤ i < last that take all edges, or draw once from all edges."""
    rule, positions, most = pool.rule, draft.positions, _drawn_once(pool.rule)
    for i in range(first, last):
        span, begin = block[i - first, SPAN], block[i - first, BEGIN]
        if span < 0 or spans[span, DEGREE] > most:
            continue
        degree, start = int(spans[span, DEGREE]), int(spans[span, ORIGIN])
        whole = is_whole(spans, span)
        source = pool.copies.neighbors if whole and spans[span, COPY] >= 0 else rows.indices
        if degree <= rule.fanout:
            take_all(start, degree, degree, source, positions, begin)
        else:
            key = fold(rule.pick, np.uint64(frontier[i]))
            _draw_floyd(key, start, degree, rule.fanout, source, positions, begin)
        if not whole:
            place_row(rows.live, spans, span, positions, begin, block[i - first + 1, BEGIN])


@kernel
def _draw_floyd(key: np.uint64, start: int, total: int, k: int, indices: Array, positions: Int64s, begin: int) -> None:
    """Draw k of `total` ≥ k numbers from `start` on by Floyd's algorithm."""
    if k < total <= 64:
        floyd_mask(key, start, total, k, indices, positions, begin)
    elif k < total and k <= SCANNED:
        floyd_scan(key, start, total, k, indices, positions, begin)
    else:
        draw_ranks(FLOYD, key, start, total, k, indices, positions, begin)


@kernel
def _draw_recorded(
    pool: NeighborPool, frontier: Int64s, first: int, last: int, block: Int64s, local: LocalIds, draft: DraftArrays
) -> int:
    """Draw for nodes whose record is enough. Returns 0, -1 for damage, or TORN."""
    rule, records = pool.rule, pool.cached.records
    fanout, size = rule.fanout, rule.size
    sound: bool | np.bool_ = True
    for i in range(first, last):
        if block[i - first, SPAN] >= 0:
            continue
        record, begin = block[i - first, RECORD], block[i - first, BEGIN]
        block[i - first, UNREAD] = begin + fanout
        _draw_floyd(fold(rule.pick, np.uint64(frontier[i])), 0, size, fanout, records, draft.positions, begin)
        sound &= take_recorded(records, record, size, local.node_count, draft, begin, begin + fanout)
        for e in range(begin, begin + fanout):
            prefetch(local.stamps, draft.neighbors[e])
        if is_torn(records, record, block[i - first, VERSION]):
            return TORN
    return 0 if sound else -1


# Nodes that draw twice: `pooled` edges from their row, and the residual edges from their other edges. The row is read
# from its record, or drawn at this point in O(size). The ranks of the row's edges are needed only for the residual
# draw.
@kernel
def _draw_twice(  # noqa: PLR0912 -- one loop over the rows, whose cases share what they know
    rows: RowArrays,
    pool: NeighborPool,
    frontier: Int64s,
    first: int,
    last: int,
    spans: Int64s,
    block: Int64s,
    local: LocalIds,
    draft: DraftArrays,
    row: PoolRow,
) -> int:
    """Draw for the listed nodes with a pool row. Returns 0, -1 for damage, or TORN."""
    rule, records, positions = pool.rule, pool.cached.records, draft.positions
    pooled, size, once, everything = rule.pooled, rule.size, _drawn_once(rule), max(rule.size, rule.above)
    drawn, chosen, indices = row.positions, row.chosen, rows.indices
    sound: bool | np.bool_ = True
    for i in range(first, last):
        span, record = block[i - first, SPAN], block[i - first, RECORD]
        begin, end = block[i - first, BEGIN], block[i - first + 1, BEGIN]
        if span < 0 or spans[span, DEGREE] <= once:
            continue
        degree = int(spans[span, DEGREE])
        node, middle, every = frontier[i], begin + pooled, degree <= everything
        among, unread = degree if every else size, begin
        recorded, whole = record >= 0 and not every, is_whole(spans, span)
        _draw_floyd(fold(rule.pick, np.uint64(node)), 0, among, pooled, indices, positions, begin)
        if not (every or recorded):
            key = row_key(pool.keys, row_round(pool.keys, node), node)
            draw_ranks_sorted(key, degree, size, row.table, drawn)
        if middle < end:
            sort_ranks(positions, begin, pooled, among, row.table, chosen)
            if recorded and whole:
                for j in range(pooled):
                    chosen[j] = np.int64(records[record, HEAD + chosen[j]]) - spans[span, BASE_START]
            elif recorded:
                sound &= _rank_recorded(rows.live, spans, span, records, record, pooled, chosen)
            elif not every:
                for j in range(pooled):
                    chosen[j] = drawn[chosen[j]]
            key = fold(rule.residual, np.uint64(node))
            _draw_floyd(key, 0, degree - pooled, end - middle, indices, positions, middle)
            pass_over(chosen, pooled, positions, middle, end)
        if recorded:
            unread = middle
            sound &= take_recorded(records, record, size, local.node_count, draft, begin, middle)
            for e in range(begin, middle):
                prefetch(local.stamps, draft.neighbors[e])
            if is_torn(records, record, block[i - first, VERSION]):
                return TORN
        elif not every:
            for e in range(begin, middle):
                positions[e] = drawn[positions[e]]
        block[i - first, UNREAD] = unread
        if not whole and unread < end:
            place_row(rows.live, spans, span, positions, unread, end)
        origin = spans[span, ORIGIN]
        source = pool.copies.neighbors if whole and spans[span, COPY] >= 0 else indices
        for e in range(unread, end):
            positions[e] += origin
            prefetch(source, positions[e])
    return 0 if sound else -1


@kernel
def _rank_recorded(
    live: LiveArrays, spans: Int64s, span: int, records: Array, record: _Number, count: int, chosen: Int64s
) -> bool:
    """Replace a record's edge indices with ranks in the whole row. Returns whether all of the edges are in the row."""
    inside: bool | np.bool_ = True
    for j in range(count):
        rank = rank_in(live, spans, span, np.int64(records[record, HEAD + chosen[j]]))
        inside &= rank >= 0
        chosen[j] = rank
    return bool(inside)


# The neighbours of a block of rows, from cached copies of whole rows, or otherwise from the adjacency. Positions in a
# copy are used directly, and are converted to physical positions only after the neighbour has been read.
@kernel
def _find_copies(copies: RowCopies, nodes: Int64s, count: int, spans: Int64s) -> None:
    """Write COPY and ORIGIN of the located rows."""
    for span in range(count):
        spans[span, COPY], spans[span, ORIGIN] = -1, spans[span, BASE_START] if is_whole(spans, span) else 0
    if copies.places.size == 0:
        return
    for span in range(count):
        copy = np.int64(load_first(copies.places, nodes[span]))
        spans[span, COPY] = copy
        prefetch(copies.shifts, 2 * max(copy, np.int64(0)))
    for span in range(count):
        if is_whole(spans, span) and spans[span, COPY] >= 0:
            spans[span, ORIGIN] -= copies.shifts[spans[span, COPY], 0]


@kernel
def _load_block(
    rows: RowArrays, copies: RowCopies, spans: Int64s, block: Int64s, count: int, local: LocalIds, draft: DraftArrays
) -> bool:
    """Read the ids from UNREAD to the end of each row, and convert positions in copies to physical positions.

    Returns whether all ids are in 0 ≤ id < node_count. Adds to the counts of hits, misses and edges.
    """
    indices, tail, copied, stamps, limit = (
        rows.indices,
        rows.delta.indices,
        copies.neighbors,
        local.stamps,
        local.node_count,
    )
    positions, neighbors, counts = draft.positions, draft.neighbors, draft.reads
    held, seen, hits, read = indices.size, 0, 0, np.int64(0)
    outside: bool | np.bool_ = False
    for i in range(count):
        begin, end, span = block[i, UNREAD], block[i + 1, BEGIN], block[i, SPAN]
        copy = spans[span, COPY] if span >= 0 else np.int64(-1)
        seen += int(block[i, BEGIN] < end)
        hits += int(block[i, BEGIN] < begin or (copy >= 0 and begin < end))
        if begin == end:
            continue
        if copy < 0:
            read += end - begin
            for e in range(begin, end):
                p = positions[e]
                node = np.int64(indices[p]) if p < held else np.int64(tail[p - held])
                outside |= (node < 0) | (node >= limit)
                prefetch(stamps, node)
                neighbors[e] = node
            continue
        first, second = copies.shifts[copy, 0], copies.shifts[copy, 1]
        whole = is_whole(spans, span)
        for e in range(begin, end):
            p = positions[e]
            p += first if whole else np.int64(0)
            node = np.int64(copied[p - (second if p >= held else first)])
            outside |= (node < 0) | (node >= limit)
            prefetch(stamps, node)
            positions[e], neighbors[e] = p, node
    counts[HITS] += hits
    counts[MISSES] += seen - hits
    counts[CACHED_EDGES] += block[count, BEGIN] - block[0, BEGIN] - read
    counts[READ_EDGES] += read
    return not outside

"""Draws from rows that serve many batches where all edges of a node are eligible, and equally likely.

Then ranks decide alone: which of its row's edges a node takes, and which others besides. They become positions in the
end; only where a cache holds the row are positions, and neighbours, known at once. A block of nodes is drawn, read and
renumbered while all that belongs to it is in the processor's cache.
"""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Array, Int32s, Int64s, UInt64s
from snapdb.kernels.adjacency.forms import RowArrays
from snapdb.kernels.adjacency.spans import BLOCK, DEGREE, FIELDS, FIRST, KEPT, REST, locate
from snapdb.kernels.compiled import allocating_kernel, kernel
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
from snapdb.kernels.draw.scores import FLOYD
from snapdb.kernels.draw.uniform import number
from snapdb.kernels.intrinsics import load_first, prefetch
from snapdb.kernels.neighbor_pool.cache import (
    BASE_EDGES,
    HEAD,
    HITS,
    KEPT_EDGES,
    MISSES,
    TORN,
    BaseRows,
    CachedRows,
    find_records,
    is_torn,
    take_recorded,
)
from snapdb.kernels.neighbor_pool.rows import (
    KeptRule,
    RowKeys,
    RowParts,
    pass_over,
    place_row,
    rank_in,
    row_key,
    row_parts,
    row_round,
)
from snapdb.kernels.rng import fold

_Number = int | np.int64


@allocating_kernel
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
    nodes: Int64s,
    met: int,
    stamps: Int32s,
    stamp: int,
    positions: Int64s,
    sides: Int64s,
    neighbours: Int64s,
    edges: int,
    counts: Int64s,
) -> tuple[int, int, int, int]:
    """Draws as the rule says for each of frontier[low:high], from edge number `edges` on.

    Neighbours are 0 ≤ id < limit. Where there are stamps they become local ids, by `number`, of `met` nodes so far.
    Returns where in the frontier it stopped (-1: damaged), how many edges and nodes there are then, and for how many
    edges it needs room to go on.
    """
    indices, tail, words, before = rows.indices, rows.patch.indices, rows.live.words, rows.live.before
    records, parts, rounds, alone = cached.records, row_parts(keys), keys.rounds, rule.kept == rule.fanout
    shifts, copies = base.shifts, base.neighbours
    found, spans = np.empty((BLOCK, 2), np.int64), np.empty((BLOCK, FIELDS), np.int64)
    apart, who, origins = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty((BLOCK, 2), np.int64)
    starts, placed = np.empty(BLOCK + 1, np.int64), np.empty(BLOCK, np.int64)
    row, chosen = np.empty(rule.size, np.int64), np.empty(rule.size, np.int64)
    table = np.empty(table_size(rule.size), np.int64)
    first = low
    while first < high:
        last, begin = min(first + BLOCK, high), edges
        find_records(keys, cached, frontier, first, last, high, found)
        count = _set_apart(alone, rows.indptr, base.places, frontier, first, last, found, apart, who)
        if not locate(rows, who, 0, count, count, spans):
            return -1, edges, met, 0
        room = edges
        for i in range(last - first):
            room += min(int(spans[apart[i], DEGREE]), rule.fanout) if apart[i] >= 0 else rule.fanout
        if room > sides.size:
            return first, edges, met, room
        _find_copies(base.places, shifts, who, count, spans, origins)
        edges = _lay_out(rule.fanout, spans, first, last, apart, sides, edges, starts, placed)
        _draw_whole(
            rule, indices, copies, words, before, spans, origins, frontier, first, last, apart, starts, positions
        )
        known = _draw_recorded(
            rule, records, frontier, first, last, found, apart, starts, placed, positions, neighbours, limit, stamps
        )
        if known >= 0 and count > 0:
            more = _draw_kept(
                rule,
                parts,
                rounds,
                records,
                indices,
                copies,
                words,
                before,
                spans,
                origins,
                frontier,
                first,
                last,
                found,
                apart,
                starts,
                placed,
                positions,
                neighbours,
                limit,
                stamps,
                row,
                chosen,
                table,
            )
            known = known + more if more >= 0 else more
        if known == TORN:  # all over again
            edges = begin
            continue
        if known < 0 or not _load_block(
            indices,
            tail,
            copies,
            shifts,
            spans,
            origins,
            apart,
            placed,
            starts,
            last - first,
            limit,
            stamps,
            positions,
            neighbours,
            counts,
        ):
            return -1, edges, met, 0
        if stamps.size > 0:
            met = number(neighbours, begin, edges, nodes, met, stamps, stamp)
        first = last
    return high, edges, met, 0


@kernel
def _set_apart(
    alone: bool,
    indptr: Int64s,
    copied: Int32s,
    frontier: Int64s,
    first: int,
    last: int,
    found: Int64s,
    apart: Int64s,
    who: Int64s,
) -> int:
    """Lists in `who` the nodes for which no record is enough, and where each is there in `apart`; how many they are.

    Where their rows, and copies of them, lie is asked for.
    """
    count = 0
    for i in range(first, last):
        if alone and found[i - first, 0] >= 0:
            apart[i - first] = -1
        else:
            apart[i - first] = count
            who[count] = frontier[i]
            prefetch(indptr, frontier[i])
            prefetch(copied, frontier[i])
            count += 1
    return count


@kernel
def _lay_out(
    fanout: int,
    spans: Int64s,
    first: int,
    last: int,
    apart: Int64s,
    sides: Int64s,
    edges: int,
    starts: Int64s,
    placed: Int64s,
) -> int:
    """Writes where the edges of each row begin to `starts`, and for whom they are to `sides`; returns where they end.

    No neighbour is known yet: `placed` says how far. A row that is not set apart has more edges than are asked for.
    """
    for i in range(first, last):
        span, begin = apart[i - first], edges
        starts[i - first] = placed[i - first] = begin
        edges += min(int(spans[span, DEGREE]), fanout) if span >= 0 else fanout
        for e in range(begin, edges):
            sides[e] = i
    starts[last - first] = edges
    return edges


@kernel
def _draw_kept(  # noqa: PLR0912 -- calls cost more than the cases
    rule: KeptRule,
    parts: RowParts,
    rounds: Int32s,
    records: Array,
    indices: Array,
    copies: Array,
    words: UInt64s,
    before: Int64s,
    spans: Int64s,
    origins: Int64s,
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
    row: Int64s,
    chosen: Int64s,
    table: Int64s,
) -> int:
    """Draws for the others, from their rows and besides; returns how many rows were read; -1: damaged, or TORN."""
    kept, size, most, everything, known = rule.kept, rule.size, _drawn_once(rule), max(rule.size, rule.above), 0
    sound: bool | np.bool_ = True
    for i in range(first, last):
        span, record, begin, end = apart[i - first], found[i - first, 0], starts[i - first], starts[i - first + 1]
        if span < 0 or spans[span, DEGREE] <= most:
            continue
        degree = int(spans[span, DEGREE])
        node, middle, every = frontier[i], begin + kept, degree <= everything
        among, loaded = degree if every else size, begin
        recorded, whole = record >= 0 and not every, spans[span, KEPT] == degree and spans[span, REST] == 0
        _draw_floyd(fold(rule.pick, np.uint64(node)), 0, among, kept, indices, positions, begin)
        if not (every or recorded):
            draw_ranks_sorted(row_key(parts, row_round(parts, rounds, node), node), degree, size, table, row)
        if middle < end:
            sort_ranks(positions, begin, kept, among, table, chosen)
            if recorded and whole:
                for j in range(kept):
                    chosen[j] = np.int64(records[record, HEAD + chosen[j]]) - spans[span, FIRST]
            elif recorded:
                sound &= _rank_recorded(words, before, spans, span, records, record, kept, chosen)
            elif not every:
                for j in range(kept):
                    chosen[j] = row[chosen[j]]
            _draw_floyd(fold(rule.fresh, np.uint64(node)), 0, degree - kept, end - middle, indices, positions, middle)
            pass_over(chosen, kept, positions, middle, end)
        if recorded:
            loaded = middle
            known += 1
            sound &= take_recorded(records, record, size, limit, positions, neighbours, begin, middle)
            for e in range(begin, middle):
                prefetch(stamps, neighbours[e])
            if is_torn(records, record, found[i - first, 1]):
                return TORN
        elif not every:
            for e in range(begin, middle):
                positions[e] = row[positions[e]]
        placed[i - first] = loaded
        if not whole and loaded < end:
            place_row(words, before, spans, span, positions, loaded, end)
        start = origins[span, 1]
        if whole and origins[span, 0] >= 0:
            for e in range(loaded, end):
                positions[e] += start
                prefetch(copies, positions[e])
        else:
            for e in range(loaded, end):
                positions[e] += start
                prefetch(indices, positions[e])
    return known if sound else -1


@kernel
def _rank_recorded(
    words: UInt64s,
    before: Int64s,
    spans: Int64s,
    span: int,
    records: Array,
    record: _Number,
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


# Draws for nodes who draw once: from all of their edges, which then have no row, or from a row of the cache alone


@kernel
def _draw_whole(
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
    pick, fanout, most = rule.pick, rule.fanout, _drawn_once(rule)
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


@kernel
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
        _draw_floyd(fold(pick, np.uint64(node)), start, degree, fanout, indices, positions, begin)


@kernel
def _draw_floyd(key: np.uint64, start: int, total: int, k: int, indices: Array, positions: Int64s, begin: int) -> None:
    """Floyd's k of `total` numbers from `start` on, no fewer than k."""
    if k < total <= 64:
        floyd_mask(key, start, total, k, indices, positions, begin)
    elif k < total and k <= SCANNED:
        floyd_scan(key, start, total, k, indices, positions, begin)
    else:
        draw_ranks(FLOYD, key, start, total, k, indices, positions, begin)


@kernel
def _draw_recorded(
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
        _draw_floyd(fold(pick, np.uint64(frontier[i])), 0, size, fanout, records, positions, begin)
        sound &= take_recorded(records, record, size, limit, positions, neighbours, begin, begin + fanout)
        for e in range(begin, begin + fanout):
            prefetch(stamps, neighbours[e])
        if is_torn(records, record, found[i - first, 1]):
            return TORN
    return known if sound else -1


@kernel
def _drawn_once(rule: KeptRule) -> int:
    """Nodes that have no more edges than this draw once from all of them, or take all."""
    return max(rule.size, rule.above) if rule.kept == rule.fanout else rule.fanout


# Neighbours of a block of rows: from copies of whole rows that a cache keeps, else from the adjacency


@kernel
def _find_copies(places: Int32s, shifts: Int64s, nodes: Int64s, count: int, spans: Int64s, origins: Int64s) -> None:
    """Writes to `origins` the number of each located row's copy, -1 where it has none, and what ranks are added to.

    Of a row in one piece that is where its copy begins, or its place in the adjacency; else 0.
    """
    for span in range(count):
        whole = spans[span, KEPT] == spans[span, DEGREE] and spans[span, REST] == 0
        origins[span, 0], origins[span, 1] = -1, spans[span, FIRST] if whole else 0
    if places.size == 0:
        return
    for span in range(count):
        copy = np.int64(load_first(places, nodes[span]))
        origins[span, 0] = copy
        prefetch(shifts, 2 * max(copy, np.int64(0)))
    for span in range(count):
        whole = spans[span, KEPT] == spans[span, DEGREE] and spans[span, REST] == 0
        if whole and origins[span, 0] >= 0:
            origins[span, 1] -= shifts[origins[span, 0], 0]


@kernel
def _load_block(
    indices: Array,
    tail: Array,
    copies: Array,
    shifts: Int64s,
    spans: Int64s,
    origins: Int64s,
    apart: Int64s,
    placed: Int64s,
    starts: Int64s,
    count: int,
    limit: int,
    stamps: Int32s,
    positions: Int64s,
    neighbours: Int64s,
    counts: Int64s,
) -> bool:
    """Reads the ids from placed[i] on up to the end of each row, and makes positions in copies physical.

    Returns whether all are 0 ≤ id < limit; what is read of each row, and was before, is counted.
    """
    held, rows, hits, read = indices.size, 0, 0, np.int64(0)
    outside: bool | np.bool_ = False
    for i in range(count):
        begin, end, span = placed[i], starts[i + 1], apart[i]
        copy = origins[span, 0] if span >= 0 else np.int64(-1)
        rows += int(starts[i] < end)
        hits += int(starts[i] < begin or (copy >= 0 and begin < end))
        if begin == end:
            continue
        if copy < 0:
            read += end - begin
            for e in range(begin, end):
                p = positions[e]
                node = np.int64(indices[p]) if p < held else np.int64(tail[p - held])
                outside |= (node < 0) | (node >= limit)
                prefetch(stamps, node)
                neighbours[e] = node
            continue
        first, second = shifts[copy, 0], shifts[copy, 1]
        whole = spans[span, KEPT] == spans[span, DEGREE] and spans[span, REST] == 0
        for e in range(begin, end):
            p = positions[e]
            p += first if whole else np.int64(0)
            node = np.int64(copies[p - (second if p >= held else first)])
            outside |= (node < 0) | (node >= limit)
            prefetch(stamps, node)
            positions[e], neighbours[e] = p, node
    counts[HITS] += hits
    counts[MISSES] += rows - hits
    counts[KEPT_EDGES] += starts[count] - starts[0] - read
    counts[BASE_EDGES] += read
    return not outside

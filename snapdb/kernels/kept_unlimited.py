"""Draws from rows that serve many batches where all edges of a node are eligible, and equally likely.

Then ranks decide alone: which of its row's edges a node takes, and which others besides. They become positions in the
end; only where a cache holds the row are positions, and neighbours, known at once. A block of nodes is drawn, read and
renumbered while all that belongs to it is in the processor's cache.
"""

import numpy as np

from snapdb.arrays import Array, Int32s, Int64s, UInt64s
from snapdb.kernels.compiled import kernel
from snapdb.kernels.drawn_rows import RowKeys, RowParts, place_row, rank_in, row_key, row_parts, row_round
from snapdb.kernels.forms import RowArrays
from snapdb.kernels.intrinsics import prefetch
from snapdb.kernels.kept_once import draw_floyd, draw_recorded, draw_whole, drawn_once
from snapdb.kernels.kept_rule import KeptRule, pass_over
from snapdb.kernels.rng import fold
from snapdb.kernels.row_cache import HEAD, TORN, BaseRows, CachedRows, find_records, is_torn, take_recorded
from snapdb.kernels.row_copies import find_copies, load_block
from snapdb.kernels.sample import number
from snapdb.kernels.sorted_ranks import draw_ranks_sorted, sort_ranks, table_size
from snapdb.kernels.spans import BLOCK, DEGREE, FIELDS, FIRST, KEPT, REST, locate

_Number = int | np.int64


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
        find_copies(base.places, shifts, who, count, spans, origins)
        edges = _lay_out(rule.fanout, spans, first, last, apart, sides, edges, starts, placed)
        draw_whole(
            rule, indices, copies, words, before, spans, origins, frontier, first, last, apart, starts, positions
        )
        known = draw_recorded(
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
        if known < 0 or not load_block(
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
    kept, size, most, everything, known = rule.kept, rule.size, drawn_once(rule), max(rule.size, rule.above), 0
    sound: bool | np.bool_ = True
    for i in range(first, last):
        span, record, begin, end = apart[i - first], found[i - first, 0], starts[i - first], starts[i - first + 1]
        if span < 0 or spans[span, DEGREE] <= most:
            continue
        degree = int(spans[span, DEGREE])
        node, middle, every = frontier[i], begin + kept, degree <= everything
        among, loaded = degree if every else size, begin
        recorded, whole = record >= 0 and not every, spans[span, KEPT] == degree and spans[span, REST] == 0
        draw_floyd(fold(rule.pick, np.uint64(node)), 0, among, kept, indices, positions, begin)
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
            draw_floyd(fold(rule.fresh, np.uint64(node)), 0, degree - kept, end - middle, indices, positions, middle)
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

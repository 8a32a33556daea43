"""Copies of rows that batches find by node: drawn rows, each of some round, and whole rows of the adjacency.

They are read while a thread of the cache writes them. What is delivered is the same with them and without: whoever
finds no row, a row of another round, or one that is being written, draws it anew or reads the adjacency.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Float64s, Int32s, Int64s
from snapdb.kernels.adjacency.forms import RowArrays
from snapdb.kernels.adjacency.spans import AHEAD, BLOCK, DEGREE, FIELDS, FIRST, KEPT, REST, SECOND, locate, locate_range
from snapdb.kernels.compiled import allocating_kernel, kernel
from snapdb.kernels.draw.eligible import WalkArrays, value_at
from snapdb.kernels.draw.floyd import draw_ranks_sorted, table_size
from snapdb.kernels.draw.hop import DraftArrays
from snapdb.kernels.draw.scores import PRIORITY
from snapdb.kernels.intrinsics import fence_loads, fence_stores, load_first, prefetch, store_last
from snapdb.kernels.neighbor_pool.rows import RowKeys, draw_best, place_row, row_key, row_parts, row_round

_Number = int | np.int64

SEQUENCE, TAG, HEAD = 0, 1, 2
"""Of a record: a number that is odd while the rest is written and that every writing makes greater; its round + 1, 0
where it was never written; the first position."""
TORN = -2
"""Stands for a number of edges where a record was written to while it was read."""
_LINE = 64
"""Bytes that come into the cache together."""
HITS, MISSES, KEPT_EDGES, BASE_EDGES = range(4)
"""What is counted: rows of which some edge came from the cache, other rows, edges from the cache, and from the base."""


class CachedRows(NamedTuple):
    """Drawn rows of one relation, one slot and one size."""

    places: Int32s
    """[nodes] the number of a node's record, -1: it has none. Set before batches see the rows; empty: no records."""
    records: Array
    """[rows, width] int32, or int64 where positions or nodes do not fit: SEQUENCE, TAG, then `size` positions that
    ascend, `size` neighbours, and under PRIORITY which of the row has the greatest score (-1: the row is everything)
    and the position of the edge that came next."""
    scores: Float64s
    """[rows, 2] under PRIORITY: the greatest score in the row, and that of the edge that came next; else [0, 2]."""


class BaseRows(NamedTuple):
    """Neighbours of whole physical rows, dead positions included."""

    places: Int32s
    """[nodes] the number of a node's row, -1: it has none (yet). Set last of all; empty: no rows."""
    shifts: Int64s
    """[rows, 2] what is taken from a physical position of the root, or of the patch, to find it in `neighbours`."""
    neighbours: Array
    """Of the type of the adjacency's indices."""


def record_width(size: int, weighted: bool) -> int:
    """How many numbers the record of a row of `size` edges has, under PRIORITY where `weighted`."""
    return HEAD + 2 * size + (2 if weighted else 0)


@kernel
def find_records(
    keys: RowKeys, cached: CachedRows, frontier: Int64s, first: int, last: int, ahead: int, found: Int64s
) -> None:
    """Writes to found[i] the record of frontier[first + i], or -1 where none is of the wanted round, and its SEQUENCE.

    Nodes up to frontier[ahead - 1] are asked for ahead of their time.
    """
    places, records = cached.places, cached.records
    parts, rounds = row_parts(keys), keys.rounds
    width, line = records.shape[1], _LINE // records.itemsize
    if places.size == 0:
        found[: last - first, 0] = -1
        return
    for i in range(first, last):
        prefetch(places, frontier[min(i + AHEAD, ahead - 1)])
        record = np.int64(places[frontier[i]]) if frontier[i] < places.size else np.int64(-1)
        found[i - first, 0] = record
        if record >= 0:
            for part in range(record * width, (record + 1) * width, line):
                prefetch(records, part)
    for i in range(first, last):
        record = found[i - first, 0]
        if record < 0:
            continue
        sequence = np.int64(load_first(records, record * width + SEQUENCE))
        tag = np.int64(records[record, TAG])
        found[i - first, 1] = sequence
        if sequence & 1 or tag != row_round(parts, rounds, frontier[i]) + 1:
            found[i - first, 0] = -1


@kernel
def is_torn(records: Array, record: _Number, sequence: _Number) -> bool:
    """Whether a record may have been written to since its SEQUENCE was this, so that what was read of it is void."""
    fence_loads()
    return bool(load_first(records, record * records.shape[1] + SEQUENCE) != sequence)


@kernel
def take_recorded(
    records: Array, record: _Number, size: int, limit: int, positions: Int64s, neighbours: Int64s, begin: int, end: int
) -> bool:
    """Turns numbers of a record's edges into their positions and neighbours; whether those are 0 ≤ id < limit."""
    outside: bool | np.bool_ = False
    for e in range(begin, end):
        place = HEAD + positions[e]
        neighbour = np.int64(records[record, place + size])
        outside |= (neighbour < 0) | (neighbour >= limit)
        positions[e], neighbours[e] = records[record, place], neighbour
    return not outside


@kernel
def load_kept(
    indices: Array,
    tail: Array,
    base: BaseRows,
    frontier: Int64s,
    sides: Int64s,
    positions: Int64s,
    begin: int,
    end: int,
    nodes: int,
    neighbours: Int64s,
    counts: Int64s,
) -> bool:
    """Writes the ids at physical positions to neighbours[begin:end] where it is negative; returns whether all are
    0 ≤ id < nodes. They come from the base's copies, or from the adjacency. Edge e is of frontier[sides[e]], and those
    of a row stand together, the ones that are known first.
    """
    known, rows, hits = _count_known(sides, neighbours, begin, end)
    counts[HITS] += hits
    counts[MISSES] += rows - hits
    counts[KEPT_EDGES] += known
    counts[BASE_EDGES] += end - begin - known
    if base.places.size > 0:
        _load_copies(indices.size, base, frontier, sides, positions, begin, end, neighbours, counts)
    return bool(_load_unknown(indices, tail, positions, begin, end, nodes, neighbours))


@allocating_kernel
def _load_copies(
    held: int,
    base: BaseRows,
    frontier: Int64s,
    sides: Int64s,
    positions: Int64s,
    begin: int,
    end: int,
    neighbours: Int64s,
    counts: Int64s,
) -> None:
    """The part of `load_kept` that reads the base's copies; what it finds was counted as read from the adjacency."""
    places, shifts, copies = base.places, base.shifts, base.neighbours
    copied, known, hits = np.empty(BLOCK, np.int64), 0, 0
    for first in range(begin, end, BLOCK):
        last = min(first + BLOCK, end)
        _find_copies(places, shifts, held, frontier, sides, positions, neighbours, first, last, copied)
        for e in range(first, last):
            prefetch(copies, copied[e - first])
        for e in range(first, last):
            if copied[e - first] >= 0:
                neighbours[e] = copies[copied[e - first]]
                known += 1
                hits += int(e == begin or sides[e] != sides[e - 1])  # else a record had the row's first edges
    counts[HITS] += hits
    counts[MISSES] -= hits
    counts[KEPT_EDGES] += known
    counts[BASE_EDGES] -= known


@kernel
def _count_known(sides: Int64s, neighbours: Int64s, begin: int, end: int) -> tuple[_Number, _Number, _Number]:
    """How many neighbours are known, and how many rows there are and how many of which the first one is."""
    known = rows = hits = np.int64(0)
    for e in range(begin, end):
        new = np.int64(e == begin or sides[e] != sides[max(e - 1, begin)])
        here = np.int64(neighbours[e] >= 0)
        known += here
        rows += new
        hits += new & here
    return known, rows, hits


@kernel
def _load_unknown(
    indices: Array, tail: Array, positions: Int64s, begin: int, end: int, nodes: int, neighbours: Int64s
) -> bool:
    """Reads from the adjacency what is still negative; whether all ids are 0 ≤ id < nodes."""
    held = indices.size
    outside: bool | np.bool_ = False
    for e in range(begin, end):
        p, node = positions[e], neighbours[e]
        if node < 0:
            node = np.int64(indices[p]) if p < held else np.int64(tail[p - held])
        outside |= (node < 0) | (node >= nodes)
        neighbours[e] = node
    return not outside


@kernel
def _find_copies(
    places: Int32s,
    shifts: Int64s,
    held: int,
    frontier: Int64s,
    sides: Int64s,
    positions: Int64s,
    neighbours: Int64s,
    first: int,
    last: int,
    copied: Int64s,
) -> None:
    """Writes where the base copies what stands at positions[first:last] to `copied`, -1 where it does not."""
    for e in range(first, last):
        prefetch(places, frontier[sides[e]])
    side, row = np.int64(-1), np.int64(-1)
    for e in range(first, last):
        if neighbours[e] < 0 and sides[e] != side:
            side = sides[e]
            row = np.int64(load_first(places, frontier[side]))
            prefetch(shifts, 2 * max(row, np.int64(0)))
        copied[e - first] = row if neighbours[e] < 0 else np.int64(-1)
    for e in range(first, last):
        row = copied[e - first]
        if row >= 0:
            copied[e - first] = positions[e] - shifts[row, 1 if positions[e] >= held else 0]


# Rows of a cache written: drawn rows of a round, and copies of whole rows, node after node through the adjacency


@allocating_kernel
def fill_rows(
    walk: WalkArrays,
    keys: RowKeys,
    method: int,
    size: int,
    few: int,
    nodes: Int64s,
    low: int,
    high: int,
    cached: CachedRows,
    draft: DraftArrays,
) -> tuple[int, int, int, _Number]:
    """Draws records low ≤ number < high again that are not of the wanted round; record i is of nodes[i].

    `few` is KeptRule's.

    Returns where it stopped (-1: a row leads out of its arrays, or is not longer than `size`), how many rows were
    drawn, how many edges were read for them, and for how long a row the draft needs room to go on.
    """
    words, before = walk.rows.live.words, walk.rows.live.before
    parts, rounds = row_parts(keys), keys.rounds
    indices, tail, records, scores = walk.rows.indices, walk.rows.patch.indices, cached.records, cached.scores
    stale, who = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    row, table, bounds = np.empty(size, np.int64), np.empty(table_size(size), np.int64), np.zeros(2, np.float64)
    spans = draft.spans
    drawn = read = 0
    for first in range(low, high, BLOCK):
        last, count = min(first + BLOCK, high), 0
        for i in range(first, last):
            tag = row_round(parts, rounds, nodes[i]) + 1
            if records[i, TAG] != tag and tag <= np.iinfo(np.int32).max:
                stale[count], who[count] = i, nodes[i]
                count += 1
        if count == 0:
            continue
        if not locate(walk.rows, who, 0, count, count, spans):
            return -1, drawn, read, 0
        longest: _Number = np.int64(0)
        for span in range(count):
            if spans[span, DEGREE] <= size:
                return -1, drawn, read, 0
            longest = max(longest, spans[span, DEGREE])
        if method == PRIORITY and longest > draft.places.size:
            return first, drawn, read, longest
        for span in range(count):
            record, node = stale[span], who[span]
            wanted = row_round(parts, rounds, node)
            key = row_key(parts, wanted, node)
            best = -1
            next_: _Number = np.int64(-1)
            if method == PRIORITY:
                best, next_ = draw_best(
                    walk,
                    key,
                    size,
                    few,
                    spans,
                    span,
                    draft.places,
                    draft.scores,
                    draft.floats,
                    draft.ties,
                    draft.heap,
                    row,
                    bounds,
                )
                read += spans[span, DEGREE]
            else:
                draw_ranks_sorted(key, spans[span, DEGREE], size, table, row)
                place_row(words, before, spans, span, row, 0, size)
                read += size
            _write(indices, tail, row, size, method == PRIORITY, best, next_, bounds, records, scores, record, wanted)
            drawn += 1
    return high, drawn, read, 0


@kernel
def _write(
    indices: Array,
    tail: Array,
    row: Int64s,
    size: int,
    weighted: bool,
    best: int,
    next_: _Number,
    bounds: Float64s,
    records: Array,
    scores: Float64s,
    record: _Number,
    round_: _Number,
) -> None:
    """Writes one record so that no reader takes a part of it for the whole."""
    place = record * records.shape[1] + SEQUENCE
    sequence = records[record, SEQUENCE]
    store_last(records, place, sequence + 1)
    fence_stores()
    records[record, TAG] = round_ + 1
    held = HEAD + size
    if weighted:
        records[record, held + size] = best
        records[record, held + size + 1] = next_
        scores[record, 0], scores[record, 1] = bounds[0], bounds[1]
    if not weighted or best >= 0:
        for j in range(size):
            prefetch(indices, row[j])
            records[record, HEAD + j] = row[j]
        for j in range(size):
            records[record, held + j] = value_at(indices, tail, row[j])
    store_last(records, place, sequence + 2)


@allocating_kernel
def fill_base(rows: RowArrays, nodes: Int64s, starts: Int64s, low: int, high: int, base: BaseRows) -> int:
    """Copies rows low ≤ number < high to where they start in the base; returns how many edges, -1: damaged.

    Row i is of nodes[i]; starts[high] is where the last one ends.
    """
    spans = np.empty((BLOCK, FIELDS), np.int64)
    indices, tail = rows.indices, rows.patch.indices
    places, shifts, copies = base.places, base.shifts, base.neighbours
    edges = np.int64(0)
    for first in range(low, high, BLOCK):
        last = min(first + BLOCK, high)
        if not locate(rows, nodes, first, last, high, spans):
            return -1
        for i in range(first, last):
            start, kept, rest = spans[i - first, FIRST], spans[i - first, KEPT], spans[i - first, REST]
            second, at = spans[i - first, SECOND], starts[i]
            if kept + rest != starts[i + 1] - at or at < 0 or starts[i + 1] > copies.size:
                return -1
            for j in range(kept):
                copies[at + j] = indices[start + j]
            for j in range(rest):
                copies[at + kept + j] = tail[second - indices.size + j]
            shifts[i, 0], shifts[i, 1] = start - at, second - at - kept
            store_last(places, nodes[i], i)
            edges += kept + rest
    return int(edges)


@allocating_kernel
def physical_lengths(rows: RowArrays, lengths: Int64s) -> bool:
    """How many positions each node's row holds, dead ones included; whether all rows are within their arrays."""
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    for low in range(0, rows.nodes, BLOCK):
        count = min(BLOCK, rows.nodes - low)
        if not locate_range(rows, low, count, nodes, spans):
            return False
        for i in range(count):
            lengths[low + i] = spans[i, KEPT] + spans[i, REST]
    return True

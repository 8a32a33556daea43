"""Rows of a cache written: drawn rows of a round, and copies of whole rows, node after node through the adjacency.

Batches read on meanwhile. A record that is being written has an odd SEQUENCE, and its last word is written last; so
whoever finds the same even number before and after has read one row, on any processor.
"""

import numpy as np

from snapdb.arrays import Array, Float64s, Int64s
from snapdb.kernels.choose_listed import DraftArrays
from snapdb.kernels.compiled import kernel
from snapdb.kernels.drawn_rows import RowKeys, draw_best, place_row, row_key, row_parts, row_round
from snapdb.kernels.eligible import WalkArrays, value_at
from snapdb.kernels.forms import RowArrays
from snapdb.kernels.intrinsics import fence_stores, prefetch, store_last
from snapdb.kernels.row_cache import HEAD, SEQUENCE, TAG, BaseRows, CachedRows
from snapdb.kernels.scores import PRIORITY
from snapdb.kernels.sorted_ranks import draw_ranks_sorted, table_size
from snapdb.kernels.spans import BLOCK, DEGREE, FIELDS, FIRST, KEPT, REST, SECOND, locate, locate_range

_Number = int | np.int64


@kernel
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


@kernel
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


@kernel
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

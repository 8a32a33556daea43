"""The neighbour pool cache: records of pool rows, each for one round, and copies of whole adjacency rows.

Batches read the cache without a lock while one of its threads writes it. A record is a seqlock. The writer makes the
record's sequence odd, writes the record, and makes the sequence even. If a reader finds a different sequence after
reading than before, it draws the block of rows again. A copy is published by its number, which is written last. The
cache never changes a batch. On a cache miss (no record, or a record of another round), the row is drawn or read from
the adjacency.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Float64s, Int32s, Int64s
from snapdb.kernels.adjacency.forms import RowArrays, neighbor_at
from snapdb.kernels.adjacency.spans import (
    AHEAD,
    BASE_LEN,
    BASE_START,
    BLOCK,
    DEGREE,
    DELTA_LEN,
    DELTA_START,
    FIELDS,
    locate,
)
from snapdb.kernels.compiled import (
    allocating_kernel,
    fence_loads,
    fence_stores,
    kernel,
    load_first,
    prefetch,
    store_last,
)
from snapdb.kernels.draw.eligible import TraversalArrays
from snapdb.kernels.draw.floyd import table_size
from snapdb.kernels.draw.hop import DraftArrays
from snapdb.kernels.neighbor_pool.rows import PoolRow, PoolRule, RowKeys, draw_best, draw_row, row_key, row_round

_Number = int | np.int64

SEQUENCE, TAG, HEAD = 0, 1, 2
"""The fields of a record: a sequence that every write increases and that is odd during a write, the round + 1 (or 0
before the first write), and the first position."""
TORN = -2
"""Returned instead of a number of edges if a record was written while it was being read."""
_LINE = 64
"""The size of a cache line in bytes."""
HITS, MISSES, CACHED_EDGES, READ_EDGES = range(4)
"""The fields of the counters: cache hits (rows with an edge from the cache), cache misses (other rows), edges read from
the cache, and edges read from the adjacency."""
RECORD, VERSION, SPAN, BEGIN, UNREAD = range(5)
"""The columns of a block, an int64 [BLOCK + 1, BLOCK_FIELDS] with one entry per row. RECORD is the number of the row's
record, or -1. VERSION is the record's sequence when it was found. SPAN is the row's index among the located rows, or -1
if the record is enough. BEGIN is the row's first edge, and UNREAD its first edge whose neighbour is not known yet. The
entry after the last row has the end of the edges as BEGIN."""
BLOCK_FIELDS = 5


class CachedRows(NamedTuple):
    """The cached pool rows of one relation, slot and size."""

    places: Int32s
    """[nodes] The number of a node's record, or -1. Set before batches see the rows. Empty if there are no records."""
    records: Array
    """[rows, width] int32, or int64 if positions or nodes do not fit. The columns are SEQUENCE, TAG, `size` ascending
    positions and `size` neighbours. Under PRIORITY, two more columns contain the row's edge with the greatest score (-1
    if the row has every edge) and the position of the edge outside the row with the lowest score."""
    scores: Float64s
    """[rows, 2] Under PRIORITY, the greatest score in the row and the lowest score outside it. For other methods, the
    shape is [0, 2]."""


class RowCopies(NamedTuple):
    """The neighbours of whole physical rows, including dead positions."""

    places: Int32s
    """[nodes] The number of a node's copy, or -1. This field is written last. Empty if there are no copies."""
    shifts: Int64s
    """[copies, 2] The number to subtract from a physical position in the base, or in the delta, to get a position in
    `neighbors`."""
    neighbors: Array
    """Neighbour ids, with the dtype of the adjacency's indices."""


class NeighborPool(NamedTuple):
    """The neighbour pool of one edge type at one hop: the keys and rule of its rows, and the cached copies of rows."""

    keys: RowKeys
    rule: PoolRule
    cached: CachedRows
    copies: RowCopies


def record_width(size: int, weighted: bool) -> int:
    """Return the number of fields in the record of a row with `size` edges, drawn under PRIORITY if `weighted`."""
    return HEAD + 2 * size + (2 if weighted else 0)


# Records are read in two passes over a block. The first pass reads the records' numbers and prefetches all of their
# lines. The second pass checks their rounds. When rows are drawn, the records are already in the processor's cache.
@kernel
def find_records(
    keys: RowKeys, cached: CachedRows, nodes: Int64s, first: int, last: int, ahead: int, block: Int64s
) -> None:
    """Write RECORD and VERSION for nodes[first:last] to the block.

    RECORD is -1 if there is no record of the wanted round.

    The places of nodes up to nodes[ahead - 1] are prefetched.
    """
    places, records = cached.places, cached.records
    width, line = records.shape[1], _LINE // records.itemsize
    if places.size == 0:
        for i in range(last - first):
            block[i, RECORD] = -1
        return
    for i in range(first, last):
        prefetch(places, nodes[min(i + AHEAD, ahead - 1)])
        record = np.int64(places[nodes[i]]) if nodes[i] < places.size else np.int64(-1)
        block[i - first, RECORD] = record
        if record >= 0:
            for part in range(record * width, (record + 1) * width, line):
                prefetch(records, part)
    for i in range(first, last):
        record = block[i - first, RECORD]
        if record < 0:
            continue
        sequence = np.int64(load_first(records, record * width + SEQUENCE))
        tag = np.int64(records[record, TAG])
        block[i - first, VERSION] = sequence
        if sequence & 1 or tag != row_round(keys, nodes[i]) + 1:
            block[i - first, RECORD] = -1


# The reader's half of the seqlock. An acquire fence ensures that no read of the record moves past the second read of
# its sequence.
@kernel
def is_torn(records: Array, record: _Number, version: _Number) -> bool:
    """Return whether a record may have been written since its SEQUENCE was `version`.

    If so, the values read from it are invalid.
    """
    fence_loads()
    return bool(load_first(records, record * records.shape[1] + SEQUENCE) != version)


@kernel
def take_recorded(
    records: Array, record: _Number, size: int, limit: int, draft: DraftArrays, begin: int, end: int
) -> bool:
    """Replace indices of a record's edges with positions and neighbours.

    Returns whether all ids are in 0 ≤ id < limit.
    """
    positions, neighbors = draft.positions, draft.neighbors
    outside: bool | np.bool_ = False
    for e in range(begin, end):
        place = HEAD + positions[e]
        neighbor = np.int64(records[record, place + size])
        outside |= (neighbor < 0) | (neighbor >= limit)
        positions[e], neighbors[e] = records[record, place], neighbor
    return not outside


# The neighbours of drawn edges are read from records, from copies of whole rows, or otherwise from the adjacency.
@allocating_kernel
def load_pooled(
    rows: RowArrays, copies: RowCopies, frontier: Int64s, draft: DraftArrays, begin: int, end: int, limit: int
) -> bool:
    """Read the ids at positions[begin:end] whose neighbors[begin:end] are negative, and count hits and misses.

    Returns whether all ids are in 0 ≤ id < limit. Edge e belongs to frontier[row_nodes[e]]. A row's edges are adjacent,
    and those with known neighbours come first.
    """
    counts = draft.reads
    known, seen, hits = _count_known(draft, begin, end)
    counts[HITS] += hits
    counts[MISSES] += seen - hits
    counts[CACHED_EDGES] += known
    counts[READ_EDGES] += end - begin - known
    if copies.places.size > 0:
        copied = np.empty(BLOCK, np.int64)
        for first in range(begin, end, BLOCK):
            _load_copies(rows.indices.size, copies, frontier, draft, first, min(first + BLOCK, end), copied)
    return bool(_load_unknown(rows, draft, begin, end, limit))


@kernel
def _load_copies(
    held: int, copies: RowCopies, frontier: Int64s, draft: DraftArrays, first: int, last: int, copied: Int64s
) -> None:
    """Read the neighbours of a block of edges from copies, and count the rows as hits instead of misses."""
    row_nodes, neighbors, counts, known, hits = draft.row_nodes, draft.neighbors, draft.reads, 0, 0
    _find_in_copies(held, copies, frontier, draft, first, last, copied)
    for e in range(first, last):
        prefetch(copies.neighbors, copied[e - first])
    for e in range(first, last):
        if copied[e - first] >= 0:
            fresh = e == 0 or row_nodes[e] != row_nodes[e - 1]
            neighbors[e] = copies.neighbors[copied[e - first]]
            known += 1
            hits += int(fresh)  # if not, the row is already a hit, because its first edges came from a record
    counts[HITS] += hits
    counts[MISSES] -= hits
    counts[CACHED_EDGES] += known
    counts[READ_EDGES] -= known


@kernel
def _count_known(draft: DraftArrays, begin: int, end: int) -> tuple[_Number, _Number, _Number]:
    """Return the numbers of known neighbours, of rows, and of rows whose first neighbour is known."""
    row_nodes = draft.row_nodes
    known = rows = hits = np.int64(0)
    for e in range(begin, end):
        new = np.int64(e == begin or row_nodes[e] != row_nodes[max(e - 1, begin)])
        here = np.int64(draft.neighbors[e] >= 0)
        known += here
        rows += new
        hits += new & here
    return known, rows, hits


@kernel
def _load_unknown(rows: RowArrays, draft: DraftArrays, begin: int, end: int, limit: int) -> bool:
    """Read neighbours that are still negative from the adjacency. Returns whether all ids are in 0 ≤ id < limit."""
    outside: bool | np.bool_ = False
    for e in range(begin, end):
        node = draft.neighbors[e]
        if node < 0:
            node = neighbor_at(rows, draft.positions[e])
        outside |= (node < 0) | (node >= limit)
        draft.neighbors[e] = node
    return not outside


@kernel
def _find_in_copies(
    held: int, copies: RowCopies, frontier: Int64s, draft: DraftArrays, first: int, last: int, copied: Int64s
) -> None:
    """Fill `copied` with the indices of positions[first:last] in the copies, or -1 for edges without a copy."""
    places, shifts, row_nodes, neighbors = copies.places, copies.shifts, draft.row_nodes, draft.neighbors
    for e in range(first, last):
        prefetch(places, frontier[row_nodes[e]])
    row_node, copy = np.int64(-1), np.int64(-1)
    for e in range(first, last):
        if neighbors[e] < 0 and row_nodes[e] != row_node:
            row_node = row_nodes[e]
            copy = np.int64(load_first(places, frontier[row_node]))
            prefetch(shifts, 2 * max(copy, np.int64(0)))
        copied[e - first] = copy if neighbors[e] < 0 else np.int64(-1)
    for e in range(first, last):
        copy = copied[e - first]
        if copy >= 0:
            p = draft.positions[e]
            copied[e - first] = p - shifts[copy, 1 if p >= held else 0]


# Records and copies are written in node order through the adjacency, so that a file is read sequentially. A pass costs
# O(size) per record, or O(degree) under PRIORITY. Records of the wanted round are skipped.
@allocating_kernel
def fill_rows(
    rows: RowArrays,
    traversal: TraversalArrays | None,
    pool: NeighborPool,
    nodes: Int64s,
    low: int,
    high: int,
    draft: DraftArrays,
) -> tuple[int, int, int, _Number]:
    """Redraw the records low ≤ number < high that are not of the wanted round. Record i belongs to nodes[i].

    `traversal` is used only under PRIORITY. Otherwise it is None, so that the draws of PRIORITY are not compiled.

    Returns the index where it stopped (-1 if a row extends beyond its arrays or is not longer than a record), the
    number of rows drawn, the number of edges read for them, and the row length for which the draft needs room to
    continue.
    """
    keys, rule, cached, spans = pool.keys, pool.rule, pool.cached, draft.spans
    size, weighted = rule.size, traversal is not None
    stale, who = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    ids, table = np.empty(size, np.int64), np.empty(table_size(size), np.int64)
    row = PoolRow(np.empty(size, np.int64), ids, ids, table, np.zeros(2, np.float64))
    drawn = read = 0
    for first in range(low, high, BLOCK):
        last = min(first + BLOCK, high)
        count = _list_stale(keys, cached.records, nodes, first, last, stale, who)
        if count == 0:
            continue
        if not locate(rows, who, 0, count, count, spans):
            return -1, drawn, read, 0
        longest: _Number = np.int64(0)
        for span in range(count):
            if spans[span, DEGREE] <= size:
                return -1, drawn, read, 0
            longest = max(longest, spans[span, DEGREE])
        if weighted and longest > draft.candidates.places.size:
            return first, drawn, read, longest
        for span in range(count):
            wanted = row_round(keys, who[span])
            key = row_key(keys, wanted, who[span])
            best = -1
            next_: _Number = np.int64(-1)
            if traversal is not None:
                best, next_ = draw_best(traversal, key, rule.few, spans, span, draft, row)
                read += spans[span, DEGREE]
            else:
                draw_row(rows.live, key, spans, span, row)
                read += size
            _write(rows, row, weighted, best, next_, cached, stale[span], wanted)
            drawn += 1
    return high, drawn, read, 0


@kernel
def _list_stale(keys: RowKeys, records: Array, nodes: Int64s, first: int, last: int, stale: Int64s, who: Int64s) -> int:
    """List the records that are not of the wanted round and their nodes. Returns their number."""
    count = 0
    for i in range(first, last):
        tag = row_round(keys, nodes[i]) + 1
        if records[i, TAG] != tag and tag <= np.iinfo(np.int32).max:
            stale[count], who[count] = i, nodes[i]
            count += 1
    return count


# The writer's half of the seqlock: an odd sequence, a release fence, the data, and the even sequence by a release
# store. Readers never wait, and only one thread writes.
@kernel
def _write(
    rows: RowArrays,
    row: PoolRow,
    weighted: bool,
    best: int,
    next_: _Number,
    cached: CachedRows,
    record: _Number,
    round_: _Number,
) -> None:
    """Write one record under its sequence, so that no reader accepts a partial record."""
    records, scores, size = cached.records, cached.scores, row.positions.size
    place = record * records.shape[1] + SEQUENCE
    sequence = records[record, SEQUENCE]
    store_last(records, place, sequence + 1)
    fence_stores()
    records[record, TAG] = round_ + 1
    held = HEAD + size
    if weighted:
        records[record, held + size] = best
        records[record, held + size + 1] = next_
        scores[record, 0], scores[record, 1] = row.bounds[0], row.bounds[1]
    if not weighted or best >= 0:
        for j in range(size):
            prefetch(rows.indices, row.positions[j])
            records[record, HEAD + j] = row.positions[j]
        for j in range(size):
            records[record, held + j] = neighbor_at(rows, row.positions[j])
    store_last(records, place, sequence + 2)


@allocating_kernel
def fill_copies(rows: RowArrays, nodes: Int64s, starts: Int64s, low: int, high: int, copies: RowCopies) -> int:
    """Copy the rows low ≤ number < high to their starts and return the number of edges, or -1 for damage.

    Row i belongs to nodes[i]. starts[high] is the end of the last row.
    """
    spans = np.empty((BLOCK, FIELDS), np.int64)
    indices, tail, neighbors = rows.indices, rows.delta.indices, copies.neighbors
    edges = np.int64(0)
    for first in range(low, high, BLOCK):
        last = min(first + BLOCK, high)
        if not locate(rows, nodes, first, last, high, spans):
            return -1
        for i in range(first, last):
            start, kept, rest = spans[i - first, BASE_START], spans[i - first, BASE_LEN], spans[i - first, DELTA_LEN]
            second, at = spans[i - first, DELTA_START], starts[i]
            if kept + rest != starts[i + 1] - at or at < 0 or starts[i + 1] > neighbors.size:
                return -1
            for j in range(kept):
                neighbors[at + j] = indices[start + j]
            for j in range(rest):
                neighbors[at + kept + j] = tail[second - indices.size + j]
            copies.shifts[i, 0], copies.shifts[i, 1] = start - at, second - at - kept
            # A release store publishes the copy's number after its edges, so a reader that sees the number also sees
            # the edges.
            store_last(copies.places, nodes[i], i)
            edges += kept + rest
    return int(edges)

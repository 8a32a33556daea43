"""Copies of rows that batches find by node: drawn rows, each of some round, and whole rows of the adjacency.

They are read while a thread of the cache writes them. What is delivered is the same with them and without: whoever
finds no row, a row of another round, or one that is being written, draws it anew or reads the adjacency.
"""

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Float64s, Int32s, Int64s
from snapdb.kernels.compiled import inlined, kernel
from snapdb.kernels.drawn_rows import RowKeys, row_parts, row_round
from snapdb.kernels.intrinsics import fence_loads, load_first, prefetch
from snapdb.kernels.spans import AHEAD, BLOCK

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


@inlined
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


@kernel
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

"""Uniform neighbour sampling without replacement over one relation, with neighbours relabeled as they appear.

A hop runs in blocks of frontier nodes that fit in the cache. For each block, it draws positions (and prefetches the
adjacency), loads the neighbours there (and prefetches their stamps), and relabels them. Each edge costs two random
reads, of its neighbour and of the neighbour's stamp. Both are in flight while the remaining block is drawn. Draws are
ranks in logical rows, so that every encoding yields the same edges. A row that is a single range is drawn directly as
physical positions.

Reference implementation: `_uniform` in tests/support/oracle/methods.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Int32s, Int64s, UInt64s
from snapdb.kernels.adjacency.forms import RowArrays
from snapdb.kernels.adjacency.spans import (
    AHEAD,
    BASE_LEN,
    BASE_LIVE,
    BASE_START,
    BLOCK,
    DEGREE,
    DELTA_LEN,
    DELTA_START,
    is_plain,
    locate,
)
from snapdb.kernels.bits import last_zeros, live_before, select_live
from snapdb.kernels.compiled import allocating_kernel, kernel, prefetch
from snapdb.kernels.draw.floyd import SCANNED, floyd_mask, floyd_scan, floyd_table, table_for, take_all
from snapdb.kernels.draw.relabel import LocalIds, relabel
from snapdb.kernels.draw.scores import DrawKeys
from snapdb.kernels.rng import fold

_Number = int | np.int64

EVERY = 2**63 - 1
"""The fanout that takes all edges."""


class EdgeBuffers(NamedTuple):
    """The drawn edges, by edge index."""

    positions: Int64s
    """Physical positions."""
    neighbors: Int64s
    """Local ids of neighbours."""
    row_nodes: Int64s
    """Local ids of the nodes for which the edges were drawn."""


_STEADY = 16
"""The maximum fanout at which each row writes `fanout` entries. The next row overwrites the excess entries. Loops of
constant length are not mispredicted, and a misprediction costs as much as two edges."""


@kernel
def count_edges(rows: RowArrays, fanout: int, frontier: Int64s, low: int, high: int, spans: Int64s) -> int:
    """Return how many edges `sample_uniform` draws for frontier[low:high], or -1 if a row extends beyond its arrays.

    Writes the rows' spans to `spans` [high - low, FIELDS], from which `sample_uniform` reads them. For plain rows,
    PLAIN_FIELDS columns are enough.
    """
    if is_plain(rows):
        return _count_plain(rows.indptr, rows.indices.size, fanout, frontier, low, high, spans)
    total = np.int64(0)
    for first in range(low, high, BLOCK):
        last = min(first + BLOCK, high)
        if not locate(rows, frontier, first, last, high, spans[first - low : last - low]):
            return -1
        for span in range(first - low, last - low):
            total += min(spans[span, DEGREE], fanout)
    return int(total)


@kernel
def _count_plain(indptr: Int64s, held: int, fanout: int, frontier: Int64s, low: int, high: int, spans: Int64s) -> int:
    """`count_edges` for rows of a base without a delta, with two columns of spans instead of six."""
    total = np.int64(0)
    outside: bool | np.bool_ = False
    for i in range(low, high):
        node, span = frontier[np.uint64(i)], np.uint64(i - low)
        prefetch(indptr, frontier[np.uint64(min(i + AHEAD, high - 1))])
        start, end = np.int64(0), np.int64(0)
        if node < indptr.size - 1:
            start, end = indptr[np.uint64(node)], indptr[np.uint64(node + 1)]
        outside |= (start < 0) | (end < start) | (end > held)
        total += min(int(end - start), fanout)
        spans[span, BASE_START] = start
        spans[span, BASE_LEN] = end - start
    return -1 if outside else int(total)


# The kernel of plain sampling. For each block of 128 rows, it draws, places, loads and relabels, at O(fanout) per row.
# Cases are distinguished per row, by its length and the fanout, but never per edge.
@allocating_kernel
def sample_uniform(
    rows: RowArrays,
    keys: DrawKeys,
    fanout: int,
    frontier: Int64s,
    low: int,
    high: int,
    spans: Int64s,
    local: LocalIds,
    num_nodes: int,
    drawn: EdgeBuffers,
    edges: int,
) -> tuple[int, int]:
    """Draw up to `fanout` edges for each node in frontier[low:high], and return the new numbers of nodes and edges.

    Returns -1 nodes if an index is not a node. The rows must have passed `count_edges`, which wrote their `spans`. The
    frontier can be the array of local nodes. Keys are passed in a tuple (see `rng.fold_parts`).
    """
    prefix = keys.pick
    table = np.empty(0, np.int64)
    indices, tail, positions = rows.indices, rows.delta.indices, drawn.positions
    length = BASE_LEN if is_plain(rows) else DEGREE
    room = drawn.row_nodes.size - fanout if fanout <= _STEADY else -1
    pieces = rows.live.words.size > 0 or tail.size > 0
    for first in range(low, high, BLOCK):
        begin, last = edges, min(first + BLOCK, high)
        for i in range(first, last):
            span = np.uint64(i - low)
            start, degree = spans[span, BASE_START], spans[span, length]
            picks = min(degree, fanout)
            count = fanout if edges <= room else picks
            for j in range(edges, edges + count):
                drawn.row_nodes[np.uint64(j)] = i
            if degree <= fanout:
                take_all(start, degree, count, indices, positions, edges)
            elif degree <= 64:
                floyd_mask(fold(prefix, np.uint64(frontier[i])), start, degree, fanout, indices, positions, edges)
            elif fanout <= SCANNED:
                floyd_scan(fold(prefix, np.uint64(frontier[i])), start, degree, fanout, indices, positions, edges)
            else:
                table = table_for(table, fanout)
                floyd_table(fold(prefix, np.uint64(frontier[i])), start, degree, fanout, table, positions, edges)
            edges += picks
        if pieces:
            _place(rows, spans, first - low, last - low, fanout, positions, begin)
            _prefetch_moved(rows, positions, begin, edges)
        if not _load(rows, local.stamps, positions, drawn.neighbors, begin, edges):
            return -1, edges
        num_nodes = relabel(drawn.neighbors, begin, edges, local, num_nodes)
    return num_nodes, edges


@kernel
def _prefetch_moved(rows: RowArrays, positions: Int64s, begin: int, end: int) -> None:
    """Prefetch the neighbours of positions that `_place` has moved since they were drawn."""
    indices, tail = rows.indices, rows.delta.indices
    if rows.live.words.size > 0:
        for e in range(begin, end):
            prefetch(indices, min(positions[e], indices.size - 1))
    if tail.size > 0:
        for e in range(begin, end):
            prefetch(tail, max(positions[e] - indices.size, np.int64(0)))


@kernel
def _load(rows: RowArrays, stamps: Int32s, positions: Int64s, neighbors: Int64s, begin: int, end: int) -> bool:
    """Read the neighbour ids at positions[begin:end]. Returns whether all of them have a stamp."""
    base, tail = rows.indices, rows.delta.indices
    if base.size == 0 or tail.size == 0:
        return _load_one(base if tail.size == 0 else tail, stamps, positions, neighbors, begin, end)
    return _load_either(base, tail, stamps, positions, neighbors, begin, end)


@kernel
def _load_either(
    base: Array, tail: Array, stamps: Int32s, positions: Int64s, neighbors: Int64s, begin: int, end: int
) -> bool:
    """Read from both parts and select, because a branch on the part would be mispredicted."""
    outside: bool | np.bool_ = False
    held = base.size
    for e in range(begin, end):
        p = positions[e]
        late = p >= held
        one, other = np.int64(base[0 if late else p]), np.int64(tail[p - held if late else 0])
        node = other if late else one
        outside |= (node < 0) | (node >= stamps.size)
        prefetch(stamps, node)
        neighbors[e] = node
    return not outside


@kernel
def _load_one(indices: Array, stamps: Int32s, positions: Int64s, neighbors: Int64s, begin: int, end: int) -> bool:
    """Read from one part. Returns whether all ids have a stamp."""
    outside: bool | np.bool_ = False
    for edge in range(begin, end):
        e = np.uint64(edge)
        node = np.int64(indices[np.uint64(positions[e])])
        outside |= (node < 0) | (node >= stamps.size)
        prefetch(stamps, node)
        neighbors[e] = node
    return not outside


# Mapping of ranks to physical positions, one block of rows at a time. In a row with few dead positions, a rank is moved
# past each of them. With many dead positions, a select query on the bitmap costs less. Ranks beyond the base's part are
# then moved to the delta.
_WALKED = 32
"""The maximum number of dead positions in a row for which a pass over them is faster than a select query per draw."""
_LISTED = 2048
"""The maximum number of positions in a row for such a pass, which reads every word of the row's bitmap."""


@kernel
def _place(rows: RowArrays, spans: Int64s, low: int, high: int, fanout: int, positions: Int64s, edge: int) -> None:
    """Map positions[edge:] (BASE_START + rank) to physical ones, up to `fanout` per row of spans[low:high]."""
    words = rows.live.words
    if words.size > 0:
        _skip_dead(words, spans, low, high, fanout, positions, edge)
        _select(words, rows.live.before, spans, low, high, fanout, positions, edge)
    if rows.delta.indices.size > 0:
        _move_to_delta(words.size > 0, spans, low, high, fanout, positions, edge)


@kernel
def _is_scanned(held: int, degree: int) -> bool:
    """Return whether the dead positions of a row with `held` positions are skipped in a single pass."""
    return (held - degree <= _WALKED) & (held <= _LISTED)


@kernel
def _skip_dead(words: UInt64s, spans: Int64s, low: int, high: int, fanout: int, positions: Int64s, edge: int) -> None:
    """Move positions past the few dead positions of their rows, as if a row's two parts were adjacent."""
    every = ~np.uint64(0)
    for span in range(low, high):
        degree, kept, rest = spans[span, DEGREE], spans[span, BASE_LEN], spans[span, DELTA_LEN]
        begin, end = edge, edge + min(degree, fanout)
        edge = end
        if degree == kept + rest or not _is_scanned(kept + rest, degree):
            continue
        start, count, shift = spans[span, BASE_START], kept, np.int64(0)
        for part in range(2):
            if part:
                shift = spans[span, BASE_START] + kept - spans[span, DELTA_START]
                start, count = spans[span, DELTA_START], rest
            if count == 0:
                continue
            from_, last = start >> 6, (start + count - 1) >> 6
            for w in range(from_, last + 1):
                dead = ~words[w]
                dead &= every << np.uint64(start & 63 if w == from_ else 0)
                dead &= every >> np.uint64(63 - ((start + count - 1) & 63) if w == last else 0)
                while dead != np.uint64(0):
                    p = (w << 6) + last_zeros(dead) + shift
                    dead &= dead - np.uint64(1)
                    for e in range(begin, end):
                        positions[e] += np.int64(positions[e] >= p)


@kernel
def _select(
    words: UInt64s, before: Int64s, spans: Int64s, low: int, high: int, fanout: int, positions: Int64s, edge: int
) -> None:
    """Map ranks to positions by select queries on the bitmap, for rows with many dead positions."""
    for span in range(low, high):
        degree, kept, rest = spans[span, DEGREE], spans[span, BASE_LEN], spans[span, DELTA_LEN]
        begin, end = edge, edge + min(degree, fanout)
        edge = end
        if degree == kept + rest or _is_scanned(kept + rest, degree):
            continue
        base_start, delta_start, alive = spans[span, BASE_START], spans[span, DELTA_START], spans[span, BASE_LIVE]
        base_before = live_before(words, before, base_start)
        delta_before = live_before(words, before, delta_start) if rest > 0 else np.int64(0)
        step = np.float64(kept + rest) / np.float64(degree)
        for e in range(begin, end):
            rank = positions[e] - base_start
            late = rank >= alive
            start, count = (delta_start, rest) if late else (base_start, kept)
            rank -= alive if late else np.int64(0)
            guess = start + min(np.int64(np.float64(rank) * step), count - 1)
            rank += delta_before if late else base_before
            positions[e] = select_live(words, before, start, start + count, rank, guess)


@kernel
def _move_to_delta(bits: bool, spans: Int64s, low: int, high: int, fanout: int, positions: Int64s, edge: int) -> None:
    """Move positions beyond a row's range in the base to its range in the delta."""
    for span in range(low, high):
        degree, kept, rest = spans[span, DEGREE], spans[span, BASE_LEN], spans[span, DELTA_LEN]
        begin, end = edge, edge + min(degree, fanout)
        edge = end
        if rest == 0 or (bits and not _is_scanned(kept + rest, degree)):
            continue
        limit = spans[span, BASE_START] + kept
        shift = spans[span, DELTA_START] - limit
        for e in range(begin, end):
            positions[e] += shift if positions[e] >= limit else np.int64(0)

"""Uniform sampling without replacement over one relation, with the neighbours renumbered as they appear.

A hop runs in blocks of frontier nodes that stay in the cache: draw positions (prefetching the adjacency), load the
neighbours there (prefetching their stamps), then renumber. What is drawn is ranks in logical rows, so that every form
of the rows gives the same edges; a row in one piece is drawn as physical positions at once. A stamp map holds base +
local id for each node seen in this batch and something below base for the others, so that it is never cleared between
batches.
"""

from __future__ import annotations

import numpy as np

from snapdb.arrays import Array, Int32s, Int64s, UInt64s
from snapdb.kernels.adjacency.forms import RowArrays
from snapdb.kernels.adjacency.spans import AHEAD, ALIVE, BLOCK, DEGREE, FIRST, KEPT, REST, SECOND, is_plain, locate
from snapdb.kernels.bits import last_zeros, live_before, select_live
from snapdb.kernels.compiled import allocating_kernel, kernel
from snapdb.kernels.draw.floyd import floyd_mask, floyd_scan, floyd_table, table_for, take_all
from snapdb.kernels.intrinsics import prefetch
from snapdb.kernels.rng import fold

_Number = int | np.int64

EVERY = 2**63 - 1
"""The fanout that takes every edge."""

_SCANNED = 128
"""Up to so many picks, looking through the earlier ones beats a hash table."""


@kernel
def count_edges(rows: RowArrays, fanout: int, frontier: Int64s, low: int, high: int, spans: Int64s) -> int:
    """How many edges `sample_uniform` emits for frontier[low:high]; -1 when a row leads out of its arrays.

    They are located in `spans` [high - low, FIELDS], where drawing finds them again; PLAIN_FIELDS do for plain rows.
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
    total = np.int64(0)
    outside: bool | np.bool_ = False
    for i in range(low, high):
        node = frontier[i]
        prefetch(indptr, frontier[min(i + AHEAD, high - 1)])
        start, end = np.int64(0), np.int64(0)
        if node < indptr.size - 1:
            start, end = indptr[node], indptr[node + 1]
        outside |= (start < 0) | (end < start) | (end > held)
        total += min(int(end - start), fanout)
        spans[i - low, FIRST] = start
        spans[i - low, KEPT] = end - start
    return -1 if outside else int(total)


@allocating_kernel
def sample_uniform(  # noqa: PLR0912 -- calls cost more than the cases, which a row's form and length tell apart
    rows: RowArrays,
    prefix: np.uint64,
    fanout: int,
    frontier: Int64s,
    low: int,
    high: int,
    spans: Int64s,
    nodes: Int64s,
    count: int,
    stamps: Int32s,
    base: int,
    positions: Int64s,
    neighbours: Int64s,
    seed_side: Int64s,
    edges: int,
) -> tuple[int, int]:
    """Draws up to `fanout` edges for each of frontier[low:high]; returns how many nodes and edges there are now.

    -1 nodes: an index is not a node, one of 0 ≤ id < stamps.size. The rows must have passed `count_edges`, which left
    what it found in `spans`.

    Edge e ≥ `edges` gets positions[e], physical, neighbours[e] as a local id and seed_side[e], its frontier index.
    New neighbours go to nodes[count:], which needs one spare slot; the frontier may be `nodes`.
    The pick key of a node is fold(prefix, node); base + nodes.size must fit into int32.
    """
    table = np.empty(0, np.int64)
    indices, tail = rows.indices, rows.patch.indices
    length = KEPT if is_plain(rows) else DEGREE
    pieces = rows.live.words.size > 0 or tail.size > 0
    for first in range(low, high, BLOCK):
        begin, last = edges, min(first + BLOCK, high)
        for i in range(first, last):
            start, degree = spans[i - low, FIRST], spans[i - low, length]
            picks = min(degree, fanout)
            for j in range(edges, edges + picks):
                seed_side[j] = i
            if degree <= fanout:
                take_all(start, degree, indices, positions, edges)
            elif degree <= 64:
                floyd_mask(fold(prefix, np.uint64(frontier[i])), start, degree, fanout, indices, positions, edges)
            elif fanout <= _SCANNED:
                floyd_scan(fold(prefix, np.uint64(frontier[i])), start, degree, fanout, indices, positions, edges)
            else:
                table = table_for(table, fanout)
                floyd_table(fold(prefix, np.uint64(frontier[i])), start, degree, fanout, table, positions, edges)
            edges += picks
        if pieces:
            _place(rows, spans, first - low, last - low, fanout, positions, begin)
            if rows.live.words.size > 0:
                for e in range(begin, edges):
                    prefetch(indices, min(positions[e], indices.size - 1))
            if tail.size > 0:
                for e in range(begin, edges):
                    prefetch(tail, max(positions[e] - indices.size, np.int64(0)))
        if not _load(rows, stamps, positions, neighbours, begin, edges):
            return -1, edges
        count = number(neighbours, begin, edges, nodes, count, stamps, base)
    return count, edges


@kernel
def number_all(neighbours: Int64s, nodes: Int64s, count: int, stamps: Int32s, base: int) -> int:
    """`number` for all of them, whose stamps are asked for ahead of their time."""
    for begin in range(0, neighbours.size, BLOCK):
        end = min(begin + BLOCK, neighbours.size)
        for e in range(end, min(end + BLOCK, neighbours.size)):
            prefetch(stamps, neighbours[e])
        count = number(neighbours, begin, end, nodes, count, stamps, base)
    return count


@kernel
def number(neighbours: Int64s, begin: int, end: int, nodes: Int64s, count: int, stamps: Int32s, base: int) -> int:
    """Replaces the ids in neighbours[begin:end] by local ids, and appends the new ones to nodes[count:].

    Returns how many nodes there are then. Free of branches: each id is written to the next free slot of `nodes`,
    which stays free when the id was known.
    """
    for e in range(begin, end):
        node = neighbours[e]
        stamp: _Number = np.int64(stamps[node])
        new = stamp < base
        stamp = base + count if new else stamp
        nodes[count] = node
        stamps[node] = stamp
        count += int(new)
        neighbours[e] = stamp - base
    return count


@kernel
def _load(rows: RowArrays, stamps: Int32s, positions: Int64s, neighbours: Int64s, begin: int, end: int) -> bool:
    """The ids at positions[begin:end]; whether all of them have a stamp."""
    if rows.indices.size == 0 or rows.patch.indices.size == 0:
        return _load_one(
            rows.indices if rows.patch.indices.size == 0 else rows.patch.indices,
            stamps,
            positions,
            neighbours,
            begin,
            end,
        )
    return _load_either(rows.indices, rows.patch.indices, stamps, positions, neighbours, begin, end)


@kernel
def _load_either(
    indices: Array, tail: Array, stamps: Int32s, positions: Int64s, neighbours: Int64s, begin: int, end: int
) -> bool:
    outside: bool | np.bool_ = False
    held = indices.size
    for e in range(begin, end):
        p = positions[e]
        late = p >= held
        one, other = np.int64(indices[0 if late else p]), np.int64(tail[p - held if late else 0])
        node = other if late else one
        outside |= (node < 0) | (node >= stamps.size)
        prefetch(stamps, node)
        neighbours[e] = node
    return not outside


@kernel
def _load_one(indices: Array, stamps: Int32s, positions: Int64s, neighbours: Int64s, begin: int, end: int) -> bool:
    outside: bool | np.bool_ = False
    for e in range(begin, end):
        node = np.int64(indices[positions[e]])
        outside |= (node < 0) | (node >= stamps.size)
        prefetch(stamps, node)
        neighbours[e] = node
    return not outside


# From what was drawn of logical rows to physical positions, some rows at a time


_WALKED = 32
"""Up to so many dead positions of a row, walking through them beats a look-up of each pick."""
_LISTED = 2048
"""Up to so many positions of a row, looking at all of its words does."""


@kernel
def _place(rows: RowArrays, spans: Int64s, low: int, high: int, fanout: int, positions: Int64s, edge: int) -> None:
    """Makes positions[edge:] physical, up to `fanout` for each of spans[low:high]; they were drawn from its FIRST."""
    words = rows.live.words
    if words.size > 0:
        _skip_dead(words, spans, low, high, fanout, positions, edge)
        _look_up(words, rows.live.before, spans, low, high, fanout, positions, edge)
    if rows.patch.indices.size > 0:
        _pass_on(words.size > 0, spans, low, high, fanout, positions, edge)


@kernel
def _is_walked(held: int, degree: int) -> bool:
    """Whether the dead positions of a row that holds so many are walked through."""
    return (held - degree <= _WALKED) & (held <= _LISTED)


@kernel
def _skip_dead(words: UInt64s, spans: Int64s, low: int, high: int, fanout: int, positions: Int64s, edge: int) -> None:
    """Moves the positions of rows that have few dead ones on past those, as if the two parts of a row were one."""
    every = ~np.uint64(0)
    for span in range(low, high):
        degree, kept, rest = spans[span, DEGREE], spans[span, KEPT], spans[span, REST]
        begin, end = edge, edge + min(degree, fanout)
        edge = end
        if degree == kept + rest or not _is_walked(kept + rest, degree):
            continue
        start, count, shift = spans[span, FIRST], kept, np.int64(0)
        for part in range(2):
            if part:
                shift = spans[span, FIRST] + kept - spans[span, SECOND]
                start, count = spans[span, SECOND], rest
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
def _look_up(
    words: UInt64s, before: Int64s, spans: Int64s, low: int, high: int, fanout: int, positions: Int64s, edge: int
) -> None:
    """The positions of rows that have many dead ones, by their rank among the live ones of a part."""
    for span in range(low, high):
        degree, kept, rest = spans[span, DEGREE], spans[span, KEPT], spans[span, REST]
        begin, end = edge, edge + min(degree, fanout)
        edge = end
        if degree == kept + rest or _is_walked(kept + rest, degree):
            continue
        first, second, alive = spans[span, FIRST], spans[span, SECOND], spans[span, ALIVE]
        base = live_before(words, before, first)
        other = live_before(words, before, second) if rest > 0 else np.int64(0)
        step = np.float64(kept + rest) / np.float64(degree)
        for e in range(begin, end):
            rank = positions[e] - first
            late = rank >= alive
            start, count = (second, rest) if late else (first, kept)
            rank -= alive if late else np.int64(0)
            guess = start + min(np.int64(np.float64(rank) * step), count - 1)
            positions[e] = select_live(words, before, start, start + count, rank + (other if late else base), guess)


@kernel
def _pass_on(bits: bool, spans: Int64s, low: int, high: int, fanout: int, positions: Int64s, edge: int) -> None:
    """Moves positions that are beyond what a patch keeps of a row on to the patch."""
    for span in range(low, high):
        degree, kept, rest = spans[span, DEGREE], spans[span, KEPT], spans[span, REST]
        begin, end = edge, edge + min(degree, fanout)
        edge = end
        if rest == 0 or (bits and not _is_walked(kept + rest, degree)):
            continue
        limit = spans[span, FIRST] + kept
        shift = spans[span, SECOND] - limit
        for e in range(begin, end):
            positions[e] += shift if positions[e] >= limit else np.int64(0)

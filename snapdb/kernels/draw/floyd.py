"""Floyd's sampling without replacement: draws k of a row's places by a key. `start` is added to each place.

Draw j takes a random place below degree - k + j + 1, or that bound minus one if the place is already taken (Bentley and
Floyd, 1987). It uses exactly k random numbers for a row of any length. The variants differ in how they look up taken
places: bits of a word, a search among earlier draws, or a hash table. Each drawn position is prefetched in `indices`.

Reference implementation: `floyd` in tests/support/oracle/numbers.py.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Array, Int64s
from snapdb.kernels.adjacency.forms import LiveArrays
from snapdb.kernels.bits import last_zeros, live_before, select_live
from snapdb.kernels.compiled import allocating_kernel, kernel, prefetch
from snapdb.kernels.draw.eligible import COUNT, LENGTH, START, STRETCHES
from snapdb.kernels.draw.scores import LAST, REPLACE
from snapdb.kernels.rng import below, draw

_Number = int | np.int64

SCANNED = 128
"""The maximum number of draws for which a search among earlier draws is faster than a hash table."""


@kernel
def take_all(start: int, degree: int, count: int, indices: Array, positions: Int64s, edges: int) -> None:
    """Write `count` ≥ degree entries: all of a row's positions, ascending, followed by garbage.

    The neighbours of a row of the usual length are in two cache lines, which are prefetched.
    """
    if degree > 0:
        prefetch(indices, start)
        prefetch(indices, start + degree - 1)
    for j in range(count):
        positions[np.uint64(edges + j)] = start + j


@kernel
def floyd_mask(key: np.uint64, start: int, degree: int, k: int, indices: Array, positions: Int64s, edges: int) -> None:
    """Draw k of at most 64 positions by Floyd's algorithm. The taken positions are bits of one word."""
    chosen = np.uint64(0)
    one = np.uint64(1)
    for j in range(k):
        top = np.uint64(degree - k + j + 1)
        pick = below(draw(key, np.uint64(j)), top)
        pick = top - one if (chosen >> pick) & one else pick
        chosen |= one << pick
        position = start + np.int64(pick)
        prefetch(indices, position)
        positions[np.uint64(edges + j)] = position


@kernel
def floyd_scan(key: np.uint64, start: int, degree: int, k: int, indices: Array, positions: Int64s, edges: int) -> None:
    """Draw k positions by Floyd's algorithm. It searches the emitted positions for taken ones.

    `met` is a 64-bit Bloom filter of the positions' last six bits. A position that is not in the filter was not taken,
    so most draws need no search.
    """
    met, one = np.uint64(0), np.uint64(1)
    for j in range(k):
        top = degree - k + j + 1
        position: _Number = start + np.int64(below(draw(key, np.uint64(j)), np.uint64(top)))
        if (met >> (np.uint64(position) & np.uint64(63))) & one:
            chosen = False
            for q in range(edges, edges + j):
                chosen |= positions[np.uint64(q)] == position
            position = start + top - 1 if chosen else position
        met |= one << (np.uint64(position) & np.uint64(63))
        prefetch(indices, position)
        positions[np.uint64(edges + j)] = position


@kernel
def floyd_table(key: np.uint64, start: int, degree: int, k: int, table: Int64s, positions: Int64s, edges: int) -> None:
    """Draw k positions by Floyd's algorithm. The taken positions are in a hash table with linear probing."""
    table[:] = -1
    for j in range(k):
        top = degree - k + j + 1
        pick: _Number = np.int64(below(draw(key, np.uint64(j)), np.uint64(top)))
        if not _insert(table, pick):
            pick = top - 1  # never drawn before, because earlier draws were below it
            _insert(table, pick)
        positions[edges + j] = start + pick


@allocating_kernel
def table_for(table: Int64s, k: int) -> Int64s:
    """Return the table, or a new one if it is empty.

    Its size is a power of two and at least 2k, so it is at most half full.
    """
    if table.size > 0:
        return table
    size = 1
    while size < 2 * k:
        size *= 2
    return np.empty(size, np.int64)


@kernel
def _insert(table: Int64s, value: _Number) -> bool:
    """Insert a value. Returns whether it was not in the table yet."""
    last = table.size - 1
    # Fibonacci hashing (Knuth): multiplication by 2^64 / golden ratio spreads consecutive ranks over the slots.
    slot = np.int64((np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & last
    while table[slot] >= 0:
        if table[slot] == value:
            return False
        slot = (slot + 1) & last
    table[slot] = value
    return True


# Draws of ranks among the eligible edges, which `place_ranks` maps to positions. They cost O(k) per row, plus one
# select query on the bitmap per draw if the row has dead positions.
@kernel
def draw_ranks(
    method: int,
    key: np.uint64,
    start: int,
    total: int,
    k: int,
    indices: npt.NDArray[np.generic],
    positions: Int64s,
    edges: int,
) -> None:
    """Draw up to k of `total` places from `start` on: all, the last k, k with replacement, or k by Floyd's sampling."""
    if total <= k or method == LAST:
        picks = min(total, k)
        for j in range(picks):
            positions[edges + j] = start + total - picks + j
    elif method == REPLACE:
        for j in range(k):
            positions[edges + j] = start + np.int64(below(draw(key, np.uint64(j)), np.uint64(total)))
    elif total <= 64:
        floyd_mask(key, start, total, k, indices, positions, edges)
    elif k <= SCANNED:
        floyd_scan(key, start, total, k, indices, positions, edges)
    else:
        _floyd_apart(key, start, total, k, positions, edges)


@allocating_kernel
def _floyd_apart(key: np.uint64, start: int, degree: int, k: int, positions: Int64s, edges: int) -> None:
    """Call `floyd_table` with a new table."""
    floyd_table(key, start, degree, k, table_for(np.empty(0, np.int64), k), positions, edges)


@kernel
def place_ranks(live: LiveArrays, windows: Int64s, span: int, positions: Int64s, begin: int, end: int) -> None:
    """Map ranks among the edges in a row's ranges to physical positions."""
    words, before = live.words, live.before
    for e in range(begin, end):
        rank, w = positions[e], 0
        while w < STRETCHES - 1 and rank >= windows[span, COUNT + w]:
            rank -= windows[span, COUNT + w]
            w += 1
        start, length, count = windows[span, START + w], windows[span, LENGTH + w], windows[span, COUNT + w]
        if length == count:
            positions[e] = start + rank
        else:
            guess = start + min(np.int64(np.float64(rank) * (np.float64(length) / np.float64(count))), length - 1)
            rank += live_before(words, before, start)
            positions[e] = select_live(words, before, start, start + length, rank, guess)


# Ranks in ascending order without a sort. Rows with few ranks use a bitmap. Others use a table in which a rank's first
# slot increases with the rank (a one-pass bucket sort with linear probing). The cost is O(k) on average, because draws
# are uniform.
_FREE = 2**63 - 1
"""The value of a free slot, which is greater than any rank."""


@kernel
def table_size(count: int) -> int:
    """Return the number of slots needed to sort this many ranks."""
    return 3 * count + 1


@kernel
def draw_ranks_sorted(key: np.uint64, degree: int, k: int, table: Int64s, ranks: Int64s) -> None:
    """Draw k of more than k ranks by Floyd's algorithm, and write them to `ranks` in ascending order.

    They are the same ranks that `draw_ranks` draws. Slots ascend, so a single search from a rank's first slot
    determines whether the rank is taken and where it is inserted. At the end, the table is sorted.
    """
    # Up to 64 bits per draw, clearing and scanning a bitmap is faster than searching slots.
    if degree <= 64 * k:
        _clear_bits(table, degree)
        for j in range(k):
            top = np.int64(degree - k + j + 1)
            rank = np.int64(below(draw(key, np.uint64(j)), np.uint64(top)))
            rank = top - 1 if (table[rank >> 6] >> (rank & 63)) & 1 else rank
            table[rank >> 6] |= np.int64(1) << (rank & 63)
        _list_bits(table, degree, ranks)
        return
    scale = _clear(table, k, degree)
    for j in range(k):
        top = np.int64(degree - k + j + 1)
        rank = np.int64(below(draw(key, np.uint64(j)), np.uint64(top)))
        slot = _slot_of(table, rank, scale)
        if table[slot] == rank:
            rank = top - 1  # greater than all ranks before it
            slot = _slot_of(table, rank, scale)
        _insert_sorted(table, slot, rank)
    _list(table, k, ranks)


@kernel
def sort_ranks(given: Int64s, begin: int, count: int, degree: int, table: Int64s, ranks: Int64s) -> None:
    """Sort given[begin : begin + count], which are distinct ranks below a degree, into `ranks`."""
    if degree <= 64:
        word = np.uint64(0)
        for j in range(begin, begin + count):
            word |= np.uint64(1) << np.uint64(given[j])
        for at in range(count):
            ranks[at] = last_zeros(word)
            word &= word - np.uint64(1)
        return
    _sort_many(given, begin, count, degree, table, ranks)


@kernel
def _sort_many(given: Int64s, begin: int, count: int, degree: int, table: Int64s, ranks: Int64s) -> None:
    """`sort_ranks` for a row with more than 64 edges. Uses a bitmap or, if it is too sparse, the table of slots."""
    if degree <= 64 * count:
        _clear_bits(table, degree)
        for j in range(begin, begin + count):
            table[given[j] >> 6] |= np.int64(1) << (given[j] & 63)
        _list_bits(table, degree, ranks)
        return
    scale = _clear(table, count, degree)
    for j in range(begin, begin + count):
        _insert_sorted(table, _slot_of(table, given[j], scale), given[j])
    _list(table, count, ranks)


@kernel
def _clear_bits(table: Int64s, degree: int) -> None:
    """Clear the bits of all ranks below a degree."""
    for word in range((degree + 63) >> 6):
        table[word] = 0


@kernel
def _list_bits(table: Int64s, degree: int, ranks: Int64s) -> None:
    """Write the ranks whose bits are set, in ascending order."""
    at = 0
    for place in range((degree + 63) >> 6):
        word = np.uint64(table[place])
        while word != np.uint64(0):
            ranks[at] = (place << 6) + last_zeros(word)
            word &= word - np.uint64(1)
            at += 1


@kernel
def _clear(table: Int64s, count: int, degree: int) -> float:
    """Free the slots that this many ranks may need, and return the number of slots per rank."""
    for slot in range(3 * count + 1):
        table[slot] = _FREE
    return np.float64(2 * count) / np.float64(degree)


@kernel
def _slot_of(table: Int64s, rank: _Number, scale: float) -> _Number:
    """Return the slot that contains a rank or, if none does, the first slot from its own on without a smaller rank."""
    slot: _Number = np.int64(np.float64(rank) * scale)
    while table[slot] < rank:
        slot += 1
    return slot


@kernel
def _insert_sorted(table: Int64s, slot: _Number, rank: _Number) -> None:
    """Insert a rank into a slot, and move the greater ranks that follow."""
    while rank != _FREE:
        other = table[slot]
        table[slot] = rank
        rank = other
        slot += 1


@kernel
def _list(table: Int64s, count: int, ranks: Int64s) -> None:
    """Write the ranks in a table, in ascending order."""
    at, slot = 0, 0
    while at < count:
        ranks[at] = table[slot]
        at += int(table[slot] != _FREE)
        slot += 1

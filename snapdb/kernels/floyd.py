"""Floyd's draws without replacement: k of a row's places, in draw order, by a key; `start` is added to each.

What stands at `indices` there is asked for at once. The ways differ in how they tell which places are taken already.
"""

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.kernels.compiled import inlined, kernel
from snapdb.kernels.intrinsics import prefetch
from snapdb.kernels.rng import below, draw

_Number = int | np.int64


@inlined
def take_all(start: int, degree: int, indices: Array, positions: Int64s, edges: int) -> None:
    """All positions of a row, ascending."""
    if degree > 0:
        prefetch(indices, start)
        prefetch(indices, start + degree - 1)
    for j in range(degree):
        positions[edges + j] = start + j


@inlined
def floyd_mask(key: np.uint64, start: int, degree: int, k: int, indices: Array, positions: Int64s, edges: int) -> None:
    """Floyd's k of at most 64 positions, in draw order; the chosen ones are bits of one word."""
    chosen = np.uint64(0)
    one = np.uint64(1)
    for j in range(k):
        top = np.uint64(degree - k + j + 1)
        pick = below(draw(key, np.uint64(j)), top)
        pick = top - one if (chosen >> pick) & one else pick
        chosen |= one << pick
        position = start + np.int64(pick)
        prefetch(indices, position)
        positions[edges + j] = position


@inlined
def floyd_scan(key: np.uint64, start: int, degree: int, k: int, indices: Array, positions: Int64s, edges: int) -> None:
    """Floyd's k positions in draw order; the chosen ones are looked for among those emitted.

    Only one that shares its last bits with a position that was `met` can have been chosen: most need no look.
    """
    met, one = np.uint64(0), np.uint64(1)
    for j in range(k):
        top = degree - k + j + 1
        position: _Number = start + np.int64(below(draw(key, np.uint64(j)), np.uint64(top)))
        if (met >> (np.uint64(position) & np.uint64(63))) & one:
            chosen = False
            for q in range(edges, edges + j):
                chosen |= positions[q] == position
            position = start + top - 1 if chosen else position
        met |= one << (np.uint64(position) & np.uint64(63))
        prefetch(indices, position)
        positions[edges + j] = position


@kernel
def floyd_table(key: np.uint64, start: int, degree: int, k: int, table: Int64s, positions: Int64s, edges: int) -> None:
    """Floyd's k positions in draw order; the chosen ones are in an open-addressing hash table."""
    table[:] = -1
    for j in range(k):
        top = degree - k + j + 1
        pick: _Number = np.int64(below(draw(key, np.uint64(j)), np.uint64(top)))
        if not _insert(table, pick):
            pick = top - 1  # never chosen before, as earlier draws were below it
            _insert(table, pick)
        positions[edges + j] = start + pick


@kernel
def table_for(table: Int64s, k: int) -> Int64s:
    """The table, or where it is empty a new one, whose size is a power of two that k entries fill at most by half."""
    if table.size > 0:
        return table
    size = 1
    while size < 2 * k:
        size *= 2
    return np.empty(size, np.int64)


@kernel
def _insert(table: Int64s, value: _Number) -> bool:
    """Whether the value was not yet in the table, where it now is."""
    last = table.size - 1
    slot = np.int64((np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & last
    while table[slot] >= 0:
        if table[slot] == value:
            return False
        slot = (slot + 1) & last
    table[slot] = value
    return True

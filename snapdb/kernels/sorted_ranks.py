"""Ranks in order, those of a draw or given ones, sorted as they come: each has its bit or its slot in a small table."""

import numpy as np

from snapdb.arrays import Int64s
from snapdb.kernels.bits import last_zeros
from snapdb.kernels.compiled import inlined, kernel
from snapdb.kernels.rng import below, draw

_Number = int | np.int64

_FREE = 2**63 - 1
"""Stands in a table's slots that hold no rank."""


@kernel
def table_size(count: int) -> int:
    """How many slots a table needs in which so many ranks are sorted."""
    return 3 * count + 1


@kernel
def draw_ranks_sorted(key: np.uint64, degree: int, k: int, table: Int64s, ranks: Int64s) -> None:
    """Floyd's k of more than k ranks, ascending.

    A table holds those that are chosen: a bit for each rank where these are few. Else a rank's first slot grows with
    it, and slots ascend, so that a look from there on tells whether it is in, where it goes, and in the end the order
    of all.
    """
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
            rank = top - 1  # greater than all before it
            slot = _slot_of(table, rank, scale)
        _insert(table, slot, rank)
    _list(table, k, ranks)


@inlined
def sort_ranks(given: Int64s, begin: int, count: int, degree: int, table: Int64s, ranks: Int64s) -> None:
    """Writes given[begin : begin + count], ranks below a degree no two of which are equal, to `ranks` in order."""
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
    """The same of any degree."""
    if degree <= 64 * count:
        _clear_bits(table, degree)
        for j in range(begin, begin + count):
            table[given[j] >> 6] |= np.int64(1) << (given[j] & 63)
        _list_bits(table, degree, ranks)
        return
    scale = _clear(table, count, degree)
    for j in range(begin, begin + count):
        _insert(table, _slot_of(table, given[j], scale), given[j])
    _list(table, count, ranks)


@kernel
def _clear_bits(table: Int64s, degree: int) -> None:
    """Clears the bits of so many ranks."""
    for word in range((degree + 63) >> 6):
        table[word] = 0


@kernel
def _list_bits(table: Int64s, degree: int, ranks: Int64s) -> None:
    """The ranks whose bits are set, in order."""
    at = 0
    for place in range((degree + 63) >> 6):
        word = np.uint64(table[place])
        while word != np.uint64(0):
            ranks[at] = (place << 6) + last_zeros(word)
            word &= word - np.uint64(1)
            at += 1


@kernel
def _clear(table: Int64s, count: int, degree: int) -> float:
    """Frees the slots that so many ranks may need; returns how many slots a rank is wide."""
    for slot in range(3 * count + 1):
        table[slot] = _FREE
    return np.float64(2 * count) / np.float64(degree)


@inlined
def _slot_of(table: Int64s, rank: _Number, scale: float) -> _Number:
    """Where a rank is, or goes: the first slot, from its own on, that holds none that is less."""
    slot: _Number = np.int64(np.float64(rank) * scale)
    while table[slot] < rank:
        slot += 1
    return slot


@kernel
def _insert(table: Int64s, slot: _Number, rank: _Number) -> None:
    """Puts a rank into a slot, and moves the greater ones that follow."""
    while rank != _FREE:
        other = table[slot]
        table[slot] = rank
        rank = other
        slot += 1


@kernel
def _list(table: Int64s, count: int, ranks: Int64s) -> None:
    """The ranks of a table in order."""
    at, slot = 0, 0
    while at < count:
        ranks[at] = table[slot]
        at += int(table[slot] != _FREE)
        slot += 1

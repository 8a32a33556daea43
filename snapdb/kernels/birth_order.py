"""Who is there at a moment: how many with a lower number are, and which is the r-th, without a walk over all of them.

Numbers are put in the order of their births, so that those who are there at a moment are the first of them. That order
is kept as a wavelet matrix, one bit for each number and binary digit: level by level, from the highest digit on, those
whose digit is 0 move before those whose digit is 1, and how many of a prefix do tells where it went.
"""

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Int64s, UInt64s
from snapdb.kernels.bits import live_before, rank_blocks
from snapdb.kernels.compiled import kernel

_Number = int | np.int64

_BLOCK = 512
"""Levels begin where a block of ranks does."""


class _BirthOrder(NamedTuple):
    """Numbers 0 ≤ i < n by their births."""

    times: Int64s
    """[n] births, ascending."""
    words: UInt64s
    """A bit for each number, level after level, the highest digit first."""
    before: Int64s
    """See `rank_blocks`."""
    zeros: Int64s
    """[levels] how many bits of each are 0."""


def birth_order(born: Int64s) -> _BirthOrder:
    """The order of numbers by when each is born; with none at all nobody is ever asked for.

    >>> order = birth_order(np.array([30, 10, 20, 10]))
    >>> there = count_born(order.times, 20)
    >>> [int(select_born(*order[1:], 4, there, rank)) for rank in range(there)]
    [1, 2, 3]
    >>> [int(rank_born(*order[1:], 4, there, number)) for number in range(4)]
    [0, 0, 1, 2]
    """
    order = np.argsort(born, kind="stable")
    times = np.ascontiguousarray(born[order], np.int64)
    levels = max(1, int(born.size - 1).bit_length()) if born.size else 0
    stride = (born.size + _BLOCK - 1) // _BLOCK * _BLOCK
    words, zeros = np.zeros(levels * stride // 64, np.uint64), np.zeros(levels, np.int64)
    _fill(order.astype(np.int64, copy=False), words, zeros, stride)
    return _BirthOrder(times, words, rank_blocks(words), zeros)


@kernel
def _fill(order: Int64s, words: UInt64s, zeros: Int64s, stride: int) -> None:
    """Writes the levels; `order` ends as another one."""
    spare = np.empty_like(order)
    for level in range(zeros.size):
        digit, base = zeros.size - 1 - level, level * stride
        ones = np.int64(0)
        for i in range(order.size):
            bit = (order[i] >> digit) & 1
            words[(base + i) >> 6] |= np.uint64(bit) << np.uint64(i & 63)
            ones += bit
        low, high = np.int64(0), order.size - ones
        zeros[level] = high
        for i in range(order.size):
            if (order[i] >> digit) & 1:
                spare[high] = order[i]
                high += 1
            else:
                spare[low] = order[i]
                low += 1
        order, spare = spare, order


@kernel
def count_born(times: Int64s, moment: _Number) -> int:
    """How many are born by a moment, itself included."""
    low, high = 0, times.size
    while low < high:
        middle = (low + high) >> 1
        if times[middle] <= moment:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _ones_before(words: UInt64s, before: Int64s, base: _Number, low: _Number, high: _Number) -> tuple[_Number, _Number]:
    """How many bits of the level that begins at `base` are set before two of its places."""
    first = before[2 * (base >> 9)]
    return live_before(words, before, base + low) - first, live_before(words, before, base + high) - first


@kernel
def rank_born(words: UInt64s, before: Int64s, zeros: Int64s, count: int, there: _Number, number: _Number) -> _Number:
    """How many of the first `there` of `count` born are below a number."""
    below: _Number = np.int64(0)
    low: _Number = np.int64(0)
    high: _Number = there
    stride = (count + _BLOCK - 1) // _BLOCK * _BLOCK
    for level in range(zeros.size):
        left, right = _ones_before(words, before, level * stride, low, high)
        if (number >> (zeros.size - 1 - level)) & 1:
            below += (high - right) - (low - left)
            low, high = zeros[level] + left, zeros[level] + right
        else:
            low, high = low - left, high - right
    return below


@kernel
def select_born(words: UInt64s, before: Int64s, zeros: Int64s, count: int, there: _Number, rank: _Number) -> _Number:
    """The number that `rank` of the first `there` of `count` born are below; 0 ≤ rank < there."""
    number: _Number = np.int64(0)
    low: _Number = np.int64(0)
    high: _Number = there
    stride = (count + _BLOCK - 1) // _BLOCK * _BLOCK
    for level in range(zeros.size):
        left, right = _ones_before(words, before, level * stride, low, high)
        fewer = (high - right) - (low - left)
        number <<= 1
        if rank < fewer:
            low, high = low - left, high - right
        else:
            number |= 1
            rank -= fewer
            low, high = zeros[level] + left, zeros[level] + right
    return number

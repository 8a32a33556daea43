"""Rank and select on bitmaps: the number of set bits before a place, and the place of the r-th set bit.

Bit p of a bitmap is bit p & 63 of word p >> 6. A directory has two numbers per block of 512 bits: the number of set
bits before the block, and the numbers of set bits in the block before each of its words. A rank query therefore needs
no loop, and a select query searches only for a block. No branch depends on the bits.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from snapdb.arrays import Int64s, UInt64s
from snapdb.kernels.compiled import allocating_kernel, kernel

_Number = int | np.int64


@intrinsic
def count_bits(typing: Any, word: Any) -> Any:
    """Return the number of set bits in a uint64 (popcount)."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), emit


@intrinsic
def last_zeros(typing: Any, word: Any) -> Any:
    """Return the number of trailing zeros in a uint64, which is the place of its lowest set bit, or 64 for 0."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), emit


@kernel
def is_set(words: UInt64s, place: _Number) -> bool:
    """Return whether a bit is set. Places beyond the bitmap are not set."""
    word = place >> 6
    if word >= words.size:
        return False
    return bool((words[word] >> np.uint64(place & 63)) & np.uint64(1))


# The two-level directory of rank9 (Vigna, 2008), after Jacobson's rank (1989). It has 2 words for each 8 words of the
# bitmap, 25 % more memory. A rank query for any place reads one pair of the directory and one word of the bitmap, with
# at most two cache misses.
@allocating_kernel
def rank_blocks(words: UInt64s) -> Int64s:
    """Return the rank directory of a bitmap, which has two int64 for each block of 512 bits and for the end.

    The first is the number of set bits before the block. The second packs the numbers of set bits in the block before
    each of its words, in nine bits each. The lowest nine bits are for word 7.
    """
    blocks = (words.size + 7) // 8
    before = np.zeros(2 * blocks + 2, np.int64)
    total = np.int64(0)
    for block in range(blocks):
        before[2 * block] = total
        counts, found = np.int64(0), np.int64(0)
        for w in range(8 * block, 8 * block + 8):
            counts = counts << 9 | found
            found += count_bits(words[w]) if w < words.size else np.int64(0)
        before[2 * block + 1] = counts
        total += found
    before[2 * blocks] = total
    return before


@kernel
def mask_between(words: UInt64s, start: _Number, stop: _Number) -> np.uint64:
    """Return a word with the bits start ≤ p < stop set. There are at least one and at most 64 such bits."""
    one = np.uint64(1)
    word, shift = start >> 6, np.uint64(start & 63)
    mask: np.uint64 = words[word] >> shift
    if (stop - 1) >> 6 != word:
        mask |= words[word + 1] << (np.uint64(64) - shift)
    if stop - start < 64:
        mask &= (one << np.uint64(stop - start)) - one
    return mask


@kernel
def live_before(words: UInt64s, before: Int64s, place: _Number) -> _Number:
    """Return the number of set bits before a place: a rank query, O(1)."""
    word, last = place >> 6, np.int64(place & 63)
    total: _Number = before[2 * (word >> 3)] + _in_block(before[2 * (word >> 3) + 1], word & 7)
    if last:
        total += count_bits(words[word] << np.uint64(64 - last))
    return total


@kernel
def _in_block(counts: _Number, word: _Number) -> _Number:
    """Return the number of set bits in a block before one of its eight words."""
    return (counts >> (63 - 9 * word)) & 511


# Select: a binary search over the blocks of the row, seven comparisons for the word, and six halvings for the bit. If
# bits are spread evenly, interpolation gives a good guess that saves the search.
@kernel
def select_live(
    words: UInt64s, before: Int64s, start: _Number, stop: _Number, rank: _Number, guess: _Number
) -> _Number:
    """Return the place of set bit `rank` of the whole bitmap. It is in start ≤ p < stop, and `guess` may be near it."""
    low = high = guess >> 9
    if before[2 * low] > rank or before[2 * low + 2] <= rank:
        low, high = start >> 9, (stop - 1) >> 9
    while low < high:
        middle = (low + high + 1) >> 1
        if before[2 * middle] <= rank:
            low = middle
        else:
            high = middle - 1
    left = rank - before[2 * low]
    counts = before[2 * low + 1]
    word = np.int64(0)
    for w in range(1, 8):
        word += np.int64(_in_block(counts, w) <= left)
    left -= _in_block(counts, word)
    word += low << 3
    return (word << 6) + _select_bit(words[word], left)


@kernel
def _select_bit(word: np.uint64, rank: _Number) -> _Number:
    """Return the place of set bit `rank` in a word, by halving."""
    place = np.int64(0)
    for half in (32, 16, 8, 4, 2, 1):
        low = word & ((np.uint64(1) << np.uint64(half)) - np.uint64(1))
        found = count_bits(low)
        above = rank >= found
        rank -= found if above else np.int64(0)
        place += half if above else 0
        word = word >> np.uint64(half) if above else low
    return place

"""Bits by number and number by bits: how many are set before a place, and where the r-th set one is.

Bit p of a bitmap is bit p & 63 of word p >> 6. `before[b]` counts the set bits before block b of 512, so that a rank
costs at most eight words and a selection a binary search over blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from snapdb.kernels.compiled import kernel

__all__ = [
    "count_between",
    "count_bits",
    "is_set",
    "last_zeros",
    "mask_between",
    "rank_blocks",
    "select_between",
    "select_bit",
]

Int64s = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Number = int | np.int64


@intrinsic
def count_bits(typing: Any, word: Any) -> Any:
    """How many bits of a uint64 are set."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), emit


@intrinsic
def last_zeros(typing: Any, word: Any) -> Any:
    """The number of the lowest set bit of a uint64; 64 when none is set."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), emit


@kernel
def is_set(words: Words, place: Number) -> bool:
    """Whether a bit is set; places beyond the bitmap are not."""
    word = place >> 6
    if word >= words.size:
        return False
    return bool((words[word] >> np.uint64(place & 63)) & np.uint64(1))


@kernel
def rank_blocks(words: Words) -> Int64s:
    """`before`: [blocks + 1] how many bits are set before each block of 512, and in all."""
    before = np.zeros((words.size + 7) // 8 + 1, np.int64)
    total = np.int64(0)
    for w in range(words.size):
        if w & 7 == 0:
            before[w >> 3] = total
        total += count_bits(words[w])
    before[-1] = total
    return before


@kernel
def mask_between(words: Words, start: Number, stop: Number) -> np.uint64:
    """Bits start up to stop, at most 64 of them and at least one, as one word."""
    one = np.uint64(1)
    word, shift = start >> 6, np.uint64(start & 63)
    mask: np.uint64 = words[word] >> shift
    if (stop - 1) >> 6 != word:
        mask |= words[word + 1] << (np.uint64(64) - shift)
    if stop - start < 64:
        mask &= (one << np.uint64(stop - start)) - one
    return mask


@kernel
def count_between(words: Words, before: Int64s, start: Number, stop: Number) -> Number:
    """How many of the bits start up to stop are set."""
    if stop - start <= 64:
        return np.int64(0) if stop <= start else count_bits(mask_between(words, start, stop))
    return _rank(words, before, stop) - _rank(words, before, start)


@kernel
def select_between(words: Words, before: Int64s, start: Number, stop: Number, rank: Number) -> Number:
    """Where the set bit number `rank` of the bits start up to stop is; there are more than `rank` of them."""
    if stop - start <= 64:
        return start + select_bit(mask_between(words, start, stop), rank)
    left = _rank(words, before, start) + rank
    low, high = start >> 9, (stop - 1) >> 9
    while low < high:
        middle = (low + high + 1) >> 1
        if before[middle] <= left:
            low = middle
        else:
            high = middle - 1
    left -= before[low]
    word = low << 3
    last = (stop - 1) >> 6
    while word < last:
        found = count_bits(words[word])
        if left < found:
            break
        left -= found
        word += 1
    return (word << 6) + select_bit(words[word], left)


@kernel
def select_bit(word: np.uint64, rank: Number) -> Number:
    """Where the set bit number `rank` of a word is, halving what is left: no branch depends on the bits."""
    place = np.int64(0)
    for half in (32, 16, 8, 4, 2, 1):
        low = word & ((np.uint64(1) << np.uint64(half)) - np.uint64(1))
        found = count_bits(low)
        above = rank >= found
        rank -= found if above else np.int64(0)
        place += half if above else 0
        word = word >> np.uint64(half) if above else low
    return place


@kernel
def _rank(words: Words, before: Int64s, place: Number) -> Number:
    """How many bits are set before a place."""
    block = place >> 9
    total = np.int64(before[block])
    for w in range(block << 3, place >> 6):
        total += count_bits(words[w])
    if place & 63:
        total += count_bits(words[place >> 6] & ((np.uint64(1) << np.uint64(place & 63)) - np.uint64(1)))
    return total

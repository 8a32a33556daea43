"""Distinct ids by a bitmap: linear in the ids and in the words of their range, without sorting."""

import numpy as np

from snapdb.arrays import Int64s, UInt64s
from snapdb.kernels.bits import count_bits
from snapdb.kernels.compiled import kernel


def distinct(ids: Int64s, limit: int) -> tuple[Int64s, Int64s]:
    """The distinct ids, ascending, and [ids] the place of each among them.

    Raises IndexError, whose argument is the id, when one is not 0 ≤ id < limit.

    >>> [array.tolist() for array in distinct(np.array([70, 3, 70]), 100)]
    [[3, 70], [1, 0, 1]]
    """
    plain = np.ascontiguousarray(ids, np.int64).view()
    plain.flags.writeable = False
    bits = np.zeros((limit + 63) // 64, np.uint64)
    wrong = _mark(plain, limit, bits)
    if wrong >= 0:
        raise IndexError(int(plain[wrong]))
    before = np.empty(bits.size, np.int64)
    found, places = np.empty(min(ids.size, limit), np.int64), np.empty(ids.size, np.int64)
    return found[: _rank(plain, bits, before, found, places)], places


@kernel
def _mark(ids: Int64s, limit: int, bits: UInt64s) -> int:
    """Sets a bit for each id; the position of one that is out of range, or -1."""
    for i in range(ids.size):
        number = ids[i]
        if number < 0 or number >= limit:
            return i
        bits[number >> 6] |= np.uint64(1) << np.uint64(number & 63)
    return -1


@kernel
def _rank(ids: Int64s, bits: UInt64s, before: Int64s, found: Int64s, places: Int64s) -> int:
    """Fills all but the bits, and returns how many of them are set."""
    count = np.int64(0)
    for w in range(bits.size):
        before[w] = count
        count += np.int64(count_bits(bits[w]))
    for i in range(ids.size):
        number = ids[i]
        below = bits[number >> 6] & ((np.uint64(1) << np.uint64(number & 63)) - np.uint64(1))
        places[i] = before[number >> 6] + np.int64(count_bits(below))
        found[places[i]] = number
    return count  # type: ignore[return-value]

"""Numbers that are looked for among many others: a bit for each that there may be."""

import numpy as np

from snapdb.arrays import Array, Int64s, UInt64s
from snapdb.errors import CorruptError
from snapdb.kernels.compiled import kernel
from snapdb.kernels.forms import DAMAGED


def mark(numbers: Int64s, limit: int) -> UInt64s:
    """A bit for each number below the limit, set for those given, which are 0 ≤ number < limit."""
    words = np.zeros((limit + 63) // 64, np.uint64)
    _mark(numbers, words)
    return words


def marked(words: UInt64s, limit: int, numbers: Array) -> Int64s:
    """The places in `numbers` at which one stands whose bit is set.

    Raises:
        CorruptError: one is not 0 ≤ number < limit.

    >>> marked(mark(np.array([7, 2]), 10), 10, np.array([2, 9, 7, 2])).tolist()
    [0, 2, 3]
    """
    places = np.empty(numbers.size, np.int64)
    count = _marked(words, limit, numbers, places)
    if count < 0:
        raise CorruptError(DAMAGED)
    return places[:count]


@kernel
def _mark(numbers: Int64s, words: UInt64s) -> None:
    for i in range(numbers.size):
        words[numbers[i] >> 6] |= np.uint64(1) << np.uint64(numbers[i] & 63)


@kernel
def _marked(words: UInt64s, limit: int, numbers: Array, places: Int64s) -> int:
    count = 0
    for i in range(numbers.size):
        number = np.int64(numbers[i])
        if number < 0 or number >= limit:
            return -1
        places[count] = i
        count += int((words[number >> 6] >> np.uint64(number & 63)) & np.uint64(1))
    return count

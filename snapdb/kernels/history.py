"""The last of each row's moments before a bound, by binary search."""

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.errors import CorruptError
from snapdb.kernels.compiled import kernel


def last_before(indptr: Int64s, time: Int64s, ids: Array, before: Int64s) -> Int64s:
    """[n] the last position of row ids[i] whose time is less than before[i], or -1; of equal times the last one.

    Times ascend within a row. Raises IndexError when an id is not a row, and CorruptError when a row leads out of
    the times.

    >>> last_before(np.array([0, 3]), np.array([5, 7, 7]), np.array([0, 0, 0]), np.array([5, 6, 8])).tolist()
    [-1, 0, 2]
    """
    numbers = np.ascontiguousarray(ids, np.int64)
    out = np.empty(numbers.size, np.int64)
    rows, times, wanted, bounds = (_read_only(array) for array in (indptr, time, numbers, before))
    bad = _last_before(rows, times, wanted, bounds, out)
    if bad >= 0 and not 0 <= numbers[bad] < indptr.size - 1:
        raise IndexError(f"row {numbers[bad]} was asked, but there are {indptr.size - 1} rows (ids count from 0)")
    if bad >= 0:
        raise CorruptError(
            f"the history of row {numbers[bad]} is damaged: it leads out of its arrays; CHECK DATABASE names the file"
        )
    return out


def _read_only(array: Array) -> Int64s:
    view = np.ascontiguousarray(array, np.int64).view(np.ndarray)
    view.flags.writeable = False
    return view


@kernel
def _last_before(indptr: Int64s, time: Int64s, ids: Int64s, before: Int64s, out: Int64s) -> int:
    """Fills `out`; the first bad place of `ids`, or -1."""
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= indptr.size - 1:
            return i
        low, high = indptr[row], indptr[row + 1]
        if low < 0 or high < low or high > time.size:
            return i
        first = low
        while low < high:
            middle = (low + high) // 2
            if time[middle] < before[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low - 1 if low > first else -1
    return -1

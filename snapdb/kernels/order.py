"""A shuffle that is a pure function of its key."""

import numpy as np

from snapdb.arrays import Int64s
from snapdb.kernels.rng import fold_each


def shuffle(key: np.uint64, count: int) -> Int64s:
    """The numbers 0 ≤ i < count by ascending fold(key, i).

    There are no ties to break, as fold is a bijection of its part: any sort gives this order.
    """
    return np.argsort(fold_each(key, np.arange(count, dtype=np.int64))).astype(np.int64, copy=False)

"""Which rows of a snapshot are others than those of an earlier one on the same root."""

import numpy as np

from snapdb.arrays import Bools, Int64s, UInt64s
from snapdb.kernels.bits import mask_between
from snapdb.kernels.compiled import kernel
from snapdb.kernels.forms import RowArrays
from snapdb.kernels.spans import BLOCK, DEGREE, FIELDS, FIRST, KEPT, REST, SECOND, locate


@kernel
def mark_changed(before: RowArrays, after: RowArrays, same_patch: bool, nodes: Int64s, changed: Bools) -> bool:
    """Marks which of these nodes have other edges, or at other places; False: a row leads out of its arrays.

    Both stand on the same root. Where patches are not the same, rows that reach into one count as changed.
    """
    old, new = np.empty((BLOCK, FIELDS), np.int64), np.empty((BLOCK, FIELDS), np.int64)
    words, others = before.live.words, after.live.words
    for low in range(0, nodes.size, BLOCK):
        high = min(low + BLOCK, nodes.size)
        if not locate(before, nodes, low, high, high, old) or not locate(after, nodes, low, high, high, new):
            return False
        for i in range(high - low):
            same = True
            for field in (FIRST, KEPT, REST, DEGREE):
                same &= old[i, field] == new[i, field]
            if old[i, REST] > 0:
                same &= same_patch and old[i, SECOND] == new[i, SECOND]
            # As many edges count; where all do, none can have taken another's place.
            if same and old[i, DEGREE] < old[i, KEPT] + old[i, REST]:
                same = _same_bits(words, others, old[i, FIRST], old[i, KEPT])
                same &= _same_bits(words, others, old[i, SECOND], old[i, REST])
            changed[low + i] = not same
    return True


@kernel
def _same_bits(words: UInt64s, others: UInt64s, start: int, count: int) -> bool:
    stop = start + count
    for begin in range(start, stop, 64):
        end = min(begin + 64, stop)
        if mask_between(words, begin, end) != mask_between(others, begin, end):
            return False
    return True

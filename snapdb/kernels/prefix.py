"""How far rows go before a moment, found without reading them."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Int64s
from snapdb.errors import CorruptError
from snapdb.kernels.compiled import kernel
from snapdb.kernels.forms import DAMAGED, ByPosition, RowArrays, by_part
from snapdb.kernels.spans import BLOCK, FIELDS, FIRST, KEPT, REST, SECOND, locate_range

_SHARE = 1 << 20
"""Nodes that one thread takes at a time."""


def prefix_degrees(rows: RowArrays, time: ByPosition, stop: int) -> npt.NDArray[np.uint32]:
    """[nodes] how many edges of each row are before `stop`, by binary search: times ascend in every row.

    `rows` has no bitmap.

    Raises:
        CorruptError: a row leads out of its arrays.
    """
    degrees = np.zeros(rows.nodes, np.uint32)
    times = (by_part(time, 0, np.int64, rows.indices.size), by_part(time, 1, np.int64, rows.patch.indices.size))
    bounds = range(0, rows.nodes, _SHARE)
    with ThreadPoolExecutor(min(len(bounds), os.cpu_count() or 1) or 1) as threads:
        shares = [
            threads.submit(_search, rows, *times, stop, degrees, low, min(low + _SHARE, rows.nodes)) for low in bounds
        ]
    if not all(share.result() for share in shares):
        raise CorruptError(DAMAGED)
    return degrees


@kernel
def _search(
    rows: RowArrays, root: Int64s, patch: Int64s, stop: int, degrees: npt.NDArray[np.uint32], begin: int, end: int
) -> bool:
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    held = rows.indices.size
    for low in range(begin, end, BLOCK):
        count = min(BLOCK, end - low)
        if not locate_range(rows, low, count, nodes, spans):
            return False
        for i in range(count):
            early = _before(root, spans[i, FIRST], spans[i, KEPT], stop)
            if early == spans[i, KEPT] and spans[i, REST] > 0:
                early += _before(patch, spans[i, SECOND] - held, spans[i, REST], stop)
            degrees[low + i] = early
    return True


@kernel
def _before(time: Int64s, first: int, count: int, stop: int) -> int:
    """How many of `count` ascending times from `first` are before stop; its branches depend on `count` alone."""
    low = first
    while count > 1:
        half = count >> 1
        low += half if time[low + half - 1] < stop else 0
        count -= half
    return low - first + int(count == 1 and time[low] < stop)

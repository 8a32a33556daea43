"""Pages of memory maps that are larger than memory, requested before they are read.

Linux reads no page ahead in a map with random access, so each page fault waits for the disk. MADV_WILLNEED starts reads
without waiting: if the pages of a block of rows are requested together, the disk serves many requests in parallel.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np
from numba import types

from snapdb.arrays import Array, Int64s
from snapdb.kernels.compiled import kernel

_BLOCK = 1 << 12
"""The number of rows whose pages are requested together. With more, pages could be evicted before they are read."""
_SEARCHED = 16
"""The most pages of a range that are requested. A binary search of a longer range reads fewer pages."""
_WILLNEED = getattr(mmap, "MADV_WILLNEED", -1)
"""The advice that requests pages, or -1 if the system has none."""

_madvise = types.ExternalFunction("madvise", types.int32(types.uintp, types.uintp, types.int32))


def stages(count: int, depth: int, mapped: bool) -> Iterator[list[slice]]:
    """Yield the blocks of a pipeline of `depth` stages, step by step: all but the last stage request pages.

    A block enters a stage in the step after it was in the stage before, so the disk reads one block while the processor
    copies another. Unless the rows are `mapped`, all `count` of them are one block, in the last stage.

    >>> [[(block.start, block.stop) for block in blocks] for blocks in stages(1, 2, mapped=True)]
    [[(0, 4096), (0, 0)], [(4096, 8192), (0, 4096)]]
    >>> list(stages(5000, 2, mapped=False))
    [[slice(0, 0, None), slice(0, 5000, None)]]
    """
    if not mapped or _WILLNEED < 0:
        yield [*[slice(0, 0)] * (depth - 1), slice(0, count)]
        return
    for first in range(0, count + (depth - 1) * _BLOCK, _BLOCK):
        starts = [first - stage * _BLOCK for stage in range(depth)]
        yield [slice(max(0, start), max(0, start + _BLOCK)) for start in starts]


def request_rows(rows: Array, ids: Array) -> None:
    """Request the pages of rows of a contiguous array. Ids that are not rows are ignored.

    Args:
        rows: [rows, ...] the array, which has at least one row.
        ids: [n] int32 or int64, read-only.
    """
    _request_rows(rows.ctypes.data, rows.nbytes // rows.shape[0], rows.shape[0], ids, mmap.PAGESIZE)


def request_ranges(values: Array, bounds: Int64s, ids: Int64s) -> None:
    """Request the pages of values[bounds[i]:bounds[i + 1]] for each id i. Ids and ranges that do not exist are ignored.

    Args:
        values: [values] a contiguous array.
        bounds: [rows + 1] int64, read-only.
        ids: [n] int64, read-only.
    """
    _request_ranges(values.ctypes.data, values.itemsize, values.size, bounds, ids, mmap.PAGESIZE)


@kernel
def request_bytes(start: int, stop: int, page: int) -> None:
    """Request the pages of the addresses from `start` up to `stop`, which is greater."""
    first, past = start // page, (stop - 1) // page + 1
    _madvise(np.uint64(first * page), np.uint64((past - first) * page), np.int32(_WILLNEED))


@kernel
def _request_rows(base: int, width: int, count: int, ids: Array, page: int) -> None:
    """`request_rows` for rows of `width` bytes from the address `base` on, in O(1) per row."""
    for i in range(ids.size):
        row = ids[i]
        if 0 <= row < count:
            request_bytes(base + row * width, base + (row + 1) * width, page)


@kernel
def _request_ranges(base: int, width: int, count: int, bounds: Int64s, ids: Int64s, page: int) -> None:
    """`request_ranges` for values of `width` bytes from the address `base` on, in O(1) per range."""
    for i in range(ids.size):
        row = ids[i]
        if 0 <= row < bounds.size - 1:
            low, high = bounds[row], bounds[row + 1]
            if 0 <= low < high <= count and (high - low) * width <= _SEARCHED * page:
                request_bytes(base + low * width, base + high * width, page)

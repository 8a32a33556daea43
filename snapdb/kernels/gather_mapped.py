"""Rows of a memory map that memory cannot hold: the disk is asked for many pages at once, before the first is read.

A read of a page that is not in memory waits for the disk, one page after another; a disk that is asked for thousands
brings them many times as fast. The pages of a block of rows come while the rows of the block before are copied.
"""

import mmap

import numpy as np
from numba import types

from snapdb.arrays import Array, Int64s
from snapdb.kernels import buffers
from snapdb.kernels.compiled import kernel
from snapdb.kernels.gather import as_words, gather, gather_rows

_BLOCK = 1 << 12
"""Rows whose pages are on their way at once: more of them could go again before they are read."""

_madvise = types.ExternalFunction("madvise", types.int32(types.uintp, types.uintp, types.int32))


def gather_mapped(rows: Array, ids: Array) -> Array:
    """What `gather` gives, with its errors, for `rows` of a map whose advice is to read no page ahead."""
    if rows.dtype.hasobject or not rows.flags.c_contiguous or 0 in rows.shape or not hasattr(mmap, "MADV_WILLNEED"):
        return gather(rows, ids)
    numbers = as_words(ids.astype(np.int64, copy=False)).view(np.int64)
    out = buffers.empty((numbers.size, *rows.shape[1:]), rows.dtype)
    base, width = int(rows.ctypes.data), rows.nbytes // rows.shape[0]
    for first in range(0, numbers.size + _BLOCK, _BLOCK):
        _ask(base, width, rows.shape[0], numbers[first : first + _BLOCK], mmap.PAGESIZE, mmap.MADV_WILLNEED)
        done = slice(max(0, first - _BLOCK), first)
        gather_rows(rows, numbers[done], out[done])
    return out


@kernel
def _ask(base: int, width: int, count: int, ids: Int64s, page: int, advice: int) -> None:
    """Asks for the pages of these rows, of which those that are no rows are passed."""
    for i in range(ids.size):
        row = ids[i]
        if 0 <= row < count:
            first = (base + row * width) // page
            past = (base + (row + 1) * width - 1) // page + 1
            _madvise(np.uint64(first * page), np.uint64((past - first) * page), np.int32(advice))

"""Big arrays in recycled memory: a page's first touch costs more than the row that is copied there.

In a virtual machine it may cost microseconds, because the host takes a page of its own for it. So the blocks of a batch
serve the next one, whose arrays are about as large: each block has some room to spare, and a free one that is somewhat
larger is taken rather than a fresh one. Blocks are reused from stream to stream, until the database is closed.
"""

from collections import deque
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Array, UInt8s

_SMALLEST = 1 << 18
"""Bytes below which the C library's own recycling does."""
_KEPT = 8
"""Free blocks of one size that wait for their next use."""
_ALIGNMENT = 64
_LARGER = 4
"""Size classes above its own in which an array looks for a free block: it may take half as much again."""

_free: dict[int, deque[UInt8s]] = {}


class _Lease:
    """A block on loan: numpy keeps it alive as long as any array or tensor sees the block, then it comes back."""

    __slots__ = ("__array_interface__", "block", "size")

    def __init__(self, size: int) -> None:
        self.size, self.block = _take(size)
        address = self.block.ctypes.data
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address + -address % _ALIGNMENT, False),
            "version": 3,
        }

    def __del__(self, free: dict[int, deque[UInt8s]] = _free) -> None:
        # Runs at any moment in any thread: each step is atomic, and a lost race only costs a block its next use.
        free.setdefault(self.size, deque(maxlen=_KEPT)).append(self.block)


def empty(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """A writable C-contiguous array of anything, as np.empty gives, in memory that an earlier one may have left."""
    kind = np.dtype(dtype)
    count = 1
    for extent in shape:
        count *= extent
    wanted = count * kind.itemsize
    if wanted < _SMALLEST:
        return np.empty(shape, kind)
    return np.asarray(_Lease(_size_class(wanted)))[:wanted].view(kind).reshape(shape)


def free_bytes() -> int:
    """How many bytes wait in free blocks."""
    return sum(size * len(blocks) for size, blocks in list(_free.items()))


def keep_free(blocks: int) -> None:
    """Return free blocks to the system, all but `blocks` of each size."""
    for free in list(_free.values()):
        while len(free) > blocks:
            with suppress(IndexError):  # another thread took it meanwhile
                free.popleft()


def release_free() -> None:
    """Return the free blocks to the system; those on loan stay valid, and are free later."""
    _free.clear()


def _take(wanted: int) -> tuple[int, UInt8s]:
    """A block of at least this many bytes, which is a size class, and its size."""
    size = wanted
    for _ in range(_LARGER + 1):
        with suppress(KeyError, IndexError):
            return size, _free[size].pop()
        size = _size_class(size + 1)
    size = _size_class(wanted + 1)  # room to spare: memory that no batch touches takes no page
    return size, np.empty(size + _ALIGNMENT, np.uint8)


def _size_class(size: int) -> int:
    """The size rounded up to an eighth of its power of two."""
    step = 1 << max(size.bit_length() - 4, 0)
    return -(-size // step) * step

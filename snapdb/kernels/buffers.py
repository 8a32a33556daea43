"""Recycled memory for large arrays, because the first access to a page costs more than copying a row to it.

In a virtual machine, a page fault can cost microseconds, because the host also has to provide a page. The blocks of a
batch are therefore reused for the next batch, whose arrays have about the same size. Each block has spare room, and a
free block that is somewhat larger is preferred to a new one. Streams share the blocks until the database is closed.
"""

from collections import deque
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Array, UInt8s

_SMALLEST = 1 << 18
"""The number of bytes below which the C library's allocator recycles memory well enough."""
_KEPT = 8
"""The number of free blocks per size class that are kept for reuse."""
_ALIGNMENT = 64
"""The alignment of arrays in bytes, which is the size of a cache line. Non-temporal stores require it."""
_LARGER = 4
"""The number of larger size classes that are searched for a free block. The block is then at most 1.5 times as
large."""

_free: dict[int, deque[UInt8s]] = {}


class _Lease:
    """A block on loan.

    The block is free again once no array or tensor refers to it. Until then, numpy keeps the lease alive.
    """

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
        # The garbage collector can run this at any time in any thread, so it acquires no lock. Each step is atomic
        # under the GIL, and a lost race only wastes a block. `free` is bound early because module globals may no longer
        # exist at exit.
        free.setdefault(self.size, deque(maxlen=_KEPT)).append(self.block)


def empty(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Return a writable, uninitialized, C-contiguous array, like np.empty. Large arrays are in recycled memory."""
    kind = np.dtype(dtype)
    count = 1
    for extent in shape:
        count *= extent
    wanted = count * kind.itemsize
    if wanted < _SMALLEST:
        return np.empty(shape, kind)
    return np.asarray(_Lease(_size_class(wanted)))[:wanted].view(kind).reshape(shape)


def free_bytes() -> int:
    """Return the total size of free blocks in bytes."""
    return sum(size * len(blocks) for size, blocks in list(_free.items()))


def keep_free(blocks: int) -> None:
    """Return free blocks to the system, except `blocks` blocks of each size."""
    for free in list(_free.values()):
        while len(free) > blocks:
            with suppress(IndexError):  # another thread took it first
                free.popleft()


def release_free() -> None:
    """Return all free blocks to the system. Blocks on loan remain valid, and are released for reuse later."""
    _free.clear()


def _take(wanted: int) -> tuple[int, UInt8s]:
    """Return a block of at least `wanted` bytes, rounded up to a size class, and its size in bytes."""
    size = wanted
    for _ in range(_LARGER + 1):
        with suppress(KeyError, IndexError):
            return size, _free[size].pop()
        size = _size_class(size + 1)
    # The spare room is for somewhat larger batches. A page that no batch accesses occupies no memory.
    size = _size_class(wanted + 1)
    return size, np.empty(size + _ALIGNMENT, np.uint8)


def _size_class(size: int) -> int:
    """Return the size rounded up to a multiple of an eighth of its power of two."""
    step = 1 << max(size.bit_length() - 4, 0)
    return -(-size // step) * step

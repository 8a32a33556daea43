"""Recycled memory for big arrays: the first touch of a page costs more than the row that is copied there.

In a virtual machine a page fault may cost microseconds, because the host has to provide a page too. So the blocks of a
batch serve the next one, whose arrays have about the same size: each block has spare room, and a free one that is
somewhat larger is preferred to a new one. Blocks are reused from stream to stream, until the database is closed.
"""

from collections import deque
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Array, UInt8s

_SMALLEST = 1 << 18
"""Bytes below which the C library's allocator recycles memory well enough."""
_KEPT = 8
"""Free blocks kept for reuse, per size class."""
_ALIGNMENT = 64
"""Bytes to which arrays are aligned: a cache line, as non-temporal stores need."""
_LARGER = 4
"""How many larger size classes an array searches for a free block; the block is up to half as large again."""

_free: dict[int, deque[UInt8s]] = {}


class _Lease:
    """A block on loan, which is free again once no array or tensor sees it: numpy keeps the lease alive until then."""

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
        # The garbage collector runs this at any moment in any thread, so it takes no lock: each step is atomic under
        # the GIL, and a lost race only wastes a block. `free` is bound early as module globals may be gone at exit.
        free.setdefault(self.size, deque(maxlen=_KEPT)).append(self.block)


def empty(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """A writable, uninitialized C-contiguous array, like np.empty, in recycled memory where it is large."""
    kind = np.dtype(dtype)
    count = 1
    for extent in shape:
        count *= extent
    wanted = count * kind.itemsize
    if wanted < _SMALLEST:
        return np.empty(shape, kind)
    return np.asarray(_Lease(_size_class(wanted)))[:wanted].view(kind).reshape(shape)


def free_bytes() -> int:
    """The bytes of free blocks."""
    return sum(size * len(blocks) for size, blocks in list(_free.items()))


def keep_free(blocks: int) -> None:
    """Returns free blocks to the system, all but `blocks` of each size."""
    for free in list(_free.values()):
        while len(free) > blocks:
            with suppress(IndexError):  # another thread took it meanwhile
                free.popleft()


def release_free() -> None:
    """Returns all free blocks to the system; those on loan stay valid, and are freed for reuse later."""
    _free.clear()


def _take(wanted: int) -> tuple[int, UInt8s]:
    """A block of at least this many bytes, which is a size class, and its size in bytes."""
    size = wanted
    for _ in range(_LARGER + 1):
        with suppress(KeyError, IndexError):
            return size, _free[size].pop()
        size = _size_class(size + 1)
    # Spare room for somewhat larger batches: a page that no batch touches takes no memory.
    size = _size_class(wanted + 1)
    return size, np.empty(size + _ALIGNMENT, np.uint8)


def _size_class(size: int) -> int:
    """The size rounded up to an eighth of its power of two."""
    step = 1 << max(size.bit_length() - 4, 0)
    return -(-size // step) * step

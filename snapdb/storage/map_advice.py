"""What the system is told of memory maps that are read at random places: big pages, or a page at a time."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.storage.available import available_memory

_HUGE_PAGE = 1 << 21


def prefer_huge_pages(array: npt.NDArray[Any]) -> None:
    """Lets a fresh memory map use big pages, where the system has them for files: random reads then find pages faster.

    A file of a large share of memory is left alone: what it needs must come in small pieces, and go.
    """
    if array.nbytes >= _HUGE_PAGE and array.nbytes <= available_memory() // 4:
        _advise(array, "MADV_HUGEPAGE")


def read_singly(arrays: Sequence[npt.NDArray[Any]], room: int) -> bool:
    """Whether these arrays do not fit into `room` bytes together; their maps then give a page at a time, and no more.

    What the system would read ahead of random reads is not needed, and would push out what is.
    """
    mapped = [array for array in arrays if isinstance(_root(array), mmap.mmap) and array.nbytes >= _HUGE_PAGE]
    if not mapped or not hasattr(mmap, "MADV_RANDOM"):
        return False
    if sum(array.nbytes for array in mapped) <= room:
        return False
    for array in mapped:
        _advise(array, "MADV_NOHUGEPAGE")  # a big page would be read whole all the same
        _advise(array, "MADV_RANDOM")
    return True


def _advise(array: npt.NDArray[Any], advice: str) -> None:
    with suppress(AttributeError, OSError, ValueError):  # not this system's, or not this kernel's
        if isinstance(root := _root(array), mmap.mmap):
            root.madvise(getattr(mmap, advice))


def _root(array: npt.NDArray[Any]) -> object:
    """What holds an array's memory."""
    held: object = array
    while isinstance(held, np.ndarray):
        held = held.base
    return held.obj if isinstance(held, memoryview) else held

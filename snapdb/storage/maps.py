"""Memory-mapped arrays by their files: whether two are of the same one, and the same values read from end to end."""

from __future__ import annotations

import mmap
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_SMALL = 1 << 21
"""Bytes up to which a map of its own is not worth its pages."""


class _Place(NamedTuple):
    """Where an array lies."""

    file: str
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def same_values(one: Array, other: Array) -> bool:
    """Whether two arrays are equal. Those of two files of a database are taken for different, and are not read.

    What is published under a name never changes.
    """
    if one is other or one.dtype != other.dtype or one.shape != other.shape:
        return one is other
    places = _place(one), _place(other)
    if places == (None, None):
        return np.array_equal(one, other)
    return places[0] == places[1]


def in_order(array: Array) -> Array:
    """The same values, for someone who reads them once from the first to the last; read-only.

    Those of a large file come through a map of their own: the system reads ahead of it and soon forgets what was read,
    whatever it was told of the map that others read at random places.
    """
    place = _place(array) if array.nbytes > _SMALL else None
    if place is None:
        return array
    try:
        fresh = np.memmap(place.file, place.dtype, "r", place.offset, place.shape)
    except (OSError, ValueError):  # the file's name is gone; the map that is there stays good
        return array
    base: object = fresh.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_SEQUENTIAL"):
        base.madvise(mmap.MADV_SEQUENTIAL)
    return fresh.view(np.ndarray)


def _place(array: Array) -> _Place | None:
    """None: it is of no file that has a name, or its values do not follow each other there."""
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if not isinstance(root, np.memmap) or root.filename is None or not array.flags.c_contiguous:
        return None
    inside = array.ctypes.data - root.ctypes.data
    return _Place(str(root.filename), root.offset + inside, array.dtype, array.shape)

"""Rows of an array by their numbers, as fast as memory gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.kernels import buffers
from snapdb.kernels.compiled import kernel

__all__ = ["as_words", "gather"]

_WORDS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}


def gather(rows: npt.NDArray[Any], ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A new array of rows' dtype: [n] or [n, width] for `rows` of one or two dimensions, where row i is rows[ids[i]].

    Raises IndexError when an id is not a row. Values are copied bit for bit; `rows` may be memory-mapped. Big results
    live in recycled memory (`buffers`). An array that is not contiguous, or of an odd type, goes the way of numpy.
    """
    numbers = np.ascontiguousarray(ids, dtype=np.int64)
    word = _WORDS.get(rows.dtype.itemsize)
    if word is None or rows.dtype.hasobject or rows.ndim > 2 or not rows.flags.c_contiguous or not rows.flags.aligned:
        return np.take(rows, numbers, axis=0)
    out = buffers.empty((numbers.size, *rows.shape[1:]), rows.dtype)
    bad = (_gather_values if rows.ndim == 1 else _gather_rows)(as_words(rows), numbers, out.view(word))
    if bad >= 0:
        raise IndexError(f"row {numbers[bad]} was asked, but there are {rows.shape[0]} rows (ids count from 0)")
    return out


def as_words(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same memory, copied if it must be, as unsigned numbers of its items' size, read-only.

    Kernels that only copy are compiled once for a size then, not once for a type.
    """
    words = np.ascontiguousarray(array).view(_WORDS[array.dtype.itemsize]).view(np.ndarray)
    words.flags.writeable = False  # numba compiles read-only arrays apart: let all be of that kind
    return words


@kernel
def _gather_rows(rows: npt.NDArray[Any], ids: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> int:
    """out[i] = rows[ids[i]] element by element, which numba turns into wide moves; the first bad index, or -1."""
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= rows.shape[0]:
            return i
        for j in range(rows.shape[1]):
            out[i, j] = rows[row, j]
    return -1


@kernel
def _gather_values(rows: npt.NDArray[Any], ids: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> int:
    """out[i] = rows[ids[i]]; the first bad index, or -1."""
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= rows.shape[0]:
            return i
        out[i] = rows[row]
    return -1

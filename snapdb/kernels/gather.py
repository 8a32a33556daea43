"""Rows of an array by their numbers, as fast as memory gives them.

Rows are asked for some time before they are read, for hardware does not foresee random ones. Big results go past the
caches in whole lines, which are written without being read first: a line that spans two rows is put together in a
small buffer, so that rows may be of any width.
"""

import platform
from typing import Any

import numpy as np

from snapdb.arrays import Array, Int64s, UInt8s
from snapdb.kernels import buffers
from snapdb.kernels.compiled import kernel
from snapdb.kernels.intrinsics import copy_line, fence_streams, prefetch, stream_line

STREAMED = 1 << 22 if platform.machine() in {"x86_64", "AMD64"} else 1 << 62
"""Bytes from which a result goes past the caches: a smaller one is still there when it is used."""
_LINE = 64
"""Bytes that caches and memory exchange."""
_FORESEEN = 4096
"""About so many bytes of rows are asked for ahead: more would not stay in the nearest cache."""
FEWEST, MOST = 2, 16
"""Rows that are asked for ahead."""

_WORDS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}


def gather(rows: Array, ids: Array) -> Array:
    """A new array of rows' dtype: [n, ...] for `rows` of one or more dimensions, where row i is rows[ids[i]].

    Raises IndexError when an id is not a row. Values are copied bit for bit; `rows` may be memory-mapped. Big results
    live in recycled memory (`buffers`). An array that is not contiguous, or of objects, goes the way of numpy.
    """
    numbers = as_words(ids if ids.dtype == np.int64 else ids.astype(np.int64)).view(np.int64)
    if rows.dtype.hasobject or not rows.flags.c_contiguous or 0 in rows.shape or rows.dtype.itemsize == 0:
        return np.take(rows, numbers, axis=0)
    out = buffers.empty((numbers.size, *rows.shape[1:]), rows.dtype)
    gather_rows(rows, numbers, out)
    return out


def gather_rows(rows: Array, numbers: Int64s, out: Array) -> None:
    """The same into an array that is there, all of them contiguous; `numbers` are read-only, as `as_words` gives."""
    if rows.ndim == 1 and rows.dtype.itemsize in _WORDS and rows.flags.aligned:
        bad = _gather_values(as_words(rows), numbers, out.view(_WORDS[rows.dtype.itemsize]))
    else:
        bad = _gather_bytes(as_words(_as_bytes(rows)), rows.shape[0], numbers, _as_bytes(out))
    if bad >= 0:
        raise IndexError(f"row {numbers[bad]} was asked, but there are {rows.shape[0]} rows (ids count from 0)")


def as_words(array: Array) -> Array:
    """The same memory, copied if it must be, as unsigned numbers of its items' size, read-only.

    Kernels that only copy are compiled once for a size then, not once for a type.
    """
    words = np.ascontiguousarray(array).view(_WORDS[array.dtype.itemsize]).view(np.ndarray)
    words.flags.writeable = False  # numba compiles read-only arrays apart: let all be of that kind
    return words


def _as_bytes(array: Array) -> UInt8s:
    """The memory of a contiguous array."""
    return array.view(np.ndarray).reshape(-1).view(np.uint8)


def _gather_bytes(rows: UInt8s, count: int, ids: Int64s, out: UInt8s) -> int:
    """Rows of any width and type; the index of the first bad id, or -1."""
    width = rows.size // count
    ahead = max(FEWEST, min(_FORESEEN // width, MOST))
    if width >= _LINE and out.size >= STREAMED and out.ctypes.data % _LINE == 0:
        return int(_stream_rows(rows, width, ids, out, ahead, np.empty(3 * _LINE, np.uint8)))
    return int(_copy_rows(rows, width, ids, out, ahead))


@kernel
def _stream_rows(rows: UInt8s, width: int, ids: Int64s, out: UInt8s, ahead: int, spliced: UInt8s) -> int:
    """Writes each row of at least a line to `out` in whole lines; the first bad index, or -1.

    What is left of a row when no whole line is, `left` bytes, waits in spliced[LINE:]. Moves of a whole line fill it,
    over bytes that do not count: none of them reads beyond its row, and most of a copy is as fast as one line.
    """
    count = rows.size // width
    reach = min(width, _FORESEEN)
    at, left = np.int64(0), np.int64(0)
    bad = np.int64(-1)
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= count:
            bad = np.int64(i)
            break
        coming = ids[min(i + ahead, ids.size - 1)] * width
        for byte in range(0, reach, _LINE):
            prefetch(rows, coming + byte)
        here = row * width
        end = here + width
        if left > 0:
            copy_line(spliced, _LINE + left, rows, here)
            stream_line(out, at, spliced, _LINE)
            at += _LINE
            here += _LINE - left
        while here + _LINE <= end:
            stream_line(out, at, rows, here)
            at += _LINE
            here += _LINE
        left = end - here
        if left > 0:
            copy_line(spliced, left, rows, end - _LINE)
    for byte in range(left):
        out[at + byte] = spliced[_LINE + byte]
    fence_streams()
    return int(bad)


@kernel
def _copy_rows(rows: UInt8s, width: int, ids: Int64s, out: UInt8s, ahead: int) -> int:
    """Writes each row to `out`; the first bad index, or -1."""
    count = rows.size // width
    reach = min(width, _FORESEEN)
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= count:
            return i
        coming = ids[min(i + ahead, ids.size - 1)] * width
        for byte in range(0, reach, _LINE):
            prefetch(rows, coming + byte)
        here, at = row * width, i * width
        for byte in range(width):
            out[at + byte] = rows[here + byte]
    return -1


@kernel
def _gather_values(rows: Array, ids: Int64s, out: Array) -> int:
    """out[i] = rows[ids[i]]; the first bad index, or -1."""
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= rows.shape[0]:
            return i
        prefetch(rows, ids[min(i + 2 * MOST, ids.size - 1)])
        out[i] = rows[row]
    return -1

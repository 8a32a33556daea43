"""Gathering of array rows by number, at memory bandwidth.

Rows are prefetched because the hardware prefetcher cannot predict random ones. Big results are written past the caches
in whole lines by non-temporal stores, which do not read a line before they write it. A line that spans two rows is
assembled in a small buffer, so that rows may have any width.
"""

from __future__ import annotations

import mmap
import platform
from typing import Any, NamedTuple

import numpy as np

from snapdb.arrays import Array, Int64s, UInt8s, UInt64s
from snapdb.errors import CorruptError
from snapdb.kernels import buffers
from snapdb.kernels.bits import count_bits
from snapdb.kernels.compiled import copy_line, fence_streams, kernel, prefetch, stream_line
from snapdb.kernels.read_ahead import request_bytes, request_ranges, request_rows, stages

STREAMED = 1 << 22 if platform.machine() in {"x86_64", "AMD64"} else 1 << 62
"""The size in bytes from which a result is written past the caches. A smaller result is still cached when it is
used."""
_LINE = 64
"""The size of a cache line in bytes."""
_FORESEEN = 8192
"""The maximum number of bytes of rows that are prefetched. More would not stay in the first-level cache."""
_MANY = 1 << 12
"""The number of int32 ids from which a kernel for int32 is compiled. Fewer ids are converted to int64, in
microseconds."""
FEWEST, MOST = 2, 16
"""The minimum and maximum number of rows that are prefetched."""

_WORDS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}
"""Unsigned dtypes by item size in bytes. All types of one size share one compiled kernel."""


def gather(rows: Array, ids: Array) -> Array:
    """A new array with the dtype of `rows`: [n, ...] for `rows` of one or more dimensions, where row i is rows[ids[i]].

    Values are copied bit for bit. `rows` may be memory-mapped. Big results are in recycled memory (`buffers`). Arrays
    that are not contiguous, and arrays of objects, are gathered by numpy.

    Raises:
        IndexError: An id is not a row.
    """
    numbers = _numbers(ids)
    if rows.dtype.hasobject or not rows.flags.c_contiguous or 0 in rows.shape or rows.dtype.itemsize == 0:
        return np.take(rows, numbers, axis=0)
    out = buffers.empty((numbers.size, *rows.shape[1:]), rows.dtype)
    _gather_rows(rows, numbers, out)
    return out


def _gather_rows(rows: Array, numbers: Array, out: Array) -> None:
    """`gather` into an existing array. All arrays are contiguous, and `numbers` come from `_numbers`."""
    if rows.ndim == 1 and rows.dtype.itemsize in _WORDS and rows.flags.aligned:
        bad = _gather_values(_as_words(rows), numbers, out.view(_WORDS[rows.dtype.itemsize]))
    else:
        bad = _gather_bytes(_as_words(_as_bytes(rows)), rows.shape[0], numbers, _as_bytes(out))
    if bad >= 0:
        raise IndexError(f"row {numbers[bad]} does not exist: there are {rows.shape[0]} rows (numbered from 0)")


def _as_words(array: Array) -> Array:
    """The same memory as read-only unsigned numbers of its items' size, copied only if it is not contiguous.

    Kernels that only copy are thus compiled once per item size, not once per dtype.
    """
    words = np.ascontiguousarray(array).view(_WORDS[array.dtype.itemsize]).view(np.ndarray)
    # numba compiles one variant for writable arrays and one for read-only arrays: use only one of them.
    words.flags.writeable = False
    return words


def _numbers(ids: Array) -> Array:
    """The ids as a read-only int64 array, or as int32 if they are int32 and at least _MANY."""
    narrow = ids.dtype == np.int32 and ids.size >= _MANY
    wide = ids if narrow else ids.astype(np.int64, copy=False)
    return _as_words(wide).view(wide.dtype)


def _as_bytes(array: Array) -> UInt8s:
    """The memory of a contiguous array as bytes."""
    return array.view(np.ndarray).reshape(-1).view(np.uint8)


def _gather_bytes(rows: UInt8s, count: int, ids: Array, out: UInt8s) -> int:
    """Gather rows of any width and dtype and return the index of the first bad id, or -1."""
    width = rows.size // count
    ahead = max(FEWEST, min(_FORESEEN // width, MOST))
    if width >= _LINE and out.size >= STREAMED and out.ctypes.data % _LINE == 0:
        return int(_stream_rows(rows, width, ids, out, ahead, np.empty(3 * _LINE, np.uint8)))
    return int(_copy_rows(rows, width, ids, out, ahead))


# Non-temporal stores in whole cache lines: a plain store reads its line first, so that a gather of a large result moves
# three bytes per byte instead of two, and evicts data that the batch needs next.
@kernel
def _stream_rows(rows: UInt8s, width: int, ids: Array, out: UInt8s, ahead: int, spliced: UInt8s) -> int:
    """Write each row, which is at least a line long, to `out` in whole lines and return the first bad index, or -1.

    The last `left` bytes of a row, after its whole lines, are buffered in spliced[LINE:]. They are copied as a whole
    line, whose other bytes do not matter, so that no copy reads beyond its row and all copies have the same length.
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


# Prefetching `ahead` rows hides the latency of random reads: without it the memory serves one row after another.
@kernel
def _copy_rows(rows: UInt8s, width: int, ids: Array, out: UInt8s, ahead: int) -> int:
    """Copy each row to `out` and return the first bad index, or -1."""
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
def _gather_values(rows: Array, ids: Array, out: Array) -> int:
    """Fill out[i] with rows[ids[i]] and return the first bad index, or -1."""
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= rows.shape[0]:
            return i
        prefetch(rows, ids[min(i + 2 * MOST, ids.size - 1)])
        out[i] = rows[row]
    return -1


def gather_mapped(rows: Array, ids: Array) -> Array:
    """`gather` for a memory map that is advised against readahead, with the same result and errors."""
    if rows.dtype.hasobject or not rows.flags.c_contiguous or 0 in rows.shape:
        return gather(rows, ids)
    numbers = _numbers(ids)
    out = buffers.empty((numbers.size, *rows.shape[1:]), rows.dtype)
    for coming, ready in stages(numbers.size, 2, mapped=True):
        if coming.stop > 0:
            request_rows(rows, numbers[coming])
        _gather_rows(rows, numbers[ready], out[ready])
    return out


# Rows with an overlay: newer rows are in a separate array, found by a rank query on a bitmap, O(1) per row.
class Overlay(NamedTuple):
    """The bitmap of ids that have a newer row."""

    words: UInt64s
    """One bit per id. Ids beyond the bitmap have no newer row."""
    ranks: Int64s
    """[words] the number of bits set before each word."""


class Csr(NamedTuple):
    """Sparse rows in CSR form: row i has `indices[indptr[i]:indptr[i + 1]]`, ascending, and their values."""

    indptr: Int64s
    """[rows + 1] where each row starts."""
    indices: Array
    """Column numbers, int32 or int64."""
    values: Array
    """The value of each index."""


def _read_only(array: Array) -> Array:
    """A read-only view, because these kernels are compiled only for read-only arrays."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


NOTHING = Overlay(_read_only(np.empty(0, np.uint64)), _read_only(np.empty(0, np.int64)))
"""The overlay in which no id has a newer row."""


def overlay(ids: Int64s, count: int) -> Overlay:
    """The overlay whose newer row i belongs to ids[i]. The ids ascend, and 0 ≤ id < count."""
    words = np.zeros(-(-count // 64), np.uint64)
    ranks = np.zeros(words.size, np.int64)
    _mark(_read_only(np.asarray(ids, np.int64)), words, ranks)
    return Overlay(_read_only(words), _read_only(ranks))


def truncated(marks: Overlay, stop: int, count: int) -> Overlay:
    """The overlay of the marked ids below `stop`, for 0 ≤ id < count. Their ranks do not change."""
    words = np.zeros(-(-count // 64), np.uint64)
    whole, rest = divmod(stop, 64)
    words[:whole] = marks.words[:whole]
    if rest:
        words[whole] = marks.words[whole] & np.uint64((1 << rest) - 1)
    bits = np.bitwise_count(words).astype(np.int64)
    return Overlay(_read_only(words), _read_only(np.cumsum(bits) - bits))


def empty_csr(like: Csr) -> Csr:
    """A CSR without rows, with the dtypes of `like`."""
    return Csr(np.zeros(1, np.int64), like.indices[:0], like.values[:0])


def gather_over(
    rows: Array, newer: Array, marks: Overlay, fill: Any, count: int, ids: Array, mapped: bool = False
) -> Array:
    """A new array of the rows of ids: the newer row if there is one, else that of `rows`, else a row of `fill`.

    Args:
        rows: [any] or [any, width] the older rows.
        newer: [newer] or [newer, width] the newer rows, by rank among the marked ids.
        marks: The overlay that marks the ids with a newer row.
        fill: The value for rows that are in neither array.
        count: The number of rows. Ids are 0 ≤ id < count.
        ids: [n] the rows to gather.
        mapped: Whether the arrays are memory maps that are advised against readahead.

    Raises:
        IndexError: An id is not 0 ≤ id < count.
    """
    numbers = _read_only(np.ascontiguousarray(ids, np.int64))
    out = buffers.empty((numbers.size, *rows.shape[1:]), rows.dtype)
    width = 1 if rows.ndim == 1 else rows.shape[1]
    blank = _as_words(np.full(width, fill, rows.dtype))
    old, new = (_as_words(array.reshape(array.shape[0], width)) for array in (rows, newer))
    target = out.reshape(numbers.size, width).view(blank.dtype)
    for coming, ready in stages(numbers.size, 2, mapped):
        if coming.stop > 0:
            _request_over(old, old.ctypes.data, new, new.ctypes.data, marks, numbers[coming], mmap.PAGESIZE)
        bad = _gather_over(old, new, marks, blank, count, numbers[ready], target[ready])
        if bad >= 0:
            raise IndexError(f"row {numbers[ready][bad]} does not exist: there are {count} rows (numbered from 0)")
    return out


def find_rows(rows: int, newer: int, marks: Overlay, count: int, ids: Array) -> Int64s:
    """[n] where each id's row is among the older rows followed by the newer ones, or -1 if it is in neither.

    Args:
        rows: The number of older rows.
        newer: The number of newer rows.
        marks: The overlay that marks the ids with a newer row.
        count: The number of ids, 0 ≤ id < count.
        ids: [n] the ids.

    Raises:
        IndexError: An id is not 0 ≤ id < count.
    """
    numbers = _read_only(np.ascontiguousarray(ids, np.int64))
    out = np.empty(numbers.size, np.int64)
    bad = _find_rows(rows, newer, marks, count, numbers, out)
    if bad >= 0:
        raise IndexError(f"row {numbers[bad]} does not exist: there are {count} rows (numbered from 0)")
    return out


def gather_csr(rows: Csr, newer: Csr, marks: Overlay, ids: Array, count: int, width: int) -> Csr:
    """The rows of ids as new arrays, with int64 indices. Ids without a row get empty rows.

    Raises:
        IndexError: An id is not 0 ≤ id < count.
        CorruptError: A row extends beyond its arrays, or an index is not 0 ≤ index < width.
    """
    numbers = _read_only(np.ascontiguousarray(ids, np.int64))
    starts, indptr = np.empty(numbers.size, np.int64), np.zeros(numbers.size + 1, np.int64)
    old, new = _plain(rows), _plain(newer)
    bad = _measure(old, new, marks, count, numbers, starts, indptr)
    if bad >= 0 and not 0 <= numbers[bad] < count:
        raise IndexError(f"row {numbers[bad]} does not exist: there are {count} rows (numbered from 0)")
    values = np.empty(int(indptr[-1]), rows.values.dtype)
    indices = np.empty(values.size, np.int64)
    if bad < 0:
        bad = _copy(old, new, starts, width, Csr(indptr, indices, values.view(old.values.dtype)))
    if bad >= 0:
        raise CorruptError(
            f"the sparse feature of row {numbers[bad]} is damaged: an index is out of range; "
            "CHECK DATABASE lists the file"
        )
    return Csr(indptr, indices, values)


def _plain(csr: Csr) -> Csr:
    """A CSR of read-only contiguous arrays, with its values as unsigned words."""
    indices = _read_only(np.ascontiguousarray(csr.indices))
    return Csr(_read_only(np.ascontiguousarray(csr.indptr, np.int64)), indices, _as_words(csr.values))


@kernel
def _mark(ids: Int64s, words: UInt64s, ranks: Int64s) -> None:
    """Set the bit of each id, and fill `ranks` with the running count of bits before each word."""
    for i in range(ids.size):
        words[ids[i] >> 6] |= np.uint64(1) << np.uint64(ids[i] & 63)
    total = np.int64(0)
    for w in range(words.size):
        ranks[w] = total
        total += count_bits(words[w])


@kernel
def newer_row(marks: Overlay, id_: int) -> Any:
    """The number of an id's newer row, or -1."""
    words, word = marks.words, id_ >> 6
    if word >= words.size:
        return np.int64(-1)
    bits = words[word] >> np.uint64(id_ & 63)
    if not bits & np.uint64(1):
        return np.int64(-1)
    return marks.ranks[word] + count_bits(words[word]) - count_bits(bits)


@kernel
def _request_over(
    rows: Array, base: int, newer: Array, newer_base: int, marks: Overlay, ids: Int64s, page: int
) -> None:
    """Request the pages from which `_gather_over` reads; the arrays begin at the addresses `base` and `newer_base`."""
    width = rows.itemsize * rows.shape[1]
    for i in range(ids.size):
        row = ids[i]
        place = newer_row(marks, row) if row >= 0 else np.int64(-1)
        if 0 <= place < newer.shape[0]:
            request_bytes(newer_base + place * width, newer_base + (place + 1) * width, page)
        elif 0 <= row < rows.shape[0]:
            request_bytes(base + row * width, base + (row + 1) * width, page)


@kernel
def _gather_over(rows: Array, newer: Array, marks: Overlay, blank: Array, count: int, ids: Int64s, out: Array) -> int:
    """Fill `out` [n, width] and return the first invalid index into `ids`, or -1."""
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= count:
            return i
        place = newer_row(marks, row)
        if 0 <= place < newer.shape[0]:
            for j in range(out.shape[1]):
                out[i, j] = newer[place, j]
        elif row < rows.shape[0]:
            for j in range(out.shape[1]):
                out[i, j] = rows[row, j]
        else:
            for j in range(out.shape[1]):
                out[i, j] = blank[j]
    return -1


@kernel
def _find_rows(rows: int, newer: int, marks: Overlay, count: int, ids: Int64s, out: Int64s) -> int:
    """Fill `out` [n] and return the first invalid index into `ids`, or -1."""
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= count:
            return i
        place = newer_row(marks, row)
        if 0 <= place < newer:
            out[i] = rows + place
        else:
            out[i] = row if row < rows else -1
    return -1


@kernel
def _measure(old: Csr, new: Csr, marks: Overlay, count: int, ids: Int64s, starts: Int64s, indptr: Int64s) -> int:
    """Write the start of each row in its source (-1 - start for newer rows) and in the result.

    Returns the index of the first invalid id, or -1.
    """
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= count:
            return i
        place = newer_row(marks, row)
        first, last, size = np.int64(0), np.int64(0), old.values.size
        if 0 <= place < new.indptr.size - 1:
            first, last, size = new.indptr[place], new.indptr[place + 1], new.values.size
            starts[i] = -1 - first
        else:
            if row < old.indptr.size - 1:
                first, last = old.indptr[row], old.indptr[row + 1]
            starts[i] = first
        if first < 0 or last < first or last > size:
            return i
        indptr[i + 1] = indptr[i] + last - first
    return -1


@kernel
def _copy(old: Csr, new: Csr, starts: Int64s, width: int, out: Csr) -> int:
    """Copy the measured rows and return the first place with an index that is out of range, or -1."""
    for i in range(starts.size):
        at, length = out.indptr[i], out.indptr[i + 1] - out.indptr[i]
        for j in range(length):
            if starts[i] >= 0:
                out.indices[at + j] = old.indices[starts[i] + j]
                out.values[at + j] = old.values[starts[i] + j]
            else:
                out.indices[at + j] = new.indices[-1 - starts[i] + j]
                out.values[at + j] = new.values[-1 - starts[i] + j]
            if out.indices[at + j] < 0 or out.indices[at + j] >= width:
                return i
    return -1


# The last event of a row before a bound, by binary search: O(log row) each.
def last_before(indptr: Int64s, time: Int64s, ids: Array, before: Int64s, mapped: bool = False) -> Int64s:
    """[n] the last position of row ids[i] whose time is less than before[i], or -1. Of equal times it is the last one.

    Times ascend within a row. `mapped`: whether the arrays are memory maps that are advised against readahead.

    >>> last_before(np.array([0, 3]), np.array([5, 7, 7]), np.array([0, 0, 0]), np.array([5, 6, 8])).tolist()
    [-1, 0, 2]

    Raises:
        IndexError: An id is not a row.
        CorruptError: A row extends beyond the times.
    """
    numbers = np.ascontiguousarray(ids, np.int64)
    out = np.empty(numbers.size, np.int64)
    rows, times, wanted, bounds = (
        _read_only(np.ascontiguousarray(array, np.int64)) for array in (indptr, time, numbers, before)
    )
    # A row's bounds are read to find its times, so they are requested one block earlier.
    for first, coming, ready in stages(numbers.size, 3, mapped):
        if first.stop > 0 and times.size > 0:
            request_rows(rows, wanted[first])
            request_ranges(times, rows, wanted[coming])
        bad = _last_before(rows, times, wanted[ready], bounds[ready], out[ready])
        if bad >= 0:
            raise _damaged_history(int(wanted[ready][bad]), indptr.size - 1)
    return out


def _damaged_history(row: int, rows: int) -> Exception:
    """The error of a row that does not exist, or whose range is outside of the times."""
    if not 0 <= row < rows:
        return IndexError(f"row {row} does not exist: there are {rows} rows (numbered from 0)")
    return CorruptError(f"the history of row {row} is damaged: an index is out of range; CHECK DATABASE lists the file")


@kernel
def _last_before(indptr: Int64s, time: Int64s, ids: Int64s, before: Int64s, out: Int64s) -> int:
    """Fill `out` and return the index of the first invalid id, or -1."""
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= indptr.size - 1:
            return i
        low, high = indptr[row], indptr[row + 1]
        if low < 0 or high < low or high > time.size:
            return i
        first = low
        while low < high:
            middle = (low + high) // 2
            if time[middle] < before[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low - 1 if low > first else -1
    return -1

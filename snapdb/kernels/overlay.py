"""Rows of arrays of which some rows have newer values: the newer ones lie beside, found by a bitmap with ranks."""

from typing import Any, NamedTuple

import numpy as np

from snapdb.arrays import Array, Int64s, UInt64s
from snapdb.errors import CorruptError
from snapdb.kernels import buffers
from snapdb.kernels.bits import count_bits
from snapdb.kernels.compiled import kernel
from snapdb.kernels.gather import as_words


class Overlay(NamedTuple):
    """Which ids have a newer row."""

    words: UInt64s
    """A bit for each id; ids beyond have none."""
    ranks: Int64s
    """How many bits are set before each word."""


class Csr(NamedTuple):
    """Rows of pairs: row i has `indices[indptr[i]:indptr[i + 1]]`, ascending, and the values beside them."""

    indptr: Int64s
    indices: Array
    """int32 or int64."""
    values: Array


def _read_only(array: Array) -> Array:
    """The same numbers as an array of the one kind that kernels here are compiled for."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


NOTHING = Overlay(_read_only(np.empty(0, np.uint64)), _read_only(np.empty(0, np.int64)))
"""No id has a newer row."""


def overlay(ids: Int64s, count: int) -> Overlay:
    """The overlay whose newer row i is that of ids[i]; they ascend, and 0 ≤ id < count."""
    words = np.zeros(-(-count // 64), np.uint64)
    ranks = np.zeros(words.size, np.int64)
    _mark(_read_only(np.asarray(ids, np.int64)), words, ranks)
    return Overlay(_read_only(words), _read_only(ranks))


def empty_csr(like: Csr) -> Csr:
    """No rows, in the types of others."""
    return Csr(np.zeros(1, np.int64), like.indices[:0], like.values[:0])


def gather_over(rows: Array, newer: Array, marks: Overlay, fill: Any, count: int, ids: Array) -> Array:
    """A new array of the rows of ids: the newer one where there is one, else that of `rows`, else one of `fill`.

    Args:
        rows: [any] or [any, width].
        newer: The same, by rank among the marked ids.
        fill: The number that a row which neither has is full of.
        count: IndexError is raised when an id is not 0 ≤ id < count.
    """
    numbers = np.ascontiguousarray(ids, np.int64)
    out = buffers.empty((numbers.size, *rows.shape[1:]), rows.dtype)
    width = 1 if rows.ndim == 1 else rows.shape[1]
    blank = as_words(np.full(width, fill, rows.dtype))
    old, new = (as_words(array.reshape(array.shape[0], width)) for array in (rows, newer))
    target = out.reshape(numbers.size, width).view(blank.dtype)
    bad = _gather_over(old, new, marks.words, marks.ranks, blank, count, _read_only(numbers), target)
    if bad >= 0:
        raise IndexError(f"row {numbers[bad]} was asked, but there are {count} rows (ids count from 0)")
    return out


def gather_csr(rows: Csr, newer: Csr, marks: Overlay, ids: Array, count: int, width: int) -> Csr:
    """The rows of ids as new arrays, with int64 indices; ids that neither has get empty rows.

    Raises:
        IndexError: an id is not 0 ≤ id < count.
        CorruptError: a row leads out of its arrays, or an index is not 0 ≤ index < width.
    """
    numbers = _read_only(np.ascontiguousarray(ids, np.int64))
    starts, indptr = np.empty(numbers.size, np.int64), np.zeros(numbers.size + 1, np.int64)
    old, new = _plain(rows), _plain(newer)
    bad = _measure(
        old.indptr,
        new.indptr,
        rows.values.size,
        newer.values.size,
        marks.words,
        marks.ranks,
        count,
        numbers,
        starts,
        indptr,
    )
    if bad >= 0 and not 0 <= numbers[bad] < count:
        raise IndexError(f"row {numbers[bad]} was asked, but there are {count} rows (ids count from 0)")
    values = np.empty(int(indptr[-1]), rows.values.dtype)
    indices = np.empty(values.size, np.int64)
    if bad < 0:
        target = values.view(old.values.dtype)
        bad = _copy(old.indices, old.values, new.indices, new.values, starts, indptr, width, indices, target)
    if bad >= 0:
        raise CorruptError(
            f"the sparse feature of row {numbers[bad]} is damaged: it leads out of its arrays; "
            "CHECK DATABASE names the file"
        )
    return Csr(indptr, indices, values)


def _plain(csr: Csr) -> Csr:
    indices = _read_only(np.ascontiguousarray(csr.indices))
    return Csr(_read_only(np.ascontiguousarray(csr.indptr, np.int64)), indices, as_words(csr.values))


@kernel
def _mark(ids: Int64s, words: UInt64s, ranks: Int64s) -> None:
    for i in range(ids.size):
        words[ids[i] >> 6] |= np.uint64(1) << np.uint64(ids[i] & 63)
    total = np.int64(0)
    for w in range(words.size):
        ranks[w] = total
        total += count_bits(words[w])


@kernel
def _newer(words: UInt64s, ranks: Int64s, id_: int) -> Any:
    """The number of an id's newer row, or -1."""
    word = id_ >> 6
    if word >= words.size:
        return np.int64(-1)
    bits = words[word] >> np.uint64(id_ & 63)
    if not bits & np.uint64(1):
        return np.int64(-1)
    return ranks[word] + count_bits(words[word]) - count_bits(bits)


@kernel
def _gather_over(
    rows: Array, newer: Array, words: UInt64s, ranks: Int64s, blank: Array, count: int, ids: Int64s, out: Array
) -> int:
    """Fills `out`; the first bad place of `ids`, or -1."""
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= count:
            return i
        place = _newer(words, ranks, row)
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
def _measure(
    old: Int64s,
    new: Int64s,
    old_size: int,
    new_size: int,
    words: UInt64s,
    ranks: Int64s,
    count: int,
    ids: Int64s,
    starts: Int64s,
    indptr: Int64s,
) -> int:
    """Where each row starts (newer ones below zero: -1 - start) and ends in the result; the first bad one, or -1."""
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= count:
            return i
        place = _newer(words, ranks, row)
        first, last, size = np.int64(0), np.int64(0), old_size
        if 0 <= place < new.size - 1:
            first, last, size = new[place], new[place + 1], new_size
            starts[i] = -1 - first
        else:
            if row < old.size - 1:
                first, last = old[row], old[row + 1]
            starts[i] = first
        if first < 0 or last < first or last > size:
            return i
        indptr[i + 1] = indptr[i] + last - first
    return -1


@kernel
def _copy(
    old_indices: Array,
    old_values: Array,
    new_indices: Array,
    new_values: Array,
    starts: Int64s,
    indptr: Int64s,
    width: int,
    indices: Int64s,
    values: Array,
) -> int:
    """Copies the measured rows; the first with an index out of range, or -1."""
    for i in range(starts.size):
        at, length = indptr[i], indptr[i + 1] - indptr[i]
        for j in range(length):
            if starts[i] >= 0:
                indices[at + j] = old_indices[starts[i] + j]
                values[at + j] = old_values[starts[i] + j]
            else:
                indices[at + j] = new_indices[-1 - starts[i] + j]
                values[at + j] = new_values[-1 - starts[i] + j]
            if indices[at + j] < 0 or indices[at + j] >= width:
                return i
    return -1

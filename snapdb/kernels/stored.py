"""Encoding and decoding gathers for features that are stored in fewer bits than batches contain.

- float16 and bfloat16 are rounded to the nearest value. A table of all 65,536 codes decodes them.
- int8 has a range per column: value = low + step * (code + 128) for codes -128 … 127, so the error is at most step / 2.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from snapdb.arrays import Array, Float32s, Int64s
from snapdb.kernels import buffers
from snapdb.kernels.compiled import kernel, prefetch

CODES: dict[str, np.dtype[Any]] = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
    "int8": np.dtype(np.int8),
}
"""Type name in STORED → dtype of the file."""

_HALF_RANGE = 128
"""The number of steps from the least value of a range, code -128, to code 0."""
_AHEAD = 16
"""The number of rows by which prefetches precede reads."""


class Scale(NamedTuple):
    """The ranges of the columns of a feature that is stored as int8."""

    low: Float32s
    """[width] the value of code -128."""
    step: Float32s
    """[width] the difference between the values of adjacent codes, or 0 for a constant column."""

    @staticmethod
    def of(low: Float32s, high: Float32s) -> Scale:
        """Return the ranges from the least and greatest value of each column."""
        # In float64, the difference of any two finite float32 values is finite.
        step = (high.astype(np.float64) - low) / (2 * _HALF_RANGE - 1)
        return Scale(low, step.astype(np.float32))

    def covers(self, values: Array) -> bool:
        """Return whether all values [n, width] are within the ranges, up to rounding."""
        if not len(values):
            return True
        slack = self.step / 2
        below = values.min(axis=0) < self.low - slack
        above = values.max(axis=0) > self.low + np.float32(2 * _HALF_RANGE - 1) * self.step + slack
        return not bool((below | above).any())


def encode(values: Array, kind: str, scale: Scale | None) -> Array:
    """Return the codes of float32 values [n, width]. For int8, values outside the ranges get the nearest code."""
    if kind == "float16":
        halves: Array = values.astype(np.float16)
        return halves
    if kind == "bfloat16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        # Round to nearest, ties to even. The greatest values round to infinity, as IEEE 754 specifies.
        codes: Array = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return codes
    assert scale is not None
    step = np.where(scale.step > 0, scale.step, 1).astype(np.float64)
    wanted = np.rint((values.astype(np.float64) - scale.low) / step) - _HALF_RANGE
    nearest: Array = np.clip(wanted, -_HALF_RANGE, _HALF_RANGE - 1).astype(np.int8)
    return nearest


def decode(codes: Array, kind: str, scale: Scale | None) -> Array:
    """Decode codes [n, width] and return their float32 values as a new array."""
    return gather_decoded(codes, np.arange(len(codes)), kind, scale)


def gather_decoded(codes: Array, ids: Array, kind: str, scale: Scale | None) -> Array:
    """Return the decoded float32 values of the rows `ids` as a new array [n, width].

    Raises:
        IndexError: An id is not the number of a row.
    """
    numbers = np.ascontiguousarray(ids, np.int64)
    out = buffers.empty((numbers.size, codes.shape[1]), np.dtype(np.float32))
    rows = np.ascontiguousarray(codes)
    if kind == "int8":
        assert scale is not None
        # With the value of code 0 as the base, the kernel needs one multiplication and one addition per value.
        middle = scale.low + np.float32(_HALF_RANGE) * scale.step
        bad = _gather_scaled(rows, numbers, middle, scale.step, out)
    else:
        bad = _gather_listed(rows.view(np.uint16), numbers, _values(kind), out)
    if bad >= 0:
        raise IndexError(f"row {numbers[bad]} does not exist: there are {len(rows)} rows (numbered from 0)")
    return out


@cache
def _values(kind: str) -> Float32s:
    """Return [65536] the float32 value of each code."""
    codes = np.arange(1 << 16, dtype=np.uint32)
    if kind == "bfloat16":
        return (codes << 16).view(np.float32)
    return codes.astype(np.uint16).view(np.float16).astype(np.float32)


@kernel
def _gather_scaled(rows: Array, ids: Int64s, middle: Float32s, step: Float32s, out: Array) -> int:
    """Fill out[i] with the values of the codes rows[ids[i]], and return the first bad index or -1."""
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= rows.shape[0]:
            return i
        coming = ids[min(i + _AHEAD, ids.size - 1)]
        for column in range(0, rows.shape[1], 64):
            prefetch(rows, coming * rows.shape[1] + column)
        for column in range(out.shape[1]):
            out[i, column] = middle[column] + step[column] * np.float32(rows[row, column])
    return -1


@kernel
def _gather_listed(rows: Array, ids: Int64s, values: Float32s, out: Array) -> int:
    """Fill out[i] with values[rows[ids[i]]], and return the first bad index or -1."""
    for i in range(ids.size):
        row = ids[i]
        if row < 0 or row >= rows.shape[0]:
            return i
        coming = ids[min(i + _AHEAD, ids.size - 1)]
        for column in range(0, rows.shape[1], 32):
            prefetch(rows, coming * rows.shape[1] + column)
        for column in range(out.shape[1]):
            out[i, column] = values[rows[row, column]]
    return -1

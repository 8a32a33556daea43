"""Features stored in fewer bits than they are delivered with: encoding, and gathers that decode.

- float16 and bfloat16 are rounded to nearest. A table of all 65,536 codes decodes them.
- int8 has a range per column: value = low + step * code for the codes -128 … 127, so the error is at most step / 2.
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
"""The types in which features can be stored → the dtype of their files."""

_HALF_RANGE = 128
"""The code 0 of int8 is the middle of the range."""
_AHEAD = 16
"""The number of rows whose memory is prefetched."""


class Scale(NamedTuple):
    """The ranges of the columns of a feature that is stored as int8."""

    low: Float32s
    """[width] the value of code -128."""
    step: Float32s
    """[width] the difference between two codes, or 0 for a constant column."""

    @staticmethod
    def of(low: Float32s, high: Float32s) -> Scale:
        """Return the ranges for the least and greatest value of each column."""
        # In float64, the difference of any two float32 is finite.
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
    """Return the codes of float32 values [n, width]. For int8, values outside of the ranges get the nearest code."""
    if kind == "float16":
        halves: Array = values.astype(np.float16)
        return halves
    if kind == "bfloat16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        # To nearest, ties to even. Rounding up the greatest numbers gives infinity, as IEEE 754 does.
        codes: Array = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return codes
    assert scale is not None
    step = np.where(scale.step > 0, scale.step, 1).astype(np.float64)
    wanted = np.rint((values.astype(np.float64) - scale.low) / step) - _HALF_RANGE
    nearest: Array = np.clip(wanted, -_HALF_RANGE, _HALF_RANGE - 1).astype(np.int8)
    return nearest


def decode(codes: Array, kind: str, scale: Scale | None) -> Array:
    """Return the float32 values of codes [n, width] as a new array."""
    return gather_decoded(codes, np.arange(len(codes)), kind, scale)


def gather_decoded(codes: Array, ids: Array, kind: str, scale: Scale | None) -> Array:
    """Return the float32 values of the rows of `ids` as a new array [n, width].

    Raises:
        IndexError: An id is not a row.
    """
    numbers = np.ascontiguousarray(ids, np.int64)
    out = buffers.empty((numbers.size, codes.shape[1]), np.dtype(np.float32))
    rows = np.ascontiguousarray(codes)
    if kind == "int8":
        assert scale is not None
        # Code 0 is the middle of the range, so that the kernel adds once per value.
        middle = scale.low + np.float32(_HALF_RANGE) * scale.step
        bad = _gather_scaled(rows, numbers, middle, scale.step, out)
    else:
        bad = _gather_listed(rows.view(np.uint16), numbers, _values(kind), out)
    if bad >= 0:
        raise IndexError(f"row {numbers[bad]} does not exist: there are {len(rows)} rows (numbered from 0)")
    return out


@cache
def _values(kind: str) -> Float32s:
    """[65536] the value of each code."""
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

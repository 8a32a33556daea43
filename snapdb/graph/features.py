"""Features as a snapshot reads them: one array, an array with newer rows beside it, sparse rows, or a history."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from snapdb.graph.view import Feature, KeyReader
from snapdb.kernels.gather import gather
from snapdb.kernels.gather_mapped import gather_mapped
from snapdb.kernels.history import last_before
from snapdb.kernels.overlay import NOTHING, Csr, Overlay, gather_csr, gather_over, overlay
from snapdb.storage.arrays.feature_history import FOREVER, HistoryArrays, missing_values
from snapdb.storage.arrays.feature_types import fill_value

_Int64s = npt.NDArray[np.int64]


@runtime_checkable
class SparseReader(Feature, Protocol):
    """A feature that a batch delivers as a sparse tensor; `read` gives its rows as dense ones all the same."""

    def read_sparse(self, ids: npt.NDArray[Any]) -> Csr:
        """The rows of ids as fresh CSR arrays with int64 indices."""


@dataclass(frozen=True, slots=True)
class ArrayFeature:
    """Rows of one array, often memory-mapped."""

    array: npt.NDArray[Any]
    scarce: bool = False
    """It is mapped, and memory cannot hold it beside what else is read."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def read(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A fresh array of the rows of these ids."""
        return gather_mapped(self.array, ids) if self.scarce else gather(self.array, ids)


@dataclass(frozen=True)
class Marks:
    """Which ids have a newer row, found out at the first read and shared by the features of an element."""

    ids: _Int64s
    count: int
    """Ids are 0 ≤ id < count."""

    @cached_property
    def overlay(self) -> Overlay:
        return overlay(self.ids, self.count)


@dataclass(frozen=True, slots=True)
class PatchedFeature:
    """Rows of an array, newer rows of some ids, and one row for ids that neither has."""

    base: npt.NDArray[Any]
    newer: npt.NDArray[Any]
    """By rank among the marked ids."""
    marks: Marks
    fill: Any
    """The number that the row of other ids is full of."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.marks.count, *self.base.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.base.dtype

    def read(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A fresh array of the rows of these ids."""
        return gather_over(self.base, self.newer, self.marks.overlay, self.fill, self.marks.count, ids)


@dataclass(frozen=True, slots=True)
class SparseFeature:
    """Rows of (index, value) pairs, and newer rows of some ids; other ids have empty rows."""

    base: Csr
    newer: Csr
    marks: Marks | None
    """None: no id has a newer row."""
    width: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.base.indptr.size - 1 if self.marks is None else self.marks.count, self.width)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.base.values.dtype

    def read_sparse(self, ids: npt.NDArray[Any]) -> Csr:
        """The rows of these ids as fresh CSR arrays."""
        marks = NOTHING if self.marks is None else self.marks.overlay
        return gather_csr(self.base, self.newer, marks, ids, *self.shape)

    def read(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A fresh dense array of the rows of these ids."""
        csr = self.read_sparse(ids)
        out = np.zeros((len(ids), self.width), self.dtype)
        out[np.repeat(np.arange(len(ids)), np.diff(csr.indptr)), csr.indices] = csr.values
        return out


@dataclass(frozen=True, slots=True)
class HistoryFeature:
    """Values that change in time: each id has the last one before a moment, and never one of that moment or later."""

    arrays: HistoryArrays
    name: str
    stop: int | None
    """No value from here on is read, whatever is asked; None: all may be."""
    default: float | None
    """What stands for no value yet; None makes it an error."""
    element: str
    keys: KeyReader | None = None
    """For messages."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.arrays.indptr.size - 1, self.arrays.rows.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.arrays.rows.dtype

    def read(self, ids: npt.NDArray[Any], before: _Int64s | None = None) -> npt.NDArray[Any]:
        """A fresh array of the last values of these ids.

        Args:
            before: [n] for each id the moment before which its value is; None: the window's end.

        Raises:
            DataError: an id has no value by then, and there is no DEFAULT.
        """
        end = FOREVER if self.stop is None else self.stop
        bounds = np.full(len(ids), end) if before is None else np.minimum(before, end)
        where = last_before(self.arrays.indptr, self.arrays.time, ids, bounds)
        without = np.flatnonzero(where < 0)
        if without.size and self.default is None:
            found = np.unique(np.asarray(ids)[without])
            shown = found[:3].tolist() if self.keys is None else self.keys.read(found[:3]).to_pylist()
            raise missing_values(self.element, self.name, found.size, shown)
        if without.size == where.size:
            return np.full((where.size, self.shape[1]), fill_value(self.dtype.name, self.default), self.dtype)
        where[without] = where.max()
        out = gather(self.arrays.rows, where)
        out[without] = fill_value(self.dtype.name, self.default)
        return out

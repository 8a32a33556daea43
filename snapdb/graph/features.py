"""A snapshot's features: a single array, an array with newer rows, sparse rows, or values with a history."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.errors import CorruptError
from snapdb.graph.layout import damaged_file
from snapdb.graph.view import Feature, GraphView, KeyReader
from snapdb.kernels.features import (
    NOTHING,
    Csr,
    Overlay,
    empty_csr,
    find_rows,
    gather,
    gather_csr,
    gather_mapped,
    gather_over,
    last_before,
    overlay,
)
from snapdb.kernels.stored import CODES, Scale, decode, gather_decoded
from snapdb.memory import available_memory
from snapdb.storage.array_files import read_singly
from snapdb.storage.arrays.feature_codes import encoded_fill, scale_of
from snapdb.storage.arrays.feature_files import csr_path, read_sparse
from snapdb.storage.arrays.feature_history import (
    FOREVER,
    HistoryArrays,
    missing_values,
    no_target,
    read_history,
    read_ids,
)
from snapdb.storage.arrays.feature_types import DTYPES
from snapdb.storage.manifests import PublishedDir
from snapdb.types import Relation


@runtime_checkable
class SparseReader(Feature, Protocol):
    """A feature that batches return as a sparse tensor. `read` still returns its rows as dense rows."""

    def read_sparse(self, ids: Array) -> Csr:
        """Return the rows of these ids as new CSR arrays with int64 indices."""


@runtime_checkable
class TimedReader(Feature, Protocol):
    """A feature with a history. `read` returns the values at the end of the window."""

    def read_before(self, ids: Array, before: Int64s) -> Array:
        """Return a new array of the last value of each id before its time (as-of join)."""


@runtime_checkable
class RowReader(Feature, Protocol):
    """A feature whose rows are rows of arrays, which can therefore be cached and read ahead."""

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays, whose rows are numbered one array after the other."""

    @property
    def blank(self) -> Array:
        """[width] the row of ids that have none."""

    def decode(self, rows: Array) -> Array:
        """Return the values of rows of the arrays. The result may be the argument."""

    def find(self, ids: Array, before: Int64s | None = None, *, strict: bool = True) -> Int64s:
        """[n] the number of each id's row in the arrays, or -1 for `blank`.

        Args:
            ids: [n] the ids.
            before: [n] for a feature with a history, the exclusive upper time bound of each id's row.
            strict: Whether an id without a row that needs one is an error.

        Raises:
            IndexError: An id does not exist.
            DataError: An id has no row, and the feature has no DEFAULT.
        """


class ArrayFeature(NamedTuple):
    """The rows of a single array, which is often memory-mapped."""

    array: Array
    """[ids] or [ids, width]: the rows by id."""
    scarce: bool = False
    """Whether the array is mapped and does not fit in memory together with the other arrays that batches read."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def arrays(self) -> tuple[Array, ...]:
        return (self.array,)

    @property
    def blank(self) -> Array:
        return np.zeros(self.array.shape[1:], self.array.dtype)

    def read(self, ids: Array) -> Array:
        """Return a new array of the rows of these ids."""
        return gather_mapped(self.array, ids) if self.scarce else gather(self.array, ids)

    def decode(self, rows: Array) -> Array:
        """Return the rows, which are values."""
        return rows

    def find(self, ids: Array, before: Int64s | None = None, *, strict: bool = True) -> Int64s:
        """Return the ids: row i belongs to id i."""
        return find_rows(self.array.shape[0], 0, NOTHING, self.array.shape[0], ids)


@dataclass(frozen=True)
class _Marks:
    """The ids with a newer row, as a bitmap that is built on first use and shared by all of an element's features."""

    ids: Int64s
    """The ids in ascending order."""
    count: int
    """The number of ids, 0 ≤ id < count."""

    @cached_property
    def overlay(self) -> Overlay:
        return overlay(self.ids, self.count)


@dataclass(frozen=True, slots=True)
class _PatchedFeature:
    """The rows of an array, newer rows for some ids, and a fill value for ids with neither."""

    base: Array
    newer: Array
    """[newer, …]: the newer rows, by rank among the marked ids."""
    marks: _Marks
    """The ids with a newer row."""
    fill: Any
    """The value in the rows of all other ids, or [width] their row."""
    scarce: bool = False
    """Whether the arrays are mapped and do not fit in memory together with the other arrays that batches read."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.marks.count, *self.base.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.base.dtype

    @property
    def arrays(self) -> tuple[Array, ...]:
        return (self.base, self.newer)

    @property
    def blank(self) -> Array:
        return np.full(self.base.shape[1:], self.fill, self.base.dtype)

    def decode(self, rows: Array) -> Array:
        """Return the rows, which are values."""
        return rows

    def find(self, ids: Array, before: Int64s | None = None, *, strict: bool = True) -> Int64s:
        """Return the number of each id's row: newer rows follow those of the base."""
        return find_rows(self.base.shape[0], self.newer.shape[0], self.marks.overlay, self.marks.count, ids)

    def read(self, ids: Array) -> Array:
        """Return a new array of the rows of these ids."""
        marks, count = self.marks.overlay, self.marks.count
        return gather_over(self.base, self.newer, marks, self.fill, count, ids, mapped=self.scarce)


@dataclass(frozen=True, slots=True)
class _SparseFeature:
    """Rows of (index, value) pairs, and newer rows for some ids. Other ids have empty rows."""

    base: Csr
    newer: Csr
    marks: _Marks | None
    """The ids with a newer row, or None if there are none."""
    width: int
    """The number of columns in dense form."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.base.indptr.size - 1 if self.marks is None else self.marks.count, self.width)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.base.values.dtype

    def read_sparse(self, ids: Array) -> Csr:
        """Return the rows of these ids as new CSR arrays."""
        marks = NOTHING if self.marks is None else self.marks.overlay
        return gather_csr(self.base, self.newer, marks, ids, *self.shape)

    def read(self, ids: Array) -> Array:
        """Return a new dense array of the rows of these ids."""
        csr = self.read_sparse(ids)
        out = np.zeros((len(ids), self.width), self.dtype)
        out[np.repeat(np.arange(len(ids)), np.diff(csr.indptr)), csr.indices] = csr.values
        return out


class HistoryFeature(NamedTuple):
    """A feature with a history. A read returns the last value of each id before a time (as-of join)."""

    history: HistoryArrays
    """The values and their times, by vertex."""
    name: str
    stop: int | None
    """The time from which values are never read, or None for no limit."""
    default: float | None
    """The value for ids without an earlier value. If None, a missing value is an error."""
    element: str
    """The vertex type, for messages."""
    keys: KeyReader | None = None
    """The keys of the vertex type, for messages."""
    stored: str | None = None
    """The type in which the values are stored, or None for their dtype."""
    scale: Scale | None = None
    """The ranges of the columns of values that are stored as int8."""
    scarce: bool = False
    """Whether the arrays are mapped and do not fit in memory together with the other arrays that batches read."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.history.indptr.size - 1, self.history.rows.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.history.rows.dtype if self.stored is None else np.dtype(np.float32)

    @property
    def arrays(self) -> tuple[Array, ...]:
        return (self.history.rows,)

    @property
    def blank(self) -> Array:
        return encoded_fill(self.shape[1], self.stored, self.scale, self.history.rows.dtype.name, self.default)

    def read(self, ids: Array) -> Array:
        """Return a new array of the values of these ids at the end of the window.

        Raises:
            DataError: An id has no value, and there is no DEFAULT.
        """
        return self._read(self.find(ids))

    def read_before(self, ids: Array, before: Int64s) -> Array:
        """Return a new array of the last values of these ids.

        Args:
            ids: [n] the ids to read.
            before: [n] the exclusive upper time bound of each id's value.

        Raises:
            DataError: An id has no earlier value, and there is no DEFAULT.
        """
        return self._read(self.find(ids, before))

    def decode(self, rows: Array) -> Array:
        """Return the values of rows of the history."""
        return rows if self.stored is None else decode(rows, self.stored, self.scale)

    def find(self, ids: Array, before: Int64s | None = None, *, strict: bool = True) -> Int64s:
        """Return the number of the last row of each id before its time, or -1."""
        end = FOREVER if self.stop is None else self.stop
        # Bounds are exclusive, because a value at the seed's own time may be a consequence of the event to predict.
        bounds = np.full(len(ids), end) if before is None else np.minimum(before, end)
        where = last_before(self.history.indptr, self.history.time, ids, bounds, mapped=self.scarce)
        if strict and self.default is None and where.size and int(where.min()) < 0:
            missing = np.unique(np.asarray(ids)[where < 0])
            shown = missing[:3].tolist() if self.keys is None else self.keys.read(missing[:3]).to_pylist()
            raise missing_values(self.element, self.name, missing.size, shown)
        return where

    def _read(self, where: Int64s) -> Array:
        without = np.flatnonzero(where < 0)
        # If no id has a value, there may be no row to read instead of the missing ones.
        if without.size == where.size:
            return self.decode(np.tile(self.blank, (where.size, 1)))
        # For ids without a value, any valid row is read and then overwritten, so the gather needs no branch per id.
        where[without] = where.max()
        out = gather_mapped(self.history.rows, where) if self.scarce else gather(self.history.rows, where)
        out[without] = self.blank
        return self.decode(out)


_Rows = ArrayFeature | _PatchedFeature
"""The features that consist of rows of arrays."""


@dataclass(frozen=True, slots=True)
class StoredFeature:
    """A feature whose rows are decoded when they are read."""

    codes: _Rows
    """The rows as they are stored."""
    kind: str
    """The type in which they are stored."""
    scale: Scale | None
    """The ranges of the columns for int8."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.codes.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    @property
    def arrays(self) -> tuple[Array, ...]:
        return self.codes.arrays

    @property
    def blank(self) -> Array:
        return self.codes.blank

    def find(self, ids: Array, before: Int64s | None = None, *, strict: bool = True) -> Int64s:
        """Return the number of each id's row."""
        return self.codes.find(ids, before, strict=strict)

    def decode(self, rows: Array) -> Array:
        """Return the values of stored rows as a new array."""
        return decode(rows, self.kind, self.scale)

    def read(self, ids: Array) -> Array:
        """Return a new array of the rows of these ids."""
        if isinstance(self.codes, ArrayFeature) and not self.codes.scarce:
            return gather_decoded(self.codes.array, ids, self.kind, self.scale)
        return self.decode(self.codes.read(ids))


def stored_type(feature: Feature) -> str | None:
    """Return the type in which a feature is stored, or None for its dtype."""
    if isinstance(feature, StoredFeature):
        return feature.kind
    return feature.stored if isinstance(feature, HistoryFeature) else None


def open_features(base: Path, patch: Path | None, names: Sequence[str]) -> dict[str, Feature]:
    """Open the features of a published directory, overlaid with those of a delta.

    Raises:
        CorruptError: A file is missing, or does not match the others.
    """
    root, newer = PublishedDir(base), None if patch is None else PublishedDir(patch)
    # All of the element's features share one bitmap, because a delta has the same ids for each of them.
    marks = None if newer is None else _marks(newer)
    return {name: _feature(root, newer, name, marks) for name in names}


def open_feature(base: Path, patch: Path | None, name: str) -> Feature:
    """Open one feature of a published directory, overlaid with that of a delta."""
    return open_features(base, patch, [name])[name]


def open_target(base: Path, patch: Path | None) -> Feature:
    """Open the target of a published directory, overlaid with that of a delta.

    Raises:
        CorruptError: A file is missing, or does not match the others.
    """
    rows = PublishedDir(base).array("target.npy")
    if rows.ndim != 1 or rows.dtype.name not in ("int64", "float32"):
        raise damaged_file(base / "target.npy")
    if patch is None:
        return ArrayFeature(rows)
    newer = PublishedDir(patch)
    marks = _marks(newer)
    return _PatchedFeature(rows, _newer(newer, "target.npy", rows, marks), marks, no_target(rows.dtype))


def open_history(
    directory: Path,
    name: str,
    stop: int | None,
    default: float | None,
    element: str = "the element",
    keys: KeyReader | None = None,
) -> HistoryFeature:
    """Open a feature with a history as of the end of a window.

    Args:
        directory: The published directory.
        name: The feature name.
        stop: The exclusive end of the window, or None for no end.
        default: The value for ids that have none. If None, such ids are an error.
        element: The vertex type, for messages.
        keys: The keys of the vertex type, for messages.

    Raises:
        CorruptError: A file is missing, or does not match the others.
    """
    published = PublishedDir(directory)
    for file in ("indptr.npy", "time.npy", f"feature-{name}.npy"):
        published.checked(file)
    stored = _stored(published, name)
    scale = scale_of(directory, name, stored)
    return HistoryFeature(read_history(directory, name), name, stop, default, element, keys, stored, scale)


def _feature(base: PublishedDir, patch: PublishedDir | None, name: str, marks: _Marks | None) -> Feature:
    """Open a dense or sparse feature, with the rows of a delta."""
    if base.has(csr_path(base.path, name, "indptr").name):
        return _sparse(base, patch, name, marks)
    file = f"feature-{name}.npy"
    rows, stored = base.array(file), _stored(base, name)
    expected = DTYPES if stored is None else [CODES[stored].name]
    if rows.ndim != 2 or rows.dtype.name not in expected:
        raise damaged_file(base.path / file)
    codes: _Rows = ArrayFeature(rows)
    scale = scale_of(base.path, name, stored)
    if patch is not None and marks is not None:
        fill = encoded_fill(rows.shape[1], stored, scale, rows.dtype.name, _default(patch, name))
        codes = _PatchedFeature(rows, _newer(patch, file, rows, marks), marks, fill)
    return codes if stored is None else StoredFeature(codes, stored, scale)


def _stored(directory: PublishedDir, name: str) -> str | None:
    """Return the type in which a manifest says that a feature is stored, or None for its dtype.

    Raises:
        CorruptError: There is no such type.
    """
    stored: str | None = directory.manifest.get("stored", {}).get(name)
    if stored is not None and stored not in CODES:
        raise CorruptError(
            f"the manifest of {directory.path} is damaged: {stored!r} is not a type; create the snapshot again",
            code="damaged-snapshot",
        )
    return stored


def _sparse(base: PublishedDir, patch: PublishedDir | None, name: str, marks: _Marks | None) -> _SparseFeature:
    """Open a sparse feature, with the rows of a delta."""
    width = _number(base if patch is None else patch, "widths", name)
    rows = _csr(base, name)
    if rows.values.dtype.name not in DTYPES:
        raise damaged_file(csr_path(base.path, name, "values"))
    if patch is None or marks is None:
        return _SparseFeature(rows, empty_csr(rows), None, width)
    newer = _csr(patch, name)
    if newer.indptr.size != marks.ids.size + 1 or newer.values.dtype != rows.values.dtype:
        raise damaged_file(csr_path(patch.path, name, "indptr"))
    return _SparseFeature(rows, newer, marks, width)


def _csr(directory: PublishedDir, name: str) -> Csr:
    """Open the CSR arrays of a sparse feature after checking their sizes."""
    for array in ("indptr", "indices", "values"):
        directory.checked(csr_path(directory.path, name, array).name)
    return read_sparse(directory.path, name)


def _marks(patch: PublishedDir) -> _Marks:
    """Return the ids of a delta."""
    count = _number(patch, "count")
    patch.checked("ids.npy")
    return _Marks(read_ids(patch.path, count), count)


def _newer(patch: PublishedDir, file: str, rows: Array, marks: _Marks) -> Array:
    """Return the rows of a delta, which must match its ids and the base."""
    newer = patch.array(file)
    if newer.dtype != rows.dtype or newer.shape != (marks.ids.size, *rows.shape[1:]):
        raise damaged_file(patch.path / file)
    return newer


def _number(directory: PublishedDir, *names: str) -> int:
    """Return the number under these nested keys of a manifest. It may be missing in old databases.

    Raises:
        CorruptError: The manifest has no such number.
    """
    entry: Any = directory.manifest
    for name in names:
        entry = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(entry, int) or entry < 0:
        raise CorruptError(
            f"the manifest of {directory.path} is damaged: it has no {' '.join(names)}; create the snapshot again",
            code="damaged-snapshot",
        )
    return entry


def _default(directory: PublishedDir, name: str) -> float | None:
    """Return a feature's DEFAULT in a manifest, or None."""
    defaults = directory.manifest.get("defaults")
    default = defaults.get(name) if isinstance(defaults, dict) else None
    return default if isinstance(default, int | float) else None


def for_random_reads(view: GraphView, relations: Iterable[Relation], taken: int) -> GraphView:
    """Return the view for batches over these relations. If it does not fit in memory, files are read page by page.

    In that case, the system does not read ahead, and the pages of many feature rows are requested together.

    Args:
        view: The snapshot.
        relations: The relations that batches read.
        taken: The bytes of memory that other data will use.
    """
    arrays = []
    for relation in relations:
        rows = view.adjacency(relation).rows
        # The arrays that batches read at random. Edge columns are negligible, because they are read only for sampled
        # edges.
        arrays += [rows.indptr, rows.indices, rows.delta.indices]
    for named in view.node_features.values():
        arrays += [array for feature in named.values() for array in _arrays(feature)]
    if not read_singly(arrays, available_memory() * 3 // 4 - taken):  # batches and models need the other quarter
        return view
    features = {
        kind: {name: _read_ahead(feature) for name, feature in named.items()}
        for kind, named in view.node_features.items()
    }
    return replace(view, node_features=features)


def _read_ahead(feature: Feature) -> Feature:
    """Return the feature with reads that request many rows' pages together. Sparse features are read page by page."""
    if isinstance(feature, ArrayFeature | HistoryFeature):
        return feature._replace(scarce=True)
    if isinstance(feature, StoredFeature):
        codes = _read_ahead(feature.codes)
        assert isinstance(codes, _Rows)
        return replace(feature, codes=codes)
    return replace(feature, scarce=True) if isinstance(feature, _PatchedFeature) else feature


def _arrays(feature: Feature) -> Iterator[Array]:
    """Yield the arrays of a feature that are read at random."""
    match feature:
        case ArrayFeature():
            yield feature.array
        case _PatchedFeature():
            yield from (feature.base, feature.newer)
        case _SparseFeature():
            yield from (feature.base.indices, feature.base.values, feature.newer.indices, feature.newer.values)
        case HistoryFeature():
            yield from feature.history
        case StoredFeature():
            yield from _arrays(feature.codes)

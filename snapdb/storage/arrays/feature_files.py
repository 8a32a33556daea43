"""Features and targets as .npy files in id order, where each row can be read with one seek, and their patches.

The class codes of a target and the widths of sparse features grow with the table. `FeatureGrowth` records them by
version, so that a later version can share the arrays of an earlier one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapdb.arrays import Array, Int64s
from snapdb.errors import CorruptError
from snapdb.kernels.features import Csr
from snapdb.memory import available_memory
from snapdb.sql_engine import ROW_ID, SqlSession, quote, table_rows
from snapdb.storage.array_files import new_row_file, prefer_huge_pages
from snapdb.storage.arrays.feature_codes import NUMBERS, covers_default, encode_values, values_path
from snapdb.storage.arrays.feature_types import FeatureColumn, FeatureSource, fill_value, is_feature_type, numbers_of
from snapdb.storage.arrays.row_partitions import RowPartitions
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.manifests import Metadata, map_array
from snapdb.types import FeatureSpec, Table

_ID = quote(ROW_ID)
_ARRAYS = ("indptr", "indices", "values")
_SPARSE_ROWS = 20_000
"""The number of sparse rows per read."""
_ROWS_OF_NUMBERS = 100_000
"""The number of rows per read of single numbers."""
ROWS_AT_ONCE = 50_000
"""The maximum number of rows per read."""
_MEMORY_SHARE = 4
"""Arrays beyond 1/_MEMORY_SHARE of the available memory are written in parts. The other shares are for DuckDB, for the
batches being read, and for pages that have not been written to the disk yet."""


Report = Callable[[float], None]
"""A function that is called with the share of the work that is done, 0 to 1."""


def ignore(_share: float) -> None:
    """Report nothing."""


class _WidthStep(NamedTuple):
    """A sparse feature's width, and the first version with a row that needs it."""

    version: int
    """The version that first needs the width."""
    width: int
    """The width: one more than the greatest index."""


class _Slots(NamedTuple):
    """The slots of ids in the written arrays."""

    rows: int
    """The number of slots."""
    ids: Int64s | None = None
    """[slots] sorted ids: slot i belongs to ids[i]. None means that slot i belongs to id i."""

    def at(self, ids: Int64s) -> Int64s:
        """The slots of ids."""
        return ids if self.ids is None else np.searchsorted(self.ids, ids).astype(np.int64, copy=False)


class _First(NamedTuple):
    """A value, and the version that first added a row with that value."""

    version: int
    value: Any


@dataclass(frozen=True, slots=True)
class FeatureGrowth:
    """The classes of a target and the widths of sparse features at one version."""

    classes: tuple[str, ...] | None = None
    """The classes. The code of a class is its position. None if the target is a number, or if there is no target."""
    since: tuple[int, ...] = ()
    """[classes] the version that introduced each class, ascending. Empty if the graph declares the classes."""
    steps: Mapping[str, tuple[_WidthStep, ...]] = field(default_factory=dict)
    """Sparse feature without a declared width → the ascending steps of its width."""

    @property
    def widths(self) -> dict[str, int]:
        """Sparse feature without a declared width → its current width."""
        return {name: steps[-1].width if steps else 0 for name, steps in self.steps.items()}

    @property
    def facts(self) -> Metadata:
        """The manifest entry, without the classes, which are in the target's entry."""
        return {
            "since": list(self.since),
            "steps": {name: list(map(list, steps)) for name, steps in self.steps.items()},
        }

    @staticmethod
    def of(facts: Metadata) -> FeatureGrowth:
        """The growth recorded in a manifest."""
        growth = facts.get("growth", {})
        classes = facts.get("target", {}).get("classes")
        steps = {name: tuple(_WidthStep(*step) for step in steps) for name, steps in growth.get("steps", {}).items()}
        return FeatureGrowth(None if classes is None else tuple(classes), tuple(growth.get("since", ())), steps)

    def until(self, version: int) -> FeatureGrowth:
        """The growth at an earlier version, or this growth unchanged for a later version."""
        steps = {name: tuple(step for step in steps if step.version <= version) for name, steps in self.steps.items()}
        if self.classes is None or not self.since:
            return replace(self, steps=steps)
        count = bisect_right(self.since, version)
        return FeatureGrowth(self.classes[:count], self.since[:count], steps)

    def continues(self, before: FeatureGrowth) -> bool:
        """Whether every class code and every index of `before` is also valid here."""
        known = before.classes or ()
        return (self.classes or ())[: len(known)] == known and all(
            before.widths.get(name, 0) <= width for name, width in self.widths.items()
        )


NO_GROWTH = FeatureGrowth()
"""The growth of an element that has neither classes nor sparse features of undeclared width."""


@dataclass(frozen=True, slots=True)
class GrowthSpec:
    """The target and the sparse features of an element that grow with its table."""

    target: str | None = None
    """SQL of a text target. None if the target is a number, or the graph declares its classes."""
    declared: tuple[str, ...] | None = None
    """The classes, if the graph declares them."""
    indices: Mapping[str, str] = field(default_factory=dict)
    """Sparse feature without a declared width → SQL of a row's list of indices."""

    def __bool__(self) -> bool:
        return self.target is not None or bool(self.indices)


class _AddedRows(NamedTuple):
    """Every row added to a table up to a version, including rows that were removed later."""

    table: Table
    """The table at that version."""
    root: Path
    """The database directory."""
    versions: Int64s
    """[versions] the versions that added rows, ascending."""
    stops: Int64s
    """[versions] the row id after the last row of each version."""

    def firsts(self, session: SqlSession, value: str, start: int) -> list[_First]:
        """The distinct non-NULL values in the rows from id `start` on, ordered by version and then by value."""
        table = self.table
        files = tuple(s for s in table.segments if s.first + s.rows > start)
        if start >= table.next_row or not files:
            return []
        rows = table_rows(replace(table, segments=files, deletes=()), self.root, row_ids=True)
        values = f"SELECT {value} AS v, {_ID} AS id FROM ({rows}) WHERE {_ID} >= {start}"
        firsts = session.rows(f"SELECT v, min(id) FROM ({values}) WHERE v IS NOT NULL GROUP BY v")
        # Row ids ascend with versions, so a binary search maps a value's first row to the version that added it.
        slices = np.searchsorted(self.stops, [row for _, row in firsts], side="right")
        versions = self.versions[slices].tolist()
        return sorted(_First(version, value) for version, (value, _) in zip(versions, firsts, strict=True))


def added_rows(catalog_db: CatalogDb, table: Table, root: Path) -> _AddedRows:
    """The rows added to a table up to its version."""
    rows = catalog_db.rows(
        "SELECT version, sum(rows_added) AS added FROM changes WHERE table_id = ? AND version <= ? AND rows_added > 0 "
        "GROUP BY version ORDER BY version",
        (table.id, table.state),
    )
    versions = np.array([row["version"] for row in rows], np.int64)
    return _AddedRows(table, root, versions, np.cumsum([row["added"] for row in rows], dtype=np.int64))


def compute_growth(
    session: SqlSession, added: _AddedRows, growing: GrowthSpec, before: FeatureGrowth | None = None, start: int = 0
) -> FeatureGrowth:
    """The classes and widths at the version of `added`.

    Args:
        session: The session that reads the rows.
        added: The rows added to the table.
        growing: The target and the features that grow.
        before: The growth at another version, which covers the rows with ids below `start`.
        start: The first row id that `before` does not cover.
    """
    known = (FeatureGrowth((), (), {}) if before is None else before).until(added.table.state)
    steps = {
        name: _widened(known.steps.get(name, ()), added.firsts(session, f"TRY_CAST(list_max({sql}) AS BIGINT)", start))
        for name, sql in growing.indices.items()
    }
    if growing.target is None:
        return FeatureGrowth(growing.declared, (), steps)
    old = known.classes or ()
    seen = set(old)
    fresh = [first for first in added.firsts(session, growing.target, start) if first.value not in seen]
    # New classes get the next codes in version order, so that the codes in existing files stay valid.
    classes = (*old, *(first.value for first in fresh))
    return FeatureGrowth(classes, (*known.since, *(first.version for first in fresh)), steps)


def _widened(steps: Sequence[_WidthStep], firsts: Sequence[_First]) -> tuple[_WidthStep, ...]:
    """The widths extended to cover more rows. Each version adds at most one step, with its greatest width."""
    widths = list(steps)
    for version, greatest in firsts:
        if greatest < (widths[-1].width if widths else 0):
            continue
        if widths and widths[-1].version == version:
            widths.pop()
        widths.append(_WidthStep(version, greatest + 1))
    return tuple(widths)


# Sparse features: the indices and values of each row, as CSR arrays in id order.


def csr_path(directory: Path, feature: str, array: str) -> Path:
    """The path of one of the three arrays of a sparse feature."""
    return directory / f"feature-{feature}-{array}.npy"


def _index_type(width: int) -> type[np.signedinteger[Any]]:
    """The narrowest dtype for indices below a width."""
    return np.int32 if width < 2**31 else np.int64


def _write_sparse(
    session: SqlSession, source: FeatureSource, spec: FeatureSpec, width: int, slots: _Slots, directory: Path
) -> None:
    """Write a sparse feature's rows to their slots. Other slots are empty. Run `check_features` first."""
    index, value = source.parts(spec)
    # Two passes over the rows: the first counts values to compute the row offsets, and the second writes in place.
    counts = np.zeros(slots.rows + 1, np.int64)
    for ids, batch in source.batches(session, f"CAST(len({index.sql}) AS BIGINT)", _ROWS_OF_NUMBERS):
        counts[slots.at(ids) + 1] = batch.column(0).to_numpy()
    indptr = np.cumsum(counts)
    _, indices, values = new_csr(directory, spec.name, indptr, _index_type(width), spec.dtype)
    whole = FeatureColumn(index.name, index.sql, index.type, "int64")
    for ids, batch in source.batches(session, f"{whole.value}, {value.value}", _SPARSE_ROWS):
        rows = slots.at(ids)
        column, numbers = numbers_of(batch.column(0), whole, None), numbers_of(batch.column(1), value, None)
        lengths_ = indptr[rows + 1] - indptr[rows]
        # torch requires ascending indices within a row.
        order = np.lexsort((column, np.repeat(np.arange(rows.size), lengths_)))
        where = np.repeat(indptr[rows] - (np.cumsum(lengths_) - lengths_), lengths_) + np.arange(order.size)
        indices[where], values[where] = column[order], numbers[order]


def new_csr(directory: Path, feature: str, indptr: Int64s, index_type: npt.DTypeLike, value_type: npt.DTypeLike) -> Csr:
    """The arrays of a new sparse feature. Indices and values are memory-mapped files, which the caller fills."""
    np.save(csr_path(directory, feature, "indptr"), indptr)
    indices, values = (
        np.lib.format.open_memmap(
            csr_path(directory, feature, name), mode="w+", dtype=np.dtype(dtype), shape=(int(indptr[-1]),)
        )
        for name, dtype in (("indices", index_type), ("values", value_type))
    )
    return Csr(indptr, indices, values)


def read_sparse(directory: Path, feature: str) -> Csr:
    """The arrays of a sparse feature, memory-mapped.

    Raises:
        CorruptError: An array is missing, or its dtype or length does not match the other arrays. Values are not read.
    """
    csr = Csr(*(map_array(csr_path(directory, feature, name)) for name in _ARRAYS))
    fits = (
        all(array.ndim == 1 for array in csr)
        and csr.indptr.dtype == np.int64
        and csr.indices.dtype in (np.int32, np.int64)
        and csr.indptr.size > 0
        and csr.indices.size == csr.values.size
    )
    if not fits:
        raise CorruptError(
            f"{csr_path(directory, feature, 'indptr')} and the files beside it are damaged; "
            "restore them from a backup or create the snapshot again",
            code="damaged-snapshot",
        )
    return csr


# Dense features and targets.


class _ArraySlice(NamedTuple):
    """The columns of a feature array that are filled from one table column."""

    part: FeatureColumn
    default: float | None
    out: Array
    """[slots, length] a view of the feature's array."""

    def store(self, values: pa.Array, where: Int64s) -> None:
        """Write the rows of an Arrow array of `part.value` to the slots `where`."""
        length = self.out.shape[1]
        if length == 0 or len(values) == 0:
            return
        if self.part.is_list and values.null_count:
            where = where[values.is_valid().to_numpy(zero_copy_only=False)]
        self.out[where] = numbers_of(values, self.part, self.default).reshape(-1, length)


def measure_features(
    session: SqlSession,
    source: FeatureSource,
    specs: Sequence[FeatureSpec],
    growth: FeatureGrowth = NO_GROWTH,
    known: Metadata | None = None,
) -> Metadata:
    """The widths of features and of their parts, and their DEFAULTs, for a manifest.

    Args:
        session: The session that reads the rows.
        source: The rows to measure.
        specs: The features of the element.
        growth: The widths of sparse features without a declared width.
        known: The metadata of a base, for parts whose length these rows do not determine.
    """
    own = [spec for spec in specs if spec.history is None]
    widths = growth.widths
    lengths = [_lengths(source, spec, widths.get(spec.name)) for spec in own]
    queries = [sql for each in lengths for sql in each if isinstance(sql, str)]
    results = iter(session.rows(f"SELECT {', '.join(queries)} FROM ({source.rows})")[0] if queries else ())
    before: Mapping[str, list[int]] = {} if known is None else known.get("parts", {})
    parts = {}
    for spec, each in zip(own, lengths, strict=True):
        now = [next(results) if isinstance(length, str) else length for length in each]
        old = before.get(spec.name, [0] * len(now))
        parts[spec.name] = [then if length is None else length for length, then in zip(now, old, strict=True)]
    stored = {spec.name: spec.stored for spec in own if spec.stored is not None}
    return {
        "widths": {name: sum(lengths) for name, lengths in parts.items()},
        "parts": parts,
        "defaults": {spec.name: spec.default for spec in own},
        **({"stored": stored} if stored else {}),
    }


def _fill_features(
    session: SqlSession,
    source: FeatureSource,
    specs: Sequence[FeatureSpec],
    facts: Metadata,
    slots: _Slots,
    directory: Path,
    base: Path | None = None,
    report: Report = ignore,
) -> bool:
    """Write the feature arrays that `facts` describes, with each row of `source` in its slot.

    Returns whether the values are within the ranges of the base's int8 features. Without a base, the ranges are those
    of the values.
    """
    own = [spec for spec in specs if spec.history is None]
    for spec in own:
        if spec.sparse:
            _write_sparse(session, source, spec, facts["parts"][spec.name][0], slots, directory)
    dense = [spec for spec in own if not spec.sparse]
    arrays, slices = [], []
    for spec in dense:
        lengths = facts["parts"][spec.name]
        arrays.append(new_array(values_path(directory, spec), spec, slots.rows, sum(lengths)))
        slices += slices_of(source.parts(spec), lengths, spec.default, arrays[-1])
    if not slices:
        return True
    fill = _Fill(arrays, slices, slots, report)
    fill.read(session, source, directory)
    fits = [encode_values(directory, spec, base) for spec in dense]  # all of them, because this removes the values
    return all(fits)


class _Fill:
    """Writes the rows of a table to their slots in dense arrays, which may be larger than memory."""

    def __init__(
        self, arrays: Sequence[np.memmap[Any, Any]], slices: Sequence[_ArraySlice], slots: _Slots, report: Report
    ) -> None:
        self._arrays, self._slices, self._slots, self._report = arrays, slices, slots, report
        self._slot_bytes = sum(array.itemsize * array.shape[1] for array in arrays)
        self._room = available_memory() // _MEMORY_SHARE
        self._written = 0
        self._unflushed = 0

    def read(self, session: SqlSession, source: FeatureSource, folder: Path) -> None:
        """Read the rows in table order. Rows in random order are set aside first if the arrays exceed memory."""
        columns = ", ".join(place.part.value for place in self._slices)
        # Limit the values per read as well as the rows, so that wide features do not exhaust memory.
        rows = max(1, min(ROWS_AT_ONCE, NUMBERS // max(1, sum(array.shape[1] for array in self._arrays))))
        fits = self._slots.rows * self._slot_bytes <= self._room
        with RowPartitions(folder, self._slots.rows, self._room // max(1, self._slot_bytes)) as partitions:
            for ids, batch in source.batches(session, columns, rows):
                where = self._slots.at(ids)
                if fits or partitions.adjacent(where):
                    self._store(where, batch)
                else:
                    partitions.add(where, batch)
            for batches in partitions.partitions():
                for where, batch in batches:
                    self._store(where, batch)
                self._flush()  # before the next partition, so that its pages do not displace unwritten ones

    def _store(self, where: Int64s, batch: pa.RecordBatch) -> None:
        for i, place in enumerate(self._slices):
            place.store(batch.column(i), where)
        self._written += where.size
        self._unflushed += where.size * self._slot_bytes
        self._report(self._written / max(1, self._slots.rows))
        if self._unflushed > self._room:
            self._flush()

    def _flush(self) -> None:
        """Write the changed pages to the disk, so that the kernel can drop them without waiting."""
        for array in self._arrays:
            array.flush()
        self._unflushed = 0


def slices_of(
    parts: Sequence[FeatureColumn], lengths: Sequence[int], default: float | None, out: Array
) -> list[_ArraySlice]:
    """The adjacent slices of a feature array, one for each of the feature's parts."""
    ends = np.cumsum(lengths).tolist()
    each = zip(parts, lengths, ends, strict=True)
    return [_ArraySlice(part, default, out[:, end - length : end]) for part, length, end in each]


def new_array(path: Path, spec: FeatureSpec, rows: int, width: int) -> np.memmap[Any, Any]:
    """A new array file, filled with the DEFAULT or zeros."""
    dtype = np.dtype(spec.read_dtype)
    out = new_row_file(path, dtype, (rows, width))
    prefer_huge_pages(out)
    if fill := fill_value(spec.read_dtype, spec.default):  # a new file is sparse and already reads as zeros
        out[:] = fill
    return out


def _fill_target(
    session: SqlSession,
    source: FeatureSource,
    name: str,
    slots: _Slots,
    directory: Path,
    classes: Sequence[str] | None = None,
) -> Metadata:
    """Write `target.npy` and return its metadata.

    Args:
        session: The session that reads the rows.
        source: The rows.
        name: The target column.
        slots: The slots of ids.
        directory: The directory of the file.
        classes: All classes of a text target. The code of each class is its position.
    """
    kind = _target_kind(source, name)
    out = np.full(slots.rows, np.nan if kind.dtype == "float32" else -1, kind.dtype)
    known = pa.array(classes or (), pa.string())
    for ids, batch in source.batches(session, f"{kind.sql} AS y", ROWS_AT_ONCE):
        values = batch.column(0)
        if classes is not None:
            values = pc.index_in(values, known)
        if kind.dtype == "int64":
            values = values.fill_null(-1)
        out[slots.at(ids)] = values.to_numpy(zero_copy_only=False)
    np.save(directory / "target.npy", out)
    return {"target": {"column": kind.name, "classes": None if classes is None else list(classes), "dtype": kind.dtype}}


def has_lists(session: SqlSession, source: FeatureSource, specs: Sequence[FeatureSpec], rows: str) -> bool:
    """Whether each list column without a fixed length has a list in at least one row of `rows`."""
    own = [spec for spec in specs if spec.history is None and not spec.sparse]
    lists = [part.sql for spec in own for part in source.parts(spec) if part.fixed is None]
    return all(session.rows(f"SELECT 1 FROM ({rows}) WHERE {sql} IS NOT NULL LIMIT 1") for sql in lists)


class _Target(NamedTuple):
    """How a target is read and stored."""

    name: str
    sql: str
    dtype: str
    text: bool
    """Whether the target is text, which is stored as class codes."""


def _target_kind(source: FeatureSource, name: str) -> _Target:
    """How a target is stored, according to its column type: float32, int64, or class codes as int64."""
    column = next(c for c in source.columns if c.name.lower() == name.lower())
    quoted = quote(column.name)
    if column.type in ("FLOAT", "DOUBLE") or column.type.startswith("DECIMAL"):
        return _Target(column.name, f"CAST({quoted} AS FLOAT)", "float32", False)
    if is_feature_type(column.type):
        return _Target(column.name, f"CAST({quoted} AS BIGINT)", "int64", False)
    return _Target(column.name, f"CAST({quoted} AS VARCHAR)", "int64", True)


def _lengths(source: FeatureSource, spec: FeatureSpec, width: int | None) -> list[int | str]:
    """The length of each part (the width for sparse rows), or SQL that returns it, or NULL if there are no rows."""
    parts = source.parts(spec)
    if spec.sparse:
        return [(width or 0) if spec.width is None else spec.width]
    return [f"max(len({part.sql}))" if part.fixed is None else part.fixed for part in parts]


# Whole arrays, and patches of them.


def growth_spec(
    source: FeatureSource, specs: Sequence[FeatureSpec], target: str | None, classes: tuple[str, ...] | None
) -> GrowthSpec:
    """The target and the sparse features of an element that grow with its table.

    Args:
        source: The rows.
        specs: The features of the element.
        target: The target column, or None.
        classes: The classes of the target, if the graph declares them.
    """
    kind = None if target is None or classes is not None else _target_kind(source, target)
    text = kind.sql if kind is not None and kind.text else None
    growing = (spec for spec in specs if spec.sparse and spec.width is None)
    return GrowthSpec(text, classes, {spec.name: source.parts(spec)[0].plain for spec in growing})


def write_features(
    session: SqlSession,
    source: FeatureSource,
    specs: Sequence[FeatureSpec],
    directory: Path,
    growth: FeatureGrowth = NO_GROWTH,
    report: Report = ignore,
) -> Metadata:
    """Write an array [count, width] per feature and return their metadata. Run `check_features` first.

    `report` is called with the share of the rows that have been written.

    A sparse feature becomes three CSR arrays. Features with a history are excluded (see `write_history`).
    """
    facts = measure_features(session, source, specs, growth)
    _fill_features(session, source, specs, facts, _Slots(source.count), directory, report=report)
    return facts | {"growth": growth.facts}


def write_target(
    session: SqlSession, source: FeatureSource, name: str, directory: Path, growth: FeatureGrowth = NO_GROWTH
) -> Metadata:
    """Write `target.npy` [count]: int64 (NULL: -1), float32 (NULL: NaN) or class codes. Returns its metadata."""
    return _fill_target(session, source, name, _Slots(source.count), directory, growth.classes)


def write_feature_patch(
    session: SqlSession,
    source: FeatureSource,
    specs: Sequence[FeatureSpec],
    target: str | None,
    base: Path,
    base_facts: Metadata,
    directory: Path,
    growth: FeatureGrowth = NO_GROWTH,
) -> Metadata | None:
    """Write the changed and added rows and return their metadata, or None if they do not fit the base.

    They do not fit if lists have a different length, if values are outside of the ranges of an int8 feature, or if the
    base belongs to a later version with more classes or wider sparse rows. In that case, all arrays must be written.
    Run `check_features` on the changed rows first.

    Args:
        session: The session that reads the rows.
        source: Only the changed and added rows. Its count is the total number of ids.
        specs: The features of the element.
        target: The target column, or None.
        base: The directory of the base.
        base_facts: The metadata of the base, from `write_features` and `write_target`.
        directory: The directory of the patch.
        growth: The classes and widths at this version.
    """
    facts = measure_features(session, source, specs, growth, base_facts)
    if not (growth.continues(FeatureGrowth.of(base_facts)) and _fits(specs, facts, base_facts)):
        return None
    ids = _ids(session, source)
    slots = _Slots(ids.size, ids)
    if target is not None:
        facts |= _fill_target(session, source, target, slots, directory, growth.classes)
    np.save(directory / "ids.npy", ids)
    if not _fill_features(session, source, specs, facts, slots, directory, base):
        return None
    if source.count > int(base_facts.get("rows", 0)) and not all(covers_default(base, spec, facts) for spec in specs):
        return None
    return {**facts, "growth": growth.facts, "count": source.count, "changed": int(ids.size)}


def _fits(specs: Sequence[FeatureSpec], facts: Metadata, base: Metadata) -> bool:
    """Whether rows with this metadata can be patched onto the base's arrays."""
    # Ids without a row have the DEFAULT in the base's arrays, which a patch does not change.
    if base.get("defaults") != facts["defaults"]:
        return False
    before = base.get("parts", {})
    sparse = {spec.name for spec in specs if spec.sparse}
    return all(
        name in before
        and (_index_type(*before[name]) == _index_type(*parts) if name in sparse else before[name] == parts)
        for name, parts in facts["parts"].items()
    )


def _ids(session: SqlSession, source: FeatureSource) -> Int64s:
    """The distinct ids of the rows, ascending."""
    parts = [ids for ids, _ in source.batches(session, "NULL", _ROWS_OF_NUMBERS)]
    return np.unique(np.concatenate(parts).astype(np.int64, copy=False))

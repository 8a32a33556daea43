"""Features with a history of values over time, and the merging of feature patches into a new base."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from snapdb.arrays import Array, Bools, Int64s
from snapdb.errors import CorruptError, DataError
from snapdb.kernels.features import Csr, gather_csr, last_before, overlay
from snapdb.sql_engine import ROW_ID, SqlSession, quote
from snapdb.storage.array_files import new_row_file
from snapdb.storage.arrays.feature_codes import encode_values, encoded_fill, scale_of, scale_path, values_path
from snapdb.storage.arrays.feature_files import (
    ROWS_AT_ONCE,
    csr_path,
    measure_features,
    new_array,
    new_csr,
    read_sparse,
    slices_of,
)
from snapdb.storage.arrays.feature_types import FeatureSource, RowCheck, check_features, check_rows
from snapdb.storage.manifests import Metadata, map_array, read_manifest
from snapdb.types import FeatureSpec

_Shown = Callable[[Int64s], Sequence[object]]
"""A function that returns the keys of dense ids, for error messages."""

FOREVER = 2**63 - 1
"""A time later than all other times."""

_ID, _TIME, _ORDER = quote(ROW_ID), quote("snapdb time"), quote("snapdb order")
_VERTICES_AT_ONCE = 1 << 20
"""The number of vertices checked at once."""

_FACTS = ("widths", "parts", "defaults", "target", "growth", "stored")
"""The entries of a patch's manifest that a new base inherits."""
_COPIED_AT_ONCE = 1 << 16
"""The number of rows copied at once."""


class HistoryArrays(NamedTuple):
    """The arrays of a feature history. Vertex v has the rows indptr[v] ≤ row < indptr[v + 1]."""

    indptr: Int64s
    """[vertices + 1] The start of each vertex's rows."""
    time: Int64s
    """[rows] The time from which each row is valid, ascending within a vertex."""
    rows: Array
    """[rows, width] The values of the feature."""


def write_history(session: SqlSession, source: FeatureSource, spec: FeatureSpec, directory: Path) -> Metadata:
    """Write the rows of a history, sorted by (vertex, time, row id), and return their metadata.

    If several rows have the same vertex and time, the last one is used.

    Args:
        session: The session that reads the rows.
        source: Rows with the feature's columns, the `key` columns, the vertex's dense id as `ROW_ID`, "snapdb time"
            (BIGINT) and "snapdb order" (the row id). Its `count` is the number of vertices, and its `element` is the
            table's name.
        spec: The feature.
        directory: The directory in which the arrays are written.

    Raises:
        DataError: A row has no time, or a value is missing or out of range. The message contains the number of such
            rows and three keys.
    """
    assert spec.history is not None
    spec = replace(spec, history=None)
    _check_times(session, source, spec)
    facts = measure_features(session, source, [spec])
    lengths = facts["parts"][spec.name]
    (count,) = session.rows(f"SELECT count(*) FROM ({source.rows})")[0]
    out = new_array(values_path(directory, spec), spec, int(count), sum(lengths))
    time = np.lib.format.open_memmap(directory / "time.npy", mode="w+", dtype=np.int64, shape=(int(count),))
    counts = np.zeros(source.count + 1, np.int64)
    slices = slices_of(source.parts(spec), lengths, spec.default, out)
    values = ", ".join(place.part.value for place in slices)
    query = f"SELECT {_ID}, {_TIME}, {values} FROM ({source.rows}) ORDER BY {_ID}, {_TIME}, {_ORDER}"
    at = 0
    for batch in session.reader(query, rows=ROWS_AT_ONCE):
        where = np.arange(at, at + batch.num_rows)
        at += batch.num_rows
        np.add.at(counts, batch.column(0).to_numpy() + 1, 1)
        time[where] = batch.column(1).to_numpy()
        for i, place in enumerate(slices, 2):
            place.store(batch.column(i), where)
    np.save(directory / "indptr.npy", np.cumsum(counts))
    encode_values(directory, spec)
    return {**facts, "rows": int(count), "count": source.count}


def _check_times(session: SqlSession, source: FeatureSource, spec: FeatureSpec) -> None:
    advice = "delete them, or set a time"
    check_rows(session, source, [RowCheck(f"{_TIME} IS NULL", "a NULL or infinite event time", advice)])
    check_features(session, source, [spec])


def read_history(directory: Path, name: str) -> HistoryArrays:
    """Return the arrays that `write_history` wrote, memory-mapped.

    Raises:
        CorruptError: An array is missing, or its dtype or length does not match the other arrays. The values are not
            read.
    """
    files = ("indptr.npy", "time.npy", f"feature-{name}.npy")
    arrays = HistoryArrays(*(map_array(directory / file) for file in files))
    fits = (
        arrays.indptr.dtype == arrays.time.dtype == np.int64
        and (arrays.indptr.ndim, arrays.time.ndim, arrays.rows.ndim) == (1, 1, 2)
        and arrays.indptr.size > 0
        and arrays.time.size == arrays.rows.shape[0]
    )
    if not fits:
        raise CorruptError(
            f"{directory} does not contain the history of {name}; restore it from a backup or create the snapshot "
            "again",
            code="damaged-snapshot",
        )
    return arrays


def check_history(
    directory: Path, alive: Bools | None, stop: int | None, element: str, name: str, shown: _Shown = list
) -> None:
    """Check that every vertex has a value before the window's end, for a feature without a DEFAULT.

    Args:
        directory: The directory of the history.
        alive: [vertices] Whether each vertex is in the snapshot, or None if all of them are.
        stop: The window's end, or None if the window is open-ended.
        element: The vertex table, for the error message.
        name: The feature.
        shown: A function that returns the keys of ids, for the error message.

    Raises:
        DataError: Some vertices have no value. The message contains their number and three keys.
    """
    arrays = read_history(directory, name)
    count = arrays.indptr.size - 1
    missing, first = 0, np.empty(0, np.int64)
    for low in range(0, count, _VERTICES_AT_ONCE):
        ids = np.arange(low, min(low + _VERTICES_AT_ONCE, count))
        if alive is not None:
            ids = ids[alive[ids]]
        bounds = np.full(ids.size, FOREVER if stop is None else stop)
        without = ids[last_before(arrays.indptr, arrays.time, ids, bounds) < 0]
        missing += without.size
        first = np.concatenate([first, without[: 3 - first.size]])
    if missing:
        raise missing_values(element, name, missing, shown(first))


def missing_values(element: str, name: str, count: int, shown: Sequence[object]) -> DataError:
    """Return the error to raise for vertices without a value."""
    who = f"1 vertex of {element} has" if count == 1 else f"{count} vertices of {element} have"
    ids = ", ".join(str(id_) for id_ in shown)
    return DataError(
        f"{who} no value of feature {name} before the requested time (ids {ids}); "
        "add rows to its history, or write DEFAULT in the graph",
        code="missing-feature",
    )


# The patches that `write_feature_patch` writes.


def read_ids(directory: Path, count: int) -> Int64s:
    """Return the ids of a patch's rows, ascending, memory-mapped.

    Raises:
        CorruptError: An id is not in 0 ≤ id < count, or the ids are not ascending.
    """
    ids: Int64s = map_array(directory / "ids.npy")
    fits = ids.ndim == 1 and ids.dtype == np.int64
    if not fits or (ids.size and (ids[0] < 0 or ids[-1] >= count or bool((ids[1:] <= ids[:-1]).any()))):
        raise CorruptError(
            f"{directory / 'ids.npy'} is damaged; restore it from a backup or create the snapshot again",
            code="damaged-snapshot",
        )
    return ids


def merge_features(base: Path, patch: Path, directory: Path) -> Metadata:
    """Merge base and patch into a new base and return its metadata."""
    facts = read_manifest(patch)
    try:
        count, defaults = int(facts["count"]), dict(facts["defaults"])
        names = list(facts["widths"])
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptError(
            f"the manifest of {patch} is damaged; create the snapshot again", code="damaged-snapshot"
        ) from error
    ids = read_ids(patch, count)
    for name in names:
        if csr_path(base, name, "indptr").exists():
            _merge_sparse(
                read_sparse(base, name),
                read_sparse(patch, name),
                ids,
                count,
                int(facts["widths"][name]),
                directory,
                name,
            )
        else:
            stored = facts.get("stored", {}).get(name)
            if stored == "int8":
                shutil.copyfile(scale_path(base, name), scale_path(directory, name))
            file = f"feature-{name}.npy"
            rows = map_array(base / file)
            scale = scale_of(base, name, stored)
            fill = encoded_fill(rows.shape[1], stored, scale, rows.dtype.name, defaults.get(name))
            _merge_dense(base, patch, file, ids, count, fill, directory)
    if (base / "target.npy").exists():
        _merge_dense(base, patch, "target.npy", ids, count, no_target(map_array(base / "target.npy").dtype), directory)
    return {key: facts[key] for key in _FACTS if key in facts} | {"rows": count}


def _merge_dense(base: Path, patch: Path, name: str, ids: Int64s, count: int, fill: Any, directory: Path) -> None:
    """Write the base's rows, overwritten by the patch's rows. All other rows are `fill`."""
    old, new = map_array(base / name), map_array(patch / name)
    if old.dtype != new.dtype or old.shape[1:] != new.shape[1:] or new.shape[:1] != ids.shape:
        raise CorruptError(
            f"{patch / name} is damaged: it does not fit {base / name}; create the snapshot again",
            code="damaged-snapshot",
        )
    out = new_row_file(directory / name, old.dtype, (count, *old.shape[1:]))
    kept = min(count, old.shape[0])
    # Copy in blocks, because a single assignment would touch all pages of both files at once.
    for at in range(0, kept, _COPIED_AT_ONCE):
        out[at : min(at + _COPIED_AT_ONCE, kept)] = old[at : min(at + _COPIED_AT_ONCE, kept)]
    out[kept:] = fill
    for at in range(0, ids.size, _COPIED_AT_ONCE):
        out[ids[at : at + _COPIED_AT_ONCE]] = new[at : at + _COPIED_AT_ONCE]
    out.flush()


def _merge_sparse(base: Csr, patch: Csr, ids: Int64s, count: int, width: int, directory: Path, name: str) -> None:
    """Write the rows of the base and the patch as one set of CSR arrays.

    Each row costs one rank query on the bitmap of patched ids.
    """
    counts = np.zeros(count, np.int64)
    kept = min(count, base.indptr.size - 1)
    counts[:kept] = np.diff(base.indptr[: kept + 1])
    counts[ids] = np.diff(patch.indptr)
    indptr = np.zeros(count + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    _, indices, values = new_csr(directory, name, indptr, base.indices.dtype, base.values.dtype)
    marks = overlay(ids, count)
    for at in range(0, count, _COPIED_AT_ONCE):
        rows = np.arange(at, min(at + _COPIED_AT_ONCE, count))
        block = gather_csr(base, patch, marks, rows, count, width)
        where = slice(indptr[at], indptr[rows[-1] + 1])
        indices[where], values[where] = block.indices, block.values


def no_target(dtype: np.dtype[Any]) -> Any:
    """Return the value of a missing target: NaN for float dtypes, and -1 for others."""
    return dtype.type(np.nan if dtype.kind == "f" else -1)

"""The features in published directories: opened, and checked to fit together before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from snapdb.errors import CorruptError
from snapdb.graph.features import ArrayFeature, HistoryFeature, Marks, PatchedFeature, SparseFeature
from snapdb.graph.view import Feature, KeyReader
from snapdb.kernels.overlay import Csr, empty_csr
from snapdb.storage.arrays.feature_files import csr_path, read_sparse
from snapdb.storage.arrays.feature_history import no_target, read_history, read_ids
from snapdb.storage.arrays.feature_types import DTYPES, fill_value
from snapdb.storage.manifests import PublishedDir


def open_features(base: Path, patch: Path | None, names: Sequence[str]) -> dict[str, Feature]:
    """The features of a published directory, with those of a patch over them.

    Raises:
        CorruptError: a file is missing, or does not fit the others.
    """
    root, newer = PublishedDir(base), None if patch is None else PublishedDir(patch)
    marks = None if newer is None else _marks(newer)
    return {name: _feature(root, newer, name, marks) for name in names}


def open_target(base: Path, patch: Path | None) -> Feature:
    """The target of a published directory, with that of a patch over it.

    Raises:
        CorruptError: a file is missing, or does not fit the others.
    """
    rows = PublishedDir(base).array("target.npy")
    if rows.ndim != 1 or rows.dtype.name not in ("int64", "float32"):
        raise _damaged(base / "target.npy")
    if patch is None:
        return ArrayFeature(rows)
    newer = PublishedDir(patch)
    marks = _marks(newer)
    return PatchedFeature(rows, _newer(newer, "target.npy", rows, marks), marks, no_target(rows.dtype))


def open_history(
    directory: Path,
    name: str,
    stop: int | None,
    default: float | None,
    element: str = "the element",
    keys: KeyReader | None = None,
) -> HistoryFeature:
    """A feature that changes in time, as of the end of a window.

    Args:
        stop: The window's end, itself excluded; None: it has none.
        element: The vertex type, for messages.
        keys: Its keys, for messages.

    Raises:
        CorruptError: a file is missing, or does not fit the others.
    """
    published = PublishedDir(directory)
    for file in ("indptr.npy", "time.npy", f"feature-{name}.npy"):
        published.checked(file)
    return HistoryFeature(read_history(directory, name), name, stop, default, element, keys)


def _number(directory: PublishedDir, *names: str) -> int:
    """The number under these names of a manifest: plain ones of old databases say little.

    Raises:
        CorruptError: there is none.
    """
    found: Any = directory.manifest
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, int) or found < 0:
        raise CorruptError(
            f"the manifest of {directory.path} is damaged: it has no {' '.join(names)}; create the snapshot again",
            code="damaged-snapshot",
        )
    return found


def _default(directory: PublishedDir, name: str) -> float | None:
    """A feature's DEFAULT."""
    defaults = directory.manifest.get("defaults")
    found = defaults.get(name) if isinstance(defaults, dict) else None
    return found if isinstance(found, int | float) else None


def _feature(base: PublishedDir, patch: PublishedDir | None, name: str, marks: Marks | None) -> Feature:
    if base.has(csr_path(base.path, name, "indptr").name):
        return _sparse(base, patch, name, marks)
    file = f"feature-{name}.npy"
    rows = base.array(file)
    if rows.ndim != 2 or rows.dtype.name not in DTYPES:
        raise _damaged(base.path / file)
    if patch is None or marks is None:
        return ArrayFeature(rows)
    fill = fill_value(rows.dtype.name, _default(patch, name))
    return PatchedFeature(rows, _newer(patch, file, rows, marks), marks, fill)


def _sparse(base: PublishedDir, patch: PublishedDir | None, name: str, marks: Marks | None) -> SparseFeature:
    width = _number(base if patch is None else patch, "widths", name)
    rows = _csr(base, name)
    if rows.values.dtype.name not in DTYPES:
        raise _damaged(csr_path(base.path, name, "values"))
    if patch is None or marks is None:
        return SparseFeature(rows, empty_csr(rows), None, width)
    newer = _csr(patch, name)
    if newer.indptr.size != marks.ids.size + 1 or newer.values.dtype != rows.values.dtype:
        raise _damaged(csr_path(patch.path, name, "indptr"))
    return SparseFeature(rows, newer, marks, width)


def _csr(directory: PublishedDir, name: str) -> Csr:
    for array in ("indptr", "indices", "values"):
        directory.checked(csr_path(directory.path, name, array).name)
    return read_sparse(directory.path, name)


def _marks(patch: PublishedDir) -> Marks:
    count = _number(patch, "count")
    patch.checked("ids.npy")
    return Marks(read_ids(patch.path, count), count)


def _newer(patch: PublishedDir, file: str, rows: npt.NDArray[Any], marks: Marks) -> npt.NDArray[Any]:
    newer = patch.array(file)
    if newer.dtype != rows.dtype or newer.shape != (marks.ids.size, *rows.shape[1:]):
        raise _damaged(patch.path / file)
    return newer


def _damaged(path: Path) -> CorruptError:
    return CorruptError(
        f"{path} is damaged; restore it from a backup or create the snapshot again", code="damaged-snapshot"
    )

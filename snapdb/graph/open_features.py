"""The features in published directories: opened, and checked to fit together before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt

from snapdb.errors import CorruptError
from snapdb.graph.features import ArrayFeature, HistoryFeature, Marks, PatchedFeature, SparseFeature
from snapdb.graph.view import Feature, KeyReader
from snapdb.kernels.overlay import empty_csr
from snapdb.storage.disk import map_array, read_manifest
from snapdb.storage.feature_patches import no_target, read_ids
from snapdb.storage.feature_types import DTYPES, filling
from snapdb.storage.histories import read_history
from snapdb.storage.sparse import csr_path, read_sparse

__all__ = ["open_features", "open_history", "open_target"]


def open_features(base: Path, patch: Path | None, names: Sequence[str]) -> dict[str, Feature]:
    """The features of a published directory, with those of a patch over them.

    Raises:
        CorruptError: a file is missing, or does not fit the others.
    """
    facts = _Facts(base if patch is None else patch)
    marks = None if patch is None else _marks(patch, facts)
    return {name: _feature(base, patch, name, facts, marks) for name in names}


def open_target(base: Path, patch: Path | None) -> Feature:
    """The target of a published directory, with that of a patch over it.

    Raises:
        CorruptError: a file is missing, or does not fit the others.
    """
    rows = map_array(base / "target.npy")
    if rows.ndim != 1 or rows.dtype.name not in ("int64", "float32"):
        raise _damaged(base / "target.npy")
    if patch is None:
        return ArrayFeature(rows)
    marks = _marks(patch, _Facts(patch))
    return PatchedFeature(rows, _newer(patch / "target.npy", rows, marks), marks, no_target(rows.dtype))


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
    return HistoryFeature(read_history(directory, name), name, stop, default, element, keys)


@dataclass(frozen=True)
class _Facts:
    """What a manifest says of features, read when something needs it: plain ones of old databases say little."""

    directory: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        return read_manifest(self.directory)

    def number(self, *names: str) -> int:
        """The number under these names.

        Raises:
            CorruptError: there is none.
        """
        found: Any = self.manifest
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        if not isinstance(found, int) or found < 0:
            raise CorruptError(f"the manifest of {self.directory} is damaged: it has no {' '.join(names)}; "
                               "create the snapshot again", code="damaged-snapshot")  # fmt: skip
        return found

    def default(self, name: str) -> float | None:
        """A feature's DEFAULT."""
        defaults = self.manifest.get("defaults")
        found = defaults.get(name) if isinstance(defaults, dict) else None
        return found if isinstance(found, int | float) else None


def _feature(base: Path, patch: Path | None, name: str, facts: _Facts, marks: Marks | None) -> Feature:
    if csr_path(base, name, "indptr").exists():
        return _sparse(base, patch, name, facts.number("widths", name), marks)
    path = base / f"feature-{name}.npy"
    rows = map_array(path)
    if rows.ndim != 2 or rows.dtype.name not in DTYPES:
        raise _damaged(path)
    if patch is None or marks is None:
        return ArrayFeature(rows)
    fill = filling(rows.dtype.name, facts.default(name))
    return PatchedFeature(rows, _newer(patch / path.name, rows, marks), marks, fill)


def _sparse(base: Path, patch: Path | None, name: str, width: int, marks: Marks | None) -> SparseFeature:
    rows = read_sparse(base, name)
    if rows.values.dtype.name not in DTYPES:
        raise _damaged(csr_path(base, name, "values"))
    if patch is None or marks is None:
        return SparseFeature(rows, empty_csr(rows), None, width)
    newer = read_sparse(patch, name)
    if newer.indptr.size != marks.ids.size + 1 or newer.values.dtype != rows.values.dtype:
        raise _damaged(csr_path(patch, name, "indptr"))
    return SparseFeature(rows, newer, marks, width)


def _marks(patch: Path, facts: _Facts) -> Marks:
    count = facts.number("count")
    return Marks(read_ids(patch, count), count)


def _newer(path: Path, rows: npt.NDArray[Any], marks: Marks) -> npt.NDArray[Any]:
    newer = map_array(path)
    if newer.dtype != rows.dtype or newer.shape != (marks.ids.size, *rows.shape[1:]):
        raise _damaged(path)
    return newer


def _damaged(path: Path) -> CorruptError:
    return CorruptError(
        f"{path} is damaged; restore it from a backup or create the snapshot again", code="damaged-snapshot"
    )

"""Patches of features, which `write_patch` wrote: which ids they hold, and base and patch made into a new base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.errors import CorruptError
from snapdb.kernels.overlay import Csr, gather_csr, overlay
from snapdb.storage.disk import map_array, read_manifest
from snapdb.storage.feature_types import filling
from snapdb.storage.sparse import csr_path, read_sparse

Int64s = npt.NDArray[np.int64]

_FACTS = ("widths", "parts", "defaults", "target", "growth")
_CHUNK = 1 << 16


def read_ids(directory: Path, count: int) -> Int64s:
    """The ids that a patch has rows of, ascending, memory-mapped.

    Raises:
        CorruptError: they are not of 0 ≤ id < count, or not ascending.
    """
    ids: Int64s = map_array(directory / "ids.npy")
    fits = ids.ndim == 1 and ids.dtype == np.int64
    if not fits or (ids.size and (ids[0] < 0 or ids[-1] >= count or bool((ids[1:] <= ids[:-1]).any()))):
        raise CorruptError(
            f"{directory / 'ids.npy'} is damaged; restore it from a backup or create the snapshot again",
            code="damaged-snapshot",
        )
    return ids


def merge_features(base: Path, patch: Path, directory: Path) -> dict[str, Any]:
    """Write base and patch as one new base, and return its facts."""
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
            _merge_dense(base, patch, f"feature-{name}.npy", ids, count, defaults.get(name), directory)
    if (base / "target.npy").exists():
        _merge_dense(base, patch, "target.npy", ids, count, None, directory)
    return {key: facts[key] for key in _FACTS if key in facts} | {"rows": count}


def _merge_dense(
    base: Path, patch: Path, name: str, ids: Int64s, count: int, default: float | None, directory: Path
) -> None:
    """The base's rows, then those of the patch over them; what neither has is the DEFAULT, or no target."""
    old, new = map_array(base / name), map_array(patch / name)
    if old.dtype != new.dtype or old.shape[1:] != new.shape[1:] or new.shape[:1] != ids.shape:
        raise CorruptError(
            f"{patch / name} is damaged: it does not fit {base / name}; create the snapshot again",
            code="damaged-snapshot",
        )
    out = np.lib.format.open_memmap(directory / name, mode="w+", dtype=old.dtype, shape=(count, *old.shape[1:]))
    kept = min(count, old.shape[0])
    for at in range(0, kept, _CHUNK):
        out[at : min(at + _CHUNK, kept)] = old[at : min(at + _CHUNK, kept)]
    out[kept:] = no_target(old.dtype) if name == "target.npy" else filling(old.dtype.name, default)
    for at in range(0, ids.size, _CHUNK):
        out[ids[at : at + _CHUNK]] = new[at : at + _CHUNK]
    out.flush()


def _merge_sparse(base: Csr, patch: Csr, ids: Int64s, count: int, width: int, directory: Path, name: str) -> None:
    counts = np.zeros(count, np.int64)
    kept = min(count, base.indptr.size - 1)
    counts[:kept] = np.diff(base.indptr[: kept + 1])
    counts[ids] = np.diff(patch.indptr)
    indptr = np.zeros(count + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    np.save(csr_path(directory, name, "indptr"), indptr)
    size, open_ = (int(indptr[-1]),), np.lib.format.open_memmap
    indices = open_(csr_path(directory, name, "indices"), mode="w+", dtype=base.indices.dtype, shape=size)
    values = open_(csr_path(directory, name, "values"), mode="w+", dtype=base.values.dtype, shape=size)
    marks = overlay(ids, count)
    for at in range(0, count, _CHUNK):
        rows = np.arange(at, min(at + _CHUNK, count))
        found = gather_csr(base, patch, marks, rows, count, width)
        where = slice(indptr[at], indptr[rows[-1] + 1])
        indices[where], values[where] = found.indices, found.values


def no_target(dtype: np.dtype[Any]) -> Any:
    """What stands for no target: NaN, or -1."""
    return dtype.type(np.nan if dtype.kind == "f" else -1)

"""Features that are stored in another type than they are delivered in: their files, ranges and fill values."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from snapdb.arrays import Array
from snapdb.errors import CorruptError
from snapdb.kernels.stored import CODES, Scale, encode
from snapdb.storage.array_files import new_row_file
from snapdb.storage.arrays.feature_types import fill_value
from snapdb.storage.manifests import Metadata, map_array
from snapdb.types import FeatureSpec

NUMBERS = 1 << 23
"""The approximate number of values per read."""


def values_path(directory: Path, spec: FeatureSpec) -> Path:
    """Return the file to which a feature's values are written: its own file, unless they are encoded afterwards."""
    encoded = spec.stored in ("bfloat16", "int8")
    return directory / (f"values-{spec.name}.npy" if encoded else f"feature-{spec.name}.npy")


def encode_values(directory: Path, spec: FeatureSpec, base: Path | None = None) -> bool:
    """Encode the values in `values_path`, and remove them. Returns whether they are within the ranges of the base.

    Args:
        directory: The directory of the files.
        spec: The feature. Nothing is done unless it is stored as bfloat16 or int8.
        base: The directory with the ranges of an int8 feature, or None for the ranges of the values.
    """
    path = values_path(directory, spec)
    if spec.stored is None or path == directory / f"feature-{spec.name}.npy":
        return True
    values = map_array(path)
    step = max(1, NUMBERS // max(1, values.shape[1]))
    scale = None
    if spec.stored == "int8":
        scale = read_scale(base, spec.name) if base is not None else _scale_of(values, step)
        np.save(scale_path(directory, spec.name), np.stack(scale))
    fits = True
    out = new_row_file(directory / f"feature-{spec.name}.npy", CODES[spec.stored], values.shape)
    for at in range(0, len(values), step):
        some = values[at : at + step]
        fits = fits and (base is None or scale is None or scale.covers(some))
        out[at : at + step] = encode(some, spec.stored, scale)
    out.flush()
    del values
    path.unlink()
    return fits


def _scale_of(values: Array, step: int) -> Scale:
    """Return the ranges of the columns of `values` [rows, width], which are read in blocks of `step` rows."""
    low = np.full(values.shape[1], np.inf, np.float32)
    high = -low
    for at in range(0, len(values), step):
        low = np.minimum(low, values[at : at + step].min(axis=0))
        high = np.maximum(high, values[at : at + step].max(axis=0))
    empty = not len(values)
    return Scale.of(np.zeros_like(low) if empty else low, np.zeros_like(low) if empty else high)


def scale_path(directory: Path, feature: str) -> Path:
    """Return the path of the ranges of a feature that is stored as int8."""
    return directory / f"feature-{feature}.scale.npy"


def read_scale(directory: Path, feature: str) -> Scale:
    """Return the ranges of a feature that is stored as int8.

    Raises:
        CorruptError: The file is missing or damaged.
    """
    path = scale_path(directory, feature)
    array = np.array(map_array(path))
    if array.ndim != 2 or array.shape[0] != 2 or array.dtype != np.float32:
        raise CorruptError(f"{path} is damaged; create the snapshot again", code="damaged-snapshot")
    return Scale(array[0], array[1])


def scale_of(directory: Path, feature: str, stored: str | None) -> Scale | None:
    """Return the ranges of a feature, or None if it is not stored as int8. The errors are those of `read_scale`."""
    return read_scale(directory, feature) if stored == "int8" else None


def covers_default(base: Path, spec: FeatureSpec, facts: Metadata) -> bool:
    """Return whether new ids without a row can have the DEFAULT, which must be within the ranges of the base."""
    if spec.stored != "int8" or spec.default is None:
        return True
    row = np.full((1, facts["widths"][spec.name]), spec.default, np.float32)
    return read_scale(base, spec.name).covers(row)


def encoded_fill(width: int, stored: str | None, scale: Scale | None, dtype: str, default: float | None) -> Array:
    """Return [width] the row of ids that have none: the DEFAULT or zeros, encoded like the other rows.

    Args:
        width: The number of columns.
        stored: The type in which the feature is stored, or None for its dtype.
        scale: The ranges of the columns for int8.
        dtype: The dtype of its file.
        default: The DEFAULT, or None.
    """
    if stored is None:
        return np.full(width, fill_value(dtype, default))
    row: Array = encode(np.full((1, width), 0 if default is None else default, np.float32), stored, scale)[0]
    return row

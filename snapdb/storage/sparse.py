"""Sparse features: per row its indices and values, as CSR arrays in id order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.errors import CorruptError
from snapdb.kernels.overlay import Csr
from snapdb.relational import ROW_ID, Session, quote
from snapdb.storage.disk import map_array
from snapdb.storage.feature_types import FeatureSource, Part, Slots, numbers_of, parts_of
from snapdb.types import FeatureSpec

Int64s = npt.NDArray[np.int64]

_ARRAYS = ("indptr", "indices", "values")
_BATCH = 20_000
_ID = quote(ROW_ID)


def csr_path(directory: Path, feature: str, array: str) -> Path:
    """Where one of the three arrays is."""
    return directory / f"feature-{feature}-{array}.npy"


def index_type(width: int) -> type[np.signedinteger[Any]]:
    """The type of the indices of so wide rows."""
    return np.int32 if width < 2**31 else np.int64


def write_sparse(
    session: Session, source: FeatureSource, spec: FeatureSpec, width: int, slots: Slots, directory: Path
) -> None:
    """Write a feature's rows at their slots; those of other slots are empty. Run `check_features` first."""
    index, value = parts_of(source, spec)
    counts = np.zeros(slots.count + 1, np.int64)
    lengths = f"SELECT {_ID}, CAST(len({index.sql}) AS BIGINT) FROM ({source.rows})"
    for batch in session.reader(lengths):
        counts[slots.at(batch.column(0).to_numpy()) + 1] = batch.column(1).to_numpy()
    indptr = np.cumsum(counts)
    np.save(csr_path(directory, spec.name, "indptr"), indptr)
    size = (int(indptr[-1]),)
    open_ = np.lib.format.open_memmap
    indices = open_(csr_path(directory, spec.name, "indices"), mode="w+", dtype=index_type(width), shape=size)
    values = open_(csr_path(directory, spec.name, "values"), mode="w+", dtype=np.dtype(spec.dtype), shape=size)
    whole = Part(index.name, index.sql, index.type, "int64")
    query = f"SELECT {_ID}, {whole.value}, {value.value} FROM ({source.rows})"
    for batch in session.reader(query, rows=_BATCH):
        rows = slots.at(batch.column(0).to_numpy())
        column, numbers = numbers_of(batch.column(1), whole, None), numbers_of(batch.column(2), value, None)
        lengths_ = indptr[rows + 1] - indptr[rows]
        # Within a row, torch wants ascending indices.
        order = np.lexsort((column, np.repeat(np.arange(rows.size), lengths_)))
        where = np.repeat(indptr[rows] - (np.cumsum(lengths_) - lengths_), lengths_) + np.arange(order.size)
        indices[where], values[where] = column[order], numbers[order]


def read_sparse(directory: Path, feature: str) -> Csr:
    """The arrays that `write_sparse` wrote, memory-mapped.

    Raises:
        CorruptError: one is missing, or of another type or length than the others need. Values are not looked at.
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

"""Data of a caller as Arrow, so that SQL can read it: the only door for Python values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from snapdb.errors import InputError

__all__ = ["Stream", "as_arrow", "as_source"]


@dataclass(slots=True)
class Stream:
    """Batches that can be read once, while they are made: they need not fit in memory."""

    batches: pa.RecordBatchReader
    started: bool = False
    """Whether somebody has read from it."""

    def reader(self) -> pa.RecordBatchReader:
        """A reader of the batches; reading, not making it, starts the stream."""

        def read() -> Iterator[pa.RecordBatch]:
            self.started = True
            yield from self.batches

        return pa.RecordBatchReader.from_batches(self.batches.schema, read())


def as_source(data: Any) -> Any:
    """What SQL can read of `data`: a pyarrow Dataset as it is, a RecordBatchReader as a Stream, all else as a table."""
    if isinstance(data, ds.Dataset):
        return data
    return Stream(data) if isinstance(data, pa.RecordBatchReader) else as_arrow(data)


def as_arrow(data: Any) -> pa.Table:
    """A table of what pandas, Arrow, torch, numpy or Python lists hold.

    One-dimensional data become one column called `id`; a mapping gives a column a key.

    >>> as_arrow([3, 1]).to_pydict()
    {'id': [3, 1]}
    """
    try:
        table = _table(data)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"cannot read this {type(data).__name__} as a table: {error}", code="not-a-table") from error
    if not table.column_names:
        raise InputError("cannot read data without columns as a table", code="not-a-table")
    return table


def _table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if isinstance(data, Mapping):
        return pa.table({str(name): _column(values) for name, values in data.items()})
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        return pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, list) and data and isinstance(data[0], tuple):
        return pa.table({f"k{i}": _column(list(part)) for i, part in enumerate(zip(*data, strict=True))})
    return pa.table({"id": _column(data)})


def _column(values: Any) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "detach"):  # a torch tensor, without importing torch
        values = values.detach().cpu().numpy()
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[1])
    if isinstance(values, np.ndarray) and values.ndim == 0:
        raise InputError("cannot read a single number as a column; give a list of them", code="not-a-table")
    if isinstance(values, np.ndarray | Sequence) and not isinstance(values, str | bytes):
        return pa.array(values, pa.int64()) if len(values) == 0 and isinstance(values, list) else pa.array(values)
    if hasattr(values, "__arrow_array__") or hasattr(values, "to_numpy"):
        return pa.array(values)
    raise InputError(
        f"cannot read {type(values).__name__} as a table; give Arrow, pandas, a tensor, an array or columns",
        code="not-a-table",
    )

"""What a model says of every vertex of a type, beside the user's ids: a tensor, and a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import torch
from torch import Tensor

_ROWS = 1 << 14
"""Rows of one record batch."""


@dataclass(frozen=True, eq=False, repr=False)
class Inferred:
    """The last layer's states of all vertices of a type."""

    node_type: str
    key: tuple[str, ...]
    """The names of the key's columns."""
    ids: pa.Array
    """[nodes] the user's ids: of the key's type, or structs for a composite key."""
    states: Tensor
    """[nodes, width], or [nodes], in the order of `ids`. Large ones lie in a file that goes with them."""
    column: str
    """What the states are called in a table."""

    def __repr__(self) -> str:
        what = tuple(self.states.shape)
        return f"Inferred({self.column} of {what[0]} {self.node_type}, shape {what}, {self.states.dtype})"

    def __len__(self) -> int:
        return len(self.states)

    @property
    def schema(self) -> pa.Schema:
        """The table's: the key's columns, then the states as fixed-size lists, or as numbers."""
        return pa.schema(self._batch(0, 0).schema)

    def reader(self) -> pa.RecordBatchReader:
        """The table's rows, batch by batch: it need not fit in memory."""
        starts = range(0, len(self), _ROWS)
        batches: Iterator[pa.RecordBatch] = (self._batch(start, start + _ROWS) for start in starts)
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def arrow(self) -> pa.Table:
        """The table: the key's columns and the states."""
        return self.reader().read_all()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table as Arrow's C stream, for polars, DuckDB, pyarrow and others that read it."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def _batch(self, start: int, stop: int) -> pa.RecordBatch:
        ids = self.ids.slice(start, stop - start)
        keys = [ids] if len(self.key) == 1 else ids.flatten()
        return pa.record_batch([*keys, _column(self.states[start:stop])], [*self.key, self.column])


def _column(states: Tensor) -> pa.Array:
    """Rows of numbers as Arrow; half precision as single, which SQL knows."""
    if states.dtype == torch.float16:
        states = states.float()
    values = pa.array(states.reshape(-1).numpy())
    return values if states.dim() == 1 else pa.FixedSizeListArray.from_arrays(values, states.shape[1])

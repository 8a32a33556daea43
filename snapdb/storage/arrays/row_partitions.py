"""Rows that are set aside on disk by ranges of their slots, for arrays that do not fit into memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from snapdb.arrays import Int64s

_NEAR = 8
"""The ratio of the range of a batch's slots to their number up to which they are written to the array at once."""
_WHERE = "snapdb slot"
"""The name of the column with the slots."""


class _Chunk(NamedTuple):
    """Rows of one partition in the file, as an Arrow IPC stream."""

    at: int
    """The offset in bytes."""
    size: int
    """The number of bytes."""


class RowPartitions:
    """Batches of rows in an unnamed file, each row in the partition of its slot.

    Rows in random order would be written to random pages of an array, and if the array does not fit into memory, the
    system would read and write a page for almost every row. One pass of radix partitioning writes the rows
    sequentially. Each partition is then read once, and its part of the array fits into memory.
    """

    def __init__(self, folder: Path, slots: int, partition: int) -> None:
        """Create the file.

        Args:
            folder: The folder of the file.
            slots: The number of slots of the array.
            partition: The number of slots whose rows fit into memory.
        """
        self._step = max(1, partition)
        self._chunks: list[list[_Chunk]] = [[] for _ in range(-(-slots // self._step))]
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 -- closed by __exit__
        self._size = 0

    @staticmethod
    def adjacent(where: Int64s) -> bool:
        """Whether slots are so close to each other that their rows can be written to the array at once."""
        return not where.size or int(where.max()) - int(where.min()) < _NEAR * where.size

    def add(self, where: Int64s, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch.

        Args:
            where: [rows] the slot of each row.
            batch: The rows.
        """
        order = np.argsort(where, kind="stable")
        where = where[order]
        rows = batch.take(pa.array(order)).append_column(_WHERE, pa.array(where))
        parts = where // self._step
        starts = np.flatnonzero(np.diff(parts, prepend=-1)).tolist()
        for start, stop in pairwise([*starts, where.size]):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_batch(rows.slice(start, stop - start))
            content = sink.getvalue()
            self._write(memoryview(content))
            self._chunks[int(parts[start])].append(_Chunk(self._size - content.size, content.size))

    def _write(self, content: memoryview) -> None:
        while content:
            written = self._file.write(content)
            self._size += written
            content = content[written:]

    def partitions(self) -> Iterator[Iterator[tuple[Int64s, pa.RecordBatch]]]:
        """Yield, for each partition, its batches with the slots of their rows."""
        for chunks in self._chunks:
            if chunks:
                yield map(self._read, chunks)

    def _read(self, chunk: _Chunk) -> tuple[Int64s, pa.RecordBatch]:
        content = os.pread(self._file.fileno(), chunk.size, chunk.at)
        batch = pa.ipc.open_stream(content).read_next_batch()
        return batch.column(_WHERE).to_numpy(), batch.drop_columns([_WHERE])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

"""The formats that keep types: each a function from record batches to pieces of bytes, streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq

from snapdb.errors import InputError
from snapdb.execute.rendering import type_name

Packer = Callable[[pa.Schema, Iterable[pa.RecordBatch]], Iterator[bytes]]
"""Pieces of a file for a schema and its batches; a file that was not finished cannot be read."""

_GROUP_ROWS = 122_880
"""Rows in a row group, as DuckDB writes them."""
_GROUP_BYTES = 64 << 20


class _Drain:
    """A file that hands over what was written to it."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        self._length += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing to let go of."""

    def taken(self) -> bytes:
        """What was written since the last time."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """A stream of Arrow IPC, batch by batch."""
    drain = _Drain()
    writer = pa.ipc.new_stream(drain, schema)
    for batch in batches:
        writer.write_batch(batch)
        yield drain.taken()
    writer.close()
    yield drain.taken()


def _parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """A Parquet file, one row group after another; HUGEINT is DECIMAL(38, 0).

    Raises:
        InputError: Parquet has no such type as a column's.
    """
    drain = _Drain()
    for field in schema:
        _check(field)
    writer = pq.ParquetWriter(drain, schema, compression="zstd")
    for group in _groups(batches):
        table = pa.Table.from_batches(group, schema=schema)
        writer.write_table(table, row_group_size=max(len(table), 1))
        yield drain.taken()
    writer.close()
    yield drain.taken()


def _check(field: pa.Field) -> None:
    """Raise for a type that Parquet has no room for, before anything is written."""
    try:
        pq.write_table(pa.table({field.name: pa.array([], field.type)}), pa.BufferOutputStream())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InputError(
            f"parquet has no type for column {field.name} ({type_name(field.type)}); cast it, e.g. to VARCHAR, or take "
            "--format arrow",
            code="output-format",
        ) from error


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches enough for a row group each."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


BINARY: Mapping[str, Packer] = MappingProxyType({"parquet": _parquet, "arrow": _arrow})

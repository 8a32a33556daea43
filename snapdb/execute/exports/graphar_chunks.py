"""The chunk files of GraphAr: Parquet files of a fixed number of rows, offsets, and files with one number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from snapdb.storage.manifests import FolderWriter

VERTEX_CHUNK = 1 << 18
"""The number of vertices of a chunk, which the specification recommends."""
EDGE_CHUNK = 1 << 22
"""The maximum number of edges of a chunk, which the specification recommends."""


def chunks_of(batch: pa.RecordBatch, start: int, size: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the parts of a batch whose first row has number `start`, with the chunks of `size` rows."""
    at = 0
    while at < batch.num_rows:
        chunk, inside = divmod(start + at, size)
        part = batch.slice(at, size - inside)
        yield chunk, part
        at += part.num_rows


class ChunkFiles:
    """Writes the chunks of several groups of columns. Each group has one open file, which its next chunk closes."""

    def __init__(self, folder: FolderWriter, prefix: str) -> None:
        self._folder, self._prefix = folder, prefix
        self._open: dict[str, tuple[str, pq.ParquetWriter, ExitStack]] = {}
        self.names = list[str]()
        """The files that were written, relative to the directory of the export."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with suppress(OSError) if error else nullcontext():  # the first error is the one that is reported
            for group in list(self._open):
                self._close(group)

    def append(self, name: str, columns: Mapping[str, pa.Array]) -> None:
        """Append rows to a chunk, whose file is named without an extension, as in the specification."""
        group, table = name.partition("/")[0], pa.table(dict(columns))
        if group not in self._open or self._open[group][0] != name:
            self._close(group)
            with ExitStack() as stack:
                file = stack.enter_context(open(self._path(name), "wb"))
                writer = stack.enter_context(pq.ParquetWriter(file, table.schema))
                self._open[group] = (name, writer, stack.pop_all())
        self._open[group][1].write_table(table)

    def write_number(self, name: str, value: int) -> None:
        """Write a file with one 64-bit integer, little-endian."""
        self._path(name).write_bytes(value.to_bytes(8, "little"))

    def _path(self, name: str) -> Path:
        self.names.append(self._prefix + name)
        return self._folder.file(self._prefix + name)

    def _close(self, group: str) -> None:
        if group in self._open:
            self._open.pop(group)[2].close()


class AdjacencyChunks:
    """Writes an adjacency list: edges by the chunk of their vertex on one side, with the offsets of its vertices."""

    def __init__(self, files: ChunkFiles, side: str, vertices: int, properties: str) -> None:
        """Start the list.

        Args:
            files: The files of the list.
            side: The column by which the edges are sorted, `source` or `destination`.
            vertices: The number of vertices on this side.
            properties: The directory of the properties.
        """
        self._files = files
        self._side, self._properties = side, properties
        self._degrees = np.zeros(vertices, np.int64)
        self._counts = np.zeros(-(-vertices // VERTEX_CHUNK), np.int64)

    def append(self, batch: pa.RecordBatch) -> None:
        """Append edges: `source`, `destination` and properties, sorted by the side's vertices."""
        sides = batch.column(self._side).to_numpy()
        if not sides.size:
            return
        first, last = int(sides[0]), int(sides[-1])
        self._degrees[first : last + 1] += np.bincount(sides - first, minlength=last + 1 - first)
        for part in range(first // VERTEX_CHUNK, last // VERTEX_CHUNK + 1):
            low, high = np.searchsorted(sides, [part * VERTEX_CHUNK, (part + 1) * VERTEX_CHUNK]).tolist()
            self._append(part, batch.slice(low, high - low))

    def _append(self, part: int, batch: pa.RecordBatch) -> None:
        for chunk, edges in chunks_of(batch, int(self._counts[part]), EDGE_CHUNK):
            source, destination, *properties = edges.columns
            ends = {"_graphArSrcIndex": source, "_graphArDstIndex": destination}
            self._files.append(f"adj_list/part{part}/chunk{chunk}", ends)
            columns = dict(zip(edges.schema.names[2:], properties, strict=True))
            self._files.append(f"{self._properties}part{part}/chunk{chunk}", columns)
            self._counts[part] += edges.num_rows

    def finish(self) -> int:
        """Write the offsets and the numbers of vertices and edges, and return the number of edges."""
        for part, count in enumerate(self._counts.tolist()):
            degrees = self._degrees[part * VERTEX_CHUNK : (part + 1) * VERTEX_CHUNK]
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)])
            self._files.append(f"offset/chunk{part}", {"_graphArOffset": pa.array(offsets)})
            self._files.write_number(f"edge_count{part}", count)
        self._files.write_number("vertex_count", self._degrees.size)
        return int(self._counts.sum())

"""The topology of an edge type at a version: CSC arrays in .npy files, sorted by (destination, event time, edge id).

An external sort builds the arrays. A first pass scatters the edges into buckets of adjacent nodes (radix partitioning),
and each bucket is then sorted in memory.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from snapdb.arrays import Array, Float64s, Int64s
from snapdb.errors import CorruptError, DatabaseError
from snapdb.kernels.adjacency.radix import count_buckets, order_nodes, pick, place_in_buckets, settle_rows, spread
from snapdb.kernels.adjacency.rows import are_rows
from snapdb.memory import available_memory
from snapdb.remote import is_remote
from snapdb.storage.array_files import ArrayFile, TimeSpan
from snapdb.storage.manifests import Metadata, PublishedDir, map_array

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_CHUNK = 1 << 20
"""The number of edges that are scattered at once."""
_OPTIONAL = {"time": np.dtype(np.int64), "until": np.dtype(np.int64), "weight": np.dtype(np.float64)}
"""The optional columns of edges, in addition to `node`, `indices` and `edge_id`."""

_BUCKET_NODES = 14
"""The binary logarithm of the usual number of nodes per bucket."""
_BUCKETS = 4096
"""The maximum number of buckets. If it would be exceeded, each bucket contains more nodes."""
_BUCKET_ROWS = 1 << 18
"""The number of edges per bucket above which buckets contain fewer nodes."""
_MEMORY = 2 << 30
"""The maximum bytes of edges that are kept in memory, unless the caller sets a limit."""
_THREADS = 2
"""The number of sorting threads."""
_WAITING = 6
"""The maximum number of chunks queued for threads, so that reading continues while they work."""

_ARRAYS = ("indptr", "indices", "edge_id", *_OPTIONAL)
_KINDS = {
    "indptr": ("int64",),
    "indices": ("int32", "int64"),
    "edge_id": ("int32", "int64"),
    **{name: (dtype.name,) for name, dtype in _OPTIONAL.items()},
}
_BATCHED = {"node": "destination", "indices": "source", "edge_id": "e_id"}
"""Edge column → its name in the batches."""


class _RowShape(NamedTuple):
    """The number and size of rows, and their division into buckets."""

    nodes: int
    """The number of rows."""
    far_nodes: int
    """The number of nodes of the neighbours' type. Every index is in 0 ≤ id < far_nodes."""
    last_id: int
    """The exclusive upper bound of edge ids."""
    shift: int
    """The binary logarithm of the number of nodes per bucket."""
    columns: Mapping[str, np.dtype[Any]]
    """Column → its narrowest dtype. `node` is the node's index within its bucket."""

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return -(-self.nodes >> self.shift)


def _row_shape(nodes: int, far_nodes: int, last_id: int, rows: int, optional: Iterable[str]) -> _RowShape:
    """Return the shape for rows with about `rows` edges in total and these optional columns.

    >>> _row_shape(10_000_000, 100, 100, 100_000_000, ["time"]).buckets
    611
    """
    # Buckets are few enough that their cursors fit into the CPU cache, and small enough to be sorted in it.
    shift = _BUCKET_NODES
    while nodes >> shift > _BUCKETS:
        shift += 1
    while shift > 0 and nodes >> (shift - 1) <= _BUCKETS // 2 and rows / ((nodes >> shift) + 1) > _BUCKET_ROWS:
        shift -= 1
    columns = {
        "node": np.dtype(np.uint16 if shift <= 16 else np.uint32),
        "indices": np.dtype(np.int32 if far_nodes < 2**31 else np.int64),
        "edge_id": np.dtype(np.int32 if last_id < 2**31 else np.int64),
        **{name: dtype for name, dtype in _OPTIONAL.items() if name in optional},
    }
    return _RowShape(nodes, far_nodes, last_id, shift, columns)


class _BucketRows(NamedTuple):
    """The finished rows of one bucket."""

    ends: Int64s
    """[nodes of the bucket] The end of each row, relative to the bucket's first edge."""
    columns: dict[str, Array]
    """All columns except `node`."""


class _GroupedChunk(NamedTuple):
    """One chunk of edges grouped by bucket, in memory or in the temporary file."""

    starts: Int64s
    """[buckets + 1] The start of each bucket in the chunk."""
    columns: dict[str, Array]
    """The columns in memory, or an empty dict if they are in the file."""
    offsets: dict[str, int]
    """The offset of each column in the file, or an empty dict if the columns are in memory."""


class _RowSort:
    """An external radix sort that receives edges in chunks and returns their rows by bucket."""

    def __init__(self, shape: _RowShape, memory: int, folder: Path | None = None) -> None:
        """Keep up to `memory` bytes of chunks in memory, and write later chunks to an unnamed file in `folder`."""
        self._shape = shape
        self._free = memory
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._runs: list[_GroupedChunk] = []
        self._open = ExitStack()

    def __enter__(self) -> _RowSort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runs.clear()
        self._open.close()

    @property
    def edges(self) -> int:
        """The number of edges added so far."""
        return sum(int(run.starts[-1]) for run in self._runs)

    def take(self, chunks: Iterable[Sequence[Mapping[str, Array]]]) -> Iterator[int]:
        """Add edges and yield the size of each chunk.

        A chunk is a list of pieces with the same columns. Their `node` column contains global ids.

        Raises:
            CorruptError: An id is out of range.
        """
        for run in _ahead(self._scattered, chunks, _WAITING):
            self._runs.append(self._kept(run))
            yield int(run.starts[-1])

    def buckets(self) -> Iterator[_BucketRows]:
        """Yield the rows of every bucket, in order. Threads process two buckets at a time."""
        return _ahead(self._bucket, range(self._shape.buckets), _THREADS)

    def _scattered(self, pieces: Sequence[Mapping[str, Array]]) -> _GroupedChunk:
        """Group a chunk by bucket, with one counting pass and then one scatter per column."""
        shape = self._shape
        limits = {"node": shape.nodes, "indices": shape.far_nodes, "edge_id": shape.last_id}
        starts = np.zeros(shape.buckets + 1, np.int64)
        for piece in pieces:
            for name, limit in limits.items():
                _check_range(name, piece[name], limit)
            count_buckets(_frozen(piece["node"]), shape.shift, starts[1:])
        np.cumsum(starts, out=starts)
        cursor = starts[:-1].copy()
        columns = {name: np.empty(starts[-1], dtype) for name, dtype in shape.columns.items()}
        for piece in pieces:
            slices = np.empty(piece["node"].size, np.int32)
            place_in_buckets(_frozen(piece["node"]), shape.shift, cursor, slices, columns["node"])
            for name, values in columns.items():
                if name != "node":
                    spread(_frozen(piece[name]), slices, values)
        return _GroupedChunk(starts, columns, {})

    def _kept(self, run: _GroupedChunk) -> _GroupedChunk:
        """Keep a chunk in memory while there is room, otherwise write it to the temporary file.

        Returns the stored chunk.
        """
        size = sum(values.nbytes for values in run.columns.values())
        if self._folder is None or size <= self._free:
            self._free -= size
            return run
        # Once one chunk is in the file, all later chunks are also written there, so that chunks stay in arrival order.
        self._free = 0
        if self._file is None:
            file = TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 -- closed with the sort
            self._file = self._open.enter_context(file)
        offsets = {}
        for name, values in run.columns.items():
            offsets[name] = self._file.tell()
            _write(self._file, values)
        return _GroupedChunk(run.starts, {}, offsets)

    def _bucket(self, bucket: int) -> _BucketRows:
        """Return the rows of a bucket, sorted by node, then by (time, edge id)."""
        shape = self._shape
        ends = np.zeros(min(1 << shape.shift, shape.nodes - (bucket << shape.shift)), np.int64)
        local = self._column(bucket, "node")
        order = np.empty(local.size, np.int32 if local.size < 2**31 else np.int64)
        order_nodes(local, ends, order)
        del local  # a hub's bucket is large, so free each column as soon as it has been used
        keys = [name for name in ("edge_id", "time") if name in shape.columns]
        columns = {name: self._picked(bucket, name, order) for name in keys}
        settle_rows(ends, columns[keys[-1]], columns["edge_id"], order)
        others = [name for name in shape.columns if name != "node" and name not in keys]
        return _BucketRows(ends, columns | {name: self._picked(bucket, name, order) for name in others})

    def _picked(self, bucket: int, name: str, order: Array) -> Array:
        """Return a bucket's column in the order of its rows."""
        values = self._column(bucket, name)
        out = np.empty_like(values)
        pick(values, order, out)
        return out

    def _column(self, bucket: int, name: str) -> Array:
        """Return a bucket's column, gathered from all chunks in arrival order."""
        spans = [(int(run.starts[bucket]), int(run.starts[bucket + 1])) for run in self._runs]
        values = np.empty(sum(stop - start for start, stop in spans), self._shape.columns[name])
        at = 0
        for run, (start, stop) in zip(self._runs, spans, strict=True):
            part = values[at : at + stop - start]
            if not run.offsets:
                part[:] = run.columns[name][start:stop]
            elif stop > start:
                assert self._file is not None
                _read(self._file, part, run.offsets[name] + start * part.itemsize)
            at += stop - start
        return values


def _ahead(function: Callable[[_Item], _Result], items: Iterable[_Item], limit: int) -> Iterator[_Result]:
    """Yield the function's results for the items, in order. Threads compute them up to `limit` items ahead."""
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[Future[_Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            while waiting and (len(waiting) > limit or waiting[0].done()):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _frozen(values: Array) -> Array:
    """Return a read-only view. Arrow's arrays are also read-only, so numba compiles only one variant."""
    view = values[:]
    view.flags.writeable = False
    return view


def _check_range(name: str, values: Array, limit: int) -> None:
    """Raise CorruptError if an id is not in 0 ≤ id < limit."""
    if values.size and (int(values.min()) < 0 or int(values.max()) >= limit):
        wrong = values[(values < 0) | (values >= limit)]
        what = "edge id" if name == "edge_id" else "node"
        raise CorruptError(
            f"{wrong.size} edges have the {what} {int(wrong[0])}, but the maximum is {limit - 1}; "
            "CHECK DATABASE lists the file",
            code="damaged-snapshot",
        )


def _write(file: IO[bytes], values: Array) -> None:
    """Write a whole array, in several calls if the system writes only part of it at once."""
    left = memoryview(values.view(np.uint8).data)
    while left:
        left = left[file.write(left) :]


def _read(file: IO[bytes], out: Array, offset: int) -> None:
    """Fill the array from an offset in the file without moving the write position."""
    left = memoryview(out.view(np.uint8).data)
    while left:
        count = os.preadv(file.fileno(), [left], offset)
        if not count:
            raise OSError(f"the temporary file of edges ended {len(left)} bytes early")
        left, offset = left[count:], offset + count


# Rows of one edge type.


@dataclass(frozen=True, slots=True)
class EdgeArrays:
    """Edges in any order, with dense ids."""

    source: Int64s
    """[edges] The dense ids of the sources."""
    destination: Int64s
    """[edges] The dense ids of the destinations."""
    edge_id: Array
    """[edges] Edge ids, int32 or int64."""
    time: Int64s | None
    """[edges] Event times, or None."""
    weight: Float64s | None
    """[edges] Weights, or None."""
    until: Int64s | None = None
    """[edges] End times, or None."""

    def sort_edges(self, nodes: int, far_nodes: int, *, outgoing: bool = False) -> AdjacencyRows:
        """Build the rows of the destinations (or sources, if `outgoing`) in memory, each sorted by (time, edge id).

        Args:
            nodes: The number of rows.
            far_nodes: The number of nodes of the neighbours' type, which determines the dtype of `indices`.
            outgoing: Whether rows belong to the sources.
        """
        count = self.edge_id.size
        near, far = (self.source, self.destination) if outgoing else (self.destination, self.source)
        given = {name: values for name in _OPTIONAL if (values := getattr(self, name)) is not None}
        parts = {"node": near, "indices": far, "edge_id": self.edge_id, **given}
        # Narrow edge ids, because the kernels of large builds sort narrow ids.
        last_id = int(self.edge_id.max(initial=-1)) + 1
        shape = _row_shape(nodes, far_nodes, last_id, count, given)
        indptr = np.zeros(nodes + 1, np.int64)
        types = {**shape.columns, "edge_id": self.edge_id.dtype}
        out = {name: np.empty(count, dtype) for name, dtype in types.items() if name != "node"}
        chunks = ([{name: v[start : start + _CHUNK] for name, v in parts.items()}] for start in range(0, count, _CHUNK))
        with _RowSort(shape, 0) as sort:
            # Exhaust the iterator at once: it yields sizes only for progress reports.
            deque(sort.take(chunks), maxlen=0)
            node = position = 0
            for bucket in sort.buckets():
                stop = position + bucket.columns["edge_id"].size
                indptr[node + 1 : node + 1 + bucket.ends.size] = bucket.ends + position
                for name, values in bucket.columns.items():
                    out[name][position:stop] = values
                node, position = node + bucket.ends.size, stop
        return rows_of(indptr, out)


@dataclass(frozen=True, slots=True)
class AdjacencyRows:
    """Edges in rows. There is one row for each node from which edges are expanded."""

    indptr: Int64s
    """[nodes + 1] The start of each row."""
    indices: Array
    """[edges] The dense ids of the neighbours: int32, or int64 for more than 2^31 nodes."""
    edge_id: Array
    """[edges] Edge ids, int32 or int64."""
    time: Int64s | None
    """[edges] Event times, or None."""
    weight: Float64s | None
    """[edges] Weights, or None."""
    until: Int64s | None = None
    """[edges] The end of each edge's validity, or 2^63 - 1 for an edge without an end. None if the type has no end
    times."""

    @property
    def columns(self) -> dict[str, Array]:
        """The [edges] arrays that exist, by name."""
        named = {name: getattr(self, name) for name in _ARRAYS[1:]}
        return {name: values for name, values in named.items() if values is not None}

    def take(self, indptr: Int64s, positions: Int64s) -> AdjacencyRows:
        """Return rows with the edges at the given positions."""
        return rows_of(indptr, {name: values[positions] for name, values in self.columns.items()})

    def write(self, directory: Path, prefix: str = "") -> Metadata:
        """Write the arrays as .npy files whose names start with `prefix`. Returns metadata for a manifest."""
        for name, array in {"indptr": self.indptr, **self.columns}.items():
            np.save(directory / f"{prefix}{name}.npy", array)
        span = TimeSpan()
        if self.time is not None:
            span.see(self.time)
        return {"edges": int(self.indices.size), "nodes": int(self.indptr.size - 1), **span.facts()}


class LazyRows(NamedTuple):
    """Rows whose missing or damaged columns raise an error only when they are read."""

    indptr: Int64s
    """[nodes + 1] The start of each row."""
    indices: Array
    """[edges] The dense ids of the neighbours."""
    columns: Mapping[str, Array | Callable[[], Array]]
    """The other [edges] columns by name. A value is an array, or a function that opens it or raises CorruptError."""


def rows_of(indptr: Int64s, columns: Mapping[str, Array]) -> AdjacencyRows:
    """Build rows from columns by name. Optional columns can be missing."""
    return AdjacencyRows(indptr, **{name: columns.get(name) for name in _ARRAYS[1:]})  # type: ignore[arg-type]


def build_rows(
    batches: Iterable[pa.RecordBatch],
    nodes: int,
    far_nodes: int,
    rows: int,
    last_id: int,
    directory: Path,
    *,
    outgoing: bool = False,
    memory: int | None = None,
    report: Callable[[float], None] | None = None,
) -> Metadata:
    """Write edges, given in any order, as rows sorted by (time, edge id), and return metadata for a manifest.

    Args:
        batches: Batches of the columns `source`, `destination`, `e_id` and optionally `time`, `until` and `weight`. Ids
            are dense.
        nodes: The number of rows.
        far_nodes: The number of nodes of the neighbours' type, which determines the dtype of `indices`.
        rows: The approximate number of edges.
        last_id: The exclusive upper bound of edge ids, which determines their dtype.
        directory: The directory of the .npy files.
        outgoing: Whether rows belong to the sources instead of the destinations.
        memory: The maximum bytes of edges in memory. The remaining edges are written to an unnamed file in `directory`.
            Defaults to a quarter of the available memory, at most 2 GiB.
        report: A function that is called with the completed fraction of the work.

    Raises:
        CorruptError: An id is out of range or missing.
    """
    rest = iter(batches)
    first = next(rest, None)
    names = [] if first is None else first.schema.names
    shape = _row_shape(nodes, far_nodes, last_id, rows, names)
    progress = report or (lambda _: None)
    if memory is None:
        memory = min(_MEMORY, available_memory() // 4)
    with _RowSort(shape, memory, directory) as sort:
        seen = 0
        for size in sort.take(_chunks(chain([first] if first is not None else [], rest), shape, outgoing)):
            seen += size
            progress(0.6 * min(1.0, seen / max(rows, 1)))
        return _write_sorted(sort, shape, directory, progress)


def _write_sorted(sort: _RowSort, shape: _RowShape, directory: Path, progress: Callable[[float], None]) -> Metadata:
    """Append the buckets to the files in order. Returns the files' metadata."""
    edges, span, position = sort.edges, TimeSpan(), 0
    dtypes = {name: dtype for name, dtype in shape.columns.items() if name != "node"}
    with ExitStack() as stack:
        indptr = stack.enter_context(ArrayFile(directory / "indptr.npy", np.int64, shape.nodes + 1))
        files = {
            name: stack.enter_context(ArrayFile(directory / f"{name}.npy", dtype, edges))
            for name, dtype in dtypes.items()
        }
        indptr.append(np.zeros(1, np.int64))
        for number, bucket in enumerate(sort.buckets(), 1):
            indptr.append(bucket.ends + position)
            for name, values in bucket.columns.items():
                files[name].append(values)
            position += bucket.columns["edge_id"].size
            if "time" in bucket.columns:
                span.see(bucket.columns["time"])
            progress(0.6 + 0.4 * number / shape.buckets)
    return {"edges": edges, "nodes": shape.nodes, **span.facts()}


def _chunks(batches: Iterable[pa.RecordBatch], shape: _RowShape, outgoing: bool) -> Iterator[list[dict[str, Array]]]:
    """Yield the batches' columns, gathered into chunks of about `_CHUNK` edges."""
    sources = {name: _BATCHED.get(name, name) for name in shape.columns}
    if outgoing:
        sources |= {"node": "source", "indices": "destination"}
    chunk: list[dict[str, Array]] = []
    held = 0
    for whole in batches:
        for start in range(0, whole.num_rows, _CHUNK):
            batch = whole.slice(start, _CHUNK)
            chunk.append({name: _numpy(batch, column) for name, column in sources.items()})
            held += batch.num_rows
            if held >= _CHUNK:
                yield chunk
                chunk, held = [], 0
    if chunk:
        yield chunk


def _numpy(batch: pa.RecordBatch, name: str) -> Array:
    """Return a column's values, copied only if their dtype differs."""
    column = batch.column(name)
    if column.null_count:
        raise CorruptError(
            f"{column.null_count} edges have no {name}; CHECK DATABASE lists the file", code="damaged-snapshot"
        )
    values: Array = column.to_numpy(zero_copy_only=False)
    return values.astype(_OPTIONAL.get(name, np.dtype(np.int64)), copy=False)


def read_rows(directory: Path) -> AdjacencyRows:
    """Return the arrays that `AdjacencyRows.write` or `build_rows` wrote, memory-mapped.

    Raises:
        CorruptError: An array is missing, or its dtype or length does not match the other arrays. The values are not
            read.
    """
    paths = {name: directory / f"{name}.npy" for name in _ARRAYS}
    arrays: dict[str, Any] = {name: map_array(path) if path.exists() else None for name, path in paths.items()}
    edges = 0 if arrays["indices"] is None else arrays["indices"].size
    for name, array in arrays.items():
        if array is not None or name not in _OPTIONAL:
            _check_array(paths[name], name, array, edges)
    return AdjacencyRows(**arrays)


def open_rows(directory: PublishedDir, prefix: str = "") -> LazyRows:
    """Map the arrays that `AdjacencyRows.write` or `build_rows` wrote. Missing columns fail only when they are read.

    Existing columns are mapped immediately, so that they outlive the directory. The manifest lists the columns, so that
    a missing file is not mistaken for a column that the edge type does not have.

    Raises:
        CorruptError: `indptr` or `indices` is missing, or has another size or dtype.
    """
    indices = directory.array(f"{prefix}indices.npy")
    _check_array(directory.path / f"{prefix}indices.npy", "indices", indices, indices.size)
    indptr = _open_array(directory, prefix, "indptr", indices.size)
    named = ["edge_id", *(name for name in _OPTIONAL if directory.has(f"{prefix}{name}.npy"))]
    return LazyRows(indptr, indices, {name: _open_column(directory, prefix, name, indices.size) for name in named})


def _open_column(directory: PublishedDir, prefix: str, name: str, edges: int) -> Array | Callable[[], Array]:
    """Return the array of a column or, if it cannot be opened or has to be fetched, a function that opens it."""
    if is_remote(directory.path / f"{prefix}{name}.npy"):
        return partial(_open_array, directory, prefix, name, edges)
    try:
        return _open_array(directory, prefix, name, edges)
    except DatabaseError:
        return partial(_open_array, directory, prefix, name, edges)


def _open_array(directory: PublishedDir, prefix: str, name: str, edges: int) -> Array:
    """Return the array of a column, after checking its file."""
    array = directory.array(f"{prefix}{name}.npy")
    _check_array(directory.path / f"{prefix}{name}.npy", name, array, edges)
    return array


def _check_array(path: Path, name: str, array: Array | None, edges: int) -> None:
    """Raise CorruptError if an array is missing, or its dtype or length does not match the number of edges."""
    length = max(array.size, 1) if name == "indptr" and array is not None else edges
    if array is None or array.ndim != 1 or array.dtype.name not in _KINDS[name] or array.size != length:
        raise CorruptError(f"{path} is missing or damaged; restore it from a backup", code="damaged-snapshot")


def check_rows(starts: Int64s, ends: Int64s, indices: Array, far_nodes: int, what: str) -> None:
    """Read all rows, and check that every row and every index is within its bounds.

    Raises:
        CorruptError: A row or an index is out of bounds. `what` names the rows in the message.
    """
    if not are_rows(starts, ends, indices, far_nodes):
        raise CorruptError(
            f"the adjacency of {what} is damaged: an index is out of range; CHECK DATABASE lists the file",
            code="damaged-snapshot",
        )

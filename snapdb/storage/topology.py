"""One edge type's adjacency at a version: CSC arrays sorted by (destination, event time, edge id), as .npy files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.errors import CorruptError, DatabaseError
from snapdb.kernels.topology import are_rows
from snapdb.storage.arrays import ArrayFile, TimeSpan
from snapdb.storage.disk import PublishedDir, map_array
from snapdb.storage.radix import CHUNK, OPTIONAL, RowShape, RowSort, row_shape

Int64s = npt.NDArray[np.int64]
EdgeIds = npt.NDArray[Any]
"""int32, or int64 from 2^31 edges on and in databases of old."""

_ARRAYS = ("indptr", "indices", "edge_id", *OPTIONAL)
_KINDS = {
    "indptr": ("int64",),
    "indices": ("int32", "int64"),
    "edge_id": ("int32", "int64"),
    **{name: (dtype.name,) for name, dtype in OPTIONAL.items()},
}
_BATCHED = {"node": "destination", "indices": "source", "edge_id": "e_id"}


@dataclass(frozen=True, slots=True)
class EdgeArrays:
    """Edges in no particular order; ids are dense."""

    source: Int64s
    destination: Int64s
    edge_id: EdgeIds
    time: Int64s | None
    weight: npt.NDArray[np.float64] | None
    until: Int64s | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """Edges as rows of the nodes they are expanded from."""

    indptr: Int64s
    """[nodes + 1]"""
    indices: npt.NDArray[Any]
    """[edges] dense ids of the far ends: int32, or int64 past 2^31 nodes."""
    edge_id: EdgeIds
    time: Int64s | None
    weight: npt.NDArray[np.float64] | None
    until: Int64s | None = None
    """When an edge ends; 2^63 - 1 where it does not."""

    @property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that there are by position, by name."""
        named = {name: getattr(self, name) for name in _ARRAYS[1:]}
        return {name: values for name, values in named.items() if values is not None}

    def take(self, indptr: Int64s, positions: Int64s) -> Rows:
        """Other rows made of these positions."""
        return rows_of(indptr, {name: values[positions] for name, values in self.columns.items()})


@dataclass(frozen=True, slots=True)
class LazyRows:
    """Rows of which a column that is missing or damaged is an error only for those that read it."""

    indptr: Int64s
    """[nodes + 1]"""
    indices: npt.NDArray[Any]
    columns: Mapping[str, npt.NDArray[Any] | Callable[[], npt.NDArray[Any]]]
    """By name: `edge_id` or another array by position, or what opens it or raises CorruptError; without `indices`."""


def rows_of(indptr: Int64s, columns: Mapping[str, npt.NDArray[Any]]) -> Rows:
    """Rows of columns by name, of which the optional ones may be missing."""
    return Rows(indptr, **{name: columns.get(name) for name in _ARRAYS[1:]})  # type: ignore[arg-type]


def build_rows(
    batches: Iterable[pa.RecordBatch],
    nodes: int,
    far_nodes: int,
    rows: int,
    last_id: int,
    directory: Path,
    *,
    prefix: str = "",
    outgoing: bool = False,
    memory: int = 2 << 30,
    report: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Write edges, which may come in any order, as rows by (time, edge id), and return the facts for a manifest.

    Args:
        batches: `source`, `destination`, `e_id` and, where there are, `time`, `until`, `weight`; ids are dense.
        nodes: How many nodes have a row.
        far_nodes: How many the neighbours' type has; decides the width of `indices`.
        rows: About how many edges will come.
        last_id: Edge ids are below it; decides their width.
        directory: Where the .npy files go; their names begin with `prefix`.
        outgoing: Rows of the sources instead of the destinations.
        memory: Bytes of edges to hold; more of them wait in a nameless file in `directory`.
        report: Told the fraction done.

    Raises:
        CorruptError: an id is out of its range or missing.
    """
    coming = iter(batches)
    first = next(coming, None)
    names = [] if first is None else first.schema.names
    shape = row_shape(nodes, far_nodes, last_id, rows, names)
    tell = report or (lambda _: None)
    with RowSort(shape, memory, directory) as sort:
        seen = 0
        for size in sort.take(_chunks(chain([first] if first is not None else [], coming), shape, outgoing)):
            seen += size
            tell(0.6 * min(1.0, seen / max(rows, 1)))
        return _write_sorted(sort, shape, directory, prefix, tell)


def _write_sorted(
    sort: RowSort, shape: RowShape, directory: Path, prefix: str, tell: Callable[[float], None]
) -> dict[str, Any]:
    """Append bucket after bucket to the files, and return their facts."""
    edges, span, position = sort.edges, TimeSpan(), 0
    dtypes = {name: dtype for name, dtype in shape.columns.items() if name != "node"}
    with ExitStack() as stack:
        indptr = stack.enter_context(ArrayFile(directory / f"{prefix}indptr.npy", np.int64, shape.nodes + 1))
        files = {
            name: stack.enter_context(ArrayFile(directory / f"{prefix}{name}.npy", dtype, edges))
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
            tell(0.6 + 0.4 * number / shape.buckets)
    return {"edges": edges, "nodes": shape.nodes, **span.facts()}


def _chunks(
    batches: Iterable[pa.RecordBatch], shape: RowShape, outgoing: bool
) -> Iterator[list[dict[str, npt.NDArray[Any]]]]:
    """The batches' columns, gathered into chunks of about CHUNK edges."""
    sources = {name: _BATCHED.get(name, name) for name in shape.columns}
    if outgoing:
        sources |= {"node": "source", "indices": "destination"}
    chunk: list[dict[str, npt.NDArray[Any]]] = []
    held = 0
    for whole in batches:
        for start in range(0, whole.num_rows, CHUNK):
            batch = whole.slice(start, CHUNK)
            chunk.append({name: _numpy(batch, column) for name, column in sources.items()})
            held += batch.num_rows
            if held >= CHUNK:
                yield chunk
                chunk, held = [], 0
    if chunk:
        yield chunk


def _numpy(batch: pa.RecordBatch, name: str) -> npt.NDArray[Any]:
    """A column's values; nothing is copied when they have their type already."""
    column = batch.column(name)
    if column.null_count:
        raise CorruptError(
            f"{column.null_count} edges have no {name}; CHECK DATABASE names the file", code="damaged-snapshot"
        )
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values.astype(OPTIONAL.get(name, np.dtype(np.int64)), copy=False)


def sort_edges(edges: EdgeArrays, nodes: int, far_nodes: int, *, outgoing: bool = False) -> Rows:
    """The rows of the destinations (or, `outgoing`, of the sources), each by (time, edge id), in memory.

    Args:
        edges: Edge ids keep their type.
        nodes: How many nodes have a row.
        far_nodes: How many the neighbours' type has; decides the width of `indices`.
    """
    count = edges.edge_id.size
    near, far = (edges.source, edges.destination) if outgoing else (edges.destination, edges.source)
    given = {name: values for name in OPTIONAL if (values := getattr(edges, name)) is not None}
    parts = {"node": near, "indices": far, "edge_id": edges.edge_id, **given}
    last_id = int(np.iinfo(edges.edge_id.dtype).max)
    shape = row_shape(nodes, far_nodes, last_id, count, given)
    indptr = np.zeros(nodes + 1, np.int64)
    out = {name: np.empty(count, dtype) for name, dtype in shape.columns.items() if name != "node"}
    chunks = ([{name: v[start : start + CHUNK] for name, v in parts.items()}] for start in range(0, count, CHUNK))
    with RowSort(shape, 0) as sort:
        for _ in sort.take(chunks):
            pass
        node = position = 0
        for bucket in sort.buckets():
            stop = position + bucket.columns["edge_id"].size
            indptr[node + 1 : node + 1 + bucket.ends.size] = bucket.ends + position
            for name, values in bucket.columns.items():
                out[name][position:stop] = values
            node, position = node + bucket.ends.size, stop
    return rows_of(indptr, out)


def write_rows(rows: Rows, directory: Path, prefix: str = "") -> dict[str, Any]:
    """Write the arrays as .npy files, whose names begin with `prefix`, and return their facts for a manifest."""
    for name, array in {"indptr": rows.indptr, **rows.columns}.items():
        np.save(directory / f"{prefix}{name}.npy", array)
    span = TimeSpan()
    if rows.time is not None:
        span.see(rows.time)
    return {"edges": int(rows.indices.size), "nodes": int(rows.indptr.size - 1), **span.facts()}


def read_rows(directory: Path, prefix: str = "") -> Rows:
    """The arrays that `write_rows` or `build_rows` wrote, memory-mapped.

    Raises:
        CorruptError: one is missing, or of another type or length than the others need. Values are not looked at.
    """
    found = {name: directory / f"{prefix}{name}.npy" for name in _ARRAYS}
    arrays: dict[str, Any] = {name: map_array(path) if path.exists() else None for name, path in found.items()}
    edges = 0 if arrays["indices"] is None else arrays["indices"].size
    for name, array in arrays.items():
        if array is not None or name not in OPTIONAL:
            _check_array(found[name], name, array, edges)
    return Rows(**arrays)


def open_rows(directory: PublishedDir, prefix: str = "") -> LazyRows:
    """The arrays that `write_rows` or `build_rows` wrote, memory-mapped; a column may be missing until it is read.

    Columns that are there are mapped at once, so that they outlive the directory. The manifest lists which there are,
    so that a file that is missing is never taken for a column that the edge type has not.

    Raises:
        CorruptError: `indptr` or `indices` is missing, or of another size or type than it must be.
    """
    indices = directory.array(f"{prefix}indices.npy")
    _check_array(directory.path / f"{prefix}indices.npy", "indices", indices, indices.size)
    indptr = _open_array(directory, prefix, "indptr", indices.size)
    named = ["edge_id", *(name for name in OPTIONAL if directory.has(f"{prefix}{name}.npy"))]
    return LazyRows(indptr, indices, {name: _open_column(directory, prefix, name, indices.size) for name in named})


def _open_column(
    directory: PublishedDir, prefix: str, name: str, edges: int
) -> npt.NDArray[Any] | Callable[[], npt.NDArray[Any]]:
    """The array of a column; where it cannot be opened, what raises the error at its first use."""
    try:
        return _open_array(directory, prefix, name, edges)
    except DatabaseError:
        return partial(_open_array, directory, prefix, name, edges)


def _open_array(directory: PublishedDir, prefix: str, name: str, edges: int) -> npt.NDArray[Any]:
    """One array of rows with `edges` edges."""
    array = directory.array(f"{prefix}{name}.npy")
    _check_array(directory.path / f"{prefix}{name}.npy", name, array, edges)
    return array


def _check_array(path: Path, name: str, array: npt.NDArray[Any] | None, edges: int) -> None:
    """Raises CorruptError when an array is missing, or its type or length does not fit the rows' number of edges."""
    length = max(array.size, 1) if name == "indptr" and array is not None else edges
    if array is None or array.ndim != 1 or array.dtype.name not in _KINDS[name] or array.size != length:
        raise CorruptError(f"{path} is missing or damaged; restore it from a backup", code="damaged-snapshot")


def check_rows(starts: Int64s, ends: Int64s, indices: npt.NDArray[Any], far_nodes: int, what: str) -> None:
    """Nothing when every row and every index is within its bounds, which reads all of them.

    Raises:
        CorruptError: one is not; `what` tells whose rows they are.
    """
    if not are_rows(starts, ends, indices, far_nodes):
        raise CorruptError(
            f"the adjacency of {what} is damaged: it leads out of its arrays; CHECK DATABASE names the file",
            code="damaged-snapshot",
        )

"""COPY SNAPSHOT … TO and COPY (SAMPLE …) TO: directories of arrays with a manifest. Vertices are numbered from 0.

Arrays are read and written in parts, so memory use does not grow with the snapshot's size.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapdb import loading
from snapdb.arrays import Array, Bools, Int64s
from snapdb.builders.element_columns import Reading
from snapdb.catalog import VertexRows
from snapdb.errors import BindError, CorruptError, DataError, InputError, Span
from snapdb.execute.exports.files import write_rows
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.samples.opening import open_sample
from snapdb.execute.session import ExecutionContext
from snapdb.graph import GraphView, open_snapshot
from snapdb.graph.features import SparseReader
from snapdb.graph.layout import classes_of, read_layout
from snapdb.graph.view import Adjacency, KeyReader
from snapdb.kernels.adjacency.rows import logical_parts, neighbors_of
from snapdb.loading.source import StreamOptions, StreamSource
from snapdb.plan.exports import CopySamplePlan, CopySnapshotPlan, SnapshotFormat
from snapdb.plan.queries import BoundQuery
from snapdb.sql_engine import quote, text_literal
from snapdb.storage.array_files import ArrayArchive
from snapdb.storage.manifests import FolderWriter, file_name
from snapdb.types import RNG_SCHEME, EdgeElement, Relation, VertexElement
from snapdb.types.text import counted, size_words

if TYPE_CHECKING:
    from snapdb.loading import BatchWriter


_Read = Callable[[Int64s], Array]

_PART = 1 << 24
"""The number of bytes of an array that are in memory at the same time."""


class _OutputArray(NamedTuple):
    """An array that is read lazily. Each call reads it from the beginning."""

    name: str
    """The name of the array. Arrays of a compound value have a dot in their names, such as `ids.region` or
    `x.indptr`."""
    dtype: np.dtype[Any]
    """The dtype of the array."""
    shape: tuple[int, ...]
    """The shape of the whole array."""
    parts: Callable[[], Iterator[Array]]
    """Yields the values in C order, in parts."""

    def whole(self) -> Array:
        """Read the whole array into memory."""
        values = np.empty(self.shape, self.dtype)
        flat, at = values.reshape(-1), 0
        for part in self.parts():
            flat[at : at + part.size] = part.reshape(-1)
            at += part.size
        return values


@dataclass(frozen=True, slots=True)
class _Numbering:
    """The vertices of one type in a snapshot, numbered from 0 in the order of their dense ids."""

    count: int
    """The number of vertices."""
    dense: Int64s | None = None
    """[count] dense ids, int64, or None if the dense ids have no gaps."""
    places: Int64s | None = None
    """[dense ids] vertex numbers, int64, with -1 for ids that are not in the snapshot. None if there are no gaps."""

    def parts(self, width: int) -> Iterator[Int64s]:
        """Yield the dense ids in order, in parts whose rows of `width` bytes fill `_PART`."""
        step = max(1, _PART // max(1, width))
        for start in range(0, self.count, step):
            stop = min(start + step, self.count)
            yield np.arange(start, stop) if self.dense is None else self.dense[start:stop]

    def of(self, dense: Array) -> Int64s:
        """Return the vertex numbers of dense ids, int64.

        Raises:
            CorruptError: An id does not belong to any vertex of the snapshot.
        """
        limit = self.count if self.places is None else self.places.size
        inside = not dense.size or (int(dense.min()) >= 0 and int(dense.max()) < limit)
        numbers = dense.astype(np.int64, copy=False) if self.places is None or not inside else self.places[dense]
        if not inside or (self.places is not None and bool((numbers < 0).any())):
            raise CorruptError(
                "an edge of the snapshot refers to a vertex that is not in it; create the snapshot again",
                code="damaged-snapshot",
            )
        return numbers


def _numbering_of(view: GraphView, vertex_type: str) -> _Numbering:
    alive = view.alive[vertex_type]
    if alive is None:
        return _Numbering(view.node_counts[vertex_type])
    places = np.cumsum(alive, dtype=np.int64) - 1
    places[~alive] = -1
    dense = np.flatnonzero(alive)
    return _Numbering(dense.size, dense, places)


def _per_vertex(
    name: str, numbering: _Numbering, dtype: npt.DTypeLike, width: tuple[int, ...], read: _Read
) -> _OutputArray:
    """Return an array with one row per vertex. `read` returns rows by dense ids."""
    kind, shape = np.dtype(dtype), (numbering.count, *width)
    return _OutputArray(name, kind, shape, lambda: map(read, numbering.parts(_bytes(kind, width))))


def _edge_arrays(
    view: GraphView, edge: EdgeElement, source: _Numbering, destination: _Numbering
) -> Iterator[_OutputArray]:
    """Yield the arrays of an edge type, sorted as PyG's `is_sorted=True` requires: destination, event time, edge id."""
    rows = view.adjacency(Relation(edge.type, "IN"))
    count = rows.edges

    def column(name: str, dtype: npt.DTypeLike, width: tuple[int, ...], read: _Read) -> _OutputArray:
        kind = np.dtype(dtype)
        return _OutputArray(name, kind, (count, *width), lambda: map(read, _positions(rows, _bytes(kind, width))))

    yield _OutputArray("edge_index", np.dtype(np.int64), (2, count), lambda: _ends(rows, source, destination))
    yield column("e_id", np.int64, (), rows.edge_id.read)
    named = {"edge_time": rows.time, "edge_until": rows.until, "edge_weight": rows.weight}
    for name, values in named.items():
        if values is not None:
            yield column(name, values.dtype, (), values.read)
    for name, feature in view.edge_features.get(edge.name, {}).items():

        def read(positions: Int64s, rows: Adjacency = rows, feature: Any = feature) -> Array:
            return feature.read(rows.edge_id.read(positions))  # type: ignore[no-any-return]

        yield column(name, feature.dtype, feature.shape[1:], read)


def _ends(rows: Adjacency, source: _Numbering, destination: _Numbering) -> Iterator[Int64s]:
    """Yield the vertex numbers of all sources, followed by those of all destinations."""
    for positions in _positions(rows, 8):
        yield source.of(neighbors_of(rows.rows, positions))
    for part in logical_parts(rows.rows, _PART // 8):
        nodes = np.arange(part.low, part.low + part.indptr.size - 1)
        yield destination.of(np.repeat(nodes, np.diff(part.indptr)))


def _positions(rows: Adjacency, width: int) -> Iterator[Int64s]:
    """Yield the positions of all edges, in parts whose size suits rows of `width` bytes."""
    step = max(1, _PART // max(1, width))
    for part in logical_parts(rows.rows, step):
        for start in range(0, part.positions.size, step):  # a single row may have more edges than a part
            yield part.positions[start : start + step]


def _bytes(dtype: np.dtype[Any], width: tuple[int, ...]) -> int:
    return int(dtype.itemsize * np.prod(width, dtype=np.int64))


_NATIVE = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_timestamp, pa.types.is_date)
"""Predicates for the key types that NumPy supports. Other keys are written as text."""
_SPARSE = 1 << 8
"""The assumed number of bytes per sparse row."""
_SPLITS = 32
"""The maximum number of distinct values of a split column."""


def _vertex_arrays(reading: Reading, vertex: VertexElement, numbering: _Numbering) -> Iterator[_OutputArray]:
    """Yield the arrays of a vertex type except its splits. Features are in graph order."""
    view = reading.view
    yield from _ids(view.keys[vertex.name], vertex.key, numbering)
    for name, feature in view.node_features.get(vertex.name, {}).items():
        if isinstance(feature, SparseReader):
            yield from _sparse(name, feature, numbering)
        else:
            yield _per_vertex(name, numbering, feature.dtype, feature.shape[1:], feature.read)
    if (target := view.targets.get(vertex.name)) is not None:
        yield _per_vertex("y", numbering, target.dtype, (), target.read)
        if classes := _classes(reading, vertex):
            yield _listed("y_classes", np.array(classes))
    if vertex.event_time is not None:
        born = reading.births(vertex.name)
        yield _per_vertex("time", numbering, np.int64, (), partial(np.take, born))


def masks(reading: Reading, name: str, column: str, numbering: _Numbering) -> list[_OutputArray]:
    """Return one mask per value of a text column, such as `train_mask`.

    Each mask has [count] bools, which are true for the vertices with that value.

    Raises:
        DataError: The values are not usable as splits, because there are too many or they contain characters other than
            letters, digits and _.
    """
    rows = reading.rows[name]
    assert isinstance(rows, VertexRows)
    text = f"CAST({quote(column)} AS VARCHAR)"
    values = _splits(reading, rows, text)
    odd = [value for value in values if not re.fullmatch(r"\w{1,100}", value)]
    if odd or len(values) > _SPLITS:
        problem = f"values such as {odd[0][:40]!r}" if odd else f"more than {_SPLITS} different values"
        raise DataError(
            f"column {column} of {name} contains {problem}; the values of a split must be words such as "
            "train, val and test; leave SPLIT out, or choose another column",
            code="bad-split",
        )
    known = f"[{', '.join(map(text_literal, values))}]::VARCHAR[]"
    codes = np.zeros(reading.view.node_counts[name], np.int64)
    for ids, places in reading.by_dense_id(rows, f"coalesce(list_position({known}, {text}), 0)"):
        codes[ids] = places

    def having(code: int, ids: Int64s) -> Bools:
        return np.equal(codes[ids], code)

    named_masks = ((f"{value}_mask", partial(having, code)) for code, value in enumerate(values, 1))
    return [_per_vertex(mask, numbering, np.bool_, (), read) for mask, read in named_masks]


def _splits(reading: Reading, rows: VertexRows, text: str) -> list[str]:
    """Return the distinct values of a column in order, up to one more than the maximum."""
    distinct = f"SELECT DISTINCT {text} AS v FROM ({rows.sql}) WHERE v IS NOT NULL ORDER BY v LIMIT {_SPLITS + 1}"
    with reading.context.store.sql_engine.session() as session:
        return [value for (value,) in session.rows(distinct)]


def _ids(keys: KeyReader, key: Sequence[str], numbering: _Numbering) -> Iterator[_OutputArray]:
    """Yield the user's ids. A composite key has one array per column."""
    whole = len(key) == 1
    kinds = keys.read(np.empty(0, np.int64)).type
    for i, name in enumerate(key):
        kind = kinds if whole else kinds.field(i).type

        def read(ids: Int64s, i: int = i) -> pa.Array:
            columns = keys.read(ids)
            return columns if whole else columns.field(i)

        yield _key_array("ids" if whole else f"ids.{name}", kind, numbering, read)


def _key_array(name: str, kind: pa.DataType, numbering: _Numbering, read: Any) -> _OutputArray:
    """Return keys in a NumPy type, or as fixed-width text if NumPy has no such type."""
    if any(is_one(kind) for is_one in _NATIVE):
        dtype = read(np.empty(0, np.int64)).to_numpy(zero_copy_only=False).dtype
        return _per_vertex(name, numbering, dtype, (), lambda ids: read(ids).to_numpy(zero_copy_only=False))
    # This requires an extra pass, because NumPy strings have a fixed width.
    widest = max((pc.max(pc.utf8_length(_text(read(ids)))).as_py() or 0 for ids in numbering.parts(8)), default=0)
    dtype = np.dtype(f"<U{max(1, widest)}")
    return _per_vertex(name, numbering, dtype, (), lambda ids: np.array(_text(read(ids)).to_pylist(), dtype))


def _text(keys: pa.Array) -> pa.Array:
    """Return keys as text, and bytes as hexadecimal digits."""
    if pa.types.is_binary(keys.type):
        return pa.array([value.hex() for value in keys.to_pylist()], pa.string())
    return keys.cast(pa.string())


def _sparse(name: str, feature: SparseReader, numbering: _Numbering) -> Iterator[_OutputArray]:
    """Yield sparse rows as the arrays and shape of a CSR matrix."""
    # Computing indptr requires an extra pass, because the other two arrays are streamed and their length must be known
    # first.
    indptr = np.zeros(numbering.count + 1, np.int64)
    at = 0
    for ids in numbering.parts(_SPARSE):
        indptr[at + 1 : at + 1 + ids.size] = indptr[at] + feature.read_sparse(ids).indptr[1:]
        at += ids.size
    yield _listed(f"{name}.indptr", indptr)
    for part, dtype in (("indices", np.dtype(np.int64)), ("values", feature.dtype)):

        def read(part: str = part) -> Iterator[Array]:
            return (getattr(feature.read_sparse(ids), part) for ids in numbering.parts(_SPARSE))

        yield _OutputArray(f"{name}.{part}", dtype, (int(indptr[-1]),), read)
    yield _listed(f"{name}.shape", np.array([numbering.count, feature.shape[1]]))


def _classes(reading: Reading, vertex: VertexElement) -> list[str]:
    """Return the class texts of a text target, or an empty list for a numeric target."""
    layout = read_layout(reading.context.store.db_dir, reading.snapshot)
    return list(
        classes_of(reading.context.store.db_dir, next(v for v in layout.vertices if v.name == vertex.name)) or ()
    )


def _listed(name: str, values: Array) -> _OutputArray:
    return _OutputArray(name, values.dtype, values.shape, lambda: iter([values]))


_Element = VertexElement | EdgeElement

_PYG_FILE = "data.pt"


class _Export(NamedTuple):
    """The source and the destination of an export."""

    context: ExecutionContext
    plan: CopySnapshotPlan
    reading: Reading
    folder: FolderWriter


class _Written(NamedTuple):
    """An element that has been written to a file."""

    element: _Element
    rows: int
    file: str
    fields: Mapping[str, Any]
    """The types of its columns, or the types and shapes of its arrays, by name."""


class _Filled(NamedTuple):
    """An element as arrays."""

    element: _Element
    rows: int
    arrays: list[_OutputArray]

    @property
    def fields(self) -> dict[str, Any]:
        return {array.name: {"type": str(array.dtype), "shape": list(array.shape)} for array in self.arrays}


def _tables(export: _Export) -> list[_Written]:
    """Write each element as Parquet, with the columns of the snapshot's view."""
    context, plan, entries = export.context, export.plan, []
    views = context.bind_context.views(plan.snapshot)
    for element in plan.snapshot.graph.elements:
        query, file = BoundQuery(views[element.name], plan.span), _file(element, "parquet")
        with context.bind_context.session(query) as session, context.watching(session, f"writing {element.name}"):
            context.check_stopped()
            columns = {column.name: column.type for column in session.describe(query.text)}
            rows = write_rows(session, query, export.folder.file(file), "parquet", "FORMAT parquet")
        entries.append(_Written(element, rows, file, columns))
    return entries


def _archives(export: _Export) -> list[_Written]:
    """Write each element as an .npz archive."""
    entries = []
    for filled in _elements(export):
        file = _file(filled.element, "npz")
        with ArrayArchive(export.folder.file(file)) as archive:
            for array in filled.arrays:
                archive.add(array.name, array.dtype, array.shape, array.parts())
        entries.append(_Written(filled.element, filled.rows, file, filled.fields))
    return entries


def _pyg(export: _Export) -> list[_Written]:
    """Write all elements into one file for PyG."""
    loading.pyg_package("FORMAT pyg")  # reports a missing package before anything is read
    elements = list(_elements(export, _as_pyg))
    whole = [(each.element, _nested(each.arrays)) for each in elements]
    loading.save_pyg(
        export.folder.file(_PYG_FILE),
        {element.name: fields for element, fields in whole if isinstance(element, VertexElement)},
        {each.element.name: each.rows for each in elements},
        {element.type: fields for element, fields in whole if isinstance(element, EdgeElement)},
    )
    return [_Written(each.element, each.rows, _PYG_FILE, each.fields) for each in elements]


_WRITERS: Mapping[SnapshotFormat, Callable[[_Export], list[_Written]]] = {
    "parquet": _tables,
    "npz": _archives,
    "pyg": _pyg,
}
"""Maps each format to the function that writes the directory's files."""


def _as_written(array: _OutputArray) -> _OutputArray:
    return array


def _as_pyg(array: _OutputArray) -> _OutputArray:
    """Convert an edge array for PyG, whose loaders reserve the name e_id and whose layers require float32 weights."""
    if array.name == "e_id":
        return array._replace(name="edge_id")
    if array.name != "edge_weight":
        return array
    single = np.dtype(np.float32)
    return array._replace(dtype=single, parts=lambda: (part.astype(single) for part in array.parts()))


def _elements(export: _Export, changed: Callable[[_OutputArray], _OutputArray] = _as_written) -> Iterator[_Filled]:
    """Yield every element with its arrays, which have not been read yet. `changed` converts the arrays of edges."""
    graph, view, splits = export.plan.snapshot.graph, export.reading.view, export.plan.splits
    numbered = {vertex.name: _numbering_of(view, vertex.name) for vertex in graph.vertices}
    for vertex in graph.vertices:
        numbering = numbered[vertex.name]
        arrays = list(_vertex_arrays(export.reading, vertex, numbering))
        if vertex.name in splits:
            arrays += _masks(export, vertex.name, splits[vertex.name], numbering)
        yield _Filled(vertex, numbering.count, _reporting(export, vertex.name, arrays))
    for edge in graph.edges:
        ends = numbered[edge.source], numbered[edge.destination]
        arrays = [changed(array) for array in _edge_arrays(view, edge, *ends)]
        yield _Filled(edge, arrays[0].shape[1], _reporting(export, edge.name, arrays))


def _masks(export: _Export, vertex_type: str, column: str, numbering: _Numbering) -> list[_OutputArray]:
    """Return the masks of a split, or none if SPLIT was omitted and the default column has no usable values."""
    try:
        return masks(export.reading, vertex_type, column, numbering)
    except DataError as error:
        if error.code == "bad-split" and not export.plan.split_said:
            return []
        raise


def _reporting(export: _Export, element: str, arrays: list[_OutputArray]) -> list[_OutputArray]:
    """Return the arrays, wrapped to report progress and to check for a stop request while they are read."""
    twice = [name for name, count in Counter(array.name for array in arrays).items() if count > 1]
    if twice:
        raise BindError(
            f'FORMAT {export.plan.format} has an array "{twice[0]}" of {element}, which is also a feature '
            "of the graph; rename the feature, or write FORMAT parquet",
            span=export.plan.span,
            code="duplicate-name",
        )

    def steps(array: _OutputArray, share: float) -> Iterator[Array]:
        for part in array.parts():
            export.context.step(f"writing {element}", share)
            yield part

    return [array._replace(parts=partial(steps, array, i / len(arrays))) for i, array in enumerate(arrays)]


def _nested(arrays: list[_OutputArray]) -> dict[str, Any]:
    """Read arrays into a dictionary by name. Arrays with dotted names are nested."""
    nested: dict[str, Any] = {}
    for array in arrays:
        name, dot, part = array.name.partition(".")
        if dot:
            nested.setdefault(name, {})[part] = array.whole()
        else:
            nested[name] = array.whole()
    return nested


def _file(element: _Element, suffix: str) -> str:
    return f"{'edges' if isinstance(element, EdgeElement) else 'vertices'}/{file_name(element.name)}.{suffix}"


@contextmanager
def _export_folder(context: ExecutionContext, path: str, span: Span, *, overwrite: bool) -> Iterator[FolderWriter]:
    """Yield a directory to fill, as a context manager. It is removed unless the block publishes it with `finish`.

    Raises:
        InputError: The path is not writable or not allowed, or the disk reports an error.
    """
    target = Path(os.path.expanduser(path))
    if Path(os.path.realpath(target)).is_relative_to(os.path.realpath(context.store.db_dir.path)):
        problem = f"{path} is in the database directory, which contains only files of snapdb; choose a path outside it"
        raise InputError(problem, span=span, code="unwritable-file")
    try:
        context.store.sql_engine.check_folder(target)
        with FolderWriter(target, context.store.disk, overwrite=overwrite) as folder:
            yield folder
    except InputError as error:
        if error.code in ("unwritable-file", "folder-exists", "folder-not-allowed"):
            error.span = error.span or span
        raise


def copy_snapshot(plan: CopySnapshotPlan, context: ExecutionContext) -> Rows:
    """Run COPY SNAPSHOT … TO: write every element of a snapshot to a directory, as tables, arrays or PyG data."""
    yield from ()
    snapshot = plan.snapshot
    opened = open_snapshot(context.store.catalog_db, snapshot)
    try:
        with _export_folder(context, plan.path, plan.span, overwrite=plan.overwrite) as folder:
            reading = Reading.of(context, snapshot, opened.view, opened.id_maps)
            written = _WRITERS[plan.format](_Export(context, plan, reading, folder))
            files = {each.file: each.element for each in written}
            size = sum(folder.wrote(file) for file in files)
            folder.finish(_manifest(plan, written) | {"lineage": {**opened.view.lineage, "rng": RNG_SCHEME}})
    finally:
        opened.lease.release()
    edges = sum(each.rows for each in written if isinstance(each.element, EdgeElement))
    vertices = sum(each.rows for each in written) - edges
    counts = f"{counted(vertices, 'vertex', 'vertices')} and {counted(edges, 'edge')}"
    return Outcome(f"{counts} to {plan.path}, {size_words(size)} in {counted(len(files), 'file')}", vertices + edges)


def _manifest(plan: CopySnapshotPlan, written: Sequence[_Written]) -> dict[str, Any]:
    """Return the directory's manifest, with the file, number of rows and fields of each element."""
    schema: dict[str, dict[str, Any]] = {"vertices": {}, "edges": {}}
    for element, rows, file, fields in written:
        entry = {"file": file, "rows": rows, "fields": fields}
        if isinstance(element, EdgeElement):
            schema["edges"][element.name] = {"source": element.source, "destination": element.destination, **entry}
        else:
            split = plan.splits.get(element.name)
            schema["vertices"][element.name] = {"key": list(element.key), "split": split, **entry}
    return {"kind": "snapshot", "file_format": plan.format, "schema": schema}


def copy_sample(plan: CopySamplePlan, context: ExecutionContext) -> Rows:
    """Run COPY (SAMPLE …) TO: write each batch of the epochs, built as in a stream, to its own file."""
    yield from ()
    with _export_folder(context, plan.path, plan.span, overwrite=plan.overwrite) as folder:
        opened = open_sample(context, plan.sample)
        try:
            context.check_stopped()
            batches, size = _write_batches(plan, context, opened, loading.BatchWriter(folder, plan.format))
        finally:
            opened.release()
    return Outcome(f"{counted(batches, 'batch', 'batches')} to {plan.path}, {size_words(size)}", batches)


def _write_batches(
    plan: CopySamplePlan, context: ExecutionContext, opened: StreamSource, writer: BatchWriter
) -> tuple[int, int]:
    """Write each batch on the thread that builds it, and return the number of batches and bytes."""
    sample, what, done, size = plan.sample, f"writing {plan.path}", 0, 0
    with (
        sample.places.under(),
        loading.BatchStream(
            opened, StreamOptions(max_threads=context.threads, device="cpu", transform=writer)
        ) as stream,
    ):
        lineage = stream.lineage
        for epoch in range(sample.epochs if len(stream) else 0):
            total = len(stream)
            # The results of the transform replace the batches. Here, they are the numbers of bytes written.
            sizes: Iterator[Any] = iter(stream)
            for number, written in enumerate(sizes):
                context.step(what, (epoch + number / total) / sample.epochs)
                done, size = done + 1, size + written
        writer.finish(lineage, sample.epochs)
    return done, size

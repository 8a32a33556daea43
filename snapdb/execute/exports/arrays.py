"""The arrays of a snapshot that an export writes. Vertices are numbered from 0.

Arrays are read and written in parts, so memory use does not grow with the snapshot's size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapdb.arrays import Array, Bools, Int64s
from snapdb.builders.element_columns import Reading
from snapdb.catalog import VertexRows
from snapdb.errors import CorruptError, DataError
from snapdb.graph import GraphView
from snapdb.graph.features import SparseReader
from snapdb.graph.layout import classes_of, read_layout
from snapdb.graph.view import Adjacency, KeyReader
from snapdb.kernels.adjacency.rows import logical_parts, neighbors_of
from snapdb.sql_engine import quote, text_literal
from snapdb.types import EdgeElement, Relation, VertexElement

_Read = Callable[[Int64s], Array]

_PART = 1 << 24
"""The number of bytes of an array that are in memory at the same time."""


class OutputArray(NamedTuple):
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
    rows: tuple[OutputArray, ...] = ()
    """The rows of `edge_index` as arrays, which can be read at the same time. Other arrays have none."""

    def whole(self) -> Array:
        """Read the whole array into memory."""
        values = np.empty(self.shape, self.dtype)
        flat, at = values.reshape(-1), 0
        for part in self.parts():
            flat[at : at + part.size] = part.reshape(-1)
            at += part.size
        return values


class ArrayCursor:
    """Reads an array from its first value to the last, any number of values at a time."""

    def __init__(self, array: OutputArray) -> None:
        self._array = array
        self._parts: Iterator[Array] | None = None
        self._left = np.empty(0, array.dtype)

    def take(self, count: int) -> Array:
        """Return the next `count` values in C order."""
        self._parts = self._parts or self._array.parts()
        pieces = list[Array]()
        while True:
            pieces.append(self._left[:count])
            count, self._left = count - pieces[-1].size, self._left[count:]
            if not count:
                return np.concatenate(pieces) if len(pieces) > 1 else pieces[0]
            self._left = np.ascontiguousarray(next(self._parts), self._array.dtype).reshape(-1)


@dataclass(frozen=True, slots=True)
class Numbering:
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


def numbering_of(view: GraphView, vertex_type: str) -> Numbering:
    """Return the numbers of the vertices of a type."""
    alive = view.alive[vertex_type]
    if alive is None:
        return Numbering(view.node_counts[vertex_type])
    places = np.cumsum(alive, dtype=np.int64) - 1
    places[~alive] = -1
    dense = np.flatnonzero(alive)
    return Numbering(dense.size, dense, places)


def _per_vertex(
    name: str, numbering: Numbering, dtype: npt.DTypeLike, width: tuple[int, ...], read: _Read
) -> OutputArray:
    """Return an array with one row per vertex. `read` returns rows by dense ids."""
    kind, shape = np.dtype(dtype), (numbering.count, *width)
    return OutputArray(name, kind, shape, lambda: map(read, numbering.parts(_bytes(kind, width))))


def edge_arrays(view: GraphView, edge: EdgeElement, source: Numbering, destination: Numbering) -> Iterator[OutputArray]:
    """Yield the arrays of an edge type, sorted as PyG's `is_sorted=True` requires: destination, event time, edge id."""
    rows = view.adjacency(Relation(edge.type, "IN"))
    count = rows.edges

    def column(name: str, dtype: npt.DTypeLike, width: tuple[int, ...], read: _Read) -> OutputArray:
        kind = np.dtype(dtype)
        return OutputArray(name, kind, (count, *width), lambda: map(read, _positions(rows, _bytes(kind, width))))

    near = OutputArray("source", np.dtype(np.int64), (count,), lambda: _sources(rows, source))
    far = OutputArray("destination", np.dtype(np.int64), (count,), lambda: _destinations(rows, destination))
    whole = OutputArray("edge_index", np.dtype(np.int64), (2, count), lambda: chain(near.parts(), far.parts()))
    yield whole._replace(rows=(near, far))
    yield column("e_id", np.int64, (), rows.edge_id.read)
    named = {"edge_time": rows.time, "edge_until": rows.until, "edge_weight": rows.weight}
    for name, values in named.items():
        if values is not None:
            yield column(name, values.dtype, (), values.read)
    for name, feature in view.edge_features.get(edge.name, {}).items():

        def read(positions: Int64s, rows: Adjacency = rows, feature: Any = feature) -> Array:
            return feature.read(rows.edge_id.read(positions))  # type: ignore[no-any-return]

        yield column(name, feature.dtype, feature.shape[1:], read)


def row_bounds(view: GraphView, edge: EdgeElement, destination: Numbering) -> OutputArray:
    """Return `indptr`: [destinations + 1] the first edge of each destination, in the order of `edge_arrays`."""

    def read() -> Iterator[Int64s]:
        degrees = view.adjacency(Relation(edge.type, "IN")).degrees()
        kept = degrees[: destination.count] if destination.dense is None else degrees[destination.dense]
        yield np.concatenate([np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)])

    return OutputArray("indptr", np.dtype(np.int64), (destination.count + 1,), read)


def _sources(rows: Adjacency, source: Numbering) -> Iterator[Int64s]:
    """Yield the vertex numbers of all sources."""
    for positions in _positions(rows, 8):
        yield source.of(neighbors_of(rows.rows, positions))


def _destinations(rows: Adjacency, destination: Numbering) -> Iterator[Int64s]:
    """Yield the vertex numbers of all destinations."""
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


def vertex_arrays(reading: Reading, vertex: VertexElement, numbering: Numbering) -> Iterator[OutputArray]:
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


def masks(reading: Reading, name: str, column: str, numbering: Numbering) -> list[OutputArray]:
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


def _ids(keys: KeyReader, key: Sequence[str], numbering: Numbering) -> Iterator[OutputArray]:
    """Yield the user's ids. A composite key has one array per column."""
    whole = len(key) == 1
    kinds = keys.read(np.empty(0, np.int64)).type
    for i, name in enumerate(key):
        kind = kinds if whole else kinds.field(i).type

        def read(ids: Int64s, i: int = i) -> pa.Array:
            columns = keys.read(ids)
            return columns if whole else columns.field(i)

        yield _key_array("ids" if whole else f"ids.{name}", kind, numbering, read)


def _key_array(name: str, kind: pa.DataType, numbering: Numbering, read: Any) -> OutputArray:
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


def _sparse(name: str, feature: SparseReader, numbering: Numbering) -> Iterator[OutputArray]:
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

        yield OutputArray(f"{name}.{part}", dtype, (int(indptr[-1]),), read)
    yield _listed(f"{name}.shape", np.array([numbering.count, feature.shape[1]]))


def _classes(reading: Reading, vertex: VertexElement) -> list[str]:
    """Return the class texts of a text target, or an empty list for a numeric target."""
    layout = read_layout(reading.context.store.db_dir, reading.snapshot)
    return list(
        classes_of(reading.context.store.db_dir, next(v for v in layout.vertices if v.name == vertex.name)) or ()
    )


def _listed(name: str, values: Array) -> OutputArray:
    return OutputArray(name, values.dtype, values.shape, lambda: iter([values]))

"""What a vertex type of a snapshot holds, as named arrays: the user's ids, features, targets, times and splits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapdb.catalog import VertexRows
from snapdb.errors import DataError
from snapdb.execute.element_columns import Reading, births, by_dense_id
from snapdb.execute.snapshot_arrays import Array, Numbering, per_vertex
from snapdb.graph.codings import classes_of
from snapdb.graph.features import SparseReader
from snapdb.graph.open import read_layout
from snapdb.graph.view import KeyReader
from snapdb.relational import quote, text_literal
from snapdb.types import VertexElement

Int64s = npt.NDArray[np.int64]

_NATIVE = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_timestamp, pa.types.is_date)
"""Keys that numpy has a type for; others are text."""
_SPARSE = 1 << 8
"""Bytes that a sparse row is taken for."""
_SPLITS = 32
"""More values than that split nothing."""


def vertex_arrays(reading: Reading, vertex: VertexElement, numbering: Numbering) -> Iterator[Array]:
    """The arrays of a vertex type, but for its splits, in the graph's order of features."""
    view = reading.view
    yield from _ids(view.keys[vertex.name], vertex.key, numbering)
    for name, feature in view.node_features.get(vertex.name, {}).items():
        if isinstance(feature, SparseReader):
            yield from _sparse(name, feature, numbering)
        else:
            yield per_vertex(name, numbering, feature.dtype, feature.shape[1:], feature.read)
    if (target := view.targets.get(vertex.name)) is not None:
        yield per_vertex("y", numbering, target.dtype, (), target.read)
        if classes := _classes(reading, vertex):
            yield _listed("y_classes", np.array(classes))
    if vertex.event_time is not None:
        born = births(reading, vertex.name)
        yield per_vertex("time", numbering, np.int64, (), partial(np.take, born))


def masks(reading: Reading, name: str, column: str, numbering: Numbering) -> list[Array]:
    """For each value of a column of text the vertices that have it, as `train_mask`.

    Raises:
        DataError: the values are no splits: too many, or not of letters, digits and _.
    """
    rows = reading.rows[name]
    assert isinstance(rows, VertexRows)
    text = f"CAST({quote(column)} AS VARCHAR)"
    values = _splits(reading, rows, text)
    odd = [value for value in values if not re.fullmatch(r"\w{1,100}", value)]
    if odd or len(values) > _SPLITS:
        found = f"values such as {odd[0][:40]!r}" if odd else f"more than {_SPLITS} different values"
        raise DataError(
            f"column {column} of {name} holds {found}, which are no splits: a split is a word such as "
            "train, val and test; leave SPLIT out, or name another column",
            code="bad-split",
        )
    known = f"[{', '.join(map(text_literal, values))}]::VARCHAR[]"
    codes = np.zeros(reading.view.node_counts[name], np.int64)
    for ids, places in by_dense_id(reading, rows, f"coalesce(list_position({known}, {text}), 0)"):
        codes[ids] = places

    def having(code: int, ids: Int64s) -> npt.NDArray[np.bool_]:
        return np.equal(codes[ids], code)

    made = ((f"{value}_mask", partial(having, code)) for code, value in enumerate(values, 1))
    return [per_vertex(mask, numbering, np.bool_, (), read) for mask, read in made]


def _splits(reading: Reading, rows: VertexRows, text: str) -> list[str]:
    """The different values of a column, in order, or one more of them than there may be."""
    distinct = f"SELECT DISTINCT {text} AS v FROM ({rows.sql}) WHERE v IS NOT NULL ORDER BY v LIMIT {_SPLITS + 1}"
    with reading.engine.relational.session() as session:
        return [value for (value,) in session.rows(distinct)]


def _ids(keys: KeyReader, key: Sequence[str], numbering: Numbering) -> Iterator[Array]:
    """The user's ids; of a composite key an array for each column."""
    whole = len(key) == 1
    kinds = keys.read(np.empty(0, np.int64)).type
    for i, name in enumerate(key):
        kind = kinds if whole else kinds.field(i).type

        def read(ids: Int64s, i: int = i) -> pa.Array:
            found = keys.read(ids)
            return found if whole else found.field(i)

        yield _key_array("ids" if whole else f"ids.{name}", kind, numbering, read)


def _key_array(name: str, kind: pa.DataType, numbering: Numbering, read: Any) -> Array:
    """Keys as numpy has them; what it has no type for as text of one width."""
    if any(is_one(kind) for is_one in _NATIVE):
        dtype = read(np.empty(0, np.int64)).to_numpy(zero_copy_only=False).dtype
        return per_vertex(name, numbering, dtype, (), lambda ids: read(ids).to_numpy(zero_copy_only=False))
    widest = max((pc.max(pc.utf8_length(_text(read(ids)))).as_py() or 0 for ids in numbering.parts(8)), default=0)
    dtype = np.dtype(f"<U{max(1, widest)}")
    return per_vertex(name, numbering, dtype, (), lambda ids: np.array(_text(read(ids)).to_pylist(), dtype))


def _text(keys: pa.Array) -> pa.Array:
    """Keys as text; bytes as hexadecimal digits."""
    if pa.types.is_binary(keys.type):
        return pa.array([value.hex() for value in keys.to_pylist()], pa.string())
    return keys.cast(pa.string())


def _sparse(name: str, feature: SparseReader, numbering: Numbering) -> Iterator[Array]:
    """Sparse rows as the arrays of a CSR matrix, and its shape."""
    indptr = np.zeros(numbering.count + 1, np.int64)
    at = 0
    for ids in numbering.parts(_SPARSE):
        indptr[at + 1 : at + 1 + ids.size] = indptr[at] + feature.read_sparse(ids).indptr[1:]
        at += ids.size
    yield _listed(f"{name}.indptr", indptr)
    for part, dtype in (("indices", np.dtype(np.int64)), ("values", feature.dtype)):

        def read(part: str = part) -> Iterator[npt.NDArray[Any]]:
            return (getattr(feature.read_sparse(ids), part) for ids in numbering.parts(_SPARSE))

        yield Array(f"{name}.{part}", dtype, (int(indptr[-1]),), read)
    yield _listed(f"{name}.shape", np.array([numbering.count, feature.shape[1]]))


def _classes(reading: Reading, vertex: VertexElement) -> list[str]:
    """The text behind each code of a target that is text; none for one that is a number."""
    layout = read_layout(reading.engine.home, reading.snapshot)
    return list(classes_of(reading.engine.home, next(v for v in layout.vertices if v.name == vertex.name)) or ())


def _listed(name: str, values: npt.NDArray[Any]) -> Array:
    """An array that is in memory already."""
    return Array(name, values.dtype, values.shape, lambda: iter([values]))

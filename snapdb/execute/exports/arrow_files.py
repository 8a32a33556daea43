"""COPY SNAPSHOT … TO as Arrow IPC files: one row per vertex or edge, and the row bounds of each edge type."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from snapdb.arrays import Array
from snapdb.execute.exports.arrays import ArrayCursor, OutputArray
from snapdb.execute.exports.elements import Export, Filled, Written, elements_of, file_of
from snapdb.types import EdgeElement

_ROWS = 1 << 16
"""The maximum number of rows of a record batch."""
_BYTES = 1 << 24
"""The approximate maximum number of bytes of a record batch."""
_METADATA = "snapdb"
"""The key of the schema's metadata under which values of the whole element are stored as JSON."""


class _Column(NamedTuple):
    """A column that is read once, from the first row to the last."""

    name: str
    type: pa.DataType
    row_bytes: int
    read: Callable[[int, int], pa.Array]
    """Returns the values of the rows from start to stop. The calls cover all rows in order."""


def write_arrow(export: Export) -> list[Written]:
    """Write each element as an Arrow IPC file, and the row bounds of each edge type as another one."""
    return [_write_element(export, filled) for filled in elements_of(export, bounds=True)]


def _write_element(export: Export, filled: Filled) -> Written:
    arrays, files = list(filled.arrays), [file_of(filled.element, "arrow")]
    if isinstance(filled.element, EdgeElement):
        bounds = arrays.pop()
        files.append(file_of(filled.element, "indptr.arrow"))
        _write(export.folder.file(files[1]), bounds.shape[0], [_dense(bounds)], {})
    columns, facts = _columns(arrays)
    _write(export.folder.file(files[0]), filled.rows, columns, facts)
    return Written(filled.element, filled.rows, tuple(files), {c.name: str(c.type) for c in columns})


def _columns(arrays: Sequence[OutputArray]) -> tuple[list[_Column], dict[str, Any]]:
    """Return the columns of an element, and values of the whole element: texts of classes and sparse widths."""
    named, columns, facts = {array.name: array for array in arrays}, list[_Column](), dict[str, Any]()
    for array in arrays:
        name, _, part = array.name.rpartition(".")
        if array.name == "y_classes":
            facts["y_classes"] = array.whole().tolist()
        elif part == "indptr" and f"{name}.values" in named:
            columns.append(_sparse(name, array, named[f"{name}.indices"], named[f"{name}.values"]))
            facts.setdefault("widths", {})[name] = int(named[f"{name}.shape"].whole()[1])
        elif f"{name}.indptr" not in named:
            columns += map(_dense, array.rows or (array,))
    return columns, facts


def _dense(array: OutputArray) -> _Column:
    """Return numbers or texts as a column. Rows of several numbers are fixed-size lists."""
    cursor, kind = ArrayCursor(array), _type(array.dtype)
    if len(array.shape) == 1:
        return _Column(array.name, kind, array.dtype.itemsize, lambda start, stop: _arrow(cursor.take(stop - start)))
    width = array.shape[1]

    def read(start: int, stop: int) -> pa.Array:
        return pa.FixedSizeListArray.from_arrays(_arrow(cursor.take((stop - start) * width)), width)

    return _Column(array.name, pa.list_(kind, width), array.dtype.itemsize * width, read)


def _sparse(name: str, indptr: OutputArray, indices: OutputArray, values: OutputArray) -> _Column:
    """Return the rows of a CSR matrix as structs of two lists, as `batch.to_arrow()` does."""
    bounds, parts = indptr.whole(), {"indices": indices, "values": values}
    cursors = {part: ArrayCursor(array) for part, array in parts.items()}
    kind = pa.struct({part: pa.large_list(_type(array.dtype)) for part, array in parts.items()})

    def read(start: int, stop: int) -> pa.Array:
        offsets = pa.array(bounds[start : stop + 1] - bounds[start])
        lists = [
            pa.LargeListArray.from_arrays(offsets, _arrow(cursor.take(int(bounds[stop] - bounds[start]))))
            for cursor in cursors.values()
        ]
        return pa.StructArray.from_arrays(lists, list(cursors))

    mean = int(bounds[-1]) // max(1, bounds.size - 1) + 1
    return _Column(name, kind, mean * (indices.dtype.itemsize + values.dtype.itemsize), read)


def _write(path: Path, rows: int, columns: Sequence[_Column], facts: Mapping[str, Any]) -> None:
    metadata = {_METADATA: json.dumps(facts)} if facts else None
    schema = pa.schema([pa.field(column.name, column.type) for column in columns], metadata)
    step = max(1, min(_ROWS, _BYTES // max(1, sum(column.row_bytes for column in columns))))
    with open(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            values = [column.read(start, stop) for column in columns]
            writer.write_batch(pa.RecordBatch.from_arrays(values, schema=schema))


def _type(dtype: np.dtype[Any]) -> pa.DataType:
    return pa.string() if dtype.kind == "U" else pa.from_numpy_dtype(dtype)


def _arrow(values: Array) -> pa.Array:
    return pa.array(values.tolist(), pa.string()) if values.dtype.kind == "U" else pa.array(values)

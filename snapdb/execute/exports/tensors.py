"""COPY SNAPSHOT … TO as safetensors files, whose tensors are written in parts."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from snapdb.arrays import Array
from snapdb.execute.exports.arrays import OutputArray
from snapdb.execute.exports.elements import Export, Written, elements_of, file_of

_DTYPES = {
    "bool": "BOOL",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
}
"""NumPy's dtypes → the names of the format."""
_ALIGNMENT = 8
"""The multiple of bytes at which the tensors begin."""


def write_safetensors(export: Export) -> list[Written]:
    """Write each element as a safetensors file, with the arrays of FORMAT npz as tensors."""
    entries = []
    for filled in elements_of(export, bounds=True):
        file = file_of(filled.element, "safetensors")
        tensors = [array if str(array.dtype) in _DTYPES else _as_bytes(array) for array in filled.arrays]
        _write(export.folder.file(file), tensors)
        entries.append(Written(filled.element, filled.rows, (file,), filled.fields))
    return entries


def _write(path: Path, tensors: Sequence[OutputArray]) -> None:
    """Write the header and the tensors. The library's own writer needs all tensors in memory."""
    # Wide types come first, as in the library's writer, so that every tensor is aligned.
    ordered = sorted(tensors, key=lambda tensor: (-tensor.dtype.itemsize, tensor.name))
    header, at = {}, 0
    for tensor in ordered:
        end = at + tensor.dtype.itemsize * int(np.prod(tensor.shape, dtype=np.int64))
        shape = list(tensor.shape)
        header[tensor.name] = {"dtype": _DTYPES[str(tensor.dtype)], "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in ordered:
            for part in tensor.parts():
                file.write(np.ascontiguousarray(part, tensor.dtype).reshape(-1).view(np.uint8).data)


def _as_bytes(array: OutputArray) -> OutputArray:
    """Return texts and times, for which the format has no type, as the bytes of an Arrow stream, as in batch files."""
    # The size must be known before the bytes are written, so the array is read twice.
    size = sum(part.size for part in _stream(array))
    return OutputArray(array.name, np.dtype(np.uint8), (size,), partial(_stream, array))


def _stream(array: OutputArray) -> Iterator[Array]:
    """Yield the bytes of an Arrow stream with one column, `ids` for keys."""
    kind = pa.string() if array.dtype.kind == "U" else pa.from_numpy_dtype(array.dtype)
    schema, sink = pa.schema({array.name: kind}), io.BytesIO()

    def written() -> Array:
        content = np.frombuffer(sink.getvalue(), np.uint8)
        sink.seek(0)
        sink.truncate()
        return content

    with pa.ipc.new_stream(sink, schema) as stream:
        for part in array.parts():
            values = pa.array(part.tolist() if array.dtype.kind == "U" else part, kind)
            stream.write_batch(pa.RecordBatch.from_arrays([values], schema=schema))
            yield written()
    yield written()

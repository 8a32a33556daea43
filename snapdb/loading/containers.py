"""The file formats of a batch: each holds the named arrays and the facts of a flat batch, and gives them back."""

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy
import torch

from snapdb.arrays import Array
from snapdb.loading.flat import ArrayFacts, Flat, Values
from snapdb.loading.rows import tensor_of

_Arrays = dict[str, Array]
_FACTS = "facts"
"""Where a file keeps what is no array, as JSON."""


class _Container(NamedTuple):
    """How one format is written and read."""

    write: Callable[[Mapping[str, Values], str, BinaryIO], object]
    read: Callable[[bytes], tuple[Mapping[str, Any], str]]
    """Arrays and facts; Arrow's lists stay columns, for `read` to make arrays of."""


def write(format_: str, flat: Flat, file: BinaryIO) -> None:
    """Writes a batch into a file that is open."""
    facts = json.dumps({"batch": flat.facts, "arrays": flat.arrays()})
    CONTAINERS[format_].write(flat.values, facts, file)


def read(format_: str, content: bytes) -> Flat:
    """The batch that a file holds; raises what the format's reader does where it is damaged."""
    columns, text = CONTAINERS[format_].read(content)
    facts = json.loads(text)
    arrays = {name: ArrayFacts(*fact) for name, fact in facts["arrays"].items()}
    return Flat({name: _values(columns[name], fact) for name, fact in arrays.items()}, facts["batch"])


def _values(column: Any, fact: ArrayFacts) -> Values:
    """An array as it was before it was written."""
    if isinstance(column, pa.Array):
        return column if fact.arrow else _flattened(column).to_numpy(zero_copy_only=False).reshape(fact.shape)
    if not fact.arrow:
        return column
    if fact.type == str(column.dtype):
        return pa.array(column)
    with pa.ipc.open_stream(column.tobytes()) as stream:
        return _checked(stream.read_all()).column(0).combine_chunks()


def _flattened(column: pa.Array) -> pa.Array:
    """The numbers of nested lists."""
    while pa.types.is_large_list(column.type):
        column = column.flatten()
    return column


def _numbers(values: Values) -> Array:
    """An array where only numbers can be: ids that are no integers become the bytes of Arrow's stream of them."""
    if isinstance(values, np.ndarray):
        return values
    if pa.types.is_integer(values.type) and not values.null_count:
        integers: Array = values.to_numpy()
        return integers
    sink = pa.BufferOutputStream()
    table = pa.table({"ids": values})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _row(values: Mapping[str, Values], facts: str) -> pa.Table:
    """One row, with a list for each array."""
    columns = {name: _listed(array) for name, array in values.items()}
    return pa.table({**columns, _FACTS: [facts]})


def _listed(values: Values) -> pa.Array:
    """One row that holds an array as a list, of lists where it has two dimensions."""
    if not isinstance(values, np.ndarray):
        return pa.LargeListArray.from_arrays(np.array([0, len(values)]), values)
    column, rows = pa.array(values.reshape(-1)), values.size
    for axis in range(values.ndim - 1, -1, -1):
        rows = int(np.prod(values.shape[:axis], dtype=np.int64))
        column = pa.LargeListArray.from_arrays(np.arange(rows + 1) * values.shape[axis], column)
    return column


def _checked(table: pa.Table) -> pa.Table:
    """The table, whose offsets were followed: those of a damaged file may lead out of its values."""
    table.validate(full=True)
    return table


def _columns(table: pa.Table) -> tuple[dict[str, pa.Array], str]:
    """The lists of the one row, opened."""
    (facts,) = _checked(table).column(_FACTS).to_pylist()
    names = [name for name in table.column_names if name != _FACTS]
    return {name: table.column(name).combine_chunks().flatten() for name in names}, facts


def _write_arrow(values: Mapping[str, Values], facts: str, file: BinaryIO) -> None:
    table = _row(values, facts)
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _read_arrow(content: bytes) -> tuple[dict[str, pa.Array], str]:
    with pa.ipc.open_file(pa.BufferReader(content)) as file:
        return _columns(file.read_all())


def _write_parquet(values: Mapping[str, Values], facts: str, file: BinaryIO) -> None:
    # Features hardly repeat, and a file of one row has nothing to look up.
    pq.write_table(_row(values, facts), file, compression="none", use_dictionary=False, write_statistics=False)


def _read_parquet(content: bytes) -> tuple[dict[str, pa.Array], str]:
    return _columns(pq.read_table(pa.BufferReader(content)))


def _write_npz(values: Mapping[str, Values], facts: str, file: BinaryIO) -> None:
    arrays: dict[str, Any] = {name: _numbers(array) for name, array in values.items()}
    np.savez(file, allow_pickle=False, **arrays, **{_FACTS: np.array(facts)})


def _read_npz(content: bytes) -> tuple[_Arrays, str]:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        # By their full names, for numpy takes an array "a.npy" for the file of an array "a".
        arrays = {name: file[f"{name}.npy"] for name in file.files}
    return arrays, str(arrays.pop(_FACTS))


def _write_safetensors(values: Mapping[str, Values], facts: str, file: BinaryIO) -> None:
    arrays = {name: np.ascontiguousarray(_numbers(array)) for name, array in values.items()}
    file.write(safetensors.numpy.save(arrays, {_FACTS: facts}))


def _read_safetensors(content: bytes) -> tuple[_Arrays, str]:
    header = int.from_bytes(content[:8], "little")  # the library tells metadata of files only, not of bytes
    metadata = json.loads(content[8 : 8 + header])["__metadata__"]
    return safetensors.numpy.load(content), metadata[_FACTS]


def _write_pt(values: Mapping[str, Values], facts: str, file: BinaryIO) -> None:
    content = io.BytesIO()  # torch hides what a file says when the disk is full
    torch.save({**{name: tensor_of(_numbers(array)) for name, array in values.items()}, _FACTS: facts}, content)
    file.write(content.getbuffer())


def _read_pt(content: bytes) -> tuple[_Arrays, str]:
    found = torch.load(io.BytesIO(content), weights_only=True)
    facts = found.pop(_FACTS)
    return {name: tensor.numpy() for name, tensor in found.items()}, facts


CONTAINERS = {
    "arrow": _Container(_write_arrow, _read_arrow),
    "parquet": _Container(_write_parquet, _read_parquet),
    "npz": _Container(_write_npz, _read_npz),
    "safetensors": _Container(_write_safetensors, _read_safetensors),
    "pt": _Container(_write_pt, _read_pt),
}
"""The formats by name, which is also what their files' names end in."""

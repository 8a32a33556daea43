"""A batch's content as named arrays and JSON metadata, in one of five file formats."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from typing import Any, BinaryIO, NamedTuple, TypeAlias, cast, get_args, get_origin, get_type_hints
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy
import torch
from torch import Tensor

from snapdb.arrays import Array
from snapdb.loading.batch import Batch
from snapdb.loading.lazy import Held, host, parts, tensor_of
from snapdb.loading.walk_batch import WalkBatch
from snapdb.storage.catalog_db.codec import decode
from snapdb.types import EdgeType

_Values: TypeAlias = Array | pa.Array
"""Numbers as numpy arrays, and the user's keys, which can have any type, as Arrow arrays."""
_CSR = ("indptr", "indices", "values")
"""The names of a sparse tensor's three arrays."""


class _ArrayFacts(NamedTuple):
    """The dtype and shape of an array."""

    type: str
    """The dtype's name in numpy or Arrow."""
    shape: tuple[int, ...]
    arrow: bool = False
    """Whether the array is an Arrow array."""


class _Flat(NamedTuple):
    """A batch as arrays and metadata.

    An array's name is its path in the batch: `edge_index/customer/bought/product` is batch.edge_index[("customer",
    "bought", "product")]. A slash in a user's name is escaped as %2F, and % as %25.
    """

    values: dict[str, _Values]
    facts: dict[str, Any]
    """The batch's other fields, with the keys of its mappings under "keys" and the shapes of sparse tensors under
    "sparse"."""

    def arrays(self) -> dict[str, _ArrayFacts]:
        """Return the dtype and shape of each array."""
        return {name: _array_facts(values) for name, values in self.values.items()}

    def restored(self) -> Batch | WalkBatch:
        """Return the batch that was flattened, byte for byte. Only batches of walks have an array `walks`.

        Raises:
            KeyError, RuntimeError, TypeError, ValueError: The arrays and the metadata do not match.
        """
        fields: dict[str, Any] = {}
        kind: Any = WalkBatch if "walks" in self.values else Batch
        for name, hint in _hints(kind).items():
            if name in self.facts:
                fields[name] = _field(hint, self.facts[name])
            # A field that is missing in the file was added to the class later, so it keeps its default.
            elif name in self.facts["keys"] or name in self.values:
                fields[name] = _gathered(self, name)
        batch: Batch | WalkBatch = kind(**fields)
        return batch


def _array_facts(values: _Values) -> _ArrayFacts:
    """Return the dtype and shape of an array."""
    if isinstance(values, np.ndarray):
        return _ArrayFacts(str(values.dtype), values.shape)
    return _ArrayFacts(str(values.type), (len(values),), arrow=True)


def flatten(batch: Batch | WalkBatch) -> _Flat:
    """Return a batch's arrays and metadata. Edge columns and keys that have not been read yet are read."""
    flat, kind = _Flat({}, {"keys": {}, "sparse": {}}), cast("Any", type(batch))
    for name, hint in _hints(kind).items():
        value = getattr(batch, name)
        if value is not None and _holds_arrays(hint):
            _spread(flat, name, value)
        else:
            flat.facts[name] = _fact(value)
    return flat


def _spread(flat: _Flat, path: str, value: Any) -> None:
    """Store a tensor, an Arrow array, or the arrays of a mapping under its path."""
    if isinstance(value, Mapping):
        flat.facts["keys"][path] = [_spelled(key) for key in value]
        for key in value:
            _spread(flat, f"{path}/{_spelled(key)}", value[key])
    elif not isinstance(value, Tensor):
        flat.values[path] = value
    elif value.layout != torch.sparse_csr:
        flat.values[path] = host(value)
    else:
        flat.facts["sparse"][path] = list(value.shape)
        flat.values.update({f"{path}/{name}": host(part) for name, part in zip(_CSR, parts(value), strict=True)})


def _gathered(flat: _Flat, path: str) -> Any:
    """Return the tensor, array or mapping that is stored under a path."""
    if (keys := flat.facts["keys"].get(path)) is not None:
        return Held({_key(key): _gathered(flat, f"{path}/{key}") for key in keys})
    if (shape := flat.facts["sparse"].get(path)) is not None:
        indptr, indices, values = (tensor_of(flat.values[f"{path}/{part}"]) for part in _CSR)
        # Invariants are checked here because a damaged file can contain out-of-range indices, which kernels would
        # follow.
        return torch.sparse_csr_tensor(indptr, indices, values, size=shape, check_invariants=True)
    array = flat.values[path]
    return array if isinstance(array, pa.Array) else tensor_of(array)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Return the fields of a batch and their types."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _holds_arrays(hint: Any) -> bool:
    """Return whether values of this type are, or contain, arrays."""
    return hint in (Tensor, pa.Array) or any(map(_holds_arrays, get_args(hint)))


def _fact(value: Any) -> Any:
    """Return the JSON value of a field that contains no arrays."""
    if isinstance(value, Mapping):
        return {_spelled(key) if isinstance(key, EdgeType) else key: item for key, item in value.items()}
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _field(hint: Any, fact: Any) -> Any:
    """Return a field that contains no arrays from its JSON value."""
    if get_origin(hint) is Mapping:
        edges = get_args(hint)[0] is EdgeType
        return Held({_key(key) if edges else key: item for key, item in fact.items()})
    if hint is Any and isinstance(fact, list):  # `seed_type`, which is an edge type for seed edges
        return EdgeType(*fact)
    return decode(hint, json.dumps(fact))


def _spelled(key: str | EdgeType) -> str:
    """Return a key of a batch's mapping as part of an array's path."""
    names = (key,) if isinstance(key, str) else key
    return "/".join(name.replace("%", "%25").replace("/", "%2F") for name in names)


def _key(spelled: str) -> str | EdgeType:
    """Return the key encoded by a part of a path.

    >>> _key("50%25"), _key("customer/bought/product")
    ('50%', EdgeType(source='customer', edge='bought', destination='product'))
    """
    names = [unquote(name) for name in spelled.split("/")]
    return names[0] if len(names) == 1 else EdgeType(*names)


_Arrays = dict[str, Array]
_FACTS = "facts"
"""The name under which a file stores the metadata, as JSON."""


class _Container(NamedTuple):
    """The writer and reader of a format."""

    write: Callable[[Mapping[str, _Values], str, BinaryIO], object]
    read: Callable[[bytes], tuple[Mapping[str, Any], str]]
    """Returns arrays and metadata. Arrow lists remain columns, which `read` converts."""


def write(format_: str, flat: _Flat, file: BinaryIO) -> None:
    """Write a batch to an open file."""
    facts = json.dumps({"batch": flat.facts, "arrays": flat.arrays()})
    CONTAINERS[format_].write(flat.values, facts, file)


def read(format_: str, content: bytes) -> _Flat:
    """Return a file's content. Raises the errors of the format's reader if the file is damaged."""
    columns, text = CONTAINERS[format_].read(content)
    facts = json.loads(text)
    arrays = {name: _ArrayFacts(*fact) for name, fact in facts["arrays"].items()}
    return _Flat({name: _values(columns[name], fact) for name, fact in arrays.items()}, facts["batch"])


def _values(column: Any, fact: _ArrayFacts) -> _Values:
    """Return an array with its original dtype and shape."""
    if isinstance(column, pa.Array):
        return column if fact.arrow else _flattened(column).to_numpy(zero_copy_only=False).reshape(fact.shape)
    if not fact.arrow:
        return column
    if fact.type == str(column.dtype):
        return pa.array(column)
    with pa.ipc.open_stream(column.tobytes()) as stream:
        return _checked(stream.read_all()).column(0).combine_chunks()


def _flattened(column: pa.Array) -> pa.Array:
    """Return the numbers in nested lists as a flat array."""
    while pa.types.is_large_list(column.type):
        column = column.flatten()
    return column


def _numbers(values: _Values) -> Array:
    """Return an array for a format that stores only numbers. Keys other than integers become Arrow stream bytes."""
    if isinstance(values, np.ndarray):
        return values
    if pa.types.is_integer(values.type) and not values.null_count:
        integers: Array = values.to_numpy()
        return integers
    sink = pa.BufferOutputStream()
    # An Arrow stream preserves the exact type of keys, such as strings or decimals, in formats that store only numbers.
    table = pa.table({"ids": values})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _row(values: Mapping[str, _Values], facts: str) -> pa.Table:
    """Return a table of one row, with one list per array."""
    columns = {name: _listed(array) for name, array in values.items()}
    return pa.table({**columns, _FACTS: [facts]})


def _listed(values: _Values) -> pa.Array:
    """Return a one-row column that contains an array as a list, or as nested lists for more dimensions."""
    if not isinstance(values, np.ndarray):
        return pa.LargeListArray.from_arrays(np.array([0, len(values)]), values)
    column, rows = pa.array(values.reshape(-1)), values.size
    # The list offsets of each axis are computed from the shape, from the innermost axis outwards, so no values are
    # copied.
    for axis in range(values.ndim - 1, -1, -1):
        rows = int(np.prod(values.shape[:axis], dtype=np.int64))
        column = pa.LargeListArray.from_arrays(np.arange(rows + 1) * values.shape[axis], column)
    return column


def _checked(table: pa.Table) -> pa.Table:
    """Return the table after full validation, because a damaged file's offsets can point past its values."""
    table.validate(full=True)
    return table


def _columns(table: pa.Table) -> tuple[dict[str, pa.Array], str]:
    """Return the arrays in the single row's lists, and the metadata."""
    (facts,) = _checked(table).column(_FACTS).to_pylist()
    names = [name for name in table.column_names if name != _FACTS]
    return {name: table.column(name).combine_chunks().flatten() for name in names}, facts


def _write_arrow(values: Mapping[str, _Values], facts: str, file: BinaryIO) -> None:
    """Write an Arrow IPC file."""
    table = _row(values, facts)
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _read_arrow(content: bytes) -> tuple[dict[str, pa.Array], str]:
    """Read an Arrow IPC file."""
    with pa.ipc.open_file(pa.BufferReader(content)) as file:
        return _columns(file.read_all())


def _write_parquet(values: Mapping[str, _Values], facts: str, file: BinaryIO) -> None:
    # Features rarely repeat, so compression and dictionaries gain little. Statistics of a single row are of no use.
    pq.write_table(_row(values, facts), file, compression="none", use_dictionary=False, write_statistics=False)


def _read_parquet(content: bytes) -> tuple[dict[str, pa.Array], str]:
    return _columns(pq.read_table(pa.BufferReader(content)))


def _write_npz(values: Mapping[str, _Values], facts: str, file: BinaryIO) -> None:
    """Write an uncompressed .npz file."""
    arrays: dict[str, Any] = {name: _numbers(array) for name, array in values.items()}
    np.savez(file, allow_pickle=False, **arrays, **{_FACTS: np.array(facts)})


def _read_npz(content: bytes) -> tuple[_Arrays, str]:
    """Read an .npz file."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        # Members are read by their full names because numpy resolves an array named "a.npy" to the file of an array
        # named "a".
        arrays = {name: file[f"{name}.npy"] for name in file.files}
    return arrays, str(arrays.pop(_FACTS))


def _write_safetensors(values: Mapping[str, _Values], facts: str, file: BinaryIO) -> None:
    """Write a safetensors file."""
    arrays = {name: np.ascontiguousarray(_numbers(array)) for name, array in values.items()}
    file.write(safetensors.numpy.save(arrays, {_FACTS: facts}))


def _read_safetensors(content: bytes) -> tuple[_Arrays, str]:
    """Read a safetensors file."""
    header = int.from_bytes(content[:8], "little")  # the library reads metadata only from files, not from bytes
    metadata = json.loads(content[8 : 8 + header])["__metadata__"]
    return safetensors.numpy.load(content), metadata[_FACTS]


def _write_pt(values: Mapping[str, _Values], facts: str, file: BinaryIO) -> None:
    """Write a file with torch.save."""
    content = io.BytesIO()  # in memory first, because torch hides disk-full errors
    torch.save({**{name: tensor_of(_numbers(array)) for name, array in values.items()}, _FACTS: facts}, content)
    file.write(content.getbuffer())


def _read_pt(content: bytes) -> tuple[_Arrays, str]:
    """Read a torch.save file without unpickling arbitrary objects."""
    tensors = torch.load(io.BytesIO(content), weights_only=True)
    facts = tensors.pop(_FACTS)
    return {name: tensor.numpy() for name, tensor in tensors.items()}, facts


CONTAINERS = {
    "arrow": _Container(_write_arrow, _read_arrow),
    "parquet": _Container(_write_parquet, _read_parquet),
    "npz": _Container(_write_npz, _read_npz),
    "safetensors": _Container(_write_safetensors, _read_safetensors),
    "pt": _Container(_write_pt, _read_pt),
}
"""Formats by name, which is also the file extension."""

"""A batch as named arrays and facts for JSON, and back: what a file of a batch holds, in whichever format."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from snapdb.arrays import Array
from snapdb.loading.batch import Batch
from snapdb.loading.lazy import Held
from snapdb.loading.rows import host, parts, tensor_of
from snapdb.storage.catalog_db.codec import decode
from snapdb.types import EdgeType

Values: TypeAlias = Array | pa.Array
"""Numbers; the user's ids are Arrow's, as they may be of any type."""
_CSR = ("indptr", "indices", "values")


class ArrayFacts(NamedTuple):
    """What an array is."""

    type: str
    """numpy's name of its type, or Arrow's."""
    shape: tuple[int, ...]
    arrow: bool = False


class Flat(NamedTuple):
    """A batch in pieces.

    An array's name is its path in the batch: `edge_index/customer/bought/product` is batch.edge_index[("customer",
    "bought", "product")]. A slash in a name of the user's is written %2F, and % as %25.
    """

    values: dict[str, Values]
    facts: dict[str, Any]
    """The batch's other fields; the keys of its mappings under "keys", the shapes of sparse tensors under "sparse"."""

    def arrays(self) -> dict[str, ArrayFacts]:
        """What each array is."""
        return {name: _array_facts(values) for name, values in self.values.items()}


def _array_facts(values: Values) -> ArrayFacts:
    if isinstance(values, np.ndarray):
        return ArrayFacts(str(values.dtype), values.shape)
    return ArrayFacts(str(values.type), (len(values),), arrow=True)


def flatten(batch: Batch) -> Flat:
    """Every field of a batch; edge columns and ids that were not read yet are read for it."""
    flat = Flat({}, {"keys": {}, "sparse": {}})
    for name, hint in _hints().items():
        value = getattr(batch, name)
        if value is not None and _holds_arrays(hint):
            _spread(flat, name, value)
        else:
            flat.facts[name] = _fact(value)
    return flat


def _spread(flat: Flat, path: str, value: Any) -> None:
    """Puts a tensor, an Arrow array, or those of a mapping under its path."""
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


def restored(flat: Flat) -> Batch:
    """The batch that was flattened, byte for byte.

    Raises:
        KeyError, RuntimeError, TypeError, ValueError: the pieces do not fit together.
    """
    found: dict[str, Any] = {}
    for name, hint in _hints().items():
        if name in flat.facts:
            found[name] = _field(hint, flat.facts[name])
        elif name in flat.facts["keys"] or name in flat.values:  # else it is newer than the file
            found[name] = _gathered(flat, name)
    return Batch(**found)


def _gathered(flat: Flat, path: str) -> Any:
    """What was spread under a path."""
    if (keys := flat.facts["keys"].get(path)) is not None:
        return Held({_key(key): _gathered(flat, f"{path}/{key}") for key in keys})
    if (shape := flat.facts["sparse"].get(path)) is not None:
        indptr, indices, values = (tensor_of(flat.values[f"{path}/{part}"]) for part in _CSR)
        # A damaged file may hold indices that lead out of the row.
        return torch.sparse_csr_tensor(indptr, indices, values, size=shape, check_invariants=True)
    found = flat.values[path]
    return found if isinstance(found, pa.Array) else tensor_of(found)


@cache
def _hints() -> dict[str, Any]:
    """The fields of a batch and their types."""
    hints = get_type_hints(Batch)
    return {field.name: hints[field.name] for field in fields(Batch)}


def _holds_arrays(hint: Any) -> bool:
    return hint in (Tensor, pa.Array) or any(map(_holds_arrays, get_args(hint)))


def _fact(value: Any) -> Any:
    """A field without arrays, for JSON."""
    if isinstance(value, Mapping):
        return {_spelled(key) if isinstance(key, EdgeType) else key: item for key, item in value.items()}
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _field(hint: Any, fact: Any) -> Any:
    """A field without arrays of some type, of what JSON said."""
    if get_origin(hint) is Mapping:
        edges = get_args(hint)[0] is EdgeType
        return Held({_key(key) if edges else key: item for key, item in fact.items()})
    if hint is Any and isinstance(fact, list):  # seed_type, which is a node type otherwise
        return EdgeType(*fact)
    return decode(hint, json.dumps(fact))


def _spelled(key: str | EdgeType) -> str:
    """A key of a batch's mapping as it stands in a path."""
    names = (key,) if isinstance(key, str) else key
    return "/".join(name.replace("%", "%25").replace("/", "%2F") for name in names)


def _key(spelled: str) -> str | EdgeType:
    """The key that was spelled.

    >>> _key("50%25"), _key("customer/bought/product")
    ('50%', EdgeType(source='customer', edge='bought', destination='product'))
    """
    names = [unquote(name) for name in spelled.split("/")]
    return names[0] if len(names) == 1 else EdgeType(*names)

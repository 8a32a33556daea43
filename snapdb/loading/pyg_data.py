"""PyG's Data and HeteroData: the package that they come from, and a whole graph as one of them in a file."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from snapdb.arrays import Array
from snapdb.errors import InputError
from snapdb.types import EdgeType

_Fields = Mapping[str, Array | Mapping[str, Array]]
"""Arrays by name; of sparse rows and composite ids several by the names of their parts."""

_APART = ("ids", "y_classes")
"""What loaders must not cut to a batch: it is kept by vertex type, beside the types."""


def pyg_package(wish: str) -> Any:
    """`torch_geometric.data`.

    Args:
        wish: What needs it, for the message.

    Raises:
        InputError: it is not installed.
    """
    try:
        return importlib.import_module("torch_geometric.data")
    except ImportError as error:
        raise InputError(
            f"{wish} needs torch_geometric, which is not here: pip install 'snapdb[pyg]'", code="package-missing"
        ) from error


def save_pyg(
    path: Path, vertices: Mapping[str, _Fields], counts: Mapping[str, int], edges: Mapping[EdgeType, _Fields]
) -> None:
    """Save `Data` for one vertex type and one edge type, `HeteroData` otherwise; torch pickles it.

    Args:
        path: The file.
        vertices: What each vertex type has, under PyG's names.
        counts: Vertices of each type.
        edges: What each edge type has.

    Raises:
        InputError: PyG is not installed.
    """
    pyg = pyg_package("FORMAT pyg")
    types = [*vertices.values(), *edges.values()]
    single = len(vertices) == len(edges) == 1 and types[0].keys().isdisjoint(types[1])
    data = pyg.Data() if single else pyg.HeteroData()
    for name, fields in vertices.items():
        store = data if single else data[name]
        _fill(store, {field: value for field, value in fields.items() if field not in _APART})
        store.num_nodes = counts[name]
    for key, fields in edges.items():
        _fill(data if single else data[tuple(key)], fields)
    for apart in _APART:
        if found := {name: fields[apart] for name, fields in vertices.items() if apart in fields}:
            data[apart] = found
    with open(path, "wb") as file:  # whose errors are those of the disk, where torch's own would be anything
        torch.save(data, file)


def _fill(store: Any, fields: _Fields) -> None:
    for name, value in fields.items():
        store[name] = torch.from_numpy(value) if isinstance(value, np.ndarray) else _sparse(value)


def _sparse(csr: Mapping[str, Array]) -> Tensor:
    """A coalesced COO tensor, of which PyG's loaders can take rows."""
    rows = np.repeat(np.arange(csr["indptr"].size - 1), np.diff(csr["indptr"]))
    places = torch.from_numpy(np.stack([rows, csr["indices"]]))
    return torch.sparse_coo_tensor(
        places, torch.from_numpy(csr["values"]), csr["shape"].tolist(), is_coalesced=True, check_invariants=True
    )

"""A batch in other people's forms: PyG's Data and HeteroData, message-flow blocks, Arrow tables."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from snapdb.errors import SnapdbError
from snapdb.types import EdgeType

if TYPE_CHECKING:
    from snapdb.loading.batch import Batch

__all__ = ["FlowBlock", "to_arrow", "to_blocks", "to_pyg"]


@dataclass(frozen=True)
class FlowBlock:
    """The edges along which one layer passes messages, from source nodes to the destination nodes among them."""

    edge_index: Mapping[EdgeType, Tensor]
    """[2, edges] int64 [source; destination], local ids of the batch."""
    num_sources: Mapping[str, int]
    """The layer reads the states of the first so many nodes of each type, …"""
    num_destinations: Mapping[str, int]
    """… and computes those of the first so many."""


def to_blocks(batch: Batch) -> list[FlowBlock]:
    """One block for each hop, the outermost first, as the layers of a network are applied.

    The edges are views of the batch's: those that PyG's `trim_to_layer` keeps for that layer.
    """
    hops = max((len(counts) for counts in batch.num_sampled_edges.values()), default=0)
    return [_block(batch, hops - layer) for layer in range(hops)]


def _block(batch: Batch, hops: int) -> FlowBlock:
    """The edges of the first so many hops."""
    return FlowBlock(
        {key: index[:, : sum(batch.num_sampled_edges[key][:hops])] for key, index in batch.edge_index.items()},
        {name: sum(counts[: hops + 1]) for name, counts in batch.num_sampled_nodes.items()},
        {name: sum(counts[:hops]) for name, counts in batch.num_sampled_nodes.items()},
    )


def to_pyg(batch: Batch) -> Any:
    """`torch_geometric.data.Data` for one node type and one edge type, `HeteroData` otherwise.

    Field for field what NeighborLoader gives, except that `y` holds the seeds' targets only.

    Raises:
        SnapdbError: PyG is not installed.
    """
    try:
        pyg = importlib.import_module("torch_geometric.data")
    except ImportError as error:
        raise SnapdbError("to_pyg() needs torch_geometric, which is not here: pip install 'snapdb[pyg]'") from error
    single = len(batch.n_id) == 1 and len(batch.edge_index) == 1
    data = pyg.Data() if single else pyg.HeteroData()
    for name in batch.n_id:
        _fill(data if single else data[name], _node_fields(batch, name))
    for key in batch.edge_index:
        _fill(data if single else data[tuple(key)], _edge_fields(batch, key))
    return data


def _fill(store: Any, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        store[name] = value


def _node_fields(batch: Batch, name: str) -> dict[str, Any]:
    """What PyG keeps with a node type; the seeds' fields are with theirs."""
    fields: dict[str, Any] = dict(batch.features[name])
    if "x" not in fields:
        fields["num_nodes"] = len(batch.n_id[name])
    fields["n_id"] = batch.n_id[name]
    fields["num_sampled_nodes"] = list(batch.num_sampled_nodes[name])
    if name == batch.seed_type:
        fields |= {"input_id": batch.input_id, "batch_size": batch.batch_size}
        fields |= {} if batch.y is None else {"y": batch.y}
    return fields


def _edge_fields(batch: Batch, key: EdgeType) -> dict[str, Any]:
    """What PyG keeps with an edge type."""
    fields: dict[str, Any] = {"edge_index": batch.edge_index[key], **batch.edge_features[key]}
    columns = {"edge_time": batch.edge_time, "edge_weight": batch.edge_weight, "e_id": batch.e_id}
    fields |= {name: column[key] for name, column in columns.items() if key in column}
    fields["num_sampled_edges"] = list(batch.num_sampled_edges[key])
    return fields


def to_arrow(batch: Batch) -> dict[str | EdgeType, pa.Table]:
    """Tables by node type (id, n_id, hop, features, y) and by edge type (neighbour, seed_side, hop, e_id, …).

    `neighbour` and `seed_side` are row numbers of the node tables; `y` is NULL for nodes that are no seeds.
    """
    tables: dict[str | EdgeType, pa.Table] = {name: pa.table(_node_columns(batch, name)) for name in batch.n_id}
    return tables | {key: pa.table(_edge_columns(batch, key)) for key in batch.edge_index}


def _node_columns(batch: Batch, name: str) -> dict[str, pa.Array]:
    columns = {"id": batch.ids(name)} if name in batch.user_ids else {}
    columns |= {"n_id": _column(batch.n_id[name]), "hop": _hops(batch.num_sampled_nodes[name])}
    columns |= {label: _column(values) for label, values in batch.features[name].items()}
    if name == batch.seed_type and batch.y is not None:
        known = _column(batch.y)
        columns["y"] = pa.concat_arrays([known, pa.nulls(len(columns["n_id"]) - len(known), known.type)])
    return columns


def _edge_columns(batch: Batch, key: EdgeType) -> dict[str, pa.Array]:
    neighbour, seed_side = batch.edge_index[key]
    columns = {"neighbour": _column(neighbour), "seed_side": _column(seed_side)}
    columns |= {"hop": _hops(batch.num_sampled_edges[key]), "e_id": _column(batch.e_id[key])}
    named = {"edge_time": batch.edge_time, "edge_weight": batch.edge_weight}
    columns |= {name: _column(column[key]) for name, column in named.items() if key in column}
    return columns | {name: _column(values) for name, values in batch.edge_features[key].items()}


def _column(values: Tensor) -> pa.Array:
    """A tensor as Arrow: for each row of two dimensions a fixed-size list, or lists of indices and values if sparse."""
    if values.layout == torch.sparse_csr:
        pairs = (values.col_indices(), values.values())
        lists = [pa.LargeListArray.from_arrays(_column(values.crow_indices()), _column(part)) for part in pairs]
        return pa.StructArray.from_arrays(lists, ["indices", "values"])
    array = values.cpu().numpy()
    if array.ndim == 1:
        return pa.array(array)
    return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])


def _hops(counts: list[int]) -> pa.Array:
    """The number of each row's group, as int32."""
    return pa.array(np.repeat(np.arange(len(counts), dtype=np.int32), counts))

"""Batches and graphs in other libraries' formats: PyG's Data and HeteroData, message-flow blocks, and Arrow tables."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from snapdb.arrays import Array
from snapdb.attribute_docs import document_attributes
from snapdb.errors import InputError
from snapdb.loading.lazy import Held
from snapdb.types import EdgeType

if TYPE_CHECKING:
    from snapdb.loading.batch import Batch


_Fields = Mapping[str, Array | Mapping[str, Array]]
"""Arrays by name. Sparse rows and composite keys consist of several arrays, one per part."""

_APART = ("ids", "y_classes")
"""Fields that PyG's loaders must not slice. They are stored by vertex type, outside the type's own store."""


def pyg_package(wish: str) -> Any:
    """Return the `torch_geometric.data` module.

    Args:
        wish: The feature that needs PyG, for the error message.

    Raises:
        InputError: PyG is not installed.
    """
    return _package("torch_geometric.data", f"{wish} needs torch_geometric", "pip install 'snapdb[pyg]'")


def dgl_package(wish: str) -> Any:
    """Return the `dgl` module. The argument and the error are those of `pyg_package`."""
    return _package("dgl", f"{wish} needs dgl", "https://www.dgl.ai/pages/start.html lists the command for your torch")


def _package(module: str, need: str, remedy: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"{need}, which is not installed: {remedy}", code="package-missing") from error


def save_pyg(
    path: Path, vertices: Mapping[str, _Fields], counts: Mapping[str, int], edges: Mapping[EdgeType, _Fields]
) -> None:
    """Save a graph with `torch.save`, as `Data` if it has one vertex type and one edge type, otherwise `HeteroData`.

    Args:
        path: The file to write.
        vertices: The arrays of each vertex type, under PyG's names.
        counts: The number of vertices of each type.
        edges: The arrays of each edge type.

    Raises:
        InputError: PyG is not installed.
    """
    pyg = pyg_package("FORMAT pyg")
    types = [*vertices.values(), *edges.values()]
    single = len(vertices) == len(edges) == 1 and types[0].keys().isdisjoint(types[1])
    data = pyg.Data() if single else pyg.HeteroData()
    for name, fields in vertices.items():
        store = data if single else data[name]
        _fill_graph(store, {field: value for field, value in fields.items() if field not in _APART})
        store.num_nodes = counts[name]
    for key, fields in edges.items():
        _fill_graph(data if single else data[tuple(key)], fields)
    for apart in _APART:
        if kept_whole := {name: fields[apart] for name, fields in vertices.items() if apart in fields}:
            data[apart] = kept_whole
    # An open file raises OSError if the disk is full, whereas torch.save to a path raises a RuntimeError.
    with open(path, "wb") as file:
        torch.save(data, file)


def _fill_graph(store: Any, fields: _Fields) -> None:
    """Store arrays as tensors in a PyG store."""
    for name, value in fields.items():
        store[name] = torch.from_numpy(value) if isinstance(value, np.ndarray) else _sparse(value)


def _sparse(csr: Mapping[str, Array]) -> Tensor:
    """Return a coalesced COO tensor, the sparse layout from which PyG's loaders can select rows."""
    rows = np.repeat(np.arange(csr["indptr"].size - 1), np.diff(csr["indptr"]))
    places = torch.from_numpy(np.stack([rows, csr["indices"]]))
    return torch.sparse_coo_tensor(
        places, torch.from_numpy(csr["values"]), csr["shape"].tolist(), is_coalesced=True, check_invariants=True
    )


@document_attributes
@dataclass(frozen=True)
class FlowBlock:
    """A bipartite block: the edges along which one layer passes messages.

    The destination nodes are a prefix of the source nodes, which are a prefix of the batch's nodes.
    """

    edge_index: Mapping[EdgeType, Tensor]
    """Edge type → [2, edges] local ids in the dtype of the batch's `n_id`: [source; destination]."""
    num_sources: Mapping[str, int]
    """Node type → the number of nodes whose states the layer reads."""
    num_destinations: Mapping[str, int]
    """Node type → the number of nodes whose states the layer computes."""


def to_blocks(batch: Batch) -> list[FlowBlock]:
    """Return one block per hop, outermost hop first, in the order in which a network's layers are applied.

    The edges are views of the batch's edges. A block contains the edges that PyG's `trim_to_layer` keeps for its layer.
    Under LAYOUT BLOCKS, it contains only the edges of its hop, because that hop samples edges for all destinations.
    """
    hops = max((len(counts) for counts in batch.num_sampled_edges.values()), default=0)
    return [_block(batch, hops - layer) for layer in range(hops)]


def _block(batch: Batch, hops: int) -> FlowBlock:
    """Return the block whose sources are the nodes of the first `hops` hops."""
    return FlowBlock(
        {key: index[:, block_edges(batch, key, hops)] for key, index in batch.edge_index.items()},
        {name: sum(counts[: hops + 1]) for name, counts in batch.num_sampled_nodes.items()},
        {name: sum(counts[:hops]) for name, counts in batch.num_sampled_nodes.items()},
    )


def block_edges(batch: Batch, key: EdgeType, hops: int) -> slice:
    """Return the positions of the edges in the block whose sources are the nodes of the first `hops` hops."""
    counts = batch.num_sampled_edges[key]
    first = hops - 1 if batch.layout == "BLOCKS" else 0
    return slice(sum(counts[:first]), sum(counts[:hops]))


def to_pyg(batch: Batch) -> Any:
    """Return `torch_geometric.data.Data` for one node type and one edge type, otherwise `HeteroData`.

    The fields are those of NeighborLoader, except that `y` contains only the seeds' targets. For seed edges, they are
    those of LinkNeighborLoader, in binary and in triplet mode. Ids are int64, which PyG's layers require, regardless of
    the batch's `ids`. If a node feature and an edge feature have the same name, the batch does not fit in a Data and
    becomes a HeteroData.

    Raises:
        InputError: The batch has LAYOUT BLOCKS, and PyG would combine the edges of its hops.
        InputError: A seed column has the same name as a feature that PyG stores in the same place.
        InputError: PyG is not installed.
    """
    if batch.layout == "BLOCKS":
        raise InputError(
            "to_pyg() does not support LAYOUT BLOCKS, because blocks repeat nodes at every hop, and PyG would "
            "sum over all hops; "
            "call to_blocks(), or sample with LAYOUT NODES",
            code="not-for-pyg",
        )
    pyg, batch = pyg_package("to_pyg()"), _with_int64(batch)
    single = _fits_data(batch)
    data = pyg.Data() if single else pyg.HeteroData()
    for name in batch.n_id:
        _fill(data if single else data[name], _node_fields(batch, name))
    for key in batch.edge_index:
        _fill(data if single else data[tuple(key)], _edge_fields(batch, key))
    if batch.edge_label_index is not None:
        source, _, destination = batch.seed_type
        for key, fields in ((batch.seed_type, _pairs(batch)), (source, _sources(batch)), (destination, _others(batch))):
            _fill(data if single else data[key if isinstance(key, str) else tuple(key)], fields)
    seeds = batch.seed_type if isinstance(batch.seed_type, str) else tuple(batch.seed_type)
    _add_columns(data if single else data[seeds], batch)
    return data


def _with_int64(batch: Batch) -> Batch:
    """Return the batch with int64 node ids."""
    return replace(
        batch,
        n_id=Held({name: ids.long() for name, ids in batch.n_id.items()}),
        edge_index=Held({key: index.long() for key, index in batch.edge_index.items()}),
        edge_label_index=_long(batch.edge_label_index),
        src_index=_long(batch.src_index),
        dst_pos_index=_long(batch.dst_pos_index),
        dst_neg_index=_long(batch.dst_neg_index),
    )


def _long(ids: Tensor | None) -> Tensor | None:
    """Return the ids as int64, or None if there are none."""
    return None if ids is None else ids.long()


def _fits_data(batch: Batch) -> bool:
    """Return whether one PyG store can hold all fields: one node type, one edge type, and distinct field names."""
    if not len(batch.n_id) == len(batch.edge_index) == 1:
        return False
    (of_nodes,), (of_edges,) = batch.features.values(), batch.edge_features.values()
    return of_nodes.keys().isdisjoint(of_edges)


def _fill(store: Any, fields: Mapping[str, Any]) -> None:
    """Store the fields in a PyG store."""
    for name, value in fields.items():
        store[name] = value


def _add_columns(store: Any, batch: Batch) -> None:
    """Add the seed query's other columns to the store of the seeds' type."""
    if clash := [name for name in batch.seed_columns if name in store]:
        raise InputError(
            f"column {clash[0]!r} of SEEDS has the same name as a feature in PyG's batch; rename it with AS",
            code="not-for-pyg",
        )
    _fill(store, batch.seed_columns)


def _node_fields(batch: Batch, name: str) -> dict[str, Any]:
    """Return the fields that PyG stores for a node type. For the seeds' type, they include the seed fields."""
    fields: dict[str, Any] = dict(batch.features[name])
    seeds = name == batch.seed_type
    if "x" not in fields:
        fields["num_nodes"] = len(batch.n_id[name])
    fields |= {"y": batch.y if seeds else None, "n_id": batch.n_id[name], "batch": batch.batch.get(name)}
    fields["num_sampled_nodes"] = list(batch.num_sampled_nodes[name])
    if seeds:
        fields |= {"input_id": batch.input_id, "seed_time": batch.seed_time, "batch_size": batch.batch_size}
    return _known(fields)


def _pairs(batch: Batch) -> dict[str, Any]:
    """Return the fields that PyG stores for the edge type of seed edges."""
    # In binary mode without negatives, PyG's `edge_label` is the user's label for the pair.
    labels = batch.y if batch.dst_neg_index is None and batch.y is not None else batch.edge_label
    fields = {"input_id": batch.input_id, "edge_label_index": batch.edge_label_index, "edge_label": labels}
    return _known(fields | {"edge_label_time": _of_pairs(batch, batch.seed_time), "y": batch.y})


def _sources(batch: Batch) -> dict[str, Any]:
    """Return the fields that PyG stores for the source type of seed edges."""
    return _known({"src_index": batch.src_index, "seed_time": batch.seed_time})


def _others(batch: Batch) -> dict[str, Any]:
    """Return the fields that PyG stores for the destination type of seed edges."""
    columns = {"dst_pos_index": batch.dst_pos_index, "dst_neg_index": batch.dst_neg_index, "seed_time": batch.seed_time}
    return _known(columns)


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def _of_pairs(batch: Batch, values: Tensor | None) -> Tensor | None:
    """Return [pairs], a seed edge's value for each column of `edge_label_index`. Negatives get their seed's value."""
    if values is None or batch.dst_neg_index is None:
        return values
    drawn = batch.dst_neg_index.reshape(batch.batch_size, -1) >= 0
    return torch.cat([values, values[drawn.nonzero()[:, 0]]])


def _edge_fields(batch: Batch, key: EdgeType) -> dict[str, Any]:
    """Return the fields that PyG stores for an edge type."""
    fields: dict[str, Any] = {"edge_index": batch.edge_index[key], **batch.edge_features[key]}
    columns = {"edge_time": batch.edge_time, "edge_weight": batch.edge_weight, "e_id": batch.e_id}
    fields |= {name: column[key] for name, column in columns.items() if key in column}
    if "edge_weight" in fields:  # layers multiply features by weights, and torch requires equal dtypes
        fields["edge_weight"] = fields["edge_weight"].to(torch.get_default_dtype())
    fields["num_sampled_edges"] = list(batch.num_sampled_edges[key])
    return fields


def to_arrow(batch: Batch) -> dict[str | EdgeType, pa.Table]:
    """Return Arrow tables by node type (id, n_id, hop, features, y, …) and edge type (neighbour, seed_side, e_id, …).

    `neighbour` and `seed_side` are row numbers in the node tables. `y` and `seed_time` are NULL for nodes that are not
    seeds. Seed edges and negatives are in the "edge_label" table (source, destination, edge_label, input_id, …).
    """
    tables: dict[str | EdgeType, pa.Table] = {name: pa.table(_node_columns(batch, name)) for name in batch.n_id}
    tables |= {key: pa.table(_edge_columns(batch, key)) for key in batch.edge_index}
    return tables if batch.edge_label_index is None else tables | {"edge_label": pa.table(_label_columns(batch))}


def _node_columns(batch: Batch, name: str) -> dict[str, pa.Array]:
    """Return the columns of a node type's table."""
    columns = {"id": batch.ids(name)} if name in batch.user_ids else {}
    columns |= {"n_id": _column(batch.n_id[name]), "hop": _hops(batch.num_sampled_nodes[name])}
    columns |= {label: _column(values) for label, values in batch.features[name].items()}
    if name in batch.batch:
        columns["batch"] = _column(batch.batch[name])
    if name == batch.seed_type:
        known = _known({"y": batch.y, "seed_time": batch.seed_time}) | dict(batch.seed_columns)
        columns |= {label: _padded(_column(values), len(columns["n_id"])) for label, values in known.items()}
    return columns


def _label_columns(batch: Batch) -> dict[str, pa.Array]:
    """Return the columns of the table with seed edges and negatives."""
    assert batch.edge_label_index is not None
    source, destination = batch.edge_label_index
    columns = {"source": source, "destination": destination, "edge_label": batch.edge_label}
    columns |= {"input_id": _of_pairs(batch, batch.input_id), "seed_time": _of_pairs(batch, batch.seed_time)}
    of_seeds = _known({"y": batch.y}) | dict(batch.seed_columns)
    arrays = {name: _column(values) for name, values in _known(columns).items()}
    return arrays | {name: _padded(_column(values), len(source)) for name, values in of_seeds.items()}


def _padded(values: pa.Array, rows: int) -> pa.Array:
    """Return the column, padded with NULLs to `rows` rows."""
    return pa.concat_arrays([values, pa.nulls(rows - len(values), values.type)])


def _edge_columns(batch: Batch, key: EdgeType) -> dict[str, pa.Array]:
    """Return the columns of an edge type's table."""
    neighbor, seed_side = batch.edge_index[key]
    columns = {"neighbour": _column(neighbor), "seed_side": _column(seed_side)}
    columns |= {"hop": _hops(batch.num_sampled_edges[key]), "e_id": _column(batch.e_id[key])}
    named = {"edge_time": batch.edge_time, "edge_weight": batch.edge_weight}
    columns |= {name: _column(column[key]) for name, column in named.items() if key in column}
    return columns | {name: _column(values) for name, values in batch.edge_features[key].items()}


def _column(values: Tensor) -> pa.Array:
    """Return a tensor as an Arrow array.

    Two-dimensional rows become fixed-size lists, and sparse rows become structs of two lists.
    """
    if values.layout == torch.sparse_csr:
        pairs = (values.col_indices(), values.values())
        lists = [pa.LargeListArray.from_arrays(_column(values.crow_indices()), _column(part)) for part in pairs]
        return pa.StructArray.from_arrays(lists, ["indices", "values"])
    array = values.cpu().numpy()
    if array.ndim == 1:
        return pa.array(array)
    return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])


def _hops(counts: list[int]) -> pa.Array:
    """Return [rows] int32, the hop of each row."""
    return pa.array(np.repeat(np.arange(len(counts), dtype=np.int32), counts))

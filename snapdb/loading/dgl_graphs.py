"""Batches as graphs and blocks of DGL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from snapdb.errors import BindError
from snapdb.loading.adapters import block_edges, dgl_package, to_blocks
from snapdb.storage.array_files import STATIC
from snapdb.types import EdgeType

if TYPE_CHECKING:
    from snapdb.loading.batch import Batch

_ALL = slice(None)


def to_dgl(batch: Batch) -> Any:
    """Return a `DGLGraph` of all hops, or under LAYOUT BLOCKS one block per hop, outermost hop first.

    Ids keep their dtype, because DGL's layers accept int32 and int64.

    Raises:
        InputError: DGL is not installed.
        BindError: A seed column has the same name as a feature.
    """
    dgl = dgl_package("to_dgl()")
    return _graph(dgl, batch) if batch.layout == "NODES" else _blocks(dgl, batch)


def _graph(dgl: Any, batch: Batch) -> Any:
    # A graph with one node type and one edge type is homogeneous for DGL, whatever the names of its types.
    ends = {tuple(key): (index[0], index[1]) for key, index in batch.edge_index.items()}
    counts = {name: len(ids) for name, ids in batch.n_id.items()}
    graph = dgl.heterograph(ends, num_nodes_dict=counts)
    for name, ids in batch.n_id.items():
        columns = _seed_data(batch, name, len(ids)) | _trees(batch, name)
        graph.nodes[name].data.update(_joined(name, batch.features[name], columns) | {dgl.NID: ids})
    for key in batch.edge_index:
        graph.edges[tuple(key)].data.update(_edge_data(dgl, batch, key, _ALL))
    return graph


def _blocks(dgl: Any, batch: Batch) -> list[Any]:
    blocks, flows = [], to_blocks(batch)
    for layer, flow in enumerate(flows):
        ends = {tuple(key): (index[0], index[1]) for key, index in flow.edge_index.items()}
        sources, destinations = dict(flow.num_sources), dict(flow.num_destinations)
        block = dgl.create_block(ends, num_src_nodes=sources, num_dst_nodes=destinations)
        for name, ids in batch.n_id.items():
            block.srcnodes[name].data[dgl.NID] = ids[: flow.num_sources[name]]
            block.dstnodes[name].data[dgl.NID] = ids[: flow.num_destinations[name]]
        for key in batch.edge_index:
            part = block_edges(batch, key, len(flows) - layer)
            block.edges[tuple(key)].data.update(_edge_data(dgl, batch, key, part))
        blocks.append(block)
    for name in batch.n_id if blocks else ():
        blocks[0].srcnodes[name].data.update(_joined(name, batch.features[name], _trees(batch, name)))
        blocks[-1].dstnodes[name].data.update(_seed_data(batch, name, flows[-1].num_destinations[name]))
    return blocks


def _joined(name: str, features: Mapping[str, Tensor], columns: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return features and other columns of a node type as one mapping, as DGL stores them."""
    if clash := sorted(columns.keys() & features.keys()):
        raise BindError(
            f"column {clash[0]!r} of the seeds has the same name as a feature of {name}, and DGL stores both as node "
            "data; rename it with AS",
            code="duplicate-name",
        )
    return {**features, **columns}


def _trees(batch: Batch, name: str) -> dict[str, Tensor]:
    """Return each node's seed, and the time of that seed, under TEMPORAL. Otherwise, only seeds have a time."""
    if name not in batch.batch:
        return {}
    tree = batch.batch[name]
    return {"batch": tree} if batch.seed_time is None else {"batch": tree, "seed_time": batch.seed_time[tree]}


def _seed_data(batch: Batch, name: str, rows: int) -> dict[str, Tensor]:
    """Return the columns of the seeds for the first `rows` nodes of a type. Seed edges have none: they are no nodes."""
    if name != batch.seed_type:
        return {}
    columns: dict[str, Tensor | None] = {"y": batch.y, "input_id": batch.input_id, **batch.seed_columns}
    data = {label: _padded(values, rows) for label, values in columns.items() if values is not None}
    if batch.seed_time is not None:
        data["seed_time"] = _padded(batch.seed_time, rows, STATIC)
    return data


def _padded(values: Tensor, rows: int, missing: int = -1) -> Tensor:
    """Return the values of the seeds, followed by a missing value for each other node: `missing`, NaN or False."""
    fill = float("nan") if values.is_floating_point() else False if values.dtype == torch.bool else missing
    padded = values.new_full((rows, *values.shape[1:]), fill)
    padded[: len(values)] = values
    return padded


def _edge_data(dgl: Any, batch: Batch, key: EdgeType, part: slice) -> dict[str, Tensor]:
    """Return the edge data of a part of an edge type's edges."""
    data = {name: values[part] for name, values in batch.edge_features[key].items()}
    columns: Mapping[str, Mapping[EdgeType, Tensor]] = {"edge_time": batch.edge_time, "edge_weight": batch.edge_weight}
    data |= {name: column[key][part] for name, column in columns.items() if key in column}
    if "edge_weight" in data:  # layers multiply features by weights, and torch requires equal dtypes
        data["edge_weight"] = data["edge_weight"].to(torch.get_default_dtype())
    return data | {dgl.EID: batch.e_id[key][part]}

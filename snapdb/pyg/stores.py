"""The graph of PyG's (feature store, graph store), from which PyG's loaders read remote or custom data."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import torch
from torch_geometric.data import Data, FeatureStore, GraphStore, HeteroData
from torch_geometric.data.remote_backend_utils import num_nodes

from snapdb.errors import InputError
from snapdb.pyg.graph import PygGraph, in_memory


def read_stores(data: Any, time_attr: str | None, weight_attr: str | None) -> PygGraph:
    """Return the graph of a pair of stores. Its edges are copied, and an edge's id is its number in the graph store.

    Raises:
        DataError: An edge refers to a node that does not exist.
        InputError: `data` is not such a pair, or its times are missing, or weights are requested.
    """
    if len(data) != 2 or not isinstance(data[0], FeatureStore) or not isinstance(data[1], GraphStore):
        found = ", ".join(type(each).__name__ for each in data)
        raise InputError(f"a tuple of data must be (feature store, graph store), found ({found})", code="pyg-argument")
    if weight_attr is not None:
        raise InputError(
            "weight_attr is not supported for (feature store, graph store), as in PyG; leave it out, or pass a "
            "HeteroData",
            code="pyg-argument",
        )
    features, graph = data
    attributes = graph.get_all_edge_attrs()
    times = {each.group_name: each for each in features.get_all_tensor_attrs() if each.attr_name == time_attr}
    if any(each.edge_type is None for each in attributes):
        row, column, _ = graph.coo()
        size = attributes[0].size or (int(row.max()) + 1, int(column.max()) + 1)
        copied: Any = Data(edge_index=torch.stack([row, column]), num_nodes=max(size))
        stores: Mapping[Any, Any] = {None: copied}
    else:
        rows, columns, _ = graph.coo()
        groups = {each.group_name for each in features.get_all_tensor_attrs()}
        ends = {name for source, _, destination in rows for name in (source, destination)}
        copied = HeteroData()
        for name in sorted(ends | {each for each in groups if isinstance(each, str)}):
            copied[name].num_nodes = num_nodes(features, graph, name)
        for key in sorted(rows):
            copied[key].edge_index = torch.stack([rows[key], columns[key]])
        stores = {name: copied[name] for name in [*copied.node_types, *copied.edge_types]}
    for name, attribute in times.items():
        whole = copy(attribute)
        whole.index = None
        stores[name][time_attr] = features.get_tensor(whole)
    return in_memory(copied, time_attr, None)

"""A whole snapshot as PyG's Data, HeteroData or TemporalData, in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData, TemporalData

from snapdb.database import Database
from snapdb.errors import InputError
from snapdb.loading.lazy import tensor_of
from snapdb.pyg.graph import TIME
from snapdb.pyg.snapshot import SnapshotGraph
from snapdb.pyg.snapshot import open as open_snapshot
from snapdb.sql_engine import quote
from snapdb.types import EdgeType

_MASK = "mask"
"""The end of the names of BOOLEAN columns that divide nodes, such as train_mask."""


def to_data(db: Database, snapshot: str, *, keys: bool = False, temporal: bool = False) -> Any:
    """Return a whole snapshot as one object of PyG, in memory.

    Nodes are numbered from 0 in the order of their dense ids, and edges are in the order of their table. Features have
    the names that the graph declares (`x`, `edge_attr`, …), the target is `y`, times and weights of edges are
    `edge_time` and `edge_weight`, and BOOLEAN columns whose names end in "mask" are masks of nodes.

    Args:
        db: The database.
        snapshot: The name of the snapshot.
        keys: Whether to add your own keys as `key`: a tensor for integers, otherwise a list.
        temporal: Whether to return a TemporalData: the events of the only edge type in the order of time. Nodes of a
            second type follow those of the first.

    Returns:
        A Data for a graph with one vertex type and one edge type, otherwise a HeteroData.

    Raises:
        BindError: The snapshot does not exist.
        InputError: With `temporal`, the graph has several edge types, or edges without times.
    """
    with open_snapshot(db, snapshot) as graph:
        if temporal:
            return _events(graph)
        whole: Any = Data() if graph.graph.single else HeteroData()
        numbers = {name: _numbers(graph, name) for name in graph.graph.node_types}
        for name in graph.graph.node_types:
            group = None if graph.graph.single else name
            _add_nodes(db, snapshot, graph, name, whole if group is None else whole[name], keys)
        for key in graph.graph.relations:
            store = whole if graph.graph.single else whole[tuple(key)]
            for name, value in _edges(graph, key, numbers).items():
                store[name] = value
        return whole


def _numbers(graph: SnapshotGraph, name: str) -> Tensor:
    """Return [dense ids] the number of each node, or -1 if it is not in the snapshot."""
    numbers = torch.full((graph.graph.view.node_counts[name],), -1)
    there = graph.there(name)
    numbers[there] = torch.arange(len(there))
    return numbers


def _add_nodes(db: Database, snapshot: str, graph: SnapshotGraph, name: str, store: Any, keys: bool) -> None:
    group, there = None if graph.graph.single else name, graph.there(name)
    labels = [attr.attr_name for attr in graph.feature_store.get_all_tensor_attrs() if attr.group_name == group]
    for label in labels:
        store[label] = graph.feature_store.get_tensor(group, label, index=there)
    for label, values in _masks(db, snapshot, graph, name).items():
        store[label] = values
    if keys:
        known = graph.ids(there, name)
        whole = known.to_pylist()
        store["key"] = torch.tensor(whole) if whole and isinstance(whole[0], int) else whole
    if not labels:
        store.num_nodes = len(there)


def _masks(db: Database, snapshot: str, graph: SnapshotGraph, name: str) -> dict[str, Tensor]:
    """Return [nodes] bool, the BOOLEAN columns of a type's table whose names end in "mask". NULL counts as false."""
    shape = db.execute(f"SELECT * FROM {quote(snapshot)}.{quote(name)} LIMIT 0")
    masks = [c for c, kind in zip(shape.columns, shape.types, strict=True) if kind == "BOOLEAN" and c.endswith(_MASK)]
    if not masks:
        return {}
    with db.reading() as context:
        element = next(v for v in context.catalog.snapshot(snapshot).graph.vertices if v.name == name)
    columns = ", ".join(quote(column) for column in (*element.key, *masks))
    rows = db.execute(f"SELECT {columns} FROM {quote(snapshot)}.{quote(name)}").arrow().combine_chunks()
    keys = [rows.column(i).combine_chunks() for i in range(len(element.key))]
    known = keys[0] if len(keys) == 1 else pa.StructArray.from_arrays(keys, list(element.key))
    places = _numbers(graph, name)[graph.find(known, name)]
    tensors = {}
    for mask in masks:
        values = pc.fill_null(rows.column(mask), fill_value=False).to_numpy(zero_copy_only=False)
        tensors[mask] = torch.zeros(rows.num_rows, dtype=torch.bool).index_put_((places,), torch.from_numpy(values))
    return tensors


def _edges(graph: SnapshotGraph, key: EdgeType, numbers: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the ends and columns of an edge type, by edge id."""
    flat = graph.graph.view.adjacency(graph.graph.relations[key]).flat()
    order = np.argsort(flat.edge_id, kind="stable")
    ends = np.repeat(np.arange(flat.indptr.size - 1), np.diff(flat.indptr))[order]
    near, far = tensor_of(flat.indices[order].astype(np.int64)), tensor_of(ends)
    columns = {"edge_index": torch.stack([numbers[key.source][near], numbers[key.destination][far]])}
    group, ids = None if graph.graph.single else tuple(key), tensor_of(flat.edge_id[order].astype(np.int64))
    for name in graph.feature_store.edge_names(group):
        columns[name] = graph.feature_store.get_tensor(group, name, index=ids)
    return columns


def _events(graph: SnapshotGraph) -> TemporalData:
    if len(graph.graph.relations) != 1 or not graph.graph.timed:
        found = ", ".join(key.edge for key in graph.graph.relations)
        raise InputError(
            f"a TemporalData has one edge type with EVENT TIME, but the snapshot has {found}; leave temporal out",
            code="pyg-argument",
        )
    (key,) = graph.graph.relations
    numbers = {name: _numbers(graph, name) for name in graph.graph.node_types}
    columns = _edges(graph, key, numbers)
    order = torch.argsort(columns[TIME], stable=True)
    source, destination = columns.pop("edge_index")[:, order]
    offset = len(graph.there(key.source)) if key.source != key.destination else 0
    events = TemporalData(src=source, dst=destination + offset, t=columns.pop(TIME)[order])
    events.msg = columns.pop("edge_attr", torch.empty(len(order), 0))[order]
    for name, values in columns.items():
        events[name] = values[order]
    return events

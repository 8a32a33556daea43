"""A graph with PyG's names for its parts, from a snapshot, or from a Data or HeteroData in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from snapdb.arrays import Float64s, Int64s
from snapdb.errors import DataError, InputError
from snapdb.graph.adjacency import rows_adjacency
from snapdb.graph.view import Adjacency, EdgeReader, GraphView
from snapdb.storage.arrays.topology import EdgeArrays
from snapdb.types import EdgeType, Relation

TIME, WEIGHT = "edge_time", "edge_weight"
"""The names of EVENT TIME and WEIGHT in batches."""


@dataclass(frozen=True, slots=True)
class PygGraph:
    """A graph to sample, with PyG's names."""

    view: GraphView
    relations: Mapping[EdgeType, Relation]
    """PyG's edge type → the sampled relation."""
    single: bool
    """Whether the graph has no types in PyG, like a Data or a snapshot with one vertex type and one edge type."""
    node_time: Mapping[str, Tensor] = field(default_factory=dict)
    """Node type → [nodes] int64, the time from which each node exists, for the types with times."""

    @property
    def node_types(self) -> tuple[str, ...]:
        return tuple(self.view.node_counts)

    @property
    def num_nodes(self) -> int | dict[str, int]:
        """The number of dense ids in PyG's form: an int, or a dict by node type."""
        counts = dict(self.view.node_counts)
        return counts[self.node_types[0]] if self.single else counts

    @property
    def timed(self) -> bool:
        """Whether any edge type has times."""
        return any(self.view.adjacency(relation).time is not None for relation in self.relations.values())

    def relation(self, edge_type: tuple[str, str, str] | None) -> Relation:
        """Return the relation for PyG's edge type, or the only relation if it is None."""
        if edge_type is None and len(self.relations) == 1:
            return next(iter(self.relations.values()))
        relation = None if edge_type is None else self.relations.get(EdgeType(*edge_type))
        if relation is None:
            known = ", ".join(str(tuple(key)) for key in self.relations)
            raise InputError(f"edge type {edge_type} does not exist; available: {known or 'none'}", code="pyg-argument")
        return relation

    def alive(self, node_type: str) -> Tensor | None:
        """Return the dense ids of a type's nodes in the graph, or None if all ids below the count are in it."""
        alive = self.view.alive[node_type]
        return None if alive is None else torch.from_numpy(np.flatnonzero(alive))

    def timeless(self) -> PygGraph:
        """Return the same graph without times, so that all nodes and edges always exist."""
        view = replace(self.view, adjacency=partial(_timeless, self.view.adjacency), born={})
        return replace(self, view=view, node_time={})


def whole_times(name: str, values: Tensor) -> Tensor:
    """Return [n] times as int64.

    Raises:
        InputError: The times are not integers, or not one-dimensional.
    """
    times = torch.as_tensor(values).detach().cpu()
    if times.is_floating_point() or times.dtype == torch.bool or times.dim() != 1:
        raise InputError(
            f"times must be a vector of integers, but {name} is {times.dtype} of shape {list(times.shape)}; "
            "convert it with .long()",
            code="pyg-data",
        )
    return times.to(torch.int64).contiguous()


def _timeless(reader: EdgeReader, relation: Relation) -> Adjacency:
    """Return the rows without their times."""
    return replace(reader(relation), time=None, until=None)


_NODE = "node"
_EDGE = EdgeType(_NODE, "to", _NODE)
"""The edge type of a Data, which has no types."""


def in_memory(data: Data | HeteroData, time_attr: str | None, weight_attr: str | None) -> PygGraph:
    """Return the graph of `data`. As in PyG's e_id, an edge's id is its position in `edge_index`.

    As in PyG's samplers, a node's time is also the time of its outgoing edges.

    Raises:
        DataError: An edge refers to a node that does not exist.
        InputError: `data` is neither a Data nor a HeteroData, or its edges, times or weights have an unsupported form.
    """
    if not isinstance(data, Data | HeteroData):
        raise InputError(
            f"a graph in memory must be torch_geometric's Data or HeteroData, found {type(data).__name__}; open a "
            "snapshot "
            "with snapdb.pyg.open(db, name)",
            code="pyg-data",
        )
    single = isinstance(data, Data)
    nodes = {_NODE: data} if single else {name: data[name] for name in data.node_types}
    edges = {_EDGE: data} if single else {EdgeType(*key): data[key] for key in data.edge_types}
    counts = {name: _count(name, store) for name, store in nodes.items()}
    node_time, edge_time = _times(data, nodes, edges, time_attr)
    weights = _weights(edges, weight_attr)
    rows: dict[Relation, Adjacency] = {}
    for edge, store in edges.items():
        ends = _ends(edge, store, counts)
        time = edge_time.get(edge)
        if edge.source in node_time:
            time = node_time[edge.source].numpy()[ends[0]]
        rows[Relation(edge, "IN")] = _sorted(edge, ends, time, weights.get(edge), counts)
    view = GraphView(
        node_counts=counts,
        alive=dict.fromkeys(counts),
        edge_types=tuple(edges),
        adjacency=partial(_adjacency_of, rows),
        node_features={},
        edge_features={},
        targets={},
        keys=dict.fromkeys(counts, _Numbers()),
    )
    return PygGraph(view, {relation.edge: relation for relation in rows}, single, node_time)


def _adjacency_of(rows: Mapping[Relation, Adjacency], relation: Relation) -> Adjacency:
    return rows[relation]


class _Numbers:
    """The keys of nodes that are identified only by their numbers."""

    def read(self, ids: Int64s) -> pa.Array:
        return pa.array(ids)


def _count(name: str, store: Any) -> int:
    count = store.num_nodes
    if count is None:
        raise InputError(
            f"the number of nodes of type {name!r} is unknown; set num_nodes, or a feature x", code="pyg-data"
        )
    return int(count)


def _ends(edge: EdgeType, store: Any, counts: Mapping[str, int]) -> Int64s:
    """Return [2, edges] int64, the sources and destinations."""
    index = store.get("edge_index")
    if index is None and any(name in store for name in ("adj", "adj_t")):
        raise InputError(
            f"the edges of {tuple(edge)} are a sparse matrix, but snapdb.pyg needs edge_index; leave ToSparseTensor "
            "out",
            code="pyg-data",
        )
    if index is None:
        return np.empty((2, 0), np.int64)
    # edge_index can be a subclass of Tensor, such as PyG's EdgeIndex, so it is converted to a plain tensor.
    ends = np.ascontiguousarray(torch.Tensor.numpy(index.detach().cpu().as_subclass(Tensor).to(torch.int64)))
    for row, side in zip(ends, ("source", "destination"), strict=True):
        count = counts[getattr(edge, side)]
        if row.size and not 0 <= int(row.min()) <= int(row.max()) < count:
            raise DataError(
                f"edges of {tuple(edge)} have {side}s from {int(row.min())} to {int(row.max())}, but there are {count} "
                f"nodes of type {getattr(edge, side)!r}, numbered from 0; correct edge_index or num_nodes",
                code="dangling-edges",
            )
    return ends


def _times(
    data: Any, nodes: Mapping[str, Any], edges: Mapping[EdgeType, Any], name: str | None
) -> tuple[dict[str, Tensor], dict[EdgeType, Int64s]]:
    """Return the times of nodes or edges by type."""
    if name is None:
        return {}, {}
    of_nodes = {kind: store for kind, store in nodes.items() if name in store}
    of_edges = {edge: store for edge, store in edges.items() if name in store}
    if isinstance(data, Data):  # nodes and edges share one store, so lengths distinguish them
        of_nodes = of_nodes if of_nodes and data.is_node_attr(name) else {}
        of_edges = of_edges if of_edges and not of_nodes and data.is_edge_attr(name) else {}
    if bool(of_nodes) == bool(of_edges):
        owners = "both have it" if of_nodes else "neither has it"
        raise InputError(
            f"time_attr={name!r} must be an attribute of either nodes or edges, but {owners}; choose another attribute",
            code="pyg-data",
        )
    times = {edge: whole_times(name, store[name]).numpy() for edge, store in of_edges.items()}
    return {kind: whole_times(name, store[name]) for kind, store in of_nodes.items()}, times


def _weights(edges: Mapping[EdgeType, Any], name: str | None) -> dict[EdgeType, Float64s]:
    """Return the edge weights by type. Types without weights have weight 1."""
    if name is None:
        return {}
    if not any(name in store for store in edges.values()):
        raise InputError(
            f"weight_attr={name!r} must be an attribute of edges, but no edge type has it", code="pyg-data"
        )
    weights = {}
    for edge, store in edges.items():
        # Kernels draw by float64 weights.
        values = store[name] if name in store else torch.ones(store.num_edges)
        weights[edge] = torch.as_tensor(values).detach().cpu().to(torch.float64).contiguous().numpy()
    return weights


def _sorted(
    edge: EdgeType, ends: Int64s, time: Int64s | None, weight: Float64s | None, counts: Mapping[str, int]
) -> Adjacency:
    """Return the adjacency, sorted by destination."""
    count = ends.shape[1]
    for what, values in (("times", time), ("weights", weight)):
        if values is not None and values.shape != (count,):
            raise InputError(
                f"{tuple(edge)} has {count} edges, but {what} of shape {list(values.shape)}; it must have one value "
                "per edge",
                code="pyg-data",
            )
    ids = np.arange(count, dtype=np.int32 if count < 2**31 else np.int64)
    arrays = EdgeArrays(ends[0], ends[1], ids, time, weight)
    return rows_adjacency(arrays.sort_edges(counts[edge.destination], counts[edge.source]))

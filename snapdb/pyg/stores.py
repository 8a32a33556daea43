"""A snapshot's features and edges as PyG's stores, read by dense id and by edge id; nothing can be written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr
from torch_geometric.data.graph_store import EdgeLayout

from snapdb.errors import InputError
from snapdb.graph.view import EdgeColumn, Feature
from snapdb.loading.rows import rows_of, tensor_of
from snapdb.pyg.graph import TIME, WEIGHT, PygGraph
from snapdb.types import EdgeType, Relation

_TARGET = "y"
"""What PyG calls the target of a node."""


class SnapshotFeatures(FeatureStore):  # type: ignore[misc]  # PyG's classes are not typed
    """The features of nodes by dense id, with their target as `y`, and those of edges by edge id (`e_id`).

    Edges also have `edge_time` and `edge_weight`, where the graph names them: at first use, an array of all of them.

    A group is a node type or an edge type; where PyG knows no types, None stands for the nodes, and also for the edges
    of features that only these have.
    """

    def __init__(self, graph: PygGraph) -> None:
        super().__init__()
        view = graph.view
        self._nodes: dict[tuple[Any, str], Feature] = {}
        self._edges: dict[tuple[Any, str], Feature] = {}
        for name in graph.node_types:
            named = dict(view.node_features.get(name, {}))
            if name in view.targets:
                named.setdefault(_TARGET, view.targets[name])
            for label, feature in named.items():
                self._nodes[None if graph.single else name, label] = feature
        columns = {edge: _columns(graph, edge) for edge in view.edge_types}
        for key, relation in graph.relations.items():
            named = {**columns[relation.edge], **view.edge_features.get(relation.edge.edge, {})}
            for label, feature in named.items():
                self._edges[None if graph.single else tuple(key), label] = feature

    def edge_names(self, edge_type: tuple[str, ...] | None) -> list[str]:
        """What the features of an edge type are called."""
        return [label for group, label in self._edges if group == edge_type]

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """The features of nodes, which PyG's loaders read for every batch; those of edges are read by name."""
        return [TensorAttr(group_name=group, attr_name=label) for group, label in self._nodes]

    def _get_tensor(self, attr: TensorAttr) -> Tensor:
        feature = self._feature(attr)
        rows = rows_of(feature, _ids(attr.index, feature.shape[0]))
        # Layers multiply by it, and torch multiplies numbers of one type.
        return rows.to(torch.get_default_dtype()) if attr.attr_name == WEIGHT else rows

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...]:
        return self._feature(attr).shape

    def _feature(self, attr: TensorAttr) -> Feature:
        key = attr.group_name, attr.attr_name
        found = self._nodes.get(key, self._edges.get(key))
        if found is None:
            known = ", ".join(f"{group}.{name}" if group else name for group, name in [*self._nodes, *self._edges])
            raise InputError(
                f"the snapshot has no feature {attr.attr_name!r} of {attr.group_name!r}, but {known or 'none'}; "
                "name it by FEATURES (… AS name) in CREATE PROPERTY GRAPH",
                code="pyg-argument",
            )
        return found

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> NoReturn:
        _refuse_writing()

    def _remove_tensor(self, attr: TensorAttr) -> NoReturn:
        _refuse_writing()


@dataclass(frozen=True)
class _ByEdgeId:
    """A column that lies by place, read by edge id."""

    ids: EdgeColumn
    values: EdgeColumn
    places: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self._laid.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def read(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self._laid[ids]
        return found

    @cached_property
    def _laid(self) -> npt.NDArray[Any]:
        places = np.arange(self.places)
        ids = self.ids.read(places)
        laid = np.zeros(int(ids.max(initial=-1)) + 1, self.dtype)
        laid[ids] = self.values.read(places)
        return laid


def _columns(graph: PygGraph, edge: EdgeType) -> dict[str, Feature]:
    """The times and weights of an edge type, as batches call them."""
    rows = graph.view.adjacency(Relation(edge, "IN"))
    places = rows.rows.indices.size + rows.rows.patch.indices.size
    known = {TIME: rows.time, WEIGHT: rows.weight}
    return {name: _ByEdgeId(rows.edge_id, column, places) for name, column in known.items() if column is not None}


class SnapshotEdges(GraphStore):  # type: ignore[misc]  # PyG's classes are not typed
    """The edges of each type as CSC, by (destination, event time, edge id)."""

    def __init__(self, graph: PygGraph) -> None:
        super().__init__()
        self._graph = graph

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """One layout for each edge type, with the numbers of dense ids at both ends."""
        return [
            EdgeAttr(None if self._graph.single else tuple(key), EdgeLayout.CSC, size=self._size(key))
            for key in self._graph.relations
        ]

    def edge_ids(self, edge_type: tuple[str, str, str] | None = None) -> Tensor:
        """[edges] the edge id (`e_id`) of each place in the CSC: a sampler that counts places is read by it."""
        return tensor_of(self._graph.view.adjacency(self._graph.relation(edge_type)).flat().edge_id.astype(np.int64))

    def _size(self, key: EdgeType) -> tuple[int, int]:
        counts = self._graph.view.node_counts
        return counts[key.source], counts[key.destination]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        if edge_attr.layout != EdgeLayout.CSC:
            return None
        flat = self._graph.view.adjacency(self._graph.relation(edge_attr.edge_type)).flat()
        return tensor_of(flat.indices.astype(np.int64)), tensor_of(flat.indptr)

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> NoReturn:
        _refuse_writing()

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> NoReturn:
        _refuse_writing()


def _ids(index: Any, count: int) -> npt.NDArray[np.int64]:
    """The rows that an index of PyG's means, of so many.

    Raises:
        IndexError: one is not there.
    """
    if index is None or isinstance(index, slice | int):
        index = np.arange(count)[slice(None) if index is None else index]
    ids = np.atleast_1d(index.cpu() if isinstance(index, torch.Tensor) else index)
    if ids.dtype == np.bool_:
        ids = np.flatnonzero(ids)
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < count:
        raise IndexError(f"ids are 0 ≤ id < {count}, found {int(ids.min())} to {int(ids.max())}")
    return np.ascontiguousarray(ids, np.int64)


def _refuse_writing() -> NoReturn:
    raise InputError(
        "a snapshot does not change; INSERT or UPDATE its tables and REFRESH it, then open it again",
        code="pyg-argument",
    )

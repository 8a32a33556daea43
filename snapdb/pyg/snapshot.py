"""A snapshot opened for PyG: its stores, its sampler, and the mapping between user keys and PyG's node numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor
from torch_geometric.data import Data, EdgeAttr, FeatureStore, GraphStore, HeteroData, TensorAttr
from torch_geometric.data.graph_store import EdgeLayout

from snapdb.arrays import Array, Int64s
from snapdb.attribute_docs import document_attributes
from snapdb.database import Database
from snapdb.errors import BindError, DataError, InputError
from snapdb.graph.features import HistoryFeature
from snapdb.graph.view import EdgeColumn, Feature
from snapdb.loading.lazy import rows_of, tensor_of
from snapdb.pyg.graph import TIME, WEIGHT, PygGraph
from snapdb.pyg.options import SamplingOptions
from snapdb.pyg.sampler import NeighborhoodSampler, SnapSampler
from snapdb.storage.catalog_db.locks import Lease
from snapdb.types import EdgeType, Relation


def open(db: Database, snapshot: str, *, reverse: bool = False) -> SnapshotGraph:  # noqa: A001  # snapdb.pyg.open
    """Open a snapshot as a feature store and a graph store for PyG's loaders.

    The snapshot's files are kept until the result is closed.

    Args:
        db: The database.
        snapshot: The name of the snapshot.
        reverse: Whether to add the reverse of each edge type, as (destination, 'rev_' + edge, source). ToUndirected
            does the same for a HeteroData, but edge features are not copied here.

    Returns:
        The snapshot. Close it, or use it as a context manager.

    Raises:
        BindError: The snapshot does not exist.
        CorruptError: A file of the snapshot is missing or damaged.
    """
    if not isinstance(db, Database):
        raise InputError(
            f"the argument of open must be an open database, found {db!r:.60}; write "
            "snapdb.pyg.open(snapdb.connect(path), name)",
            code="pyg-argument",
        )
    opened = db.open_snapshot(snapshot)
    view = opened.view
    relations = [Relation(edge, "IN") for edge in view.edge_types]
    if reverse:
        relations += [Relation(edge, "OUT") for edge in view.edge_types]
    single = len(view.node_counts) == len(relations) == 1
    born = {name: torch.from_numpy(times) for name, times in view.born.items()}
    graph = PygGraph(view, {relation.key: relation for relation in relations}, single, born)
    return SnapshotGraph(graph, opened.lease)


@document_attributes
@dataclass(frozen=True)
class SnapshotGraph:
    """A snapshot for PyG. Nodes have dense ids: `find` converts your own keys to dense ids, and `ids` converts back."""

    graph: PygGraph
    """The snapshot as arrays, with PyG's names for its types."""
    _lease: Lease | None
    """The lock on the files, or None if another process holds it."""

    @cached_property
    def feature_store(self) -> SnapshotFeatures:
        """The features, as a PyG FeatureStore."""
        return SnapshotFeatures(self.graph)

    @cached_property
    def graph_store(self) -> SnapshotEdges:
        """The edges, as a PyG GraphStore."""
        return SnapshotEdges(self.graph)

    @property
    def data(self) -> tuple[SnapshotFeatures, SnapshotEdges]:
        """(feature store, graph store): the `data` argument of PyG's loaders."""
        return self.feature_store, self.graph_store

    def __repr__(self) -> str:
        nodes = ", ".join(f"{count:,} {name}" for name, count in self.graph.view.node_counts.items())
        edges = ", ".join(key.edge for key in self.graph.relations)
        return f"SnapshotGraph({self.graph.view.lineage['snapshot']}; nodes: {nodes}; edges: {edges})"

    def metadata(self) -> tuple[list[str], list[tuple[str, str, str]]]:
        """Return (node types, edge types) like `HeteroData.metadata()`, for to_hetero and HGTConv."""
        return list(self.graph.node_types), [(*key,) for key in self.graph.relations]

    def sampler(self, num_neighbors: Any, *, seed: int = 0, **words: Any) -> SnapSampler:
        """Return a sampler for PyG's NodeLoader and LinkLoader, whose draws depend on `torch.manual_seed`.

        Args:
            num_neighbors: The number of neighbours per hop, or a mapping of edge types to numbers. -1 includes all
                neighbours.
            seed: The seed of the draws.
            words: Arguments of NeighborLoader: replace, subgraph_type, disjoint, temporal_strategy,
                time_attr="edge_time" and weight_attr="edge_weight". Edges at the seed's time are included (<=).

        Raises:
            InputError: An argument is not supported.
        """
        return self.drawing(SamplingOptions(num_neighbors, **words), seed)

    def drawing(self, words: SamplingOptions, seed: int) -> SnapSampler:
        """Return the sampler with these options."""
        for name, meant in (("time_attr", TIME), ("weight_attr", WEIGHT)):
            if (given := getattr(words, name)) not in (None, meant):
                raise InputError(f"the snapshot has no {name}={given!r}; pass {name}={meant!r}", code="pyg-argument")
        if words.time_attr is not None:
            self._check_timed()
        # As in PyG, times limit the draws only if time_attr is passed.
        graph = self.graph if words.time_attr else self.graph.timeless()
        return SnapSampler(NeighborhoodSampler(graph, words, seed))

    def with_edge_features(self, batch: Data | HeteroData) -> Data | HeteroData:
        """Return the batch with its edge features, which PyG's loaders omit. Pass this method as `transform`."""
        for key in self.graph.relations:
            group = None if self.graph.single else tuple(key)
            store = batch if group is None else batch[group]
            for name in self.feature_store.edge_names(group):
                store[name] = self.feature_store.get_tensor(group, name, index=store.e_id)
        return batch

    def ids(self, nodes: Tensor, node_type: str | None = None) -> pa.Array:
        """Return your own keys for nodes, such as the nodes in a batch's `n_id`.

        Args:
            nodes: [n] dense ids.
            node_type: The type of the nodes, or None for the only type.

        Returns:
            [n] keys as an Arrow array, with structs for a composite key.

        Raises:
            InputError: An id is out of range.
        """
        name, numbers = self._type(node_type), torch.as_tensor(nodes).cpu().numpy()
        count = self.graph.view.node_counts[name]
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < count:
            raise InputError(
                f"ids of nodes of type {name} must be 0 ≤ n < {count}, found {numbers.min()} to {numbers.max()}; pass "
                "ids from find() or from a batch's n_id",
                code="pyg-argument",
            )
        return self.graph.view.keys[name].read(numbers)

    def find(self, keys: Any, node_type: str | None = None) -> Tensor:
        """Return the dense ids of keys, in the order of the keys, for `input_nodes`.

        Args:
            keys: [n] your own keys, as an array, list or Arrow array.
            node_type: The type of the nodes, or None for the only type.

        Returns:
            [n] int64 dense ids.

        Raises:
            DataError: A key is not in the snapshot.
        """
        name = self._type(node_type)
        alive = self.there(name)
        known = self.graph.view.keys[name].read(alive.numpy())
        column = keys if isinstance(keys, pa.Array | pa.ChunkedArray) else pa.array(np.asarray(keys))
        # index_in requires equal types, but keys from Python are int64 or string whatever the column's type.
        places = pc.index_in(column.cast(known.type), value_set=known)
        if places.null_count:
            missing = column.filter(pc.is_null(places))[:3].to_pylist()
            raise DataError(
                f"{places.null_count} of {len(column)} keys do not exist in {name} of the snapshot "
                f"({', '.join(map(repr, missing))}); choose other keys",
                code="unknown-seed",
            )
        return alive[torch.from_numpy(places.to_numpy(zero_copy_only=False).astype(np.int64))]

    def there(self, node_type: str | None = None) -> Tensor:
        """Return [nodes] int64, the dense ids of the nodes in the snapshot in ascending order. They may have gaps."""
        name = self._type(node_type)
        alive = self.graph.alive(name)
        return torch.arange(self.graph.view.node_counts[name]) if alive is None else alive

    def input_nodes(self, asked: Any) -> Any:
        """Return seed nodes in the form of PyG's loaders. A type alone, or None, selects all nodes of the snapshot."""
        if isinstance(asked, tuple | list) and len(asked) == 2 and isinstance(asked[0], str):
            return (asked[0], self.there(asked[0])) if asked[1] is None else asked
        nodes = self.there(asked) if asked is None or isinstance(asked, str) else asked
        return nodes if self.graph.single else (self._type(asked if isinstance(asked, str) else None), nodes)

    def link_index(self, asked: Any) -> Any:
        """Return seed edges in the form of PyG's loaders. None selects all edges of the only edge type."""
        if not self.graph.single:
            return asked
        if asked is None:
            row, col, _ = self.graph_store.coo()
            return None, torch.stack([row, col])
        return (None, asked) if isinstance(asked, Tensor) else asked

    def close(self) -> None:
        """Release the files. Batches remain valid."""
        if self._lease is not None:
            self._lease.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for spawned DataLoader workers. The files remain locked by the process that opened them."""
        return {"graph": self.graph, "_lease": None}

    def _type(self, node_type: str | None) -> str:
        types = self.graph.node_types
        if node_type is None and len(types) == 1:
            return types[0]
        if node_type not in types:
            raise InputError(
                f"node type {node_type!r} does not exist; the snapshot has {', '.join(map(repr, types))}",
                code="pyg-argument",
            )
        return node_type

    def _check_timed(self) -> None:
        """Raise InputError for times that PyG's stores cannot represent."""
        if not self.graph.timed:
            raise BindError(
                "time_attr needs event times, but no edge type of the snapshot has an EVENT TIME",
                code="needs-event-time",
            )
        changing: Mapping[str, Sequence[str]] = {
            kind: [name for name, feature in named.items() if isinstance(feature, HistoryFeature)]
            for kind, named in self.graph.view.node_features.items()
        }
        for kind, names in changing.items():
            if names:
                raise InputError(
                    f"feature {names[0]!r} of {kind} has a history, but PyG's stores do not receive the times of "
                    "seeds; "
                    "use db.stream('SAMPLE … TEMPORAL …'), which reads it as of each seed",
                    code="pyg-argument",
                )


_TARGET = "y"
"""PyG's name for a node's target."""


def _raise_read_only(store: object, *args: object) -> NoReturn:
    raise InputError(
        "a snapshot is read-only; INSERT or UPDATE its tables and REFRESH it, then open it again", code="pyg-argument"
    )


class SnapshotFeatures(FeatureStore):  # type: ignore[misc]  # PyG's classes have no type hints
    """A PyG FeatureStore: node features by dense id, targets as `y`, and edge features by edge id (`e_id`).

    Edges also have `edge_time` and `edge_weight` if the graph declares them. The first access copies the whole column.

    A group is a node type or an edge type. In a graph with one node type and one edge type, the group is None, which
    denotes the nodes, or the edges for features that only edges have.
    """

    def __init__(self, graph: PygGraph) -> None:
        super().__init__()
        view = graph.view
        self._nodes: dict[tuple[Any, str], Feature] = {}
        self._edges: dict[tuple[Any, str], Feature] = {}
        for name in graph.node_types:
            named = dict(view.node_features.get(name, {}))
            if name in view.targets:
                # A feature named y takes precedence over the target.
                named.setdefault(_TARGET, view.targets[name])
            for label, feature in named.items():
                self._nodes[None if graph.single else name, label] = feature
        columns = {edge: _columns(graph, edge) for edge in view.edge_types}
        for key, relation in graph.relations.items():
            named = {**columns[relation.edge], **view.edge_features.get(relation.edge.edge, {})}
            for label, feature in named.items():
                self._edges[None if graph.single else tuple(key), label] = feature

    def edge_names(self, edge_type: tuple[str, ...] | None) -> list[str]:
        """Return the names of the features of an edge type."""
        return [label for group, label in self._edges if group == edge_type]

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """Return the node features, which PyG's loaders read for each batch. Edge features are read by name."""
        return [TensorAttr(group_name=group, attr_name=label) for group, label in self._nodes]

    def _get_tensor(self, attr: TensorAttr) -> Tensor:
        feature = self._feature(attr)
        rows = rows_of(feature, _ids(attr.index, feature.shape[0]))
        # Layers multiply states by weights, and torch requires equal dtypes.
        return rows.to(torch.get_default_dtype()) if attr.attr_name == WEIGHT else rows

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...]:
        return self._feature(attr).shape

    def _feature(self, attr: TensorAttr) -> Feature:
        key = attr.group_name, attr.attr_name
        feature = self._nodes.get(key, self._edges.get(key))
        if feature is None:
            known = ", ".join(f"{group}.{name}" if group else name for group, name in [*self._nodes, *self._edges])
            raise InputError(
                f"feature {attr.attr_name!r} of {attr.group_name!r} does not exist in the snapshot; available: "
                f"{known or 'none'}; "
                "declare it with FEATURES (… AS name) in CREATE PROPERTY GRAPH",
                code="pyg-argument",
            )
        return feature

    _put_tensor = _remove_tensor = _raise_read_only


@dataclass(frozen=True)
class _ByEdgeId:
    """A column that is stored by position and read by edge id."""

    ids: EdgeColumn
    values: EdgeColumn
    places: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self._laid.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def read(self, ids: Array) -> Array:
        values: Array = self._laid[ids]
        return values

    @cached_property
    def _laid(self) -> Array:
        # The column is scattered into id order once, so that later reads are plain indexing.
        places = np.arange(self.places)
        ids = self.ids.read(places)
        laid = np.zeros(int(ids.max(initial=-1)) + 1, self.dtype)
        laid[ids] = self.values.read(places)
        return laid


def _columns(graph: PygGraph, edge: EdgeType) -> dict[str, Feature]:
    """Return an edge type's times and weights under their names in batches."""
    rows = graph.view.adjacency(Relation(edge, "IN"))
    places = rows.rows.indices.size + rows.rows.delta.indices.size
    known = {TIME: rows.time, WEIGHT: rows.weight}
    return {name: _ByEdgeId(rows.edge_id, column, places) for name, column in known.items() if column is not None}


class SnapshotEdges(GraphStore):  # type: ignore[misc]  # PyG's classes have no type hints
    """A PyG GraphStore: the edges of each type as CSC, sorted by (destination, event time, edge id)."""

    def __init__(self, graph: PygGraph) -> None:
        super().__init__()
        self._graph = graph

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """Return one layout per edge type, whose size is the number of dense ids at both ends."""
        return [
            EdgeAttr(None if self._graph.single else tuple(key), EdgeLayout.CSC, size=self._size(key))
            for key in self._graph.relations
        ]

    def edge_ids(self, edge_type: tuple[str, str, str] | None = None) -> Tensor:
        """Return [edges] int64, the edge id (`e_id`) of each position in the CSC."""
        return tensor_of(self._graph.view.adjacency(self._graph.relation(edge_type)).flat().edge_id.astype(np.int64))

    def _size(self, key: EdgeType) -> tuple[int, int]:
        counts = self._graph.view.node_counts
        return counts[key.source], counts[key.destination]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        # Only CSC is stored. PyG converts it to other layouts.
        if edge_attr.layout != EdgeLayout.CSC:
            return None
        flat = self._graph.view.adjacency(self._graph.relation(edge_attr.edge_type)).flat()
        return tensor_of(flat.indices.astype(np.int64)), tensor_of(flat.indptr)

    _put_edge_index = _remove_edge_index = _raise_read_only


def _ids(index: Any, count: int) -> Int64s:
    """Return the row numbers for PyG's index into `count` rows.

    Raises:
        IndexError: A row number is out of range.
    """
    if index is None or isinstance(index, slice | int):
        index = np.arange(count)[slice(None) if index is None else index]
    ids = np.atleast_1d(index.cpu() if isinstance(index, torch.Tensor) else index)
    if ids.dtype == np.bool_:
        ids = np.flatnonzero(ids)
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < count:
        raise IndexError(f"ids must be 0 ≤ id < {count}, found {int(ids.min())} to {int(ids.max())}")
    return np.ascontiguousarray(ids, np.int64)

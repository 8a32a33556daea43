"""From a subgraph to a batch: what is read now, and what is read when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from snapdb.graph.view import Column, Feature, GraphView, KeyReader
from snapdb.loading.batch import Batch
from snapdb.loading.lazy import Lazy
from snapdb.loading.rows import rows_of, tensor_of
from snapdb.sampling import Sampler, Seeds, Subgraph

__all__ = ["assemble"]

Int64s = npt.NDArray[np.int64]

NO_FEATURE = "features are named by FEATURES (… AS name) in CREATE PROPERTY GRAPH"
NO_TIME = "an edge type has times when its table says EVENT TIME (column) in CREATE PROPERTY GRAPH"
NO_WEIGHT = "an edge type has weights when its table says WEIGHT (column) in CREATE PROPERTY GRAPH"
NO_TYPE = "a batch holds the node and edge types that its sampler reaches"


def assemble(
    view: GraphView,
    sampler: Sampler,
    seeds: Seeds,
    ordinals: Int64s,
    subgraph: Subgraph,
    *,
    index: tuple[int, int],
    lineage: Mapping[str, Any],
) -> Batch:
    """The batch of seeds `ordinals`, whose sampled neighbourhood is `subgraph`.

    Node features and targets are read here, edge columns and the user's ids at first access; these hold on to the
    arrays of the view, so they outlive the stream.
    """
    edges = {walk.relation.key: (walk, subgraph.edges[walk.relation].position) for walk in sampler.walks}
    ids = {key: partial(_ids, walk.adjacency.edge_id, where) for key, (walk, where) in edges.items()}
    timed = ((key, walk.adjacency.time, where) for key, (walk, where) in edges.items())
    weighted = ((key, walk.adjacency.weight, where) for key, (walk, where) in edges.items())
    e_id = Lazy(ids, NO_TYPE)
    return Batch(
        seed_type=seeds.type,
        batch_size=ordinals.size,
        input_id=tensor_of(np.array(ordinals, np.int64)),
        y=_targets(view, seeds, ordinals),
        n_id={name: torch.from_numpy(nodes) for name, nodes in subgraph.nodes.items()},
        features={
            name: {label: rows_of(feature, nodes) for label, feature in view.node_features.get(name, {}).items()}
            for name, nodes in subgraph.nodes.items()
        },
        edge_index={walk.relation.key: torch.from_numpy(subgraph.edges[walk.relation].index) for walk in sampler.walks},
        num_sampled_nodes={name: list(counts) for name, counts in subgraph.nodes_per_hop.items()},
        num_sampled_edges={
            walk.relation.key: [blocks[i].position.size for blocks in subgraph.hops]
            for i, walk in enumerate(sampler.walks)
        },
        index=index,
        lineage=lineage,
        e_id=e_id,
        edge_features={
            key: Lazy(_edge_features(view, walk.relation.edge.edge, partial(e_id.__getitem__, key)), NO_FEATURE)
            for key, (walk, _) in edges.items()
        },
        edge_time=Lazy({key: partial(_column, time, where) for key, time, where in timed if time is not None}, NO_TIME),
        edge_weight=Lazy({key: partial(_column, w, where) for key, w, where in weighted if w is not None}, NO_WEIGHT),
        user_ids=Lazy(
            {
                name: partial(_keys, view.keys[name], nodes)
                for name, nodes in subgraph.nodes.items()
                if name in view.keys
            },
            NO_TYPE,
        ),
    )


def _targets(view: GraphView, seeds: Seeds, ordinals: Int64s) -> Tensor | None:
    """What the seed query gave, else the graph's own target."""
    if seeds.y is not None:
        return tensor_of(seeds.y[ordinals])
    target = view.targets.get(seeds.type)
    return None if target is None else tensor_of(target.read(seeds.ids[ordinals]))


def _edge_features(view: GraphView, edge: str, e_id: Callable[[], Tensor]) -> dict[str, Callable[[], Tensor]]:
    return {name: partial(_by_edge, feature, e_id) for name, feature in view.edge_features.get(edge, {}).items()}


def _by_edge(feature: Feature, e_id: Callable[[], Tensor]) -> Tensor:
    return rows_of(feature, e_id().numpy())


def _column(column: Column, position: Int64s) -> Tensor:
    return tensor_of(column.read(position))


def _ids(column: Column, position: Int64s) -> Tensor:
    return tensor_of(column.read(position).astype(np.int64, copy=False))


def _keys(reader: KeyReader, nodes: Int64s) -> pa.Array:
    return reader.read(nodes)

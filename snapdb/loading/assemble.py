"""Batch assembly from a sampled subgraph or walks: features, targets, edge columns, and seed edge pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from snapdb.arrays import Int64s
from snapdb.graph.view import Adjacency, EdgeColumn, Feature, GraphView, KeyReader
from snapdb.loading.assemble_walks import assemble_walks
from snapdb.loading.batch import NO_SEED_COLUMN, NO_TREES, Batch
from snapdb.loading.device_transfer import DeviceTransfer
from snapdb.loading.lazy import Held, Lazy, host, rows_of, tensor_of
from snapdb.loading.walk_batch import WalkBatch
from snapdb.sampling import Edges, NeighborSampler, SamplerInput, Seeds, Subgraph
from snapdb.sampling.subgraph import Ints
from snapdb.sampling.walker import Walker
from snapdb.sampling.walks import Walks
from snapdb.types import EdgeType

_Nodes = Mapping[str, Callable[[], Int64s]]
"""Node type → a function that returns the nodes' dense ids in host memory."""

_NO_FEATURE = "features are declared by FEATURES (… AS name) in CREATE PROPERTY GRAPH"
_NO_TIME = "times are declared by EVENT TIME (column) of an edge table in CREATE PROPERTY GRAPH"
_NO_WEIGHT = "weights are declared by WEIGHT (column) of an edge table in CREATE PROPERTY GRAPH"
_NO_TYPE = "a batch contains the node and edge types that its sampler reaches"


def assemble(
    view: GraphView,
    sampler: NeighborSampler | Walker,
    seeds: Seeds,
    entry: SamplerInput,
    drawn: Subgraph | Walks,
    transfer: DeviceTransfer,
    *,
    index: tuple[int, int],
    lineage: Mapping[str, Any],
) -> Batch | WalkBatch:
    """Build a batch from the input of a sampler or walker, and the subgraph or the walks that were drawn for it."""
    if isinstance(sampler, NeighborSampler):
        assert isinstance(drawn, Subgraph)
        return _assemble_subgraph(view, sampler, seeds, entry, drawn, transfer, index=index, lineage=lineage)
    assert isinstance(drawn, Walks)
    y = _targets(view, seeds, entry.ordinals)
    return assemble_walks(view, sampler, seeds, entry, drawn, y, index=index, lineage=lineage)


def _assemble_subgraph(
    view: GraphView,
    sampler: NeighborSampler,
    seeds: Seeds,
    entry: SamplerInput,
    subgraph: Subgraph,
    transfer: DeviceTransfer,
    *,
    index: tuple[int, int],
    lineage: Mapping[str, Any],
) -> Batch:
    """Build a batch from a sampler's input and the subgraph that was sampled for it.

    Node features and targets are read here. Edge columns and the user's keys are read on first access. They refer to
    the view's arrays, which therefore outlive the stream. Tensors are on the device where they were sampled or read.
    Features that are resident on the transfer's device are not read yet.
    """
    spec = sampler.spec
    edges = {
        traversal.relation.key: (traversal.adjacency, subgraph.edges[traversal.relation])
        for traversal in sampler.traversals
    }
    # The ids are copied from the GPU only once, for both features and keys, and only if they are needed.
    nodes = {name: cache(partial(host, ids)) for name, ids in subgraph.nodes.items()}
    e_id = Lazy({key: partial(_ids, rows.edge_id, drawn.position) for key, (rows, drawn) in edges.items()}, _NO_TYPE)
    batch = Batch(
        seed_type=spec.seed_type if spec.link is None else spec.link.edge,
        batch_size=entry.ordinals.size,
        input_id=tensor_of(np.array(entry.ordinals, np.int64)),
        y=_targets(view, seeds, entry.ordinals),
        n_id=Held({name: tensor_of(ids) for name, ids in subgraph.nodes.items()}),
        features=_features(view, transfer, entry, subgraph, nodes),
        edge_index=Held({key: tensor_of(drawn.index) for key, (_, drawn) in edges.items()}),
        num_sampled_nodes=Held({name: list(counts) for name, counts in subgraph.nodes_per_hop.items()}),
        num_sampled_edges=Held(
            {
                traversal.relation.key: [len(blocks[i].position) for blocks in subgraph.hops]
                for i, traversal in enumerate(sampler.traversals)
            }
        ),
        index=index,
        lineage=lineage,
        e_id=e_id,
        edge_features=Held(
            {
                traversal.relation.key: _edge_features(
                    view, traversal.relation.edge.edge, partial(e_id.__getitem__, traversal.relation.key)
                )
                for traversal in sampler.traversals
            }
        ),
        edge_time=_times(edges),
        edge_weight=_weights(edges),
        user_ids=Lazy(
            {name: partial(_keys, view.keys[name], nodes[name]) for name in nodes if name in view.keys}, _NO_TYPE
        ),
        seed_time=None if entry.times is None else tensor_of(np.array(entry.times, np.int64)),
        seed_columns=Lazy.of(
            {name: tensor_of(values[entry.ordinals]) for name, values in seeds.columns.items()}, NO_SEED_COLUMN
        ),
        batch=Lazy.of({name: tensor_of(trees) for name, trees in (subgraph.trees or {}).items()}, NO_TREES),
        layout=spec.layout,
        temporal=spec.temporal,
    )
    return batch if spec.link is None else _with_pairs(batch, entry, subgraph.entered)


def _targets(view: GraphView, seeds: Seeds, ordinals: Int64s) -> Tensor | None:
    """Return the seed query's targets or, for vertices, the graph's TARGET, or None if there is neither."""
    if seeds.y is not None:
        return tensor_of(seeds.y[ordinals])
    target = view.targets.get(seeds.type)
    return None if target is None or seeds.ends is not None else tensor_of(target.read(seeds.ids[ordinals]))


def _features(
    view: GraphView, transfer: DeviceTransfer, entry: SamplerInput, subgraph: Subgraph, nodes: _Nodes
) -> dict[str, dict[str, Tensor]]:
    """Return the features of all nodes. In disjoint trees, histories are read as of the tree's seed time."""
    found: Held[str, dict[str, Tensor]] = Held()
    for kind in nodes:
        before = bounds_of(entry, subgraph, kind)
        named = view.node_features.get(kind, {})
        read = {name: transfer.rows(kind, name, feature, nodes[kind], before) for name, feature in named.items()}
        found[kind] = Held({name: rows for name, rows in read.items() if rows is not None})
    return found


def bounds_of(entry: SamplerInput, subgraph: Subgraph, kind: str) -> Int64s | None:
    """Return the time before which each node's features are read, as [nodes] int64, or None if there is no time."""
    # Reading the newest value instead would leak the seed's future into its features.
    if subgraph.trees is None or entry.times is None:
        return None
    bounds: Int64s = entry.times[host(subgraph.trees[kind])]
    return bounds


def _edge_features(view: GraphView, edge: str, e_id: Callable[[], Tensor]) -> Mapping[str, Tensor]:
    """Return functions, by feature name, that read an edge type's features on first access."""
    named = view.edge_features.get(edge, {})
    return Lazy({name: partial(_by_edge, named, name, e_id) for name in named}, _NO_FEATURE)


def _times(edges: Mapping[EdgeType, tuple[Adjacency, Edges]]) -> Mapping[EdgeType, Tensor]:
    """Return functions that read event times on first access, for the edge types that have them."""
    timed = {key: (rows.time, drawn.position) for key, (rows, drawn) in edges.items() if rows.time is not None}
    return Lazy({key: partial(_column, *where) for key, where in timed.items()}, _NO_TIME)


def _weights(edges: Mapping[EdgeType, tuple[Adjacency, Edges]]) -> Mapping[EdgeType, Tensor]:
    """Return functions that read weights on first access: Horvitz-Thompson weights, otherwise the graph's WEIGHT."""
    readers: dict[EdgeType, Callable[[], Tensor]] = {}
    for key, (rows, drawn) in edges.items():
        if drawn.weight is not None:
            readers[key] = partial(tensor_of, drawn.weight)
        elif rows.weight is not None:
            readers[key] = partial(_column, rows.weight, drawn.position)
    return Lazy(readers, _NO_WEIGHT)


def _by_edge(named: Mapping[str, Feature], name: str, e_id: Callable[[], Tensor]) -> Tensor:
    """Return an edge feature's rows by edge id."""
    return rows_of(named[name], e_id().numpy())


def _column(column: EdgeColumn, position: Ints) -> Tensor:
    """Return the values of an edge column at sampled positions."""
    return tensor_of(column.read(host(position)))


def _ids(column: EdgeColumn, position: Ints) -> Tensor:
    """Return edge ids at sampled positions, as int64."""
    return tensor_of(column.read(host(position)).astype(np.int64, copy=False))


def _keys(reader: KeyReader, nodes: Callable[[], Int64s]) -> pa.Array:
    """Return the user's keys of nodes."""
    return reader.read(nodes())


def _with_pairs(batch: Batch, entry: SamplerInput, entered: tuple[Ints, ...]) -> Batch:
    """Return the batch with the pairs of its seed edges: positives first, then each seed's negatives in slot order.

    `entered` contains the local ids of sources, destinations and, if the sampler draws them, negatives.
    """
    dtype = batch.n_id[batch.seed_type.source].dtype
    source, positive, *others = (tensor_of(ids).to(dtype) for ids in entered)
    ones = torch.ones(len(source), device=source.device)
    if entry.negatives is None:
        pairs = torch.stack([source, positive])
        return replace(batch, edge_label_index=pairs, edge_label=ones, src_index=source, dst_pos_index=positive)
    # A slot without a negative is -1 in `dst_neg_index` and has no pair, so a loss over pairs does not need a mask.
    where = entry.negatives
    seed, slot = (torch.from_numpy(places).to(source.device) for places in np.nonzero(where >= 0))
    drawn = others[0][torch.from_numpy(where[where >= 0]).to(source.device)]
    negative = torch.full(where.shape, -1, dtype=dtype, device=source.device)
    negative[seed, slot] = drawn
    pairs = torch.stack([torch.cat([source, source[seed]]), torch.cat([positive, drawn])])
    return replace(
        batch,
        edge_label_index=pairs,
        edge_label=torch.cat([ones, torch.zeros(len(seed), device=source.device)]),
        src_index=source,
        dst_pos_index=positive,
        dst_neg_index=negative[:, 0] if where.shape[1] == 1 else negative,
        negatives_missing=int((where < 0).sum()),
    )

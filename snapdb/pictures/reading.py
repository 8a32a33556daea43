"""Reads a batch as drawn nodes and edges: keys and features as text, hops, seed times, and which edges are late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, sparse_csr

from snapdb.arrays import Bools
from snapdb.execute.rendering.values import spell
from snapdb.loading.batch import Batch
from snapdb.loading.lazy import host
from snapdb.pictures.elements import DrawnEdge, DrawnNode, Features, SeedEdge
from snapdb.storage.array_files import STATIC
from snapdb.types import EdgeType, Relation, Temporal

_VALUES = 8
"""The maximum number of values of a feature that are shown."""
_FOREVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class BatchParts:
    """A batch, and what a drawing needs besides its tensors."""

    batch: Batch
    relations: Mapping[EdgeType, Relation]
    """Edge type of the batch → the relation that sampling traverses. Hops sample them in this order."""
    outward: Mapping[EdgeType, Bools]
    """Edge type of the batch → [edges] whether each edge is traversed from its source to its destination."""
    roots: Mapping[str, Sequence[tuple[int, int]]]
    """Vertex type → (local id, index of the seed within the batch) for each seed vertex or end of a seed edge."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The part of a batch that is drawn: a prefix of the nodes of each type, and the edges of the first hops."""

    nodes: Mapping[str, int]
    """Vertex type → the number of nodes."""
    hops: int
    """The number of hops of edges."""
    edges: int
    """The maximum number of edges."""


class DrawnBatch(NamedTuple):
    """The drawn nodes, edges and seed edges of a batch."""

    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]
    seed_edges: tuple[SeedEdge, ...]


def read_batch(parts: BatchParts, extent: Extent) -> DrawnBatch:
    """Return the nodes and edges of a batch. Edges are in the order of SAMPLE's rows.

    An edge is late if its time is not allowed by TEMPORAL for the seed of its tree. Without TEMPORAL, it is late if it
    is later than the time of a seed that its message can reach along the drawn edges.
    """
    first, nodes = {}, list[DrawnNode]()
    for type_, count in extent.nodes.items():
        first[type_] = len(nodes)
        nodes += _nodes(parts, type_, count, len(nodes))
    edges = _with_late(nodes, list(_edges(parts, extent, first)), parts.batch)
    return DrawnBatch(tuple(nodes), tuple(edges), tuple(_seed_edges(parts.batch, extent, first)))


def _nodes(parts: BatchParts, type_: str, count: int, start: int) -> Iterator[DrawnNode]:
    """Yield the first nodes of a type."""
    batch = parts.batch
    counts = batch.num_sampled_nodes[type_]
    hops = np.repeat(np.arange(len(counts)), counts)[:count].tolist()
    keys = spell(batch.ids(type_).slice(0, count))
    times = None if batch.seed_time is None else host(batch.seed_time).tolist()
    seeds = _seeds(parts.roots.get(type_, ()), times)
    trees = host(batch.batch[type_][:count]).tolist() if type_ in batch.batch else [None] * count
    features = feature_texts(batch.features.get(type_, {}), count)
    targets = [] if batch.y is None else value_texts(batch.y, len(batch.y))
    for local in range(count):
        seed = seeds.get(local) if trees[local] is None else trees[local]
        own = features[local]
        if targets and local in seeds and isinstance(batch.seed_type, str):
            own += (("y", targets[seeds[local]]),)
        yield DrawnNode(
            id=start + local,
            type=type_,
            key="NULL" if (key := keys[local]) is None else key,
            hop=hops[local],
            is_seed=hops[local] == 0,
            tree=trees[local],
            seed_time=None if times is None or seed is None else times[seed],
            features=own,
        )


def _seeds(roots: Sequence[tuple[int, int]], times: Sequence[int] | None) -> dict[int, int]:
    """Return the seed of each local id. A node that is several seeds has the earliest one."""
    order = roots if times is None else sorted(roots, key=lambda root: times[root[1]])
    return dict(reversed(order))


def _edges(parts: BatchParts, extent: Extent, first: Mapping[str, int]) -> Iterator[DrawnEdge]:
    """Yield the edges of the first hops between drawn nodes, without knowing yet which are late."""
    drawn = 0
    starts = dict.fromkeys(parts.relations, 0)
    for hop in range(extent.hops):
        for key, relation in parts.relations.items():
            counts = parts.batch.num_sampled_edges[key]
            start = starts[key]
            starts[key] = stop = start + (counts[hop] if hop < len(counts) else 0)
            for edge in _edges_between(parts, key, relation, slice(start, stop), extent, first):
                if drawn == extent.edges:
                    return
                yield DrawnEdge(id=drawn, hop=hop, **edge)
                drawn += 1


def _edges_between(
    parts: BatchParts, key: EdgeType, relation: Relation, part: slice, extent: Extent, first: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """Yield the fields of the edges of one hop and relation whose ends are drawn."""
    batch = parts.batch
    index = host(batch.edge_index[key])[:, part]
    kept = (index[0] < extent.nodes[key.source]) & (index[1] < extent.nodes[key.destination])
    places = (np.flatnonzero(kept) + part.start)[: extent.edges]
    if not places.size:
        return
    ids = host(batch.e_id[key])[places].tolist()
    times = host(batch.edge_time[key])[places].tolist() if key in batch.edge_time else [STATIC] * places.size
    weights = host(batch.edge_weight[key])[places].tolist() if key in batch.edge_weight else [None] * places.size
    named = {name: values[places.tolist()] for name, values in batch.edge_features[key].items()}
    features = feature_texts(named, places.size)
    outward = parts.outward[key][places].tolist()
    ends = index[:, places - part.start].T.tolist()
    for i, (source, target) in enumerate(ends):
        yield {
            "source": first[key.source] + source,
            "target": first[key.destination] + target,
            "type": relation.edge.edge,
            "direction": "out" if outward[i] else "in",
            "e_id": ids[i],
            "time": None if times[i] == STATIC else times[i],
            "late": False,
            "weight": weights[i],
            "features": features[i],
        }


def _with_late(nodes: Sequence[DrawnNode], edges: Sequence[DrawnEdge], batch: Batch) -> Sequence[DrawnEdge]:
    """Return the edges with `late` set."""
    if batch.seed_time is None:
        return edges
    limits = _limits(nodes, edges)
    return [_marked(edge, limits[edge.target], batch.temporal) for edge in edges]


def _marked(edge: DrawnEdge, limit: int, temporal: Temporal | None) -> DrawnEdge:
    time = edge.time
    allows_equal = temporal is None or temporal.inclusive
    if time is None or time < limit or (allows_equal and time == limit):
        return edge
    fields = {name: getattr(edge, name) for name in DrawnEdge.__slots__}
    return DrawnEdge(**{**fields, "late": True})


def _limits(nodes: Sequence[DrawnNode], edges: Sequence[DrawnEdge]) -> list[int]:
    """Return the earliest time of the seeds that each node's messages can reach, by relaxation of all edges.

    Under TEMPORAL, each node has the time of its own tree's seed already.
    """
    limits = [_FOREVER if node.seed_time is None else node.seed_time for node in nodes]
    changed = True
    while changed:
        changed = False
        for edge in edges:
            if nodes[edge.source].tree is None and limits[edge.target] < limits[edge.source]:
                limits[edge.source] = limits[edge.target]
                changed = True
    return limits


def _seed_edges(batch: Batch, extent: Extent, first: Mapping[str, int]) -> Iterator[SeedEdge]:
    """Yield the pairs of seed edges and negatives whose ends are drawn."""
    if batch.edge_label_index is None:
        return
    source, _, destination = batch.seed_type
    for place, (one, other) in enumerate(host(batch.edge_label_index).T.tolist()):
        if one < extent.nodes[source] and other < extent.nodes[destination]:
            yield SeedEdge(first[source] + one, first[destination] + other, negative=place >= batch.batch_size)


def feature_texts(features: Mapping[str, Tensor], count: int) -> list[Features]:
    """Return the features of the first rows as short text."""
    texts = {name: value_texts(values, count) for name, values in features.items()}
    return [tuple((name, rows[i]) for name, rows in texts.items()) for i in range(count)]


def value_texts(values: Tensor, count: int) -> list[str]:
    """Return the first rows of a tensor as short text.

    >>> import torch
    >>> value_texts(torch.arange(20.0).reshape(2, 10) / 3, 1)
    ['0, 0.3333, 0.6667, 1, 1.333, 1.667, 2, 2.333, … (10 values)']
    """
    if values.layout == sparse_csr:
        return [_sparse_text(values, row) for row in range(count)]
    rows = values[:count].reshape(count, prod(values.shape[1:]))
    more = f", … ({rows.shape[1]:,} values)" if rows.shape[1] > _VALUES else ""
    return [", ".join(map(_number, row)) + more for row in rows[:, :_VALUES].tolist()]


def _sparse_text(values: Tensor, row: int) -> str:
    """Return a row of a CSR tensor as its nonzero values by column."""
    start, stop = values.crow_indices()[row : row + 2].tolist()
    last = min(stop, start + _VALUES)
    columns, numbers = values.col_indices()[start:last].tolist(), values.values()[start:last].tolist()
    shown = ", ".join(f"{column}: {_number(number)}" for column, number in zip(columns, numbers, strict=True))
    more = ", …" if stop > last else ""
    return f"{shown}{more} ({stop - start:,} of {values.shape[1]:,} values)"


def _number(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

"""Assembly of a batch of random walks: edge columns and keys on first access, targets and node numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from snapdb.arrays import Array, Int64s
from snapdb.graph.view import GraphView, KeyReader
from snapdb.loading.batch import NO_SEED_COLUMN
from snapdb.loading.lazy import Held, Lazy, host, tensor_of
from snapdb.loading.walk_batch import WalkBatch
from snapdb.loading.walk_rows import keys_of, node_offsets, step_values
from snapdb.sampling import SamplerInput, Seeds
from snapdb.sampling.walker import Walker
from snapdb.sampling.walks import Walks, walk_of
from snapdb.storage.array_files import STATIC

_NO_TYPE = "walks contain the vertex types of their metapath"
_NO_TIME = "times are declared by EVENT TIME (column) of an edge table in CREATE PROPERTY GRAPH"


def assemble_walks(
    view: GraphView,
    walker: Walker,
    seeds: Seeds,
    entry: SamplerInput,
    walks: Walks,
    y: Tensor | None,
    *,
    index: tuple[int, int],
    lineage: Mapping[str, Any],
) -> WalkBatch:
    """Build a batch from a walker's input and its walks. `y` are the seeds' targets.

    Edge columns and the user's keys are read on first access. They refer to the view's arrays, which therefore outlive
    the stream.
    """
    spec, walk = walker.spec, walk_of(walker.spec)
    adjacencies = {traversal.relation: traversal.adjacency for traversal in walker.traversals}
    timed = any(adjacencies[step].time is not None for step in walk.steps[: walk.length])
    offsets = node_offsets(view, walk)
    # The arrays are copied from the GPU only once, and only if they are needed.
    nodes, position = cache(partial(host, walks.nodes)), cache(partial(host, walks.position))

    def edges(column: str, missing: int) -> Tensor:
        return tensor_of(step_values(walk, adjacencies, position(), lambda rows: getattr(rows, column), missing))

    readers = {"e_id": partial(edges, "edge_id", -1)}
    if timed:
        readers["edge_time"] = partial(edges, "time", STATIC)
    return WalkBatch(
        seed_type=spec.seed_type,
        batch_size=entry.ordinals.size,
        per_seed=walk.per_seed,
        input_id=tensor_of(np.array(entry.ordinals, np.int64)),
        walks=tensor_of(walks.nodes),
        vertex_types=walk.vertex_types,
        pairs=None if walks.pairs is None else tensor_of(walks.pairs),
        negatives=None if walks.negatives is None else tensor_of(walks.negatives),
        node_offsets=Held(offsets),
        num_nodes=sum(view.node_counts[name] for name in offsets),
        index=index,
        lineage=lineage,
        edges=Lazy(readers, _NO_TIME),
        user_ids=Lazy(
            {
                name: partial(_keys, view.keys[name], nodes, _columns(walk.vertex_types, name))
                for name in offsets
                if name in view.keys
            },
            _NO_TYPE,
        ),
        y=y,
        seed_time=None if entry.times is None else tensor_of(np.array(entry.times, np.int64)),
        seed_columns=Lazy.of(
            {name: tensor_of(values[entry.ordinals]) for name, values in seeds.columns.items()}, NO_SEED_COLUMN
        ),
        temporal=spec.temporal,
    )


def _columns(vertex_types: tuple[str, ...], name: str) -> Array:
    return np.array([i for i, other in enumerate(vertex_types) if other == name])


def _keys(reader: KeyReader, nodes: Callable[[], Int64s], columns: Array) -> pa.Array:
    """Return the user's keys of some columns of walks, walk by walk."""
    return keys_of(reader, nodes()[:, columns].ravel())

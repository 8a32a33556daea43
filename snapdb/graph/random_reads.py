"""The arrays that batches read at random places, and how those are read that memory cannot hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from snapdb.graph.features import ArrayFeature, HistoryFeature, PatchedFeature, SparseFeature
from snapdb.graph.view import Feature, GraphView
from snapdb.storage.memory_maps import available_memory, read_singly
from snapdb.types import Relation

Array = npt.NDArray[Any]


def for_random_reads(view: GraphView, relations: Iterable[Relation], taken: int) -> GraphView:
    """The view for batches over these relations: where memory cannot hold it, what they read is read page by page.

    The system then reads no page ahead, and rows of features are asked for many at once instead.

    Args:
        taken: Bytes of memory that something else is going to take.
    """
    arrays = []
    for relation in relations:
        rows = view.adjacency(relation).rows
        arrays += [rows.indptr, rows.indices, rows.patch.indices]
    for named in view.node_features.values():
        arrays += [array for feature in named.values() for array in _arrays(feature)]
    if not read_singly(arrays, available_memory() * 3 // 4 - taken):  # batches and models take memory too
        return view
    features = {
        kind: {name: _scarce(feature) for name, feature in named.items()} for kind, named in view.node_features.items()
    }
    return replace(view, node_features=features)


def _arrays(feature: Feature) -> Iterator[Array]:
    """Where a feature's values lie."""
    match feature:
        case ArrayFeature():
            yield feature.array
        case PatchedFeature():
            yield from (feature.base, feature.newer)
        case SparseFeature():
            yield from (feature.base.indices, feature.base.values, feature.newer.indices, feature.newer.values)
        case HistoryFeature():
            yield from (feature.arrays.rows, feature.arrays.time)


def _scarce(feature: Feature) -> Feature:
    """The feature, which asks for pages ahead where its rows lie in one array."""
    return replace(feature, scarce=True) if isinstance(feature, ArrayFeature) else feature

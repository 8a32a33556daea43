"""One snapshot as arrays: adjacency per edge type and direction, features per type, keys per vertex type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.types import EdgeType, Relation

__all__ = ["Adjacency", "EdgeReader", "Feature", "GraphView", "KeyReader"]

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The rows of one relation: node v's edges are positions starts[v] up to ends[v], by (event time, edge id).

    Read-only arrays, often memory-mapped; `starts` and `ends` have one entry for each node expanded from.
    """

    starts: Int64s
    ends: Int64s
    indices: npt.NDArray[Any]
    """int32 or int64 dense ids of the neighbours, by position."""
    edge_id: Int64s
    """By position."""
    time: Int64s | None
    """Event time by position; None when the edge type has none."""
    weight: npt.NDArray[np.float64] | None
    outward: npt.NDArray[np.bool_] | None = None
    """By position, for BOTH only: this entry walks from source to destination (a row holds IN edges, then OUT)."""

    @property
    def edges(self) -> int:
        """Edges that the rows hold."""
        return int((self.ends - self.starts).sum())


class Feature(Protocol):
    """Rows of numbers by dense id (vertex) or edge id (edge). A cache is a Feature that wraps a Feature."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows,) or (rows, width)."""

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def read(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A fresh array: row i is the feature of ids[i]."""


class KeyReader(Protocol):
    """The user's ids of one vertex type."""

    def read(self, ids: Int64s) -> pa.Array:
        """The keys of dense ids as Arrow: one array of the key's type, or a struct for a composite key."""


class EdgeReader(Protocol):
    """Opens one relation's rows."""

    def __call__(self, relation: Relation) -> Adjacency: ...


@dataclass(frozen=True, slots=True)
class GraphView:
    """A snapshot opened for reading. Types are always mappings, even when there is one."""

    node_counts: Mapping[str, int]
    """Dense ids of a vertex type are 0 ≤ id < count. Some may not be in the snapshot: see `alive`."""
    alive: Mapping[str, npt.NDArray[np.bool_] | None]
    """Per vertex type, which dense ids are in the snapshot; None when all are."""
    edge_types: tuple[EdgeType, ...]
    adjacency: EdgeReader
    """Opens a relation; OUT and BOTH are made on first need, and kept."""
    node_features: Mapping[str, Mapping[str, Feature]]
    """Vertex type → name → rows by dense id; the model's input is `x`."""
    edge_features: Mapping[str, Mapping[str, Feature]]
    """Edge type's name → name → rows by edge id; the model's input is `edge_attr`."""
    targets: Mapping[str, Feature]
    """Vertex type → target by dense id: int64 (strings as codes, NULL as -1) or float32."""
    keys: Mapping[str, KeyReader]
    lineage: Mapping[str, Any] = field(default_factory=dict)
    """snapshot, graph, version, window, database: plain values for JSON."""

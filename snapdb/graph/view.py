"""The GraphView of a snapshot: adjacency per edge type and direction, features per type, keys per vertex type."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from snapdb.arrays import Array, Bools, Float64s, Int64s
from snapdb.kernels.adjacency.forms import RowArrays
from snapdb.kernels.adjacency.rows import degrees_of, logical_parts, read_parts
from snapdb.kernels.adjacency.spans import is_plain
from snapdb.storage.arrays.topology import AdjacencyRows, LazyRows, rows_of
from snapdb.types import EdgeType, Relation

Source: TypeAlias = Array | Callable[[], Array]
"""An array, or a function that opens one."""


@dataclass(frozen=True, eq=False)
class EdgeColumn:
    """Values of edges by physical position: those of a base, then those of its delta, if any. Opened at first use."""

    base_source: Source
    """The values of the base."""
    delta_source: Source | None = None
    """The values of the delta, or None."""

    @cached_property
    # Opened at first use: a sampler without time bounds never maps the file of event times.
    def base(self) -> Array:
        """The values of the base; raises CorruptError when the file is missing or damaged."""
        return self.base_source() if callable(self.base_source) else self.base_source

    @cached_property
    def delta(self) -> Array | None:
        """The values of the delta, or None."""
        return self.delta_source() if callable(self.delta_source) else self.delta_source

    def __iter__(self) -> Iterator[Array | None]:
        """The values of the base, then those of the delta."""
        return iter((self.base, self.delta))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.base.dtype if self.delta is None else np.result_type(self.base, self.delta)

    def read(self, positions: Int64s) -> Array:
        """A new array of the values at these positions."""
        return read_parts(self.base, self.delta, positions).astype(self.dtype, copy=False)


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The rows of one relation, each sorted by (event time, edge id), in any encoding.

    Columns are read by physical position, which sampling returns; they also have edges outside of the snapshot.
    """

    rows: RowArrays
    """The rows, as kernels read them."""
    edge_id: EdgeColumn
    """Edge ids, int32 or int64."""
    time: EdgeColumn | None = None
    """Event times; None when the edge type has none."""
    weight: EdgeColumn | None = None
    """Weights; None when the edge type has none."""
    until: EdgeColumn | None = None
    """The times at which edges end; None when the edge type has none."""
    outward: Bools | None = None
    """[positions] for direction BOTH, whether the edge is traversed from source to destination (rows hold IN edges,
    then OUT edges); else None."""

    @property
    def nodes(self) -> int:
        """The number of nodes with a row."""
        return self.rows.nodes

    @property
    def edges(self) -> int:
        """The number of edges in all rows."""
        return int(self.degrees().sum())

    def degrees(self) -> Int64s:
        """[nodes] the number of edges of each node; raises CorruptError when a row leads out of its arrays."""
        return degrees_of(self.rows)

    def flat(self) -> AdjacencyRows:
        """The logical rows as contiguous arrays; views where they are contiguous already.

        Raises:
            CorruptError: a row leads out of its arrays.
        """
        indptr, plain = self._bounds()
        return rows_of(indptr, _flat(self.rows, indptr, plain, self._columns()))

    def flatten(self) -> LazyRows:
        """The same rows, with columns that are computed when they are read.

        Raises:
            CorruptError: a row leads out of its arrays.
        """
        indptr, plain = self._bounds()
        flat = {name: partial(_flat_column, self.rows, indptr, plain, c) for name, c in self._columns().items()}
        return LazyRows(indptr, flat.pop("indices")(), flat)

    def _columns(self) -> dict[str, EdgeColumn]:
        """The columns that exist by name, with the neighbours as `indices`."""
        named = {"edge_id": self.edge_id, "time": self.time, "weight": self.weight, "until": self.until}
        indices = EdgeColumn(self.rows.indices, self.rows.delta.indices)
        return {name: column for name, column in named.items() if column is not None} | {"indices": indices}

    def _bounds(self) -> tuple[Int64s, bool]:
        """[nodes + 1] where each logical row starts, and whether rows are contiguous already."""
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.degrees())])
        # Equal offsets: rows of a base alone may still have gaps between them.
        return indptr, bool(is_plain(self.rows) and np.array_equal(indptr, self.rows.indptr))


def _flat(rows: RowArrays, indptr: Int64s, plain: bool, columns: Mapping[str, EdgeColumn]) -> dict[str, Array]:
    """The values of columns in the order of the logical rows; views where they are so already."""
    if plain:
        return {name: column.base[: indptr[-1]] for name, column in columns.items()}
    values = {name: np.empty(int(indptr[-1]), column.dtype) for name, column in columns.items()}
    # In parts, as a list of all positions would take as much memory again as the edges.
    for part in logical_parts(rows):
        for name, column in columns.items():
            values[name][part.indptr[0] : part.indptr[-1]] = column.read(part.positions)
    return values


def _flat_column(rows: RowArrays, indptr: Int64s, plain: bool, column: EdgeColumn) -> Array:
    """The values of one column in the order of the logical rows."""
    return _flat(rows, indptr, plain, {"": column})[""]


class Feature(Protocol):
    """Rows of numbers by dense id (vertex) or edge id (edge)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows,) or (rows, width)."""

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def read(self, ids: Array) -> Array:
        """A new array whose row i is the feature of ids[i]."""


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
    """Vertex type → the number of dense ids, 0 ≤ id < count. Some may not be in the snapshot: see `alive`."""
    alive: Mapping[str, Bools | None]
    """Vertex type → [dense ids] whether each is in the snapshot; None when all are."""
    edge_types: tuple[EdgeType, ...]
    """The edge types, in the graph's order."""
    adjacency: EdgeReader
    """Opens a relation; OUT and BOTH rows are built on first use and cached."""
    node_features: Mapping[str, Mapping[str, Feature]]
    """Vertex type → name → rows by dense id; the model's input is `x`."""
    edge_features: Mapping[str, Mapping[str, Feature]]
    """Edge type's name → name → rows by edge id; the model's input is `edge_attr`."""
    targets: Mapping[str, Feature]
    """Vertex type → target by dense id: int64 (strings as codes, NULL as -1) or float32."""
    keys: Mapping[str, KeyReader]
    """Vertex type → the user's ids."""
    weights: Mapping[str, Float64s] = field(default_factory=dict)
    """Edge type's name → [edge ids] weights, where a sampler's WEIGHT BY names another column than the graph's
    WEIGHT."""
    born: Mapping[str, Int64s] = field(default_factory=dict)
    """Vertex type → [dense ids] since when each exists (-2^63: always), where a sampler needs it."""
    destination_weights: Float64s | None = None
    """[dense ids] weights of the seed edges' destinations, where negatives are weighted; else None."""
    lineage: Mapping[str, object] = field(default_factory=dict)
    """The identity of the snapshot as plain values for JSON: snapshot, graph, version, window, database."""

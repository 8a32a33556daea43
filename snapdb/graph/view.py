"""A snapshot's GraphView: adjacency per edge type and direction, features per type, and keys per vertex type."""

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
    """Edge values by physical position: a base, followed by its delta, if any. Each part is opened on first use."""

    base_source: Source
    """The values of the base."""
    delta_source: Source | None = None
    """The values of the delta, or None."""

    @cached_property
    # Both parts are opened on first use, so a sampler without time bounds never maps the event-time file.
    def base(self) -> Array:
        """The values of the base. Raises CorruptError if the file is missing or damaged."""
        return self.base_source() if callable(self.base_source) else self.base_source

    @cached_property
    def delta(self) -> Array | None:
        """The values of the delta, or None."""
        return self.delta_source() if callable(self.delta_source) else self.delta_source

    def __iter__(self) -> Iterator[Array | None]:
        """Yield the values of the base, followed by those of the delta."""
        return iter((self.base, self.delta))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.base.dtype if self.delta is None else np.result_type(self.base, self.delta)

    def read(self, positions: Int64s) -> Array:
        """Return a new array of the values at the given positions."""
        return read_parts(self.base, self.delta, positions).astype(self.dtype, copy=False)


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The rows of a relation in any encoding. Each row is sorted by (event time, edge id).

    Columns are read at the physical positions that sampling returns. They also contain edges outside the snapshot.
    """

    rows: RowArrays
    """The rows in the form that kernels read."""
    edge_id: EdgeColumn
    """Edge ids, int32 or int64."""
    time: EdgeColumn | None = None
    """Event times, or None if the edge type has none."""
    weight: EdgeColumn | None = None
    """Weights, or None if the edge type has none."""
    until: EdgeColumn | None = None
    """The times at which edges end, or None if the edge type has none."""
    outward: Bools | None = None
    """[positions] For direction BOTH, whether the edge is traversed from source to destination. Each row has IN edges,
    followed by OUT edges. None for other directions."""

    @property
    def nodes(self) -> int:
        """The number of nodes with a row."""
        return self.rows.nodes

    @property
    def edges(self) -> int:
        """The number of edges in all rows."""
        return int(self.degrees().sum())

    def degrees(self) -> Int64s:
        """Return [nodes], the number of edges per node. Raises CorruptError if a row exceeds its arrays."""
        return degrees_of(self.rows)

    def flat(self) -> AdjacencyRows:
        """Return the logical rows as contiguous arrays. If the rows are already contiguous, the arrays are views.

        Raises:
            CorruptError: A row exceeds its arrays.
        """
        indptr, plain = self._bounds()
        return rows_of(indptr, _flat(self.rows, indptr, plain, self._columns()))

    def flatten(self) -> LazyRows:
        """Return the same rows, with columns that are computed when they are read.

        Raises:
            CorruptError: A row exceeds its arrays.
        """
        indptr, plain = self._bounds()
        flat = {name: partial(_flat_column, self.rows, indptr, plain, c) for name, c in self._columns().items()}
        return LazyRows(indptr, flat.pop("indices")(), flat)

    def _columns(self) -> dict[str, EdgeColumn]:
        """Return the existing columns by name, with the neighbours as `indices`."""
        named = {"edge_id": self.edge_id, "time": self.time, "weight": self.weight, "until": self.until}
        indices = EdgeColumn(self.rows.indices, self.rows.delta.indices)
        return {name: column for name, column in named.items() if column is not None} | {"indices": indices}

    def _bounds(self) -> tuple[Int64s, bool]:
        """Return the [nodes + 1] starts of the logical rows, and whether the rows are already contiguous."""
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.degrees())])
        # The offsets are also compared, because a base can have gaps between its rows even without a delta.
        return indptr, bool(is_plain(self.rows) and np.array_equal(indptr, self.rows.indptr))


def _flat(rows: RowArrays, indptr: Int64s, plain: bool, columns: Mapping[str, EdgeColumn]) -> dict[str, Array]:
    """Return column values in the order of the logical rows, as views if they are already in that order."""
    if plain:
        return {name: column.base[: indptr[-1]] for name, column in columns.items()}
    values = {name: np.empty(int(indptr[-1]), column.dtype) for name, column in columns.items()}
    # Copy in parts, because a list of all positions would need as much memory as the edges.
    for part in logical_parts(rows):
        for name, column in columns.items():
            values[name][part.indptr[0] : part.indptr[-1]] = column.read(part.positions)
    return values


def _flat_column(rows: RowArrays, indptr: Int64s, plain: bool, column: EdgeColumn) -> Array:
    """Return one column's values in the order of the logical rows."""
    return _flat(rows, indptr, plain, {"": column})[""]


class Feature(Protocol):
    """Rows of numbers, by dense id for vertices and by edge id for edges."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, which is (rows,) or (rows, width)."""

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def read(self, ids: Array) -> Array:
        """Return a new array whose row i is the feature of ids[i]."""


class KeyReader(Protocol):
    """Reads the user's keys of a vertex type."""

    def read(self, ids: Int64s) -> pa.Array:
        """Return the keys of dense ids as an Arrow array of the key's type, or of structs for a composite key."""


class EdgeReader(Protocol):
    """Opens the rows of a relation."""

    def __call__(self, relation: Relation) -> Adjacency: ...


@dataclass(frozen=True, slots=True)
class GraphView:
    """A snapshot that is open for reading. All mappings are keyed by type, even if there is only one."""

    node_counts: Mapping[str, int]
    """Vertex type → the number of dense ids. Every id is in 0 ≤ id < count. Some ids may not be in the snapshot (see
    `alive`)."""
    alive: Mapping[str, Bools | None]
    """Vertex type → a [dense ids] mask of the ids that are in the snapshot, or None if all of them are."""
    edge_types: tuple[EdgeType, ...]
    """The edge types in graph order."""
    adjacency: EdgeReader
    """Opens a relation. OUT and BOTH rows are built on first use and cached."""
    node_features: Mapping[str, Mapping[str, Feature]]
    """Vertex type → name → rows by dense id. `x` is the input of the model."""
    edge_features: Mapping[str, Mapping[str, Feature]]
    """Name of the edge type → name → rows by edge id. `edge_attr` is the input of the model."""
    targets: Mapping[str, Feature]
    """Vertex type → target by dense id, which is int64 (strings as codes, NULL as -1) or float32."""
    keys: Mapping[str, KeyReader]
    """Vertex type → the reader of the user's keys."""
    weights: Mapping[str, Float64s] = field(default_factory=dict)
    """Name of the edge type → [edge ids] weights, for the types for which a sampler's WEIGHT BY names a column other
    than the graph's WEIGHT column."""
    born: Mapping[str, Int64s] = field(default_factory=dict)
    """Vertex type → [dense ids] times from which the vertices exist (-2^63 means always), for the types that a sampler
    needs."""
    destination_weights: Float64s | None = None
    """[dense ids] The weights of the seed edges' destinations for weighted negatives, or None."""
    lineage: Mapping[str, object] = field(default_factory=dict)
    """The identity of the snapshot as plain JSON values: snapshot, graph, version, window, database."""

"""One snapshot as arrays: adjacency per edge type and direction, features per type, keys per vertex type."""

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
"""An array, or what opens one."""


@dataclass(frozen=True, eq=False)
class EdgeColumn:
    """Values of edges by physical position: those of a base, then those of its delta, if any. Opened at first use."""

    base_source: Source
    delta_source: Source | None = None

    @cached_property
    def base(self) -> Array:
        """Raises CorruptError when the file is missing or damaged, as do all that read values."""
        return self.base_source() if callable(self.base_source) else self.base_source

    @cached_property
    def delta(self) -> Array | None:
        return self.delta_source() if callable(self.delta_source) else self.delta_source

    def __iter__(self) -> Iterator[Array | None]:
        """The values of the base, then those of the delta."""
        return iter((self.base, self.delta))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.base.dtype if self.delta is None else np.result_type(self.base, self.delta)

    def read(self, positions: Int64s) -> Array:
        """A fresh array: the values at these positions."""
        return read_parts(self.base, self.delta, positions).astype(self.dtype, copy=False)


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The rows of one relation, each by (event time, edge id), whatever form they lie in.

    Columns are read by physical position, which is what sampling gives; they hold other edges too.
    """

    rows: RowArrays
    edge_id: EdgeColumn
    """int32 or int64."""
    time: EdgeColumn | None = None
    """Event time; None when the edge type has none."""
    weight: EdgeColumn | None = None
    until: EdgeColumn | None = None
    """When an edge ends; None when the edge type has no ends."""
    outward: Bools | None = None
    """By position, for BOTH only: this entry walks from source to destination (a row holds IN edges, then OUT)."""

    @property
    def nodes(self) -> int:
        """How many nodes have a row."""
        return self.rows.nodes

    @property
    def edges(self) -> int:
        """Edges that the rows hold."""
        return int(self.degrees().sum())

    def degrees(self) -> Int64s:
        """[nodes] How many edges each node has. Raises CorruptError when a row leads out of its arrays."""
        return degrees_of(self.rows)

    def flat(self) -> AdjacencyRows:
        """The logical rows as plain arrays, one after another; views where they lie so already.

        Raises:
            CorruptError: a row leads out of its arrays.
        """
        indptr, plain = self._bounds()
        return rows_of(indptr, _flat(self.rows, indptr, plain, self._columns()))

    def flatten(self) -> LazyRows:
        """The same rows, whose columns are computed when they are read.

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
        """Where each logical row starts and the last one ends, and whether rows are one after another already."""
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.degrees())])
        return indptr, bool(is_plain(self.rows) and np.array_equal(indptr, self.rows.indptr))


def _flat(rows: RowArrays, indptr: Int64s, plain: bool, columns: Mapping[str, EdgeColumn]) -> dict[str, Array]:
    """The values of columns in the order of the logical rows; views where they are so already."""
    if plain:
        return {name: column.base[: indptr[-1]] for name, column in columns.items()}
    values = {name: np.empty(int(indptr[-1]), column.dtype) for name, column in columns.items()}
    for part in logical_parts(rows):
        for name, column in columns.items():
            values[name][part.indptr[0] : part.indptr[-1]] = column.read(part.positions)
    return values


def _flat_column(rows: RowArrays, indptr: Int64s, plain: bool, column: EdgeColumn) -> Array:
    return _flat(rows, indptr, plain, {"": column})[""]


class Feature(Protocol):
    """Rows of numbers by dense id (vertex) or edge id (edge). A cache is a Feature that wraps a Feature."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows,) or (rows, width)."""

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def read(self, ids: Array) -> Array:
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
    alive: Mapping[str, Bools | None]
    """Per vertex type, which dense ids are in the snapshot; None when all are."""
    edge_types: tuple[EdgeType, ...]
    adjacency: EdgeReader
    """Opens a relation; OUT and BOTH are built on first use and kept."""
    node_features: Mapping[str, Mapping[str, Feature]]
    """Vertex type → name → rows by dense id; the model's input is `x`."""
    edge_features: Mapping[str, Mapping[str, Feature]]
    """Edge type's name → name → rows by edge id; the model's input is `edge_attr`."""
    targets: Mapping[str, Feature]
    """Vertex type → target by dense id: int64 (strings as codes, NULL as -1) or float32."""
    keys: Mapping[str, KeyReader]
    weights: Mapping[str, Float64s] = field(default_factory=dict)
    """Edge type's name → weights by edge id, where a sampler's WEIGHT BY names another column than the graph's own."""
    born: Mapping[str, Int64s] = field(default_factory=dict)
    """Vertex type → since when each dense id is there (-2^63: always), where a sampler must know it."""
    destination_weights: Float64s | None = None
    """By dense id of the seed edges' destinations, where negatives are weighted."""
    lineage: Mapping[str, object] = field(default_factory=dict)
    """snapshot, graph, version, window, database: plain values for JSON."""

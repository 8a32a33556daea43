"""A graph as tables, between the form in which a library or a file has it and a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from snapdb.errors import InputError
from snapdb.sql_engine import quote_odd as quote

KEY, SOURCE, DESTINATION = "id", "source", "destination"
"""The names of columns that a source does not name."""
FEATURES, TARGET, EDGE_FEATURES, WEIGHT, TIME = "x", "y", "edge_attr", "edge_weight", "edge_time"
"""The names that batches have for features, targets and the columns of edges."""
_FLOAT = pa.float32()
_MATRIX = 2


@dataclass(frozen=True, slots=True)
class VertexTable:
    """The vertices of one type."""

    name: str
    rows: Any
    """Arrow data with the key and other columns."""
    key: str = KEY
    features: Mapping[str, str] = field(default_factory=dict)
    """The name of a feature in batches → its column."""
    target: str | None = None
    """The column of the target."""

    @property
    def element(self) -> str:
        """The element of CREATE PROPERTY GRAPH."""
        target = "" if self.target is None else f" TARGET ({quote(self.target)})"
        return f"{quote(self.name)} KEY ({quote(self.key)}){_features(self.features)}{target}"


@dataclass(frozen=True, slots=True)
class EdgeTable:
    """The edges of one type."""

    name: str
    rows: Any
    """Arrow data with the keys of both ends and other columns."""
    ends: tuple[str, str]
    """The vertex types of the source and the destination."""
    source: str = SOURCE
    destination: str = DESTINATION
    features: Mapping[str, str] = field(default_factory=dict)
    """The name of a feature in batches → its column."""
    time: str | None = None
    """The column of the event time."""
    weight: str | None = None
    """The column of the weight."""

    @property
    def element(self) -> str:
        """The element of CREATE PROPERTY GRAPH."""
        near, far = map(quote, self.ends)
        time = "" if self.time is None else f" EVENT TIME ({quote(self.time)})"
        weight = "" if self.weight is None else f" WEIGHT ({quote(self.weight)})"
        return (
            f"{quote(self.name)} SOURCE KEY ({quote(self.source)}) REFERENCES {near} "
            f"DESTINATION KEY ({quote(self.destination)}) REFERENCES {far}{time}{weight}{_features(self.features)}"
        )


@dataclass(frozen=True, slots=True)
class GraphTables:
    """The tables of a graph."""

    vertices: Sequence[VertexTable]
    edges: Sequence[EdgeTable]
    notes: Sequence[str] = ()
    """What was changed or left out, for the user."""

    @property
    def all_tables(self) -> list[VertexTable | EdgeTable]:
        """The tables of vertices, then those of edges."""
        return [*self.vertices, *self.edges]

    def graph(self, name: str) -> str:
        """Return the CREATE PROPERTY GRAPH statement."""
        vertices = ",\n    ".join(each.element for each in self.vertices)
        edges = ",\n    ".join(each.element for each in self.edges)
        listed = f"\n  EDGE TABLES (\n    {edges})" if edges else ""
        return f"CREATE PROPERTY GRAPH {quote(name)}\n  VERTEX TABLES (\n    {vertices}){listed}"


def _features(named: Mapping[str, str]) -> str:
    if not named:
        return ""
    listed = (quote(c) if alias == c else f"{quote(c)} AS {quote(alias)}" for alias, c in named.items())
    return f" FEATURES ({', '.join(listed)})"


def column_of(name: str, values: Any, notes: list[str]) -> pa.Array:
    """Return a column of numbers: a matrix becomes vectors of 32-bit floats, and other values keep their type.

    Args:
        name: The name of the column, for notes.
        values: A tensor or array with one or two dimensions.
        notes: Changes of values are added here.

    Raises:
        InputError: The array has another number of dimensions, or values that no table has.
    """
    if hasattr(values, "is_sparse") and (values.is_sparse or str(values.layout) == "torch.sparse_csr"):
        values = values.to_dense()
    array = values.detach().cpu() if hasattr(values, "detach") else values
    if str(getattr(array, "dtype", "")) == "torch.bfloat16":
        array = array.float()
    array = np.asarray(array)
    if array.ndim == 1 and array.dtype.kind in "biufM":
        return pa.array(array.astype(np.float32) if array.dtype == np.float16 else array)
    if array.ndim == 1 and array.dtype.kind in "UO":
        return pa.array(array.tolist())
    if array.ndim != _MATRIX or array.dtype.kind not in "biuf":
        raise InputError(
            f"{name} has shape {list(array.shape)} and type {array.dtype}, but a column needs one value or one vector "
            "per row; reshape it, or leave it out",
            code="not-a-table",
        )
    if array.dtype != np.float32:
        notes.append(f"{name} of type {array.dtype} is stored as 32-bit floats")
    flat = pa.array(np.ascontiguousarray(array, np.float32).ravel(), _FLOAT)
    return pa.FixedSizeListArray.from_arrays(flat, array.shape[1])


def is_matrix(column: Any) -> bool:
    """Return whether a column has vectors."""
    return bool(pa.types.is_fixed_size_list(column.type))


def numbered(count: int) -> pa.Array:
    """Return the keys 0, 1, … of vertices that their positions identify."""
    return pa.array(np.arange(count, dtype=np.int64))


def free_name(wanted: str, taken: set[str]) -> str:
    """Return a name that no other table has, and add it.

    >>> taken = {"edge"}
    >>> free_name("Edge", taken), free_name("edge", taken), sorted(taken)
    ('Edge_2', 'edge_3', ['edge', 'edge_2', 'edge_3'])
    """
    name, number = wanted, 1
    while name.lower() in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name.lower())
    return name

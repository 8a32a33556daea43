"""Graph algorithms that a query calls: the algorithm, the part of a snapshot that it reads, and its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from snapdb.errors import Span
from snapdb.plan.computed import ComputedSource
from snapdb.plan.queries import BoundQuery
from snapdb.types import Column, Snapshot
from snapdb.types.algorithms import Algorithm


@dataclass(frozen=True, slots=True)
class NodeType:
    """A vertex type of the graph."""

    name: str
    key: tuple[Column, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NodeQuery:
    """A SELECT of vertices: their keys or, if there are several types, the type and the fields of the keys."""

    query: BoundQuery
    fields: tuple[Column, ...]
    """The columns of a vertex in the query, with the types of the keys."""
    vertices: int
    """The number of vertices per row: 1, or 2 for pairs."""
    weighted: bool
    """Whether a column of weights follows."""
    columns: tuple[Column, ...]
    """All columns of the query."""


@dataclass(frozen=True, slots=True, eq=False)
class AlgorithmSource(ComputedSource):
    """A call of an algorithm, whose rows a query reads as a table."""

    algorithm: Algorithm
    snapshot: Snapshot
    vertices: tuple[NodeType, ...]
    """The vertex types at the ends of the edges, in the order in which nodes are numbered."""
    edges: tuple[str, ...]
    """The names of the edge types, in graph order."""
    weight: str | None
    """The column of the edge tables with the weights, or None."""
    options: Mapping[str, Any]
    """The value of each option, without those that are queries and without `edges` and `weight`."""
    queries: Mapping[str, NodeQuery]
    """The options that are queries: `seeds` or `pairs`."""
    columns: tuple[Column, ...]
    """The columns of the rows: #type if there are several vertex types, the key of each type, and the value."""
    span: Span
    """The span of the call."""
    spans: Mapping[str, Span] = field(default_factory=dict)
    """The span of each option's value."""

    def __str__(self) -> str:
        """Return what is computed, for messages, such as `pagerank over cites of snapshot june`."""
        return f"{self.algorithm.name} over {', '.join(self.edges)} of snapshot {self.snapshot.name}"

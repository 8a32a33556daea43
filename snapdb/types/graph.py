"""Property graphs: which columns of which tables are vertices, edges, times, features and targets."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, NamedTuple

__all__ = [
    "Direction",
    "EdgeElement",
    "EdgeType",
    "FeatureSpec",
    "PropertyGraph",
    "VertexElement",
    "type_hash",
    "type_text",
]

Direction = Literal["IN", "OUT", "BOTH"]


class EdgeType(NamedTuple):
    """An edge type by its names, as PyG writes it: (source vertex type, edge type, destination vertex type)."""

    source: str
    edge: str
    destination: str


def type_hash(edge: EdgeType, direction: Direction) -> int:
    """The 64-bit name of an edge type and direction in every draw key (the sampling contract's ET).

    >>> hex(type_hash(EdgeType("customer", "bought", "product"), "IN"))
    '0x860da7d90bdd38f6'
    """
    return int.from_bytes(sha256(type_text(edge, direction)).digest()[:8], "little")


def type_text(edge: EdgeType, direction: Direction) -> bytes:
    """The text that `type_hash` hashes; its byte order is the order of edge types within a hop."""
    return "\0".join((edge.source.lower(), edge.edge.lower(), edge.destination.lower(), direction)).encode()


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """A feature built from columns, concatenated in order."""

    name: str
    columns: tuple[str, ...]
    default: float | None = None
    """What stands for NULL, NaN and missing rows; None makes them an error."""


def _featured(specs: tuple[FeatureSpec, ...]) -> list[str]:
    return [column for spec in specs for column in spec.columns]


@dataclass(frozen=True, slots=True)
class VertexElement:
    """A vertex type of a graph."""

    name: str
    table: str
    key: tuple[str, ...]
    features: tuple[FeatureSpec, ...] = ()
    target: str | None = None
    """The column that a batch delivers as `y` for its seeds."""
    on_duplicate: Literal["ERROR", "FIRST", "LAST"] = "ERROR"

    @property
    def columns(self) -> list[str]:
        """Every column of the table that the element names."""
        target = [] if self.target is None else [self.target]
        return [*self.key, *target, *_featured(self.features)]


@dataclass(frozen=True, slots=True)
class EdgeElement:
    """An edge type of a graph; edges go source → destination."""

    name: str
    table: str
    source_key: tuple[str, ...]
    source: str
    """Vertex type."""
    destination_key: tuple[str, ...]
    destination: str
    """Vertex type."""
    event_time: str | None = None
    weight: str | None = None
    features: tuple[FeatureSpec, ...] = ()
    on_dangling: Literal["ERROR", "SKIP"] = "ERROR"

    @property
    def type(self) -> EdgeType:
        return EdgeType(self.source, self.name, self.destination)

    @property
    def columns(self) -> list[str]:
        """Every column of the table that the element names."""
        more = [name for name in (self.event_time, self.weight) if name is not None]
        return [*self.source_key, *self.destination_key, *more, *_featured(self.features)]


@dataclass(frozen=True, slots=True)
class PropertyGraph:
    """A graph over tables. One definition serves every version whose tables fit it."""

    name: str
    vertices: tuple[VertexElement, ...]
    edges: tuple[EdgeElement, ...]

    @property
    def elements(self) -> tuple[VertexElement | EdgeElement, ...]:
        """Vertex types, then edge types."""
        return (*self.vertices, *self.edges)

    def vertex(self, name: str) -> VertexElement | None:
        """The vertex type of that name, whatever its case."""
        return next((v for v in self.vertices if v.name.lower() == name.lower()), None)

    def edge(self, name: str) -> EdgeElement | None:
        """The edge type of that name, whatever its case."""
        return next((e for e in self.edges if e.name.lower() == name.lower()), None)

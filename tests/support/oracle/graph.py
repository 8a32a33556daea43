"""The content of a snapshot as lists, and the edges of a node that are visible to a tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tests.support.oracle.numbers import Direction, EdgeKey

ALWAYS = -(2**63)
"""The time of static vertices and edges, which always exist."""
OPEN = 2**63 - 1
"""The end time of edges that have not ended."""


@dataclass(frozen=True)
class Edge:
    """An edge with the dense ids of its ends. `time` is None for types without event time."""

    source: int
    destination: int
    edge_id: int
    time: int | None = None
    weight: float = 1.0
    until: int | None = None
    """The end time. OPEN means that the edge has not ended. None means that edges of this type do not end."""

    @property
    def since(self) -> int:
        """The time, or ALWAYS if there is none."""
        return ALWAYS if self.time is None else self.time


class Entry(NamedTuple):
    """A position of a logical row."""

    neighbor: int
    """The dense id of the neighbour."""
    edge: Edge
    outward: bool
    """Whether the edge is traversed from source to destination."""


@dataclass(frozen=True)
class Graph:
    """The content of a snapshot: the number of dense ids of each vertex type, and each type's edges in any order."""

    vertex_counts: dict[str, int]
    edges: dict[EdgeKey, list[Edge]]
    born: Mapping[str, list[int]] = field(default_factory=dict)
    """Vertex type → the birth time of each dense id. Vertices of types without a key always exist."""
    alive: Mapping[str, list[bool]] = field(default_factory=dict)
    """Vertex type → whether each dense id is in the snapshot. Types without a key contain all dense ids."""

    @cached_property
    def rows(self) -> dict[tuple[EdgeKey, Direction], dict[int, list[Entry]]]:
        """The logical rows built so far, filled by `logical_row`."""
        return {}


def logical_row(graph: Graph, edge: EdgeKey, direction: Direction, node: int) -> list[Entry]:
    """Return a node's edges by (event time, edge id). BOTH is one row, IN before OUT ("Rows")."""
    if (edge, direction) not in graph.rows:
        rows: dict[int, list[Entry]] = {}
        stored = sorted(graph.edges[edge], key=lambda e: (e.since, e.edge_id))
        if direction in ("IN", "BOTH"):
            for e in stored:
                rows.setdefault(e.destination, []).append(Entry(e.source, e, False))
        if direction in ("OUT", "BOTH"):
            for e in stored:
                rows.setdefault(e.source, []).append(Entry(e.destination, e, True))
        graph.rows[edge, direction] = rows
    return graph.rows[edge, direction].get(node, [])


class Bounds(NamedTuple):
    """The time bounds of a seed's tree."""

    low: int
    """The inclusive lower bound of edge times."""
    high: int
    """The exclusive upper bound of edge times and birth times."""
    after: int
    """Edges with an end time must end after this time. They can begin before `low`."""
    time: int
    """The seed's time."""


def bounds_of(time: int, inclusive: bool, within: int | None) -> Bounds:
    """Return the bounds of a seed's tree, clamped to 64 bits ("Time": Points, TEMPORAL).

    >>> bounds_of(10, inclusive=False, within=3)
    Bounds(low=7, high=10, after=7, time=10)
    >>> bounds_of(10, inclusive=True, within=None)
    Bounds(low=-9223372036854775808, high=11, after=10, time=10)
    """
    high = min(time + 1, OPEN) if inclusive else time
    low = ALWAYS if within is None else max(time - within, ALWAYS)
    present = time if inclusive else max(time - 1, ALWAYS)
    return Bounds(low, high, present if within is None else low, time)


def may_see(edge: Edge, bounds: Bounds) -> bool:
    """Return whether an edge is within a tree's time bounds. Static edges always are."""
    if edge.since == ALWAYS:
        return True
    if edge.until is not None:
        return edge.since < bounds.high and edge.until > bounds.after
    return bounds.low <= edge.since < bounds.high

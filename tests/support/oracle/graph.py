"""What a snapshot holds, as lists, and which edges of a node a tree may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tests.support.oracle.numbers import Direction, EdgeKey

ALWAYS = -(2**63)
"""The time of what has none: it is there at all times."""
OPEN = 2**63 - 1
"""The end of what has not ended."""


@dataclass(frozen=True)
class Edge:
    """One edge by the dense ids of its ends; `time` is None in types without event time."""

    source: int
    destination: int
    edge_id: int
    time: int | None = None
    weight: float = 1.0
    until: int | None = None
    """When it ends; OPEN when it has not; None in types whose edges do not end."""

    @property
    def since(self) -> int:
        """Its time, ALWAYS where it has none."""
        return ALWAYS if self.time is None else self.time


class Entry(NamedTuple):
    """One position of a logical row."""

    neighbor: int
    """Dense id of the far end."""
    edge: Edge
    outward: bool
    """Walked from source to destination."""


@dataclass(frozen=True)
class Graph:
    """What a snapshot holds: how many dense ids each vertex type has, and the edges of each type in any order."""

    vertex_counts: dict[str, int]
    edges: dict[EdgeKey, list[Edge]]
    born: Mapping[str, list[int]] = field(default_factory=dict)
    """Vertex type → since when each dense id is there; types that are not named are always there."""
    alive: Mapping[str, list[bool]] = field(default_factory=dict)
    """Vertex type → which dense ids are in the snapshot; of types that are not named, all are."""

    @cached_property
    def rows(self) -> dict[tuple[EdgeKey, Direction], dict[int, list[Entry]]]:
        """The logical rows that were asked for, filled by `logical_row`."""
        return {}


def logical_row(graph: Graph, edge: EdgeKey, direction: Direction, node: int) -> list[Entry]:
    """A node's edges by (event time, edge id); BOTH is one row, IN then OUT ("Rows")."""
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
    """What a seed's time lets its tree see."""

    low: int
    """An edge is not older than this …"""
    high: int
    """… and before this; so are births."""
    after: int
    """An edge that ends does so after this; it may be older than `low`."""
    time: int
    """The seed's."""


def bounds_of(time: int, inclusive: bool, within: int | None) -> Bounds:
    """The bounds of a seed's tree, within 64 bits ("Time": Points, TEMPORAL).

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
    """Whether an edge is in the time of a tree; what has no time always is."""
    if edge.since == ALWAYS:
        return True
    if edge.until is not None:
        return edge.since < bounds.high and edge.until > bounds.after
    return bounds.low <= edge.since < bounds.high

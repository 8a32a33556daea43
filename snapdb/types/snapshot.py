"""Snapshots: a graph pinned at a version and a window of event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapdb.types.graph import PropertyGraph

__all__ = ["ALL_TIME", "Filter", "Snapshot", "TimeUnit", "Window"]

TimeUnit = Literal["timestamp", "integer"]


@dataclass(frozen=True, slots=True)
class Window:
    """The event times a snapshot holds: start ≤ t < stop; None is unbounded."""

    start: int | None = None
    """Microseconds since 1970 UTC for timestamps and dates, else the user's integer."""
    stop: int | None = None
    closed: bool = False
    """The last moment was said as included (AS OF, BETWEEN): it is stop - 1."""


ALL_TIME = Window()


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on the rows of one element."""

    element: str
    condition: str
    """DuckDB SQL over the element's columns, which it may qualify by the element's name."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A pinned graph: what `CREATE SNAPSHOT` recorded. It never changes."""

    id: int
    name: str
    graph: PropertyGraph
    """The definition at creation, reduced to the elements of this snapshot."""
    version: int
    window: Window
    unit: TimeUnit | None
    """What the window counts in; None when no element has event time."""
    filters: tuple[Filter, ...]
    form: str
    """'full': the whole topology; 'ends': one end offset a node; 'materialized': its own adjacency."""
    nodes: int
    edges: int
    bytes: int
    """On disk, for this snapshot alone; a shared topology counts for none of its snapshots."""
    created: int
    """Microseconds since 1970, UTC."""
    path: str
    """Its directory, relative to the database directory."""

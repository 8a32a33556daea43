"""Snapshots: a graph pinned at a version and an event-time window, with its publications and retention."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from snapdb.attribute_docs import document_attributes
from snapdb.types.graph import PropertyGraph
from snapdb.types.task import Period

TimeUnit = Literal["timestamp", "integer"]

Form = Literal["full", "ends", "bitmap", "materialized"]
"""The on-disk encoding of an edge type in a snapshot: nothing (full), an end offset per node (ends), a bit per edge
(bitmap), or the rows themselves (materialized). All encodings yield the same samples."""

FORMS: tuple[Form, ...] = ("full", "ends", "bitmap", "materialized")
"""The encodings, from the smallest to the largest on disk."""


@document_attributes
@dataclass(frozen=True, slots=True)
class Window:
    """The range of a snapshot's event times: start ≤ t < stop.

    Times are microseconds since 1970 UTC, or the column's integers.
    """

    start: int | None = None
    """The first event time, or None if unbounded."""
    stop: int | None = None
    """The exclusive end, or None if unbounded."""
    closed: bool = False
    """Whether the statement includes the last time (AS OF, BETWEEN, WINDOW). The last time is then stop - 1."""

    @property
    def until_after(self) -> int | None:
        """The time after which an edge must end to be in the window. AS OF t, like [t, b), requires end > t."""
        # A window without a start is AS OF its last time, and its stop is exclusive.
        if self.start is None and self.stop is not None:
            return self.stop - 1
        return self.start


ALL_TIME = Window()


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on the rows of one element."""

    element: str
    condition: str
    """DuckDB SQL over the element's columns, which can be qualified with the element's name."""


@dataclass(frozen=True, slots=True)
class Pin:
    """The parts of a snapshot that REFRESH resolves again. The other parts never change."""

    head: bool = False
    """Whether the snapshot follows the newest version."""
    tag: str | None = None
    """The tag that the snapshot follows, or None."""
    window: str | None = None
    """The length of a window that ends at the latest event, as SQL (an INTERVAL or an integer). None for a fixed
    window."""

    @property
    def moves(self) -> bool:
        """Whether REFRESH resolves any part again."""
        return self.head or self.tag is not None or self.window is not None


PINNED = Pin()
"""A pin without relative parts, for which REFRESH resolves nothing."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An immutable record of a pinned graph, published by CREATE SNAPSHOT or REFRESH SNAPSHOT."""

    id: int
    name: str
    graph: PropertyGraph
    """The graph definition at creation time, reduced to the elements of this snapshot."""
    version: int
    window: Window
    unit: TimeUnit | None
    """The unit of the window's bounds, or None if no element has event times."""
    filters: tuple[Filter, ...]
    form: str
    """The largest encoding (`Form`) among its edge types."""
    nodes: int
    edges: int
    bytes: int
    """The number of bytes on disk that only this snapshot uses, excluding shared topologies."""
    created: int
    """Microseconds since 1970 UTC."""
    path: str
    """The snapshot's directory, relative to the database directory."""
    pin: Pin = PINNED
    layout: str | None = None
    """The encoding requested by WITH (layout = …), or None for the cheapest."""
    refreshed: int | None = None
    """The time of the last refresh in microseconds since 1970 UTC, or None if it was never refreshed."""

    @property
    def built_at(self) -> int:
        """The time of creation or of the last refresh, in microseconds since 1970 UTC."""
        return self.created if self.refreshed is None else self.refreshed


@document_attributes
@dataclass(frozen=True, slots=True)
class Published:
    """A publication of a snapshot by CREATE SNAPSHOT, or by a REFRESH SNAPSHOT that changed it."""

    name: str
    """The name of the snapshot."""
    graph: str
    """The name of the snapshot's property graph."""
    version: int
    """The database version that the snapshot reads."""
    window: Window
    """The range of event times."""
    time: datetime
    """The time at which it was created or refreshed, in UTC."""
    id: int
    """An id that increases each time a snapshot is created or refreshed in the database."""
    content: str
    """A digest of the pinned data. Equal digests mean that nothing changed."""

    def newer_than(self, other: Published | int | datetime | None) -> bool:
        """Return whether this publication is newer than another publication, a version, or a time.

        If two publications of the same snapshot have equal content, neither is newer. Every publication is newer than
        None.
        """
        match other:
            case None:
                return True
            case Published():
                same = (self.name.lower(), self.content) == (other.name.lower(), other.content)
                # A new id does not mean new data, because CREATE OR REPLACE can publish the same content again.
                return self.id > other.id and not same
            case int():
                return self.version > other
            case _:
                return self.time > other


Keeps = Literal["all", "daily", "weekly", "monthly", "yearly"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A retention rule: keep all snapshots up to a maximum age, or the last one of each day, week, month or year."""

    keeps: Keeps
    length: Period
    text: str
    """The length as the user wrote it, such as '7 days'."""

    def __str__(self) -> str:
        """Return the rule as an item of SET RETENTION."""
        quoted = self.text.replace("'", "''")
        return f"{self.keeps} '{quoted}'"


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention of a graph's snapshots. A snapshot is kept if any of the rules keeps it."""

    rules: tuple[Rule, ...]
    keep_tagged: bool
    """Whether snapshots of tagged versions are kept."""

    def __str__(self) -> str:
        """Return the retention as the items of SET RETENTION.

        >>> str(Retention((Rule("all", Period(0, 3, 0), "3 days"),), keep_tagged=True))
        "all '3 days', keep_tagged"
        """
        return ", ".join([*map(str, self.rules), *(["keep_tagged"] if self.keep_tagged else [])])

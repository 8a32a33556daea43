"""Snapshots: a graph pinned at a version and a window of event time; their publications and their retention."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from snapdb.attribute_docs import document_attributes
from snapdb.types.graph import PropertyGraph
from snapdb.types.task import Period

TimeUnit = Literal["timestamp", "integer"]

Form = Literal["full", "ends", "bitmap", "materialized"]
"""The encoding of an edge type of a snapshot on disk: nothing (full); an end offset per node; a bit per edge;
materialized rows. All deliver the same samples."""

FORMS: tuple[Form, ...] = ("full", "ends", "bitmap", "materialized")
"""From the smallest to the largest on disk."""


@document_attributes
@dataclass(frozen=True, slots=True)
class Window:
    """The event times of a snapshot: start ≤ t < stop, in microseconds since 1970 UTC or in integers of the column."""

    start: int | None = None
    """The first event time. None: unbounded."""
    stop: int | None = None
    """The end, which is not included. None: unbounded."""
    closed: bool = False
    """Whether the statement included the last moment (AS OF, BETWEEN, WINDOW), which is stop - 1."""

    @property
    def until_after(self) -> int | None:
        """The time after which an edge must end to be in the window: AS OF t, like [t, b), requires end > t."""
        if self.start is None and self.stop is not None:
            return self.stop - 1
        return self.start


ALL_TIME = Window()


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on the rows of one element."""

    element: str
    condition: str
    """DuckDB SQL over the element's columns, which may be qualified with the element's name."""


@dataclass(frozen=True, slots=True)
class Pin:
    """The parts of a snapshot that REFRESH resolves again; other parts never change."""

    head: bool = False
    """Whether the version is the newest one."""
    tag: str | None = None
    """The tag whose version is used; None: no tag."""
    window: str | None = None
    """The length of a window that ends at the latest event, an INTERVAL or a whole number as SQL; None: the window is
    fixed."""

    @property
    def moves(self) -> bool:
        """Whether anything is resolved again."""
        return self.head or self.tag is not None or self.window is not None


PINNED = Pin()
"""Nothing is resolved again."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A pinned graph: what `CREATE SNAPSHOT` or `REFRESH SNAPSHOT` recorded. It never changes."""

    id: int
    name: str
    graph: PropertyGraph
    """The definition at creation, reduced to the elements of this snapshot."""
    version: int
    window: Window
    unit: TimeUnit | None
    """The unit of the window; None when no element has event times."""
    filters: tuple[Filter, ...]
    form: str
    """The encoding of its edge types (`Form`), the largest of theirs."""
    nodes: int
    edges: int
    bytes: int
    """The bytes on disk of this snapshot only, without shared topologies."""
    created: int
    """Microseconds since 1970 UTC."""
    path: str
    """Its directory, relative to the database directory."""
    pin: Pin = PINNED
    layout: str | None = None
    """The encoding that WITH (layout = …) requested; None: the cheapest."""
    refreshed: int | None = None
    """The time of the last refresh: microseconds since 1970 UTC; None: it was never refreshed."""

    @property
    def built_at(self) -> int:
        """The time of creation or of the last refresh: microseconds since 1970 UTC."""
        return self.created if self.refreshed is None else self.refreshed


@document_attributes
@dataclass(frozen=True, slots=True)
class Published:
    """A publication of a snapshot: the result of CREATE SNAPSHOT, or of a REFRESH SNAPSHOT that changed it."""

    name: str
    """The name of the snapshot."""
    graph: str
    """The name of its property graph."""
    version: int
    """The version of the database that it reads."""
    window: Window
    """Its range of event times."""
    time: datetime
    """The time at which it was created or refreshed, in UTC."""
    id: int
    """A number that grows with each snapshot created or refreshed in the database."""
    content: str
    """A digest of the pinned data: equal if nothing changed."""

    def newer_than(self, other: Published | int | datetime | None) -> bool:
        """Return whether this publication is newer than another one, a version or a moment.

        Publications of one snapshot with equal content are never newer than each other. Every publication is newer
        than None.
        """
        match other:
            case None:
                return True
            case Published():
                same = (self.name.lower(), self.content) == (other.name.lower(), other.content)
                return self.id > other.id and not same
            case int():
                return self.version > other
            case _:
                return self.time > other


Keeps = Literal["all", "daily", "weekly", "monthly", "yearly"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that keeps all snapshots younger than a length, or the last one of each day, week, month or year."""

    keeps: Keeps
    length: Period
    text: str
    """The length as it was written, such as 7 days."""

    def __str__(self) -> str:
        """The item of SET RETENTION."""
        quoted = self.text.replace("'", "''")
        return f"{self.keeps} '{quoted}'"


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention of a graph's snapshots: a snapshot is kept if any rule keeps it."""

    rules: tuple[Rule, ...]
    keep_tagged: bool
    """Whether snapshots of tagged versions are kept."""

    def __str__(self) -> str:
        """The items of SET RETENTION.

        >>> str(Retention((Rule("all", Period(0, 3, 0), "3 days"),), keep_tagged=True))
        "all '3 days', keep_tagged"
        """
        return ", ".join([*map(str, self.rules), *(["keep_tagged"] if self.keep_tagged else [])])

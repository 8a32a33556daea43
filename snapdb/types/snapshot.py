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
"""How an edge type of a snapshot lies on the disk: nothing of its own; one degree a node; one bit an edge; rows of its
own. Each delivers the same samples."""

FORMS: tuple[Form, ...] = ("full", "ends", "bitmap", "materialized")
"""From the cheapest to the dearest on the disk."""


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
        """Edges with an end are in the window when it is after this moment: AS OF t, like [t, b), asks for end > t."""
        if self.start is None and self.stop is not None:
            return self.stop - 1
        return self.start


ALL_TIME = Window()


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on the rows of one element."""

    element: str
    condition: str
    """DuckDB SQL over the element's columns, which it may qualify by the element's name."""


@dataclass(frozen=True, slots=True)
class Pin:
    """What of a snapshot REFRESH resolves again; all else stays as it was."""

    head: bool = False
    """The version: the newest one."""
    tag: str | None = None
    """The version: that of this tag."""
    window: str | None = None
    """The length of a window that ends at the latest event: an INTERVAL, or a whole number, as SQL."""

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
    """What the window counts in; None when no element has event time."""
    filters: tuple[Filter, ...]
    form: str
    """How its edge types lie on the disk (`Form`), the dearest of theirs."""
    nodes: int
    edges: int
    bytes: int
    """On disk, for this snapshot alone; a shared topology counts for none of its snapshots."""
    created: int
    """Microseconds since 1970, UTC."""
    path: str
    """Its directory, relative to the database directory."""
    pin: Pin = PINNED
    layout: str | None = None
    """The form that WITH (layout = …) requested."""
    refreshed: int | None = None
    """When it was last refreshed: microseconds since 1970, UTC."""

    @property
    def built_at(self) -> int:
        """When it was created or last refreshed: microseconds since 1970, UTC."""
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
    """Keeps all snapshots younger than a length, or of those the last one of each day, week, month or year."""

    keeps: Keeps
    length: Period
    text: str
    """The length as it was written, such as 7 days."""

    def __str__(self) -> str:
        """As SET RETENTION says it."""
        quoted = self.text.replace("'", "''")
        return f"{self.keeps} '{quoted}'"


@dataclass(frozen=True, slots=True)
class Retention:
    """What keeps snapshots of a graph: one stays when any rule keeps it."""

    rules: tuple[Rule, ...]
    keep_tagged: bool
    """Snapshots of tagged versions stay."""

    def __str__(self) -> str:
        """As SET RETENTION says it.

        >>> str(Retention((Rule("all", Period(0, 3, 0), "3 days"),), keep_tagged=True))
        "all '3 days', keep_tagged"
        """
        return ", ".join([*map(str, self.rules), *(["keep_tagged"] if self.keep_tagged else [])])

"""One publication of a snapshot: what a reader has, and by which it knows that there is something newer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from snapdb.types.snapshot import Window


@dataclass(frozen=True, slots=True)
class Published:
    """A snapshot as CREATE SNAPSHOT, or a REFRESH that moved something, left it."""

    name: str
    graph: str
    version: int
    window: Window
    time: datetime
    """When it was created or refreshed, in UTC."""
    id: int
    """Grows with every snapshot that is created or refreshed in its database."""
    content: str
    """A digest of what is pinned: the same where nothing moved."""

    def newer_than(self, other: Published | int | datetime | None) -> bool:
        """Whether it was published later than another one, is of a later version, or came after a moment.

        Of the same snapshot with the same content none is newer: nothing moved. Every one is newer than None.
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

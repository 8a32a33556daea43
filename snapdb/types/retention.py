"""How long which snapshots of a graph stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapdb.types.task import Period

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

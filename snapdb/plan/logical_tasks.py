"""Plans of the statements about tasks."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.types import Task


@dataclass(frozen=True, slots=True)
class CreateTaskPlan:
    """Statements get a schedule; names in them are bound when they run."""

    task: Task
    """Without an id."""
    replaces: Task | None
    """Its id goes over to the new one, and its runs with it."""


@dataclass(frozen=True, slots=True)
class AlterTaskPlan:
    """A task is suspended, goes on, or has other options."""

    before: Task
    after: Task
    since: int | None
    """Firings up to this moment, in microseconds since 1970 UTC, are settled: none is made up for. None: nothing of
    them changes."""
    did: str
    """What is done, for a person."""


@dataclass(frozen=True, slots=True)
class ExecuteTaskPlan:
    """A task runs now, in this process."""

    task: Task

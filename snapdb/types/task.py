"""A task: statements that run by the clock; and the record of one of its runs."""

from dataclasses import dataclass
from typing import Literal

Overlap = Literal["skip", "queue"]
CatchUp = Literal["none", "last", "all"]
Cause = Literal["schedule", "manual"]
RunState = Literal["running", "ok", "failed", "timeout", "missed"]


@dataclass(frozen=True, slots=True)
class Period:
    """A length of time as the calendar has it: months differ, days are those of UTC."""

    months: int
    days: int
    microseconds: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a task runs: by a cron line in a time zone, or in equal steps from an anchor."""

    text: str
    """As a statement writes it: USING CRON 0 3 * * * UTC, or EVERY INTERVAL '2 seconds'."""
    cron: str | None
    """The five fields of a cron line; None: in steps."""
    zone: str
    """By its IANA name; UTC where the steps are equal."""
    every: Period | None
    """The step; None: by a cron line."""
    anchor: int
    """From which steps are counted, in microseconds since 1970 UTC; it is itself no firing."""


@dataclass(frozen=True, slots=True)
class Task:
    """Statements, when they run, and what becomes of runs that fail, meet or come late."""

    id: int
    """Never given to another task; runs are counted under it."""
    name: str
    schedule: Schedule
    condition: str | None
    """What WHEN says, without its parentheses; None: every firing runs."""
    body: str
    """The statements, without dollars around them; {date} and the like stand in it still."""
    folder: str
    """The absolute path that relative paths of the body count from: where the task was created."""
    timeout: int | None
    """Microseconds; None: however long it takes."""
    retries: int
    overlap: Overlap
    catch_up: CatchUp
    suspended: bool
    created: int
    """Microseconds since 1970 UTC."""
    author: str


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One attempt to run a task, or a firing that came to nothing. Moments are microseconds since 1970 UTC."""

    task: int
    name: str
    """The task's, then."""
    run: int
    """From 1 for each task; the attempts of one firing share it."""
    attempt: int
    """From 1 for each run."""
    cause: Cause
    state: RunState
    holder: str | None
    """The token of who runs it; None of a firing that was missed."""
    scheduled: int
    started: int | None
    ended: int | None
    version: int
    """The head when its first attempt began."""
    step: int
    """So many statements of the body are done, in all attempts together: the next attempt goes on after them."""
    published: tuple[int, ...]
    """The versions that it published."""
    retry: int | None
    """When it is to be tried again; None: it is not."""
    rows: int
    """Added and removed."""
    bytes: int
    """Of the files that it published."""
    error: str | None
    log: str
    """A line for each statement that was run, and what else a person wants to know."""
    replaced: bool = False
    """Its task was replaced while it ran: its body is not the task's body now."""


@dataclass(frozen=True, slots=True)
class RunExport:
    """A folder that a statement of a run was about to put outside of the database."""

    statement: int
    """Its number in the body, from 1."""
    path: str
    """Absolute."""
    sha256: str
    """Of the folder's manifest, in hexadecimal."""

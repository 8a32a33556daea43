"""Scheduled tasks, and the record of one of their runs."""

from dataclasses import dataclass
from typing import Literal

Overlap = Literal["skip", "queue"]
CatchUp = Literal["none", "last", "all"]
Cause = Literal["schedule", "manual"]
RunState = Literal["running", "ok", "failed", "timeout", "missed"]


@dataclass(frozen=True, slots=True)
class Period:
    """A length of time in calendar units: months have different lengths, and days are those of UTC."""

    months: int
    days: int
    microseconds: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule of a task: a cron line in a time zone, or equal intervals from an anchor."""

    text: str
    """The clause of the statement: USING CRON 0 3 * * * UTC, or EVERY INTERVAL '2 seconds'."""
    cron: str | None
    """The five fields of a cron line; None: equal intervals."""
    zone: str
    """The IANA name of the time zone; UTC for equal intervals."""
    every: Period | None
    """The interval; None: a cron line."""
    anchor: int
    """The time from which intervals are counted, in microseconds since 1970 UTC; no run is scheduled at it."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task: statements, their schedule, and the policies for failed, overlapping and missed runs."""

    id: int
    """The id, never reused; runs refer to it."""
    name: str
    schedule: Schedule
    condition: str | None
    """The condition of WHEN, without its parentheses; None: every scheduled run starts."""
    body: str
    """The statements, without dollar quotes; placeholders such as {date} are not filled."""
    folder: str
    """The absolute path that relative paths of the body refer to: the working directory at creation."""
    timeout: int | None
    """The maximum duration of a run in microseconds; None: unlimited."""
    retries: int
    overlap: Overlap
    catch_up: CatchUp
    suspended: bool
    created: int
    """Microseconds since 1970 UTC."""
    author: str


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One attempt to run a task, or a missed run. Times are microseconds since 1970 UTC."""

    task: int
    name: str
    """The name of the task at that time."""
    run: int
    """The number of the run, from 1 per task; attempts of one scheduled run share it."""
    attempt: int
    """The number of the attempt, from 1 per run."""
    cause: Cause
    state: RunState
    holder: str | None
    """The token of the process that runs it; None for a missed run."""
    scheduled: int
    started: int | None
    ended: int | None
    version: int
    """The head when its first attempt started."""
    step: int
    """The number of statements of the body that are done, over all attempts: the next attempt continues after them."""
    published: tuple[int, ...]
    """The versions that it committed."""
    retry: int | None
    """The time of the next attempt; None: it is not retried."""
    rows: int
    """The number of rows added and removed."""
    bytes: int
    """The bytes of the files that it published."""
    error: str | None
    log: str
    """A line per executed statement, and further messages."""
    replaced: bool = False
    """Whether its task was replaced while it ran: its body is not the task's current body."""


@dataclass(frozen=True, slots=True)
class RunExport:
    """A directory outside of the database that a statement of a run is about to publish."""

    statement: int
    """The number of the statement in the body, from 1."""
    path: str
    """The absolute path of the directory."""
    sha256: str
    """The hash of the directory's manifest, in hexadecimal."""

"""Scheduled tasks and records of their runs."""

from dataclasses import dataclass
from typing import Literal

Overlap = Literal["skip", "queue"]
CatchUp = Literal["none", "last", "all"]
Cause = Literal["schedule", "manual"]
RunState = Literal["running", "ok", "failed", "timeout", "missed"]


@dataclass(frozen=True, slots=True)
class Period:
    """A duration in calendar units. Months differ in length, and days are UTC days."""

    months: int
    days: int
    microseconds: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """A task's schedule: a cron line in a time zone, or a fixed interval that is counted from an anchor."""

    text: str
    """The clause in the statement, such as USING CRON 0 3 * * * UTC or EVERY INTERVAL '2 seconds'."""
    cron: str | None
    """The five fields of a cron line, or None for a fixed interval."""
    zone: str
    """The IANA name of the time zone, which is UTC for a fixed interval."""
    every: Period | None
    """The interval, or None for a cron line."""
    anchor: int
    """The time from which intervals are counted, in microseconds since 1970 UTC. No run is scheduled at the anchor."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task: its statements, its schedule, and its policies for failed, overlapping and missed runs."""

    id: int
    """The id, which is never reused. Runs refer to it."""
    name: str
    schedule: Schedule
    condition: str | None
    """The WHEN condition without its parentheses, or None if every scheduled run starts."""
    body: str
    """The statements without dollar quotes. Placeholders such as {date} are not replaced."""
    folder: str
    """The absolute path of the directory for relative paths in the body. It is the working directory at creation."""
    timeout: int | None
    """The maximum duration of a run in microseconds, or None if unlimited."""
    retries: int
    overlap: Overlap
    catch_up: CatchUp
    suspended: bool
    created: int
    """Microseconds since 1970 UTC."""
    author: str
    notify: str | None = None
    """The name of the address to which failed and missed runs are reported, or None. The address itself is in the
    scheduler's environment."""


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One attempt to run a task, or a missed run. All times are in microseconds since 1970 UTC."""

    task: int
    name: str
    """The name of the task at the time of the run."""
    run: int
    """The run number, starting at 1 for each task. All attempts of a scheduled run share it."""
    attempt: int
    """The attempt number, starting at 1 for each run."""
    cause: Cause
    state: RunState
    holder: str | None
    """The token of the process that executes the run, or None for a missed run."""
    scheduled: int
    started: int | None
    ended: int | None
    version: int
    """The head version when the first attempt started."""
    step: int
    """The number of statements completed over all attempts. The next attempt continues after these statements."""
    published: tuple[int, ...]
    """The versions that the run committed."""
    retry: int | None
    """The time of the next attempt, or None if there is no retry."""
    rows: int
    """The total number of rows that the run added and removed."""
    bytes: int
    """The total size in bytes of the files that the run published."""
    error: str | None
    log: str
    """The log, with one line per executed statement and additional messages."""
    replaced: bool = False
    """Whether the task was replaced during the run. If so, the run's body is not the current one."""


@dataclass(frozen=True, slots=True)
class RunExport:
    """A directory outside the database that a statement of a run is about to publish."""

    statement: int
    """The number of the statement in the body, starting at 1."""
    path: str
    """The absolute path of the directory."""
    sha256: str
    """The hash of the directory's manifest, in hexadecimal."""

"""A run of a task: its progress, requests to end it, and its end as its row records it."""

import contextlib
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Literal, Self

from snapdb.errors import CommitConflict, QueryError, SnapdbError
from snapdb.sql.task_bodies import statements_of
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.task_rows import RunLock, RunRows, TaskRows
from snapdb.types import Task, TaskRun

_UNITS = (
    (86_400_000_000, "day"),
    (3_600_000_000, "hour"),
    (60_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)
_Reason = Literal["terminated", "interrupted", "timeout"]

_PULSE = 0.05
"""Seconds between two checks, and between two interrupts: one that comes before a statement begins has no effect."""


@dataclass(slots=True)
class RunProgress:
    """Counts what was done, and knows what an end at this moment would take back."""

    total: int = 0
    """Statements of the body; 0: it was not read yet."""
    statement: int = 0
    """Which one is under way, or was the last; 0: none yet."""
    under_way: bool = False
    begun: int = 0
    """Which one opened the transaction that is open; 0: none is."""
    kept: int = 0
    """So many of them are done for good, as the run's row says."""
    rows: int = 0
    bytes: int = 0
    pending: int = 0
    """Rows of the transaction that is open."""
    lines: list[str] = field(default_factory=list)
    """The log."""
    notes: list[str] = field(default_factory=list)
    """What an attempt that comes after has to know."""

    def done(self, rows: int, *, in_transaction: bool) -> None:
        """A statement has ended well."""
        self.under_way = False
        self.pending += rows
        if in_transaction:
            self.begun = self.begun or self.statement
            return
        self.rows, self.pending, self.begun = self.rows + self.pending, 0, 0

    def stopped(self, why: _Reason, task: Task) -> str:
        """What is said of a run that was stopped."""
        ends: dict[_Reason, str] = {
            "timeout": f"stopped after {_duration(task.timeout or 0)}, its timeout",
            "terminated": "stopped: the scheduler is shutting down",
            "interrupted": "interrupted",
        }
        return f"{ends[why]}; {self._left()}"

    def failed(self, error: BaseException) -> str:
        """What is said of a run that an error ended, in one line; the log gets all of it."""
        place = f"statement {self.statement} of {self.total}: " if self.under_way and self.total > 1 else ""
        if isinstance(error, SnapdbError):
            self.lines.append(error.report())
            at = "" if error.line is None else f" (line {error.line}, column {error.column})"
            return f"{place}{_first_line(error.report())}{at}"
        self.lines += [line.rstrip() for line in traceback.format_exception(error)]
        if isinstance(error, MemoryError):
            return f"{place}out of memory"
        if isinstance(error, OSError):
            named = f": {error.filename}" if error.filename else ""
            return f"{place}system error: {error.strerror or error}{named}"
        return f"{place}internal error: {type(error).__name__}: {_first_line(str(error))}; the traceback is in its log"

    def _left(self) -> str:
        number, total = self.statement, self.total
        if not number:
            return "no statement was started"
        if number <= self.kept:
            return f"statement {number} of {total} was complete, and none was in progress"
        if self.begun and self.begun < number:
            return f"statements {self.begun} to {number} of {total}, a transaction, were rolled back"
        if self.under_way or self.begun:
            return "its statement was rolled back" if total == 1 else f"statement {number} of {total} was rolled back"
        return f"statement {number} of {total} was not started"


def _duration(length: int) -> str:
    """Microseconds as a person says them.

    >>> _duration(1_800_000_000), _duration(86_400_000_000), _duration(1_500_000)
    ('30 minutes', '1 day', '1,500 milliseconds')
    """
    size, name = next((size, name) for size, name in _UNITS if length % size == 0)
    return f"{length // size:,} {name}{'' if length == size else 's'}"


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


class Stop:
    """A request to end a run. It may come from any thread at any time, and it is never taken back."""

    def __init__(self, requested: threading.Event | None = None, why: _Reason = "interrupted") -> None:
        """`asked` is an event that makes the request too, for the reason given."""
        self.requested = threading.Event() if requested is None else requested
        self.why: _Reason = why

    def request(self, why: _Reason) -> None:
        """End the run soon: the statement that is under way is rolled back."""
        self.why = why
        self.requested.set()


class Watch:
    """Interrupts what runs in the block when a stop is requested or the time is over, until it has ended.

    with Watch(stop, 60.0) as watch:
        watch.interrupt = db.interrupt
        watch.check()
        db.run(statement)
    """

    def __init__(self, stop: Stop, seconds: float | None) -> None:
        """The time begins now; None: there is no end of it."""
        self._stop = stop
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="snapdb-stopping", daemon=True)
        self.interrupt: Callable[[], None] | None = None
        """Called a few times a second from then on, from another thread; None: there is nothing to interrupt."""
        self.why: _Reason | None = None
        """Why the run is to end; None: it is not."""

    def check(self) -> None:
        """Nothing while nobody wants the run to end; otherwise QueryError with code 'interrupted'."""
        self._look()
        if self.why is not None:
            raise QueryError("interrupted", code="interrupted")

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        self._watcher.join()

    def _look(self) -> None:
        if self.why is not None:
            return
        if self._stop.requested.is_set():
            self.why = self._stop.why
        elif self._deadline is not None and time.monotonic() >= self._deadline:
            self.why = "timeout"

    def _watch(self) -> None:
        while not self._over.wait(_PULSE):
            self._look()
            if self.why is not None and (interrupt := self.interrupt) is not None:
                with contextlib.suppress(Exception):  # the statement may just have ended
                    interrupt()


EndState = Literal["ok", "failed", "timeout", "skipped", "lost"]

_SECOND = 1_000_000
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of an attempt to run a task."""

    run: TaskRun
    state: EndState
    """'skipped': its condition did not hold, and it leaves no row. 'lost': it was given up, and somebody else has said
    in its row how it ended."""
    ended: int
    """Microseconds since 1970 UTC."""
    rows: int = 0
    bytes: int = 0
    error: str | None = None
    log: str = ""
    retry: int | None = None
    """When it is to be tried again; None: it is not."""
    interrupted: bool = False
    """Ctrl-C ended it."""
    recorded: bool = False
    """Whether its row says so; `record` makes it so later where the disk was full."""


def _retry_delay(attempt: int) -> int:
    """How long to wait after an attempt that failed, in microseconds.

    >>> [_retry_delay(attempt) // 1_000_000 for attempt in (1, 2, 3, 6, 7, 500)]
    [1, 2, 4, 32, 60, 60]
    """
    return _SECOND * min(1 << min(attempt - 1, 10), _LONGEST)


def record(catalog_db: CatalogDb, task: Task | None, ended: Ended) -> Ended:
    """Write an end into the run's row, with the moment of the next attempt where one is left.

    Args:
        task: As it was performed; None: it was dropped.

    Raises:
        DatabaseError: the disk refuses; nothing was changed.
        LockedError: another process writes, and for long.
    """
    try:
        # Catalogs hold no runs: those that are loaded stay good.
        with catalog_db.writing(counted=False) as connection:
            if ended.state == "skipped":
                RunRows(connection).forget(ended.run)
                return replace(ended, recorded=True)
            if ended.state == "lost":
                return ended
            retry = _retry(connection, task, ended)
            RunRows(connection).end(
                ended.run,
                ended.state,
                ended.ended,
                rows=ended.rows,
                bytes=ended.bytes,
                error=ended.error,
                log=ended.log,
                retry=retry,
            )
    except CommitConflict as conflict:
        if conflict.code != "run-lost":
            raise
        return replace(ended, state="lost", error=conflict.message)
    return replace(ended, retry=retry, recorded=True)


def settle_abandoned(
    catalog_db: CatalogDb,
    task: Task | None,
    run: TaskRun,
    now: int,
    error: str | None = None,
    state: Literal["failed", "timeout"] = "failed",
) -> Ended | None:
    """Say how a run ended whose process did not live to say it; None while that process still holds its lock.

    What it published it keeps: where that was all that it had to do, the run ended well.

    Args:
        task: As it is now; None: it was dropped.
        now: Microseconds since 1970 UTC.
        error: How its process ended, where that is known.
        state: What the run is, unless it had done everything.

    Raises:
        DatabaseError: the disk refuses; nothing was changed.
    """
    lock = RunLock(catalog_db.db_dir, run.task)
    try:
        return settle(catalog_db, task, run, now, error, state) if lock.take() else None
    finally:
        lock.release()


def settle(
    catalog_db: CatalogDb,
    task: Task | None,
    run: TaskRun,
    now: int,
    error: str | None = None,
    state: Literal["failed", "timeout"] = "failed",
) -> Ended:
    """The same for who holds the lock of the task's runs."""
    with catalog_db.reading() as connection:
        row = RunRows(connection).find(run)
        rows, size = _brought(connection, () if row is None else row.published)
    if row is None or row.state != "running":
        return Ended(run, "lost", now, error="another process recorded its end")
    total = None if task is None or row.replaced else statements_of(task.body)
    if total is not None and row.step >= total:
        log = f"{row.log}{error or 'its process ended'} after the last statement, before its end was recorded\n"
        return record(catalog_db, task, Ended(row, "ok", now, rows, size, log=log))
    number = "the end" if total is None else f"statement {row.step + 1} of {total}"
    if total == 1:
        number = "its statement"
    text = f"{error or 'its process ended'} before {number} was complete; the statement in progress was rolled back"
    return record(catalog_db, None if row.replaced else task, Ended(row, state, now, rows, size, text, row.log))


def _brought(connection: sqlite3.Connection, versions: Sequence[int]) -> tuple[int, int]:
    """Return the rows that versions added and removed, and the bytes of their table files."""
    marks = ", ".join("?" * len(versions))
    rows = f"SELECT coalesce(sum(rows_added + rows_removed), 0) FROM changes WHERE version IN ({marks})"
    size = f"SELECT coalesce(sum(bytes), 0) FROM segments WHERE added IN ({marks})"
    return connection.execute(rows, versions).fetchone()[0], connection.execute(size, versions).fetchone()[0]


def _retry(connection: sqlite3.Connection, task: Task | None, ended: Ended) -> int | None:
    """Return when to retry the run: never one started by hand, nor one of a task that was altered."""
    run = ended.run
    if task is None or ended.state == "ok" or run.cause == "manual":
        return None
    now = next((known for known in TaskRows(connection).read().values() if known.id == task.id), None)
    if now is None or now.created != task.created or run.attempt > now.retries:
        return None
    return ended.ended + _retry_delay(run.attempt)

"""A task run: its progress, requests to stop it, and the record of its end."""

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
from snapdb.storage.catalog_db.alert_rows import AlertRows
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
"""The number of seconds between two checks and between two interrupts. An interrupt that arrives before a statement
starts has no effect, so interrupts are repeated."""


@dataclass(slots=True)
class RunProgress:
    """The progress of a run, and the statements that would be rolled back if it were stopped now."""

    total: int = 0
    """The number of statements of the body, or 0 if it has not been parsed yet."""
    statement: int = 0
    """The number of the current or last statement, or 0 if none has started."""
    under_way: bool = False
    """Whether that statement is running."""
    begun: int = 0
    """The number of the statement that opened the current transaction, or 0 if no transaction is open."""
    kept: int = 0
    """The number of statements that the run's row records as done."""
    rows: int = 0
    """The number of rows that committed statements added or removed."""
    bytes: int = 0
    """The number of bytes that committed statements wrote."""
    pending: int = 0
    """The number of rows that statements of the open transaction added or removed."""
    lines: list[str] = field(default_factory=list)
    """The lines of the log."""
    notes: list[str] = field(default_factory=list)
    """Notes for the next attempt."""

    def done(self, rows: int, *, in_transaction: bool) -> None:
        """Record that the current statement succeeded."""
        self.under_way = False
        self.pending += rows
        if in_transaction:
            self.begun = self.begun or self.statement
            return
        self.rows, self.pending, self.begun = self.rows + self.pending, 0, 0

    def stopped(self, why: _Reason, task: Task) -> str:
        """Return the error message of a stopped run."""
        ends: dict[_Reason, str] = {
            "timeout": f"stopped after its timeout of {_duration(task.timeout or 0)}",
            "terminated": "stopped: the scheduler is shutting down",
            "interrupted": "interrupted",
        }
        return f"{ends[why]}; {self._left()}"

    def failed(self, error: BaseException) -> str:
        """Return the error message of a failed run as one line. The full error is added to the log."""
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
        return (
            f"{place}internal error: {type(error).__name__}: {_first_line(str(error))}; the traceback is in the "
            "log of the run"
        )

    def _left(self) -> str:
        number, total = self.statement, self.total
        if not number:
            return "no statement was started"
        if number <= self.kept:
            return f"statement {number} of {total} was complete, and none was in progress"
        if self.begun and self.begun < number:
            return f"the transaction of statements {self.begun} to {number} of {total} was rolled back"
        if self.under_way or self.begun:
            return "its statement was rolled back" if total == 1 else f"statement {number} of {total} was rolled back"
        return f"statement {number} of {total} was not started"


def _duration(length: int) -> str:
    """Return microseconds as text, in the largest unit that divides them evenly.

    >>> _duration(1_800_000_000), _duration(86_400_000_000), _duration(1_500_000)
    ('30 minutes', '1 day', '1,500 milliseconds')
    """
    size, name = next((size, name) for size, name in _UNITS if length % size == 0)
    return f"{length // size:,} {name}{'' if length == size else 's'}"


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


class Stop:
    """A request to stop a run. Any thread can make it at any time. It cannot be withdrawn."""

    def __init__(self, requested: threading.Event | None = None, why: _Reason = "interrupted") -> None:
        """Create a request. Setting the `requested` event makes the request with the given reason."""
        self.requested = threading.Event() if requested is None else requested
        self.why: _Reason = why

    def request(self, why: _Reason) -> None:
        """Request that the run stop soon. The current statement is rolled back."""
        self.why = why
        self.requested.set()


class Watch:
    """Interrupts the statement in the block repeatedly until it ends, once a stop is requested or the time is up::

    with Watch(stop, 60.0) as watch:
        watch.interrupt = db.interrupt
        watch.check()
        db.run(statement)
    """

    def __init__(self, stop: Stop, seconds: float | None) -> None:
        """Start the timeout, unless `seconds` is None."""
        self._stop = stop
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="snapdb-stopping", daemon=True)
        self.interrupt: Callable[[], None] | None = None
        """Called every 50 ms from another thread once the run should stop, or None if no statement can be
        interrupted."""
        self.why: _Reason | None = None
        """The reason why the run should stop, or None."""

    def check(self) -> None:
        """Raise QueryError with code 'interrupted' if the run should stop."""
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
                with contextlib.suppress(Exception):  # the statement may have just ended
                    interrupt()


EndState = Literal["ok", "failed", "timeout", "skipped", "lost"]

_SECOND = 1_000_000
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an attempt to run a task."""

    run: TaskRun
    """The run."""
    state: EndState
    """The final state. 'skipped' means that the condition was not true, so the row of the run is deleted. 'lost' means
    that another process took over the run and recorded its end."""
    ended: int
    """The time of the end, in microseconds since 1970 UTC."""
    rows: int = 0
    """The number of rows that the run added or removed."""
    bytes: int = 0
    """The number of bytes that the run wrote."""
    error: str | None = None
    """The error in one line, or None if the run succeeded."""
    log: str = ""
    """The log."""
    retry: int | None = None
    """The time of the next attempt, in microseconds since 1970 UTC, or None if the run is not retried."""
    interrupted: bool = False
    """Whether Ctrl-C ended the attempt."""
    recorded: bool = False
    """Whether the end is recorded in the run's row. If the disk was full, `record` can write it later."""
    code: str | None = None
    """The code of the error, or None if there is no error or the error has no code."""


def _retry_delay(attempt: int) -> int:
    """Return the delay before the next attempt, in microseconds: exponential backoff from 1 s to at most 60 s.

    >>> [_retry_delay(attempt) // 1_000_000 for attempt in (1, 2, 3, 6, 7, 500)]
    [1, 2, 4, 32, 60, 60]
    """
    return _SECOND * min(1 << min(attempt - 1, 10), _LONGEST)


def record(catalog_db: CatalogDb, task: Task | None, ended: Ended) -> Ended:
    """Write the end of a run to its row, with the time of the next attempt if it is retried.

    If the run has failed for good, its alert is queued in the same transaction.

    Args:
        catalog_db: The catalog.
        task: The task that was run, or None if it was dropped.
        ended: The end.

    Raises:
        DatabaseError: The disk reports an error. Nothing was changed.
        LockedError: Another process held the write lock for too long.
    """
    try:
        # Catalogs do not contain runs, so loaded catalogs remain valid and the change is not counted.
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
            if retry is None:
                _queue_alert(connection, ended)
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
    """Record the end of a run whose process died. Returns None if that process still holds its lock.

    Everything that the run committed is kept. If that was the whole body, the run succeeded.

    Args:
        catalog_db: The catalog.
        task: The current task, or None if it was dropped.
        run: The run.
        now: The time in microseconds since 1970 UTC.
        error: How the run's process ended, if known.
        state: The final state, unless all statements are done.

    Raises:
        DatabaseError: The disk reports an error. Nothing was changed.
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
    """Record the end of a run whose process died. The caller holds the lock on the task's runs."""
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
    """Return the number of rows that versions added and removed, and the number of bytes in their table files."""
    marks = ", ".join("?" * len(versions))
    rows = f"SELECT coalesce(sum(rows_added + rows_removed), 0) FROM changes WHERE version IN ({marks})"
    size = f"SELECT coalesce(sum(bytes), 0) FROM segments WHERE added IN ({marks})"
    return connection.execute(rows, versions).fetchone()[0], connection.execute(size, versions).fetchone()[0]


def _queue_alert(connection: sqlite3.Connection, ended: Ended) -> None:
    """Queue the alert of a failed run that is not retried, unless Ctrl-C ended it or the task has no address."""
    if ended.state not in ("failed", "timeout") or ended.interrupted:
        return
    # The address is that of the task's current definition, which may have changed during the run.
    task = next((task for task in TaskRows(connection).read().values() if task.id == ended.run.task), None)
    run = RunRows(connection).find(ended.run)
    if task is not None and task.notify is not None and run is not None:
        AlertRows(connection).queue(run, task.notify, ended.code)


def _retry(connection: sqlite3.Connection, task: Task | None, ended: Ended) -> int | None:
    """Return the time at which to retry the run, or None. Manual runs and runs of altered tasks are not retried."""
    run = ended.run
    if task is None or ended.state == "ok" or run.cause == "manual":
        return None
    now = next((known for known in TaskRows(connection).read().values() if known.id == task.id), None)
    if now is None or now.created != task.created or run.attempt > now.retries:
        return None
    return ended.ended + _retry_delay(run.attempt)

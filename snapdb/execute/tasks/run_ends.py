"""The end of a run of a task, as its row records it: success, failure, timeout, or when it is tried again."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from snapdb.errors import CommitConflict
from snapdb.sql.task_bodies import statements_of
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.task_rows import RunLock, end_run, find_run, forget_run, read_tasks
from snapdb.types import Run, Task

EndState = Literal["ok", "failed", "timeout", "skipped", "lost"]

_SECOND = 1_000_000
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of an attempt to run a task."""

    run: Run
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

    >>> [retry_delay(attempt) // 1_000_000 for attempt in (1, 2, 3, 6, 7, 500)]
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
                forget_run(connection, ended.run)
                return replace(ended, recorded=True)
            if ended.state == "lost":
                return ended
            retry = _retry(connection, task, ended)
            end_run(
                connection,
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
    run: Run,
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
    run: Run,
    now: int,
    error: str | None = None,
    state: Literal["failed", "timeout"] = "failed",
) -> Ended:
    """The same for who holds the lock of the task's runs."""
    with catalog_db.reading() as connection:
        found = find_run(connection, run)
        rows, size = _brought(connection, () if found is None else found.published)
    if found is None or found.state != "running":
        return Ended(run, "lost", now, error="another process has said how it ended")
    total = None if task is None or found.replaced else statements_of(task.body)
    if total is not None and found.step >= total:
        log = f"{found.log}{error or 'its process ended'} when all was done, before it had said so\n"
        return record(catalog_db, task, Ended(found, "ok", now, rows, size, log=log))
    number = "the end" if total is None else f"statement {found.step + 1} of {total}"
    if total == 1:
        number = "its statement"
    said = f"{error or 'its process ended'} before {number} was done; what was under way left nothing"
    return record(catalog_db, None if found.replaced else task, Ended(found, state, now, rows, size, said, found.log))


def _brought(connection: sqlite3.Connection, versions: Sequence[int]) -> tuple[int, int]:
    """Rows that versions added and removed, and the bytes of their files of tables."""
    marks = ", ".join("?" * len(versions))
    rows = f"SELECT coalesce(sum(rows_added + rows_removed), 0) FROM changes WHERE version IN ({marks})"
    size = f"SELECT coalesce(sum(bytes), 0) FROM segments WHERE added IN ({marks})"
    return connection.execute(rows, versions).fetchone()[0], connection.execute(size, versions).fetchone()[0]


def _retry(connection: sqlite3.Connection, task: Task | None, ended: Ended) -> int | None:
    """When the run is to be tried again: never one that was started by hand, nor one of a task that is another now."""
    run = ended.run
    if task is None or ended.state == "ok" or run.cause == "manual":
        return None
    now = next((known for known in read_tasks(connection).values() if known.id == task.id), None)
    if now is None or now.created != task.created or run.attempt > now.retries:
        return None
    return ended.ended + _retry_delay(run.attempt)

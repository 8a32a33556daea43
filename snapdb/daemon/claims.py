"""What the leader writes about a task's firings: in one transaction, so that each is settled once."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass, replace

from snapdb.errors import CommitConflict
from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.task_rows import advance, alter_task, begin_run, check_leader, miss_run, retry_run
from snapdb.types import Run, Task

_ON_RECORD = suppress(CommitConflict)
"""A firing that is on record, as after the clock was set back, is settled: nothing is to be done about it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Firings of a task that are settled together."""

    task: Task
    was: int
    """Up to here they were settled before."""
    considered: int
    """And up to here from now on."""
    missed: tuple[tuple[int, str], ...]
    """Firings that come to nothing, and why, the oldest first."""
    run: int | None
    """The one that runs now."""


def claim(ledger: Ledger, holder: str, wish: Claim, now: int) -> Run | None:
    """The run that was begun, if one was to begin and its firing was not on record already.

    Raises:
        CommitConflict: another daemon leads (leader-lost); the task was altered or dropped, or a run of it began by
            hand meanwhile (task-moved): look again.
        SnapdbError: the catalog cannot be written at the moment.
    """
    with ledger.writing(counted=False) as connection:
        check_leader(connection, holder)
        advance(connection, wish.task, wish.was, wish.considered)
        for moment, why in wish.missed:
            with _ON_RECORD:
                miss_run(connection, wish.task, moment, why)
        if wish.run is None:
            return None
        _check_idle(connection, wish.task, waits=True)
        with _ON_RECORD:
            return begin_run(connection, wish.task, "schedule", wish.run, holder, now)
    return None


def again(ledger: Ledger, holder: str, task: Task, failed: Run, now: int) -> Run:
    """The next attempt of a run that failed; errors as of `claim`, and run-lost where it waits no longer."""
    with ledger.writing(counted=False) as connection:
        check_leader(connection, holder)
        _check_idle(connection, task, waits=False)
        return retry_run(connection, failed, holder, now)


def resume(ledger: Ledger, holder: str, task: Task, anchor: int | None, considered: int) -> None:
    """The task's firings count from a moment before the one that they were settled up to; errors as of `claim`.

    Args:
        anchor: From which the steps of EVERY are counted from now on, if it changes.
    """
    after = task if anchor is None else replace(task, schedule=replace(task.schedule, anchor=anchor))
    with ledger.writing(counted=anchor is not None) as connection:
        check_leader(connection, holder)
        alter_task(connection, task, after, considered)


def _check_idle(connection: sqlite3.Connection, task: Task, *, waits: bool) -> None:
    """Raises: CommitConflict: a run of the task goes on, or (waits) is to be tried again."""
    query = "SELECT 1 FROM runs WHERE task = ?1 AND state = 'running'"
    if waits:
        query += " UNION ALL SELECT 1 FROM runs WHERE task = ?1 AND retry IS NOT NULL"
    if connection.execute(query, (task.id,)).fetchone() is not None:
        raise CommitConflict(f"task {task.name} moved: a run of it began meanwhile; look again", code="task-moved")

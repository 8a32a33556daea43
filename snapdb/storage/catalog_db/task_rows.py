"""Catalog rows of tasks, their runs and exports, and the lease of the leader that starts runs."""

import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from snapdb.errors import CommitConflict, moved
from snapdb.storage.catalog_db.alert_rows import AlertRows
from snapdb.storage.catalog_db.codec import decode, encode, is_sound
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.catalog_db.locks import try_lock
from snapdb.types import Cause, RunExport, RunState, Task, TaskRun

_REPLACED = "its task was replaced meanwhile"
"""The log line for a run whose task was replaced."""

_KEPT = 10_000
"""The number of most recent runs that are kept for each task. At one run every eight minutes, they cover eight
weeks."""
_ARE_OLD = """
    task = ?1 AND run <= ?2 AND state <> 'running' AND retry IS NULL
    AND run IS NOT (SELECT max(run) FROM runs WHERE task = ?1 AND state = 'ok')
"""
"""The condition of old runs. Keeps the last successful run, from which changes are counted, and runs that are active or
wait for a retry (after 10,000 missed ones)."""
_LOOSE = """
    DELETE FROM exports WHERE task = ?1 AND run <= ?2
    AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.task = exports.task AND runs.run = exports.run)
"""
"""Deletes the exports of runs that are no longer recorded."""
_IS_LAST = """
    NOT EXISTS (
        SELECT 1 FROM runs later WHERE later.task = runs.task AND later.run = runs.run AND later.attempt > runs.attempt
    )
"""
"""The condition of a run's last attempt."""
_DELETED = """
    CREATE TABLE IF NOT EXISTS deleted_runs (
        name  TEXT NOT NULL,                      -- the task's
        state TEXT NOT NULL,
        runs  INTEGER NOT NULL,
        PRIMARY KEY (name, state)
    ) WITHOUT ROWID
"""
"""The numbers of old runs that were deleted. Like the table of alerts, the table is created when it is needed."""
_COUNT_OLD = f"""
    INSERT INTO deleted_runs SELECT name, state, count(*) FROM runs WHERE {_ARE_OLD} AND {_IS_LAST} GROUP BY name, state
    ON CONFLICT DO UPDATE SET runs = runs + excluded.runs
"""
_TOTALS = f"""
    SELECT name, state, count(*) AS runs, max(coalesce(ended, scheduled)) AS last, started, ended FROM runs
    WHERE state <> 'running' AND retry IS NULL AND {_IS_LAST} GROUP BY name, state ORDER BY name, state
"""
"""Counts the runs that ended for good. For max, SQLite takes the other columns from the row with the maximum."""
_FIELDS = tuple(each.name for each in fields(TaskRun))
_SELECT = f"SELECT {', '.join(_FIELDS)} FROM runs"
_THIS = "WHERE task = ? AND run = ? AND attempt = ?"
_UNENDED: dict[str, Any] = {"ended": None, "published": (), "retry": None, "rows": 0, "bytes": 0, "log": ""}
"""The fields of an attempt that has not ended."""
_GOING = f"{_THIS} AND state = 'running' AND holder = ?"
"""The condition that a run is running and that no other process has taken over its record."""
LEASE_TTL = 6.0
"""Seconds without a heartbeat after which a leader is considered dead. Both the leader and the other processes measure
this time with their own monotonic clocks."""


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The tasks of a catalog, read and changed inside a transaction."""

    connection: sqlite3.Connection

    def put(self, task: Task, before: Task | None) -> Task:
        """Insert a task, or replace `before` with it, inside a transaction. Returns the task with its id.

        A task that replaces another one inherits its id and runs. None of these runs is retried.

        Raises:
            CommitConflict: `before` was changed concurrently, or another task got the name.
        """
        if before is not None:
            put = replace(task, id=before.id)
            self.alter(before, put, put.created)
            # An attempt that waits for a retry would continue in the middle of a different body. A running attempt is
            # settled by its own process.
            waiting = [run for run in RunRows(self.connection).waiting() if run.task == put.id]
            self.connection.execute("UPDATE runs SET retry = NULL WHERE task = ?", (put.id,))
            if put.notify is not None:
                for run in waiting:
                    AlertRows(self.connection).queue(run, put.notify)
            note = "UPDATE runs SET replaced = 1, log = log || ? WHERE task = ? AND state = 'running'"
            self.connection.execute(note, (f"{_REPLACED}\n", put.id))
            return put
        row = (task.name, task.name.lower(), task.created)
        sql = "INSERT INTO tasks (name, folded, definition, considered) VALUES (?, ?, '', ?) ON CONFLICT DO NOTHING"
        added = self.connection.execute(sql, row)
        if not added.rowcount or added.lastrowid is None:
            raise _moved(task, "created")
        put = replace(task, id=added.lastrowid)
        self.connection.execute("UPDATE tasks SET definition = ? WHERE id = ?", (encode(put), put.id))
        return put

    def alter(self, before: Task, after: Task, since: int | None) -> None:
        """Change the definition of a task inside a transaction.

        Args:
            before: The task as it was read.
            after: The task with the new definition.
            since: The time up to which scheduled runs are settled, so that they neither start nor count as missed. None
                leaves this time unchanged.

        Raises:
            CommitConflict: The task was altered or dropped concurrently.
        """
        # Compare and swap the whole definition, so that a change between reading and writing causes a conflict instead
        # of a lost update.
        updated = self.connection.execute(
            "UPDATE tasks SET name = ?, folded = ?, definition = ?, considered = coalesce(?, considered) "
            "WHERE id = ? AND definition = ?",
            (after.name, after.name.lower(), encode(after), since, before.id, encode(before)),
        )
        if not updated.rowcount:
            raise _moved(before, "altered, replaced or dropped")

    def drop(self, task: Task) -> None:
        """Delete a task inside a transaction. Its runs remain recorded, and none of them is retried.

        Raises:
            CommitConflict: The task was dropped concurrently.
        """
        if not self.connection.execute("DELETE FROM tasks WHERE id = ?", (task.id,)).rowcount:
            raise _moved(task, "dropped")
        self.connection.execute("UPDATE runs SET retry = NULL WHERE task = ?", (task.id,))

    def read(self) -> dict[str, Task]:
        """Return all tasks by case-folded name, oldest first.

        Raises:
            ValueError: A row is not a valid task.
        """
        rows = self.connection.execute("SELECT folded, definition FROM tasks ORDER BY id").fetchall()
        tasks = {row["folded"]: decode(Task, row["definition"]) for row in rows}
        for name, task in tasks.items():
            if not is_sound(Task, task):
                raise ValueError(f"the definition of task {name} cannot be read")
        return tasks

    def considered(self) -> dict[int, int]:
        """Map each task id to the time up to which its scheduled runs are settled."""
        return {
            row["id"]: row["considered"]
            for row in self.connection.execute("SELECT id, considered FROM tasks").fetchall()
        }

    def advance(self, task: Task, was: int, now: int) -> None:
        """Mark scheduled runs up to `now` as settled, inside the transaction that records them.

        Raises:
            CommitConflict: The task was altered or dropped concurrently, or another process settled its runs.
        """
        updated = self.connection.execute(
            "UPDATE tasks SET considered = ? WHERE id = ? AND considered = ? AND definition = ?",
            (now, task.id, was, encode(task)),
        )
        if not updated.rowcount:
            raise _moved(task, "altered or dropped")


class RunTotal(NamedTuple):
    """The runs of a task that ended in one state."""

    task: str
    state: str
    runs: int
    """The number of runs, including those that are no longer recorded."""
    last: int | None
    """When the last of the recorded runs ended, or its fire time if it was missed. None if none is recorded."""
    started: int | None
    """When it started, or None if it was missed."""
    ended: int | None
    """When it ended, or None if it was missed."""


@dataclass(frozen=True, slots=True)
class RunRows:
    """The runs of tasks and their exports, read and changed inside a transaction."""

    connection: sqlite3.Connection

    def begin(self, task: Task, cause: Cause, scheduled: int, holder: str, started: int) -> TaskRun:
        """Record a run of the task that starts now, inside a transaction.

        Raises:
            CommitConflict: This scheduled run was already started or missed.
        """
        return self._add(task, cause, "running", scheduled, holder, started)

    def miss(self, task: Task, scheduled: int, why: str) -> TaskRun:
        """Record a scheduled run that does not start, inside a transaction. Raises the same errors as `begin`."""
        run = self._add(task, "schedule", "missed", scheduled, error=why)
        if task.notify is not None:
            AlertRows(self.connection).queue(run, task.notify)
        return run

    def retry(self, run: TaskRun, holder: str, started: int) -> TaskRun:
        """Record the next attempt of a run that waits for a retry.

        The attempt continues after the completed statements.

        Raises:
            CommitConflict: Another process has started the attempt, or the run no longer waits for one.
        """
        # The step comes from the row because `run` may have been read before the row changed.
        waited = self.connection.execute(
            f"UPDATE runs SET retry = NULL {_THIS} AND retry IS NOT NULL RETURNING step", _key(run)
        ).fetchone()
        if waited is None:
            raise _lost(run)
        attempt = replace(run, attempt=run.attempt + 1, state="running", holder=holder, started=started, **_UNENDED)
        return self._insert(replace(attempt, step=waited["step"], error=None, replaced=False))

    def end(
        self,
        run: TaskRun,
        state: RunState,
        ended: int,
        *,
        rows: int = 0,
        bytes: int = 0,  # noqa: A002  # the column's name
        error: str | None = None,
        log: str = "",
        retry: int | None = None,
    ) -> None:
        """Record how a run ended, inside a transaction.

        Args:
            run: The run.
            state: Its final state.
            ended: The time at which it ended.
            rows: The number of rows that it wrote.
            bytes: The number of bytes that it wrote.
            error: The error with which it failed, if any.
            log: Lines for its log.
            retry: The time of the retry, if any.

        Raises:
            CommitConflict: The run was given up, and another process has recorded how it ended.
        """
        change = "UPDATE runs SET state = ?, ended = ?, rows = ?, bytes = ?, error = ?, log = ?, retry = ?"
        self._change(run, change, state, ended, rows, bytes, error, log, retry)

    def forget(self, run: TaskRun) -> None:
        """Delete the row of a run whose condition was not met. Raises the same errors as `end`."""
        self._change(run, "DELETE FROM runs")

    def note(self, run: TaskRun, line: str) -> None:
        """Add a line to the log of an active run. Raises the same errors as `end`."""
        self._change(run, "UPDATE runs SET log = log || ?", f"{line}\n")

    def note_export(self, run: TaskRun, export: RunExport) -> None:
        """Record a folder that an active run is about to publish. Raises the same errors as `end`."""
        # This changes nothing, but raises an error if the run was given up, because its export must then not be
        # recorded.
        self._change(run, "UPDATE runs SET holder = holder")
        row = (*_key(run), export.statement, export.path, export.sha256)
        self.connection.execute("INSERT OR REPLACE INTO exports VALUES (?, ?, ?, ?, ?, ?)", row)

    def exports(self, run: TaskRun) -> list[RunExport]:
        """Return the folders that the attempts of a run were about to publish, oldest attempt first."""
        sql = "SELECT statement, path, sha256 FROM exports WHERE task = ? AND run = ? ORDER BY attempt, statement, path"
        return [RunExport(*row) for row in self.connection.execute(sql, (run.task, run.run))]

    def find(self, run: TaskRun) -> TaskRun | None:
        """Return the current record of the run, or None if it is no longer recorded."""
        row = self.connection.execute(f"{_SELECT} {_THIS}", _key(run)).fetchone()
        return None if row is None else _run(row)

    def read(self, *, task: int | None = None, state: RunState | None = None) -> Iterator[TaskRun]:
        """Yield the recorded runs with this task and state, grouped by task, oldest first."""
        given = {name: value for name, value in (("task", task), ("state", state)) if value is not None}
        # Include only the conditions that apply. With constant conditions, SQLite would not use the partial index of
        # the few running runs.
        where = " AND ".join(["1", *(f"{name} = :{name}" for name in given)])
        return map(_run, self.connection.execute(f"{_SELECT} WHERE {where} ORDER BY task, run, attempt", given))

    def waiting(self) -> list[TaskRun]:
        """Return the failed attempts that wait for a retry, ordered by due time."""
        return [
            _run(row) for row in self.connection.execute(f"{_SELECT} WHERE retry IS NOT NULL ORDER BY retry").fetchall()
        ]

    def last_ok(self, task: int) -> TaskRun | None:
        """Return the last successful run of a task, or None if there is none."""
        sql = f"{_SELECT} WHERE task = ? AND state = 'ok' ORDER BY run DESC, attempt DESC LIMIT 1"
        row = self.connection.execute(sql, (task,)).fetchone()
        return None if row is None else _run(row)

    def totals(self) -> list[RunTotal]:
        """Return the number of runs that have ended for good, by task and state, including deleted ones."""
        rows = self.connection.execute(_TOTALS).fetchall()
        deleted = self._deleted()
        totals = [
            RunTotal(name, state, runs + deleted.pop((name, state), 0), *rest) for name, state, runs, *rest in rows
        ]
        return totals + [RunTotal(*key, runs, None, None, None) for key, runs in sorted(deleted.items())]

    def _deleted(self) -> dict[tuple[str, str], int]:
        """Map the name of a task and a state to the number of runs that are no longer recorded."""
        if self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'deleted_runs'").fetchone() is None:
            return {}
        return {(name, state): runs for name, state, runs in self.connection.execute("SELECT * FROM deleted_runs")}

    def _change(self, run: TaskRun, change: str, *values: object) -> None:
        """Change the row of an active run. Raises CommitConflict if the run was given up."""
        if not self.connection.execute(f"{change} {_GOING}", (*values, *_key(run), run.holder)).rowcount:
            raise _lost(run)

    def _add(
        self,
        task: Task,
        cause: Cause,
        state: RunState,
        scheduled: int,
        holder: str | None = None,
        started: int | None = None,
        error: str | None = None,
    ) -> TaskRun:
        """Insert the first attempt of the task's next run, and delete the oldest runs beyond `_KEPT`."""
        (number,) = self.connection.execute(
            "SELECT coalesce(max(run), 0) + 1 FROM runs WHERE task = ?", (task.id,)
        ).fetchone()
        (head,) = self.connection.execute("SELECT coalesce(max(version), 0) FROM versions").fetchone()
        self._delete_old(task, number - _KEPT, scheduled)
        run = TaskRun(
            task=task.id,
            name=task.name,
            run=number,
            attempt=1,
            cause=cause,
            state=state,
            holder=holder,
            scheduled=scheduled,
            started=started,
            version=head,
            step=0,
            error=error,
            **_UNENDED,
        )
        return self._insert(run)

    def _delete_old(self, task: Task, last: int, now: int) -> None:
        """Delete the task's runs up to the last one, and what belongs to them. Their numbers are kept."""
        old = (task.id, last)
        if last < 1 or self.connection.execute(f"SELECT 1 FROM runs WHERE {_ARE_OLD} LIMIT 1", old).fetchone() is None:
            return
        self.connection.execute(_DELETED)
        self.connection.execute(_COUNT_OLD, old)
        self.connection.execute(f"DELETE FROM runs WHERE {_ARE_OLD}", old)
        self.connection.execute(_LOOSE, old)
        AlertRows(self.connection).forget(task.id, last, now)

    def _insert(self, run: TaskRun) -> TaskRun:
        """Insert a run. Raises CommitConflict if it is already recorded."""
        row = {name: getattr(run, name) for name in _FIELDS} | {"published": json.dumps(run.published)}
        marks = ", ".join(f":{name}" for name in _FIELDS)
        inserted = self.connection.execute(
            f"INSERT INTO runs ({', '.join(_FIELDS)}) VALUES ({marks}) ON CONFLICT DO NOTHING", row
        )
        if not inserted.rowcount:
            raise _lost(run)
        return run


def _moved(task: Task, what: str) -> CommitConflict:
    return moved(f"task {task.name} was {what} concurrently", code="task-moved")


@dataclass(slots=True)
class RunMark:
    """Records each transaction of a run in the run's row, so that a run that was given up cannot publish."""

    run: TaskRun
    statement: int = 0
    """The number of the running statement, starting at 1."""

    def __call__(self, connection: sqlite3.Connection, head: int, publishes: bool) -> None:
        """Record a transaction that is about to commit. See `connection._Mark` for the arguments.

        Raises:
            CommitConflict: The run was given up.
        """
        versions = [v for (v,) in connection.execute("SELECT version FROM versions WHERE version > ?", (head,))]
        row = connection.execute(
            f"SELECT step, published FROM runs {_GOING}", (*_key(self.run), self.run.holder)
        ).fetchone()
        if row is None:
            raise _lost(self.run)
        step = self.statement if publishes else row["step"]
        published = json.dumps([*json.loads(row["published"]), *versions])
        connection.execute(f"UPDATE runs SET step = ?, published = ? {_THIS}", (step, published, *_key(self.run)))


class RunLock:
    """A task's lock, which allows one run of the task at a time.

    It is held until `release` or the end of the process.
    """

    def __init__(self, db_dir: DatabaseDir, task: int) -> None:
        folder = db_dir.path / "runs"
        folder.mkdir(exist_ok=True)
        self._descriptor: int | None = os.open(folder / f"{task}.lock", os.O_RDONLY | os.O_CLOEXEC | os.O_CREAT, 0o666)

    def take(self) -> bool:
        """Acquire the lock. Returns False if another process holds it."""
        assert self._descriptor is not None
        return try_lock(self._descriptor)

    def release(self) -> None:
        """Release the lock. A second call has no effect."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _run(row: sqlite3.Row) -> TaskRun:
    """Return the run in a row."""
    values = {field: row[field] for field in _FIELDS}
    values |= {"published": tuple(json.loads(str(values["published"]))), "replaced": bool(values["replaced"])}
    return TaskRun(**values)


def _key(run: TaskRun) -> tuple[int, int, int]:
    return run.task, run.run, run.attempt


def _lost(run: TaskRun) -> CommitConflict:
    return CommitConflict(
        f"run {run.run} of task {run.name} was taken over by another process; nothing was changed", code="run-lost"
    )


class Leader(NamedTuple):
    """The leader, or a candidate."""

    holder: str
    """A token that is unique to the process."""
    beat: int
    """The number of heartbeats. It is not a clock time, because clocks differ between machines and can be reset."""
    host: str
    """The leader's host name."""
    pid: int
    """The leader's process id."""
    since: int
    """The time at which it became the leader, in microseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class LeaderLease:
    """The leader's catalog row. Heartbeats renew its lease."""

    catalog_db: CatalogDb

    def read(self) -> Leader | None:
        """Return the recorded leader, dead or alive, or None if no leader is recorded."""
        rows = self.catalog_db.rows("SELECT holder, beat, host, pid, since FROM leader")
        return Leader(*rows[0]) if rows else None

    def acquire(self, me: Leader, silent: Leader | None) -> bool:
        """Become the leader if there is none, or if `silent` has had no heartbeat since it was read.

        Returns whether the lease was acquired. The row is compared and replaced in one transaction, so only one
        candidate wins.
        """
        with self.catalog_db.writing(counted=False) as connection:
            row = connection.execute("SELECT holder, beat FROM leader").fetchone()
            if row is not None and (silent is None or tuple(row) != (silent.holder, silent.beat)):
                return False
            connection.execute(
                "INSERT OR REPLACE INTO leader (one, holder, beat, host, pid, since) VALUES (1, ?, ?, ?, ?, ?)",
                (me.holder, me.beat, me.host, me.pid, me.since),
            )
        return True

    def heartbeat(self, holder: str) -> bool:
        """Renew the lease. Returns False if the holder is no longer the leader."""
        with self.catalog_db.writing(counted=False) as connection:
            return bool(connection.execute("UPDATE leader SET beat = beat + 1 WHERE holder = ?", (holder,)).rowcount)

    def release(self, holder: str) -> None:
        """Give up the lease, so that the next leader does not have to wait until it expires."""
        with self.catalog_db.writing(counted=False) as connection:
            connection.execute("DELETE FROM leader WHERE holder = ?", (holder,))


def check_leader(connection: sqlite3.Connection, holder: str) -> None:
    """Check, inside a leader's transaction, that the holder is still the leader.

    Raises:
        CommitConflict: Another process took over.
    """
    if connection.execute("SELECT 1 FROM leader WHERE holder = ?", (holder,)).fetchone() is None:
        raise CommitConflict("another scheduler is the leader of this database now; this one waits", code="leader-lost")

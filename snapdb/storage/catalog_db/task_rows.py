"""Tasks, their runs and exports, and the leader that starts them, as rows of the catalog."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from snapdb.errors import CommitConflict
from snapdb.storage.catalog_db.codec import decode, encode, is_sound
from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.db_dir import Home
from snapdb.types import Cause, Run, RunExport, RunState, Task

_REPLACED = "its task was replaced meanwhile"
"""A line for the readers of a run's log."""

_KEPT = 10_000
"""Runs of each task that stay on record, the newest: one in eight minutes is kept for eight weeks."""
_OLD = """
    DELETE FROM runs WHERE task = ?1 AND run <= ?2 AND state <> 'running' AND retry IS NULL
    AND run IS NOT (SELECT max(run) FROM runs WHERE task = ?1 AND state = 'ok')
"""
"""A run that goes on or waits to be tried again may be older, where 10,000 firings were missed meanwhile, and so may
the last one that ended well, from which changes are counted."""
_LOOSE = """
    DELETE FROM exports WHERE task = ?1 AND run <= ?2
    AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.task = exports.task AND runs.run = exports.run)
"""
"""Exports of runs that are no longer on record."""
_FIELDS = tuple(each.name for each in fields(Run))
_SELECT = f"SELECT {', '.join(_FIELDS)} FROM runs"
_THIS = "WHERE task = ? AND run = ? AND attempt = ?"
_GOING = f"{_THIS} AND state = 'running' AND holder = ?"
"""It goes on, and nobody else has taken its record over."""
LEASE_TTL = 6.0
"""Seconds without a beat after which a leader is taken for dead: by others, by clocks of their own, and by itself."""


def put_task(connection: sqlite3.Connection, task: Task, before: Task | None) -> Task:
    """The task with the id that it has, inside a transaction; the one that it replaces keeps its id and its runs.

    No run of that one is tried again.

    Raises:
        CommitConflict: that one is no longer as it was found, or another got the name meanwhile.
    """
    if before is not None:
        put = replace(task, id=before.id)
        alter_task(connection, before, put, put.created)
        # Attempts that wait would go on within a body that is no more; one that goes on may yet have to be settled.
        connection.execute("UPDATE runs SET retry = NULL WHERE task = ?", (put.id,))
        note = "UPDATE runs SET replaced = 1, log = log || ? WHERE task = ? AND state = 'running'"
        connection.execute(note, (f"{_REPLACED}\n", put.id))
        return put
    row = (task.name, task.name.lower(), task.created)
    sql = "INSERT INTO tasks (name, folded, definition, considered) VALUES (?, ?, '', ?) ON CONFLICT DO NOTHING"
    added = connection.execute(sql, row)
    if not added.rowcount or added.lastrowid is None:
        raise _moved(task, "created")
    put = replace(task, id=added.lastrowid)
    connection.execute("UPDATE tasks SET definition = ? WHERE id = ?", (encode(put), put.id))
    return put


def alter_task(connection: sqlite3.Connection, before: Task, after: Task, since: int | None) -> None:
    """The task says something else, inside a transaction.

    Args:
        since: Firings up to this moment are settled: none of them will run, nor be told as missed; None: it goes on
            from where it was.

    Raises:
        CommitConflict: it was altered or dropped meanwhile.
    """
    found = connection.execute(
        "UPDATE tasks SET name = ?, folded = ?, definition = ?, considered = coalesce(?, considered) "
        "WHERE id = ? AND definition = ?",
        (after.name, after.name.lower(), encode(after), since, before.id, encode(before)),
    )
    if not found.rowcount:
        raise _moved(before, "altered, replaced or dropped")


def drop_task(connection: sqlite3.Connection, task: Task) -> None:
    """The task goes, inside a transaction; its runs stay on record, and none is tried again.

    Raises:
        CommitConflict: it was dropped meanwhile.
    """
    if not connection.execute("DELETE FROM tasks WHERE id = ?", (task.id,)).rowcount:
        raise _moved(task, "dropped")
    connection.execute("UPDATE runs SET retry = NULL WHERE task = ?", (task.id,))


def read_tasks(connection: sqlite3.Connection) -> dict[str, Task]:
    """All tasks by their case-folded names, the oldest first.

    Raises:
        ValueError: what a row says is no task.
    """
    rows = connection.execute("SELECT folded, definition FROM tasks ORDER BY id").fetchall()
    tasks = {row["folded"]: decode(Task, row["definition"]) for row in rows}
    for name, task in tasks.items():
        if not is_sound(Task, task):
            raise ValueError(f"the definition of task {name} cannot be read")
    return tasks


def considered(connection: sqlite3.Connection) -> dict[int, int]:
    """Up to which moment the firings of each task are settled, by its id."""
    return {row["id"]: row["considered"] for row in connection.execute("SELECT id, considered FROM tasks").fetchall()}


def advance(connection: sqlite3.Connection, task: Task, was: int, now: int) -> None:
    """Firings up to `now` are settled, inside the transaction that records them.

    Raises:
        CommitConflict: the task was altered or dropped meanwhile, or its firings were settled by somebody else.
    """
    found = connection.execute(
        "UPDATE tasks SET considered = ? WHERE id = ? AND considered = ? AND definition = ?",
        (now, task.id, was, encode(task)),
    )
    if not found.rowcount:
        raise _moved(task, "altered or dropped")


def _moved(task: Task, what: str) -> CommitConflict:
    return CommitConflict(
        f"task {task.name} moved: it was {what} meanwhile; run the statement again", code="task-moved"
    )


# Runs of tasks as rows of the catalog, and the lock that a run holds while it goes


def begin_run(
    connection: sqlite3.Connection, task: Task, cause: Cause, scheduled: int, holder: str, started: int
) -> Run:
    """A run of the task that goes on from now, inside a transaction.

    Raises:
        CommitConflict: this firing was begun or missed before.
    """
    return _add(connection, task, cause, "running", scheduled, holder, started)


def miss_run(connection: sqlite3.Connection, task: Task, scheduled: int, why: str) -> Run:
    """A firing that comes to nothing, inside a transaction; errors as of `begin_run`."""
    return _add(connection, task, "schedule", "missed", scheduled, error=why)


def retry_run(connection: sqlite3.Connection, run: Run, holder: str, started: int) -> Run:
    """The next attempt of a run that waits for it: it goes on after the statements that are done.

    Raises:
        CommitConflict: somebody else has begun it, or it waits no longer.
    """
    # What is done stands in the row: the run that is given may have been read before.
    waited = connection.execute(
        f"UPDATE runs SET retry = NULL {_THIS} AND retry IS NOT NULL RETURNING step", _key(run)
    ).fetchone()
    if waited is None:
        raise _lost(run)
    return _insert(
        connection,
        replace(
            run,
            attempt=run.attempt + 1,
            state="running",
            holder=holder,
            started=started,
            ended=None,
            step=waited["step"],
            published=(),
            retry=None,
            rows=0,
            bytes=0,
            error=None,
            log="",
            replaced=False,
        ),
    )


def end_run(
    connection: sqlite3.Connection,
    run: Run,
    state: RunState,
    ended: int,
    *,
    rows: int = 0,
    bytes: int = 0,  # noqa: A002  # the column's name
    error: str | None = None,
    log: str = "",
    retry: int | None = None,
) -> None:
    """The run is over, inside a transaction.

    Args:
        retry: When it is to be tried again, if it is.

    Raises:
        CommitConflict: it was given up, so that somebody else has said how it ended.
    """
    change = "UPDATE runs SET state = ?, ended = ?, rows = ?, bytes = ?, error = ?, log = ?, retry = ?"
    _change(connection, run, change, state, ended, rows, bytes, error, log, retry)


def forget_run(connection: sqlite3.Connection, run: Run) -> None:
    """The run was none: its condition did not hold. Errors as of `end_run`."""
    _change(connection, run, "DELETE FROM runs")


def note_run(connection: sqlite3.Connection, run: Run, line: str) -> None:
    """Add a line to the log of a run that goes on. Errors as of `end_run`."""
    _change(connection, run, "UPDATE runs SET log = log || ?", f"{line}\n")


def note_export(connection: sqlite3.Connection, run: Run, export: RunExport) -> None:
    """Record a folder that a running run is about to publish. Errors as of `end_run`."""
    _change(connection, run, "UPDATE runs SET holder = holder")
    row = (*_key(run), export.statement, export.path, export.sha256)
    connection.execute("INSERT OR REPLACE INTO exports VALUES (?, ?, ?, ?, ?, ?)", row)


def exports_of(connection: sqlite3.Connection, run: Run) -> list[RunExport]:
    """The folders that the attempts of a run were about to put in their places, oldest attempt first."""
    sql = "SELECT statement, path, sha256 FROM exports WHERE task = ? AND run = ? ORDER BY attempt, statement, path"
    return [RunExport(*row) for row in connection.execute(sql, (run.task, run.run))]


def find_run(connection: sqlite3.Connection, run: Run) -> Run | None:
    """The run as its row says now; None: it is no longer on record."""
    row = connection.execute(f"{_SELECT} {_THIS}", _key(run)).fetchone()
    return None if row is None else _run(row)


def read_runs(
    connection: sqlite3.Connection, *, task: int | None = None, run: int | None = None, state: RunState | None = None
) -> Iterator[Run]:
    """The runs on record, of one task or all, by their number and state or any: by task, oldest first."""
    wanted = {"task": task, "run": run, "state": state}
    given = {name: value for name, value in wanted.items() if value is not None}
    # No conditions that are always true: with them SQLite would not find the few that go on by their index.
    where = " AND ".join(["1", *(f"{name} = :{name}" for name in given)])
    return map(_run, connection.execute(f"{_SELECT} WHERE {where} ORDER BY task, run, attempt", given))


def waiting_runs(connection: sqlite3.Connection) -> list[Run]:
    """Attempts that failed and are to be made again, those that are due first in front."""
    return [_run(row) for row in connection.execute(f"{_SELECT} WHERE retry IS NOT NULL ORDER BY retry").fetchall()]


def last_ok(connection: sqlite3.Connection, task: int) -> Run | None:
    """The last run of a task that ended well; None: none did."""
    sql = f"{_SELECT} WHERE task = ? AND state = 'ok' ORDER BY run DESC, attempt DESC LIMIT 1"
    row = connection.execute(sql, (task,)).fetchone()
    return None if row is None else _run(row)


@dataclass(slots=True)
class RunMark:
    """What each transaction of a run leaves in the run's row: a run that was given up can publish nothing."""

    run: Run
    statement: int = 0
    """Which one is under way, from 1."""

    def __call__(self, connection: sqlite3.Connection, head: int, publishes: bool) -> None:
        """Note a transaction that is about to commit; `storage.ledger.Mark` says what is given.

        Raises:
            CommitConflict: the run was given up.
        """
        made = [v for (v,) in connection.execute("SELECT version FROM versions WHERE version > ?", (head,))]
        row = connection.execute(
            f"SELECT step, published FROM runs {_GOING}", (*_key(self.run), self.run.holder)
        ).fetchone()
        if row is None:
            raise _lost(self.run)
        step = self.statement if publishes else row["step"]
        published = json.dumps([*json.loads(row["published"]), *made])
        connection.execute(f"UPDATE runs SET step = ?, published = ? {_THIS}", (step, published, *_key(self.run)))


class RunLock:
    """Held by whoever runs a task, until `release` or the end of its process: so one run goes at a time."""

    def __init__(self, home: Home, task: int) -> None:
        folder = home.path / "runs"
        folder.mkdir(exist_ok=True)
        self._descriptor: int | None = os.open(folder / f"{task}.lock", os.O_RDONLY | os.O_CLOEXEC | os.O_CREAT, 0o666)

    def take(self) -> bool:
        """Hold it; False when another process does."""
        assert self._descriptor is not None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let go; a second time does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _change(connection: sqlite3.Connection, run: Run, change: str, *values: object) -> None:
    """Change the row of a run that goes on, or raise CommitConflict where it was given up."""
    if not connection.execute(f"{change} {_GOING}", (*values, *_key(run), run.holder)).rowcount:
        raise _lost(run)


def _add(
    connection: sqlite3.Connection,
    task: Task,
    cause: Cause,
    state: RunState,
    scheduled: int,
    holder: str | None = None,
    started: int | None = None,
    error: str | None = None,
) -> Run:
    """Insert the first attempt of the task's next run, and delete the oldest runs beyond `_KEPT`."""
    (number,) = connection.execute("SELECT coalesce(max(run), 0) + 1 FROM runs WHERE task = ?", (task.id,)).fetchone()
    (head,) = connection.execute("SELECT coalesce(max(version), 0) FROM versions").fetchone()
    connection.execute(_OLD, (task.id, number - _KEPT))
    connection.execute(_LOOSE, (task.id, number - _KEPT))
    run = Run(
        task=task.id,
        name=task.name,
        run=number,
        attempt=1,
        cause=cause,
        state=state,
        holder=holder,
        scheduled=scheduled,
        started=started,
        ended=None,
        version=head,
        step=0,
        published=(),
        retry=None,
        rows=0,
        bytes=0,
        error=error,
        log="",
    )
    return _insert(connection, run)


def _insert(connection: sqlite3.Connection, run: Run) -> Run:
    row = {name: getattr(run, name) for name in _FIELDS} | {"published": json.dumps(run.published)}
    marks = ", ".join(f":{name}" for name in _FIELDS)
    inserted = connection.execute(
        f"INSERT INTO runs ({', '.join(_FIELDS)}) VALUES ({marks}) ON CONFLICT DO NOTHING", row
    )
    if not inserted.rowcount:
        raise _lost(run)
    return run


def _run(row: sqlite3.Row) -> Run:
    values = {field: row[field] for field in _FIELDS}
    values |= {"published": tuple(json.loads(str(values["published"]))), "replaced": bool(values["replaced"])}
    return Run(**values)


def _key(run: Run) -> tuple[int, int, int]:
    return run.task, run.run, run.attempt


def _lost(run: Run) -> CommitConflict:
    return CommitConflict(
        f"run {run.run} of task {run.name} was given up meanwhile: another process has its record; nothing was changed",
        code="run-lost",
    )


# The one process that fires a database's tasks: a row that beats while it lives


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads, or would."""

    holder: str
    """A token that no other process has."""
    beat: int
    """Grows while it lives; no clock is in it, so that none can be wrong."""
    host: str
    pid: int
    since: int
    """Microseconds since 1970 UTC."""


def read_leader(ledger: Ledger) -> Leader | None:
    """Who leads now, dead or alive; None: nobody does."""
    rows = ledger.rows("SELECT holder, beat, host, pid, since FROM leader")
    return Leader(*rows[0]) if rows else None


def acquire_lease(ledger: Ledger, me: Leader, silent: Leader | None) -> bool:
    """Lead, where nobody does or `silent` still does, without another beat since it was read; whether it came to that.

    The row is compared and replaced in one transaction: of several who try, one wins.
    """
    with ledger.writing(counted=False) as connection:
        row = connection.execute("SELECT holder, beat FROM leader").fetchone()
        if row is not None and (silent is None or tuple(row) != (silent.holder, silent.beat)):
            return False
        connection.execute(
            "INSERT OR REPLACE INTO leader (one, holder, beat, host, pid, since) VALUES (1, ?, ?, ?, ?, ?)",
            (me.holder, me.beat, me.host, me.pid, me.since),
        )
    return True


def heartbeat(ledger: Ledger, holder: str) -> bool:
    """Tell the others that the leader lives; False when it leads no longer."""
    with ledger.writing(counted=False) as connection:
        return bool(connection.execute("UPDATE leader SET beat = beat + 1 WHERE holder = ?", (holder,)).rowcount)


def check_leader(connection: sqlite3.Connection, holder: str) -> None:
    """Nothing when the holder leads, inside a transaction: what it is about to write is the leader's word.

    Raises:
        CommitConflict: another took over.
    """
    if connection.execute("SELECT 1 FROM leader WHERE holder = ?", (holder,)).fetchone() is None:
        raise CommitConflict("another daemon leads this database now; this one waits", code="leader-lost")


def release_lease(ledger: Ledger, holder: str) -> None:
    """Lead no longer: the next one need not wait."""
    with ledger.writing(counted=False) as connection:
        connection.execute("DELETE FROM leader WHERE holder = ?", (holder,))

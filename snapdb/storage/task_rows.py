"""Tasks as rows of the catalog."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from snapdb.errors import CommitConflict
from snapdb.storage.codec import decode, encode, is_sound
from snapdb.types import Task

_REPLACED = "its task was replaced meanwhile"
"""A line for the readers of a run's log."""


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

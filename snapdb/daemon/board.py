"""What the catalog says of tasks and of their runs that are not over, at one moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from snapdb.storage.damage import damaged
from snapdb.storage.ledger import Ledger
from snapdb.storage.run_rows import runs, waiting
from snapdb.storage.task_rows import considered, read_tasks
from snapdb.types import Run, Task


@dataclass(frozen=True, slots=True)
class Board:
    """Tasks, and what of them is under way."""

    changes: int
    """How often the catalog was written; tasks are read again only where that moved."""
    tasks: Mapping[int, Task]
    considered: Mapping[int, int]
    """Up to which moment the firings of each task are settled."""
    running: tuple[Run, ...]
    waiting: tuple[Run, ...]
    """Attempts that failed and are to be made again, those that are due first in front."""


def look(ledger: Ledger, known: Board | None) -> Board:
    """The board now; `known` is one that was seen before.

    Raises:
        SnapdbError: the catalog cannot be read at the moment, or is damaged.
    """
    with ledger.reading() as connection, damaged(ledger.home):
        changes = int(connection.execute("SELECT value FROM facts WHERE name = 'changes'").fetchone()["value"])
        return Board(
            changes=changes,
            tasks=_tasks(connection) if known is None or known.changes != changes else known.tasks,
            considered=considered(connection),
            running=tuple(runs(connection, state="running")),
            waiting=tuple(waiting(connection)),
        )


def _tasks(connection: sqlite3.Connection) -> dict[int, Task]:
    return {task.id: task for task in read_tasks(connection).values()}

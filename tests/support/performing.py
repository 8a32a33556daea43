"""Task runs without a daemon: claimed, performed, settled and retried by tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snapdb.catalog import load
from snapdb.storage.catalog_db.task_rows import RunRows
from snapdb.types import Task, TaskRun
from tests.support.inside import open_catalog_db
from tests.support.inside.execute import DatabaseSession, Ended, Stop, perform, settle_abandoned
from tests.support.inside.storage import CatalogDb, Disk, now, open_db_dir

DAY = 1_767_225_600_000_000
"""2026-01-01, the scheduled time of runs."""


@dataclass
class Worker:
    """Performs runs in a database like a worker process of the daemon."""

    path: Path
    disk: Disk | None = None
    """The disk through which files are accessed, or None for the default."""
    opened: list[DatabaseSession] = field(default_factory=list)
    before: Callable[[DatabaseSession, int], None] | None = None
    """Called before each statement of an attempt, with the statement's number, starting at 1."""

    def task(self, name: str = "job") -> Task:
        with closing(open_catalog_db(self.path)) as catalog_db:
            return load(catalog_db).task(name)

    def claim(self, task: Task, scheduled: int = DAY) -> TaskRun:
        """Record the start of a run and return its row."""
        with closing(open_catalog_db(self.path)) as catalog_db, catalog_db.writing() as connection:
            return RunRows(connection).begin(task, "schedule", scheduled, "worker", now())

    def again(self, run: TaskRun) -> TaskRun:
        """Record the start of a run's next attempt and return its row."""
        with closing(open_catalog_db(self.path)) as catalog_db, catalog_db.writing() as connection:
            return RunRows(connection).retry(run, "worker", now())

    def perform(self, task: Task, run: TaskRun, stop: Stop | None = None) -> Ended:
        db_dir = open_db_dir(self.path, read_only=False, disk=self.disk)
        catalog_db = CatalogDb(db_dir)
        try:
            return perform(self._open, catalog_db, task, run, stop or Stop())
        finally:
            catalog_db.close()

    def settle(self, task: Task | None, run: TaskRun) -> Ended | None:
        db_dir = open_db_dir(self.path, read_only=False)
        with closing(CatalogDb(db_dir)) as catalog_db:
            return settle_abandoned(catalog_db, task, run, now())

    def rows(self) -> list[TaskRun]:
        with closing(open_catalog_db(self.path)) as catalog_db, catalog_db.reading() as connection:
            return list(RunRows(connection).read())

    def _open(self, folders: Sequence[str], disk: Disk) -> DatabaseSession:
        database = DatabaseSession(self.path, folders=folders, disk=disk, threads=1)
        self.opened.append(database)
        if self.before is not None:
            run, numbers, before = database.run, itertools.count(1), self.before

            def observed(*statement: Any) -> Any:
                before(database, next(numbers))
                return run(*statement)

            database.run = observed  # type: ignore[method-assign]
        return database


def told(run: TaskRun) -> tuple[str, int, int, int | None]:
    """Return the fields of a run that tests check most: its state, attempt, step and next attempt."""
    return run.state, run.attempt, run.step, run.retry

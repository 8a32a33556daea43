"""Daemons in processes of their own, and databases whose tasks they run."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import snapdb
from snapdb.storage.catalog_db.task_rows import RunRows, TaskRows
from snapdb.types import Period, Schedule, Task, TaskRun
from tests.support.inside import open_catalog_db
from tests.support.inside.storage import CatalogDb
from tests.support.places import ROOT
from tests.support.waiting import PATIENCE, until

SECOND = 1_000_000


def put_task(catalog_db: CatalogDb, name: str, schedule: Schedule, now: int, **options: Any) -> Task:
    """Create a task in the catalog."""
    task = Task(
        id=0,
        name=name,
        schedule=schedule,
        condition=None,
        body="SELECT 1",
        folder="/",
        timeout=None,
        retries=0,
        overlap="skip",
        catch_up="none",
        suspended=False,
        created=now,
        author="me",
    )
    with catalog_db.writing() as connection:
        return TaskRows(connection).put(replace(task, **options), None)


class Shop:
    """A database with a table, and what the catalog says of its tasks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with snapdb.connect(path) as db:
            db.execute("CREATE TABLE done AS SELECT 'x' AS task, 0::BIGINT AS run, 0::BIGINT AS part LIMIT 0")
        self.catalog_db = open_catalog_db(path)

    def task(
        self, name: str, seconds: float, body: str, now: int | None = None, first: float | None = None, **options: Any
    ) -> Task:
        """A task of so many seconds from one firing to the next, and perhaps fewer to the first."""
        now = time.time_ns() // 1000 if now is None else now
        anchor = now if first is None else now - int((seconds - first) * SECOND)
        schedule = Schedule(f"EVERY {seconds}", None, "UTC", Period(0, 0, int(seconds * SECOND)), anchor)
        return put_task(self.catalog_db, name, schedule, now, body=body, folder=str(self.path.parent), **options)

    def runs(self) -> list[TaskRun]:
        with self.catalog_db.reading() as connection:
            return list(RunRows(connection).read())

    def considered(self) -> int:
        """Up to when the firings of all tasks are settled."""
        with self.catalog_db.reading() as connection:
            return min(TaskRows(connection).considered().values())

    def done(self) -> Counter[tuple[Any, ...]]:
        """How often each part of each run is in the table."""
        with snapdb.connect(self.path, read_only=True) as db:
            return Counter(db.execute("SELECT task, run, part FROM done").fetchall())


class Daemon:
    """A process that serves, and what it says."""

    def __init__(self, said: Path, *command: str) -> None:
        self.said = said
        self._from = said.stat().st_size if said.exists() else 0
        with said.open("ab") as stderr:
            self.process = subprocess.Popen([sys.executable, *command], cwd=ROOT, stderr=stderr)

    def workers(self) -> list[int]:
        """The ids of its workers' processes."""
        with suppress(OSError):
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
            return [int(child) for child in children.split()]
        return []

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def log(self) -> str:
        return self.said.read_text()

    def stop(self) -> None:
        """Ask it to end, once it can be asked."""
        until(lambda: b"daemon.start" in self.said.read_bytes()[self._from :])
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


def lives(process: int) -> bool:
    """Whether a process is there, and not only its number."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


@contextmanager
def serving(shop: Shop, name: str = "a", form: str = "text", grace: float = 8.0, jobs: int = 2) -> Iterator[Daemon]:
    """A daemon by the true clock."""
    code = (
        "import sys; from pathlib import Path; from snapdb.daemon import serve;"
        f"sys.exit(serve(Path({str(shop.path)!r}), log_format={form!r}, grace={grace}, jobs={jobs}))"
    )
    daemon = Daemon(shop.path.parent / f"{name}.log", "-c", code)
    try:
        yield daemon
    finally:
        daemon.kill()

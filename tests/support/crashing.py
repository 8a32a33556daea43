"""A disk that loses its power at a chosen operation: what was not forced to it is torn or gone."""

from __future__ import annotations

import contextlib
import gc
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import snapdb
from snapdb import Database
from tests.support.inside.storage import Disk
from tests.support.thoroughness import SOAK


class Crash(BaseException):  # nothing that runs may catch it: the process is dead
    """The power went."""


class CrashingDisk(Disk):
    """Counts operations and crashes at the `at`-th; every later one crashes again, as nobody is there to do it.

    Of what was made since this disk was put in place only that survives which was settled: a file's bytes by settling
    the file, its name (and a directory's) by settling the directory it is in. SQLite forces its own files.
    """

    def __init__(self, root: Path, at: int) -> None:
        self.root = root
        self.at = at
        self.count = 0
        self.dead = False
        self._random = random.Random(at)
        self._names = set(root.rglob("*"))
        self._bytes = set(self._names)

    def settle(self, path: Path) -> None:
        self._step()
        super().settle(path)
        if path.is_dir():
            self._names.update(path.iterdir())
        else:
            self._bytes.add(path)

    def make(self, directory: Path) -> None:
        self._step()
        super().make(directory)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        for known in (self._names, self._bytes):
            moved = {path for path in known if path != source and path.is_relative_to(source)}
            known |= {target / path.relative_to(source) for path in moved}
        if source.is_file() and source in self._bytes:
            self._bytes.add(target)
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def commit(self, connection: sqlite3.Connection) -> None:
        self._step()
        super().commit(connection)
        self._step()

    def _step(self) -> None:
        if not self.dead:
            self.count += 1
            if self.count < self.at:
                return
            self.dead = True
            self._cut(self.root)
        raise Crash(f"at operation {self.at}")

    def _cut(self, directory: Path) -> None:
        for path in directory.iterdir():
            if path.name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm", "readers.lock"):
                continue
            is_directory = path.is_dir()
            if path not in self._names:
                shutil.rmtree(path) if is_directory else path.unlink()
            elif is_directory:
                self._cut(path)
            elif path not in self._bytes:
                with path.open("r+b") as file:
                    file.truncate(self._random.randint(0, path.stat().st_size))


STEP = 1 if SOAK else 9
"""Every which point of failure is tried; `make soak` tries all."""


EVERY = 1 if SOAK else 3
"""After which crashes the statement is run again and what the crash left is swept; all that are tried are looked at."""


def contents(db: Database) -> dict[str, Any]:
    """All that a person can see, row ids too."""
    seen: dict[str, Any] = {"versions": len(db.execute("SHOW VERSIONS").arrow())}
    seen["loaded"] = db.execute("SELECT path, version FROM snapdb.loaded_files").fetchall()
    seen["tasks"] = db.execute("SELECT name, schedule, state FROM snapdb.tasks").fetchall()
    for row in db.execute("SHOW TABLES").fetchall():
        seen[row[0]] = db.execute(f'SELECT * FROM "{row[0]}"').fetchall()
    for row in db.execute("SHOW SNAPSHOTS").fetchall():
        seen[f"{row[0]}.knows"] = db.execute(f"SELECT *, e_id FROM {row[0]}.knows ORDER BY e_id").fetchall()
        sample = "SEEDS (SELECT name FROM person) AS person FANOUT (knows => [2])"
        seen[f"sample of {row[0]}"] = db.execute(f"SAMPLE FROM {row[0]} {sample}").fetchall()
    for row in db.execute("SHOW SAMPLERS").fetchall():
        seen[f"sampler {row[0]}"] = db.execute(f"DESCRIBE SAMPLER {row[0]}").fetchall()
    return seen


def crash_everywhere(original: Path, copy: Path, run: Callable[[Path, Disk | None], None]) -> int:
    """Run at every point of failure in a fresh copy; in how many of them the power went.

    After each crash the database holds what it held before or what it holds after, has no damage, and can be worked on.
    """
    before, after = (_after(original, copy, r) for r in (None, run))
    for at in range(1, 1000, STEP):
        _copy(original, copy)
        disk = CrashingDisk(copy, at)
        try:
            run(copy, disk)
        except Crash:
            gc.collect()  # what the dead process held open
        else:
            return at - 1
        found = _look(copy, at)
        assert found in (before, after), at
        if at // STEP % EVERY:
            continue
        if found == before != after:
            run(copy, None)
        assert _swept(copy, at) == after, at
    raise AssertionError("it never ends")


def _look(path: Path, at: int) -> dict[str, Any]:
    with snapdb.connect(path) as db:
        assert db.execute("CHECK DATABASE").fetchall() == [], at
        return contents(db)


def _swept(path: Path, at: int) -> dict[str, Any]:
    """What is there after a VACUUM, which leaves nothing of what a crash left."""
    with snapdb.connect(path) as db:
        db.execute("VACUUM RETAIN INTERVAL '0 seconds'").fetchall()
        assert db.execute("VACUUM RETAIN INTERVAL '0 seconds' DRY RUN").fetchall() == [], at
        assert db.execute("CHECK DATABASE").fetchall() == [], at
        return contents(db)


def _after(original: Path, copy: Path, run: Callable[[Path, Disk | None], None] | None) -> dict[str, Any]:
    _copy(original, copy)
    if run is not None:
        run(copy, None)
    return _look(copy, 0)


def _copy(original: Path, copy: Path) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy)


def script(text: str) -> Callable[[Path, Disk | None], None]:
    """A run that opens a database on a disk and runs statements in it."""

    def run(path: Path, disk: Disk | None) -> None:
        db = Database(path, disk=disk)
        try:
            db.script(text)
        finally:
            with contextlib.suppress(Crash):
                db.close()

    return run

"""A disk that loses power at a chosen operation, so that data that was not synced is truncated or lost."""

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


class Crash(BaseException):  # not an Exception, because code under test must not catch it: the process is dead
    """The power failed."""


class CrashingDisk(Disk):
    """A disk that counts operations and crashes at operation `at` and at every later one.

    After the crash, only data that was synced since this disk was created survives: a file's content if the file was
    synced, and the name of a file or directory if its parent directory was synced. SQLite syncs its own files.
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


STEP = 1 if SOAK else 17
"""The step between tested points of failure. `make soak` tests all of them."""


EVERY = 1 if SOAK else 2
"""The step between crashes after which the statement is repeated and the remains of the crash are removed. The content
is checked after every crash."""


def contents(db: Database) -> dict[str, Any]:
    """Return everything that a user can see, including row ids."""
    seen: dict[str, Any] = {"versions": len(db.execute("SHOW VERSIONS").arrow())}
    seen["loaded"] = db.execute("SELECT path, version FROM snapdb.loaded_files").fetchall()
    seen["tasks"] = db.execute("SELECT name, schedule, state FROM snapdb.tasks").fetchall()
    seen["definitions"] = db.execute("SELECT * FROM snapdb.definitions").fetchall()
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
    """Run once per point of failure, each time in a new copy, and return the number of operations.

    After each crash, the content of the database must be that from before or after the run, the database must be
    undamaged, and statements must work.
    """
    before, after = (_after(original, copy, r) for r in (None, run))
    for at in range(1, 1000, STEP):
        _copy(original, copy)
        disk = CrashingDisk(copy, at)
        try:
            run(copy, disk)
        except Crash:
            gc.collect()  # closes files that the dead process held open
        else:
            return disk.count
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
    """Return the content after a VACUUM, which must leave no remains of the crash."""
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
    """Return a run that opens a database on a disk and executes statements."""

    def run(path: Path, disk: Disk | None) -> None:
        db = Database(path, disk=disk)
        try:
            db.script(text)
        finally:
            with contextlib.suppress(Crash):
                db.close()

    return run

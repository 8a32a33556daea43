"""A disk that loses its power at a chosen operation: what was not forced to it is torn or gone."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

from snapdb.storage.disk import Disk


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

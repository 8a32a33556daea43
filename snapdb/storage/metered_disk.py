"""A disk that keeps account: how many bytes were written for good, and what takes a name outside the database."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from snapdb.storage.disk import Disk


class MeteredDisk(Disk):
    """Hands everything on to another disk.

    A file counts from when it is forced to the disk until it is removed, under whatever name: what is given up before
    anything names it was never published.
    """

    def __init__(self, disk: Disk, leaving: Callable[[Path, Path], None]) -> None:
        """`leaving` is called before a file or folder takes another name, with the name it has and that one."""
        self._disk = disk
        self._leaving = leaving
        self._sizes: dict[Path, int] = {}
        self._lock = threading.Lock()

    def taken(self) -> int:
        """Bytes of the files that were written since this was last asked."""
        with self._lock:
            sizes, self._sizes = self._sizes, {}
        return sum(sizes.values())

    def settle(self, path: Path) -> None:
        self._disk.settle(path)
        if path.is_file():
            with self._lock:
                self._sizes[path] = path.stat().st_size

    def make(self, directory: Path) -> None:
        self._disk.make(directory)

    def rename(self, source: Path, target: Path) -> None:
        self._leaving(source, target)
        self._disk.rename(source, target)
        with self._lock:
            moved = [path for path in self._sizes if path.is_relative_to(source)]
            self._sizes |= {target / path.relative_to(source): self._sizes.pop(path) for path in moved}

    def remove(self, path: Path) -> None:
        self._disk.remove(path)
        with self._lock:
            for gone in [known for known in self._sizes if known.is_relative_to(path)]:
                del self._sizes[gone]

    def commit(self, connection: sqlite3.Connection) -> None:
        self._disk.commit(connection)

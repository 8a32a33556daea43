"""File operations for durability: write and sync, rename, remove, and hash."""

import errno
import hashlib
import os
import re
import shutil
import sqlite3
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

from snapdb.errors import DatabaseError

_KEPT = 50
"""The number of characters that a hidden path's name takes from the original name, because file systems limit the
length of names."""

_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
"""The system's messages for a full disk and an exceeded quota."""


class Disk:
    """All operations that durability depends on, and no others. Tests replace it with a disk that simulates crashes."""

    def settle(self, path: Path) -> None:
        """Sync a file, or a directory's entries, to disk (fsync)."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def make(self, directory: Path) -> None:
        """Create a directory and its missing parents durably. An existing directory is left alone."""
        missing = [d for d in (directory, *directory.parents) if not d.exists()]
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            self.settle(path.parent)  # a new name is durable only once the directory that contains it is synced

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file or directory atomically and durably."""
        source.rename(target)
        self.settle(target.parent)

    def remove(self, path: Path) -> None:
        """Remove an unreferenced file or directory. If it cannot be removed, it remains as an orphan."""
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def commit(self, connection: sqlite3.Connection) -> None:
        """Commit the catalog's transaction. SQLite syncs its log."""
        connection.execute("COMMIT")


def fresh_name() -> str:
    """Return a unique name."""
    return uuid.uuid4().hex


def hidden_beside(path: Path) -> Path:
    """Return a new hidden path in the same directory, and thus on the same file system, where a rename is atomic."""
    return path.parent / f".{fresh_name()[:12]}.{path.name[-_KEPT:]}"


def is_hidden_beside(path: Path) -> bool:
    """Return whether a path was returned by `hidden_beside`.

    >>> is_hidden_beside(hidden_beside(Path("/data/june"))), is_hidden_beside(Path("/data/.june"))
    (True, False)
    """
    return re.match(r"\.[0-9a-f]{12}\.", path.name) is not None


def hash_file(path: Path) -> tuple[int, str]:
    """Return the size of a file in bytes and its SHA-256, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
        return file.tell(), digest.hexdigest()


def unwritten(path: Path, reason: str) -> DatabaseError:
    """Return the error for a database file or folder that cannot be written. `reason` is the system's message.

    >>> unwritten(Path("t.parquet"), "No space left on device").code
    'disk-full'
    """
    if any(text in reason for text in _FULL):
        return DatabaseError(
            f"the disk is full: cannot write {path}; nothing was changed; free space (EXPIRE SNAPSHOTS and VACUUM free "
            "some) and run it again",
            code="disk-full",
        )
    return DatabaseError(f"cannot write {path}: {reason}; nothing was changed", code="cannot-write")


class MeteredDisk(Disk):
    """A disk that counts durably written bytes and observes renames.

    A file counts as soon as it is synced, and a rename does not change its count. A file that is removed before it is
    published does not count.
    """

    def __init__(self, disk: Disk, leaving: Callable[[Path, Path], None]) -> None:
        """`leaving` is called with both paths before a file or folder is renamed."""
        self._disk = disk
        self._leaving = leaving
        self._sizes: dict[Path, int] = {}
        self._lock = threading.Lock()

    def taken(self) -> int:
        """Return the total size in bytes of the files written since the last call."""
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

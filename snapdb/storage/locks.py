"""Readers' leases as kernel locks: they vanish with the process, even one that was killed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from snapdb.errors import CorruptError
from snapdb.storage.disk import MANIFEST, discard
from snapdb.storage.home import Home

__all__ = ["Lease", "reading_tables", "remove_unless_held"]


class Lease:
    """A shared lock on the manifest of every directory given, until `release`. Works on read-only files."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self._descriptors: list[int] = []
        try:
            for directory in directories:
                self._descriptors.append(_share(directory / MANIFEST))
        except OSError as error:
            self.release()
            raise CorruptError(f"{error.filename} is gone; create the snapshot again") from error

    def release(self) -> None:
        """Let go of every lock; a second time does nothing."""
        while self._descriptors:
            os.close(self._descriptors.pop())


@contextmanager
def reading_tables(home: Home) -> Iterator[None]:
    """Hold readers.lock shared, so that no file of a table is removed under a SELECT."""
    path = home.path / "readers.lock"
    try:
        descriptor = _share(path) if home.read_only else _share(path, os.O_CREAT)
    except FileNotFoundError:  # read-only and never written: nobody can be removing anything
        yield
        return
    try:
        yield
    finally:
        os.close(descriptor)


def remove_unless_held(directory: Path) -> bool:
    """Remove a published directory that no reader holds; one that is held stays, as an orphan to collect later."""
    try:
        descriptor = os.open(directory / MANIFEST, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        discard(directory)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def _share(path: Path, flags: int = 0) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags, 0o666)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor

"""Readers' leases as kernel locks: they vanish with the process, even one that was killed."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from snapdb.errors import CorruptError
from snapdb.storage.disk import MANIFEST
from snapdb.storage.home import Home


class Lease:
    """A shared lock on the manifest of every directory given, until `release`. Works on read-only files."""

    def __init__(self, directories: Iterable[Path], folders: Iterable[Path] = (), *, partial: bool = False) -> None:
        """Takes the locks.

        Args:
            folders: Not published as one: no file in them is removed while the lease is held.
            partial: What is missing is not locked, but listed in `missing`; else it is an error.

        Raises:
            CorruptError: a manifest or a folder is missing, or may not be read.
        """
        self.missing: list[Path] = []
        """The manifests and folders that are not there."""
        self._descriptors: list[int] = []
        try:
            for path in (*(directory / MANIFEST for directory in directories), *folders):
                if partial and not path.exists():
                    self.missing.append(path)
                else:
                    self._descriptors.append(_share(path))
        except OSError as error:
            self.release()
            raise CorruptError(f"{error.filename} is gone; create the snapshot again", code="missing-file") from error

    def release(self) -> None:
        """Let go of every lock; a second time does nothing."""
        while self._descriptors:
            os.close(self._descriptors.pop())


class TablesLock:
    """readers.lock held shared until `release`: meanwhile no file that the catalog names is removed.

    Statements take it before they look at the catalog; so whoever holds it alone knows that nobody is reading tables
    or writing files that no version names yet.
    """

    def __init__(self, home: Home) -> None:
        path = home.path / "readers.lock"
        try:
            self._descriptor: int | None = _share(path) if home.read_only else _share(path, os.O_CREAT)
        except FileNotFoundError:  # read-only and never written: nobody can be removing anything
            self._descriptor = None

    def alone(self, patience: float = 2.0) -> bool:
        """Hold it against everybody else; False when others did not let go in time, and then it is shared again."""
        if self._descriptor is None:
            return False
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() > deadline:
                    self.share()
                    return False
                time.sleep(0.02)

    def share(self) -> None:
        """Let others in again."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def release(self) -> None:
        """Let go; a second time does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def taking_turns(home: Home) -> Iterator[None]:
    """Allot ids while no other process does: two at once would be refused by the catalog, and one do its work again."""
    descriptor = os.open(home.path / "ids.lock", os.O_RDONLY | os.O_CLOEXEC | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def merging_alone(home: Home) -> Iterator[bool]:
    """Whether no other process merges files by itself during the block: two at once would do the same work twice."""
    descriptor = os.open(home.path / "merges.lock", os.O_RDONLY | os.O_CLOEXEC | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def remove_unless_held(home: Home, directory: Path) -> bool:
    """Remove a published directory that no reader holds; one that is held stays, to be collected later."""
    return _remove_unless_locked(home, directory, directory / MANIFEST)


def remove_file_unless_held(home: Home, path: Path) -> bool:
    """Remove a file, unless a lease holds the folder that it is in."""
    return _remove_unless_locked(home, path, path.parent)


def _remove_unless_locked(home: Home, path: Path, locked: Path) -> bool:
    try:
        descriptor = os.open(locked, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        home.disk.remove(path)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def _share(path: Path, flags: int = 0) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags, 0o666)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor

"""File locks: who uses the catalog, who reads tables, and who holds a published directory."""

from __future__ import annotations

import fcntl
import os
import struct
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from snapdb.errors import CorruptError, LockedError
from snapdb.storage.catalog_db.db_dir import CATALOG, Home
from snapdb.storage.disk import unwritten
from snapdb.storage.manifests import MANIFEST

_LOCK_FILE = "catalog.lock"

_WRITER, _USERS = (0, 1), (1, 1)
"""Start and length in the lock file: held by the one writer, and shared by all transactions, which keeps the
write-ahead log from being folded in under a reader."""
_SHARED_RANGE = (0x40000002, 510)
"""SQLite's SHARED lock in the database file: deleting the write-ahead log takes it exclusively."""
_DEAD_MAN_SWITCH = (128, 1)
"""In SQLite's shared memory (UNIX_SHM_DMS): a process that finds it free assumes that its user crashed, and truncates
the memory."""
_WAL_HEADER = slice(18, 20)
"""In the database file: 2, 2 in write-ahead-log mode."""

_PAUSE = 0.002
"""Seconds between two attempts at a lock."""

_AVAILABLE = hasattr(fcntl, "F_OFD_SETLK")
"""Linux has these locks; elsewhere SQLite's own are all there is."""


class CatalogLock:
    """What one open catalog holds: its files against deletion while it is open, and the turns of transactions."""

    def __init__(self, home: Home) -> None:
        """Protects a catalog that is there already from now on; a new one is protected by `pin`."""
        self._home = home
        self._descriptors: list[int] = []
        self._finalizer = weakref.finalize(self, _close_all, self._descriptors)
        if self._protects:
            self._share(home.catalog, _SHARED_RANGE, where=_is_wal)

    @property
    def _protects(self) -> bool:
        return _AVAILABLE and not self._home.immutable

    def pin(self) -> None:
        """Protect the files that SQLite has opened by now, until `release`."""
        if not self._protects:
            return
        if not self._descriptors:
            self._share(self._home.catalog, _SHARED_RANGE, where=_is_wal)
        self._share(self._home.path / f"{CATALOG}-shm", _DEAD_MAN_SWITCH)
        if not self._home.read_only:
            _let_go(self._open())  # made now, so that readers find it

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A transaction that reads: meanwhile the write-ahead log keeps what it sees.

        Raises:
            LockedError: the log was being folded in for longer than a transaction waits.
        """
        descriptor = self._open()
        try:
            if descriptor is not None:
                _wait(descriptor, fcntl.F_RDLCK, _USERS, self._home)
            yield
        finally:
            _let_go(descriptor)

    @contextmanager
    def writing(self, patience: float) -> Iterator[int | None]:
        """A transaction that writes, alone among the writers. Gives what `folding` takes.

        Raises:
            LockedError: another writer did not finish within `patience` seconds.
        """
        descriptor = self._open()
        try:
            if descriptor is not None:
                _wait(descriptor, fcntl.F_WRLCK, _WRITER, self._home, patience)
                _wait(descriptor, fcntl.F_RDLCK, _USERS, self._home, patience)
            yield descriptor
        finally:
            _let_go(descriptor)

    def is_alone(self, descriptor: int | None) -> bool:
        """Whether a writer that has committed is the only user now; then no transaction begins until it is done."""
        return descriptor is None or _lock(descriptor, fcntl.F_WRLCK, _USERS)

    @contextmanager
    def closing(self, *, whole: bool) -> Iterator[None]:
        """Closing the connection: SQLite may fold the log in and delete it only where no other connection uses it.

        Args:
            whole: The files at their places are the ones that were opened.
        """
        descriptor = self._open() if whole and self._descriptors and not self._home.read_only else None
        try:
            if descriptor is not None and _lock(descriptor, fcntl.F_WRLCK, _WRITER):
                for held in self._descriptors:
                    _lock(held, fcntl.F_UNLCK, (0, 0))
            yield
        finally:
            _let_go(descriptor)

    def release(self) -> None:
        """Let go of the files; a second time does nothing."""
        self._finalizer()

    def _share(
        self, path: Path, place: tuple[int, int], where: Callable[[int], bool] = lambda descriptor: True
    ) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # SQLite needs no such file, or says what is wrong with it
            return
        if not where(descriptor):
            os.close(descriptor)
            return
        self._descriptors.append(descriptor)
        _wait(descriptor, fcntl.F_RDLCK, place, self._home)

    def _open(self) -> int | None:
        """A description of its own for each transaction, so that a process forked before it cannot hold its lock."""
        if not self._protects:
            return None
        path = self._home.path / _LOCK_FILE
        try:
            if not self._home.read_only:
                return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # read-only, and never written by a snapdb that has this file
            return None
        except OSError as error:
            raise unwritten(path, error.strerror or str(error)) from error


def _is_wal(catalog: int) -> bool:
    """Whether an open catalog keeps a write-ahead log.

    A new one is in another mode for a moment, in which its creator needs the lock that is shared here.
    """
    return os.pread(catalog, 100, 0)[_WAL_HEADER] == b"\x02\x02"


def _wait(descriptor: int, kind: int, place: tuple[int, int], home: Home, patience: float = 10.0) -> None:
    deadline = time.monotonic() + patience
    while not _lock(descriptor, kind, place):
        if time.monotonic() > deadline:
            raise LockedError(
                f"cannot use the catalog of {home.path}: another process held it for {patience:.0f} s; try again",
                code="catalog-busy",
            )
        time.sleep(_PAUSE)


def _lock(descriptor: int, kind: int, place: tuple[int, int]) -> bool:
    """Whether a lock of this kind is held now; it is taken, changed or let go without waiting."""
    start, length = place
    try:  # struct flock: type, whence, start, length, pid (which must be 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _let_go(descriptor: int | None) -> None:
    if descriptor is not None:
        _lock(descriptor, fcntl.F_UNLCK, (0, 0))  # a process forked meanwhile shares the description
        os.close(descriptor)


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


# Readers' leases as kernel locks: they vanish with the process, even one that was killed


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
def assigning_ids(home: Home) -> Iterator[None]:
    """Allot ids while no other process does: two at once would be refused by the catalog, and one do its work again."""
    descriptor = os.open(home.path / "ids.lock", os.O_RDONLY | os.O_CLOEXEC | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def merging_files(home: Home) -> Iterator[bool]:
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

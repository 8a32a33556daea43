"""Locks on the catalog that nothing a process opens and closes can drop.

SQLite locks by fcntl's record locks, and a process loses every record lock it has on a file when it closes any
descriptor of that file (fcntl(2)): reading `catalog.sqlite` as data is enough. The next process to close the database
would then find nobody there, and delete the write-ahead log that this one still appends to. Locks of open file
descriptions (F_OFD_SETLK) conflict with record locks, and end only with their own description.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from snapdb.errors import LockedError
from snapdb.storage.disk import unwritten
from snapdb.storage.home import CATALOG, Home

LOCK_FILE = "catalog.lock"

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
        path = self._home.path / LOCK_FILE
        try:
            if not self._home.read_only:
                return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # read-only, and never written by a snapdb that has this file
            return None
        except OSError as error:
            raise unwritten(path, error.strerror or str(error)) from error


def log_file(path: Path) -> tuple[int, int] | None:
    """Which file the write-ahead log of the database at `path` is; None: it is not there."""
    try:
        found = (path / f"{CATALOG}-wal").stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


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

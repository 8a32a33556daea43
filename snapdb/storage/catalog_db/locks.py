"""File locks: on the catalog, on tables while statements read them, and on published directories.

All of them are kernel locks. The system releases them when the process exits, even if it is killed.
"""

import fcntl
import os
import struct
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from snapdb.errors import CorruptError, LockedError
from snapdb.remote import provide
from snapdb.storage.catalog_db.db_dir import CATALOG, DatabaseDir
from snapdb.storage.disk import unwritten
from snapdb.storage.manifests import MANIFEST

_LOCK_FILE = "catalog.lock"

_WRITER, _USERS = (0, 1), (1, 1)
"""Byte ranges (start, length) in the lock file. The single writer locks the first range. All transactions share a lock
on the second one, so that no checkpoint runs while there is a reader."""
_SHARED_RANGE = (0x40000002, 510)
"""The range of SQLite's SHARED lock in the database file. Deleting the write-ahead log requires an exclusive lock on
it."""
_DEAD_MAN_SWITCH = (128, 1)
"""The range of SQLite's dead man's switch in its shared memory (UNIX_SHM_DMS). A process that finds it free assumes
that the last user crashed, and truncates the memory."""
_WAL_HEADER = slice(18, 20)
"""The bytes of the database file that are both 2 in write-ahead-log mode."""

_PAUSE = 0.002
"""Seconds between attempts to acquire a lock."""

_AVAILABLE = hasattr(fcntl, "F_OFD_SETLK")
"""Whether the system has open-file-description locks (Linux). On other systems, SQLite's own locks must suffice."""


class CatalogLock:
    """The locks of an open catalog, which protect its files from deletion and serialize its transactions."""

    def __init__(self, db_dir: DatabaseDir) -> None:
        """Protect the files of an existing catalog. `pin` protects the files of a new one."""
        self._db_dir = db_dir
        self._descriptors: list[int] = []
        self._finalizer = weakref.finalize(self, _close_all, self._descriptors)
        if self._protects:
            self._share(db_dir.catalog, _SHARED_RANGE, where=_is_wal)

    @property
    def _protects(self) -> bool:
        return _AVAILABLE and not self._db_dir.immutable

    def pin(self) -> None:
        """Protect the files that SQLite has opened, until `release` is called."""
        if not self._protects:
            return
        if not self._descriptors:
            self._share(self._db_dir.catalog, _SHARED_RANGE, where=_is_wal)
        self._share(self._db_dir.path / f"{CATALOG}-shm", _DEAD_MAN_SWITCH)
        if not self._db_dir.read_only:
            _unlock(self._open())  # create the lock file now, because readers cannot create it

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Run the block as a read transaction.

        Meanwhile, the write-ahead log keeps the pages that the transaction reads.

        Raises:
            LockedError: A log checkpoint took longer than a transaction waits.
        """
        descriptor = self._open()
        try:
            if descriptor is not None:
                _wait(descriptor, fcntl.F_RDLCK, _USERS, self._db_dir)
            yield
        finally:
            _unlock(descriptor)

    @contextmanager
    def writing(self, patience: float) -> Iterator[int | None]:
        """Run the block as the single write transaction. Yields the descriptor for `is_alone`.

        Raises:
            LockedError: Another writer did not finish within `patience` seconds.
        """
        descriptor = self._open()
        try:
            if descriptor is not None:
                _wait(descriptor, fcntl.F_WRLCK, _WRITER, self._db_dir, patience)
                _wait(descriptor, fcntl.F_RDLCK, _USERS, self._db_dir, patience)
            yield descriptor
        finally:
            _unlock(descriptor)

    def is_alone(self, descriptor: int | None) -> bool:
        """Return whether a committed writer is the only user. If so, no transaction starts until the writer ends."""
        return descriptor is None or _lock(descriptor, fcntl.F_WRLCK, _USERS)

    @contextmanager
    def closing(self, *, whole: bool) -> Iterator[None]:
        """Run the block, which closes the connection. SQLite deletes the log only if no other connection uses it.

        Args:
            whole: Whether the files at these paths are still the ones that were opened.
        """
        descriptor = self._open() if whole and self._descriptors and not self._db_dir.read_only else None
        try:
            # This process's shared locks would prevent SQLite from deleting the log. Release them once this process
            # holds the writer's lock, which shows that no writer is active.
            if descriptor is not None and _lock(descriptor, fcntl.F_WRLCK, _WRITER):
                for held in self._descriptors:
                    _lock(held, fcntl.F_UNLCK, (0, 0))
            yield
        finally:
            _unlock(descriptor)

    def release(self) -> None:
        """Release the files. A second call has no effect."""
        self._finalizer()

    def _share(
        self, path: Path, place: tuple[int, int], where: Callable[[int], bool] = lambda descriptor: True
    ) -> None:
        """Open a file and hold a shared lock on a range of it until `release` is called."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # SQLite does not need the file, or reports the problem
            return
        if not where(descriptor):
            os.close(descriptor)
            return
        self._descriptors.append(descriptor)
        _wait(descriptor, fcntl.F_RDLCK, place, self._db_dir)

    def _open(self) -> int | None:
        """Open a new file description for each transaction, so that no process forked earlier shares its locks."""
        if not self._protects:
            return None
        path = self._db_dir.path / _LOCK_FILE
        try:
            if not self._db_dir.read_only:
                return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # the database is read-only, and no release that creates this file has written to it
            return None
        except OSError as error:
            raise unwritten(path, error.strerror or str(error)) from error


def _is_wal(catalog: int) -> bool:
    """Return whether an open catalog has a write-ahead log.

    A new catalog is briefly in another mode, in which its creator needs to lock the shared range exclusively.
    """
    return os.pread(catalog, 100, 0)[_WAL_HEADER] == b"\x02\x02"


def _wait(descriptor: int, kind: int, place: tuple[int, int], db_dir: DatabaseDir, patience: float = 10.0) -> None:
    """Acquire a lock within `patience` seconds, or raise LockedError."""
    deadline = time.monotonic() + patience
    # Poll, because a blocking call has no timeout. 2 ms is short compared with a commit's fsync.
    while not _lock(descriptor, kind, place):
        if time.monotonic() > deadline:
            raise LockedError(
                f"cannot use the catalog of {db_dir.path}: another process held it for {patience:.0f} s; try again",
                code="catalog-busy",
            )
        time.sleep(_PAUSE)


def _lock(descriptor: int, kind: int, place: tuple[int, int]) -> bool:
    """Acquire, change or release a lock without waiting. Returns whether it succeeded."""
    start, length = place
    try:  # struct flock: type, whence, start, length, pid, which must be 0 for open-file-description locks
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _unlock(descriptor: int | None) -> None:
    if descriptor is not None:
        # Unlock explicitly, because a process that was forked in the meantime shares the description and keeps it open.
        _lock(descriptor, fcntl.F_UNLCK, (0, 0))
        os.close(descriptor)


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


# Reader leases. A file with a shared lock is not removed.


class Lease:
    """A shared lock on the manifest of each given directory, held until `release` is called.

    Works for read-only files.
    """

    def __init__(self, directories: Iterable[Path], folders: Iterable[Path] = (), *, partial: bool = False) -> None:
        """Acquire the locks.

        Args:
            directories: The published directories.
            folders: Folders of single files. No file in them is removed while the lease is held.
            partial: Whether to add missing paths to `missing` instead of raising an error.

        Raises:
            CorruptError: A manifest or a folder is missing or cannot be read.
        """
        self.missing: list[Path] = []
        """The manifests and folders that do not exist."""
        self._descriptors: list[int] = []
        try:
            for path in (*(directory / MANIFEST for directory in directories), *folders):
                provide(path)
                if partial and not path.exists():
                    self.missing.append(path)
                else:
                    self._descriptors.append(_share(path))
        except OSError as error:
            self.release()
            raise CorruptError(
                f"{error.filename} no longer exists; create the snapshot again", code="missing-file"
            ) from error

    def release(self) -> None:
        """Release every lock. A second call has no effect."""
        while self._descriptors:
            os.close(self._descriptors.pop())


class TablesLock:
    """A shared lock on readers.lock, which prevents removal of files named in the catalog until `release` is called.

    Statements acquire it before they read the catalog. Therefore, while a process holds the lock exclusively, no other
    process reads tables or writes files that no version names yet.
    """

    def __init__(self, db_dir: DatabaseDir) -> None:
        path = db_dir.path / "readers.lock"
        try:
            self._descriptor: int | None = _share(path) if db_dir.read_only else _share(path, os.O_CREAT)
        except FileNotFoundError:  # the database is read-only and was never written, so no process removes files
            self._descriptor = None

    def alone(self, patience: float = 2.0) -> bool:
        """Acquire the lock exclusively.

        If other processes do not release it in time, downgrades to a shared lock and returns False.
        """
        if self._descriptor is None:
            return False
        deadline = time.monotonic() + patience
        while not try_lock(self._descriptor):
            if time.monotonic() > deadline:
                self.share()
                return False
            time.sleep(0.02)
        return True

    def share(self) -> None:
        """Downgrade to a shared lock."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def release(self) -> None:
        """Release the lock. A second call has no effect."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def assigning_ids(db_dir: DatabaseDir) -> Iterator[None]:
    """Hold the lock for assigning ids.

    If two processes assigned ids at the same time, the catalog would reject one of them, and that process would have to
    start over.
    """
    with _opened(db_dir.path / "ids.lock", os.O_CREAT) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def merging_files(db_dir: DatabaseDir) -> Iterator[bool]:
    """Yield whether no other process is merging files.

    Two processes that merge at the same time would duplicate work.
    """
    with _opened(db_dir.path / "merges.lock", os.O_CREAT) as descriptor:
        yield try_lock(descriptor)


def remove_unless_held(db_dir: DatabaseDir, path: Path, leased: Path) -> bool:
    """Remove a file or directory unless a lease locks `leased`, which is its folder or manifest.

    Returns whether it was removed.
    """
    try:
        with _opened(leased) as descriptor:
            if removed := try_lock(descriptor):
                db_dir.disk.remove(path)
            return removed
    except FileNotFoundError:
        return False


@contextmanager
def _opened(path: Path, flags: int = 0) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock a file exclusively without waiting. Returns whether it succeeded."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _share(path: Path, flags: int = 0) -> int:
    """Wait for a shared lock on a file. Returns the file's new descriptor."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags, 0o666)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor

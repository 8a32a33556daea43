"""The connection to the catalog's SQLite file: short transactions, pending deletes, and format upgrades."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

from snapdb.errors import CorruptError, DatabaseError, LockedError
from snapdb.storage.catalog_db.codec import VERSION_LOG, VersionLog
from snapdb.storage.catalog_db.db_dir import (
    CATALOG,
    DatabaseDir,
    check_in_place,
    file_id,
    no_database,
    open_db_dir,
    read_format,
)
from snapdb.storage.catalog_db.locks import CatalogLock, TablesLock, remove_unless_held
from snapdb.storage.catalog_db.schema import FORMAT, migrate
from snapdb.storage.disk import Disk
from snapdb.storage.manifests import MANIFEST

_PATIENCE = 10.0
"""Seconds to wait for another writer's short transaction."""

_CHECKPOINT = 4 << 20
"""The size in bytes at which the write-ahead log is checkpointed into the catalog, once there are no readers."""

_HEAD = "SELECT version, hash FROM versions ORDER BY version DESC LIMIT 1"
"""Selects the newest version and its hash."""

PUBLISHED_FOLDERS = ("snapshots/", "topology/", "features/")
"""The folders of published directories. Garbage in other folders consists of single files."""

_IN_FOLDERS = " OR ".join(f"path LIKE '{folder}%'" for folder in PUBLISHED_FOLDERS)

_Mark = Callable[[sqlite3.Connection, int, bool], None]
"""Called inside a transaction before it commits, with the head at its start and whether it publishes a version."""


class CatalogDb:
    """The SQLite connection to a catalog. A version row is a commit, so readers see all of a version or none of it."""

    def __init__(self, db_dir: DatabaseDir) -> None:
        self._lock = threading.RLock()
        self._closed = False
        self._process = os.getpid()
        self._db_dir = db_dir
        self.mark: _Mark | None = None
        """Records each transaction of a task run in the run's row, and rejects it if the run was given up."""
        self._files = CatalogLock(db_dir)
        try:
            self._connection = _connect(db_dir)
            version, application = read_format(self._connection)
            db_dir.check_format(version, application)
            if version == 0:
                _make(self._connection, db_dir)
            self._files.pin()
        except sqlite3.DatabaseError as error:
            self._files.release()
            raise _storage_error(error, f"cannot open {db_dir.catalog}") from error
        except BaseException:
            self._files.release()
            raise
        self._wal = db_dir.path / f"{CATALOG}-wal"
        self.file = file_id(db_dir.catalog)
        """The id of the open file, which does not change even if another file is moved to its path."""
        self._wal_id = file_id(self._wal)

    @property
    def db_dir(self) -> DatabaseDir:
        """The database directory."""
        return self._db_dir

    def rows(self, query: str, parameters: Sequence[str | int] = ()) -> list[sqlite3.Row]:
        """Return the rows of a SELECT."""
        with self.reading() as connection:
            return connection.execute(query, parameters).fetchall()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Run the block in a read transaction, in which all SELECTs see one state of the catalog.

        Raises:
            CorruptError: The catalog cannot be read.
            DatabaseError: The catalog no longer exists.
        """
        self._check_process()
        with self._lock:
            self._check_open()
            if self._connection.in_transaction:
                yield self._connection
                return
            with self._files.reading():
                self._check_files()
                try:
                    self._connection.execute("BEGIN")
                    yield self._connection
                except sqlite3.DatabaseError as error:
                    raise _storage_error(error, "cannot read the catalog") from error
                finally:
                    self._undo()

    @contextmanager
    def writing(self, *, publishes: bool = False, counted: bool = True) -> Iterator[sqlite3.Connection]:
        """Run the block in the single write transaction, which commits if the block ends without an error.

        Args:
            publishes: Whether the transaction completes the running statement. All other effects of the statement can
                be repeated or omitted.
            counted: Whether the transaction changes rows that loaded catalogs have read, which makes those catalogs
                stale.

        Raises:
            LockedError: Another writer did not finish in time.
            DatabaseError: The disk failed.
            CorruptError: Published versions are missing from the catalog.
        """
        self._check_process()
        with self._lock:
            self._check_open()
            with self._files.writing(_PATIENCE) as turn:
                self._check_files()
                yield from self._transaction(publishes, counted)
                if self._log_is_long() and self._files.is_alone(turn):
                    self._checkpoint()

    def _transaction(self, publishes: bool, counted: bool) -> Iterator[sqlite3.Connection]:
        """Run the block in a write transaction, which is recorded in the version log if it publishes a version."""
        try:
            # IMMEDIATE makes SQLite acquire the write lock now. Otherwise, a transaction that reads before it writes
            # could fail in between.
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise _storage_error(error, "cannot write the catalog") from error
        try:
            head, _ = before = self._head()
            VersionLog(self._db_dir.path).check_not_forked(self._connection)
            yield self._connection
            if self.mark is not None:
                self.mark(self._connection, head, publishes)
            if counted:
                self._connection.execute("UPDATE facts SET value = value + 1 WHERE name = 'changes'")
            after = self._head()
            self._db_dir.disk.commit(self._connection)
        except sqlite3.DatabaseError as error:
            self._undo()
            raise _storage_error(error, "cannot write the catalog") from error
        except BaseException:
            self._undo()
            raise
        # Log the version after the commit. If it were logged first, a crash in between would look like a fork. A
        # missing entry is harmless.
        if after != before:
            VersionLog(self._db_dir.path).append(*after)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Close the file. The last connection to close checkpoints the write-ahead log into it."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            in_place = file_id(self._wal) == self._wal_id and file_id(self._db_dir.catalog) == self.file
            with self._files.closing(whole=in_place):
                self._connection.close()
            self._files.release()

    def _head(self) -> tuple[int, str]:
        """Return the newest version and its hash, or (0, "") before the first version."""
        row = self._connection.execute(_HEAD).fetchone()
        return (row[0], row[1]) if row else (0, "")

    def _log_is_long(self) -> bool:
        """Return whether the write-ahead log is long enough for a checkpoint."""
        try:
            return self._wal.stat().st_size >= _CHECKPOINT
        except OSError:
            return False

    def _checkpoint(self) -> None:
        """Checkpoint the write-ahead log into the catalog file. Requires that there are no other users."""
        try:
            # Do not wait, because a backup through SQLite may be reading the log.
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.DatabaseError:
            return  # the commits remain in the log, and the next writer retries
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {_PATIENCE * 1000:.0f}")

    def _check_files(self) -> None:
        """Raise DatabaseError if the catalog or its write-ahead log is not the file that was opened."""
        check_in_place(self._db_dir.path, self.file)
        if self._wal_id is not None and file_id(self._wal) != self._wal_id:
            raise DatabaseError(
                f"the write-ahead log of the database at {self._db_dir.path} was removed or replaced while it was "
                "open; connect to it again, and run CHECK DATABASE",
                code="database-gone",
            )

    def _check_open(self) -> None:
        if self._closed:
            raise DatabaseError("this database is closed; connect to it again", code="closed")

    def _check_process(self) -> None:
        # A forked process inherits SQLite's connection, which would corrupt the file if used, and DuckDB without its
        # threads.
        if os.getpid() != self._process:
            raise DatabaseError(
                "this database was opened before this process was forked; connect to it again", code="closed"
            )

    def _undo(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def delete_pending(self) -> int:
        """Delete every pending directory that no process is reading. Returns the number of deleted directories."""
        paths = [row["path"] for row in self.rows(f"SELECT path FROM garbage WHERE {_IN_FOLDERS} ORDER BY path")]
        return sum(delete_unless_held(self.db_dir, path) for path in paths if self.db_dir.inside(path).exists())


def _connect(db_dir: DatabaseDir) -> sqlite3.Connection:
    """Connect to the catalog file. A writer creates the file if it is missing."""
    connection = sqlite3.connect(
        db_dir.catalog_uri, uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    if not db_dir.read_only:
        connection.execute("PRAGMA journal_mode = WAL")
        # FULL syncs the log at each commit. With NORMAL, a power failure could lose versions that were already reported
        # as published.
        connection.execute("PRAGMA synchronous = FULL")
        # `CatalogLock` determines whether there is a reader whose log must be kept.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")  # a damaged schema must not be able to call functions
    return connection


def _make(connection: sqlite3.Connection, db_dir: DatabaseDir) -> None:
    """Create a new catalog. If two processes create the same database at once, only one of them creates the catalog."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            migrate(connection, db_dir.disk)
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    db_dir.disk.settle(db_dir.path)


def _storage_error(error: sqlite3.DatabaseError, doing: str) -> DatabaseError | LockedError:
    """Return the SnapdbError for a SQLite error."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return LockedError(f"{doing}: another process held it for {_PATIENCE:.0f} s; try again", code="catalog-busy")
    if "readonly" in text or "read-only" in text:
        return DatabaseError(f"{doing}: the database was opened read-only", code="read-only")
    if isinstance(error, sqlite3.OperationalError) and "disk I/O" in text:
        return DatabaseError(
            f"{doing}: {text}; check the disk and its free space, nothing was changed", code="cannot-write"
        )
    if any(word in text for word in ("malformed", "not a database", "no such", "UTF-8", "orphan index")):
        return CorruptError(
            f"{doing}: the catalog is damaged ({text}); restore it from a backup", code="damaged-catalog"
        )
    if "full" in text:
        return DatabaseError(f"{doing}: the disk is full; nothing was changed", code="disk-full")
    return DatabaseError(f"{doing}: {text}", code="cannot-read")


def add_pending_deletes(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    """Record directories as garbage, inside the transaction that removes them from the catalog.

    Any process can then find and delete them, even if the process that should delete them dies. The rows of directories
    that are already deleted are harmless: `forget_deleted` removes them in a later transaction.
    """
    moment = time.time_ns() // 1000
    connection.executemany("INSERT OR IGNORE INTO garbage VALUES (?, ?)", [(path, moment) for path in paths])


def forget_deleted(connection: sqlite3.Connection, db_dir: DatabaseDir) -> None:
    """Inside a transaction, remove the garbage rows of deleted directories."""
    rows = connection.execute(f"SELECT path FROM garbage WHERE {_IN_FOLDERS}").fetchall()
    deleted = [(row["path"],) for row in rows if not db_dir.inside(row["path"]).exists()]
    connection.executemany("DELETE FROM garbage WHERE path = ?", deleted)


def delete_unless_held(db_dir: DatabaseDir, path: str) -> bool:
    """Delete a pending directory. Returns False if a process reads it.

    A directory without a manifest was partially deleted earlier.
    """
    directory = db_dir.inside(path)
    if (directory / MANIFEST).exists():
        return remove_unless_held(db_dir, directory, directory / MANIFEST)
    db_dir.disk.remove(directory)
    return True


def upgrade(path: str | Path, *, disk: Disk | None = None) -> str:
    """Upgrade the database at `path` to this release's format. Returns a line that reports the result.

    The old catalog is kept next to the new one. Table files are not changed. After a crash, the database has either the
    old or the new format, and the upgrade can be repeated.

    Raises:
        DatabaseError: No database exists at `path`, or the disk failed. Nothing was changed.
        FormatError: The directory is not a snapdb database, or was written by a newer snapdb.
        LockedError: Another process uses the database.
    """
    if not (Path(path) / CATALOG).exists():
        raise no_database(Path(path), " to upgrade")
    db_dir = open_db_dir(Path(path), read_only=False, disk=disk, older=True)
    lock = TablesLock(db_dir)
    try:
        if not lock.alone():
            raise LockedError(
                f"{db_dir.path} is in use by another process; close it there and try again", code="catalog-busy"
            )
        with _opened(db_dir) as (connection, files), files.writing(patience=2.0):
            return _upgrade(db_dir, connection)
    except sqlite3.DatabaseError as error:
        raise _storage_error(error, f"cannot upgrade {db_dir.catalog}") from error
    except OSError as error:
        raise DatabaseError(
            f"cannot upgrade {db_dir.catalog}: {error.strerror}; nothing was changed", code="cannot-write"
        ) from error
    finally:
        lock.release()


@contextmanager
def _opened(db_dir: DatabaseDir) -> Iterator[tuple[sqlite3.Connection, CatalogLock]]:
    """Open the catalog, in any format, and its lock. Both are closed when the block ends."""
    files = CatalogLock(db_dir)
    try:
        connection = _connect(db_dir)
        try:
            yield connection, files
        finally:
            with files.closing(whole=True):
                connection.close()
    finally:
        files.release()


def _upgrade(db_dir: DatabaseDir, connection: sqlite3.Connection) -> str:
    """Copy the catalog, then migrate it. Returns a line that reports the result."""
    version = _old_format(db_dir, connection)
    if version == FORMAT:
        return f"nothing to do: {db_dir.path} already has format {version}, the newest one"
    kept = _back_up(db_dir, connection, version)
    migrate(connection, db_dir.disk)
    db_dir.disk.remove(db_dir.path / VERSION_LOG)  # a migration may change the versions' hashes
    return f"{db_dir.path}: format {version} → {FORMAT}; the old catalog was saved as {kept.name}"


def _old_format(db_dir: DatabaseDir, connection: sqlite3.Connection) -> int:
    """Return the catalog's format if it can be upgraded."""
    version, application = read_format(connection)
    if version == 0:
        raise DatabaseError(
            f"{db_dir.catalog} is empty, so there is nothing to upgrade; open the database to create it",
            code="nothing-to-upgrade",
        )
    db_dir.check_format(max(version, FORMAT), application)
    return version


def _back_up(db_dir: DatabaseDir, connection: sqlite3.Connection, version: int) -> Path:
    """Write a synced copy of the catalog with an unused name."""
    names = (f"{CATALOG}.format-{version}{'' if n == 1 else f'.{n}'}" for n in count(1))
    kept = next(db_dir.path / name for name in names if not (db_dir.path / name).exists())
    staging = db_dir.path / f".{kept.name}.tmp"
    db_dir.disk.remove(staging)
    with closing(sqlite3.connect(staging, isolation_level=None)) as copy:
        connection.backup(copy)
        # The copy is a single file without a write-ahead log, so it can be copied or opened separately.
        copy.execute("PRAGMA journal_mode = DELETE")
    db_dir.disk.settle(staging)
    db_dir.disk.rename(staging, kept)
    return kept

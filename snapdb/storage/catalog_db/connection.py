"""The SQLite file behind the catalog: one connection, short transactions, retries with back-off."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from snapdb.errors import CorruptError, DatabaseError, LockedError
from snapdb.storage.catalog_db.chain import append_version, check_not_forked
from snapdb.storage.catalog_db.db_dir import CATALOG, DatabaseDir, catalog_uri, check_format, check_in_place, file_id
from snapdb.storage.catalog_db.locks import CatalogLock
from snapdb.storage.catalog_db.schema import migrate

_PATIENCE = 10.0
"""Seconds to wait for another writer's short transaction."""

_CHECKPOINT = 4 << 20
"""Bytes of the write-ahead log from which on it is folded into the catalog, as soon as there is no reader."""

_HEAD = "SELECT version, hash FROM versions ORDER BY version DESC LIMIT 1"

_Mark = Callable[[sqlite3.Connection, int, bool], None]
"""Called inside a transaction before it commits, with the head that it began at, and whether it publishes."""


class CatalogDb:
    """Rows about tables, versions, graphs and snapshots. A version row is a commit: it is there or it is not."""

    def __init__(self, db_dir: DatabaseDir) -> None:
        self._lock = threading.RLock()
        self._closed = False
        self._process = os.getpid()
        self._db_dir = db_dir
        self.mark: _Mark | None = None
        """What records each transaction of a task's run in the run's row, and rejects it when the run was given up."""
        self._files = CatalogLock(db_dir)
        try:
            self._connection = connect_catalog(db_dir)
            if _format(self._connection, db_dir) == 0:
                _make(self._connection, db_dir)
            self._files.pin()
        except sqlite3.DatabaseError as error:
            self._files.release()
            raise plain(error, f"cannot open {db_dir.catalog}") from error
        except BaseException:
            self._files.release()
            raise
        self._wal = db_dir.path / f"{CATALOG}-wal"
        self.file = file_id(db_dir.catalog)
        """The id of the open file, even when another file takes its path later."""
        self._wal_id = file_id(self._wal)

    @property
    def db_dir(self) -> DatabaseDir:
        """The database directory."""
        return self._db_dir

    def rows(self, query: str, parameters: tuple[Any, ...] = ()) -> list[sqlite3.Row]:
        """The rows of a SELECT."""
        with self.reading() as connection:
            return connection.execute(query, parameters).fetchall()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A read transaction: all its SELECTs see one moment.

        Raises:
            CorruptError: the catalog cannot be read.
            DatabaseError: it does not exist any more.
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
                    raise plain(error, "cannot read the catalog") from error
                finally:
                    self._undo()

    @contextmanager
    def writing(self, *, publishes: bool = False, counted: bool = True) -> Iterator[sqlite3.Connection]:
        """The one write transaction; it commits when the block ends without an error.

        Args:
            publishes: It completes the running statement, whose other effects can be repeated or left out.
            counted: It changes what loaded catalogs hold, so that they are out of date.

        Raises:
            LockedError: another writer did not finish in time.
            DatabaseError: the disk refused.
            CorruptError: versions that were published are not in the catalog.
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
        """One write transaction, recorded in the version log when it publishes a version."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise plain(error, "cannot write the catalog") from error
        try:
            head, _ = before = self._head()
            check_not_forked(self._db_dir.path, self._connection)
            yield self._connection
            if self.mark is not None:
                self.mark(self._connection, head, publishes)
            if counted:
                self._connection.execute("UPDATE facts SET value = value + 1 WHERE name = 'changes'")
            after = self._head()
            self._db_dir.disk.commit(self._connection)
        except sqlite3.DatabaseError as error:
            self._undo()
            raise plain(error, "cannot write the catalog") from error
        except BaseException:
            self._undo()
            raise
        if after != before:
            append_version(self._db_dir.path, *after)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Close the file; the last connection folds the write-ahead log into it."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            in_place = file_id(self._wal) == self._wal_id and file_id(self._db_dir.catalog) == self.file
            with self._files.closing(whole=in_place):
                self._connection.close()
            self._files.release()

    def _head(self) -> tuple[int, str]:
        """The newest version and its hash."""
        row = self._connection.execute(_HEAD).fetchone()
        return (row[0], row[1]) if row else (0, "")

    def _log_is_long(self) -> bool:
        try:
            return self._wal.stat().st_size >= _CHECKPOINT
        except OSError:
            return False

    def _checkpoint(self) -> None:
        """Fold the write-ahead log into the catalog's file; requires that there is no other user."""
        try:
            self._connection.execute("PRAGMA busy_timeout = 0")  # a backup by SQLite itself may be reading
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.DatabaseError:
            return  # the commits stay in the log; the next writer tries again
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {_PATIENCE * 1000:.0f}")

    def _check_files(self) -> None:
        """Raise DatabaseError when the catalog or its write-ahead log is not the file that was opened."""
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
        # SQLite's connection must not be used in a forked process, where DuckDB would wait for threads it lacks.
        if os.getpid() != self._process:
            raise DatabaseError(
                "this database was opened by the process that this one was forked from; connect to it again",
                code="closed",
            )

    def _undo(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def connect_catalog(db_dir: DatabaseDir) -> sqlite3.Connection:
    """A connection to the catalog's file, which a writer creates when it is missing."""
    connection = sqlite3.connect(
        catalog_uri(db_dir), uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    if not db_dir.read_only:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # `CatalogLock` decides when there is no reader
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")  # a damaged schema must not call functions
    return connection


def _format(connection: sqlite3.Connection, db_dir: DatabaseDir) -> int:
    """The catalog's format, which this snapdb reads; 0 for a new file."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    check_format(db_dir, version, application)
    return int(version)


def _make(connection: sqlite3.Connection, db_dir: DatabaseDir) -> None:
    """Create a new catalog; of two processes that create one database at once, one does it."""
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


def plain(error: sqlite3.DatabaseError, doing: str) -> DatabaseError | LockedError:
    """The SnapdbError for an error of SQLite."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return LockedError(f"{doing}: another process held it for {_PATIENCE:.0f} s; try again", code="catalog-busy")
    if "readonly" in text or "read-only" in text:
        return DatabaseError(f"{doing}: the database is opened for reading only", code="read-only")
    if isinstance(error, sqlite3.OperationalError) and "disk I/O" in text:
        return DatabaseError(
            f"{doing}: {text}; look at the disk and its free space, nothing was changed", code="cannot-write"
        )
    if any(word in text for word in ("malformed", "not a database", "no such", "UTF-8", "orphan index")):
        return CorruptError(
            f"{doing}: the catalog is damaged ({text}); restore it from a backup", code="damaged-catalog"
        )
    if "full" in text:
        return DatabaseError(f"{doing}: the disk is full; nothing was changed", code="disk-full")
    return DatabaseError(f"{doing}: {text}", code="cannot-read")

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
from snapdb.storage.home import Home, catalog_file, catalog_uri, check_format, check_there
from snapdb.storage.migrate import migrate

__all__ = ["Ledger", "connect_catalog", "plain"]

_PATIENCE = 10.0
"""Seconds to wait for another writer's short transaction."""

_HEAD = "SELECT coalesce(max(version), 0) FROM versions"

Mark = Callable[[sqlite3.Connection, int, bool], None]
"""Called inside a transaction before it commits, with the head that it began at, and whether it publishes."""


class Ledger:
    """Rows about tables, versions, graphs and snapshots. A version row is a commit: it is there or it is not."""

    def __init__(self, home: Home) -> None:
        self._lock = threading.RLock()
        self._closed = False
        self._process = os.getpid()
        self._home = home
        self.mark: Mark | None = None
        """Where a task's run does the writing: it notes each transaction in the run's row, and refuses it where the
        run was given up."""
        try:
            self._connection = connect_catalog(home)
            if _format(self._connection, home) == 0:
                _make(self._connection, home)
        except sqlite3.DatabaseError as error:
            raise plain(error, f"cannot open {home.catalog}") from error
        self.file = catalog_file(home.path)
        """The file that is open, whatever is at its place later."""

    @property
    def home(self) -> Home:
        """The database directory."""
        return self._home

    def rows(self, query: str, parameters: tuple[Any, ...] = ()) -> list[sqlite3.Row]:
        """What a SELECT gives, now."""
        with self.reading() as connection:
            return connection.execute(query, parameters).fetchall()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Several SELECTs that all see one moment.

        Raises:
            CorruptError: the catalog cannot be read.
            DatabaseError: it is not there any more.
        """
        self._check_process()
        with self._lock:
            self._check_open()
            check_there(self._home.path, self.file)
            if self._connection.in_transaction:
                yield self._connection
                return
            try:
                self._connection.execute("BEGIN")
                yield self._connection
            except sqlite3.DatabaseError as error:
                raise plain(error, "cannot read the catalog") from error
            finally:
                self._undo()

    @contextmanager
    def writing(self, *, publishes: bool = False, counted: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction that no other writer can be inside of; it commits when the block ends without an error.

        Args:
            publishes: After it the statement that runs is done: what is left can be done again, or be left.
            counted: What catalogs hold changes by it, so that those loaded before are out of date.

        Raises:
            LockedError: another writer did not finish in time.
            DatabaseError: the disk refused.
        """
        self._check_process()
        with self._lock:
            check_there(self._home.path, self.file)
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                raise plain(error, "cannot write the catalog") from error
            try:
                mark, head = self.mark, 0
                if mark is not None:
                    (head,) = self._connection.execute(_HEAD).fetchone()
                yield self._connection
                if mark is not None:
                    mark(self._connection, head, publishes)
                if counted:
                    self._connection.execute("UPDATE facts SET value = value + 1 WHERE name = 'changes'")
                self._home.disk.commit(self._connection)
            except sqlite3.DatabaseError as error:
                self._undo()
                raise plain(error, "cannot write the catalog") from error
            except BaseException:
                self._undo()
                raise

    def close(self) -> None:
        """Close the file; the last one out folds the write-ahead log back in."""
        with self._lock:
            self._closed = True
            self._connection.close()

    def _check_open(self) -> None:
        if self._closed:
            raise DatabaseError("this database is closed; connect to it again", code="closed")

    def _check_process(self) -> None:
        # SQLite's connection must not be used there, and DuckDB would wait for threads that were not forked with it.
        if os.getpid() != self._process:
            raise DatabaseError("this database was opened by the process that this one was forked from; connect to it "
                                "again", code="closed")  # fmt: skip

    def _undo(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def connect_catalog(home: Home) -> sqlite3.Connection:
    """A connection to the catalog's file, which is made where it is not there."""
    connection = sqlite3.connect(
        catalog_uri(home), uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    if not home.read_only:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")  # a damaged schema must not call functions
    return connection


def _format(connection: sqlite3.Connection, home: Home) -> int:
    """The catalog's format, one that we can read; 0 for a new file."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    check_format(home, found, application)
    return int(found)


def _make(connection: sqlite3.Connection, home: Home) -> None:
    """Make a new catalog. Two processes that make one database at once do it once."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            migrate(connection, home.disk)
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    home.disk.settle(home.path)


def plain(error: sqlite3.DatabaseError, doing: str) -> DatabaseError | LockedError:
    """SQLite's error as ours."""
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

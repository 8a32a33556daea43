"""The SQLite file behind the catalog: one connection, short transactions, retries with back-off."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote as url_quote

from snapdb.errors import CorruptError, DatabaseError, LockedError
from snapdb.storage.home import Home, check_format
from snapdb.storage.schema import APPLICATION_ID, FORMAT, MIGRATIONS

__all__ = ["Ledger"]

_PATIENCE = 10.0
"""Seconds to wait for another writer's short transaction."""


class Ledger:
    """Rows about tables, versions, graphs and snapshots. A version row is a commit: it is there or it is not."""

    def __init__(self, home: Home) -> None:
        self._lock = threading.RLock()
        self._closed = False
        try:
            self._connection = _connect(home)
            _check(self._connection, home)
            if not home.read_only:
                _migrate(self._connection)
        except sqlite3.DatabaseError as error:
            raise _plain(error, f"cannot open {home.catalog}") from error

    def rows(self, query: str, parameters: tuple[Any, ...] = ()) -> list[sqlite3.Row]:
        """What a SELECT gives, now."""
        with self._lock:
            self._check_open()
            return self._connection.execute(query, parameters).fetchall()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Several SELECTs that all see one moment."""
        with self._lock:
            self._check_open()
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                self._connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that no other writer can be inside of; it commits when the block ends without an error.

        Raises:
            LockedError: another writer did not finish in time.
            DatabaseError: the disk refused.
        """
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                raise _plain(error, "cannot write the catalog") from error
            try:
                yield self._connection
                self._connection.execute("UPDATE facts SET value = value + 1 WHERE name = 'changes'")
                self._connection.execute("COMMIT")
            except sqlite3.OperationalError as error:
                self._undo()
                raise _plain(error, "cannot write the catalog") from error
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
            raise DatabaseError("this database is closed; connect to it again")

    def _undo(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def _connect(home: Home) -> sqlite3.Connection:
    mode = "ro" if home.read_only else "rwc"
    uri = f"file:{url_quote(str(home.catalog))}?mode={mode}"
    if home.read_only and not os.access(home.path, os.W_OK) and not home.catalog.with_suffix(".sqlite-wal").exists():
        uri += "&immutable=1"  # SQLite would otherwise want to make a -shm file beside it
    connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    if not home.read_only:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _check(connection: sqlite3.Connection, home: Home) -> None:
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    check_format(home, found, application)


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring a new file to this format. Two processes that make one database at once do it once."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    try:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        for step in MIGRATIONS[found:]:
            for statement in filter(str.strip, step.split(";")):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _plain(error: sqlite3.DatabaseError, doing: str) -> DatabaseError | LockedError:
    text = str(error)
    if "locked" in text or "busy" in text:
        return LockedError(f"{doing}: another process held it for {_PATIENCE:.0f} s; try again")
    if "readonly" in text or "read-only" in text:
        return DatabaseError(f"{doing}: the database is opened for reading only")
    if "malformed" in text or "not a database" in text:
        return CorruptError(f"{doing}: {text}; restore it from a backup")
    if "full" in text:
        return DatabaseError(f"{doing}: the disk is full; nothing was changed")
    return DatabaseError(f"{doing}: {text}")

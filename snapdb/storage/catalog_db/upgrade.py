"""The upgrade of a database of an older format, after a backup of its catalog."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

from snapdb.errors import DatabaseError, LockedError
from snapdb.storage.catalog_db.chain import VERSION_LOG
from snapdb.storage.catalog_db.connection import connect_catalog, plain
from snapdb.storage.catalog_db.db_dir import CATALOG, DatabaseDir, check_format, no_database, open_db_dir
from snapdb.storage.catalog_db.locks import CatalogLock, TablesLock
from snapdb.storage.catalog_db.schema import FORMAT, migrate
from snapdb.storage.disk import Disk


def upgrade(path: str | Path, *, disk: Disk | None = None) -> str:
    """Bring the database at `path` to this snapdb's format, and return a line that reports what was done.

    The old catalog is kept beside the new one; table files stay unchanged. After a crash the database has the old or
    the new format, and the upgrade can be repeated.

    Raises:
        DatabaseError: there is no database at `path`, or the disk refused; nothing was changed.
        FormatError: it is no database of snapdb's, or of a newer snapdb.
        LockedError: another process uses it.
    """
    if not (Path(path) / CATALOG).exists():
        raise no_database(Path(path), " to upgrade")
    db_dir = open_db_dir(Path(path), read_only=False, disk=disk, older=True)
    lock = TablesLock(db_dir)
    try:
        if not lock.alone():
            raise LockedError(
                f"{db_dir.path} is being used by another process; close it there and try again", code="catalog-busy"
            )
        with _opened(db_dir) as (connection, files), files.writing(patience=2.0):
            return _upgrade(db_dir, connection)
    except sqlite3.DatabaseError as error:
        raise plain(error, f"cannot upgrade {db_dir.catalog}") from error
    except OSError as error:
        raise DatabaseError(
            f"cannot upgrade {db_dir.catalog}: {error.strerror}; nothing was changed", code="cannot-write"
        ) from error
    finally:
        lock.release()


@contextmanager
def _opened(db_dir: DatabaseDir) -> Iterator[tuple[sqlite3.Connection, CatalogLock]]:
    """The catalog, of any format, and its lock; both are closed when the block ends."""
    files = CatalogLock(db_dir)
    try:
        connection = connect_catalog(db_dir)
        try:
            yield connection, files
        finally:
            with files.closing(whole=True):
                connection.close()
    finally:
        files.release()


def _upgrade(db_dir: DatabaseDir, connection: sqlite3.Connection) -> str:
    version = _format(db_dir, connection)
    if version == FORMAT:
        return f"nothing to do: {db_dir.path} has format {version}, the newest that this snapdb knows"
    kept = _back_up(db_dir, connection, version)
    migrate(connection, db_dir.disk)
    db_dir.disk.remove(db_dir.path / VERSION_LOG)  # a step may chain the versions by other hashes
    return f"{db_dir.path}: format {version} → {FORMAT}; the old catalog is kept as {kept.name}"


def _format(db_dir: DatabaseDir, connection: sqlite3.Connection) -> int:
    """The catalog's format, from which there is an upgrade."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if version == 0:
        raise DatabaseError(
            f"{db_dir.catalog} is empty, so there is nothing to upgrade; open the database to make it",
            code="nothing-to-upgrade",
        )
    check_format(db_dir, max(version, FORMAT), application)
    return int(version)


def _back_up(db_dir: DatabaseDir, connection: sqlite3.Connection, version: int) -> Path:
    """A synced copy of the catalog under a name that was free."""
    names = (f"{CATALOG}.format-{version}{'' if n == 1 else f'.{n}'}" for n in count(1))
    kept = next(db_dir.path / name for name in names if not (db_dir.path / name).exists())
    staging = db_dir.path / f".{kept.name}.tmp"
    db_dir.disk.remove(staging)
    with closing(sqlite3.connect(staging, isolation_level=None)) as copy:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, to be copied or opened by itself
    db_dir.disk.settle(staging)
    db_dir.disk.rename(staging, kept)
    return kept

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
from snapdb.storage.catalog_db.db_dir import CATALOG, Home, check_format, no_database, open_home
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
    home = open_home(Path(path), read_only=False, disk=disk, older=True)
    lock = TablesLock(home)
    try:
        if not lock.alone():
            raise LockedError(
                f"{home.path} is being used by another process; close it there and try again", code="catalog-busy"
            )
        with _opened(home) as (connection, files), files.writing(patience=2.0):
            return _upgrade(home, connection)
    except sqlite3.DatabaseError as error:
        raise plain(error, f"cannot upgrade {home.catalog}") from error
    except OSError as error:
        raise DatabaseError(
            f"cannot upgrade {home.catalog}: {error.strerror}; nothing was changed", code="cannot-write"
        ) from error
    finally:
        lock.release()


@contextmanager
def _opened(home: Home) -> Iterator[tuple[sqlite3.Connection, CatalogLock]]:
    """The catalog, of any format, and its lock; both are closed when the block ends."""
    files = CatalogLock(home)
    try:
        connection = connect_catalog(home)
        try:
            yield connection, files
        finally:
            with files.closing(whole=True):
                connection.close()
    finally:
        files.release()


def _upgrade(home: Home, connection: sqlite3.Connection) -> str:
    version = _format(home, connection)
    if version == FORMAT:
        return f"nothing to do: {home.path} has format {version}, the newest that this snapdb knows"
    kept = _back_up(home, connection, version)
    migrate(connection, home.disk)
    home.disk.remove(home.path / VERSION_LOG)  # a step may chain the versions by other hashes
    return f"{home.path}: format {version} → {FORMAT}; the old catalog is kept as {kept.name}"


def _format(home: Home, connection: sqlite3.Connection) -> int:
    """The catalog's format, from which there is an upgrade."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if version == 0:
        raise DatabaseError(
            f"{home.catalog} is empty, so there is nothing to upgrade; open the database to make it",
            code="nothing-to-upgrade",
        )
    check_format(home, max(version, FORMAT), application)
    return int(version)


def _back_up(home: Home, connection: sqlite3.Connection, version: int) -> Path:
    """A synced copy of the catalog under a name that was free."""
    names = (f"{CATALOG}.format-{version}{'' if n == 1 else f'.{n}'}" for n in count(1))
    kept = next(home.path / name for name in names if not (home.path / name).exists())
    staging = home.path / f".{kept.name}.tmp"
    home.disk.remove(staging)
    with closing(sqlite3.connect(staging, isolation_level=None)) as copy:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, to be copied or opened by itself
    home.disk.settle(staging)
    home.disk.rename(staging, kept)
    return kept

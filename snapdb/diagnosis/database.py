"""The state of a database for a bug report: format, location, contents and locks. The database is only read."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from snapdb.diagnosis.finding import Finding, in_bytes
from snapdb.diagnosis.machine import free_space
from snapdb.errors import SnapdbError
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir, file_system, open_db_dir, read_format
from snapdb.storage.catalog_db.locks import TablesLock
from snapdb.storage.catalog_db.schema import FORMAT

_COUNTS = (
    ("tables", "SELECT count(*) FROM tables WHERE dropped IS NULL"),
    ("graphs", "SELECT count(*) FROM graphs"),
    ("snapshots", "SELECT count(*) FROM snapshots"),
    ("samplers", "SELECT count(*) FROM samplers"),
    ("tasks", "SELECT count(*) FROM tasks"),
)


def database_findings(path: Path) -> Iterator[Finding]:
    """Yield the state of the database at `path`. A database that cannot be read is reported as a problem."""
    try:
        db_dir = open_db_dir(path, read_only=True, older=True)
        yield free_space("database", "path", db_dir.path, "free space on this disk: VACUUM removes unused files")
        yield Finding("database", "file system", file_system(db_dir.path) or "unknown")
        yield Finding("database", "files", _files(db_dir.path))
        yield (stored := _format(db_dir))
        if stored.status == "ok":
            yield from _contents(db_dir)
    except (SnapdbError, sqlite3.DatabaseError, OSError) as error:
        yield Finding("database", "state", "cannot be read", "problem", str(error))


def _files(folder: Path) -> str:
    sizes = []
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # another process removed it
                sizes.append(os.lstat(os.path.join(place, name)).st_size)
    return f"{len(sizes):,} ({in_bytes(sum(sizes))})"


def _format(db_dir: DatabaseDir) -> Finding:
    """Return the catalog's format, compared with the format of this snapdb version."""
    with closing(sqlite3.connect(db_dir.catalog_uri, uri=True)) as connection:
        number, _ = read_format(connection)
    if number == FORMAT:
        return Finding("database", "format", str(number))
    value = f"{number}, this snapdb has {FORMAT}"
    return Finding("database", "format", value, "problem", f"run: snapdb upgrade {db_dir.path}")


def _contents(db_dir: DatabaseDir) -> Iterator[Finding]:
    with closing(CatalogDb(db_dir)) as catalog_db:
        (head,) = catalog_db.rows("SELECT max(version) FROM versions")[0]
        yield Finding("database", "head version", str(head or 0))
        for item, query in _COUNTS:
            yield Finding("database", item, f"{catalog_db.rows(query)[0][0]:,}")
        yield Finding("database", "journal", str(catalog_db.rows("PRAGMA journal_mode")[0][0]))
    yield Finding("database", "running statements", "yes" if _is_in_use(db_dir) else "none")


def _is_in_use(db_dir: DatabaseDir) -> bool:
    """Return whether a statement of another process currently holds the table lock."""
    if not (db_dir.path / "readers.lock").exists():
        return False
    lock = TablesLock(db_dir)
    try:
        return not lock.alone(patience=0)
    finally:
        lock.release()

"""Backups of a database in use. A backup consists of the catalog at one version, and every file that it names.

SQLite's backup interface copies the catalog. All other files are immutable, so hard links can replace copies on the
same file system. Otherwise, the bytes are copied.
"""

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from snapdb.errors import CorruptError, InputError
from snapdb.storage.catalog_db.codec import VersionLog
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import CATALOG, DatabaseDir, check_in_place
from snapdb.storage.catalog_db.locks import Lease
from snapdb.storage.check.database import verify_files
from snapdb.storage.disk import hidden_beside, unwritten
from snapdb.storage.gc import referenced_paths
from snapdb.storage.tables.segments import copy_file

_ATTEMPTS = 5
"""The maximum number of attempts to copy the catalog. An attempt fails if a snapshot is dropped before its files are
leased."""
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES)
"""The errors of file systems that cannot create a hard link to a file."""

_Report = Callable[[str, float | None], None]


class _BackedUp(NamedTuple):
    """The contents of a backup."""

    version: int
    """The newest version."""
    files: int
    """The number of files."""
    bytes: int
    """The total size of all files in bytes."""
    linked: int
    """The number of files that are hard links to the database's files."""


def back_up(catalog_db: CatalogDb, target: Path, *, link: bool, report: _Report) -> _BackedUp:
    """Copy the database to a directory that does not exist yet, atomically, and check every file of the copy.

    The caller must hold the tables' lock.

    Args:
        catalog_db: The database.
        target: The directory of the backup.
        link: Whether to create hard links instead of copies if the file system supports them.
        report: A function that is called with the current step and its completed fraction. An error that it raises
            aborts the backup.

    Raises:
        InputError: `target` exists, or no directory can be created there.
        CorruptError: A database file is missing or damaged.
        DatabaseError: The disk failed or is full.
    """
    db_dir = catalog_db.db_dir
    _check_target(db_dir, target)
    staging = hidden_beside(target)
    try:
        db_dir.disk.make(staging)
        version, lease = copied_catalog(catalog_db, staging, report)
        try:
            files = list(_files(db_dir, staging))
            linked, size = _place(db_dir, staging, files, link, report)
        finally:
            lease.release()
        _verify(db_dir, staging, report)
        _settle(db_dir, staging)
        db_dir.disk.rename(staging, target)
    except OSError as error:
        check_in_place(db_dir.path)
        raise unwritten(target, error.strerror or str(error)) from error
    finally:
        db_dir.disk.remove(staging)
    return _BackedUp(version, len(files), size, linked)


def _check_target(db_dir: DatabaseDir, target: Path) -> None:
    """Raise InputError if the target is inside the database, exists, or has no parent directory."""
    if Path(os.path.realpath(target)).is_relative_to(os.path.realpath(db_dir.path)):
        raise InputError(f"{target} is in the database directory; write a path outside it", code="unwritable-file")
    if os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
        raise InputError(
            f"{target} already exists; write the path of a directory that does not exist", code="folder-exists"
        )
    if not target.parent.is_dir():
        raise InputError(f"directory {target.parent} does not exist; create it first", code="unwritable-file")


def copied_catalog(catalog_db: CatalogDb, staging: Path, report: _Report) -> tuple[int, Lease]:
    """Copy the catalog. Returns the copy's newest version and a lease on the directories that the copy names."""
    for attempt in range(_ATTEMPTS):
        report("copying the catalog", None)
        _copy_catalog(catalog_db, staging)
        with closing(sqlite3.connect(staging / CATALOG, isolation_level=None)) as copy:
            versions = copy.execute("SELECT version, hash FROM versions ORDER BY version").fetchall()
            published = copy.execute("SELECT path FROM artefacts UNION ALL SELECT path FROM snapshots").fetchall()
        VersionLog(staging).write(versions)
        # The lease prevents other processes from deleting these directories while they are copied.
        try:
            return (versions[-1][0] if versions else 0), Lease(catalog_db.db_dir.inside(path) for (path,) in published)
        except CorruptError:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _copy_catalog(catalog_db: CatalogDb, staging: Path) -> None:
    """Copy the catalog with SQLite's backup interface, in one read transaction."""
    for name in (CATALOG, f"{CATALOG}-wal", f"{CATALOG}-shm"):
        (staging / name).unlink(missing_ok=True)
    with closing(sqlite3.connect(staging / CATALOG, isolation_level=None)) as copy, catalog_db.reading() as connection:
        connection.backup(copy)


def _files(db_dir: DatabaseDir, staging: Path) -> Iterator[Path]:
    """Yield the relative paths of all files that the copied catalog names directly, or through their directories."""
    with closing(sqlite3.connect(staging / CATALOG, isolation_level=None)) as copy:
        copy.row_factory = sqlite3.Row
        named = sorted(referenced_paths(copy))
    for path in map(db_dir.inside, named):
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        yield from (each.relative_to(db_dir.path) for each in inside)


def _place(db_dir: DatabaseDir, staging: Path, files: list[Path], link: bool, report: _Report) -> tuple[int, int]:
    """Link or copy the files. Returns the number of links, and the total bytes of all files."""
    linked = size = 0
    for number, name in enumerate(files):
        report("copying files", number / len(files))
        db_dir.disk.make((staging / name).parent)
        try:
            size += (db_dir.path / name).stat().st_size
            link = link and _is_linked(db_dir.path / name, staging / name)
            if not link:  # once a link fails, all remaining files are copied
                copy_file(str(db_dir.path / name), staging / name, lambda share: report("copying files", None))
                db_dir.disk.settle(staging / name)
        except FileNotFoundError as error:
            check_in_place(db_dir.path)
            raise CorruptError(
                f"{db_dir.path / name} is missing, so nothing was copied; CHECK DATABASE lists all damage",
                code="missing-file",
            ) from error
        linked += link
    return linked, size


def _is_linked(source: Path, target: Path) -> bool:
    """Return whether a hard link was created."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True


def _verify(db_dir: DatabaseDir, staging: Path, report: _Report) -> None:
    """Open the copy as a separate database and check it."""
    own = replace(db_dir, path=staging, read_only=False, immutable=False)
    catalog_db = CatalogDb(own)
    try:
        verify_files(catalog_db, report)
    finally:
        catalog_db.close()


def _settle(db_dir: DatabaseDir, staging: Path) -> None:
    """Sync the catalog and every directory, children first, before the backup gets its final name."""
    db_dir.disk.settle(staging / CATALOG)
    for directory, _, _ in os.walk(staging, topdown=False):
        db_dir.disk.settle(Path(directory))

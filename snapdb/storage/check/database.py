"""The check of a whole database: its files, its catalog and its version log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from sqlite3 import Row
from typing import NamedTuple

from snapdb.errors import CorruptError
from snapdb.storage.catalog_db.chain import logged_versions
from snapdb.storage.catalog_db.codec import MISREAD
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.catalog_db.locks import TablesLock
from snapdb.storage.check.catalog import (
    BACKUP,
    Contents,
    Problem,
    check_catalog,
    check_chain,
    check_fork,
    in_catalog,
    read_contents,
)
from snapdb.storage.check.rows import check_definitions
from snapdb.storage.disk import hash_file
from snapdb.storage.gc.orphans import DEFAULT_GRACE, Entry, find_orphans, referenced_dirs, referenced_paths
from snapdb.storage.manifests import MANIFEST, parse_manifest
from snapdb.storage.tables.commit import now

_SNAPSHOT = "DROP the snapshot and create it again"
_SHARED = "DROP the snapshots that use it, say VACUUM RETAIN INTERVAL '0 seconds', and create them again"
_GONE = "it was published and is not there"


_Report = Callable[[str, float | None], None]

_NOTES = "VACUUM removes it once nobody reads or writes"


class _PublishedFile(NamedTuple):
    """A published file, as it was recorded."""

    path: Path
    bytes: int
    sha256: str
    remedy: str


def _published_files(db_dir: DatabaseDir, contents: Contents) -> Iterator[_PublishedFile | Problem]:
    """Every published file, and the problems of the rows and manifests that should name them."""
    for table in ("segments", "id_segments"):
        for row in contents[table]:
            try:
                yield _PublishedFile(db_dir.inside(row["path"]), int(row["bytes"]), row["sha256"], BACKUP)
            except (CorruptError, ValueError, TypeError, AttributeError):
                yield _bad_row(table, row)
    shared = {row["path"] for row in contents["artefacts"]}
    for table, remedy in (("artefacts", _SHARED), ("snapshots", _SNAPSHOT)):
        for row in contents[table]:
            try:
                directory = db_dir.inside(row["path"])
            except (CorruptError, TypeError, AttributeError):
                yield _bad_row(table, row)
            else:
                yield from _directory(db_dir, directory, shared if table == "snapshots" else row["digest"], remedy)


def _compare_files(db_dir: DatabaseDir, files: Sequence[_PublishedFile], report: _Report) -> Iterator[Problem]:
    """Read every file, and yield those that are missing or have other bytes."""
    total, done = sum(file.bytes for file in files) or 1, 0
    for file in files:
        report("reading every file", min(done / total, 1.0))
        done += file.bytes
        path = str(file.path.relative_to(db_dir.path))
        try:
            size, digest = hash_file(file.path)
        except FileNotFoundError:
            yield Problem("missing", path, _GONE, file.remedy)
        except (OSError, ValueError) as error:
            yield Problem("damaged", path, f"it cannot be read: {error}", file.remedy)
        else:
            if size != file.bytes:
                yield Problem("damaged", path, f"it has {size} bytes instead of {file.bytes}", file.remedy)
            elif digest != file.sha256:
                yield Problem("damaged", path, "its bytes are not those that were published", file.remedy)


def _bad_row(table: str, row: Row) -> Problem:
    return in_catalog(f"a row of {table} is damaged: it names {row['path']!r}")


def _directory(
    db_dir: DatabaseDir, directory: Path, expected: set[str] | str, remedy: str
) -> Iterator[_PublishedFile | Problem]:
    """The files that a directory's manifest names, and the problems of the manifest.

    Args:
        expected: The digest of an artifact; for a snapshot's directory, the artifacts in the catalog.
    """
    path = str((directory / MANIFEST).relative_to(db_dir.path))
    try:
        listed = parse_manifest(directory)
    except (FileNotFoundError, NotADirectoryError):
        yield Problem("missing", path, _GONE, remedy)
        return
    except (CorruptError, ValueError) as error:
        yield Problem("damaged", path, f"it cannot be read: {error.__cause__ or error}", remedy)
        return
    if listed.digest != (expected if isinstance(expected, str) else None):
        yield Problem("damaged", path, "it is the manifest of something else", remedy)
    for name, (size, sha256) in listed.files.items():
        yield _PublishedFile(directory / name, size, sha256, remedy)
    for named in listed.directories if isinstance(expected, set) else ():
        if not _exists(db_dir, named):
            yield Problem("missing", path, f"it stands on {named}, which is not there", remedy)
        elif named not in expected:
            yield in_catalog(f"no row of artefacts names {named}, though {path} stands on it")


def _exists(db_dir: DatabaseDir, named: str) -> bool:
    try:
        return db_dir.inside(named).is_dir()
    except (CorruptError, ValueError):
        return False


# CHECK DATABASE


def check_database(catalog_db: CatalogDb, report: _Report = lambda what, share: None) -> Iterator[Problem]:
    """The problems of a database, damage before notes; requires that the tables' lock is held.

    Args:
        report: Called with the current step and the share of it that is done.

    Raises:
        LockedError: another process did not let the catalog be read.
    """
    db_dir = catalog_db.db_dir
    report("reading the catalog", None)
    # Listed before the catalog is read, which then names the files of commits meanwhile.
    old = find_orphans(db_dir, set(), now() - DEFAULT_GRACE)
    logged = logged_versions(db_dir.path)
    contents = read_contents(catalog_db, integrity=True)
    yield from contents.problems
    yield from _contradictions(db_dir, contents, logged)
    files: list[_PublishedFile] = []
    for item in _published_files(db_dir, contents):
        if isinstance(item, _PublishedFile):
            files.append(item)
        elif not contents.whole or _is_named(catalog_db, item.path):
            yield item
    for problem in _compare_files(db_dir, files, report):
        if not contents.whole or _is_named(catalog_db, problem.path):
            yield problem
    if contents.whole:
        yield from _orphans(db_dir, contents, old)


def catalog_damage(catalog_db: CatalogDb) -> Problem | None:
    """The first problem of the catalog itself, which is read completely; None when there is none."""
    logged = logged_versions(catalog_db.db_dir.path)
    contents = read_contents(catalog_db, integrity=True)
    return next(iter([*contents.problems, *_contradictions(catalog_db.db_dir, contents, logged)]), None)


def _contradictions(db_dir: DatabaseDir, contents: Contents, logged: list[tuple[int, str]]) -> Iterator[Problem]:
    """The contradictions of the catalog with its chains, itself, and the earlier entries of the version log."""
    if contents.whole:
        yield from _guarded(check_chain(contents))
        yield from check_fork(contents, logged)
        yield from _guarded(check_catalog(contents))
        yield from _guarded(check_definitions(db_dir, contents))


def _guarded(problems: Iterable[Problem]) -> Iterator[Problem]:
    """The same problems, and one more if rows are so damaged that the check itself fails."""
    try:
        yield from problems
    except (*MISREAD, ArithmeticError) as error:
        yield in_catalog(f"it holds a value of the wrong kind: {type(error).__name__}: {error}")


def _is_named(catalog_db: CatalogDb, path: str) -> bool:
    """Whether the catalog still names a file or a directory above it: a snapshot may have been dropped meanwhile."""
    with catalog_db.reading() as connection:
        named = referenced_paths(connection)
    own = PurePosixPath(path)
    return any(str(p) in named for p in (own, *own.parents)) or path == "catalog.sqlite"


def _orphans(db_dir: DatabaseDir, contents: Contents, old: Iterable[Entry]) -> Iterator[Problem]:
    tables = ("segments", "id_segments", "artefacts", "snapshots", "garbage")
    known = {row["path"] for table in tables for row in contents[table]}
    known |= referenced_dirs(db_dir, contents["snapshots"])[0]
    for entry in old:
        if entry.path not in known:
            yield Problem("orphan", entry.path, f"nothing points at it ({entry.bytes:,} bytes)", _NOTES)


def verify_files(catalog_db: CatalogDb, report: _Report = lambda what, share: None) -> None:
    """Check a database; unreferenced files are no damage.

    Args:
        report: Called with the current step and the share of it that is done.

    Raises:
        CorruptError: the first damage.
    """
    lock = TablesLock(catalog_db.db_dir)
    try:
        for kind, path, problem, remedy in (p for p in check_database(catalog_db, report) if p.is_damage):
            raise CorruptError(f"{catalog_db.db_dir.path / path} ({kind}): {problem}; {remedy}", code="damaged-file")
    finally:
        lock.release()

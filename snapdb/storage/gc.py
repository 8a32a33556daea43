"""Garbage collection: orphan files, pending deletes, unused artifacts, and VACUUM."""

import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Literal, NamedTuple

from snapdb.errors import CorruptError, DatabaseError
from snapdb.storage.array_files import drop_cached_pages
from snapdb.storage.cache_reports import CacheReports
from snapdb.storage.catalog_db.codec import MISREAD
from snapdb.storage.catalog_db.connection import (
    PUBLISHED_FOLDERS,
    CatalogDb,
    add_pending_deletes,
    delete_unless_held,
    forget_deleted,
)
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.catalog_db.locks import TablesLock, remove_unless_held
from snapdb.storage.manifests import MANIFEST, parse_manifest
from snapdb.storage.store import Store
from snapdb.storage.tables.commit import now
from snapdb.storage.tables.compaction import Merge, compact, find_merges

DEFAULT_GRACE = 3_600_000_000
"""The default time, in microseconds, for which an unreferenced file is kept."""

_DEPTHS = {"tables": None, "ids": None, "topology": 2, "features": 2, "snapshots": 1}
"""The depth of the directories in each folder. None means that the folder contains single files, at any depth."""
_SPILL = re.compile(r"\.spill-(\d+)-[0-9a-f]+")
"""The name of a DuckDB spill directory, which contains the id of its process."""

_SHARED = ("topology/", "features/")
"""The folders of artifacts that snapshots share."""


class OrphanFile(NamedTuple):
    """A file, or a directory that is published and removed as a unit."""

    path: str
    """The path, relative to the database directory."""
    bytes: int
    """The size of the file, or of all files in the directory."""
    touched: int
    """The time of the last write to the path or to anything inside it, in microseconds since 1970 UTC."""


def referenced_paths(connection: sqlite3.Connection) -> set[str]:
    """Return the paths that the catalog names, except pending deletes."""
    tables = ("segments", "id_segments", "artefacts", "snapshots")
    return {row["path"] for row in connection.execute(" UNION ALL ".join(f"SELECT path FROM {t}" for t in tables))}


def referenced_dirs(db_dir: DatabaseDir, snapshots: Iterable[Row]) -> tuple[set[str], str | None]:
    """Return the artifacts used by snapshots (given as catalog rows), and the reason if the set may be incomplete."""
    used: set[str] = set()
    unread: str | None = None
    for row in snapshots:
        try:
            used.update(parse_manifest(db_dir.inside(row["path"])).directories)
        except (OSError, CorruptError):
            unread = f"snapshot {row['name']} may use it; cannot read its manifest"
    return used, unread


def find_orphans(db_dir: DatabaseDir, known: set[str], before: int) -> list[OrphanFile]:
    """Return the files and directories of the database that are not `known` and were last written before a time.

    Args:
        db_dir: The database directory.
        known: Relative paths that the catalog names, including garbage.
        before: The time, in microseconds since 1970 UTC.
    """
    files = (_orphan_file(db_dir, path) for path in _paths(db_dir) if str(path.relative_to(db_dir.path)) not in known)
    return sorted(file for file in files if file is not None and file.touched <= before)


def size_of(path: Path) -> int:
    """Return the size in bytes of a file, or of all files in a directory. 0 if the path does not exist."""
    return _bytes(_stats(path))


def _orphan_file(db_dir: DatabaseDir, path: Path) -> OrphanFile | None:
    """Return a path with its size and last write time, or None if it was removed concurrently."""
    stats = list(_stats(path))
    if not stats:
        return None
    touched = max(s.st_mtime_ns for s in stats) // 1000
    return OrphanFile(str(path.relative_to(db_dir.path)), _bytes(stats), touched)


def _bytes(stats: Iterable[os.stat_result]) -> int:
    """Return the total size of files in bytes, excluding directories."""
    return sum(s.st_size for s in stats if not stat.S_ISDIR(s.st_mode))


def _stats(path: Path) -> Iterator[os.stat_result]:
    """Yield the status of the files in a directory, or of the path if it is a file, a link or an empty directory."""
    directory = path.is_dir() and not path.is_symlink()
    for each in (list(_files(path)) if directory else []) or [path]:
        try:
            yield each.lstat()
        except OSError:
            continue


def _paths(db_dir: DatabaseDir) -> Iterator[Path]:
    """Yield all files and published directories of the database.

    They include staging directories and the spill directories of dead processes.
    """
    for folder, depth in _DEPTHS.items():
        yield from _files(db_dir.path / folder) if depth is None else _at_depth(db_dir.path / folder, depth)
    for path in _children(db_dir.path):
        spill = _SPILL.fullmatch(path.name)
        if re.fullmatch(r"\..+\.tmp", path.name) or (spill is not None and not _is_alive(int(spill[1]))):
            yield path


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder, at any depth."""
    for directory, _, names in os.walk(folder):
        yield from (Path(directory, name) for name in names)


def _at_depth(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the entries at a depth of a folder, and the files and links above that depth."""
    for path in _children(folder):
        if depth == 1 or path.is_symlink() or not path.is_dir():
            yield path
        else:
            yield from _at_depth(path, depth - 1)


def _children(folder: Path) -> list[Path]:
    """Return the entries of a folder, or none if it cannot be read."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _is_alive(process: int) -> bool:
    """Return whether a process exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # The process belongs to another user, or its id is out of range. Keep its files in both cases.
    except (PermissionError, OverflowError):
        return True
    return True


class _Unreferenced(NamedTuple):
    """A file or directory that the catalog does not use."""

    path: str
    """The path, relative to the database directory."""
    bytes: int
    """The size of the file, or of all files in the directory."""
    kind: Literal["garbage", "artefact", "orphan"]
    why: str
    """The reason it is unreferenced."""
    kept: str | None
    """The reason it is kept, or None if it can be removed once no process reads it."""


def _find_unreferenced(
    catalog_db: CatalogDb, moment: int, grace: int, replaced: Iterable[str] = ()
) -> list[_Unreferenced]:
    """Return every unreferenced file or directory.

    Args:
        catalog_db: The catalog.
        moment: The current time.
        grace: The time in microseconds for which unreferenced files are kept.
        replaced: Paths that become garbage at `moment`.
    """
    db_dir = catalog_db.db_dir
    # List the files before reading the catalog, so that a file published in between is not mistaken for an orphan.
    present = find_orphans(db_dir, set(), moment - grace)
    with catalog_db.reading() as connection:
        named = referenced_paths(connection)
        garbage = {row["path"]: row["since"] for row in connection.execute("SELECT path, since FROM garbage")}
        snapshots, shared = _references(connection)
    used, unread = _used(db_dir, snapshots, shared)
    garbage = {path: since for path, since in garbage.items() if path not in named} | dict.fromkeys(replaced, moment)
    idle = [path for path in sorted(shared.keys() - used) if _is_aged(db_dir, path, moment - grace)]
    stray = [o for o in present if o.path not in named | used | garbage.keys()]
    unreferenced = [
        _garbage(db_dir, path, moment - since, grace)
        for path, since in sorted(garbage.items())
        if not path.startswith(PUBLISHED_FOLDERS) or db_dir.inside(path).exists()
    ]
    unreferenced += [
        _Unreferenced(path, size_of(db_dir.inside(path)), "artefact", "no snapshot uses it", unread) for path in idle
    ]
    unreferenced += [
        _Unreferenced(o.path, o.bytes, "orphan", "orphan file", unread if o.path.startswith(_SHARED) else None)
        for o in stray
    ]
    return unreferenced


class _VacuumStep(NamedTuple):
    """The action taken for one file or folder, or the planned action with DRY RUN."""

    action: Literal["compact", "remove", "keep"]
    path: str
    """The path, relative to the database directory. For 'compact' it is a folder."""
    bytes: int
    """The size of the file in bytes, or the total size of the files that are merged."""
    reason: str
    """The reason shown to the user."""


def vacuum_database(
    store: Store,
    lock: TablesLock,
    table: int | None,
    grace: int,
    *,
    dry_run: bool,
    report: Callable[[str, float | None], None],
) -> Iterator[_VacuumStep]:
    """Merge small files, then remove unreferenced ones. Yields each step after it is done.

    Args:
        store: The database.
        lock: The tables' lock, held in shared mode.
        table: The only table whose files are merged, or None for all tables. Unreferenced files are removed for all
            tables in either case.
        grace: The time in microseconds for which an unreferenced file is kept.
        dry_run: Whether steps are only reported.
        report: Called with the current step and its completed fraction.
    """
    merged: list[Merge] = []
    with _damaged(store.db_dir), store.catalog_db.reading() as connection:
        merges = find_merges(connection, table)
    for number, merge in enumerate(merges):
        report(f"merging files of {merge.name}", number / len(merges))
        if dry_run or _compact(store, merge):
            merged.append(merge)
            what = {"rows": "rows", "deletes": "deleted rows", "ids": "keys"}[merge.kind]
            reason = f"{len(merge.members)} files with {what} of {merge.name} merged into one"
            yield _VacuumStep("compact", merge.folder, merge.bytes, reason)
        else:
            reason = f"another VACUUM was merging files of {merge.name}"
            yield _VacuumStep("keep", merge.folder, merge.bytes, reason)
    report("removing orphan files", None)
    replaced = [m.path for merge in merged for m in merge.members] if dry_run else []
    yield from _remove_garbage(store, lock, grace, replaced, dry_run=dry_run)


def _compact(store: Store, merge: Merge) -> bool:
    """Merge files, or return False if another VACUUM already merged them."""
    with _damaged(store.db_dir), store.sql_engine.session() as session:
        return compact(store.catalog_db, session, merge)


def _remove_garbage(
    store: Store, lock: TablesLock, grace: int, replaced: Sequence[str], *, dry_run: bool
) -> Iterator[_VacuumStep]:
    """Remove unreferenced files while no other process reads or writes tables."""
    alone = lock.alone(0.0 if dry_run else 2.0)
    try:
        moment = now()
        with _damaged(store.db_dir):
            unreferenced = _find_unreferenced(store.catalog_db, moment, grace, replaced)
        for file in unreferenced:
            if file.kept is not None:
                yield _VacuumStep("keep", file.path, file.bytes, file.kept)
            elif not alone or not (dry_run or _remove_unreferenced(store.catalog_db, file)):
                yield _VacuumStep("keep", file.path, file.bytes, f"{file.why}, but a reader uses it")
            else:
                yield _VacuumStep("remove", file.path, file.bytes, file.why)
        if not dry_run:
            # Arrays written by older releases are still cached in small pages.
            for path in store.db_dir.path.glob("*/**/*.npy"):
                drop_cached_pages(path)
            CacheReports(store.db_dir).clear()  # also remove the small reports of ended streams
            with store.catalog_db.writing(counted=False) as connection:
                forget_deleted(connection, store.db_dir)
    finally:
        if alone:
            lock.share()


@contextmanager
def _damaged(db_dir: DatabaseDir) -> Iterator[None]:
    """Raise CorruptError for damaged rows, because no file may be merged or removed based on them."""
    try:
        yield
    except MISREAD as error:
        raise CorruptError(
            f"{db_dir.catalog} is damaged ({error}); CHECK DATABASE lists the damage", code="damaged-catalog"
        ) from error
    except OSError as error:
        raise DatabaseError(
            f"cannot vacuum {db_dir.path}: {error.strerror}; CHECK DATABASE lists damage", code="cannot-read"
        ) from error


def _remove_unreferenced(catalog_db: CatalogDb, entry: _Unreferenced) -> bool:
    """Remove a file and its garbage row while no other process reads tables.

    Returns False if a reader holds the file.
    """
    db_dir = catalog_db.db_dir
    path = db_dir.inside(entry.path)
    # The row is removed first, so a crash in between leaves an orphan, which a later VACUUM removes. It never leaves a
    # row without files.
    if entry.kind == "artefact":
        _drop_rows(catalog_db, [entry.path])
    if entry.path.startswith("ids/") and path.is_file():
        removed = remove_unless_held(db_dir, path, path.parent)
    else:
        removed = delete_unless_held(db_dir, entry.path)
    if removed and entry.kind == "garbage":
        with catalog_db.writing() as connection:
            connection.execute("DELETE FROM garbage WHERE path = ?", (entry.path,))
    return removed


def remove_unused_artifacts(catalog_db: CatalogDb, before: int) -> list[str]:
    """Remove the artifacts that no snapshot uses while no other process reads tables, and return their paths.

    Args:
        catalog_db: The catalog.
        before: The time in microseconds since 1970 UTC. Newer artifacts are kept.
    """
    db_dir = catalog_db.db_dir
    with catalog_db.reading() as connection:
        snapshots, shared = _references(connection)
    used, unread = _used(db_dir, snapshots, shared)
    idle = [path for path in sorted(shared.keys() - used) if _is_aged(db_dir, path, before)]
    if unread is not None or not idle:  # an unreadable manifest may name any of them, so none is removed
        return []
    _drop_rows(catalog_db, idle)
    return [path for path in idle if delete_unless_held(db_dir, path)]


def _references(connection: Connection) -> tuple[list[Row], dict[str, str | None]]:
    """Return the rows of snapshots, and a mapping from artifact paths to families."""
    snapshots = connection.execute("SELECT name, path FROM snapshots ORDER BY id").fetchall()
    shared = {row["path"]: row["family"] for row in connection.execute("SELECT path, family FROM artefacts")}
    return snapshots, shared


def _used(
    db_dir: DatabaseDir, snapshots: Iterable[Row], shared: Mapping[str, str | None]
) -> tuple[set[str], str | None]:
    """Return the artifacts that snapshots use, and the reason if the set may be incomplete."""
    used, unread = referenced_dirs(db_dir, snapshots)
    return used | {path for path, family in shared.items() if str(family).removeprefix("outgoing:") in used}, unread


def _drop_rows(catalog_db: CatalogDb, paths: Sequence[str]) -> None:
    """Delete the rows of artifacts before their directories, so that a crash leaves no row without its directory."""
    with catalog_db.writing() as connection:
        connection.executemany("DELETE FROM artefacts WHERE path = ?", [(path,) for path in paths])
        add_pending_deletes(connection, paths)


def _garbage(db_dir: DatabaseDir, path: str, age: int, grace: int) -> _Unreferenced:
    if path.startswith(PUBLISHED_FOLDERS):  # readers hold leases on them, so no grace period is needed
        return _Unreferenced(path, size_of(db_dir.inside(path)), "garbage", "orphan file", None)
    kept = None if age >= grace else f"replaced less than {timedelta(microseconds=grace)} ago"
    return _Unreferenced(path, size_of(db_dir.inside(path)), "garbage", "a merged file replaces it", kept)


def _is_aged(db_dir: DatabaseDir, path: str, before: int) -> bool:
    """Return whether an artifact is older than a time, or incomplete."""
    manifest = db_dir.inside(path) / MANIFEST
    return not manifest.exists() or manifest.stat().st_mtime_ns // 1000 <= before

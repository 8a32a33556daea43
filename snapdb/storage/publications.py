"""Publishes a database to object storage: a catalog, the files that it names, and a head that is written last.

Readers see the old generation or the new one, because the head is the only object that changes. It is written under the
condition that no other publisher has replaced it in the meantime.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from snapdb.errors import CorruptError, SnapdbError, moved
from snapdb.remote import Head, Listed, Listing, ObjectStore, open_store, read_listing
from snapdb.remote.parquet import column_digests
from snapdb.remote.publication import HEAD, decode_head, encode_listing
from snapdb.remote.stores import no_conditional_put
from snapdb.remote.urls import shown
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import CATALOG, DatabaseDir
from snapdb.storage.catalog_db.locks import try_lock
from snapdb.storage.check.backup import copied_catalog
from snapdb.storage.check.catalog import Problem
from snapdb.storage.check.database import Checked
from snapdb.storage.disk import hash_file, unwritten
from snapdb.storage.manifests import MANIFEST, parse_manifest
from snapdb.storage.publication_records import PublicationRecord, PublicationRecords

Tables = Literal["all", "seeds", "none"]
"""Which tables a publication contains: all, those that the seed queries of samplers read, or none."""

_UPLOADS = 4
"""The number of files that are uploaded at once."""
_GENERATIONS = "generations/"
_PAUSE = 0.05
"""Seconds between attempts to become the only publisher."""
_HOLDERS = ("DELETE FROM leader", "UPDATE runs SET holder = NULL", "DELETE FROM garbage", "DROP TABLE IF EXISTS alerts")
"""Removes from a copied catalog what concerns only the processes and files of the database that publishes."""

_Report = Callable[[str, float | None], None]


class Published(NamedTuple):
    """The result of a publication."""

    generation: int
    files: int
    """The number of files of the generation."""
    bytes: int
    """Their size in bytes."""
    uploaded: int
    """The bytes that were uploaded."""
    seconds: float


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """What is published."""

    snapshots: tuple[str, ...] | None
    """The case-folded names of the snapshots, or None for all."""
    tables: Collection[int] | None
    """The ids of the tables, or None for all."""
    keep: int
    """The number of generations to keep, including the new one."""
    single_writer: bool
    """Whether to publish without conditional writes."""


def publish(catalog_db: CatalogDb, url: str, options: PublishOptions, report: _Report) -> Published:
    """Publish the database at a URL. The caller must hold the tables' lock.

    Args:
        catalog_db: The database.
        url: The URL.
        options: What is published.
        report: A function that is called with the current step and its completed share. An error that it raises aborts
            the publication.

    Raises:
        InputError: The URL is not valid.
        CommitConflict: Another database, or another publication of this one, has been published there.
        CorruptError: A file of the database is missing or damaged.
        DatabaseError: A request failed, or the storage has no conditional writes.
    """
    store = open_store(url)
    with _publishing(catalog_db.db_dir, report):
        return _publish(catalog_db, store, options, report)


@contextmanager
def _publishing(db_dir: DatabaseDir, report: _Report) -> Iterator[None]:
    """Hold the lock of publishers. Another publication of this database ends first, or its process does."""
    try:
        descriptor = os.open(db_dir.path / "publish.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise unwritten(db_dir.path / "publish.lock", error.strerror or str(error)) from error
    try:
        while not try_lock(descriptor):
            report("waiting for another publication", None)
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(descriptor)


def _publish(catalog_db: CatalogDb, store: ObjectStore, options: PublishOptions, report: _Report) -> Published:
    """Publish the database. The caller must hold the lock of publishers."""
    began = time.monotonic()
    records = PublicationRecords.read(catalog_db.db_dir)
    stored = store.get(HEAD)
    before = None if stored is None else decode_head(stored.content, store.url)
    if before is None:
        if not options.single_writer:
            _check_conditional(store)
    else:
        _check_own(records, store.url, before)
    listed = {} if before is None else read_listing(store, before)
    with _staging(catalog_db.db_dir) as staging:
        version, lease = copied_catalog(catalog_db, staging, report)
        try:
            _restrict(staging / CATALOG, options)
            listing = _listing(catalog_db.db_dir, staging / CATALOG, options, listed, report)
            new = [name for name in listing if name not in listed]
            _upload(catalog_db.db_dir, store, listing, new, report)
        finally:
            lease.release()
        catalog = (staging / CATALOG).read_bytes()
    content = encode_listing(listing)
    generation = 1 if before is None else before.generation + 1
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    digests = sha256(catalog).hexdigest(), sha256(content).hexdigest()
    head = Head(generation, moment, records.database, version, *digests)
    report("writing the head", None)
    store.put(head.listing_key, content)
    store.put(head.catalog_key, catalog)
    store.put(head.key, head.encoded())
    size = sum(file.bytes for file in listing.values())
    records.intend(store.url, PublicationRecord(generation, version, moment, len(listing), size, head.listing))
    _replace_head(store, head, None if stored is None else stored.tag, options)
    _forget(store, generation, options.keep)
    uploaded = sum(listing[name].bytes for name in new) + len(content) + len(catalog)
    return Published(generation, len(listing), size, uploaded, time.monotonic() - began)


def _check_conditional(store: ObjectStore) -> None:
    """Raise DatabaseError if the storage overwrites an object that may only be created."""
    probe = f"probe-{uuid.uuid4().hex}"
    store.replace(probe, b"1", None)
    try:
        if store.replace(probe, b"2", None):
            raise no_conditional_put(store.url)
    finally:
        store.remove([probe])


def _replace_head(store: ObjectStore, head: Head, tag: str | None, options: PublishOptions) -> None:
    if options.single_writer:
        store.put(HEAD, head.encoded())
    elif not store.replace(HEAD, head.encoded(), tag):
        now = store.get(HEAD)
        current = None if now is None else decode_head(now.content, store.url)
        if current is None or current.listing != head.listing or current.database != head.database:
            raise _elsewhere(store.url, current, head.generation - 1)


def _check_own(records: PublicationRecords, url: str, head: Head) -> None:
    """Raise CommitConflict unless the head at a URL is the last publication of this database."""
    if head.database != records.database:
        raise moved(
            f"{shown(url)} contains another database, which is not overwritten; publish to another URL",
            code="another-database",
        )
    known = records.by_url.get(url)
    if known is None or (known.generation, known.listing) != (head.generation, head.listing):
        # A publication that was interrupted before its head was written leaves a record of the next generation.
        if known is not None and known.generation == head.generation + 1:
            return
        raise _elsewhere(url, head, 0 if known is None else known.generation)


def _elsewhere(url: str, current: Head | None, expected: int) -> SnapdbError:
    state = "has no generation" if current is None else f"is at generation {current.generation}"
    return moved(
        f"{shown(url)} {state}, expected {expected}: another process published there", code="published-elsewhere"
    )


def _forget(store: ObjectStore, generation: int, keep: int) -> None:
    """Remove the heads of the generations that are not kept. VACUUM removes their objects."""
    old = [f"{_GENERATIONS}{number}.json" for number in range(max(1, generation - keep - 20), generation - keep + 1)]
    if old:
        store.remove(old)


@contextmanager
def _staging(db_dir: DatabaseDir) -> Iterator[Path]:
    """Yield a temporary directory for the copy of the catalog."""
    room = db_dir.path if os.access(db_dir.path, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix=".publish-", suffix=".tmp", dir=room) as folder:
        yield Path(folder)


def _restrict(catalog: Path, options: PublishOptions) -> None:
    """Remove from a copied catalog the snapshots that are not published, and what concerns only this machine."""
    with closing(sqlite3.connect(catalog, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        for statement in _HOLDERS:
            connection.execute(statement)
        if options.snapshots is not None:
            marks = ", ".join("?" * len(options.snapshots))
            connection.execute(f"DELETE FROM snapshots WHERE folded NOT IN ({marks})", options.snapshots)
            connection.execute("DELETE FROM samplers WHERE snapshot NOT IN (SELECT folded FROM snapshots)")
            connection.execute("DELETE FROM caches WHERE sampler NOT IN (SELECT folded FROM samplers)")
        connection.execute("VACUUM")


def _listing(db_dir: DatabaseDir, catalog: Path, options: PublishOptions, before: Listing, report: _Report) -> Listing:
    """Return the files that a copied catalog names, directly or through their directories."""
    listing: Listing = {}
    with closing(sqlite3.connect(catalog, isolation_level=None)) as connection:
        tables = connection.execute("SELECT path, bytes, sha256, kind = 'rows', table_id FROM segments").fetchall()
        maps = connection.execute("SELECT path, bytes, sha256, 1, NULL FROM id_segments").fetchall()
        snapshots = connection.execute("SELECT path FROM snapshots").fetchall()
        bases = dict(connection.execute("SELECT path, base FROM artefacts WHERE base IS NOT NULL").fetchall())
    files = [file for file in tables if options.tables is None or file[-1] in options.tables] + maps
    for number, (path, size, digest, columnar, _) in enumerate(files):
        report("listing files", number / len(files))
        listing[path] = before.get(path) or _table_file(db_dir, path, size, digest, bool(columnar))
    directories: list[str] = []
    for (path,) in snapshots:
        directories += [path, *parse_manifest(db_dir.inside(path)).directories]
    directories += [bases[path] for path in directories if path in bases]
    for directory in dict.fromkeys(directories):
        listing |= _directory_files(db_dir, directory, before)
    return listing


def _table_file(db_dir: DatabaseDir, path: str, size: int, digest: str, columnar: bool) -> Listed:
    """Return a Parquet file of a table or id map. Columns have digests of their own, so that they can be read alone."""
    if not columnar:
        return Listed(size, digest)
    try:
        columns, rest = column_digests(db_dir.inside(path))
    except (OSError, ValueError) as error:
        raise _damaged(db_dir, path) from error
    return Listed(size, digest, columns, rest)


def _directory_files(db_dir: DatabaseDir, directory: str, before: Listing) -> Listing:
    manifest = f"{directory}/{MANIFEST}"
    try:
        files = parse_manifest(db_dir.inside(directory)).files
        own = before.get(manifest) or Listed(*hash_file(db_dir.inside(manifest)))
    except OSError as error:
        raise _damaged(db_dir, manifest) from error
    return {manifest: own, **{f"{directory}/{name}": Listed(*file) for name, file in files.items()}}


def _upload(db_dir: DatabaseDir, store: ObjectStore, listing: Listing, names: list[str], report: _Report) -> None:
    """Upload files, each after its SHA-256 has been checked. The first error stops the others."""
    total = sum(listing[name].bytes for name in names)
    done = 0

    def one(name: str) -> int:
        path, file = db_dir.inside(name), listing[name]
        try:
            if hash_file(path) != (file.bytes, file.sha256):
                raise _damaged(db_dir, name)
        except OSError as error:
            raise _damaged(db_dir, name) from error
        store.put(name, path)
        return file.bytes

    with ThreadPoolExecutor(_UPLOADS, thread_name_prefix="snapdb-publish") as pool:
        try:
            # Large files first, so that none of them is uploaded alone at the end.
            for size in pool.map(one, sorted(names, key=lambda name: -listing[name].bytes)):
                done += size
                report("uploading", done / max(1, total))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _damaged(db_dir: DatabaseDir, path: str) -> CorruptError:
    return CorruptError(
        f"{db_dir.path / path} is missing or damaged, so nothing was published; CHECK DATABASE lists all damage",
        code="damaged-file",
    )


# Maintenance of a publication.


class Vacuumed(NamedTuple):
    """An object that VACUUM removes."""

    path: str
    bytes: int


def unlisted_objects(store: ObjectStore, retain: timedelta) -> list[Vacuumed]:
    """Return the objects that no kept generation lists, and that are older than `retain`."""
    needed = {HEAD}
    entries = list(store.entries())  # before the heads are read, so that newer objects are in a newer generation
    heads = [entry.key for entry in entries if entry.key.startswith(_GENERATIONS)] + [HEAD]
    for key in heads:
        if (stored := store.get(key)) is not None:
            head = decode_head(stored.content, store.url)
            needed |= {key, head.key, head.catalog_key, head.listing_key, *read_listing(store, head)}
    before = datetime.now(UTC) - retain
    return [Vacuumed(e.key, e.size) for e in sorted(entries) if e.key not in needed and e.modified < before]


_DAMAGED = "publish the database again, from an undamaged copy"


def check_publication(store: ObjectStore, head: Head, report: _Report) -> Generator[Problem, None, Checked]:
    """Read every object of a generation, and yield those that are missing or differ from what was published."""
    listing = read_listing(store, head)
    total, done = sum(file.bytes for file in listing.values()), 0
    for name, file in listing.items():
        digest = sha256()
        report("checking objects", done / max(1, total))
        for at in range(0, max(file.bytes, 1), _PIECE):
            content = store.read(name, at, min(_PIECE, file.bytes - at))
            if content is None:
                yield Problem("missing", name, "it does not exist", _DAMAGED)
                break
            digest.update(content)
        else:
            if digest.hexdigest() != file.sha256:
                yield Problem("damaged", name, "it differs from what was published", _DAMAGED)
        done += file.bytes
    return Checked(len(listing), total)


_PIECE = 8 << 20
"""The number of bytes that are read at once."""

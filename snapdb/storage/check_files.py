"""Whether every published file still has the bytes that were published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from sqlite3 import Row
from typing import NamedTuple

from snapdb.errors import CorruptError
from snapdb.storage.catalog_db.db_dir import Home
from snapdb.storage.contents import BACKUP, Contents, in_catalog
from snapdb.storage.disk import MANIFEST, hash_file
from snapdb.storage.manifests import parse_manifest
from snapdb.storage.problem import Problem

_SNAPSHOT = "DROP the snapshot and create it again"
_SHARED = "DROP the snapshots that use it, say VACUUM RETAIN INTERVAL '0 seconds', and create them again"
_GONE = "it was published and is not there"


class Published(NamedTuple):
    """A file and what was recorded of it."""

    path: Path
    bytes: int
    sha256: str
    remedy: str


def published(home: Home, contents: Contents) -> Iterator[Published | Problem]:
    """Every file that was published, and what is wrong with the rows and manifests that should name them."""
    for table in ("segments", "id_segments"):
        for row in contents[table]:
            try:
                yield Published(home.inside(row["path"]), int(row["bytes"]), row["sha256"], BACKUP)
            except (CorruptError, ValueError, TypeError, AttributeError):
                yield _bad_row(table, row)
    shared = {row["path"] for row in contents["artefacts"]}
    for table, remedy in (("artefacts", _SHARED), ("snapshots", _SNAPSHOT)):
        for row in contents[table]:
            try:
                directory = home.inside(row["path"])
            except (CorruptError, TypeError, AttributeError):
                yield _bad_row(table, row)
            else:
                yield from _directory(home, directory, shared if table == "snapshots" else row["digest"], remedy)


def compare(home: Home, files: Sequence[Published], report: Callable[[str, float | None], None]) -> Iterator[Problem]:
    """The files that are missing or have other bytes; it reads every one."""
    total, done = sum(file.bytes for file in files) or 1, 0
    for file in files:
        report("reading every file", min(done / total, 1.0))
        done += file.bytes
        path = str(file.path.relative_to(home.path))
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


def _directory(home: Home, directory: Path, expected: set[str] | str, remedy: str) -> Iterator[Published | Problem]:
    """The files that a directory's manifest names, and where it is not the one that is expected.

    Args:
        expected: Of a shared directory its digest; of a snapshot's, the shared directories that it may stand on.
    """
    path = str((directory / MANIFEST).relative_to(home.path))
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
        yield Published(directory / name, size, sha256, remedy)
    for named in listed.directories if isinstance(expected, set) else ():
        if not _is_there(home, named):
            yield Problem("missing", path, f"it stands on {named}, which is not there", remedy)
        elif named not in expected:
            yield in_catalog(f"no row of artefacts names {named}, though {path} stands on it")


def _is_there(home: Home, named: str) -> bool:
    try:
        return home.inside(named).is_dir()
    except (CorruptError, ValueError):
        return False

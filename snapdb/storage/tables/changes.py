"""What a commit changes, as data: each change specifies what it requires of the head.

The files of a change are written and synced, and no version names them yet.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from snapdb.errors import InputError
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.types import Cache, Column, Sampler, Segment, Snapshot

_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class AddTable:
    """A new table with its first rows; the name must be free, or be the table it replaces."""

    table_id: int
    """Negative: other changes of the same commit name the table by it; the commit assigns the real id."""
    name: str
    columns: tuple[Column, ...]
    files: tuple[Segment, ...]
    replaces: int | None = None
    """The id of the table that it replaces; conflicts if that was changed since `base`."""
    base: int = 0


@dataclass(frozen=True, slots=True)
class Append:
    """More rows. Appends commute: it conflicts only if the table was dropped or has other columns."""

    table_id: int
    columns: tuple[Column, ...]
    """The table's columns when the rows were written."""
    files: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class RemoveRows:
    """Removed rows; conflicts if one of them was removed since `base`."""

    table_id: int
    file: Segment
    """One column `row_id`."""
    base: int
    """The version at which the rows were read."""
    checked: int
    """The version up to which the rows that others removed have been compared: none is among these."""
    own: bool = False
    """Some were added by this same commit, so that their ids hold only if no other commit adds rows."""


@dataclass(frozen=True, slots=True)
class AlterColumns:
    """Other columns; conflicts if the table was changed since `base`."""

    table_id: int
    columns: tuple[Column, ...]
    base: int


@dataclass(frozen=True, slots=True)
class DropTable:
    """A dropped table, which older versions still have; conflicts if it was changed since `base`."""

    table_id: int
    base: int


@dataclass(frozen=True, slots=True)
class DropNames:
    """Dropped graphs, snapshots (with their own files), samplers and caches, which belong to no version.

    Conflicts if one was changed meanwhile, or a snapshot of one of the graphs, a sampler of one of the snapshots or a
    cache of one of the samplers was created.
    """

    graphs: tuple[str, ...]
    snapshots: tuple[Snapshot, ...]
    samplers: tuple[Sampler, ...] = ()
    caches: tuple[Cache, ...] = ()


@dataclass(frozen=True, slots=True)
class AssignIds:
    """New keys of an id map get the dense ids from `limit` on; conflicts if others were assigned meanwhile."""

    map_id: int
    table_id: int
    limit: int
    file: Segment | None
    """The new keys, after those of the files that it replaces; None: the append brings no new key."""
    merged: tuple[str, ...] = ()
    """The map's last files, which are small and merged into the new one."""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A user's file, as it was when its rows were loaded into a table."""

    path: str
    """Absolute, with links resolved."""
    bytes: int
    modified: int
    """Nanoseconds since 1970 UTC, of the file system."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The files whose rows the same commit appends; conflicts if one was loaded before."""

    table_id: int
    files: tuple[LoadedFile, ...]


Change = AddTable | Append | RemoveRows | AlterColumns | DropTable | DropNames | AssignIds | Loaded


def files_of(change: Change) -> tuple[Segment, ...]:
    """The files that a change brings."""
    match change:
        case AddTable() | Append():
            return change.files
        case RemoveRows():
            return (change.file,)
        case AssignIds():
            return () if change.file is None else (change.file,)
        case AlterColumns() | DropTable() | DropNames() | Loaded():
            return ()


# Loaded files


class LoadRecord(NamedTuple):
    """A file that was loaded."""

    file: LoadedFile
    version: int


def loaded_files(catalog_db: CatalogDb, table_id: int, paths: Iterable[str]) -> dict[str, LoadRecord]:
    """By path, the records of the files among `paths` that were loaded into a table."""
    query = """
        SELECT path, bytes, modified, version FROM loaded
        WHERE table_id = ? AND path IN (SELECT value FROM json_each(?))
    """
    rows = catalog_db.rows(query, (table_id, json.dumps(list(paths))))
    return {
        row["path"]: LoadRecord(LoadedFile(row["path"], row["bytes"], row["modified"]), row["version"]) for row in rows
    }


def stat_file(name: str) -> LoadedFile | None:
    """A file as it is now, with links resolved; None when it does not exist.

    Raises:
        InputError: it cannot be read, or is no regular file.
    """
    try:
        status = os.stat(name)
        path = str(Path(name).resolve(strict=True))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}", code="unreadable-file") from error
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"cannot read {name}: it is no file", code="unreadable-file")
    return LoadedFile(path, status.st_size, status.st_mtime_ns)


def has_footer(name: str) -> bool:
    """Whether a file begins and ends as a Parquet file, with a footer that fits into it; False for a missing one.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with open(name, "rb") as file:
            begin = file.read(len(_MAGIC))
            size = file.seek(0, os.SEEK_END)
            if size < 3 * len(_MAGIC):
                return False
            file.seek(-2 * len(_MAGIC), os.SEEK_END)
            length, end = int.from_bytes(file.read(4), "little"), file.read(len(_MAGIC))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}", code="unreadable-file") from error
    return begin == end == _MAGIC and length <= size - 3 * len(_MAGIC)

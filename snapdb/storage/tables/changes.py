"""What a commit changes, as data: each change specifies what it requires of the head."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from snapdb.errors import InputError
from snapdb.storage.catalog_db.connection import Ledger
from snapdb.types import Cache, Column, Sampler, Segment, Snapshot

_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class AddTable:
    """A new table with its first rows; the name must be free, or be the table it replaces."""

    table_id: int
    """Negative: by it other changes of the same commit name the table, which gets its own id there."""
    name: str
    columns: tuple[Column, ...]
    files: tuple[Segment, ...]
    replaces: int | None = None
    """Id of the table that goes; requires that nobody changed it since `base`."""
    base: int = 0


@dataclass(frozen=True, slots=True)
class Append:
    """More rows. Appends commute: it only requires that the table is there with the same columns."""

    table_id: int
    columns: tuple[Column, ...]
    """The table's columns when the rows were written."""
    files: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class RemoveRows:
    """Rows that go; requires that nobody removed the same ones since the version they were found at."""

    table_id: int
    file: Segment
    """One column `row_id`."""
    base: int
    """The version at which the rows were found."""
    checked: int
    """Up to this version, what others removed has been compared: none of these rows."""
    own: bool = False
    """Some were added by this same commit, so that their ids hold only if nobody else adds rows."""


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Other columns; requires that nobody changed the table since `base`."""

    table_id: int
    columns: tuple[Column, ...]
    base: int


@dataclass(frozen=True, slots=True)
class DropTable:
    """The table goes; older versions still have it. Requires that nobody changed it since `base`."""

    table_id: int
    base: int


@dataclass(frozen=True, slots=True)
class DropNames:
    """Graphs, snapshots, samplers and caches go, with the files that are the snapshots' own. They are of no version.

    Requires that they are as they were found, and that no other snapshot of the graphs, sampler of the snapshots or
    cache of the samplers was made meanwhile.
    """

    graphs: tuple[str, ...]
    snapshots: tuple[Snapshot, ...]
    samplers: tuple[Sampler, ...] = ()
    caches: tuple[Cache, ...] = ()


@dataclass(frozen=True, slots=True)
class AssignIds:
    """New keys of an id map get the dense ids from `limit` on; requires that nobody allotted any meanwhile."""

    map_id: int
    table_id: int
    limit: int
    file: Segment | None
    """The new keys, after those of the files that it takes the place of; None: the append brings no new key."""
    merged: tuple[str, ...] = ()
    """The map's last files, too small to keep apart."""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file of the user's, as it was when its rows were taken into a table."""

    path: str
    """Absolute, no part of it a link."""
    bytes: int
    modified: int
    """Nanoseconds since 1970 UTC, as the file system says."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The rows that the same commit appends are those of these files; requires that none was loaded before."""

    table_id: int
    files: tuple[LoadedFile, ...]


Change = AddTable | Append | RemoveRows | AlterTable | DropTable | DropNames | AssignIds | Loaded


def files_of(change: Change) -> tuple[Segment, ...]:
    """The files that a change brings."""
    match change:
        case AddTable() | Append():
            return change.files
        case RemoveRows():
            return (change.file,)
        case AssignIds():
            return () if change.file is None else (change.file,)
        case AlterTable() | DropTable() | DropNames() | Loaded():
            return ()


# Files of the user's and what is remembered of those whose rows are in a table


class LoadRecord(NamedTuple):
    """A file that was loaded."""

    file: LoadedFile
    version: int


def loaded_files(ledger: Ledger, table_id: int, paths: Iterable[str]) -> dict[str, LoadRecord]:
    """What is remembered of files whose rows are in a table, by path; of others there is none."""
    query = """
        SELECT path, bytes, modified, version FROM loaded
        WHERE table_id = ? AND path IN (SELECT value FROM json_each(?))
    """
    rows = ledger.rows(query, (table_id, json.dumps(list(paths))))
    return {
        row["path"]: LoadRecord(LoadedFile(row["path"], row["bytes"], row["modified"]), row["version"]) for row in rows
    }


def stat_file(name: str) -> LoadedFile | None:
    """A file as it is now, whatever links lead to it; None where none is there.

    Raises:
        InputError: it cannot be looked at, or is no file.
    """
    try:
        found = os.stat(name)
        path = str(Path(name).resolve(strict=True))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}", code="unreadable-file") from error
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"cannot read {name}: it is no file", code="unreadable-file")
    return LoadedFile(path, found.st_size, found.st_mtime_ns)


def has_footer(name: str) -> bool:
    """Whether a file ends as a whole Parquet file does, in a footer that fits into it; one that is gone does not.

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

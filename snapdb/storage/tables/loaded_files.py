"""The user's files whose rows tables contain: their state when they were loaded, and their state now."""

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from snapdb.errors import InputError
from snapdb.remote.files import is_file_url, object_facts
from snapdb.storage.catalog_db.connection import CatalogDb

_MAGIC = b"PAR1"
"""The first and last bytes of a Parquet file."""


class LoadedFile(NamedTuple):
    """The state of a user's file when its rows were loaded into a table."""

    path: str
    """The absolute path, with links resolved."""
    bytes: int
    """The size of the file."""
    modified: int
    """The last modification time reported by the file system, in nanoseconds since 1970 UTC."""


class LoadRecord(NamedTuple):
    """The record of a loaded file."""

    file: LoadedFile
    """The file's state when it was loaded."""
    version: int
    """The version that loaded it."""


def loaded_files(catalog_db: CatalogDb, table_id: int, paths: Iterable[str]) -> dict[str, LoadRecord]:
    """Map each of `paths` that was loaded into a table to its record."""
    query = """
        SELECT path, bytes, modified, version FROM loaded
        WHERE table_id = ? AND path IN (SELECT value FROM json_each(?))
    """
    rows = catalog_db.rows(query, (table_id, json.dumps(list(paths))))
    return {
        row["path"]: LoadRecord(LoadedFile(row["path"], row["bytes"], row["modified"]), row["version"]) for row in rows
    }


def stat_file(name: str) -> LoadedFile | None:
    """Return the current state of a file, with links resolved, or None if it does not exist.

    Raises:
        InputError: The file cannot be read, or is not a regular file.
    """
    if is_file_url(name):
        facts = object_facts(name)
        return None if facts is None else LoadedFile(name, *facts)
    try:
        status = os.stat(name)
        path = str(Path(name).resolve(strict=True))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}", code="unreadable-file") from error
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"cannot read {name}: it is not a regular file", code="unreadable-file")
    return LoadedFile(path, status.st_size, status.st_mtime_ns)


def has_footer(name: str) -> bool:
    """Return whether a file starts and ends like a Parquet file and is large enough for its footer.

    False if it does not exist.

    Raises:
        InputError: The file cannot be read.
    """
    if is_file_url(name):  # object storage shows only complete objects
        return True
    try:
        with open(name, "rb") as file:
            begin = file.read(len(_MAGIC))
            size = file.seek(0, os.SEEK_END)
            # If another program is still writing the file, it has no footer yet and is left for the next run.
            if size < 3 * len(_MAGIC):
                return False
            file.seek(-2 * len(_MAGIC), os.SEEK_END)
            length, end = int.from_bytes(file.read(4), "little"), file.read(len(_MAGIC))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}", code="unreadable-file") from error
    return begin == end == _MAGIC and length <= size - 3 * len(_MAGIC)

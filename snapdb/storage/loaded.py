"""Files of the user's and what is remembered of those whose rows are in a table."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from snapdb.errors import InputError
from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.changes import LoadedFile

_MAGIC = b"PAR1"


class Memory(NamedTuple):
    """A file that was loaded."""

    file: LoadedFile
    version: int


def loaded_files(ledger: Ledger, table_id: int, paths: Iterable[str]) -> dict[str, Memory]:
    """What is remembered of files whose rows are in a table, by path; of others there is none."""
    query = """
        SELECT path, bytes, modified, version FROM loaded
        WHERE table_id = ? AND path IN (SELECT value FROM json_each(?))
    """
    rows = ledger.rows(query, (table_id, json.dumps(list(paths))))
    return {row["path"]: Memory(LoadedFile(row["path"], row["bytes"], row["modified"]), row["version"]) for row in rows}


def look_at(name: str) -> LoadedFile | None:
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

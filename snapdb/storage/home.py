"""The database directory: made, recognised or refused."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from snapdb.errors import CorruptError, DatabaseError, FormatError
from snapdb.storage.schema import APPLICATION_ID, FORMAT

__all__ = ["CATALOG", "Home", "check_format", "open_home"]

CATALOG = "catalog.sqlite"


@dataclass(frozen=True, slots=True)
class Home:
    """A directory that holds, or will hold, a database."""

    path: Path
    """Absolute."""
    read_only: bool

    @property
    def catalog(self) -> Path:
        return self.path / CATALOG


def open_home(path: Path, *, read_only: bool) -> Home:
    """The database directory at `path`, which is made when it is not there.

    Raises:
        DatabaseError: `path` is a file, cannot be made, or (read_only) is not there.
        FormatError: it holds something that is not a database, or one of a newer snapdb.
    """
    path = Path(os.path.abspath(path))
    if path.exists() and not path.is_dir():
        raise DatabaseError(f"{path} is a file; a snapdb database is a directory: choose another path")
    home = Home(path, read_only)
    if home.catalog.exists():
        _check_catalog(home)
    elif read_only:
        raise DatabaseError(f"there is no database at {path} to read; leave out read_only to make one")
    else:
        _make(path)
    if not read_only and not os.access(path, os.W_OK):
        raise DatabaseError(f"{path} is not writable; open it with read_only=True (--read-only) or fix its permissions")
    return home


def _make(path: Path) -> None:
    if path.is_dir() and any(path.iterdir()):
        raise FormatError(f"{path} is not a snapdb database: it has no {CATALOG} and is not empty")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(f"cannot make the database directory {path}: {error.strerror}") from error


def _check_catalog(home: Home) -> None:
    """Refuse what is not SQLite, not ours, or newer than we are."""
    try:
        with open(home.catalog, "rb") as file:
            header = file.read(100)
    except OSError as error:
        raise DatabaseError(f"cannot read {home.catalog}: {error.strerror}") from error
    if not header:  # another process is making it at this moment, unless there are tables already
        if any((home.path / folder).exists() for folder in ("tables", "ids", "snapshots")):
            raise CorruptError(f"{home.catalog} is empty, though there are tables; restore it from a backup")
        return
    if not header.startswith(b"SQLite format 3\0"):
        raise FormatError(f"{home.path} is not a snapdb database: {CATALOG} is not a SQLite file")
    # A new file's first page may still be in the write-ahead log, with zeros here: the ledger looks again.
    found, application = struct.unpack_from(">I4xI", header, 60)
    check_format(home, found, application)


def check_format(home: Home, found: int, application: int) -> None:
    """Nothing when a catalog with this format number and application id is ours to read.

    Raises:
        FormatError: it is newer than this snapdb, or not snapdb's at all.
    """
    if found > FORMAT:
        raise FormatError(f"{home.path} has format {found}, this snapdb reads up to {FORMAT}: install a newer snapdb")
    if application not in (0, APPLICATION_ID):
        raise FormatError(f"{home.path} is not a snapdb database: {CATALOG} belongs to another application")

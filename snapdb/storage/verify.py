"""Reading every file of a database to see that it is what was published."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from snapdb.errors import CorruptError
from snapdb.storage.disk import hash_file, read_manifest
from snapdb.storage.home import Home
from snapdb.storage.ledger import Ledger

__all__ = ["verify_files"]


def verify_files(home: Home, ledger: Ledger) -> int:
    """How many files were read; all had the size and sha256 that was recorded when they were published.

    Raises:
        CorruptError: the first that has not, by name.
    """
    count = 0
    for path, size, sha256 in _published(home, ledger):
        if not path.exists():
            raise CorruptError(f"{path} is missing; restore it from a backup")
        if hash_file(path) != (size, sha256):
            raise CorruptError(f"{path} is damaged: its bytes are not those that were published; restore it")
        count += 1
    return count


def _published(home: Home, ledger: Ledger) -> Iterator[tuple[Path, int, str]]:
    for table in ("segments", "id_segments"):
        for row in ledger.rows(f"SELECT path, bytes, sha256 FROM {table} ORDER BY path"):
            yield home.path / row["path"], row["bytes"], row["sha256"]
    for row in ledger.rows("SELECT path FROM artefacts UNION ALL SELECT path FROM snapshots ORDER BY path"):
        directory = home.path / row["path"]
        for name, entry in read_manifest(directory)["files"].items():
            yield directory / name, entry["bytes"], entry["sha256"]

"""Pending deletes: published directories that the catalog no longer names, each deleted once no process reads it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable

from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.db_dir import Home
from snapdb.storage.catalog_db.locks import remove_unless_held
from snapdb.storage.manifests import MANIFEST

PUBLISHED_FOLDERS = ("snapshots/", "topology/", "features/")
"""The folders of published directories; garbage elsewhere consists of single files."""

_IN_FOLDERS = " OR ".join(f"path LIKE '{folder}%'" for folder in PUBLISHED_FOLDERS)


def add_pending_deletes(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    """Record directories as garbage, inside the transaction that removes them from the catalog.

    Any process finds them there, even when the one that should delete them dies. Rows of directories that are deleted
    do no harm: `forget_deleted` removes them in a later transaction.
    """
    moment = time.time_ns() // 1000
    connection.executemany("INSERT OR IGNORE INTO garbage VALUES (?, ?)", [(path, moment) for path in paths])


def forget_deleted(connection: sqlite3.Connection, home: Home) -> None:
    """Remove, inside a transaction, the garbage rows of directories that are deleted."""
    rows = connection.execute(f"SELECT path FROM garbage WHERE {_IN_FOLDERS}").fetchall()
    deleted = [(row["path"],) for row in rows if not home.inside(row["path"]).exists()]
    connection.executemany("DELETE FROM garbage WHERE path = ?", deleted)


def delete_pending(home: Home, ledger: Ledger) -> int:
    """Delete every pending directory that no process reads, and return how many were deleted."""
    paths = [row["path"] for row in ledger.rows(f"SELECT path FROM garbage WHERE {_IN_FOLDERS} ORDER BY path")]
    return sum(delete_unless_held(home, path) for path in paths if home.inside(path).exists())


def delete_unless_held(home: Home, path: str) -> bool:
    """Delete a pending directory; False when a process reads it. One without a manifest was partly deleted before."""
    directory = home.inside(path)
    if (directory / MANIFEST).exists():
        return remove_unless_held(home, directory)
    home.disk.remove(directory)
    return True

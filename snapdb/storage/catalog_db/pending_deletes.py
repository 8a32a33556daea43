"""Pending deletes: published directories that the catalog no longer names, each deleted once no process reads it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable

from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
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


def forget_deleted(connection: sqlite3.Connection, db_dir: DatabaseDir) -> None:
    """Remove, inside a transaction, the garbage rows of directories that are deleted."""
    rows = connection.execute(f"SELECT path FROM garbage WHERE {_IN_FOLDERS}").fetchall()
    deleted = [(row["path"],) for row in rows if not db_dir.inside(row["path"]).exists()]
    connection.executemany("DELETE FROM garbage WHERE path = ?", deleted)


def delete_pending(catalog_db: CatalogDb) -> int:
    """Delete every pending directory that no process reads, and return how many were deleted."""
    paths = [row["path"] for row in catalog_db.rows(f"SELECT path FROM garbage WHERE {_IN_FOLDERS} ORDER BY path")]
    return sum(delete_unless_held(catalog_db.db_dir, path) for path in paths if catalog_db.db_dir.inside(path).exists())


def delete_unless_held(db_dir: DatabaseDir, path: str) -> bool:
    """Delete a pending directory; False when a process reads it. One without a manifest was partly deleted before."""
    directory = db_dir.inside(path)
    if (directory / MANIFEST).exists():
        return remove_unless_held(db_dir, directory)
    db_dir.disk.remove(directory)
    return True

"""Published directories that the catalog names no more: each goes once nobody reads it, whoever notices that first."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from typing import NamedTuple

from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.db_dir import Home
from snapdb.storage.catalog_db.locks import remove_unless_held
from snapdb.storage.manifests import MANIFEST

PUBLISHED_FOLDERS = ("snapshots/", "topology/", "features/")
"""Where such directories lie; other garbage is files."""

_IN_FOLDERS = " OR ".join(f"path LIKE '{folder}%'" for folder in PUBLISHED_FOLDERS)


class DeleteCounts(NamedTuple):
    """What was done about directories that were released."""

    gone: int
    """So many went now."""
    held: int
    """So many are read still."""


def add_pending_deletes(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    """Note, in the transaction that takes directories out of the catalog, that they are garbage from then on.

    So they are found again, whatever becomes of the process that is to remove them. Rows of directories that are
    gone do no harm: `forget_deleted` takes them away when it is time to write anyway.
    """
    moment = time.time_ns() // 1000
    connection.executemany("INSERT OR IGNORE INTO garbage VALUES (?, ?)", [(path, moment) for path in paths])


def forget_deleted(connection: sqlite3.Connection, home: Home) -> None:
    """Take away, inside a transaction, what is noted of directories that are gone."""
    rows = connection.execute(f"SELECT path FROM garbage WHERE {_IN_FOLDERS}").fetchall()
    gone = [(row["path"],) for row in rows if not home.inside(row["path"]).exists()]
    connection.executemany("DELETE FROM garbage WHERE path = ?", gone)


def delete_pending(home: Home, ledger: Ledger) -> DeleteCounts:
    """Remove every released directory that nobody reads."""
    paths = [row["path"] for row in ledger.rows(f"SELECT path FROM garbage WHERE {_IN_FOLDERS} ORDER BY path")]
    present = [path for path in paths if home.inside(path).exists()]
    gone = sum(delete_unless_held(home, path) for path in present)
    return DeleteCounts(gone, len(present) - gone)


def delete_unless_held(home: Home, path: str) -> bool:
    """Remove a released directory; False when somebody reads it. One without a manifest was half removed before."""
    directory = home.inside(path)
    if (directory / MANIFEST).exists():
        return remove_unless_held(home, directory)
    home.disk.remove(directory)
    return True

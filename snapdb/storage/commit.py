"""A commit: changes become one version. Its row makes them real, all of them or none."""

from __future__ import annotations

import getpass
import os
import sqlite3
import time
from collections.abc import Sequence

from snapdb.errors import CommitConflict
from snapdb.storage.apply import Applying
from snapdb.storage.catalog_db.chain import facts_text, link
from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.changes import AddTable, Allot, Append, Change
from snapdb.storage.ids import active_maps


def now() -> int:
    """Microseconds since 1970, UTC."""
    return time.time_ns() // 1000


def commit(ledger: Ledger, changes: Sequence[Change], message: str | None) -> int:
    """Publish the changes as one version and return its number.

    Raises:
        CommitConflict: what a change requires no longer holds; nothing was changed. Code 'ids': keys must be allotted
            anew; 'deletes': rows must be compared with those that others removed meanwhile.
        BindError: a table's name was taken meanwhile.
    """
    by = author()
    with ledger.writing(publishes=True) as connection:
        (head, then, parent) = _head(connection)
        version, moment = head + 1, max(now(), then + 1)
        _check_allotments(connection, changes)
        row = (version, moment, message, by, parent, "", "")
        connection.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        applying = Applying(connection, version, moment)
        for change in changes:
            applying.apply(change)
        facts = {"version": version, "time": moment, "message": message, "author": by, "changes": applying.facts}
        text = facts_text(facts)
        connection.execute(
            "UPDATE versions SET hash = ?, facts = ? WHERE version = ?", (link(parent, text), text, version)
        )
    return version


def _head(connection: sqlite3.Connection) -> tuple[int, int, str]:
    row = connection.execute("SELECT version, time, hash FROM versions ORDER BY version DESC LIMIT 1").fetchone()
    return (row["version"], row["time"], row["hash"]) if row else (0, 0, "")


def author() -> str:
    """Who writes, as versions and samplers record it."""
    if said := os.environ.get("SNAPDB_AUTHOR"):
        return said
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())


def _check_allotments(connection: sqlite3.Connection, changes: Sequence[Change]) -> None:
    """An append must allot the new keys of every id map of its table, counted on from where the map ends."""
    new = {change.table_id for change in changes if isinstance(change, AddTable)}
    appended = {change.table_id for change in changes if isinstance(change, Append)} - new
    for table in appended:
        said = {c.map_id for c in changes if isinstance(c, Allot) and c.table_id == table}
        if said != set(active_maps(connection, table)):
            raise CommitConflict("a graph began to use this table meanwhile; run the statement again", code="ids-moved")
    for change in changes:
        if not isinstance(change, Allot):
            continue
        (limit,) = connection.execute(
            "SELECT coalesce(max(first + rows), 0) FROM id_segments WHERE map_id = ?", (change.map_id,)
        ).fetchone()
        if limit != change.limit:
            raise CommitConflict(
                f"new keys moved: expected {change.limit}, found {limit}; run it again", code="ids-moved"
            )

"""A commit is data: changes, each with what it requires of the head. The version row makes them real."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from snapdb.errors import BindError, CommitConflict
from snapdb.storage.ledger import Ledger
from snapdb.types import Column

__all__ = [
    "AddTable",
    "Allot",
    "Append",
    "Change",
    "DropTable",
    "File",
    "RemoveRows",
    "check_free",
    "commit",
    "now",
    "require_table",
]


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file that is written and synced but not yet part of any version."""

    path: str
    """Relative to the database directory."""
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class AddTable:
    """A new table with its first segment; the name must be free, or be the table it replaces."""

    name: str
    columns: tuple[Column, ...]
    file: File
    replaces: int | None = None
    """Id of the table that goes; requires that nobody changed it since `base`."""
    base: int = 0


@dataclass(frozen=True, slots=True)
class Append:
    """More rows. Appends commute: it only requires that the table is there with the same columns."""

    table_id: int
    file: File


@dataclass(frozen=True, slots=True)
class RemoveRows:
    """Rows that go; requires that nobody removed rows since the version it was computed at."""

    table_id: int
    file: File
    """One column `row_id`."""
    base: int
    """The version at which the rows were found."""


@dataclass(frozen=True, slots=True)
class DropTable:
    """The table goes; older versions still have it."""

    table_id: int
    base: int


@dataclass(frozen=True, slots=True)
class Allot:
    """New keys of an id map get the dense ids from `first` on; requires that nobody allotted any meanwhile."""

    map_id: int
    table_id: int
    first: int
    file: File | None
    """None: the append brings no new key."""


Change = AddTable | Append | RemoveRows | DropTable | Allot


def now() -> int:
    """Microseconds since 1970, UTC."""
    return time.time_ns() // 1000


def commit(ledger: Ledger, changes: Sequence[Change], message: str | None) -> int:
    """Publish the changes as one version and return its number.

    Raises:
        CommitConflict: what a change requires no longer holds; nothing was changed.
        BindError: a table's name was taken meanwhile.
    """
    with ledger.writing() as connection:
        (head, then, parent) = _head(connection)
        version, moment = head + 1, max(now(), then + 1)
        _check_allotments(connection, changes)
        author = _author()
        facts = json.dumps([parent, version, moment, message, author, [_facts(c) for c in changes]])
        digest = hashlib.sha256(facts.encode()).hexdigest()
        connection.execute(
            "INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)", (version, moment, message, author, parent, digest)
        )
        for change in changes:
            _apply(connection, change, version)
    return version


def check_free(connection: sqlite3.Connection, name: str) -> None:
    """Tables, graphs and snapshots share one name space.

    Raises:
        BindError: the name is taken.
    """
    for kind, query in (
        ("table", "SELECT name FROM tables WHERE folded = ? AND dropped IS NULL"),
        ("graph", "SELECT name FROM graphs WHERE folded = ?"),
        ("snapshot", "SELECT name FROM snapshots WHERE folded = ?"),
    ):
        if row := connection.execute(query, (name.lower(),)).fetchone():
            raise BindError(f'there is a {kind} "{row[0]}" already; choose another name or drop it', code="exists")


def _head(connection: sqlite3.Connection) -> tuple[int, int, str]:
    row = connection.execute("SELECT version, time, hash FROM versions ORDER BY version DESC LIMIT 1").fetchone()
    return (row["version"], row["time"], row["hash"]) if row else (0, 0, "")


def _author() -> str:
    if said := os.environ.get("SNAPDB_AUTHOR"):
        return said
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())


def _facts(change: Change) -> list[object]:
    return [type(change).__name__, asdict(change)]


def _apply(connection: sqlite3.Connection, change: Change, version: int) -> None:
    match change:
        case AddTable():
            _add_table(connection, change, version)
        case Append(table_id, file):
            require_table(connection, table_id)
            _add_segment(connection, table_id, "rows", file, version)
            _note(connection, version, table_id, "append", file.rows, 0)
        case RemoveRows(table_id, file, base):
            require_table(connection, table_id)
            _require_unmoved(connection, table_id, base, ("delete", "drop"))
            _add_segment(connection, table_id, "deletes", file, version)
            _note(connection, version, table_id, "delete", 0, file.rows)
        case DropTable(table_id, base):
            require_table(connection, table_id)
            _require_unmoved(connection, table_id, base, ("append", "delete", "drop"))
            connection.execute("UPDATE tables SET dropped = ? WHERE id = ?", (version, table_id))
            _note(connection, version, table_id, "drop", 0, 0)
        case Allot():
            if change.file is not None:
                file = change.file
                connection.execute(
                    "INSERT INTO id_segments VALUES (?, ?, ?, ?, ?, ?)",
                    (change.map_id, file.path, file.rows, file.bytes, file.sha256, change.first),
                )


def _add_table(connection: sqlite3.Connection, change: AddTable, version: int) -> None:
    if change.replaces is not None:
        require_table(connection, change.replaces)
        _require_unmoved(connection, change.replaces, change.base, ("append", "delete", "drop"))
        connection.execute("UPDATE tables SET dropped = ? WHERE id = ?", (version, change.replaces))
        _note(connection, version, change.replaces, "drop", 0, 0)
    check_free(connection, change.name)
    table_id = connection.execute(
        "INSERT INTO tables (name, folded, created) VALUES (?, ?, ?)", (change.name, change.name.lower(), version)
    ).lastrowid
    assert table_id is not None
    columns = json.dumps([[c.name, c.type, c.nullable] for c in change.columns])
    connection.execute("INSERT INTO columns VALUES (?, ?, ?)", (table_id, version, columns))
    _add_segment(connection, table_id, "rows", change.file, version)
    _note(connection, version, table_id, "create", change.file.rows, 0)


def _add_segment(connection: sqlite3.Connection, table_id: int, kind: str, file: File, version: int) -> None:
    (first,) = connection.execute(
        "SELECT coalesce(max(first + rows), 0) FROM segments WHERE table_id = ? AND kind = ?", (table_id, kind)
    ).fetchone()
    connection.execute(
        "INSERT INTO segments (table_id, kind, path, rows, bytes, sha256, first, added) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (table_id, kind, file.path, file.rows, file.bytes, file.sha256, first, version),
    )


def _note(connection: sqlite3.Connection, version: int, table_id: int, kind: str, added: int, removed: int) -> None:
    connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", (version, table_id, kind, added, removed))


def require_table(connection: sqlite3.Connection, table_id: int) -> None:
    """Nothing when the table is still there; CommitConflict when it was dropped or replaced."""
    name, dropped = connection.execute("SELECT name, dropped FROM tables WHERE id = ?", (table_id,)).fetchone()
    if dropped is not None:
        raise CommitConflict(f"{name} moved: it was dropped or replaced by version {dropped}; run the statement again")


def _require_unmoved(connection: sqlite3.Connection, table_id: int, base: int, kinds: tuple[str, ...]) -> None:
    marks = ", ".join("?" * len(kinds))
    (found, name) = connection.execute(
        f"SELECT max(version), (SELECT name FROM tables WHERE id = ?) FROM changes "
        f"WHERE table_id = ? AND version > ? AND kind IN ({marks})",
        (table_id, table_id, base, *kinds),
    ).fetchone()
    if found is not None:
        raise CommitConflict(f"{name} moved: expected {base}, found {found}; run the statement again")


def _check_allotments(connection: sqlite3.Connection, changes: Sequence[Change]) -> None:
    """An append must allot the new keys of every id map of its table, counted on from where the map ends."""
    for change in changes:
        if isinstance(change, Append):
            maps = {
                row[0] for row in connection.execute("SELECT id FROM id_maps WHERE table_id = ?", (change.table_id,))
            }
            said = {c.map_id for c in changes if isinstance(c, Allot) and c.table_id == change.table_id}
            if maps != said:
                raise CommitConflict("a graph began to use this table meanwhile; run the statement again", code="ids")
        if isinstance(change, Allot):
            (limit,) = connection.execute(
                "SELECT coalesce(max(first + rows), 0) FROM id_segments WHERE map_id = ?", (change.map_id,)
            ).fetchone()
            if limit != change.first:
                raise CommitConflict(
                    f"new keys moved: expected {change.first}, found {limit}; run it again", code="ids"
                )

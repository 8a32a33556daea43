"""Definitions in commits: views, macros, types, sequences and schemas that a version adds, replaces or drops.

The tables are created with the first definition. They add to the catalog's format without changing it, so databases
without definitions need no upgrade.
"""

import json
import sqlite3
from dataclasses import replace
from typing import Any, NamedTuple

from snapdb.errors import BindError, CommitConflict, moved
from snapdb.storage.catalog_db.codec import decode, encode
from snapdb.types import Definition

_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS definitions (      -- views, macros, types, sequences and schemas
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        kind       TEXT NOT NULL CHECK (kind IN ('view', 'macro', 'type', 'sequence', 'schema')),
        name       TEXT NOT NULL,
        folded     TEXT NOT NULL,
        created    INTEGER NOT NULL REFERENCES versions,
        dropped    INTEGER REFERENCES versions,   -- NULL while it is there
        definition TEXT NOT NULL                  -- JSON of types.Definition
    )
    """,
    "CREATE UNIQUE INDEX IF NOT EXISTS live_definitions ON definitions (kind, folded) WHERE dropped IS NULL",
    """
    CREATE TABLE IF NOT EXISTS sequences (        -- the next values, which belong to no version
        id   INTEGER PRIMARY KEY REFERENCES definitions,
        next INTEGER NOT NULL
    )
    """,
)


class Define(NamedTuple):
    """A new definition. There is a conflict if the definition that it replaces was changed."""

    definition: Definition
    replaces: Definition | None = None


class Undefine(NamedTuple):
    """A dropped definition, which older versions still contain. There is a conflict if it was changed."""

    definition: Definition


def define(connection: sqlite3.Connection, change: Define, version: int) -> dict[str, Any]:
    """Write a definition, and return its entry in the commit record.

    Raises:
        CommitConflict: The definition that it replaces was changed concurrently.
        BindError: The name was taken concurrently.
    """
    for table in _TABLES:
        connection.execute(table)
    new = change.definition
    if change.replaces is not None:
        _end(connection, change.replaces, version)
    elif (live := _live(connection, new)) is not None:
        raise BindError(f'{new.kind} "{live["name"]}" already exists; choose another name, or drop it', code="exists")
    text = encode(new, without=("id", "since", "temporary"))
    row = (new.kind, new.name, new.name.lower(), version, text)
    added = connection.execute(
        "INSERT INTO definitions (kind, name, folded, created, definition) VALUES (?, ?, ?, ?, ?)", row
    )
    if new.kind == "sequence":
        start = int(new.body.rpartition("START ")[2])
        connection.execute("INSERT INTO sequences VALUES (?, ?)", (added.lastrowid, start))
    facts = {"change": "define", "id": added.lastrowid, "kind": new.kind, "name": new.name}
    return {**facts, "definition": json.loads(text)}


def undefine(connection: sqlite3.Connection, change: Undefine, version: int) -> dict[str, Any]:
    """Mark a definition as dropped, and return its entry in the commit record.

    Raises:
        CommitConflict: It was changed concurrently.
    """
    return {"change": "undefine", "id": _end(connection, change.definition, version)}


def _live(connection: sqlite3.Connection, definition: Definition) -> sqlite3.Row | None:
    """Return the row of the current definition of this kind and name, or None."""
    query = "SELECT id, name, created FROM definitions WHERE kind = ? AND folded = ? AND dropped IS NULL"
    row: sqlite3.Row | None = connection.execute(query, definition.key).fetchone()
    return row


def _end(connection: sqlite3.Connection, definition: Definition, version: int) -> int:
    """Mark a definition as dropped, and return its id."""
    live = _live(connection, definition)
    # A definition of the same commit has no id yet.
    if live is None or (live["id"] != definition.id and not (definition.id == 0 and live["created"] == version)):
        raise _changed(definition, None if live is None else live["created"])
    connection.execute("UPDATE definitions SET dropped = ? WHERE id = ?", (version, live["id"]))
    return int(live["id"])


def _changed(definition: Definition, by: int | None) -> CommitConflict:
    how = "it was dropped" if by is None else f"version {by} replaced it"
    return moved(f"{definition.kind} {definition.name} was changed concurrently: {how}", code="definition-moved")


def has_definitions(connection: sqlite3.Connection) -> bool:
    """Return whether a catalog has ever had definitions."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'definitions'"
    return connection.execute(query).fetchone() is not None


def read_definitions(connection: sqlite3.Connection, version: int | None = None) -> dict[tuple[str, str], Definition]:
    """Return the definitions at a version, or at the head, by kind and case-folded name."""
    if not has_definitions(connection):
        return {}
    query = "SELECT id, created, definition FROM definitions WHERE dropped IS NULL ORDER BY id"
    values: tuple[int, ...] = ()
    if version is not None:
        query = (
            "SELECT id, created, definition FROM definitions WHERE created <= ? AND (dropped IS NULL OR dropped > ?) "
            "ORDER BY id"
        )
        values = (version, version)
    definitions = (_decoded(row) for row in connection.execute(query, values).fetchall())
    return {definition.key: definition for definition in definitions}


def _decoded(row: sqlite3.Row) -> Definition:
    return replace(decode(Definition, row["definition"]), id=row["id"], since=row["created"])

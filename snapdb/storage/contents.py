"""Everything that the catalog says, read at one moment, however damaged it is."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.db_dir import CATALOG
from snapdb.storage.problem import Problem

BACKUP = "restore the database from a backup"
_TABLES = {
    "facts": "name",
    "versions": "version",
    "upkeep": "number",
    "tables": "id",
    "shapes": "id",
    "segments": "id",
    "changes": "version, table_id",
    "tags": "folded",
    "id_maps": "id",
    "id_segments": "map_id, first",
    "graphs": "folded",
    "artefacts": "path",
    "snapshots": "id",
    "samplers": "id",
    "caches": "id",
    "tasks": "id",
    "runs": "task, run, attempt",
    "exports": "task, run, attempt",
    "leader": "one",
    "garbage": "path",
    "loaded": "table_id, path",
}
"""Table of the catalog → its order."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The rows of every table of the catalog."""

    rows: dict[str, list[sqlite3.Row]]
    """Of a table that cannot be read: none."""
    whole: bool
    """Every table could be read."""
    problems: list[Problem]
    """What SQLite itself finds wrong, and which tables it cannot read."""

    def __getitem__(self, table: str) -> list[sqlite3.Row]:
        return self.rows[table]


def in_catalog(problem: str) -> Problem:
    """A contradiction among the catalog's rows, or what SQLite says of its file."""
    return Problem("catalog", CATALOG, problem, BACKUP)


def read_contents(ledger: Ledger, *, integrity: bool = False) -> Contents:
    """All rows. `integrity`: SQLite looks at every page and index of its file first."""
    rows: dict[str, list[sqlite3.Row]] = {}
    problems: list[Problem] = []
    with ledger.reading() as connection:
        for table, order in _TABLES.items():
            try:
                rows[table] = connection.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()
            except sqlite3.DatabaseError as error:
                rows[table] = []
                problems.append(in_catalog(f"its table {table} cannot be read: {error}"))
        whole = not problems
        if integrity:
            problems += _integrity(connection)
    return Contents(rows, whole, problems)


def _integrity(connection: sqlite3.Connection) -> list[Problem]:
    try:
        found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
        loose = connection.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.DatabaseError as error:
        return [in_catalog(f"SQLite cannot check it: {error}")]
    said = [in_catalog(f"SQLite says: {' '.join(text.split())}") for text in found if text != "ok"]
    pairs = sorted({(str(row[0]), str(row[2])) for row in loose})
    return said + [in_catalog(f"rows of {table} name rows of {named} that are not there") for table, named in pairs]

"""A database in snapdb's first format: tables with and without deletes, a dropped table, ids and a graph."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from snapdb.types import PropertyGraph, VertexElement
from tests.support.inside.storage import _MIGRATIONS, APPLICATION_ID, encode

SIXTH = "DROP TABLE exports; ALTER TABLE runs DROP COLUMN replaced; PRAGMA user_version = 6;"
"""Converts a catalog to format 6."""
UNSCHEDULED = """
DROP TABLE exports;
DROP TABLE tasks; DROP TABLE runs; DROP TABLE leader; DROP TABLE loaded; ALTER TABLE graphs DROP COLUMN retention;
"""
"""Removes everything that a catalog from before tasks does not have."""


def write_format_one(path: Path) -> None:
    """Write table `t` (0 to 4, and 0 to 5 one version earlier), `person` with ids, and the dropped table `gone`."""
    path.mkdir()
    with closing(sqlite3.connect(path / "catalog.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(_MIGRATIONS[0].sql)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
        writing = _Writing(path, connection)
        writing.version("the first")
        t = writing.table("t", [["a", "BIGINT", True]])
        writing.segment(t, "rows", {"a": [0, 1, 2]}, "create", first=0)
        writing.version(None)
        writing.segment(t, "rows", {"a": [3, 4, 5]}, "append", first=3)
        writing.version(None)
        writing.segment(t, "deletes", {"row_id": [5]}, "delete", first=0)
        writing.version(None)
        gone = writing.table("gone", [["x", "VARCHAR", True]])
        writing.segment(gone, "rows", {"x": ["y"]}, "create", first=0)
        writing.version(None)
        writing.drop(gone)
        writing.version("é")
        person = writing.table("person", [["name", "VARCHAR", False], ["age", "INTEGER", True]])
        ages = pa.array([3, None], pa.int32())
        writing.segment(person, "rows", {"name": ["b", "a"], "age": ages}, "create", first=0)
        ids = writing.id_map(person, [["name", "VARCHAR"]])
        writing.ids(person, ids, {"k0": ["a", "b"]}, first=0)
        writing.version(None)
        writing.segment(person, "rows", {"name": ["c"], "age": pa.array([4], pa.int32())}, "append", first=2)
        writing.ids(person, ids, {"k0": ["c"]}, first=2)
        writing.graph(PropertyGraph("g", (VertexElement("person", "person", ("name",)),), ()))


class _Writing:
    """The rows and files of a version, as its commit wrote them."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection
        self.number = 0
        self.parent = ""

    def version(self, message: str | None) -> None:
        self.number += 1
        digest = hashlib.sha256(json.dumps([self.parent, self.number]).encode()).hexdigest()
        row = (self.number, 1_790_000_000_000_000 + self.number, message, "ann", self.parent, digest)
        self.connection.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)", row)
        self.parent = digest

    def table(self, name: str, columns: list[list[Any]]) -> int:
        insert = "INSERT INTO tables (name, folded, created) VALUES (?, ?, ?)"
        table = self.connection.execute(insert, (name, name.lower(), self.number)).lastrowid
        assert table is not None
        self.connection.execute("INSERT INTO columns VALUES (?, ?, ?)", (table, self.number, json.dumps(columns)))
        return table

    def drop(self, table: int) -> None:
        self.connection.execute("UPDATE tables SET dropped = ? WHERE id = ?", (self.number, table))
        self._change(table, "drop", 0, 0)

    def segment(self, table: int, kind: str, data: dict[str, Any], change: str, *, first: int) -> None:
        file = self._file(f"tables/{table}", data)
        self.connection.execute(
            "INSERT INTO segments (table_id, kind, path, rows, bytes, sha256, first, added) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (table, kind, *file, first, self.number),
        )
        self._change(table, change, *((0, file[1]) if kind == "deletes" else (file[1], 0)))

    def id_map(self, table: int, key: list[list[str]]) -> int:
        insert = "INSERT INTO id_maps (table_id, key) VALUES (?, ?)"
        id_map = self.connection.execute(insert, (table, json.dumps(key))).lastrowid
        assert id_map is not None
        return id_map

    def ids(self, table: int, id_map: int, data: dict[str, Any], *, first: int) -> None:
        file = self._file(f"ids/{table}", data)
        self.connection.execute("INSERT INTO id_segments VALUES (?, ?, ?, ?, ?, ?)", (id_map, *file, first))

    def graph(self, graph: PropertyGraph) -> None:
        self.connection.execute("INSERT INTO graphs VALUES (?, ?, ?, 1)", (graph.name, graph.name, encode(graph)))

    def _change(self, table: int, kind: str, added: int, removed: int) -> None:
        row = (self.number, table, kind, added, removed)
        self.connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", row)

    def _file(self, folder: str, data: dict[str, Any]) -> tuple[str, int, int, str]:
        path = self.path / folder / f"{folder.replace('/', '-')}-{self.number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = pa.table(data)
        pyarrow.parquet.write_table(rows, path)
        content = path.read_bytes()
        return str(path.relative_to(self.path)), rows.num_rows, len(content), hashlib.sha256(content).hexdigest()

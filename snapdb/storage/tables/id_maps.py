"""Id maps: permanent dense ids for the keys of vertex tables. New keys are appended in key order."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from snapdb.errors import moved
from snapdb.sql_engine import SqlSession, key_rows, parquet_files, parquet_form, quote, table_rows
from snapdb.storage.catalog_db.codec import decode_columns
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.tables.commit import AssignIds, active_maps, current_columns
from snapdb.storage.tables.segments import write_query
from snapdb.types import Column, Segment, Table

_SMALL = 1 << 20
"""The number of rows at and above which a file of keys is not merged with new keys."""
_TINY = 1 << 12
"""The number of rows up to which rewriting a file of keys costs less than opening one more file."""


class IdMap(NamedTuple):
    """The dense ids of one vertex table's key."""

    id: int
    """The id of the map."""
    table_id: int
    """The id of the table."""
    columns: tuple[Column, ...]
    """The columns of the key, with their current names. In the files, they are called k0, k1, …"""
    segments: tuple[Segment, ...]
    """The Parquet files in dense-id order."""

    @property
    def limit(self) -> int:
        """The number of dense ids. Every id is in 0 ≤ id < limit."""
        return max((s.first + s.rows for s in self.segments), default=0)

    def sql(self, db_dir: DatabaseDir) -> str:
        """Return a SELECT of k0, k1, …, dense."""
        return key_rows(self.segments, self.columns, db_dir.path)


@dataclass(frozen=True, slots=True)
class IdMaps:
    """Reads and creates the id maps of a catalog."""

    catalog_db: CatalogDb

    def of_table(self, table_id: int) -> list[IdMap]:
        """Return the table's id maps whose key columns still exist."""
        with self.catalog_db.reading() as connection:
            return [_map(connection, map_id) for map_id in active_maps(connection, table_id)]

    def read(self, map_id: int) -> IdMap:
        """Return the current state of the id map with the given id.

        Ids are only added, so it is also valid for older versions.
        """
        with self.catalog_db.reading() as connection:
            return _map(connection, map_id)

    def find(self, table: Table, key: Sequence[str]) -> IdMap | None:
        """Return the id map of a table's key, or None if no graph has used that key."""
        fields = tuple(c.field for c in _columns(table, key))
        with self.catalog_db.reading() as connection:
            rows = connection.execute("SELECT id, key FROM id_maps WHERE table_id = ?", (table.id,)).fetchall()
            matches = (row["id"] for row in rows if tuple(field for field, _ in json.loads(row["key"])) == fields)
            map_id = next(matches, None)
            return None if map_id is None else _map(connection, map_id)

    def ensure(self, session: SqlSession, table: Table, key: Sequence[str]) -> IdMap:
        """Return the id map of a key. The first graph that uses the key creates the map, with the keys of all versions.

        Raises:
            CommitConflict: Rows were appended concurrently (code 'ids-moved').
        """
        db_dir = self.catalog_db.db_dir
        if id_map := self.find(table, key):
            return id_map
        columns = _columns(table, key)
        whole = _all_rows(self.catalog_db, table)
        query = _keys(columns, table_rows(whole, db_dir.path), (), db_dir)
        file: Segment | None = write_query(db_dir, session, f"ids/{table.id}", ("", query, ""))
        if file is not None and file.rows == 0:
            _remove(db_dir, file)
            file = None
        try:
            added = self._record(table, columns, file, whole.next_row)
        except BaseException:
            _remove(db_dir, file)
            raise
        if not added:  # another process created the same map first
            _remove(db_dir, file)
        id_map = self.find(table, key)
        assert id_map is not None
        return id_map

    def _record(self, table: Table, columns: Sequence[Column], file: Segment | None, rows: int) -> bool:
        """Insert the map's row unless the key already has a map. Returns whether the row was inserted."""
        key = json.dumps([[c.field, c.type] for c in columns])
        with self.catalog_db.writing() as connection:
            if connection.execute("SELECT 1 FROM id_maps WHERE table_id = ? AND key = ?", (table.id, key)).fetchone():
                return False
            (count,) = connection.execute(
                "SELECT coalesce(max(first + rows), 0) FROM segments WHERE table_id = ? AND kind = 'rows'", (table.id,)
            ).fetchone()
            # A commit made since the keys were read would leave its rows without ids.
            if count != rows:
                raise moved(f"rows were added to table {table.name} concurrently", code="ids-moved")
            map_id = connection.execute("INSERT INTO id_maps (table_id, key) VALUES (?, ?)", (table.id, key)).lastrowid
            if file is not None:
                connection.execute(
                    "INSERT INTO id_segments VALUES (?, ?, ?, ?, ?, 0)",
                    (map_id, file.path, file.rows, file.bytes, file.sha256),
                )
        return True


def _map(connection: sqlite3.Connection, map_id: int) -> IdMap:
    """Return the id map with the given id."""
    row = connection.execute("SELECT table_id, key FROM id_maps WHERE id = ?", (map_id,)).fetchone()
    names = {c.field: c.name for c in current_columns(connection, row["table_id"])}
    key = json.loads(row["key"])
    columns = tuple(Column(names.get(field, f"dropped {field}"), type_, field=field) for field, type_ in key)
    return IdMap(map_id, row["table_id"], columns, _segments(connection, map_id))


def assign_ids(
    db_dir: DatabaseDir, session: SqlSession, table_id: int, id_map: IdMap, rows: str, count: int
) -> AssignIds:
    """Return the ids that an append assigns to the new keys in its `count` rows, a SELECT with the table's columns.

    Small files at the map's end are merged into the new one, so that a map has few files after many small commits. Tiny
    files are always merged, and other files if they are not larger than the files after them. This logarithmic method
    rewrites each key O(log n) times.
    """
    tail, size = len(id_map.segments), count
    while tail and id_map.segments[tail - 1].rows <= min(max(size, _TINY), _SMALL):
        tail -= 1
        size += id_map.segments[tail].rows
    merged = id_map.segments[tail:]
    query = _keys(id_map.columns, rows, id_map.segments, db_dir)
    if merged:
        keys = ", ".join(f"k{i}" for i in range(len(id_map.columns)))
        query = f"SELECT {keys} FROM {parquet_files(merged, db_dir.path)} UNION ALL ({query})"
    file = write_query(db_dir, session, f"ids/{table_id}", ("", query, ""))
    if file.rows == sum(s.rows for s in merged):
        _remove(db_dir, file)
        return AssignIds(id_map.id, table_id, id_map.limit, None)
    return AssignIds(id_map.id, table_id, id_map.limit, file, tuple(s.path for s in merged))


def _keys(columns: Sequence[Column], rows: str, known: Sequence[Segment], db_dir: DatabaseDir) -> str:
    """Return a SELECT of the distinct non-NULL keys of `rows` that are not `known`, in key order and Parquet form."""
    names = [quote(c.name) for c in columns]
    keys = ", ".join(
        f"CAST({n} AS {parquet_form(c.type)}) AS k{i}" for i, (n, c) in enumerate(zip(names, columns, strict=True))
    )
    there = " AND ".join(f"{n} IS NOT NULL" for n in names)
    query = f"SELECT DISTINCT {keys} FROM ({rows}) AS rows WHERE {there}"
    order = ", ".join(f"k{i}" for i in range(len(columns)))
    if known:
        # If there are few new keys and many known ones, a join with the new keys lets the scan of the known keys skip
        # row groups.
        same = " AND ".join(f"known.k{i} = fresh.k{i}" for i in range(len(columns)))
        old_keys = f"SELECT fresh.* FROM {parquet_files(known, db_dir.path)} AS known JOIN fresh ON {same}"
        query = f"WITH fresh AS MATERIALIZED ({query}) SELECT fresh.* FROM fresh ANTI JOIN ({old_keys}) USING ({order})"
    return f"SELECT * FROM ({query}) ORDER BY {order}"


def _columns(table: Table, key: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns of a key."""
    columns = [table.column(name) for name in key]
    assert all(columns), f"{table.name} has lost a key column"
    return tuple(c for c in columns if c is not None)


def _remove(db_dir: DatabaseDir, file: Segment | None) -> None:
    """Remove a file that is not in the catalog."""
    if file is not None:
        db_dir.disk.remove(db_dir.path / file.path)


def _all_rows(catalog_db: CatalogDb, table: Table) -> Table:
    """Return a table with the rows of all its versions, including deleted rows."""
    rows = catalog_db.rows(
        "SELECT s.*, p.columns FROM segments s JOIN shapes p ON p.id = s.shape "
        "WHERE s.table_id = ? AND s.kind = 'rows' ORDER BY s.first",
        (table.id,),
    )
    segments = tuple(
        Segment(r["path"], r["rows"], r["bytes"], r["sha256"], r["first"], decode_columns(r["columns"])) for r in rows
    )
    return replace(table, segments=segments, deletes=(), next_row=max((s.first + s.rows for s in segments), default=0))


def _segments(connection: sqlite3.Connection, map_id: int) -> tuple[Segment, ...]:
    """Return the files of an id map in dense-id order."""
    rows = connection.execute(
        "SELECT path, rows, bytes, sha256, first FROM id_segments WHERE map_id = ? ORDER BY first", (map_id,)
    ).fetchall()
    return tuple(Segment(r["path"], r["rows"], r["bytes"], r["sha256"], r["first"]) for r in rows)

"""Id maps: a key of a vertex table keeps its dense id for ever. Keys are only ever appended, in key order."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from snapdb.errors import CommitConflict
from snapdb.relational import Session, key_rows, parquet_form, quote, table_rows
from snapdb.storage.commit import Allot, File
from snapdb.storage.disk import discard
from snapdb.storage.home import Home
from snapdb.storage.ledger import Ledger
from snapdb.storage.segments import write_query
from snapdb.types import Column, Segment, Table

__all__ = ["IdMap", "allot", "ensure_map", "find_map", "maps_of", "read_map"]


@dataclass(frozen=True, slots=True)
class IdMap:
    """The dense ids of one vertex table's key."""

    id: int
    table_id: int
    columns: tuple[Column, ...]
    """The key's columns; in the files they are called k0, k1, …"""
    segments: tuple[Segment, ...]
    """Parquet files in dense-id order."""

    @property
    def limit(self) -> int:
        """Dense ids are 0 ≤ id < limit."""
        return max((s.first + s.rows for s in self.segments), default=0)

    def sql(self, home: Home) -> str:
        """SELECT k0, k1, …, dense."""
        return key_rows(self.segments, self.columns, home.path)


def maps_of(ledger: Ledger, table: Table) -> list[IdMap]:
    """Every id map of a table."""
    found = ledger.rows("SELECT id FROM id_maps WHERE table_id = ? ORDER BY id", (table.id,))
    return [read_map(ledger, row["id"]) for row in found]


def read_map(ledger: Ledger, map_id: int) -> IdMap:
    """An id map as it is now; what it said before, it still says."""
    with ledger.reading() as connection:
        row = connection.execute("SELECT table_id, key FROM id_maps WHERE id = ?", (map_id,)).fetchone()
        columns = tuple(Column(name, type_) for name, type_ in json.loads(row["key"]))
        return IdMap(map_id, row["table_id"], columns, _segments(connection, map_id))


def find_map(ledger: Ledger, table: Table, key: Sequence[str]) -> IdMap | None:
    """The id map of a table's key, or None when no graph has named that key."""
    folded = tuple(k.lower() for k in key)
    return next((m for m in maps_of(ledger, table) if tuple(c.name.lower() for c in m.columns) == folded), None)


def ensure_map(home: Home, ledger: Ledger, session: Session, table: Table, key: Sequence[str]) -> IdMap:
    """The id map of a key; the first graph that names the key allots the keys of all versions together.

    Raises:
        CommitConflict: rows were appended meanwhile (code 'ids').
    """
    if found := find_map(ledger, table, key):
        return found
    columns = _columns(table, key)
    segments = _all_segments(ledger, table)
    source = table_rows(replace(table, segments=segments, deletes=()), home.path)
    file = _write_keys(home, session, table, columns, source, None)
    try:
        added = _record(ledger, table, columns, file, len(segments))
    except BaseException:
        _forget(home, file)
        raise
    if not added:  # another process numbered the same keys meanwhile; theirs stand
        _forget(home, file)
    made = find_map(ledger, table, key)
    assert made is not None
    return made


def allot(home: Home, session: Session, table: Table, id_map: IdMap, rows: str) -> Allot:
    """The ids that an append will give to the new keys in its rows, a SELECT with the table's columns."""
    file = _write_keys(home, session, table, id_map.columns, rows, id_map.sql(home) if id_map.segments else None)
    return Allot(id_map.id, table.id, id_map.limit, file)


def _write_keys(
    home: Home, session: Session, table: Table, columns: Sequence[Column], rows: str, known: str | None
) -> File | None:
    """A file of the distinct non-NULL keys of `rows` that are not `known`, in key order; None when there are none."""
    names = [quote(c.name) for c in columns]
    keys = ", ".join(f"CAST({quote(c.name)} AS {parquet_form(c.type)}) AS k{i}" for i, c in enumerate(columns))
    there = " AND ".join(f"{n} IS NOT NULL" for n in names)
    missing = ""
    if known is not None:
        same = " AND ".join(f"known.k{i} = rows.{n}" for i, n in enumerate(names))
        missing = f" AND NOT EXISTS (FROM ({known}) AS known WHERE {same})"
    order = ", ".join(f"k{i}" for i in range(len(columns)))
    query = f"SELECT DISTINCT {keys} FROM ({rows}) AS rows WHERE {there}{missing} ORDER BY {order}"
    file = write_query(home, session, f"ids/{table.id}", ("", query, ""))
    if file.rows == 0:
        (home.path / file.path).unlink()
        return None
    return file


def _columns(table: Table, key: Sequence[str]) -> tuple[Column, ...]:
    found = [table.column(name) for name in key]
    assert all(found), f"{table.name} has lost a key column"
    return tuple(c for c in found if c is not None)


def _record(ledger: Ledger, table: Table, columns: Sequence[Column], file: File | None, segments: int) -> bool:
    """Write the map's row, unless the key has a map by now; whether it was written."""
    key = json.dumps([[c.name, c.type] for c in columns])
    with ledger.writing() as connection:
        if connection.execute("SELECT 1 FROM id_maps WHERE table_id = ? AND key = ?", (table.id, key)).fetchone():
            return False
        (count,) = connection.execute(
            "SELECT count(*) FROM segments WHERE table_id = ? AND kind = 'rows'", (table.id,)
        ).fetchone()
        if count != segments:
            raise CommitConflict(
                f"{table.name} moved: rows were appended meanwhile; run the statement again", code="ids"
            )
        map_id = connection.execute("INSERT INTO id_maps (table_id, key) VALUES (?, ?)", (table.id, key)).lastrowid
        if file is not None:
            connection.execute(
                "INSERT INTO id_segments VALUES (?, ?, ?, ?, ?, 0)",
                (map_id, file.path, file.rows, file.bytes, file.sha256),
            )
    return True


def _forget(home: Home, file: File | None) -> None:
    if file is not None:
        discard(home.path / file.path)


def _all_segments(ledger: Ledger, table: Table) -> tuple[Segment, ...]:
    """The segments of every version of a table."""
    rows = ledger.rows("SELECT * FROM segments WHERE table_id = ? AND kind = 'rows' ORDER BY first", (table.id,))
    return tuple(Segment(r["path"], r["rows"], r["bytes"], r["sha256"], r["first"]) for r in rows)


def _segments(connection: sqlite3.Connection, map_id: int) -> tuple[Segment, ...]:
    rows = connection.execute(
        "SELECT path, rows, bytes, sha256, first FROM id_segments WHERE map_id = ? ORDER BY first", (map_id,)
    ).fetchall()
    return tuple(Segment(r["path"], r["rows"], r["bytes"], r["sha256"], r["first"]) for r in rows)

"""Many small files become one, whose rows have the ids they had: what any version reads stays the same."""

from __future__ import annotations

import sqlite3
from typing import Any

from snapdb.errors import CorruptError
from snapdb.relational import Session, parquet_files, parquet_form, quote_all, table_rows
from snapdb.storage.catalog_db.chain import facts_text, link
from snapdb.storage.catalog_db.codec import decode_columns
from snapdb.storage.catalog_db.connection import Ledger
from snapdb.storage.catalog_db.db_dir import Home
from snapdb.storage.commit import now
from snapdb.storage.disk import hash_file
from snapdb.storage.ids import read_map
from snapdb.storage.merges import Member, Merge
from snapdb.storage.segments import write_query, write_segment
from snapdb.types import Segment, Table

_VERSION = "version"
"""The column of merged deletes that says which version removed a row."""


def compact(home: Home, ledger: Ledger, session: Session, merge: Merge) -> bool:
    """Put one file in the place of several; False when others have changed them meanwhile.

    Raises:
        CorruptError: one of them has not the bytes that were published; merging would hide it.
    """
    for member in merge.members:
        _check(home, member)
    file = _write(home, ledger, session, merge)
    try:
        with ledger.writing() as connection:
            swapped = _swap(connection, merge, file)
    except BaseException:
        home.disk.remove(home.path / file.path)
        raise
    if not swapped:
        home.disk.remove(home.path / file.path)
    return swapped


def _check(home: Home, member: Member) -> None:
    path = home.inside(member.path)
    try:
        found: tuple[int, str] | None = hash_file(path)
    except OSError:
        found = None
    if found != (member.bytes, member.sha256):
        state = "is missing" if found is None else "has not the bytes that were published"
        raise CorruptError(
            f"{path} {state}; restore it from a backup (CHECK DATABASE lists all damage)", code="damaged-table"
        )


def _write(home: Home, ledger: Ledger, session: Session, merge: Merge) -> Segment:
    """The rows of all members in their order, as a new file."""
    match merge.kind:
        case "rows":
            table = _table(ledger, merge)
            file = write_segment(home, session, merge.folder, table.columns, table_rows(table, home.path))
        case "deletes":
            file = write_query(home, session, merge.folder, ("", _deletes(home, session, merge), ""))
        case "ids":
            columns = read_map(ledger, merge.owner).columns
            keys = ", ".join(f"CAST(k{i} AS {parquet_form(c.type)}) AS k{i}" for i, c in enumerate(columns))
            query = f"SELECT {keys} FROM {parquet_files(_segments(merge), home.path)}"
            file = write_query(home, session, merge.folder, ("", query, ""))
    if file.rows != sum(member.rows for member in merge.members):
        home.disk.remove(home.path / file.path)
        raise CorruptError(
            f"files of {merge.name} hold {file.rows:,} rows, not those that the catalog counts; "
            "restore the database from a backup",
            code="damaged-table",
        )
    return file


def _table(ledger: Ledger, merge: Merge) -> Table:
    """The members as a table of their own, with the columns they were written with."""
    shape = merge.members[0].shape
    (row,) = ledger.rows("SELECT columns FROM shapes WHERE id = ?", (shape,))
    columns = decode_columns(row["columns"])
    rows = sum(m.rows for m in merge.members)
    stop = merge.members[-1].first + merge.members[-1].rows
    fields = max(c.field for c in columns)
    return Table(merge.table, merge.name, columns, _segments(merge), (), rows, 0, stop, fields)


def _segments(merge: Merge) -> tuple[Segment, ...]:
    return tuple(Segment(m.path, m.rows, m.bytes, m.sha256, m.first) for m in merge.members)


def _deletes(home: Home, session: Session, merge: Merge) -> str:
    """SELECT row_id and the version that removed it; a file of one version does not say which, the catalog does."""
    parts = []
    for member, segment in zip(merge.members, _segments(merge), strict=True):
        source = parquet_files([segment], home.path)
        said = any(c.name == _VERSION for c in session.describe(f"FROM {source}"))
        version = _VERSION if said else f"{member.added}::BIGINT AS {_VERSION}"
        parts.append(f"SELECT row_id::BIGINT AS row_id, {version} FROM {source}")
    return f"SELECT {quote_all(('row_id', _VERSION))} FROM ({' UNION ALL '.join(parts)}) ORDER BY 2, 1"


def _swap(connection: sqlite3.Connection, merge: Merge, file: Segment) -> bool:
    """Write the new row for the old ones; False, and nothing written, when they are not as they were."""
    ids = merge.kind == "ids"
    table, more = ("id_segments", "0, 0") if ids else ("segments", "added, shape")
    for member in merge.members:
        query = f"SELECT path, rows, bytes, sha256, first, {more} FROM {table} WHERE path = ?"
        row = connection.execute(query, (member.path,)).fetchone()
        if row is None or tuple(row) != tuple(member):
            return False
    first, added = min(m.first for m in merge.members), max(m.added for m in merge.members)
    paths = [(m.path,) for m in merge.members]
    connection.executemany(f"DELETE FROM {table} WHERE path = ?", paths)
    values: tuple[Any, ...] = (merge.owner, file.path, file.rows, file.bytes, file.sha256, first)
    if ids:
        connection.execute(
            "INSERT INTO id_segments (map_id, path, rows, bytes, sha256, first) VALUES (?, ?, ?, ?, ?, ?)", values
        )
    else:
        connection.execute(
            "INSERT INTO segments (table_id, path, rows, bytes, sha256, first, kind, added, shape) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, merge.kind, added, merge.members[-1].shape),
        )
    _note(connection, merge, file, first)
    moment = now()
    connection.executemany("INSERT INTO garbage VALUES (?, ?)", [(path, moment) for (path,) in paths])
    return True


def _note(connection: sqlite3.Connection, merge: Merge, file: Segment, first: int) -> None:
    """Add to the chain of upkeep what was put in the place of what."""
    last = connection.execute("SELECT number, hash FROM upkeep ORDER BY number DESC LIMIT 1").fetchone()
    number, parent = (last["number"] + 1, last["hash"]) if last else (1, "")
    change = {
        "change": merge.kind,
        "owner": merge.owner,
        "replaced": [m.path for m in merge.members],
        "path": file.path,
        "rows": file.rows,
        "bytes": file.bytes,
        "sha256": file.sha256,
        "first": first,
    }
    (head,) = connection.execute("SELECT max(version) FROM versions").fetchone()
    text = facts_text({"number": number, "time": now(), "after": head, "changes": [change]})
    connection.execute("INSERT INTO upkeep VALUES (?, ?, ?, ?)", (number, parent, link(parent, text), text))

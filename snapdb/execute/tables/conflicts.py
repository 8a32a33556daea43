"""INSERT … ON CONFLICT: new rows whose key exists are dropped, or replace the existing row by one with new values."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.execute.session import ExecutionContext
from snapdb.execute.tables.constraints import key_range, select_keys, stored_keys
from snapdb.execute.tables.returned_rows import discard, rows_of_files
from snapdb.execute.tables.splitting import split_rows
from snapdb.plan.tables.conflicts import Conflict
from snapdb.sql_engine import ROW_ID, SqlSession, parquet_files, quote, table_rows
from snapdb.storage.tables.segments import write_query, write_segment
from snapdb.types import Segment, Table

_ID = quote(ROW_ID)


@dataclass(frozen=True, slots=True)
class Resolved:
    """The rows to write after conflicts were resolved."""

    inserted: Segment | None
    """The new rows without a conflict, or None if there are none."""
    removed: Segment | None
    """The ids of the updated rows, or None if there are none."""
    updated: Segment | None
    """The new versions of the updated rows."""

    @property
    def files(self) -> tuple[Segment, ...]:
        """The files with rows to append."""
        return tuple(file for file in (self.updated, self.inserted) if file is not None)


def resolve_conflicts(context: ExecutionContext, table: Table, conflict: Conflict, new: Segment) -> Resolved:
    """Split new rows into those to insert and those that update existing rows. Removes the file of the new rows.

    Of several new rows with the same key, only the first one counts, as in DuckDB.

    Args:
        context: The context of the statement.
        table: The table, before the statement.
        conflict: The keys, and the new values.
        new: The file of the new rows, in the table's columns.
    """
    passing = [new]
    try:
        with context.store.sql_engine.session() as session:
            pairs = _write_pairs(context, session, table, conflict, new)
            passing.append(pairs)
            inserted = _write_inserted(context, session, table, conflict, new, pairs)
        passing.append(inserted)
        gone, come = None, None
        if conflict.values is not None and pairs.rows:
            gone, come = _updated(context, table, conflict, new, pairs)
        if inserted.rows:
            passing.remove(inserted)
        return Resolved(inserted if inserted.rows else None, gone, come)
    finally:
        discard(context, *passing)


def _write_pairs(
    context: ExecutionContext, session: SqlSession, table: Table, conflict: Conflict, new: Segment
) -> Segment:
    """Write the position of each new row whose key exists, with the id of the existing row."""
    parts = ["SELECT 0::BIGINT AS n, 0::BIGINT AS row_id, false AS first FROM range(0)"]
    for key in conflict.keys if table.rows else ():
        keys = select_keys(_numbered(context, table, new), key, f"{_ID} AS n")
        columns = ", ".join(f"k{i}" for i in range(len(key)))
        fresh = f"SELECT *, row_number() OVER (PARTITION BY {columns} ORDER BY n) = 1 AS first FROM ({keys})"
        selected = f"n, {_ID} AS row_id, first"
        stored = stored_keys(session, table, key, fresh, (), context.store.db_dir.path, selected)
        parts.append(f"(WITH fresh AS MATERIALIZED ({fresh}) {stored})")
    return write_query(context.store.db_dir, session, table.folder, ("", " UNION ALL ".join(parts), ""))


def _numbered(context: ExecutionContext, table: Table, new: Segment) -> str:
    """Return a SELECT of the new rows with their positions as row ids."""
    return rows_of_files(context, table, [new], row_ids=True)


def _write_inserted(
    context: ExecutionContext, session: SqlSession, table: Table, conflict: Conflict, new: Segment, pairs: Segment
) -> Segment:
    """Write the new rows whose key does not exist, and of several with the same key the first."""
    root = context.store.db_dir.path
    found = f"SELECT n FROM {parquet_files([pairs], root)}"
    rows = f"SELECT * FROM ({_numbered(context, table, new)}) WHERE {_ID} NOT IN ({found})"
    for key in conflict.keys:
        columns = ", ".join(quote(name) for name in key)
        complete = " AND ".join(f"{quote(name)} IS NOT NULL" for name in key)
        rows = (
            f"SELECT * FROM ({rows}) QUALIFY NOT ({complete}) OR "
            f"row_number() OVER (PARTITION BY {columns} ORDER BY {_ID}) = 1"
        )
    names = ", ".join(quote(c.name) for c in table.columns)
    query = f"SELECT {names} FROM ({rows}) ORDER BY {_ID}"
    return write_segment(context.store.db_dir, session, table.folder, table.columns, query)


def _updated(
    context: ExecutionContext, table: Table, conflict: Conflict, new: Segment, pairs: Segment
) -> tuple[Segment | None, Segment | None]:
    """Write the ids and the new values of the rows that DO UPDATE changes."""
    assert conflict.values is not None, "only DO UPDATE updates"
    root = context.store.db_dir.path
    struct = ", ".join(f"{quote(c.name)} := {quote(c.name)}" for c in table.columns)
    excluded = f"SELECT {_ID} AS n, struct_pack({struct}) AS excluded FROM ({_numbered(context, table, new)})"
    (key,) = conflict.keys  # DO UPDATE is about one key, whose range lets the scan skip row groups
    keys = select_keys(_numbered(context, table, new), key)
    with context.store.sql_engine.session() as session:
        within = key_range(session, table, key, keys)
    existing = f"SELECT * FROM ({table_rows(table, root, row_ids=True, ordered=False)}){within}"
    rows = (
        f"SELECT existing.*, excluded FROM ({existing}) AS existing "
        f"JOIN (SELECT * FROM {parquet_files([pairs], root)} WHERE first) AS pairs ON existing.{_ID} = pairs.row_id "
        f"JOIN ({excluded}) AS excluded_rows ON excluded_rows.n = pairs.n"
    )
    query = conflict.updated(rows, conflict.values.span)
    with context.bind_context.session(query) as session, context.watching(session, f"updating {table.name}"):
        changed = write_query(context.store.db_dir, session, table.folder, ("", query.text, ""), query.parameters)
        try:
            return split_rows(context, session, table, changed) if changed.rows else (None, None)
        finally:
            discard(context, changed)

"""The constraints of tables, which are checked when rows are written.

New rows are files that no version names yet, so a violation removes them and changes nothing. Each check reads only the
columns of a key: the new keys are few, and the scan of the stored keys skips row groups by their least and greatest
values (DuckDB's dynamic filters of joins). Rows that other writers commit after the check are excluded by the returned
requirements of the commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from snapdb.errors import DataError
from snapdb.execute.session import ExecutionContext
from snapdb.execute.tables.returned_rows import rows_of_files
from snapdb.plan.constraints import checked_constraints, checked_references
from snapdb.sql_engine import ROW_ID, SqlSession, deleted_rows, is_plain, parquet_files, quote, table_rows, text_literal
from snapdb.storage.tables.commit import Unchanged
from snapdb.types import Column, Constraint, Segment, Table
from snapdb.types.text import counted

_ID = quote(ROW_ID)
_ORDERED = re.compile(r"U?(TINY|SMALL|BIG)?INT(EGER)?$|VARCHAR$|DATE$|TIMESTAMP$|DECIMAL\(|UUID$|DOUBLE$")
"""The types whose values keep their order and their value as text."""


def check_constraints(
    context: ExecutionContext,
    table: Table,
    files: Sequence[Segment],
    removed: Segment | None = None,
    changed: frozenset[str] | None = None,
) -> list[Unchanged]:
    """Check the constraints of a table, and the foreign keys that reference it, before rows are added and removed.

    Args:
        context: The context of the statement.
        table: The table, before the statement.
        files: The new rows, in the table's columns.
        removed: The ids of the rows that the same statement removes.
        changed: The columns with new values, or None for all.

    Returns:
        The requirements under which the commit may add and remove the rows.

    Raises:
        DataError: A row violates a constraint.
    """
    folded = None if changed is None else {name.lower() for name in changed}
    checks = [c for c in checked_constraints(context.catalog, table) if _touches(_read_by(table, c), folded)]
    children = [
        (child, key)
        for child, key in (checked_references(context.catalog, table) if removed is not None else [])
        if _touches(key.keys, folded)
    ]
    if not (files and checks) and not children:
        return []
    with context.store.sql_engine.session() as session, context.watching(session, f"checking {table.name}"):
        check = _Check(context, session, table, rows_of_files(context, table, files) if files else None, removed)
        needed = list(check.required_of_rows(checks)) if files else []
        return [*needed, *check.required_of_keys(children)]


def check_existing(
    context: ExecutionContext, table: Table, added: Constraint | None, required: Sequence[Column]
) -> list[Unchanged]:
    """Check the rows of a table before it gets a constraint or a column becomes NOT NULL.

    Returns:
        The requirements under which the commit may do so.

    Raises:
        DataError: A row violates the constraint.
    """
    if added is None and not required:
        return []
    rows = context.bind_context.rows(table)
    with context.store.sql_engine.session() as session, context.watching(session, f"checking {table.name}"):
        for column in required:
            ((nulls,),) = session.rows(f"SELECT count(*) - count({quote(column.name)}) FROM ({rows})")
            if nulls:
                raise DataError(
                    f'column "{column.name}" of {table.name} has NULL in {counted(nulls, "row")}; UPDATE or DELETE '
                    "them first",
                    code="not-null-broken",
                )
        # The rows are checked as if they were new rows of an empty table.
        check = _Check(context, session, replace(table, segments=(), deletes=(), rows=0), rows, None)
        needed = [] if added is None else list(check.required_of_rows([added]))
    return [each for each in needed if each.table_id != table.id]


def _read_by(table: Table, constraint: Constraint) -> tuple[str, ...]:
    """Return the columns of a table that a constraint reads, which include a key that the table itself references."""
    itself = constraint.table is not None and constraint.table.lower() == table.name.lower()
    return (*table.names_of(constraint), *(constraint.keys if itself else ()))


def _touches(names: Sequence[str], changed: set[str] | None) -> bool:
    return changed is None or not changed.isdisjoint(name.lower() for name in names)


class _Check:
    """A check of one statement's rows."""

    def __init__(
        self, context: ExecutionContext, session: SqlSession, table: Table, new: str | None, removed: Segment | None
    ) -> None:
        self._context = context
        self._session = session
        self._table = table
        self._new = new
        """A SELECT of the new rows, or None without new rows."""
        self._gone = [] if removed is None else [removed]
        self._root = context.store.db_dir.path

    def required_of_rows(self, constraints: Sequence[Constraint]) -> Iterator[Unchanged]:
        """Check the new rows, and yield what must not change until they are committed."""
        base = self._context.catalog.version
        for constraint in constraints:
            match constraint.kind:
                case "CHECK":
                    self._check_condition(constraint)
                case "FOREIGN KEY":
                    parent = self._parent(constraint)
                    self._check_reference(constraint, parent)
                    yield Unchanged(parent.id, base, ("delete", "alter"))
                case _:
                    self._check_unique(constraint)
                    yield Unchanged(self._table.id, base, ("append",))

    def required_of_keys(self, children: Sequence[tuple[Table, Constraint]]) -> Iterator[Unchanged]:
        """Check that no row references a removed key, and yield what must not change until the commit."""
        for child, constraint in children:
            self._check_unreferenced(child, constraint)
            yield Unchanged(child.id, self._context.catalog.version, ("append", "alter"))

    def _parent(self, constraint: Constraint) -> Table:
        assert constraint.table is not None, "a FOREIGN KEY references a table"
        return (
            self._table
            if constraint.table.lower() == self._table.name.lower()
            else self._context.catalog.table(constraint.table)
        )

    def _check_condition(self, constraint: Constraint) -> None:
        names = self._table.names_of(constraint) or tuple(c.name for c in self._table.columns)
        wrong = f"SELECT {_keys(names)} FROM ({self._new}) AS {quote(self._table.name)} WHERE NOT CAST(("
        rows = self._session.rows(f"{wrong}{constraint.expression}\n) AS BOOLEAN) LIMIT 1")
        if rows:
            raise DataError(
                f"row {_text(names, rows[0])} violates CHECK constraint {constraint.name} of {self._table.name}: "
                f"{constraint.expression}; correct the value, or leave the row out",
                code="check-broken",
            )

    def _check_unique(self, constraint: Constraint) -> None:
        names = self._table.names_of(constraint)
        fresh = self._fresh(self._new, names)
        rows = self._session.rows(f"SELECT * FROM ({fresh}) GROUP BY ALL HAVING count(*) > 1 LIMIT 1")
        if not rows and self._table.rows:
            rows = self._session.rows(
                f"WITH fresh AS MATERIALIZED ({fresh}) {self._stored(self._table, names, fresh, own=True)} LIMIT 1"
            )
        if rows:
            way = "leave it out, or write INSERT … ON CONFLICT"
            raise DataError(
                f'duplicate key "{_text(names, rows[0])}" violates {constraint.kind} constraint {constraint.name} of '
                f"{self._table.name}; {way}",
                code="unique-broken",
            )

    def _check_reference(self, constraint: Constraint, parent: Table) -> None:
        names, itself = self._table.names_of(constraint), parent.id == self._table.id
        fresh = self._fresh(self._new, names)
        known = self._stored(parent, constraint.keys, fresh, own=itself)
        if itself:  # a new row can reference another one
            known = f"({known}) UNION ALL ({self._fresh(self._new, constraint.keys)})"
        rows = self._session.rows(
            f"WITH fresh AS MATERIALIZED (SELECT DISTINCT * FROM ({fresh})) "
            f"SELECT * FROM fresh ANTI JOIN ({known}) USING ({_columns(names)}) LIMIT 1"
        )
        if rows:
            raise DataError(
                f'key "{_text(names, rows[0])}" does not exist in {parent.name}, which violates FOREIGN KEY constraint '
                f"{constraint.name} of {self._table.name}; insert the row into {parent.name} first",
                code="reference-broken",
            )

    def _check_unreferenced(self, child: Table, constraint: Constraint) -> None:
        gone = self._fresh(_rows_by_id(self._context, self._table, self._gone), constraint.keys)
        if self._new is not None:
            gone = f"({gone}) EXCEPT ({self._fresh(self._new, constraint.keys)})"
        names, itself = child.names_of(constraint), child.id == self._table.id
        rows = self._session.rows(
            f"WITH fresh AS MATERIALIZED ({gone}) {self._stored(child, names, gone, own=itself)} LIMIT 1"
        )
        if rows:
            raise DataError(
                f'key "{_text(constraint.keys, rows[0])}" of {self._table.name} is still referenced by FOREIGN KEY '
                f"constraint {constraint.name} of {child.name}; delete or update the rows of {child.name} first",
                code="key-referenced",
            )

    def _fresh(self, rows: str | None, names: Sequence[str]) -> str:
        return select_keys(str(rows), names)

    def _stored(self, table: Table, names: Sequence[str], fresh: str, *, own: bool) -> str:
        """Return a SELECT of the keys in `fresh` that a table has, with or without the rows that are removed."""
        removed = self._gone if own else ()
        return stored_keys(self._session, table, names, fresh, removed, self._root, _columns(names))


def select_keys(rows: str, names: Sequence[str], more: str = "") -> str:
    """Return a SELECT of the keys k0, k1, … of rows, without keys that contain NULL, and of further columns."""
    present = " AND ".join(f"{quote(name)} IS NOT NULL" for name in names)
    keys = ", ".join([*(f"{quote(name)} AS k{i}" for i, name in enumerate(names)), *([more] if more else [])])
    return f"SELECT {keys} FROM ({rows}) WHERE {present}"


def stored_keys(
    session: SqlSession,
    table: Table,
    names: Sequence[str],
    fresh: str,
    removed: Sequence[Segment],
    root: Path,
    selected: str,
) -> str:
    """Return a SELECT of the keys in the common table expression `fresh` that a table has.

    Args:
        session: The session in which the range of the new keys is read.
        table: The table.
        names: Its columns of the key.
        fresh: The SELECT of `fresh`, with columns k0, k1, ….
        removed: Files of row ids that are excluded.
        root: The database directory.
        selected: The select list over the columns of `fresh` and the row id of the stored row.
    """
    # The join comes first, because it skips row groups. Its few rows are then compared with the deleted ones.
    rows = table_rows(replace(table, deletes=()), root, row_ids=True)
    keys = ", ".join(f"{quote(name)} AS k{i}" for i, name in enumerate(names))
    known = f"SELECT {keys}, {_ID} FROM ({rows}){key_range(session, table, names, fresh)}"
    joined = f"SELECT fresh.*, known.{_ID} FROM ({known}) AS known JOIN fresh USING"
    deletes = [*table.deletes, *removed]
    live = f" WHERE {_ID} NOT IN ({deleted_rows(deletes, root)})" if deletes else ""
    return f"SELECT {selected} FROM ({joined} ({_columns(names)})){live}"


def key_range(session: SqlSession, table: Table, names: Sequence[str], fresh: str) -> str:
    """Return a WHERE clause with the least and greatest key, for which the scan skips row groups."""
    column = table.column(names[0])
    if column is None or not is_plain(column.type) or not _ORDERED.match(column.type):
        return ""
    low, high = session.rows(f"SELECT CAST(min(k0) AS VARCHAR), CAST(max(k0) AS VARCHAR) FROM ({fresh})")[0]
    if low is None:
        return ""
    first, last = (f"CAST({text_literal(value)} AS {column.type})" for value in (low, high))
    return f" WHERE {quote(column.name)} BETWEEN {first} AND {last}"


def _rows_by_id(context: ExecutionContext, table: Table, removed: Sequence[Segment]) -> str:
    rows = table_rows(table, context.store.db_dir.path, row_ids=True)
    ids = parquet_files(removed, context.store.db_dir.path)
    return f"SELECT * FROM ({rows}) WHERE {_ID} IN (SELECT row_id FROM {ids})"


def _columns(names: Sequence[str]) -> str:
    return ", ".join(f"k{i}" for i in range(len(names)))


def _keys(names: Sequence[str]) -> str:
    return ", ".join(quote(name) for name in names)


def _text(names: Sequence[str], row: Sequence[object]) -> str:
    """Return a key as DuckDB shows it.

    >>> _text(["a", "b"], [1, None])
    'a: 1, b: NULL'
    """
    shown = ("NULL" if value is None else str(value) for value in row)
    return ", ".join(f"{name}: {value}" for name, value in zip(names, shown, strict=True))

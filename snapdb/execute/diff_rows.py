"""The rows of a difference, one after another: what went from each element, then what came to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from snapdb.execute.diff_elements import Difference, ElementRows, id_of
from snapdb.relational import Session, quote, text_literal
from snapdb.types import Column, Table

_E_ID = Column("e_id", "BIGINT")

Changed = tuple[str, ElementRows | None, ElementRows | None, Difference]
"""An element's name, its rows before and after, and what differs between them."""


def changed_rows(session: Session, elements: Sequence[Changed]) -> Iterator[pa.RecordBatch]:
    """Batches of `change`, `element` and the columns that any of the elements has, by name; at least one batch."""
    columns = _union([column for _, before, after, _ in elements for column in _columns(after or before)])
    queries = [
        query
        for name, before, after, found in elements
        for query in (
            *_side("-", name, before, after, found.went, columns),
            *_side("+", name, after, after or before, found.came, columns),
        )
    ]
    if not queries:
        nothing = "".join(f", CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in columns)
        queries = [f"SELECT '' AS change, '' AS element{nothing} WHERE false"]
    for number, query in enumerate(queries):
        for batch in session.exact_reader(query):
            if batch.num_rows or number == 0:
                yield batch


def column_value(column: Column, table: Table, shown: Table) -> str | None:
    """A column of the shown table out of another state of it, or of one in its place; None where that has none."""
    same_table = table.id == shown.id
    for c in table.columns:
        if c.type == column.type and (c.field == column.field if same_table else c.name == column.name):
            return quote(c.name)
    return None


def _columns(rows: ElementRows | None) -> tuple[Column, ...]:
    """The columns that SQL sees of an element."""
    if rows is None:
        return ()
    return (*rows.table.columns, _E_ID) if id_of(rows) == _E_ID.name else rows.table.columns


def _union(columns: Sequence[Column]) -> list[Column]:
    """One column a name; VARCHAR where types differ."""
    found: dict[str, Column] = {}
    for column in columns:
        known = found.setdefault(column.name.lower(), Column(column.name, column.type))
        if known.type != column.type:
            found[column.name.lower()] = Column(known.name, "VARCHAR")
    return list(found.values())


def _side(
    sign: str,
    name: str,
    rows: ElementRows | None,
    shown: ElementRows | None,
    parts: Sequence[str],
    columns: Sequence[Column],
) -> list[str]:
    """The SELECT of one element's rows that came, or went, by row id; none when there are none."""
    if rows is None or shown is None or not parts:
        return []
    own = {c.name.lower(): c for c in _columns(shown)}
    values = "".join(
        f", CAST({_value(own.get(c.name.lower()), rows, shown)} AS {c.type}) AS {quote(c.name)}" for c in columns
    )
    union = " UNION ALL ".join(f"({part})" for part in parts)
    return [
        f"SELECT '{sign}' AS change, {text_literal(name)} AS element{values} FROM ({union}) r ORDER BY r.{id_of(rows)}"
    ]


def _value(column: Column | None, rows: ElementRows, shown: ElementRows) -> str:
    if column is None:
        return "NULL"
    if column == _E_ID:
        return _E_ID.name
    return column_value(column, rows.table, shown.table) or "NULL"

"""ON CONFLICT: the keys of new rows that may exist already, and the new values of the rows that have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snapdb.catalog import Catalog
from snapdb.errors import BindError, Span
from snapdb.plan.names import find_column, find_written
from snapdb.plan.queries import BoundQuery, compose
from snapdb.plan.scope import BindContext
from snapdb.plan.tables.columns import with_column_names
from snapdb.sql.tables import OnConflict
from snapdb.sql_engine import ROW_ID, default_value, no_rows, parquet_form, quote
from snapdb.types import Table

_ID = quote(ROW_ID)


@dataclass(frozen=True, slots=True)
class Conflict:
    """What INSERT does with rows whose key exists."""

    keys: tuple[tuple[str, ...], ...]
    """The columns of each key. A row is a conflict if one of its keys exists and has no NULL."""
    values: BoundQuery | None
    """The select list of DO UPDATE, with all columns of the table. None for DO NOTHING."""
    where: BoundQuery | None
    """The condition under which DO UPDATE changes a row, or None for always."""
    name: str
    """The name of the existing rows in `values` and `where`. The new row is the STRUCT `excluded`."""

    def updated(self, rows: str, span: Span) -> BoundQuery:
        """Return the query of the ids and new values, over a SELECT of existing rows with their ids and `excluded`."""
        assert self.values is not None, "DO UPDATE has values"
        where: list[str | BoundQuery] = [] if self.where is None else [" WHERE (", self.where, "\n)"]
        return compose(span, f"SELECT {_ID}, ", self.values, f" FROM ({rows}) AS {quote(self.name)}", *where)


def bind_conflict(
    context: BindContext, clause: OnConflict, table: Table, name: str, supplied: Sequence[str], span: Span
) -> Conflict:
    """Bind the keys and the assignments. Raises BindError if the table has no such key.

    Args:
        context: The context of the statement.
        clause: The clause.
        table: The table.
        name: The alias of the table, or its name.
        supplied: The columns that the query supplies, which INSERT OR REPLACE assigns.
        span: The span for errors.
    """
    updates = bool(clause.assignments) or clause.word == "REPLACE"
    keys = _keys(context.catalog, clause, table, span, single=updates)
    if not updates:
        return Conflict(keys, None, None, name)
    assigned: dict[str, str | BoundQuery] = {}
    if clause.word == "REPLACE":
        own = {column.lower() for column in keys[0]}
        assigned = {column: f"excluded.{quote(column)}" for column in supplied if column.lower() not in own}
    for target, value in clause.assignments:
        column = find_written(table, target)
        if column.name in assigned:
            raise BindError(f'column "{column.name}" is assigned twice', span=target.span, code="duplicate-name")
        assigned[column.name] = default_value(column) if value.text.upper() == "DEFAULT" else context.bind_query(value)
    parts: list[str | BoundQuery] = []
    # The assignments come first, in the order of the text, because ? parameters are positional.
    for column in sorted(table.columns, key=lambda column: [*assigned, column.name].index(column.name)):
        value_ = assigned.get(column.name, f"{quote(name)}.{quote(column.name)}")
        form = parquet_form(column.type)
        parts += [
            ", " if parts else "",
            "CAST(CAST((",
            value_,
            f"\n) AS {column.type}) AS {form}) AS {quote(column.name)}",
        ]
    where = None if clause.where is None else context.bind_query(clause.where)
    conflict = Conflict(keys, with_column_names(context, table, compose(span, *parts)), where, name)
    struct = ", ".join(f"{quote(c.name)} := CAST(NULL AS {c.type})" for c in table.columns)
    query = conflict.updated(
        f"SELECT *, 0::BIGINT AS {_ID}, struct_pack({struct}) AS excluded FROM ({no_rows(table.columns)})", span
    )
    with context.describing(query) as session:
        session.describe(query.text, query.parameters)
    return conflict


def _keys(
    catalog: Catalog, clause: OnConflict, table: Table, span: Span, *, single: bool
) -> tuple[tuple[str, ...], ...]:
    """Return the keys on which new rows can conflict: those that the clause names, or all keys of the table."""
    known = list(dict.fromkeys(_known_keys(catalog, table)))
    if clause.columns:
        named = tuple(find_column(table, column).name for column in clause.columns)
        wanted = {column.lower() for column in named}
        if not any({column.lower() for column in key} == wanted for key in known):
            there = "; its keys are " + ", ".join(f"({', '.join(key)})" for key in known) if known else ""
            raise BindError(
                f"({', '.join(named)}) is no key of {table.name}: no PRIMARY KEY or UNIQUE constraint, and no KEY of a "
                f"graph{there}",
                span=Span(clause.columns[0].span.start, clause.columns[-1].span.stop),
                code="no-key",
            )
        return (named,)
    if not known:
        raise BindError(
            f"table {table.name} has no key on which rows can conflict; declare a PRIMARY KEY or UNIQUE constraint, or "
            "a graph with a KEY",
            span=span,
            code="no-key",
        )
    if single and len(known) > 1:
        raise BindError(
            f"table {table.name} has several keys; write ON CONFLICT (columns) DO UPDATE with those of one key: "
            + ", ".join(f"({', '.join(key)})" for key in known),
            span=span,
            code="no-key",
        )
    return tuple(known)


def _known_keys(catalog: Catalog, table: Table) -> Iterator[tuple[str, ...]]:
    """Yield the columns of the enforced keys of a table, and those of the vertices that graphs define over it."""
    for constraint in table.constraints:
        if constraint.is_unique and constraint.enforced:
            yield table.names_of(constraint)
    for graph in catalog.graphs.values():
        for vertex in graph.vertices:
            columns = [table.column(name) for name in vertex.key]
            if vertex.table.lower() == table.name.lower() and None not in columns:
                yield tuple(column.name for column in columns if column is not None)

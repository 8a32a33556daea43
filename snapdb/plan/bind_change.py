"""DELETE, UPDATE and ALTER TABLE: rows found by one query, columns changed without touching a file."""

from __future__ import annotations

from dataclasses import replace

from snapdb.errors import BindError, SnapdbError
from snapdb.plan.asked import Asked, compose
from snapdb.plan.bind_table import defined_columns
from snapdb.plan.names import find_column, find_table, tables_of
from snapdb.plan.plan import NothingPlan, Plan
from snapdb.plan.scope import Context
from snapdb.plan.tables import AlterPlan, DeletePlan, UpdatePlan
from snapdb.relational import ROW_ID, check_storable, default_value, no_rows, parquet_form, quote
from snapdb.sql.ast import AddColumn, AlterTable, Delete, DropColumn, Name, RenameColumn, Update
from snapdb.types import Column, PropertyGraph, Table

_ID = quote(ROW_ID)


def bind_delete(statement: Delete, context: Context) -> DeletePlan:
    """A query for the ids of the rows that go."""
    table = find_table(context, statement.table)
    name = quote(str(statement.alias or table.name))
    distinct = "DISTINCT " if statement.others else ""  # one row may meet several
    # An alias would be a name that the user's condition could see; the ids' own name is one that no column may have.
    before = f"SELECT {_ID} AS row_id FROM (SELECT {distinct}{name}.{_ID} FROM "
    find, shape = (
        compose(statement.span, before, *_found(context, rows, name, statement), ")") for rows in _rows(context, table)
    )
    _check(context, shape)
    return DeletePlan(table, find, context.catalog.version, statement.message)


def bind_update(statement: Update, context: Context) -> UpdatePlan:
    """A query for the rows that change: their ids, and all columns with the new values."""
    table = find_table(context, statement.table)
    name = quote(str(statement.alias or table.name))
    places = {}
    for place, assignment in enumerate(statement.assignments):
        column = find_column(table, assignment.column)
        if column.name in places:
            raise BindError(f'column "{column.name}" is set twice', span=assignment.column.span, code="duplicate-name")
        places[column.name] = place
    values: list[str | Asked] = []
    for place, assignment in enumerate(statement.assignments):
        # In the order in which they were written, so that ? keep theirs.
        column = find_column(table, assignment.column)
        said = default_value(column) if assignment.value.text.upper() == "DEFAULT" else context.asked(assignment.value)
        values += ["(", said, f'\n) AS "snapdb set {place}", ']
    kept = ", ".join(f'{name}.{quote(c.name)} AS "snapdb was {i}"' for i, c in enumerate(table.columns))
    new = [
        f'"snapdb set {places[c.name]}"' if c.name in places else f'"snapdb was {i}"'
        for i, c in enumerate(table.columns)
    ]
    chosen = ", ".join(
        f"CAST(CAST({value} AS {c.type}) AS {parquet_form(c.type)}) AS {quote(c.name)}"  # in a file meanwhile
        for value, c in zip(new, table.columns, strict=True)
    )
    find, shape = (
        compose(
            statement.span,
            f"SELECT {_ID}, {chosen} FROM (SELECT ",
            *values,
            f"{name}.{_ID}, {kept} FROM ",
            *_found(context, rows, name, statement),
            ")",
        )
        for rows in _rows(context, table)
    )
    _check(context, shape)
    return UpdatePlan(table, find, context.catalog.version, statement.message, frozenset(places))


def _rows(context: Context, table: Table) -> tuple[str, str]:
    """The SELECT of a table with the ids of its rows, and one of the same columns that reads nothing."""
    shape = no_rows((*table.columns, Column(ROW_ID, "BIGINT")))
    return context.rows(table, row_ids=True, ordered=False), shape


def _check(context: Context, shape: Asked) -> None:
    """Nothing when a query can be read."""
    with context.describing(shape) as session:
        session.describe(shape.text, shape.parameters)


def _found(context: Context, rows: str, name: str, statement: Delete | Update) -> list[str | Asked]:
    """FROM and WHERE of the rows that a statement is about."""
    parts: list[str | Asked] = [f"({rows}) AS {name}"]
    if statement.others is not None:
        parts += [", ", context.asked(statement.others)]
    if statement.where is not None:
        parts += [" WHERE (", context.asked(statement.where), "\n)"]
    return parts


def bind_alter(statement: AlterTable, context: Context) -> Plan:
    """The table's columns afterwards; those that a graph reads stay."""
    if statement.if_exists and statement.table.text.lower() not in context.catalog.tables:
        return NothingPlan(f'there is no table "{statement.table}"')
    table = find_table(context, statement.table)
    match statement.action:
        case AddColumn() as action:
            made = _added(context, table, action)
        case DropColumn() as action:
            made = _dropped(context, table, action)
        case RenameColumn() as action:
            made = _renamed(context, table, action)
    if isinstance(made, NothingPlan):
        return made
    columns, did = made
    return AlterPlan(table, columns, did, context.catalog.version, statement.message)


def _added(context: Context, table: Table, action: AddColumn) -> tuple[tuple[Column, ...], str] | NothingPlan:
    definition = action.definition
    (column, *more) = defined_columns(context, definition)
    if more:
        raise BindError(
            "ADD COLUMN adds one column; write one ALTER TABLE for each", span=definition.span, code="one-column"
        )
    if (found := table.column(column.name)) is not None:
        if action.if_not_exists:
            return NothingPlan(f'table {table.name} has a column "{found.name}" already')
        raise BindError(f'table {table.name} has a column "{found.name}" already', span=definition.span, code="exists")
    if not column.nullable and column.default is None and table.next_row:
        raise BindError(
            f'column "{column.name}" is NOT NULL, but the rows that are there would have no value in it; '
            "give it a DEFAULT",
            span=definition.span,
            code="not-null",
        )
    for graph in context.catalog.graphs.values():
        for edge in graph.edges:
            if edge.table.lower() == table.name.lower() and column.name.lower() == "e_id":
                raise BindError(
                    f"graph {graph.name} gives e_id to the edges of {table.name}; choose another name",
                    span=definition.span,
                    code="reserved-name",
                )
    # Fields of columns that were dropped are in older files, and must not come back to life.
    column = replace(column, field=table.fields + 1)
    columns = (*table.columns, column)
    try:
        check_storable(columns)
    except SnapdbError as error:
        error.span = definition.span
        raise
    return columns, f'column "{column.name}" {column.type} added to {table.name}'


def _dropped(context: Context, table: Table, action: DropColumn) -> tuple[tuple[Column, ...], str] | NothingPlan:
    if action.if_exists and table.column(action.column.text) is None:
        return NothingPlan(f'table {table.name} has no column "{action.column}"')
    column = find_column(table, action.column)
    _check_unused(context, table, column, action.column, "drop")
    if len(table.columns) == 1:
        raise BindError(
            f"{column.name} is the only column of {table.name}; write DROP TABLE {table.name}",
            span=action.column.span,
            code="last-column",
        )
    columns = tuple(c for c in table.columns if c.field != column.field)
    return columns, f'column "{column.name}" dropped from {table.name}'


def _renamed(context: Context, table: Table, action: RenameColumn) -> tuple[tuple[Column, ...], str]:
    column = find_column(table, action.column)
    other = table.column(action.new.text)
    if other is not None and other.field != column.field:
        raise BindError(f'table {table.name} has a column "{other.name}" already', span=action.new.span, code="exists")
    _check_unused(context, table, column, action.column, "rename")
    columns = tuple(replace(c, name=action.new.text) if c.field == column.field else c for c in table.columns)
    try:
        check_storable(columns)
    except SnapdbError as error:
        error.span = action.new.span
        raise
    return columns, f'column "{column.name}" of {table.name} renamed to "{action.new}"'


def _check_unused(context: Context, table: Table, column: Column, name: Name, verb: str) -> None:
    """Nothing when no graph names the column; a graph serves every version whose tables fit it."""
    users = [g.name for g in context.catalog.graphs.values() if _uses(g, table, column)]
    if users:
        raise BindError(
            f'column "{column.name}" of {table.name} is used by graph {", ".join(users)}; drop it with its '
            f"snapshots, {verb} the column and create them again",
            span=name.span,
            code="in-use",
        )


def _uses(graph: PropertyGraph, table: Table, column: Column) -> bool:
    return column.name.lower() in tables_of(graph).get(table.name.lower(), ())

"""CREATE TABLE and INSERT: columns and queries checked against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from snapdb.errors import BindError, SnapdbError, Span
from snapdb.plan.asked import written
from snapdb.plan.copyable import copyable, whole_files
from snapdb.plan.names import check_new, find_table, named_columns
from snapdb.plan.plan import NothingPlan, Plan
from snapdb.plan.repeatable import check_repeatable
from snapdb.plan.scope import Context
from snapdb.plan.tables import CreateTablePlan, InsertPlan
from snapdb.relational import Session, check_storable, files_behind, parquet_form, text_literal
from snapdb.sql.ast import CreateTable, Insert, Island
from snapdb.sql.literals import first_row
from snapdb.sql.tokens import scan
from snapdb.sql.travel import bare_ats
from snapdb.types import Column
from snapdb.types.text import counted


def bind_create_table(statement: CreateTable, context: Context) -> Plan:
    """The columns of a new table, from its definition or its query."""
    replacing = ("table",) if statement.or_replace or statement.if_not_exists else ()
    if check_new(context.catalog, statement.name, replacing) and statement.if_not_exists:
        return NothingPlan(f'there is a table "{statement.name}" already')
    replaces = context.catalog.tables.get(statement.name.text.lower())
    query, copies = None, tuple[str, ...]()
    if statement.query is not None:
        query = context.asked(statement.query)
        with context.describing(query) as session:
            columns = session.describe(query.text, query.parameters)
            if (path := whole_files(query.text)) is not None:
                copies = copyable(session, files_behind(session, path), columns)
        place = statement.query.span
    else:
        assert statement.definition is not None
        columns = defined_columns(context, statement.definition)
        place = statement.definition.span
    try:
        check_storable(columns)
    except SnapdbError as error:
        error.span = place
        raise
    base = context.catalog.version
    return CreateTablePlan(statement.name.text, _numbered(columns), query, replaces, base, statement.message, copies)


def bind_insert(statement: Insert, context: Context) -> Plan:
    """A query whose columns match the table's, or those that were named."""
    table = find_table(context, statement.table)
    supplied = named_columns(table, statement.columns)
    query = context.asked(statement.query)
    with context.describing(query) as session:
        text = first_row(query.text) or query.text  # DuckDB reads all rows to describe them, and again to write them
        found = session.describe(text, query.parameters, around=("SELECT * FROM (", ") AS q"))
        path = whole_files(query.text)
        in_order = [c.name.lower() for c in found] == [c.name.lower() for c in table.columns]
        whole = path is not None and in_order and not statement.columns
        copies = copyable(session, files_behind(session, str(path)), table.columns) if whole else ()
    if len(found) != len(supplied):
        raise BindError(
            f"{table.name} takes {counted(len(supplied), 'column')} here ({', '.join(supplied)}), the query gives "
            f"{len(found)}",
            span=statement.query.span,
            code="column-count",
        )
    return InsertPlan(table, supplied, query, statement.message, copies)


def _numbered(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Columns with the fields by which files know them."""
    return tuple(replace(column, field=field) for field, column in enumerate(columns, 1))


def defined_columns(context: Context, definition: Island) -> list[Column]:
    """The columns of `name type [NOT NULL], …`, as DuckDB reads them."""
    for token in scan(definition.text):
        if token.word == "COLLATE":
            at = definition.span.start
            raise BindError(
                "COLLATE is not kept; write it in the query: WHERE name COLLATE NOCASE = 'x'",
                span=Span(at + token.span.start, at + token.span.stop),
                code="not-supported",
            )
    asked = written(definition, replacements=[(span, '"at"') for span in bare_ats(definition.text)])
    with context.session(asked) as session:
        session.wrap("CREATE TABLE defined (", asked.text, "\n)")
        found = session.rows(
            "SELECT column_name, data_type, is_nullable, column_default FROM duckdb_columns() "
            f"WHERE table_name = 'defined' AND database_name = {text_literal(session.space)} ORDER BY column_index"
        )
        kinds = session.rows(
            "SELECT DISTINCT constraint_type FROM duckdb_constraints() "
            f"WHERE table_name = 'defined' AND database_name = {text_literal(session.space)}"
        )
        session.rows("DROP TABLE defined")
        for (kind,) in kinds:
            if kind != "NOT NULL":
                raise BindError(
                    f"{kind} constraints are not kept; only NOT NULL is (a graph checks that its keys are unique)",
                    span=definition.span,
                    code="constraint",
                )
        try:
            return [
                Column(name, type_, nullable, 0, _default(context, session, default, type_))
                for name, type_, nullable, default in found
            ]
        except SnapdbError as error:
            error.span = definition.span
            raise


def _default(context: Context, session: Session, expression: str | None, type_: str) -> str | None:
    """The value of a DEFAULT as text, which the type's cast reads again; None for NULL or where there is none."""
    if expression is None:
        return None
    check_repeatable(context.relational, Island(expression, Span(0, 0)), "a DEFAULT is a constant")
    form = parquet_form(type_)
    try:
        value = session.rows(f"SELECT CAST(CAST(CAST(({expression}) AS {type_}) AS {form}) AS VARCHAR)")[0][0]
    except BindError as error:
        raise BindError(
            f"the DEFAULT {expression} is not a constant, and computed columns are not kept; give the "
            "value when inserting",
            code="bad-default",
        ) from error
    return None if value is None else str(value)

"""Binders of CREATE TABLE and ALTER TABLE."""

from dataclasses import replace

from snapdb.errors import BindError, SnapdbError
from snapdb.plan.constraints import check_unconstrained, check_unreferenced, constrain
from snapdb.plan.input_files import copyable
from snapdb.plan.names import check_new, check_schema, find_column, find_table, tables_of
from snapdb.plan.plan import NothingPlan, Plan
from snapdb.plan.scope import BindContext
from snapdb.plan.tables.altered_constraints import bind_constraint
from snapdb.plan.tables.columns import defined_columns, numbered
from snapdb.plan.tables.plans import AlterPlan, CreateTablePlan
from snapdb.sql.lexer import scan
from snapdb.sql.queries import whole_files
from snapdb.sql.syntax import Name, SqlFragment
from snapdb.sql.tables import (
    AddColumn,
    AddConstraint,
    AlterTable,
    CreateTable,
    DropColumn,
    DropConstraint,
    RenameColumn,
    SetNullable,
)
from snapdb.sql_engine import check_storable
from snapdb.types import Column, PropertyGraph, Table


def bind_create_table(statement: CreateTable, context: BindContext) -> Plan:
    """Bind the columns of a new table, from its definition or its query."""
    replacing = ("table",) if statement.or_replace or statement.if_not_exists else ()
    check_schema(context, statement.name)
    if check_new(context.catalog, statement.name, replacing) and statement.if_not_exists:
        return NothingPlan(f'table "{statement.name}" already exists')
    replaces = context.catalog.tables.get(statement.name.text.lower())
    query, copies, defined = None, tuple[str, ...](), None
    if statement.query is not None:
        query = context.bind_query(statement.query)
        with context.describing(query) as session:
            columns = session.describe(query.text, query.parameters)
            columns = _renamed(columns, statement)
            if (path := whole_files(query.text)) is not None and not statement.columns:
                copies = copyable(session, session.files_behind(path), columns)
        place = statement.query.span
    else:
        assert statement.definition is not None
        defined = defined_columns(context, statement.definition, statement.name.text)
        columns, place = defined.columns, statement.definition.span
    try:
        check_storable(columns)
    except SnapdbError as error:
        error.span = place
        raise
    base, fields = context.catalog.version, numbered(columns)
    if replaces is not None:
        check_unreferenced(context.catalog, replaces, statement.name, "replace")
    if defined is not None and defined.clauses:
        empty = Table(0, statement.name.text, fields, (), (), 0, base, 0, len(fields))
        fields = constrain(context, empty, defined.clauses, defined.checked)
    return CreateTablePlan(statement.name.text, fields, query, replaces, base, statement.message, copies)


def _renamed(columns: list[Column], statement: CreateTable) -> list[Column]:
    """Return the columns of a query with the names that the statement lists."""
    if len(statement.columns) > len(columns):
        raise BindError(
            f"the statement lists {len(statement.columns)} columns, but its query returns {len(columns)}",
            span=statement.columns[len(columns)].span,
            code="column-count",
        )
    names = [name.text for name in statement.columns]
    return [replace(c, name=new) for c, new in zip(columns, names, strict=False)] + columns[len(names) :]


def bind_alter(statement: AlterTable, context: BindContext) -> Plan:
    """Bind the columns after the change. Columns that a graph reads cannot be dropped or renamed."""
    if statement.if_exists and statement.table.text.lower() not in context.catalog.tables:
        return NothingPlan(f'table "{statement.table}" does not exist')
    table = find_table(context, statement.table)
    base = context.catalog.version
    match statement.action:
        case AddConstraint() | DropConstraint() as action:
            return bind_constraint(context, table, action, statement.message)
        case SetNullable() as action:
            column = find_column(table, action.column)
            columns = tuple(replace(c, nullable=action.nullable) if c == column else c for c in table.columns)
            did = f'column "{column.name}" of {table.name} {"may" if action.nullable else "must not"} be NULL'
            required = () if action.nullable else (column,)
            return AlterPlan(table, columns, did, base, statement.message, required=required)
        case AddColumn() as action:
            altered = _add_column(context, table, action)
        case DropColumn() as action:
            altered = _drop_column(context, table, action)
        case RenameColumn() as action:
            altered = _rename_column(context, table, action)
    if isinstance(altered, NothingPlan):
        return altered
    columns, did = altered
    return AlterPlan(table, columns, did, base, statement.message)


def _add_column(context: BindContext, table: Table, action: AddColumn) -> tuple[tuple[Column, ...], str] | NothingPlan:
    definition = action.definition
    if any(token.word in ("AS", "GENERATED") for token in scan(definition.text)):
        raise _computed(definition)
    defined = defined_columns(context, definition, table.name)
    (column, *more) = defined.columns
    if defined.clauses:
        raise BindError(
            "ADD COLUMN adds no constraint other than NOT NULL; write CREATE TABLE with it, and INSERT the rows",
            span=defined.clauses[0].span,
            code="constraint",
        )
    if more:
        raise BindError(
            "ADD COLUMN adds one column; write one ALTER TABLE for each", span=definition.span, code="one-column"
        )
    if (existing := table.column(column.name)) is not None:
        if action.if_not_exists:
            return NothingPlan(f'column "{existing.name}" already exists in table {table.name}')
        raise BindError(
            f'column "{existing.name}" already exists in table {table.name}', span=definition.span, code="exists"
        )
    if not column.nullable and column.default is None and table.next_row:
        raise BindError(
            f'column "{column.name}" is NOT NULL, but existing rows would have no value; add a DEFAULT',
            span=definition.span,
            code="not-null",
        )
    for graph in context.catalog.graphs.values():
        for edge in graph.edges:
            if edge.table.lower() == table.name.lower() and column.name.lower() == "e_id":
                raise BindError(
                    f"e_id is reserved, because {table.name} is an edge table of graph {graph.name}; choose another "
                    "name",
                    span=definition.span,
                    code="reserved-name",
                )
    if column.default_expression is not None and table.next_row:
        raise _computed(definition)
    # Older files still contain the fields of dropped columns, which a new column must not read.
    column = replace(column, field=table.fields + 1)
    columns = (*table.columns, column)
    try:
        check_storable(columns)
    except SnapdbError as error:
        error.span = definition.span
        raise
    return columns, f'column "{column.name}" {column.type} added to {table.name}'


def _computed(definition: SqlFragment) -> BindError:
    """Return the error for a new column whose values would differ between the existing rows."""
    return BindError(
        "ADD COLUMN cannot compute values for existing rows; write CREATE OR REPLACE TABLE with the column, or add it "
        "without the expression, and UPDATE the rows",
        span=definition.span,
        code="generated-column",
    )


def _drop_column(
    context: BindContext, table: Table, action: DropColumn
) -> tuple[tuple[Column, ...], str] | NothingPlan:
    if action.if_exists and table.column(action.column.text) is None:
        return NothingPlan(f'column "{action.column}" does not exist in table {table.name}')
    column = find_column(table, action.column)
    _check_unused(context, table, column, action.column, "drop")
    check_unconstrained(context.catalog, table, column, action.column, "drop")
    check_not_read(table, column, action.column, "drop")
    if len(table.columns) == 1:
        raise BindError(
            f"{column.name} is the only column of {table.name}; write DROP TABLE {table.name}",
            span=action.column.span,
            code="last-column",
        )
    columns = tuple(c for c in table.columns if c.field != column.field)
    return columns, f'column "{column.name}" dropped from {table.name}'


def _rename_column(context: BindContext, table: Table, action: RenameColumn) -> tuple[tuple[Column, ...], str]:
    column = find_column(table, action.column)
    other = table.column(action.new.text)
    # Columns with the same field id are the same column, so a rename that only changes the case is allowed.
    if other is not None and other.field != column.field:
        raise BindError(
            f'column "{other.name}" already exists in table {table.name}', span=action.new.span, code="exists"
        )
    _check_unused(context, table, column, action.column, "rename")
    check_unconstrained(context.catalog, table, column, action.column, "rename")
    check_not_read(table, column, action.column, "rename")
    columns = tuple(replace(c, name=action.new.text) if c.field == column.field else c for c in table.columns)
    try:
        check_storable(columns)
    except SnapdbError as error:
        error.span = action.new.span
        raise
    return columns, f'column "{column.name}" of {table.name} renamed to "{action.new}"'


def check_not_read(table: Table, column: Column, name: Name, verb: str) -> None:
    """Raise BindError if a generated column reads a column that is to be dropped or renamed."""
    for other in table.columns:
        words = {token.identifier.lower() for token in scan(other.generated or "")}
        if column.name.lower() in words:
            raise BindError(
                f'column "{column.name}" of {table.name} is read by the generated column {other.name}; to {verb} it, '
                "write CREATE OR REPLACE TABLE without that one",
                span=name.span,
                code="in-use",
            )


def _check_unused(context: BindContext, table: Table, column: Column, name: Name, verb: str) -> None:
    """Raise an error if a graph names the column, because a graph applies to every version whose tables fit it."""
    users = [g.name for g in context.catalog.graphs.values() if _is_used(g, table, column)]
    if users:
        raise BindError(
            f'column "{column.name}" of {table.name} is used by graph {", ".join(users)}; drop the graph '
            f"and its snapshots, {verb} the column, and create them again",
            span=name.span,
            code="in-use",
        )


def _is_used(graph: PropertyGraph, table: Table, column: Column) -> bool:
    return column.name.lower() in tables_of(graph).get(table.name.lower(), ())

"""Tables: CREATE TABLE, INSERT, COPY FROM, DELETE, UPDATE and ALTER TABLE."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from snapdb.errors import BindError, SnapdbError, Span
from snapdb.plan.conflicts import Conflict, bind_conflict
from snapdb.plan.constraints import check_unconstrained, check_unreferenced, constrain
from snapdb.plan.fragment_checks import check_repeatable
from snapdb.plan.input_files import NewFiles, copyable
from snapdb.plan.merges import bind_merge, merge_items, names_action
from snapdb.plan.names import check_new, find_column, find_named, named_columns, tables_of
from snapdb.plan.plan import NothingPlan, Plan, PlanFamily, PlanNode, describe_query
from snapdb.plan.queries import BoundQuery, compose, written
from snapdb.plan.returning import Returning, bind_returning, describe_returning, with_named_parameters
from snapdb.plan.row_ids import row_id_names
from snapdb.plan.scope import BindContext
from snapdb.sql.constraints import ConstraintClause, parse_definition
from snapdb.sql.lexer import partners, scan, top_level
from snapdb.sql.queries import bare_ats, first_row, whole_files
from snapdb.sql.syntax import Name, SqlFragment
from snapdb.sql.tables import (
    AddColumn,
    AlterTable,
    CreateTable,
    Delete,
    DropColumn,
    Insert,
    Merge,
    MergeClause,
    RenameColumn,
    Truncate,
    Update,
)
from snapdb.sql_engine import (
    ROW_ID,
    SqlSession,
    check_storable,
    default_value,
    no_rows,
    parquet_form,
    quote,
    text_literal,
)
from snapdb.types import Column, PropertyGraph, Table
from snapdb.types.text import counted

_ID = quote(ROW_ID)
_VALUES_DEFAULT = re.compile(r"\s*VALUES\b.*\bDEFAULT\b", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class CreateTablePlan(Plan):
    """CREATE TABLE: create an empty table, or a table with the rows of a query."""

    transactional: ClassVar[bool] = True

    name: str
    columns: tuple[Column, ...]
    query: BoundQuery | None
    replaces: Table | None
    base: int
    """The version that the query reads."""
    message: str | None
    copies: tuple[str, ...] = ()
    """Parquet files in segment format that contain exactly these rows. They are copied instead of rewritten."""

    def source(self) -> BoundQuery | None:
        return None if self.copies else self.query

    def describe(self) -> PlanNode:
        columns = ", ".join(f"{column.name} {column.type}" for column in self.columns)
        below = () if self.query is None else (_describe_source(self.query, self.copies),)
        return PlanNode("CreateTable", f"{self.name} ({columns})", below)


@dataclass(frozen=True, slots=True)
class InsertPlan(Plan):
    """INSERT and COPY … FROM: append the rows of a query as a segment."""

    transactional: ClassVar[bool] = True

    table: Table
    supplied: tuple[str, ...]
    """The columns to which the query's columns are assigned, in the query's order."""
    query: BoundQuery
    message: str | None
    copies: tuple[str, ...] = ()
    """Parquet files to copy, as in CreateTablePlan."""
    new: NewFiles | None = None
    """The files that COPY with NEW FILES ONLY reads and records as loaded, or None for other statements."""
    returning: Returning | None = None
    """The list that the statement returns, or None without RETURNING."""
    conflict: Conflict | None = None
    """What happens to rows whose key exists, or None to refuse them."""

    def source(self) -> BoundQuery | None:
        return None if self.copies else self.query

    def describe(self) -> PlanNode:
        detail = f"into {self.table.name} ({', '.join(self.supplied)})"
        detail += _describe_conflict(self.conflict) + describe_returning(self.returning)
        if self.new is None:
            return PlanNode("Insert", detail, (_describe_source(self.query, self.copies),))
        files = PlanNode("CopyFiles" if self.copies else "ReadFiles", f"new ones: {', '.join(self.new.names)}")
        return PlanNode("Insert", detail + self.new.notes(), (files,))


@dataclass(frozen=True, slots=True)
class DeletePlan(Plan):
    """DELETE: create a version without the rows that a query selects."""

    transactional: ClassVar[bool] = True

    table: Table
    find: BoundQuery
    """The query that selects the row ids, SELECT row_id."""
    base: int
    message: str | None
    returning: Returning | None = None
    """The list that the statement returns, or None without RETURNING."""

    def source(self) -> BoundQuery | None:
        return self.find

    def describe(self) -> PlanNode:
        detail = f"from {self.table.name}{describe_returning(self.returning)}"
        return PlanNode("Delete", detail, (_describe_search(self.find),))


@dataclass(frozen=True, slots=True)
class UpdatePlan(Plan):
    """UPDATE: replace the rows selected by a query with rows that have new values."""

    transactional: ClassVar[bool] = True

    table: Table
    find: BoundQuery
    """The query that selects the row ids, named ROW_ID, and all table columns with their new values."""
    base: int
    message: str | None
    changed: frozenset[str]
    """The columns with new values."""
    returning: Returning | None = None
    """The list that the statement returns, or None without RETURNING."""

    def source(self) -> BoundQuery | None:
        return self.find

    def describe(self) -> PlanNode:
        detail = f"{self.table.name}{describe_returning(self.returning)}"
        return PlanNode("Update", detail, (_describe_search(self.find),))


@dataclass(frozen=True, slots=True)
class MergePlan(Plan):
    """MERGE: insert, update and delete the rows that a query returns with their actions."""

    transactional: ClassVar[bool] = True

    table: Table
    find: BoundQuery
    """The query of the actions, the row ids, named ROW_ID, and all table columns with their new values."""
    base: int
    message: str | None
    clauses: tuple[MergeClause, ...]
    returning: Returning | None = None
    """The list that the statement returns, or None without RETURNING."""

    def source(self) -> BoundQuery | None:
        return self.find

    def describe(self) -> PlanNode:
        clauses = ", ".join(f"when {clause.rows.lower()} {clause.action.lower()}" for clause in self.clauses)
        detail = f"into {self.table.name}: {clauses}{describe_returning(self.returning)}"
        return PlanNode("Merge", detail, (_describe_search(self.find),))


@dataclass(frozen=True, slots=True)
class AlterPlan(Plan):
    """ALTER TABLE: change a table's columns from the next version on. No file is rewritten."""

    transactional: ClassVar[bool] = True

    table: Table
    columns: tuple[Column, ...]
    did: str
    """A description of the change for the user."""
    base: int
    message: str | None

    def describe(self) -> PlanNode:
        return PlanNode("AlterTable", f"{self.table.name}: {self.did}")


def _describe_source(query: BoundQuery, copies: tuple[str, ...]) -> PlanNode:
    return PlanNode("CopyFiles", ", ".join(copies)) if copies else describe_query(query)


def _describe_conflict(conflict: Conflict | None) -> str:
    if conflict is None:
        return ""
    keys = " or ".join(f"({', '.join(key)})" for key in conflict.keys)
    return f", on conflict of {keys} {'do nothing' if conflict.values is None else 'update'}"


def _describe_search(find: BoundQuery) -> PlanNode:
    parts = (find.text[piece.start : piece.stop].split() for piece in find.pieces)
    return PlanNode("Find", ", ".join(" ".join(part) for part in parts if part) or "every row")


def _bind_create_table(statement: CreateTable, context: BindContext) -> Plan:
    """Bind the columns of a new table, from its definition or its query."""
    replacing = ("table",) if statement.or_replace or statement.if_not_exists else ()
    if check_new(context.catalog, statement.name, replacing) and statement.if_not_exists:
        return NothingPlan(f'table "{statement.name}" already exists')
    replaces = context.catalog.tables.get(statement.name.text.lower())
    query, copies, defined = None, tuple[str, ...](), None
    if statement.query is not None:
        query = context.bind_query(statement.query)
        with context.describing(query) as session:
            columns = session.describe(query.text, query.parameters)
            if (path := whole_files(query.text)) is not None:
                copies = copyable(session, session.files_behind(path), columns)
        place = statement.query.span
    else:
        assert statement.definition is not None
        defined = _defined(context, statement.definition, statement.name.text)
        columns, place = defined.columns, statement.definition.span
    try:
        check_storable(columns)
    except SnapdbError as error:
        error.span = place
        raise
    base, numbered = context.catalog.version, _numbered(columns)
    if replaces is not None:
        check_unreferenced(context.catalog, replaces, statement.name, "replace")
    if defined is not None and defined.clauses:
        empty = Table(0, statement.name.text, numbered, (), (), 0, base, 0, len(numbered))
        numbered = constrain(context, empty, defined.clauses, defined.checked)
    return CreateTablePlan(statement.name.text, numbered, query, replaces, base, statement.message, copies)


def _bind_insert(statement: Insert, context: BindContext) -> Plan:
    """Bind a query whose columns match those of the table, or the listed ones."""
    clause, name = statement.conflict, str(statement.alias or statement.table)
    later = [] if clause is None else [*(value for _, value in clause.assignments), clause.where]
    context = with_named_parameters(context, statement, statement.returning, *later)
    table = find_named(context.catalog.table, statement.table)
    returning = bind_returning(context, statement.returning, table, name)
    if statement.by_name and statement.columns:
        raise BindError(
            "BY NAME matches the columns of the query by their names; leave out the list of columns",
            span=statement.columns[0].span,
            code="column-count",
        )
    supplied = named_columns(table, statement.columns)
    if statement.query is None:
        plan = _default_row(statement, table, returning)
        if clause is None:
            return plan
        return replace(plan, conflict=bind_conflict(context, clause, table, name, plan.supplied, statement.span))
    query = context.bind_query(statement.query, replacements=_defaults(statement.query, table, supplied))
    if statement.ctes is not None:
        query = compose(statement.query.span, *_with(context, statement), "FROM (", query, "\n)")
    with context.describing(query) as session:
        # DuckDB evaluates all rows of VALUES to describe them, although the first row is sufficient here.
        text = first_row(query.text) or query.text
        columns = session.describe(text, query.parameters, around=("SELECT * FROM (", ") AS q"))
        path = whole_files(query.text)
        # A file can be copied unchanged only if it supplies all table columns in the table's order.
        in_order = [c.name.lower() for c in columns] == [c.name.lower() for c in table.columns]
        whole = path is not None and in_order and not statement.columns
        copies = copyable(session, session.files_behind(str(path)), table.columns) if whole else ()
    if statement.by_name:
        names = [Name(column.name, statement.query.span) for column in columns]
        supplied = named_columns(table, tuple(names))
    if len(columns) != len(supplied):
        raise BindError(
            f"{table.name} needs {counted(len(supplied), 'column')} here ({', '.join(supplied)}), but the query "
            "returns "
            f"{len(columns)}",
            span=statement.query.span,
            code="column-count",
        )
    conflict = None
    if clause is not None:
        conflict, copies = bind_conflict(context, clause, table, name, supplied, statement.span), ()
    return InsertPlan(table, supplied, query, statement.message, copies, returning=returning, conflict=conflict)


def _default_row(statement: Insert, table: Table, returning: Returning | None) -> InsertPlan:
    """Bind DEFAULT VALUES: one row with the default of every column."""
    if statement.columns:
        raise BindError(
            "DEFAULT VALUES gives every column its default; leave out the list of columns",
            span=statement.columns[0].span,
            code="column-count",
        )
    first = table.columns[0]
    query = BoundQuery(f"SELECT {default_value(first)}", statement.span)
    return InsertPlan(table, (first.name,), query, statement.message, returning=returning)


def _defaults(query: SqlFragment, table: Table, supplied: Sequence[str]) -> list[tuple[Span, str]]:
    """Return each DEFAULT in the rows of VALUES, with the default of its column."""
    if not _VALUES_DEFAULT.match(query.text):
        return []
    tokens, found = scan(query.text), list[tuple[Span, str]]()
    pairs, columns = partners(tokens), [table.column(name) for name in supplied]
    for opening in (i for i in top_level(tokens, pairs) if tokens[i].word == "("):
        place = 0
        for index in top_level(tokens[: pairs[opening]], pairs, opening + 1):
            column = columns[place] if place < len(columns) else None
            alone = tokens[index - 1].word in ("(", ",") and tokens[index + 1].word in (")", ",")
            if tokens[index].word == "DEFAULT" and alone and column is not None:
                found.append((tokens[index].span, default_value(column)))
            place += tokens[index].word == ","
    return found


def _with(context: BindContext, statement: Insert | Update | Delete) -> list[str | BoundQuery]:
    """Return the WITH clause before the query of a statement."""
    return [] if statement.ctes is None else ["WITH ", context.bind_query(statement.ctes), "\n"]


def _numbered(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return columns with field ids, which identify them in files."""
    return tuple(replace(column, field=field) for field, column in enumerate(columns, 1))


class _Defined(NamedTuple):
    """The columns and constraints of a definition."""

    columns: list[Column]
    clauses: tuple[ConstraintClause, ...]
    checked: list[list[int]]
    """For each CHECK, the positions of the columns that its condition reads."""


def _defined(context: BindContext, definition: SqlFragment, table: str) -> _Defined:
    """Return the columns of `name type [NOT NULL], …` as DuckDB parses them, and the constraints."""
    for token in scan(definition.text):
        if token.word == "COLLATE":
            at = definition.span.start
            raise BindError(
                "COLLATE is not supported in tables; write it in the query: WHERE name COLLATE NOCASE = 'x'",
                span=Span(at + token.span.start, at + token.span.stop),
                code="not-supported",
            )
    parsed = parse_definition(definition)
    edits = [(span, '"at"') for span in bare_ats(definition.text)] + [(span, "") for span in parsed.hidden]
    query = written(definition, replacements=edits)
    # DuckDB creates the table in the session, so types, type aliases and defaults mean exactly what they do in DuckDB.
    with context.session(query) as session:
        try:
            session.wrap("CREATE TABLE defined (", query.text, "\n)")
        except SnapdbError as error:
            error.message = error.message.replace('table "defined"', f'table "{table}"')
            raise
        # duckdb_columns() would bind all views of all sessions first, which takes 20 ms.
        rows = session.rows(
            'SELECT name, type, NOT "notnull", dflt_value '
            f"FROM pragma_table_info({text_literal(f'{session.space}.main.defined')}) ORDER BY cid"
        )
        # Listing constraints also binds all views, so it is done only if there may be any.
        checks = any(clause.kind == "CHECK" for clause in parsed.constraints)
        checked = (
            session.rows(
                "SELECT constraint_column_indexes FROM duckdb_constraints() WHERE constraint_type = 'CHECK' AND "
                f"table_name = 'defined' AND database_name = {text_literal(session.space)} ORDER BY constraint_index"
            )
            if checks
            else []
        )
        session.rows("DROP TABLE defined")
        try:
            columns = [
                Column(name, type_, nullable, 0, _checked_default(context, session, default, type_))
                for name, type_, nullable, default in rows
            ]
        except SnapdbError as error:
            error.span = definition.span
            raise
    return _Defined(columns, parsed.constraints, [list(indexes) for (indexes,) in checked])


def _checked_default(context: BindContext, session: SqlSession, expression: str | None, type_: str) -> str | None:
    """Return the value of a DEFAULT as text that can be cast to the type, or None for NULL or no DEFAULT."""
    if expression is None:
        return None
    check_repeatable(context.store.sql_engine, SqlFragment(expression, Span(0, 0)), "a DEFAULT is a constant")
    # The default is stored as text. The second column fails for a value that Parquet could not store.
    stored = f"CAST(v AS VARCHAR), CAST(v AS {parquet_form(type_)})"
    try:
        value = session.rows(f"SELECT {stored} FROM (SELECT CAST(({expression}) AS {type_}) AS v)")[0][0]
    except BindError as error:
        raise BindError(
            f"the DEFAULT {expression} is not a constant, and computed columns are not supported; write the "
            "value in INSERT",
            code="bad-default",
        ) from error
    return None if value is None else str(value)


def _bind_delete(statement: Delete, context: BindContext) -> DeletePlan:
    """Bind the query for the ids of the rows to remove."""
    context = with_named_parameters(context, statement, statement.returning)
    table = find_named(context.catalog.table, statement.table)
    returning = bind_returning(context, statement.returning, table, str(statement.alias or table.name))
    name = quote(str(statement.alias or table.name))
    distinct = "DISTINCT " if statement.others else ""  # one row may match several rows of USING
    # The user's condition could refer to an alias, so the ids keep a name that no column can have.
    before = f"SELECT {_ID} AS row_id FROM (SELECT {distinct}{name}.{_ID} FROM "
    find, shape = (
        compose(
            statement.span, *_with(context, statement), before, *_from_where(context, rows, name, statement, table), ")"
        )
        for rows in _selects(context, table)
    )
    _check_query(context, shape)
    return DeletePlan(table, find, context.catalog.version, statement.message, returning)


def _bind_merge(statement: Merge, context: BindContext) -> MergePlan:
    """Bind the query of the actions. Its parts are evaluated in another order than they are written."""
    later = [statement.returning, statement.sources, statement.condition]
    for clause in statement.clauses:
        later += [clause.condition, *(value for _, value in clause.assignments), *(clause.values or ())]
    context = with_named_parameters(context, statement, *later)
    table = find_named(context.catalog.table, statement.table)
    items, name = statement.returning, str(statement.alias or statement.table)
    more = [Column("merge_action", "VARCHAR")] if items is not None and names_action(items) else []
    returning = bind_returning(context, items, table, name, more, merge_items(items))
    find = bind_merge(statement, context, table)
    return MergePlan(table, find, context.catalog.version, statement.message, statement.clauses, returning)


def _bind_truncate(statement: Truncate, context: BindContext) -> DeletePlan:
    """Bind the query for the ids of all rows."""
    table = find_named(context.catalog.table, statement.table)
    rows, _ = _selects(context, table)
    find = BoundQuery(f"SELECT {_ID} AS row_id FROM ({rows})", statement.span)
    return DeletePlan(table, find, context.catalog.version, statement.message)


def _bind_update(statement: Update, context: BindContext) -> UpdatePlan:
    """Bind the query for the rows to change: their ids, and all columns with the new values."""
    context = with_named_parameters(context, statement, statement.returning)
    table = find_named(context.catalog.table, statement.table)
    returning = bind_returning(context, statement.returning, table, str(statement.alias or table.name))
    name = quote(str(statement.alias or table.name))
    places = {}
    values: list[str | BoundQuery] = []
    # The values are in the order of the text, because ? parameters are positional.
    for place, (target, value) in enumerate(statement.assignments):
        column = find_column(table, target)
        if column.name in places:
            raise BindError(f'column "{column.name}" is assigned twice', span=target.span, code="duplicate-name")
        places[column.name] = place
        ids = row_id_names(value, table)
        is_default = value.text.upper() == "DEFAULT"
        new_value = default_value(column) if is_default else context.bind_query(value, replacements=ids)
        values += ["(", new_value, f'\n) AS "snapdb set {place}", ']
    # Generated names cannot collide with the user's columns in the outer SELECT.
    kept = ", ".join(f'{name}.{quote(c.name)} AS "snapdb was {i}"' for i, c in enumerate(table.columns))
    new = [
        f'"snapdb set {places[c.name]}"' if c.name in places else f'"snapdb was {i}"'
        for i, c in enumerate(table.columns)
    ]
    chosen = ", ".join(
        # Files may store a type in another form, so the value is cast to its type and then to that form.
        f"CAST(CAST({chosen_value} AS {c.type}) AS {parquet_form(c.type)}) AS {quote(c.name)}"
        for chosen_value, c in zip(new, table.columns, strict=True)
    )
    find, shape = (
        compose(
            statement.span,
            *_with(context, statement),
            f"SELECT {_ID}, {chosen} FROM (SELECT ",
            *values,
            f"{name}.{_ID}, {kept} FROM ",
            *_from_where(context, rows, name, statement, table),
            ")",
        )
        for rows in _selects(context, table)
    )
    _check_query(context, shape)
    return UpdatePlan(table, find, context.catalog.version, statement.message, frozenset(places), returning)


def _selects(context: BindContext, table: Table) -> tuple[str, str]:
    """Return the SELECT of a table with row ids, and a SELECT of the same columns without rows."""
    shape = no_rows((*table.columns, Column(ROW_ID, "BIGINT")))
    return context.rows(table, row_ids=True, ordered=False), shape


def _check_query(context: BindContext, shape: BoundQuery) -> None:
    with context.describing(shape) as session:
        session.describe(shape.text, shape.parameters)


def _from_where(
    context: BindContext, rows: str, name: str, statement: Delete | Update, table: Table
) -> list[str | BoundQuery]:
    """Return the FROM and WHERE clauses for the rows that a statement changes."""
    parts: list[str | BoundQuery] = [f"({rows}) AS {name}"]
    if statement.others is not None:
        parts += [", ", context.bind_query(statement.others)]
    if statement.where is not None:
        parts += [
            " WHERE (",
            context.bind_query(statement.where, replacements=row_id_names(statement.where, table)),
            "\n)",
        ]
    return parts


def _bind_alter(statement: AlterTable, context: BindContext) -> Plan:
    """Bind the columns after the change. Columns that a graph reads cannot be dropped or renamed."""
    if statement.if_exists and statement.table.text.lower() not in context.catalog.tables:
        return NothingPlan(f'table "{statement.table}" does not exist')
    table = find_named(context.catalog.table, statement.table)
    match statement.action:
        case AddColumn() as action:
            altered = _add_column(context, table, action)
        case DropColumn() as action:
            altered = _drop_column(context, table, action)
        case RenameColumn() as action:
            altered = _rename_column(context, table, action)
    if isinstance(altered, NothingPlan):
        return altered
    columns, did = altered
    return AlterPlan(table, columns, did, context.catalog.version, statement.message)


def _add_column(context: BindContext, table: Table, action: AddColumn) -> tuple[tuple[Column, ...], str] | NothingPlan:
    definition = action.definition
    defined = _defined(context, definition, table.name)
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
    # Older files still contain the fields of dropped columns, which a new column must not read.
    column = replace(column, field=table.fields + 1)
    columns = (*table.columns, column)
    try:
        check_storable(columns)
    except SnapdbError as error:
        error.span = definition.span
        raise
    return columns, f'column "{column.name}" {column.type} added to {table.name}'


def _drop_column(
    context: BindContext, table: Table, action: DropColumn
) -> tuple[tuple[Column, ...], str] | NothingPlan:
    if action.if_exists and table.column(action.column.text) is None:
        return NothingPlan(f'column "{action.column}" does not exist in table {table.name}')
    column = find_column(table, action.column)
    _check_unused(context, table, column, action.column, "drop")
    check_unconstrained(context.catalog, table, column, action.column, "drop")
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
    columns = tuple(replace(c, name=action.new.text) if c.field == column.field else c for c in table.columns)
    try:
        check_storable(columns)
    except SnapdbError as error:
        error.span = action.new.span
        raise
    return columns, f'column "{column.name}" of {table.name} renamed to "{action.new}"'


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


FAMILY = PlanFamily(
    binders={
        CreateTable: _bind_create_table,
        Insert: _bind_insert,
        Delete: _bind_delete,
        Update: _bind_update,
        Merge: _bind_merge,
        Truncate: _bind_truncate,
        AlterTable: _bind_alter,
    },
    operators={
        CreateTablePlan: "snapdb.execute.tables.operators:create_table",
        InsertPlan: "snapdb.execute.tables.operators:insert",
        DeletePlan: "snapdb.execute.tables.operators:delete",
        MergePlan: "snapdb.execute.tables.merging:merge",
        UpdatePlan: "snapdb.execute.tables.operators:update",
        AlterPlan: "snapdb.execute.tables.operators:alter_table",
    },
)

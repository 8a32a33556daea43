"""The columns and constraints of CREATE TABLE and ADD COLUMN, as DuckDB parses them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from snapdb.errors import BindError, SnapdbError, Span
from snapdb.plan.defined_names import bind_definitions
from snapdb.plan.fragment_checks import check_repeatable
from snapdb.plan.queries import BoundQuery, written
from snapdb.plan.scope import BindContext
from snapdb.sql.constraints import ConstraintClause, parse_definition
from snapdb.sql.lexer import scan
from snapdb.sql.queries import bare_ats
from snapdb.sql.syntax import SqlFragment
from snapdb.sql_engine import SqlSession, has_union, no_rows, parquet_form, quote, text_literal, together
from snapdb.types import Column, Table


def numbered(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return columns with field ids, which identify them in files."""
    return tuple(replace(column, field=field) for field, column in enumerate(columns, 1))


class DefinedColumns(NamedTuple):
    """The columns and constraints of a definition."""

    columns: list[Column]
    clauses: tuple[ConstraintClause, ...]
    checked: list[list[int]]
    """For each CHECK, the positions of the columns that its condition reads."""


def defined_columns(context: BindContext, definition: SqlFragment, table: str) -> DefinedColumns:
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
    tokens = scan(definition.text)
    words = {token.identifier.lower() for token in tokens if token.kind in ("word", "quoted")}
    named = bind_definitions(context, tokens, words)
    query = written(definition, None if named is None else named.names, replacements=edits)
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
        checked = _checked(session) if any(clause.kind == "CHECK" for clause in parsed.constraints) else []
        generated = _generated(session) if any(token.word in ("AS", "GENERATED") for token in tokens) else set()
        session.rows("DROP TABLE defined")
        try:
            columns = [
                _generated_column(context, name, type_, nullable, default)
                if name in generated
                else _default_column(context, session, name, type_, nullable, default)
                for name, type_, nullable, default in rows
            ]
            _check_generated(session, columns)
        except SnapdbError as error:
            error.span = definition.span
            raise
    return DefinedColumns(columns, parsed.constraints, checked)


def _checked(session: SqlSession) -> list[list[int]]:
    """Return the positions of the columns that each CHECK of the table reads."""
    rows = session.rows(
        "SELECT constraint_column_indexes FROM duckdb_constraints() WHERE constraint_type = 'CHECK' AND "
        f"table_name = 'defined' AND database_name = {text_literal(session.space)} ORDER BY constraint_index"
    )
    return [list(indexes) for (indexes,) in rows]


def checked_columns(context: BindContext, table: Table, definition: SqlFragment) -> list[list[int]]:
    """Return the positions of the columns that a new CHECK of a table reads."""
    columns = "".join(f"{quote(column.name)} {column.type}, " for column in table.columns)
    query = written(definition, replacements=[(span, "") for span in parse_definition(definition).hidden])
    with context.session(query) as session:
        session.wrap(f"CREATE TABLE defined ({columns}", query.text, "\n)")
        checked = _checked(session)
        session.rows("DROP TABLE defined")
    return checked


def _generated(session: SqlSession) -> set[str]:
    """Return the names of the generated columns of the table."""
    rows = session.rows(
        "SELECT column_name FROM duckdb_columns() WHERE table_name = 'defined' AND is_generated "
        f"AND database_name = {text_literal(session.space)}"
    )
    return {name for (name,) in rows}


def _generated_column(context: BindContext, name: str, type_: str, nullable: bool, expression: str) -> Column:
    _check_repeatable(context, expression, "a generated column is computed once, when its row is written")
    return Column(name, type_, nullable, generated=expression)


def _check_generated(session: SqlSession, columns: Sequence[Column]) -> None:
    """Raise BindError if a generated column reads one after it, or itself."""
    for place, column in enumerate(columns):
        if column.generated is not None:
            session.describe(f"SELECT {column.generated} FROM ({no_rows(_read(columns, place))})")


def _read(columns: Sequence[Column], place: int) -> list[Column]:
    """Return the columns that the generated column at a place can read."""
    return [c for i, c in enumerate(columns) if c.generated is None or i < place]


def _default_column(
    context: BindContext, session: SqlSession, name: str, type_: str, nullable: bool, expression: str | None
) -> Column:
    """Return a column with its DEFAULT: the value of a constant as text, or an expression that rows evaluate."""
    if expression is None:
        return Column(name, type_, nullable)
    # The default is stored as text. The second column fails for a value that Parquet could not store.
    stored = f"CAST(v AS VARCHAR), CAST(v AS {parquet_form(type_)})"
    query = f"SELECT {stored} FROM (SELECT CAST(({expression}) AS {type_}) AS v)"
    try:
        _check_repeatable(context, expression, "")
    except BindError:
        session.describe(query)
        return Column(name, type_, nullable, default_expression=expression)
    value = session.rows(query)[0][0]
    if value is not None and has_union(type_):  # the text of a UNION lacks its tag
        return Column(name, type_, nullable, default_expression=expression)
    return Column(name, type_, nullable, 0, None if value is None else str(value))


def _check_repeatable(context: BindContext, expression: str, reason: str) -> None:
    check_repeatable(context.store.sql_engine, SqlFragment(expression, Span(0, 0)), reason)


def with_column_names(context: BindContext, table: Table, query: BoundQuery) -> BoundQuery:
    """Return a query with the definitions that the expressions of a table's columns read."""
    expressions = [c.generated or c.default_expression for c in table.columns]
    tokens = tuple(token for text in expressions if text is not None for token in scan(text))
    words = {token.identifier.lower() for token in tokens if token.kind in ("word", "quoted")}
    named = bind_definitions(context, tokens, words) if tokens else None
    if named is None:
        return query
    shapes = None if query.shapes is None else together((named.shapes, query.shapes))
    return replace(query, names=together((named.names, query.names)), shapes=shapes)

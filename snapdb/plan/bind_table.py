"""CREATE TABLE, COPY … FROM, INSERT and DELETE: columns and queries checked against each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snapdb.errors import BindError, ParseError, SnapdbError
from snapdb.plan.logical import Asked, CreateTablePlan, DeletePlan, InsertPlan, NothingPlan, Plan
from snapdb.plan.names import check_new, find_column, find_table
from snapdb.plan.scope import Context
from snapdb.relational import Names, Session, check_storable, quote, text_literal
from snapdb.sql.ast import CopyFrom, CreateTable, Delete, Insert, Island, Name
from snapdb.types import Column, Table
from snapdb.types.suggest import did_you_mean

__all__ = ["bind_copy", "bind_create_table", "bind_delete", "bind_insert"]

_READERS = {"parquet": "read_parquet", "csv": "read_csv"}
_CSV_OPTIONS = ("header", "delimiter", "delim", "sep", "quote", "escape", "nullstr", "null", "skip", "dateformat",
                "timestampformat", "decimal_separator", "ignore_errors", "encoding", "comment")  # fmt: skip


def bind_create_table(statement: CreateTable, context: Context) -> Plan:
    """The columns of a new table, from its definition or its query."""
    replacing = ("table",) if statement.or_replace or statement.if_not_exists else ()
    if check_new(context.catalog, statement.name, replacing) and statement.if_not_exists:
        return NothingPlan(f'there is a table "{statement.name}" already')
    replaces = context.catalog.tables.get(statement.name.text.lower())
    query = None
    if statement.query is not None:
        query = context.asked(statement.query)
        with context.session(query) as session:
            columns = session.describe(statement.query.text, query.parameters)
        place = statement.query.span
    else:
        assert statement.definition is not None
        columns = _defined(context, statement.definition)
        place = statement.definition.span
    try:
        check_storable(columns)
    except SnapdbError as error:
        error.span = place
        raise
    base = context.catalog.version
    return CreateTablePlan(statement.name.text, tuple(columns), query, replaces, base, statement.message)


def bind_insert(statement: Insert, context: Context) -> Plan:
    """A query whose columns match the table's, or those that were named."""
    table = find_table(context, statement.table)
    supplied = _named_columns(table, statement.columns)
    query = context.asked(statement.query)
    with context.session(query) as session:
        found = session.describe(statement.query.text, query.parameters, around=("SELECT * FROM (", ") AS q"))
    if len(found) != len(supplied):
        raise BindError(
            f"{table.name} takes {len(supplied)} columns here ({', '.join(supplied)}), the query gives {len(found)}",
            span=statement.query.span,
        )
    return InsertPlan(table, supplied, query, statement.message)


def bind_delete(statement: Delete, context: Context) -> Plan:
    """A condition over the table's columns."""
    table = find_table(context, statement.table)
    if statement.where is None:
        return DeletePlan(table, None, context.catalog.version, statement.message)
    where = context.asked(statement.where)
    names = Names({**where.names.views, table.name: context.asked(_bare(statement.table)).names.views[table.name]},
                  where.names.schemas, where.names.sources)  # fmt: skip
    where = Asked(where.island, names, where.parameters)
    with context.session(where) as session:
        around = (f"SELECT 1 FROM {quote(table.name)} WHERE (", ")")
        session.describe(statement.where.text, where.parameters, around=around)
    return DeletePlan(table, where, context.catalog.version, statement.message)


def bind_copy(statement: CopyFrom, context: Context) -> Plan:
    """A file's columns matched with the table's: by name where the file has names, else by position."""
    table = find_table(context, statement.table)
    wanted = _named_columns(table, statement.columns)
    options = _options(statement)
    format_ = str(options.pop("format", _guess_format(statement.path))).lower()
    if format_ not in _READERS:
        raise BindError(f"cannot COPY FROM format {format_!r}; it reads parquet and csv", span=statement.path_span)
    path = text_literal(statement.path)
    with context.relational.session() as session:
        try:
            if format_ == "parquet":
                sql, supplied = _from_parquet(session, path, table, wanted)
            else:
                sql, supplied = _from_csv(session, path, table, wanted, options)
        except SnapdbError as error:
            error.span = statement.path_span
            raise
    query = Asked(Island(sql, statement.path_span), Names(), verbatim=False)
    return InsertPlan(table, tuple(supplied), query, statement.message)


def _bare(name: Name) -> Island:
    return Island(quote(name.text), name.span)


def _defined(context: Context, definition: Island) -> list[Column]:
    """The columns of `name type [NOT NULL], …`, as DuckDB reads them."""
    asked = Asked(definition, Names())
    with context.session(asked) as session:
        session.wrap("CREATE TABLE defined (", definition.text, "\n)")
        found = session.rows(
            "SELECT column_name, data_type, is_nullable, column_default FROM duckdb_columns() "
            f"WHERE table_name = 'defined' AND database_name = {text_literal(session.space)} ORDER BY column_index"
        )
        kinds = session.rows(
            "SELECT DISTINCT constraint_type FROM duckdb_constraints() "
            f"WHERE table_name = 'defined' AND database_name = {text_literal(session.space)}"
        )
    for (kind,) in kinds:
        if kind != "NOT NULL":
            raise BindError(
                f"{kind} constraints are not kept; only NOT NULL is (a graph checks that its keys are unique)",
                span=definition.span,
            )
    if defaults := [name for name, _, _, default in found if default is not None]:
        raise BindError(f'column "{defaults[0]}" has a DEFAULT or is computed, which is not kept; '
                        "give the value when inserting", span=definition.span)  # fmt: skip
    return [Column(name, type_, nullable) for name, type_, nullable, _ in found]


def _named_columns(table: Table, names: Sequence[Name]) -> tuple[str, ...]:
    if not names:
        return tuple(c.name for c in table.columns)
    columns = [find_column(table, name).name for name in names]
    for column, name in zip(columns, names, strict=True):
        if columns.count(column) > 1:
            raise BindError(f'column "{column}" is named twice', span=name.span)
    return tuple(columns)


def _options(statement: CopyFrom) -> dict[str, str | bool | int | float]:
    options: dict[str, str | bool | int | float] = {}
    for name, value in statement.options:
        folded = name.text.lower()
        if folded not in ("format", *_CSV_OPTIONS):
            hint = did_you_mean(folded, ("format", *_CSV_OPTIONS))
            raise ParseError(f"COPY has no option {name}{hint}", span=name.span)
        options[folded] = value
    return options


def _guess_format(path: str) -> str:
    found = re.search(r"\.(parquet|csv|tsv|txt)(\.gz|\.zst)?$", path.lower())
    return "parquet" if found is None or found[1] == "parquet" else "csv"


def _from_parquet(session: Session, path: str, table: Table, wanted: Sequence[str]) -> tuple[str, list[str]]:
    source = f"read_parquet({path})"
    file = [c.name for c in session.describe(f"SELECT * FROM {source}")]
    return _by_name(source, path, file, table, wanted)


def _by_name(source: str, path: str, file: Sequence[str], table: Table, wanted: Sequence[str]) -> tuple[str, list[str]]:
    """Columns matched by name, whatever their case and order; all that are wanted, and no others, must be there."""
    named = {name.lower(): name for name in file}
    if missing := [w for w in wanted if w.lower() not in named]:
        hint = did_you_mean(missing[0], file) or f"; it has {', '.join(file)}"
        raise BindError(f'{path} has no column "{missing[0]}" for table {table.name}{hint}', code="unknown-column")
    extra = [name for name in file if table.column(name) is None]
    if extra:
        hint = f"name the columns to load: COPY {table.name} ({', '.join(wanted)}) FROM {path}"
        raise BindError(f'{path} has a column "{extra[0]}" that table {table.name} has not; {hint}')
    chosen = ", ".join(quote(named[w.lower()]) for w in wanted)
    return f"SELECT {chosen} FROM {source}", list(wanted)


def _from_csv(
    session: Session, path: str, table: Table, wanted: Sequence[str], options: dict[str, str | bool | int | float]
) -> tuple[str, list[str]]:
    """A CSV with a header that names the columns is read by name, any other by position."""
    said = "".join(f", {_csv_name(k)} = {_literal(v)}" for k, v in options.items())
    file = session.describe(f"SELECT * FROM read_csv({path}{said})")
    types = {w: column.type for w in wanted if (column := table.column(w)) is not None}
    known = {c.name.lower(): c.name for c in file}
    if any(w.lower() in known for w in wanted):
        cast = ", ".join(
            f"{text_literal(known[w.lower()])}: {text_literal(t)}" for w, t in types.items() if w.lower() in known
        )
        source = f"read_csv({path}, types = {{{cast}}}{said})"
        return _by_name(source, path, [c.name for c in file], table, wanted)
    if "header" not in options and any(not re.fullmatch(r"column\d+", c.name) for c in file):
        names = ", ".join(c.name for c in file)
        raise BindError(f"{path} seems to begin with names ({names}) of which table {table.name} has none; say HEADER "
                        "false if they are data, HEADER true to load by position")  # fmt: skip
    if len(file) != len(wanted):
        raise BindError(f"{path} has {len(file)} columns without the names of table {table.name}, which takes "
                        f"{len(wanted)} here ({', '.join(wanted)})")  # fmt: skip
    columns = ", ".join(f"{text_literal(w)}: {text_literal(t)}" for w, t in types.items())
    said += "" if "header" in options else ", header = false"
    return f"SELECT * FROM read_csv({path}, columns = {{{columns}}}, auto_detect = true{said})", list(wanted)


def _csv_name(option: str) -> str:
    return {"delimiter": "delim", "null": "nullstr"}.get(option, option)


def _literal(value: str | bool | int | float) -> str:
    return text_literal(value) if isinstance(value, str) else str(value).lower()

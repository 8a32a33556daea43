"""Binders of INSERT, UPDATE, DELETE, MERGE and TRUNCATE."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from snapdb.errors import BindError, Span
from snapdb.plan.input_files import copyable
from snapdb.plan.names import find_table, find_written, named_columns
from snapdb.plan.plan import Plan
from snapdb.plan.queries import BoundQuery, compose
from snapdb.plan.row_ids import row_id_names
from snapdb.plan.scope import BindContext
from snapdb.plan.tables.columns import with_column_names
from snapdb.plan.tables.conflicts import bind_conflict
from snapdb.plan.tables.merges import bind_merge, merge_items, names_action
from snapdb.plan.tables.plans import DeletePlan, InsertPlan, MergePlan, UpdatePlan
from snapdb.plan.tables.returning import Returning, bind_returning, with_named_parameters
from snapdb.sql.lexer import partners, scan, top_level
from snapdb.sql.queries import first_row, has_number_at, whole_files
from snapdb.sql.syntax import Name, SqlFragment
from snapdb.sql.tables import Delete, Insert, Merge, Truncate, Update
from snapdb.sql_engine import ROW_ID, default_value, has_union, no_rows, parquet_form, quote
from snapdb.types import Column, Table
from snapdb.types.text import counted

_ID = quote(ROW_ID)
_VALUES = re.compile(r"\s*VALUES\b", re.IGNORECASE)
_VALUES_DEFAULT = re.compile(r"\s*VALUES\b.*\bDEFAULT\b", re.IGNORECASE | re.DOTALL)


def bind_insert(statement: Insert, context: BindContext) -> Plan:
    """Bind a query whose columns match those of the table, or the listed ones."""
    clause, name = statement.conflict, str(statement.alias or statement.table.last)
    later = [] if clause is None else [*(value for _, value in clause.assignments), clause.where]
    context = with_named_parameters(context, statement, statement.returning, *later)
    table = find_table(context, statement.table)
    returning = bind_returning(context, statement.returning, table, name)
    if statement.by_name and statement.columns:
        raise BindError(
            "BY NAME matches the columns of the query by their names; leave out the list of columns",
            span=statement.columns[0].span,
            code="column-count",
        )
    supplied = named_columns(table, statement.columns)
    if statement.query is None:
        plan = _default_row(context, statement, table, returning)
        if clause is None:
            return plan
        return replace(plan, conflict=bind_conflict(context, clause, table, name, plan.supplied, statement.span))
    edits = (_defaults, _texts, _members)
    replacements = [edit for find in edits for edit in find(statement.query, table, supplied)]
    query = context.bind_query(statement.query, replacements=replacements)
    if statement.ctes is not None:
        query = compose(statement.query.span, *_with(context, statement), "FROM (", query, "\n)")
    query = with_column_names(context, table, query)
    with context.describing(query) as session:
        # DuckDB evaluates all rows of VALUES to describe them, although the first row is sufficient here.
        text = first_row(query.text) or query.text
        columns = session.describe(text, query.parameters, around=("SELECT * FROM (", ") AS q"))
        path = whole_files(query.text)
        # A file can be copied unchanged only if it supplies all table columns in the table's order.
        in_order = [c.name.lower() for c in columns] == [c.name.lower() for c in table.columns]
        in_order = in_order and all(c.generated is None for c in table.columns)
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


def _default_row(context: BindContext, statement: Insert, table: Table, returning: Returning | None) -> InsertPlan:
    """Bind DEFAULT VALUES: one row with the default of every column."""
    if statement.columns:
        raise BindError(
            "DEFAULT VALUES gives every column its default; leave out the list of columns",
            span=statement.columns[0].span,
            code="column-count",
        )
    first = next(column for column in table.columns if column.generated is None)
    query = with_column_names(context, table, BoundQuery(f"SELECT {default_value(first)}", statement.span))
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


def _texts(query: SqlFragment, table: Table, supplied: Sequence[str]) -> list[tuple[Span, str]]:
    """Return the numbers in VALUES for text columns, cast to text.

    Otherwise, a number in one row would make DuckDB read the strings in the others as numbers.
    """
    columns = [table.column(name) for name in supplied]
    places = [i for i, column in enumerate(columns) if column is not None and column.type == "VARCHAR"]
    # Most rows have strings in text columns, so their text is searched before it is scanned.
    if not places or not has_number_at(query.text, places, len(columns)) or first_row(query.text) is None:
        return []
    edits, place, depth = list[tuple[Span, str]](), 0, 0
    for sign, token in pairwise(scan(query.text)):
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
        place = 0 if not depth else place + (token.text == ",")
        if token.kind == "number" and place in places:
            span = Span(sign.span.start if sign.text in ("+", "-") else token.span.start, token.span.stop)
            edits.append((span, f"CAST({query.text[slice(*span)]} AS VARCHAR)"))
    return edits


def _members(query: SqlFragment, table: Table, supplied: Sequence[str]) -> list[tuple[Span, str]]:
    """Return the casts of values to types with a UNION, because each row of VALUES can have another member."""
    columns = [table.column(name) for name in supplied]
    if not any(column is not None and has_union(column.type) for column in columns) or not _VALUES.match(query.text):
        return []
    tokens, edits = scan(query.text), list[tuple[Span, str]]()
    pairs = partners(tokens)
    for opening in (i for i in top_level(tokens, pairs) if tokens[i].word == "("):
        if tokens[opening - 1].word not in ("VALUES", ","):
            break
        commas = [i for i in top_level(tokens[: pairs[opening]], pairs, opening + 1) if tokens[i].word == ","]
        for column, (before, after) in zip(columns, pairwise([opening, *commas, pairs[opening]]), strict=False):
            value = tokens[before + 1 : after]
            if column is not None and has_union(column.type) and value and [t.word for t in value] != ["DEFAULT"]:
                start, stop = value[0].span.start, value[-1].span.stop
                edits += [(Span(start, start), "CAST("), (Span(stop, stop), f" AS {column.type})")]
    return edits


def _with(context: BindContext, statement: Insert | Update | Delete) -> list[str | BoundQuery]:
    """Return the WITH clause before the query of a statement."""
    return [] if statement.ctes is None else ["WITH ", context.bind_query(statement.ctes), "\n"]


def bind_delete(statement: Delete, context: BindContext) -> DeletePlan:
    """Bind the query for the ids of the rows to remove."""
    context = with_named_parameters(context, statement, statement.returning)
    table = find_table(context, statement.table)
    returning = bind_returning(context, statement.returning, table, str(statement.alias or statement.table.last))
    name = quote(str(statement.alias or statement.table.last))
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


def bind_merge_into(statement: Merge, context: BindContext) -> MergePlan:
    """Bind the query of the actions. Its parts are evaluated in another order than they are written."""
    later = [statement.returning, statement.sources, statement.condition]
    for clause in statement.clauses:
        later += [clause.condition, *(value for _, value in clause.assignments), *(clause.values or ())]
    context = with_named_parameters(context, statement, *later)
    table = find_table(context, statement.table)
    items, name = statement.returning, str(statement.alias or statement.table.last)
    more = [Column("merge_action", "VARCHAR")] if items is not None and names_action(items) else []
    returning = bind_returning(context, items, table, name, more, merge_items(items))
    find = with_column_names(context, table, bind_merge(statement, context, table))
    return MergePlan(table, find, context.catalog.version, statement.message, statement.clauses, returning)


def bind_truncate(statement: Truncate, context: BindContext) -> DeletePlan:
    """Bind the query for the ids of all rows."""
    table = find_table(context, statement.table)
    rows, _ = _selects(context, table)
    find = BoundQuery(f"SELECT {_ID} AS row_id FROM ({rows})", statement.span)
    return DeletePlan(table, find, context.catalog.version, statement.message)


def bind_update(statement: Update, context: BindContext) -> UpdatePlan:
    """Bind the query for the rows to change: their ids, and all columns with the new values."""
    context = with_named_parameters(context, statement, statement.returning)
    table = find_table(context, statement.table)
    returning = bind_returning(context, statement.returning, table, str(statement.alias or statement.table.last))
    name = quote(str(statement.alias or statement.table.last))
    places = {}
    values: list[str | BoundQuery] = []
    # The values are in the order of the text, because ? parameters are positional.
    for place, (target, value) in enumerate(statement.assignments):
        column = find_written(table, target)
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
    find, shape = with_column_names(context, table, find), with_column_names(context, table, shape)
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

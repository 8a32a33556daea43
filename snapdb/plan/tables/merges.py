"""MERGE: the action of each pair of rows, and the values that it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snapdb.errors import BindError, Span
from snapdb.plan.names import find_written, named_columns
from snapdb.plan.queries import BoundQuery, compose
from snapdb.plan.scope import BindContext
from snapdb.sql.lexer import partners, scan
from snapdb.sql.syntax import Name, SqlFragment
from snapdb.sql.tables import Merge, MergeClause
from snapdb.sql_engine import ROW_ID, default_value, no_rows, parquet_form, quote
from snapdb.types import Column, Table
from snapdb.types.text import counted

_ID = quote(ROW_ID)
ACTION = "snapdb action"
"""The column of the action's name in the rows that MERGE writes."""
_ACTION = quote(ACTION)
_CLAUSE = quote("snapdb clause")
_SOURCE = quote("snapdb source")
_ROWS = {
    "MATCHED": f"({_ID} IS NOT NULL AND {_SOURCE})",
    "NOT MATCHED": f"({_ID} IS NULL)",
    "NOT MATCHED BY SOURCE": f"({_SOURCE} IS NULL)",
}
"""The conditions of the pairs of rows to which a clause applies."""


def bind_merge(statement: Merge, context: BindContext, table: Table) -> BoundQuery:
    """Return the query of the rows to write: the action, the row id, and all columns with their new values.

    Raises:
        BindError: A name does not exist, or the number of values does not match.
    """
    name = str(statement.alias or statement.table.last)
    source = context.bind_query(statement.sources)
    ctes: list[str | BoundQuery] = [] if statement.ctes is None else ["WITH ", context.bind_query(statement.ctes), "\n"]
    binder = _Binder(context, statement, table, name, ctes, source)
    chosen = [*_case(_conditions(context, statement), [[str(n)] for n, _ in enumerate(statement.clauses)], "NULL")]
    chosen += [f" AS {_CLAUSE}, "]
    # DuckDB lets a select list refer to an earlier alias, so each condition is evaluated once.
    applies: list[list[str | BoundQuery]] = [[f"{_CLAUSE} = {n}"] for n, _ in enumerate(statement.clauses)]
    actions = [binder.action(clause) for clause in statement.clauses]
    parts: list[str | BoundQuery] = [*_case(applies, actions, "NULL"), f" AS {_ACTION}, {quote(name)}.{_ID} AS {_ID}"]
    values = [binder.values(clause) for clause in statement.clauses]
    for place, column in enumerate(table.columns):
        kept = f"{quote(name)}.{quote(column.name)}"
        new: list[list[str | BoundQuery]] = [
            ["CAST((", each.get(column.name, kept), f"\n) AS {column.type})"] for each in values
        ]
        cast = f" AS {column.type}) AS {parquet_form(column.type)}) AS {quote(f'snapdb new {place}')}"
        parts += [", CAST(CAST(", *_case(applies, new, kept), cast]
    names = ", ".join(f"{quote(f'snapdb new {i}')} AS {quote(c.name)}" for i, c in enumerate(table.columns))
    on: list[str | BoundQuery] = [f"USING ({', '.join(quote(c.text) for c in statement.shared)})"]
    if statement.condition is not None:
        on = ["ON (", context.bind_query(statement.condition), "\n)"]
    find, shape = (
        compose(
            statement.span,
            *ctes,
            f"SELECT {_ACTION}, {_ID}, {names} FROM (SELECT ",
            *chosen,
            *parts,
            f" FROM ({rows}) AS {quote(name)} {_join(statement.clauses)} JOIN (",
            source,
            f"\n CROSS JOIN (SELECT true AS {_SOURCE}) AS {quote('snapdb mark')}) ",
            *on,
            f") WHERE {_ACTION} IS NOT NULL",
        )
        for rows in (
            context.rows(table, row_ids=True, ordered=False),
            no_rows((*table.columns, Column(ROW_ID, "BIGINT"))),
        )
    )
    with context.describing(shape) as session:
        session.describe(shape.text, shape.parameters)
    return find


def _conditions(context: BindContext, statement: Merge) -> list[list[str | BoundQuery]]:
    """Return the conditions under which clauses apply to a pair of rows."""
    conditions: list[list[str | BoundQuery]] = []
    for clause in statement.clauses:
        condition: list[str | BoundQuery] = [_ROWS[clause.rows]]
        if clause.condition is not None:
            condition += [" AND (", context.bind_query(clause.condition), "\n)"]
        conditions.append(condition)
    return conditions


def _case(
    conditions: Sequence[Sequence[str | BoundQuery]], values: Sequence[Sequence[str | BoundQuery]], otherwise: str
) -> Iterator[str | BoundQuery]:
    """Yield CASE with the value of the first condition that holds."""
    yield "CASE"
    for condition, value in zip(conditions, values, strict=True):
        yield " WHEN "
        yield from condition
        yield " THEN "
        yield from value
    yield f" ELSE {otherwise} END"


def _join(clauses: Sequence[MergeClause]) -> str:
    """Return the join that has all the pairs of rows to which a clause applies."""
    if any(clause.rows == "NOT MATCHED BY SOURCE" for clause in clauses):
        return "FULL"
    return "RIGHT" if any(clause.rows == "NOT MATCHED" for clause in clauses) else "INNER"


@dataclass(frozen=True, slots=True)
class _Binder:
    """Binds the clauses of one MERGE."""

    context: BindContext
    statement: Merge
    table: Table
    name: str
    ctes: list[str | BoundQuery]
    source: BoundQuery

    def action(self, clause: MergeClause) -> list[str | BoundQuery]:
        """Return the name of a clause's action as SQL, NULL for none, or an expression that raises an error."""
        if clause.action == "ERROR":
            message = f"'MERGE found a row WHEN {clause.rows}'"
            if clause.values is None:
                return [f"CAST(error({message}) AS VARCHAR)"]
            value = self.context.bind_query(clause.values[0])
            return [f"CAST(error({message} || ': ' || (", value, "\n)) AS VARCHAR)"]
        return ["NULL" if clause.action == "DO NOTHING" else f"'{clause.action}'"]

    def values(self, clause: MergeClause) -> dict[str, str | BoundQuery]:
        """Return the new values of a clause by column name. Other columns keep their values."""
        match clause.action:
            case "UPDATE" if clause.assignments:
                return self._assigned(clause)
            case "UPDATE":
                return self._of_source(clause, [c for c in self.table.columns if c.generated is None], "UPDATE")
            case "INSERT":
                return self._inserted(clause)
            case _:
                return {}

    def _assigned(self, clause: MergeClause) -> dict[str, str | BoundQuery]:
        assigned: dict[str, str | BoundQuery] = {}
        for target, value in clause.assignments:
            column = find_written(self.table, target)
            if column.name in assigned:
                raise BindError(f'column "{column.name}" is assigned twice', span=target.span, code="duplicate-name")
            assigned[column.name] = self._value(value, column)
        return assigned

    def _inserted(self, clause: MergeClause) -> dict[str, str | BoundQuery]:
        values: dict[str, str | BoundQuery] = {c.name: default_value(c) for c in self.table.columns}
        if clause.defaults:
            return values
        names = named_columns(self.table, clause.columns)
        columns = [c for name in names for c in self.table.columns if c.name == name]
        if clause.values is None:
            return values | self._of_source(clause, columns, "INSERT")
        self._check_count(len(columns), len(clause.values), clause.values[0].span if clause.values else None)
        return values | {c.name: self._value(value, c) for c, value in zip(columns, clause.values, strict=True)}

    def _of_source(self, clause: MergeClause, columns: Sequence[Column], verb: str) -> dict[str, str | BoundQuery]:
        """Return the columns of the source for those of the table, by name or by position."""
        alias = _alias(self.statement.sources)
        if alias is None:
            raise BindError(
                f"{verb} without values takes the columns of the source, which needs a name: USING (…) AS s",
                span=self.statement.sources.span,
                code="no-alias",
            )
        query = compose(self.statement.span, *self.ctes, "SELECT * FROM ", self.source)
        with self.context.describing(query) as session:
            found = [column.name for column in session.describe(query.text, query.parameters)]
        if clause.by_name:
            span = self.statement.sources.span
            targets = [find_written(self.table, Name(name, span)).name for name in found]
        else:
            self._check_count(len(columns), len(found), self.statement.sources.span)
            targets = [column.name for column in columns]
        return {target: f"{quote(alias)}.{quote(name)}" for target, name in zip(targets, found, strict=True)}

    def _value(self, value: SqlFragment, column: Column) -> str | BoundQuery:
        return default_value(column) if value.text.upper() == "DEFAULT" else self.context.bind_query(value)

    def _check_count(self, wanted: int, found: int, span: Span | None) -> None:
        if wanted != found:
            raise BindError(
                f"{self.table.name} needs {counted(wanted, 'column')} here, but found {counted(found, 'value')}",
                span=span or self.statement.span,
                code="column-count",
            )


def _alias(sources: SqlFragment) -> str | None:
    """Return the name of a source: its alias, or the name of its table or function.

    >>> _alias(SqlFragment("u AS s", Span(0, 6))), _alias(SqlFragment("(SELECT 1)", Span(0, 10)))
    ('s', None)
    """
    tokens = scan(sources.text)
    pairs = {closing: opening for opening, closing in partners(tokens).items()}
    last = pairs.get(len(tokens) - 1, len(tokens)) - 1
    return tokens[last].identifier if last >= 0 and tokens[last].kind in ("word", "quoted") else None


def merge_items(items: SqlFragment | None) -> list[tuple[Span, str]]:
    """Return the replacements that exclude the column merge_action, which is named explicitly, from * in RETURNING."""
    if items is None or not names_action(items):
        return []
    tokens = scan(items.text)
    stars = []
    for index, token in enumerate(tokens):
        before = tokens[index - 1].word if index else ","
        after = tokens[index + 1].word if index + 1 < len(tokens) else ","
        if token.text == "*" and before in (",", ".") and after == ",":
            stars.append((token.span, "* EXCLUDE (merge_action)"))
    return stars


def names_action(items: SqlFragment) -> bool:
    """Return whether a RETURNING list names merge_action."""
    return any(token.identifier.lower() == "merge_action" for token in scan(items.text) if token.kind == "word")

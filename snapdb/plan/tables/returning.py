"""RETURNING: the expressions that a statement returns for each row that it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from snapdb.errors import Span
from snapdb.plan.parameters import numbered_parameters
from snapdb.plan.queries import BoundQuery, compose
from snapdb.plan.scope import BindContext
from snapdb.sql.lexer import scan
from snapdb.sql.syntax import SqlFragment, Statement
from snapdb.sql_engine import no_rows, quote
from snapdb.types import Column, Table


@dataclass(frozen=True, slots=True)
class Returning:
    """The select list of RETURNING, which is evaluated over the written rows."""

    items: BoundQuery
    """The select list."""
    name: str
    """The name of the rows in the select list: the table's alias, or its name."""
    columns: tuple[Column, ...]
    """The columns of the rows."""

    def over(self, rows: str | None = None) -> BoundQuery:
        """Return the query of the list over a SELECT of the written rows, or over no rows."""
        rows = no_rows(self.columns) if rows is None else rows
        return compose(self.items.span, "SELECT ", self.items, f"\nFROM ({rows}) AS {quote(self.name)}")


def bind_returning(
    context: BindContext,
    items: SqlFragment | None,
    table: Table,
    name: str,
    more: Sequence[Column] = (),
    replacements: Sequence[tuple[Span, str]] = (),
) -> Returning | None:
    """Bind RETURNING, if the statement has it. Raises BindError if the list is not valid.

    Args:
        context: The context of the statement.
        items: The select list.
        table: The table that the statement writes.
        name: The name of the rows.
        more: Columns that the rows have after those of the table.
        replacements: Texts that replace parts of the list.
    """
    if items is None:
        return None
    returning = Returning(context.bind_query(items, replacements=replacements), name, (*table.columns, *more))
    query = returning.over()
    with context.describing(query) as session:
        session.describe(query.text, query.parameters)
    return returning


def with_named_parameters(context: BindContext, statement: Statement, *later: SqlFragment | None) -> BindContext:
    """Return a context with positional parameters as named ones if one of the later fragments has parameters.

    RETURNING and DO UPDATE are queries of their own, and a query needs all of the positional parameters of a statement.
    """
    if context.parameters is None or isinstance(context.parameters, Mapping):
        return context
    texts = [fragment.text for fragment in later if fragment is not None]
    if not any(token.kind == "parameter" for text in texts for token in scan(text)):
        return context
    values, places = numbered_parameters(scan(statement.text), statement.span.start, context.parameters)
    return replace(context, parameters=values, places=places)


def describe_returning(returning: Returning | None) -> str:
    """Return the clause as EXPLAIN shows it, or '' without it."""
    return "" if returning is None else f" returning {' '.join(returning.items.text.split())}"

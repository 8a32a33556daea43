"""What DuckDB tells of SQL and of paths: the AND-parts of a condition, a query's ORDER BY, the files behind a glob.

DuckDB's own parser does the reading (`json_serialize_sql`); nothing here guesses at SQL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from snapdb.errors import BindError, InputError, ParseError, QueryError
from snapdb.sql_engine.sources import text_literal

if TYPE_CHECKING:
    from snapdb.sql_engine.engine import Session


class OrderKey(NamedTuple):
    """One key of a query's ORDER BY: an output column by name, or by position from 1."""

    column: str | int


class Conjunct(NamedTuple):
    """A part of a condition that top-level ANDs join."""

    sql: str
    node: dict[str, Any]
    """What DuckDB's parser made of it."""

    @property
    def references(self) -> set[tuple[str, ...]]:
        """The columns that it names, each as its dotted parts.

        Raises:
            BindError: it holds a subquery, whose rows would not be pinned.
        """
        if any(found.get("class") == "SUBQUERY" for found in _walk(self.node)):
            raise BindError(
                f"{self.sql}: a subquery cannot stand here; load its result as a column", code="subquery-here"
            )
        return {tuple(found["column_names"]) for found in _walk(self.node) if found.get("class") == "COLUMN_REF"}


def conjuncts(session: Session, condition: str) -> list[Conjunct]:
    """The parts of a condition that top-level ANDs join; the condition itself when there are none."""
    statement = _parse(session, f"SELECT 1 WHERE {condition}")
    where = statement["statements"][0]["node"]["where_clause"]
    if where["type"] != "CONJUNCTION_AND":
        return [Conjunct(condition, where)]
    texts = []
    for child in where["children"]:
        statement["statements"][0]["node"]["where_clause"] = child
        texts.append(f"json_deserialize_sql({text_literal(json.dumps(statement))}::JSON)")
    (parts,) = session.rows(f"SELECT {', '.join(texts)}")
    return [
        Conjunct(sql.removeprefix("SELECT 1 WHERE "), node) for sql, node in zip(parts, where["children"], strict=True)
    ]


def order_keys(session: Session, query: str) -> list[OrderKey] | None:
    """The outermost ORDER BY of a query as output columns; None when it has none.

    Raises:
        BindError: a key is an expression, or ALL.
    """
    node = _parse(session, query)["statements"][0]["node"]
    orders = [o for m in node.get("modifiers", []) if m["type"] == "ORDER_MODIFIER" for o in m["orders"]]
    if not orders:
        return None
    return [_order_key(order["expression"]) for order in orders]


def files_behind(session: Session, path: str) -> tuple[str, ...]:
    """The names of the files behind a path or glob, in order; none where nothing is there.

    Raises:
        InputError: a name cannot be said in SQL.
    """
    try:
        rows = session.rows(f"SELECT file FROM glob({text_literal(path)}) ORDER BY file")
    except QueryError as error:
        if "Invalid unicode" not in error.message:
            raise
        raise InputError(
            f"the name of a file behind {text_literal(path)} is no UTF-8; rename it", code="unreadable-file"
        ) from error
    return tuple(str(name) for (name,) in rows)


def _order_key(expression: dict[str, Any]) -> OrderKey:
    if expression["class"] == "COLUMN_REF":
        return OrderKey(str(expression["column_names"][-1]))
    if expression["class"] == "CONSTANT":
        literal = expression.get("literal") or expression["value"]
        return OrderKey(int(literal.get("text", literal.get("value"))))
    raise BindError(
        "IN ORDER needs an ORDER BY over output columns, not an expression; select it and order by its name",
        code="no-order",
    )


def _parse(session: Session, query: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(session.rows(f"SELECT json_serialize_sql({text_literal(query)})")[0][0])
    if parsed.get("error"):
        raise ParseError(f"cannot read {query!r}: {parsed.get('error_message')}", code="query-syntax")
    return parsed


def _walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for child in value.values():
            yield from _walk(child)
    elif isinstance(value, list):
        for child in value:
            yield from _walk(child)

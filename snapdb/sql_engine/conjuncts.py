"""Parts of conditions and of ORDER BY, from the syntax trees of DuckDB's parser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from snapdb.errors import BindError


class Conjunct(NamedTuple):
    """A part of a condition between top-level ANDs."""

    sql: str
    node: dict[str, Any]
    """The syntax tree from DuckDB's parser."""

    @property
    def references(self) -> set[tuple[str, ...]]:
        """The columns that the part references, each as a tuple of its dotted parts.

        Raises:
            BindError: The part contains a subquery, whose rows would not be pinned.
        """
        if any(node.get("class") == "SUBQUERY" for node in _walk(self.node)):
            raise BindError(
                f"{self.sql}: a subquery is not supported here; load its result as a column", code="subquery-here"
            )
        return {tuple(node["column_names"]) for node in _walk(self.node) if node.get("class") == "COLUMN_REF"}


def order_key(expression: dict[str, Any]) -> str | int:
    """Return an expression of ORDER BY as a column's name or 1-based position. Raises BindError for others."""
    if expression["class"] == "COLUMN_REF":
        return str(expression["column_names"][-1])
    if expression["class"] == "CONSTANT":
        literal = expression.get("literal") or expression["value"]
        return int(literal.get("text", literal.get("value")))
    raise BindError(
        "IN ORDER needs an ORDER BY over output columns, not an expression; select the expression, and "
        "order by its name",
        code="no-order",
    )


def _walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for child in value.values():
            yield from _walk(child)
    elif isinstance(value, list):
        for child in value:
            yield from _walk(child)

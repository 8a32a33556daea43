"""Refusing what gives other rows when it is asked again: clocks, random numbers, samples."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.catalog.system_tables import FACTS, SCHEMA
from snapdb.errors import BindError, Span
from snapdb.relational import Relational
from snapdb.sql.ast import Island
from snapdb.sql.tokens import Token, identifier, scan

_CLOCKS = frozenset(("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"))
_ALSO = frozenset(("current_localtime", "current_localtimestamp"))
"""Functions of the clock that DuckDB does not list as such. age() of one argument is another."""
_INSTEAD = "store its result in a table, or choose by a column or hash()"


def check_repeatable(relational: Relational, island: Island, why: str, instead: str = _INSTEAD) -> None:
    """Nothing when the island gives the same each time.

    Raises:
        BindError: it calls a function that does not, at the function's place; the message says `why`, then `instead`.
    """
    volatile = relational.volatile() | _ALSO
    tokens = scan(island.text)
    _check_facts(tokens, island, why)
    for i, token in enumerate(tokens):
        if _is_volatile(token, tokens[i + 1 :], volatile):
            at = island.span.start + token.span.start
            what = "rows" if instead == _INSTEAD else "values"
            raise BindError(
                f"{token.text} gives other {what} each time, and {why}; {instead}",
                span=Span(at, at + len(token.text)),
                code="not-repeatable",
            )


def _check_facts(tokens: Sequence[Token], island: Island, why: str) -> None:
    """Nothing when no facts about the database are read, which change with every statement."""
    for first, dot, name in zip(tokens, tokens[1:], tokens[2:], strict=False):
        names = [identifier(token).lower() for token in (first, name) if token.kind in ("word", "quoted")]
        if dot.text == "." and names and names[0] == SCHEMA and names[-1] in FACTS:
            at = island.span.start
            raise BindError(
                f"{SCHEMA}.{names[-1]} tells what there is now, and {why}; store its rows in a table, or write the "
                "values themselves",
                span=Span(at + first.span.start, at + name.span.stop),
                code="not-repeatable",
            )


def _is_volatile(token: Token, following: tuple[Token, ...], volatile: frozenset[str]) -> bool:
    if token.kind not in ("word", "quoted"):
        return False
    name = identifier(token).lower()
    after = following[0].text.lower() if following else ""
    if token.kind == "word" and (name in _CLOCKS or name == "tablesample" or (name == "using" and after == "sample")):
        return True
    return after == "(" and (name in volatile or (name == "age" and _arguments(following) == 1))


def _arguments(following: tuple[Token, ...]) -> int:
    """How many arguments stand between the parentheses that open here."""
    depth, commas = 0, 0
    for token in following:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        commas += token.text == "," and depth == 1
        if depth == 0:
            break
    return commas + 1

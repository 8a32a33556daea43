"""WHEN of a task: where it asks how much a graph has changed, which DuckDB does not know of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from snapdb.errors import ParseError, Span
from snapdb.sql.brackets import partners
from snapdb.sql.islands import says
from snapdb.sql.rewrite import rewrite
from snapdb.sql.tokens import scan, string_value


class Changed(NamedTuple):
    """changed('graph') in a condition: the rows added and removed since the last run that ended well."""

    name: str
    """Of the graph, as it was written."""
    span: Span
    """From the word to the closing parenthesis."""


def changed_graphs(condition: str) -> tuple[Changed, ...]:
    """Where a condition asks for the changes of a graph, in order; spans count in the condition.

    Raises:
        ParseError: what stands in the parentheses is not one string.

    >>> changed_graphs("changed('shop') > 10 OR 'changed(1)' = x")
    (Changed(name='shop', span=Span(start=0, stop=15)),)
    """
    tokens = scan(condition)
    pairs = partners(tokens)
    found = []
    for index, token in enumerate(tokens):
        if token.word != "CHANGED" or not says(tokens, index + 1, "(") or (index and says(tokens, index - 1, ".")):
            continue
        closer = pairs[index + 1]
        span = Span(token.span.start, tokens[closer].span.stop)
        if closer != index + 3 or tokens[index + 2].kind != "string":
            raise ParseError("changed takes a graph's name in quotes: changed('shop')", span=span, code="bad-changed")
        found.append(Changed(string_value(tokens[index + 2]), span))
    return tuple(found)


def with_counts(condition: str, counts: Mapping[str, int]) -> str:
    """A condition with numbers in the place of changed('graph'), by the names as they are written in it.

    >>> with_counts("changed('shop') > 10 OR CHANGED ( 'bank' ) > 0", {"shop": 12, "bank": 0})
    '12 > 10 OR 0 > 0'
    """
    return rewrite(condition, [(span, str(counts[name])) for name, span in changed_graphs(condition)]).text

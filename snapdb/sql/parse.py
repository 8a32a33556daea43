"""Text → statements: each is read by the grammar of its leading words, or left to DuckDB as it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lark.exceptions import UnexpectedToken

from snapdb.errors import ParseError, SnapdbError, Span
from snapdb.sql import queries
from snapdb.sql.ast import Island, Query, Statement
from snapdb.sql.build import Leaf, Place, Read, Tree, span_of
from snapdb.sql.build_cache import build_cache
from snapdb.sql.build_copy import build_copy
from snapdb.sql.build_explain import build_explain
from snapdb.sql.build_graph import build_graph
from snapdb.sql.build_sample import build_sample
from snapdb.sql.build_show import build_show
from snapdb.sql.build_snapshot import build_snapshot
from snapdb.sql.build_table import build_table
from snapdb.sql.build_task import build_task
from snapdb.sql.build_version import build_version
from snapdb.sql.families import family_of
from snapdb.sql.grammars import parser
from snapdb.sql.islands import Family, fold
from snapdb.sql.reading import read
from snapdb.sql.refuse import refuse_mixed
from snapdb.sql.split import Part, parts
from snapdb.sql.travel import find_travels
from snapdb.sql.unexpected import explain

_BUILDERS: dict[Family, Callable[[Tree, Place], Statement]] = {
    "table": build_table,
    "graph": build_graph,
    "cache": build_cache,
    "snapshot": build_snapshot,
    "sample": build_sample,
    "show": build_show,
    "version": build_version,
}
_NESTING: dict[Family, Callable[[Tree, Place, Read], Statement]] = {"copy": build_copy, "explain": build_explain}
"""Families whose statements hold another one."""


def parse(text: str) -> tuple[Statement, ...]:
    """The statements of a text, in order; spans count in the whole text, empty statements are skipped.

    Raises ParseError with the place of the first mistake; its code is 'refused' for a statement that is understood
    and not allowed.

    >>> [type(statement).__name__ for statement in parse("DROP TABLE t; SELECT 1;")]
    ['Drop', 'Query']
    """
    try:
        return _statements(text)
    except SnapdbError as error:
        raise error.located(text) from None


def parse_one(text: str) -> Statement:
    """The only statement of a text.

    Raises:
        ParseError: it cannot be read, or there is none, or a second one; the place is where one is missing or too much.
    """
    statements = parse(text)
    if len(statements) == 1:
        return statements[0]
    if statements:
        message, span = (
            f"execute takes one statement, found {len(statements)}; use script for several",
            statements[1].span,
        )
    elif text.strip():
        message = (
            "execute takes one statement, found only comments or semicolons; write a statement, such as SHOW TABLES"
        )
        span = Span(len(text) - len(text.lstrip()), len(text.rstrip()))
    else:
        message, span = "execute takes one statement, found an empty text; write one, such as SHOW TABLES", Span(0, 0)
    raise ParseError(message, span=span, text=text, code="several-statements")


def parse_each(text: str) -> Iterator[Statement | SnapdbError]:
    """Each statement of a text, or what is wrong with it, in order; a quote that never ends leaves only its error.

    >>> [type(found).__name__ for found in parse_each("SELEC 1; SELECT 2")]
    ['ParseError', 'Query']
    """
    try:
        found = tuple(parts(text))
    except SnapdbError as error:
        yield error.located(text)
        return
    for part in found:
        try:
            yield _statement(part, text)
        except SnapdbError as error:
            yield error.located(text)


def _statements(text: str) -> tuple[Statement, ...]:
    return tuple(_statement(part, text) for part in parts(text))


def _statement(part: Part, text: str) -> Statement:
    family = family_of(part.tokens)
    refuse_mixed(part.tokens)
    find_travels(part.tokens, text)  # a wrong one is shown in the whole text, whoever rewrites it later
    if family is None:
        queries.check_query(part.tokens)
        return Query(text, part.span, Island(text[part.span.start : part.span.stop], part.span))
    tokens = fold(part.tokens, family, text)
    try:
        tree = read(family, tokens)
    except UnexpectedToken as error:
        raise explain(error, parser(family), part.tokens) from None
    place = Place(text, part.span)
    if family == "task":
        return build_task(tree, place, _statements)
    if family in _NESTING:
        return _NESTING[family](tree, place, lambda leaf: _statement(_inside(part, leaf), text))
    return _BUILDERS[family](tree, place)


def _inside(part: Part, leaf: Leaf) -> Part:
    """The tokens of a statement that were folded into one leaf."""
    start, stop = span_of(leaf)
    return Part(tuple(token for token in part.tokens if start <= token.span.start < stop), part.ended)

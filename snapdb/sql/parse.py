"""Text → statements: each is read by the grammar of its leading words, or left to DuckDB as it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lark.exceptions import UnexpectedToken

from snapdb.errors import ParseError, SnapdbError, Span
from snapdb.sql import queries
from snapdb.sql.ast import Island, Query, Statement
from snapdb.sql.brackets import partners
from snapdb.sql.build import Place, Tree
from snapdb.sql.build_graph import build_graph
from snapdb.sql.build_sample import build_sample
from snapdb.sql.build_show import build_show
from snapdb.sql.build_snapshot import build_snapshot
from snapdb.sql.build_table import build_table
from snapdb.sql.grammars import parser
from snapdb.sql.islands import Family, fold, top_level
from snapdb.sql.refuse import refuse_parameters, refuse_write, unknown_kind, unknown_show, unknown_statement
from snapdb.sql.split import Part, parts
from snapdb.sql.tokens import Token
from snapdb.sql.unexpected import explain

__all__ = ["parse"]

_BUILDERS: dict[Family, Callable[[Tree, Place], Statement]] = {
    "table": build_table,
    "graph": build_graph,
    "snapshot": build_snapshot,
    "sample": build_sample,
    "show": build_show,
}

_FAMILIES: dict[str, Family] = {
    "COPY": "table",
    "DELETE": "table",
    "DROP": "show",
    "INSERT": "table",
    "SAMPLE": "sample",
    "SHOW": "show",
}
_KINDS = frozenset({"TABLE", "GRAPH", "PROPERTY", "SNAPSHOT"})
_SHOWN = ("TABLES", "GRAPHS", "PROPERTY GRAPHS", "SNAPSHOTS", "VERSIONS")


def parse(text: str) -> tuple[Statement, ...]:
    """The statements of a text, in order; spans count in the whole text, empty statements are skipped.

    Raises ParseError with the place of the first mistake; its code is 'refused' for a statement that is understood
    and not allowed.

    >>> [type(statement).__name__ for statement in parse("DROP TABLE t; SELECT 1;")]
    ['Drop', 'Query']
    """
    try:
        return tuple(_statement(part, text) for part in parts(text))
    except SnapdbError as error:
        raise error.located(text) from None


def _statement(part: Part, text: str) -> Statement:
    family = _family(part.tokens)
    if family is None:
        queries.check_query(part.tokens)
        return Query(text, part.span, Island(text[part.span.start : part.span.stop], part.span))
    tokens = fold(part.tokens, family, text)
    grammar = parser(family)
    try:
        tree = grammar.parse(tokens)
    except UnexpectedToken as error:
        raise explain(error, grammar, part.tokens) from None
    return _BUILDERS[family](tree, Place(text, part.span))


def _family(tokens: Sequence[Token]) -> Family | None:
    """The grammar that reads a statement, or None for DuckDB's; ParseError for a statement that nobody reads."""
    leading = tokens[0].word
    if leading == "CREATE":
        return _created(tokens)
    if leading in _FAMILIES:
        _check(tokens)
        return _FAMILIES[leading]
    if leading in {"DESCRIBE", "DESC"} and len(tokens) > 2 and tokens[1].word in _KINDS:
        return "show"
    if leading in (*queries.LEADING, "("):
        return None
    raise unknown_statement(tokens[0], ("CREATE", *_FAMILIES, *queries.LEADING))


def _created(tokens: Sequence[Token]) -> Family:
    """The family of a CREATE."""
    index = 3 if [token.word for token in tokens[1:3]] == ["OR", "REPLACE"] else 1
    if index >= len(tokens):
        end = tokens[-1].span.stop
        expected = "TABLE, PROPERTY GRAPH or SNAPSHOT"
        raise ParseError(f"unexpected end of the statement: expected {expected}", span=Span(end, end))
    kind = tokens[index].word
    if kind == "TABLE":
        return "table"
    if kind not in {"PROPERTY", "SNAPSHOT"}:
        raise unknown_kind("CREATE", tokens[index])
    refuse_parameters(tokens, "a snapshot" if kind == "SNAPSHOT" else "a property graph")
    return "snapshot" if kind == "SNAPSHOT" else "graph"


def _check(tokens: Sequence[Token]) -> None:
    """Raise for forms of our other statements that are refused by name."""
    leading, second = tokens[0].word, tokens[1:2]
    if leading in {"COPY", "DELETE", "INSERT"}:
        refuse_write(tokens, tuple(top_level(tokens, partners(tokens))))
    if leading == "DROP" and second and second[0].word not in _KINDS:
        raise unknown_kind("DROP", second[0])
    if leading == "SHOW" and second and second[0].word not in {"PROPERTY", *_SHOWN}:
        raise unknown_show(second[0], _SHOWN)

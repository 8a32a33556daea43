"""Text → statements: each is read by the grammar of its leading words, or left to DuckDB as it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lark.exceptions import UnexpectedToken

from snapdb.errors import ParseError, SnapdbError, Span
from snapdb.sql import queries
from snapdb.sql.ast import Island, Query, Statement
from snapdb.sql.build import Place, Tree
from snapdb.sql.build_graph import build_graph
from snapdb.sql.build_sample import build_sample
from snapdb.sql.build_show import build_show
from snapdb.sql.build_snapshot import build_snapshot
from snapdb.sql.build_table import build_table
from snapdb.sql.build_version import build_version
from snapdb.sql.grammars import parser
from snapdb.sql.islands import Family, fold
from snapdb.sql.refuse import (
    described_tag,
    refuse_parameters,
    refuse_savepoint,
    unknown_altered,
    unknown_kind,
    unknown_show,
    unknown_statement,
)
from snapdb.sql.refuse_write import refuse_write
from snapdb.sql.split import Part, parts
from snapdb.sql.tokens import Token
from snapdb.sql.travel import find_travels
from snapdb.sql.unexpected import explain

__all__ = ["parse"]

_BUILDERS: dict[Family, Callable[[Tree, Place], Statement]] = {
    "table": build_table,
    "graph": build_graph,
    "snapshot": build_snapshot,
    "sample": build_sample,
    "show": build_show,
    "version": build_version,
}

_FAMILIES: dict[str, Family] = {
    "ABORT": "version",
    "ALTER": "table",
    "AUDIT": "sample",
    "BEGIN": "version",
    "CHECK": "version",
    "COMMIT": "version",
    "COPY": "table",
    "DELETE": "table",
    "DIFF": "version",
    "DROP": "show",
    "END": "version",
    "EXPIRE": "snapshot",
    "INSERT": "table",
    "REFRESH": "snapshot",
    "ROLLBACK": "version",
    "SAMPLE": "sample",
    "SHOW": "show",
    "START": "version",
    "UPDATE": "table",
    "VACUUM": "version",
}
_CREATED: dict[str, Family] = {"PROPERTY": "graph", "SNAPSHOT": "snapshot", "TABLE": "table", "TAG": "version"}
_STORED = {"PROPERTY": "a property graph", "SNAPSHOT": "a snapshot"}
_DESCRIBED = frozenset({"TABLE", "GRAPH", "PROPERTY", "SNAPSHOT"})
_DROPPED = _DESCRIBED | {"TAG"}
_SHOWN = ("TABLES", "GRAPHS", "PROPERTY GRAPHS", "SNAPSHOTS", "TAGS", "VERSIONS")


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
    find_travels(part.tokens, text)  # a wrong one is shown in the whole text, whoever rewrites it later
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
    if leading == "EXPLAIN" and (family := queries.explained_family(tokens)) is not None:
        if family == "snapshot":
            refuse_parameters(tokens, _STORED["SNAPSHOT"])
        return family
    if leading in {"DESCRIBE", "DESC"} and len(tokens) > 2:
        if tokens[1].word == "TAG" and tokens[2].kind in ("word", "quoted") and len(tokens) == 3:
            raise described_tag(tokens[1])
        if tokens[1].word in _DESCRIBED:
            return "show"
    if leading in (*queries.LEADING, "("):
        return None
    raise unknown_statement(tokens[0], ("CREATE", *_FAMILIES, *queries.LEADING))


def _created(tokens: Sequence[Token]) -> Family:
    """The family of a CREATE."""
    index = 3 if [token.word for token in tokens[1:3]] == ["OR", "REPLACE"] else 1
    if index >= len(tokens):
        end = tokens[-1].span.stop
        expected = "TABLE, PROPERTY GRAPH, SNAPSHOT or TAG"
        raise ParseError(f"unexpected end of the statement: expected {expected}", span=Span(end, end))
    kind = tokens[index].word
    if kind not in _CREATED:
        raise unknown_kind("CREATE", tokens[index])
    if kind in _STORED:
        refuse_parameters(tokens, _STORED[kind])
    return _CREATED[kind]


def _check(tokens: Sequence[Token]) -> None:
    """Raise for forms of our other statements that are refused by name."""
    leading, second = tokens[0].word, tokens[1] if len(tokens) > 1 else None
    if second is None:
        return
    if leading == "ALTER" and second.word != "TABLE":
        raise unknown_altered(second)
    if leading in {"ALTER", "COPY", "DELETE", "INSERT", "UPDATE"}:
        refuse_write(tokens)
    elif leading == "DROP" and second.word not in _DROPPED:
        raise unknown_kind("DROP", second)
    elif leading == "SHOW" and second.word not in {"PROPERTY", *_SHOWN}:
        raise unknown_show(second, _SHOWN)
    elif leading in {"ABORT", "ROLLBACK"}:
        refuse_savepoint(second)

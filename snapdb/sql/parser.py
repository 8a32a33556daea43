"""The parser: converts text into statements. Leading words select the grammar; other statements are DuckDB queries."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING

from snapdb.errors import ParseError, SnapdbError, Span
from snapdb.on_first_use import module_on_first_use
from snapdb.sql.algorithms import find_algorithms, parse_algorithm
from snapdb.sql.lexer import StatementTokens, Token, fold, join_qualified, partners, parts, says
from snapdb.sql.pattern_tokens import find_patterns, without_quantifiers
from snapdb.sql.patterns import parse_pattern
from snapdb.sql.queries import LEADING, WRITES, Query, check_query, describes_ours, find_travels, main_of_with
from snapdb.sql.syntax import Family, Leaf, Place, Reader, SqlFragment, Statement, span_of, trees
from snapdb.sql.unsupported import (
    CREATED,
    refuse_mixed,
    unknown_altered,
    unknown_kind,
    unknown_refreshed,
    unknown_statement,
)
from snapdb_grammar import grammar_text

if TYPE_CHECKING:
    from snapdb.sql import grammars
else:
    grammars = module_on_first_use("snapdb.sql.grammars")  # queries use no grammar, so they never load Lark

FAMILIES = (
    "tables",
    "definitions",
    "graphs",
    "snapshots",
    "samples",
    "versions",
    "caches",
    "maintenance",
    "publications",
    "tasks",
    "exports",
    "show",
    "explain",
    "prepared",
)
"""The families with a grammar, in the order in which messages list CREATE, ALTER and REFRESH statements."""
_LEADING_WORDS = re.compile(r"^// Leading words: (.+)$", re.MULTILINE)


@cache
def load_family(name: str) -> Family:
    """Return the family with this name. Its module is imported when its first statement is parsed."""
    family: Family = import_module(f"snapdb.sql.{name}").FAMILY
    return family


def _by_leading() -> dict[str, dict[str, str]]:
    """Return the families by first word and second word. The second word is '' if the first one determines the family.

    The grammars declare these words, so that a query does not import the module of any family.
    """
    by_word: dict[str, dict[str, str]] = {}
    for family in FAMILIES:
        declared = _LEADING_WORDS.search(grammar_text(family))
        assert declared is not None, family
        for leading in declared[1].split(", "):
            first, _, rest = leading.partition(" ")
            second = rest.partition(" ")[0]
            by_word.setdefault(first, {})[second] = family
    return by_word


_LEADING = _by_leading()
_ENDED = {"ALTER": "TABLE, PROPERTY GRAPH or TASK", "CREATE": CREATED, "REFRESH": "SNAPSHOT or CACHE"}
"""The words that may follow each first word that does not determine the family."""
_UNKNOWN: dict[str, Callable[[Token], ParseError]] = {
    "ALTER": unknown_altered,
    "CREATE": partial(unknown_kind, "CREATE"),
    "REFRESH": unknown_refreshed,
}


def _family_of(tokens: Sequence[Token]) -> Family | None:
    """Return the family of a statement, or None for a query. Raises ParseError if the statement is not supported."""
    leading = tokens[0].word
    if leading in _LEADING:
        return load_family(_family(tokens, _LEADING[leading]))
    if leading == "WITH" and (verb := _written_after_with(tokens)) in _LEADING:
        return load_family(_LEADING[verb][""])
    if describes_ours(tokens):
        return load_family("show")
    if leading in (*LEADING, "("):
        return None
    raise unknown_statement(tokens, ("CREATE", *sorted(_LEADING.keys() - {"CREATE"}), *LEADING))


def _written_after_with(tokens: Sequence[Token]) -> str:
    """Return the first word of the statement after WITH if it writes, or ''."""
    # Most queries with WITH contain no such word, so brackets are not matched.
    if not any(token.word in WRITES for token in tokens):
        return ""
    main = main_of_with(tokens, partners(tokens), 0)
    return tokens[main].word if main < len(tokens) and tokens[main].word in WRITES else ""


def _family(tokens: Sequence[Token], by_second: Mapping[str, str]) -> str:
    """Return the family name of a statement whose first word is a snapdb keyword."""
    leading, index = tokens[0].word, 1
    if leading == "CREATE":  # the kind of object follows OR REPLACE and TEMPORARY
        index += 2 * says(tokens, index, "OR", "REPLACE")
        index += says(tokens, index, "TEMP") or says(tokens, index, "TEMPORARY")
        index += says(tokens, index, "RECURSIVE", "VIEW")
    if index < len(tokens) and tokens[index].word in by_second:
        return by_second[tokens[index].word]
    if "" in by_second:
        return by_second[""]
    if index >= len(tokens):
        end = tokens[-1].span.stop
        message = f"unexpected end of statement: expected {_ENDED[leading]}"
        raise ParseError(message, span=Span(end, end), code="unexpected-end")
    raise _UNKNOWN[leading](tokens[index])


def parse(text: str) -> tuple[Statement, ...]:
    """Parse the statements in a text, in order. Spans refer to the whole text, and empty statements are skipped.

    Raises ParseError at the first error. Its code is 'refused' if the statement is recognized but not supported.

    >>> [type(statement).__name__ for statement in parse("DROP TABLE t; SELECT 1;")]
    ['Drop', 'Query']
    """
    try:
        return _statements(text)
    except SnapdbError as error:
        raise error.located(text) from None


def parse_one(text: str) -> Statement:
    """Parse a text that contains exactly one statement.

    Raises:
        ParseError: The text is not valid, has no statement, or has more than one. The error points to the position of
            the missing or extra statement.
    """
    statements = parse(text)
    if len(statements) == 1:
        return statements[0]
    if statements:
        message, span = (
            f"execute runs one statement, found {len(statements)}; use script for several",
            statements[1].span,
        )
    elif text.strip():
        message = (
            "execute runs one statement, found only comments or semicolons; write a statement, such as SHOW TABLES"
        )
        span = Span(len(text) - len(text.lstrip()), len(text.rstrip()))
    else:
        message, span = "execute runs one statement, found an empty text; write one, such as SHOW TABLES", Span(0, 0)
    raise ParseError(message, span=span, text=text, code="several-statements")


def parse_each(text: str) -> Iterator[Statement | SnapdbError]:
    """Yield each statement of a text, or its error, in order. If a quote is unterminated, yield only that error.

    >>> [type(found).__name__ for found in parse_each("SELEC 1; SELECT 2")]
    ['ParseError', 'Query']
    """
    try:
        statements = tuple(parts(text))
    except SnapdbError as error:
        yield error.located(text)
        return
    for part in statements:
        try:
            yield _statement(part, text)
        except SnapdbError as error:
            yield error.located(text)


def format_sql(text: str) -> str:
    r"""Format the statements in a text, each followed by a semicolon and a newline. Comments are removed.

    Queries, conditions and expressions belong to DuckDB. They are not reformatted, and their comments are preserved.

    Raises:
        ParseError: The text contains something that is not a statement.

    >>> format_sql("drop table if exists t ; show tags -- all")
    'DROP TABLE IF EXISTS t;\nSHOW TAGS;\n'
    """
    return "".join(f"{statement.to_sql()};\n" for statement in parse(text))


def _statements(text: str) -> tuple[Statement, ...]:
    return tuple(_statement(part, text) for part in parts(text))


def _statement(part: StatementTokens, text: str) -> Statement:
    try:
        part = part._replace(tokens=without_quantifiers(part.tokens))
        find_patterns(part.tokens)
    except ParseError as error:
        if "--" in text and error.code == "unclosed-bracket":
            error.message += "; -- begins a comment, so write - or -> between vertices of a pattern"
        raise
    family = _family_of(part.tokens)
    if family is not None and family.names is not None:
        for index in sorted(family.names(part.tokens), reverse=True):
            part = part._replace(tokens=join_qualified(part.tokens, index))
    # For other databases' syntax, raise an error with the alternative. The grammar would only report a position.
    if family is not None and family.check is not None and len(part.tokens) > 1:
        family.check(part.tokens)
    refuse_mixed(part.tokens)
    find_travels(part.tokens, text)  # raises AT errors with the whole text, before a fragment is rewritten
    for first, last in find_patterns(part.tokens):
        parse_pattern(part.tokens[first : last + 1], text)
    for first, last in find_algorithms(part.tokens):
        parse_algorithm(part.tokens[first : last + 1], text)
    if family is None:
        check_query(part.tokens)
        return Query(text, part.span, SqlFragment(text[part.span.start : part.span.stop], part.span))
    # DuckDB parses the fragments, so the grammar sees each of them as a single token.
    tokens = fold(part.tokens, family.fragments, text)
    (tree,) = trees(grammars.parse_tokens(family.grammar, tokens, part.tokens))
    rule, place = str(tree.data), Place(text, part.span)
    if rule in family.builders:
        return family.builders[rule](tree, place)
    # A nested statement is parsed from the same tokens, so its spans refer to the whole text too.
    reader = Reader(lambda leaf: _statement(_inside(part, leaf), text), _statements)
    return family.nesting[rule](tree, place, reader)


def _inside(part: StatementTokens, leaf: Leaf) -> StatementTokens:
    """Return the tokens of a statement that is folded into one leaf."""
    start, stop = span_of(leaf)
    return StatementTokens(tuple(token for token in part.tokens if start <= token.span.start < stop), part.ended)

"""Converts Lark's errors for unexpected tokens into messages with the expected tokens, the actual token and a hint."""

from collections.abc import Iterable, Sequence

from lark import Lark
from lark.exceptions import UnexpectedToken

from snapdb.errors import ParseError, Span
from snapdb.sql.corrections import Mistake, correct
from snapdb.sql.lexer import READS, Token
from snapdb.sql.syntax import RESERVED
from snapdb.types import did_you_mean

_READABLE = {
    "NAME": "a name",
    "STRING": "a string in single quotes",
    "NUMBER": "a number",
    "QUERY": "a query",
    "CONDITION": "a condition",
    "EXPRESSION": "an expression",
    "SOURCES": "tables or queries",
    "COLUMNS": "columns with their types",
    "CONSTRAINT": "a constraint",
    "CTES": "common table expressions",
    "STATEMENT": "a statement",
    "FROM_DATABASE": "FROM DATABASE",
    "AMONG": "IN (edge types)",
    "PARAMETER": "a parameter",
    "QUESTION": '"?"',
    "$END": "the end of the statement",
}

_LONG = 80
"""The maximum length of a list of expected tokens if a word is merely misspelt. A longer list is omitted."""

_STARTS = frozenset(
    {"CREATE", "DIFF", "DROP", "EXPLAIN", "INSERT", "REFRESH", "SAMPLE", "SELECT", "SHOW", "UPDATE", "WALK"}
)
"""Words that usually begin a statement where the grammar does not expect them."""

_GROUPS = (
    (
        frozenset({"MINUS", "NUMBER", "STRING", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "LPAR"}),
        "a time (a number, a string, DATE '…', TIMESTAMP '…' or an expression in parentheses)",
    ),
    (frozenset({"MINUS", "NUMBER"}), "a number"),
)
"""Groups of terminals that are listed as one item."""

_REFRESHED_BY = {
    **dict.fromkeys(("EVERY", "AMPLIFY", "SHARED", "DEGREE"), "REFRESH FCR or OTF"),
    **dict.fromkeys(("FETCH", "SCOPE"), "REFRESH OTF"),
}
"""Parts of a clause that are easily mistaken for clauses, or for parts of another strategy."""

_ROOMS = (["IN", "MEMORY"], ["IN", "FILE"])
"""The words before a cache size."""


def explain_unexpected(error: UnexpectedToken, parser: Lark, tokens: Sequence[Token]) -> ParseError:
    """Return the error for a token that is not valid at its position. `tokens` are the statement's unfolded tokens."""
    accepted: set[str] = error.accepts
    expected = _expected(accepted, parser)
    plain = frozenset(_plain(terminal, parser) for terminal in accepted)
    if error.token.type == "$END":
        end, way = tokens[-1].span.stop, correct(Mistake(tokens, len(tokens), plain))
        wanted = "" if way and len(expected) > _LONG else f": expected {expected}"
        return ParseError(f"unexpected end of statement{wanted}{way}", span=Span(end, end), code="unexpected-end")
    # The parser sees folded fragments, but the error must point to a token that the user wrote.
    index = next(index for index, token in enumerate(tokens) if token.span.start == error.token.start_pos)
    unexpected = tokens[index]
    if way := correct(Mistake(tokens, index, plain)):
        found = f"expected {expected}, found {unexpected.text[:40]}"
        if len(expected) > _LONG:
            found = f'syntax error at or near "{unexpected.text[:40]}"'
        return ParseError(found + way, span=unexpected.span, code="unexpected-word")
    if part := _refreshed(tokens, index, accepted):
        return ParseError(
            f'syntax error at or near "{unexpected.text}"; {part}', span=unexpected.span, code="unexpected-word"
        )
    hint = (
        _property(tokens, index)
        or _share(tokens[index - 1])
        or _room(tokens, index)
        or _hint(unexpected, accepted, parser)
        or _misread(tokens[index - 1], accepted, parser)
    )
    if "did you mean" in hint and len(expected) > _LONG:
        return ParseError(
            f'syntax error at or near "{unexpected.text[:40]}"{hint}', span=unexpected.span, code="unexpected-word"
        )
    return ParseError(
        f"expected {expected}, found {unexpected.text[:40]}{hint}", span=unexpected.span, code="unexpected-word"
    )


def _expected(accepted: Iterable[str], parser: Lark) -> str:
    """Format the terminals as text: names and values, then keywords, then the end of the statement."""
    rest = set(accepted)
    phrases = []
    for group, phrase in _GROUPS:
        if group <= rest:
            phrases.append(phrase)
            rest -= group
    spelled = {terminal for terminal in rest if _is_spelled(terminal, parser)}
    phrases += [_READABLE[terminal] for terminal in _READABLE if terminal in rest - spelled and terminal != "$END"]
    phrases += sorted(_written(terminal, parser) for terminal in spelled)
    if "$END" in rest:
        phrases.append(_READABLE["$END"])
    head, last = phrases[:-1], phrases[-1]
    return f"{', '.join(head)} or {last}" if head else last


def _is_spelled(terminal: str, parser: Lark) -> bool:
    """Return whether a terminal is a keyword or symbol. COLUMNS is both a keyword and a fragment."""
    return any(known.name == terminal for known in parser.terminals)


def _plain(terminal: str, parser: Lark) -> str:
    """Return the text of a keyword or symbol, or the name of any other terminal."""
    return parser.get_terminal(terminal).pattern.value.upper() if _is_spelled(terminal, parser) else terminal


def _written(terminal: str, parser: Lark) -> str:
    text: str = parser.get_terminal(terminal).pattern.value.upper()
    return text if text[0].isalpha() else f'"{text}"'


def _hint(token: Token, accepted: Iterable[str], parser: Lark) -> str:
    """Return a hint about the likely intent, to append to the message."""
    terminals = set(accepted)
    if token.kind == "parameter":
        return "; parameters are allowed only in queries and conditions, write the value here"
    if token.kind == "quoted":
        return ""
    if "$END" in terminals and token.word in _STARTS:
        return '; end the statement before it with ";"'
    if "NAME" in terminals and token.word in RESERVED:
        return f'; {token.word} is a reserved word, write "{token.text}" in double quotes to use it as a name'
    if "EVENT_TIME" not in terminals and "ELEMENTS" in terminals and token.text in {"+", "-", "*", "/", "("}:
        return "; put an expression in parentheses"
    keywords = _keywords(accepted, parser)
    meant = [*keywords, *READS] if "QUERY" in terminals else keywords
    return did_you_mean(token.text, meant) if token.kind == "word" else ""


def _property(tokens: Sequence[Token], index: int) -> str:
    """Return a hint that PROPERTIES (…) does not accept expressions, if the token is inside it."""
    opened = next((i for i in range(index - 1, -1, -1) if tokens[i].text in {"(", ")"}), 0)
    if (
        tokens[index].kind == "word"
        or not opened
        or (tokens[opened - 1].word, tokens[opened].text) != ("PROPERTIES", "(")
    ):
        return ""
    return "; PROPERTIES lists columns, add a column to the table for an expression"


def _refreshed(tokens: Sequence[Token], index: int, accepted: set[str]) -> str:
    """Return a hint on how to write a part of REFRESH, or where it belongs."""
    unexpected, before = tokens[index], tokens[index - 1]
    if "REFRESH" not in accepted:
        return ""
    if (before.word, unexpected.kind) == ("FCR", "number"):
        return f"write EVERY {unexpected.text} BATCHES for a period; only REFRESH OTF has a percentage of rows"
    if (before.word, unexpected.word) == ("AUTO", "BATCHES"):
        return "write EVERY AUTO without it"
    if unexpected.word == "CACHE" or [token.word for token in tokens[index : index + 2]] == ["USING", "CACHE"]:
        return "leave it out: CREATE CACHE name ON SAMPLER adds a cache to all streams of a sampler"
    clause = _REFRESHED_BY.get(unexpected.word) if unexpected.kind == "word" else None
    return f"it is part of {clause}, write it directly after that" if clause else ""


def _room(tokens: Sequence[Token], index: int) -> str:
    """Return a hint to quote the cache size if it is a bare number."""
    sized = tokens[index].kind == "number" and [token.word for token in tokens[index - 2 : index]] in _ROOMS
    return "; write the size and its unit in quotes, '4GB'" if sized else ""


def _share(before: Token) -> str:
    """Return a hint that OTF requires the percentage of rows to resample."""
    return "; write a percentage of rows first, OTF 15 PERCENT" if before.word == "OTF" else ""


def _misread(before: Token, accepted: Iterable[str], parser: Lark) -> str:
    """Return a hint that the previous word was parsed as an alias, if it may have been meant as a keyword."""
    known = _keywords((terminal.name for terminal in parser.terminals), parser)
    misspelt = before.kind == "word" and before.word not in known
    hint = did_you_mean(before.text, _keywords(accepted, parser)) if misspelt else ""
    return f"; {before.text[:40]} was read as a name{hint}" if hint else ""


def _keywords(accepted: Iterable[str], parser: Lark) -> list[str]:
    """Return the accepted keywords and symbols as text."""
    return [_written(terminal, parser) for terminal in accepted if _is_spelled(terminal, parser)]

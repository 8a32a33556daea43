"""A scanner that knows quotes and comments: text → tokens, with whitespace and comments left out.

It reads words, strings and comments as DuckDB does, so that both agree on where a statement or an island ends.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from snapdb.errors import ParseError, Span

__all__ = ["Token", "TokenKind", "identifier", "scan", "string_value"]

TokenKind = Literal[
    "word",
    "quoted",
    "string",
    "number",
    "parameter",
    "mark",
    "QUERY",
    "CONDITION",
    "EXPRESSION",
    "SOURCES",
    "COLUMNS",
]
"""The kinds in capitals are islands: a run of tokens folded into one (snapdb.sql.islands)."""


class Token(NamedTuple):
    """A piece of a statement, exactly as it was written."""

    kind: TokenKind
    text: str
    span: Span

    @property
    def word(self) -> str:
        """The keyword this may be: an unquoted word or a mark in capitals, else ''."""
        return self.text.upper() if self.kind in ("word", "mark") else ""


_WIDE_SPACE = r"\u00a0\u2000-\u200b\u202f\u205f\u2060\u3000\ufeff"  # exactly what DuckDB skips beyond ASCII
_BEYOND_ASCII = rf"[^\x00-\x7f{_WIDE_SPACE}]"
_WORD_START = rf"[A-Za-z_]|{_BEYOND_ASCII}"
_WORD = rf"(?:{_WORD_START})(?:[A-Za-z0-9_$]|{_BEYOND_ASCII})*+"
_PATTERN = re.compile(
    rf"""
    (?P<space>[\t-\r\x20{_WIDE_SPACE}]++ | --[^\r\n]*+)
  | (?P<comment>/\*)
  | (?P<string>'(?:[^']++|'')*+' | [eE]'(?:[^'\\]++|''|\\.)*+')
  | (?P<quoted>"(?:[^"]++|"")*+")
  | (?P<dollar>\$(?:(?:{_WORD_START})(?:[A-Za-z0-9_]|{_BEYOND_ASCII})*+)?+\$)
  | (?P<open>[eE]?'|")
  | (?P<parameter>\?[0-9]*+ | \$(?:[0-9]++|{_WORD}))
  | (?P<number>0[xX][0-9A-Fa-f_]++ | (?:[0-9][0-9_]*+(?:\.[0-9_]*+)?+|\.[0-9][0-9_]*+)(?:[eE][+-]?[0-9]++)?+)
  | (?P<word>{_WORD})
  | (?P<mark>=> | <= | .)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_KINDS: dict[str, TokenKind] = {
    "string": "string",
    "quoted": "quoted",
    "dollar": "string",
    "parameter": "parameter",
    "number": "number",
    "word": "word",
    "mark": "mark",
}


def scan(text: str) -> tuple[Token, ...]:
    """The tokens of a text, in order. Raises ParseError at the start of a string, name or comment that never ends.

    >>> [token.text for token in scan("SELECT 'it''s' /* no */ AS \\"x\\"")]
    ['SELECT', "'it''s'", 'AS', '"x"']
    """
    tokens = []
    position = 0
    while position < len(text):
        found = _PATTERN.match(text, position)
        assert found is not None, "the last alternative takes any character"
        assert found.lastgroup is not None
        stop = _stop(text, found.lastgroup, position, found.end())
        kind = _KINDS.get(found.lastgroup)
        if kind is not None:
            tokens.append(Token(kind, text[position:stop], Span(position, stop)))
        position = stop
    return tuple(tokens)


def _stop(text: str, group: str, start: int, stop: int) -> int:
    """Where the token or comment that starts here ends."""
    if group == "comment":
        return _comment_stop(text, start)
    if group == "dollar":
        delimiter = text[start:stop]
        end = text.find(delimiter, stop)
        if end < 0:
            raise ParseError(f"this string is never closed; end it with {delimiter}", span=Span(start, stop))
        return end + len(delimiter)
    if group == "open":
        what, quote = ("name", '"') if text[stop - 1] == '"' else ("string", "'")
        raise ParseError(f"this {what} is never closed; end it with {quote}", span=Span(start, stop))
    return stop


def _comment_stop(text: str, start: int) -> int:
    """The end of a block comment; comments nest."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise ParseError("this comment is never closed; end it with */", span=Span(start, start + 2))


def identifier(token: Token) -> str:
    """The name that a word or quoted token stands for; the case of both is kept."""
    return token.text[1:-1].replace('""', '"') if token.kind == "quoted" else token.text


_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))|''", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def string_value(token: Token) -> str:
    """The text that a '…', E'…' or $$…$$ string stands for."""
    written = token.text
    if written.startswith("'"):
        return written[1:-1].replace("''", "'")
    if written.startswith("$"):
        edge = written.index("$", 1) + 1
        return written[edge:-edge]
    return _ESCAPE.sub(lambda escape: _unescape(escape, token.span), written[2:-1])


def _unescape(escape: re.Match[str], span: Span) -> str:
    four, eight, byte, octal, letter = escape.groups()
    if escape.group() == "''":
        return "'"
    if letter is not None:
        return _LETTERS.get(letter, letter)
    code = int(octal, 8) if octal else int(four or eight or byte, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF or code == 0:
        raise ParseError(f"{escape.group()} is not a character", span=span)
    return chr(code)

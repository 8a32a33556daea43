"""A scanner that knows quotes, comments and brackets: text → tokens, statements of a script, pairs of brackets.

It reads words, strings and comments as DuckDB does, so that both agree on where a statement or an SQL fragment ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from snapdb.errors import ParseError, SnapdbError, Span
from snapdb.types import by_word

_Scanned = Literal["string", "quoted", "parameter", "number", "word", "mark"]


TokenKind = _Scanned | Literal["QUERY", "CONDITION", "EXPRESSION", "SOURCES", "COLUMNS", "STATEMENT", "AMONG"]
"""The kinds in capitals are SQL fragments: a run of tokens folded into one (snapdb.sql.embedded); AMONG is one word."""


class Token(NamedTuple):
    """A piece of a statement, exactly as it was written."""

    kind: TokenKind
    text: str
    span: Span

    @property
    def word(self) -> str:
        """The keyword this may be: an unquoted word or a mark in capitals, else ''."""
        kind, text, _ = self
        return text.upper() if (kind == "word" or kind == "mark") and text.isascii() else ""  # noqa: PLR1714  # hot


_WIDE_SPACE = r"\u00a0\u2000-\u200b\u202f\u205f\u2060\u3000\ufeff"  # exactly what DuckDB skips beyond ASCII


_BEYOND_ASCII = rf"[^\x00-\x7f{_WIDE_SPACE}]"


_WORD_START = rf"[A-Za-z_]|{_BEYOND_ASCII}"


_WORD = rf"(?:{_WORD_START})(?:[A-Za-z0-9_$]|{_BEYOND_ASCII})*+"


_PATTERN = re.compile(
    rf"""
    (?:[\t-\r\x20{_WIDE_SPACE}]++ | --[^\r\n]*+)*+
  (?:
    (?P<comment>/\*)
  | (?P<string>'(?:[^']++|'')*+' | [eE]'(?:[^'\\]++|''|\\.)*+')
  | (?P<quoted>"(?:[^"]++|"")*+")
  | (?P<dollar>\$(?:(?:{_WORD_START})(?:[A-Za-z0-9_]|{_BEYOND_ASCII})*+)?+\$)
  | (?P<open>[eE]?'|")
  | (?P<parameter>\?[0-9]*+ | \$(?:[0-9]++|{_WORD}))
  | (?P<number>0[xX][0-9A-Fa-f_]++ | (?:[0-9][0-9_]*+(?:\.[0-9_]*+)?+|\.[0-9][0-9_]*+)(?:[eE][+-]?[0-9]++)?+)
  | (?P<word>{_WORD})
  | (?P<mark>=> | <= | .)
  | \Z
  )
    """,
    re.VERBOSE | re.DOTALL,
)


_COMMENT_EDGE = re.compile(r"/\*|\*/")


_KINDS: dict[str | None, TokenKind] = by_word(_Scanned)
"""The end of the other groups, a comment or a quote, is not found by the pattern alone."""


_token = tuple.__new__  # a NamedTuple's own constructor takes twice as long, and scripts are long


def scan(text: str) -> tuple[Token, ...]:
    """The tokens of a text, in order. Raises ParseError at the start of a string, name or comment that never ends.

    >>> [token.text for token in scan("SELECT 'it''s' /* no */ AS \\"x\\"")]
    ['SELECT', "'it''s'", 'AS', '"x"']
    """
    return tuple(tokens(text))


def tokens(text: str) -> Iterator[Token]:
    """What `scan` gives, one after another."""
    position, kinds = 0, _KINDS
    while position < len(text):
        for found in _PATTERN.finditer(text, position):
            group = found.lastgroup
            if (kind := kinds.get(group)) is not None:
                yield _token(Token, (kind, found[group], _token(Span, found.span(group))))  # type: ignore[index, arg-type]
                continue
            if group is None:
                return
            start, stop = found.span(group)
            position = _stop(text, group, start, stop)
            if group == "dollar":
                yield Token("string", text[start:position], Span(start, position))
            break  # the pattern goes on behind what it could not see the end of
        else:
            return


def check_characters(text: str) -> None:
    """Raise ParseError at the first character that neither a file nor DuckDB can hold: NUL, half of a pair."""
    if text.isascii() and "\x00" not in text:
        return
    if odd := _UNHELD.search(text):
        what = "NUL" if odd[0] == "\x00" else "half of a character (a lone surrogate)"
        shown = _UNHELD.sub("\ufffd", text)  # the error itself must be printable
        way = "in a string write '…' || chr(0) || '…', or give it as a parameter" if what == "NUL" else "take it out"
        message = f"the text holds {what}, which no statement can hold; {way}"
        raise ParseError(message, span=Span(*odd.span()), text=shown, code="bad-character")


_UNHELD = re.compile("[\x00\ud800-\udfff]")


def _stop(text: str, group: str, start: int, stop: int) -> int:
    """Where the token or comment that starts here ends."""
    if group == "comment":
        return _comment_stop(text, start)
    if group == "dollar":
        delimiter = text[start:stop]
        end = text.find(delimiter, stop)
        if end < 0:
            raise ParseError(
                f"this string is never closed; end it with {delimiter}", span=Span(start, stop), code="unclosed-quote"
            )
        return end + len(delimiter)
    if group == "open":
        what, quote = ("name", '"') if text[stop - 1] == '"' else ("string", "'")
        raise ParseError(
            f"this {what} is never closed; end it with {quote}", span=Span(start, stop), code="unclosed-quote"
        )
    return stop


def _comment_stop(text: str, start: int) -> int:
    """The end of a block comment; comments nest."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise ParseError(
        "this comment is never closed; end it with */", span=Span(start, start + 2), code="unclosed-comment"
    )


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
        raise ParseError(f"{escape.group()} is not a character; write the number of one", span=span, code="bad-escape")
    return chr(code)


OPENERS = {"(": ")", "[": "]", "{": "}"}


CLOSERS = frozenset(OPENERS.values())


def partners(tokens: Sequence[Token]) -> dict[int, int]:
    """The index of the closing bracket for the index of each opening one; ParseError at the first without a partner.

    >>> from snapdb.sql.lexer import scan
    >>> partners(scan("f(a[1])"))
    {3: 5, 1: 6}
    """
    pairs = {}
    open_: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind != "mark":
            continue
        if token.text in OPENERS:
            open_.append(index)
        elif token.text in CLOSERS:
            if not open_:
                raise ParseError(f'this "{token.text}" closes nothing', span=token.span, code="unclosed-bracket")
            opener = tokens[open_[-1]]
            if OPENERS[opener.text] != token.text:
                message = f'this "{opener.text}" is closed by "{token.text}"; expected "{OPENERS[opener.text]}"'
                raise ParseError(message, span=opener.span, code="unclosed-bracket")
            pairs[open_.pop()] = index
    if open_:
        opener = tokens[open_[-1]]
        message = f'this "{opener.text}" is never closed; expected "{OPENERS[opener.text]}"'
        raise ParseError(message, span=opener.span, code="unclosed-bracket")
    return pairs


class Part(NamedTuple):
    """One statement's tokens, before it is parsed; never empty."""

    tokens: tuple[Token, ...]
    ended: bool
    """Whether a semicolon followed."""

    @property
    def span(self) -> Span:
        """From the first token to the last: no semicolon, no comment around it."""
        return Span(self.tokens[0].span.start, self.tokens[-1].span.stop)


def parts(text: str) -> Iterator[Part]:
    """The statements of a script as tokens, one after another; empty ones are skipped."""
    check_characters(text)
    current: list[Token] = []
    depth = 0
    for token in tokens(text):
        kind, mark, _ = token
        if kind == "mark":
            if mark in OPENERS:
                depth += 1
            elif mark in CLOSERS:
                depth = max(depth - 1, 0)  # a stray closer is reported when the statement is parsed
            elif mark == ";" and depth == 0:
                if current:
                    yield Part(tuple(current), ended=True)
                current = []
                continue
        current.append(token)
    if current:
        yield Part(tuple(current), ended=False)


def split(text: str) -> tuple[Span, ...]:
    """Where each statement of a script stands, without its semicolon and the comments around it.

    >>> text = "SELECT ';'; -- nothing\\n; SELECT 2"
    >>> [text[span.start : span.stop] for span in split(text)]
    ["SELECT ';'", 'SELECT 2']
    """
    try:
        return tuple(part.span for part in parts(text))
    except SnapdbError as error:
        raise error.located(text) from None


def is_complete(text: str) -> bool:
    """Whether the last statement is ended by a semicolon outside quotes, comments and brackets.

    >>> is_complete("SELECT ';'"), is_complete("SELECT (1;"), is_complete("SELECT 1; -- done")
    (False, False, True)
    """
    try:
        found = tuple(parts(text))
    except ParseError:
        return False
    return bool(found) and found[-1].ended

"""The statements of a script: text between semicolons that stand outside quotes, comments and brackets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from snapdb.errors import ParseError, SnapdbError, Span
from snapdb.sql.brackets import CLOSERS, OPENERS
from snapdb.sql.tokens import Token, check_characters, tokens


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

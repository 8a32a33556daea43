"""Which bracket closes which."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.errors import ParseError
from snapdb.sql.tokens import Token

OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = frozenset(OPENERS.values())


def partners(tokens: Sequence[Token]) -> dict[int, int]:
    """The index of the closing bracket for the index of each opening one; ParseError at the first without a partner.

    >>> from snapdb.sql.tokens import scan
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

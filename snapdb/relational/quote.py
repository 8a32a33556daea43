"""Names and texts as SQL, so that no name of a user is ever read as code."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["quote", "quote_all", "text_literal"]


def quote(name: str) -> str:
    """An identifier in double quotes.

    >>> quote('od"d')
    '"od""d"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_all(names: Iterable[str]) -> str:
    """Identifiers, comma-separated.

    >>> quote_all(["a", "b c"])
    '"a", "b c"'
    """
    return ", ".join(map(quote, names))


def text_literal(text: str) -> str:
    """A string in single quotes.

    >>> text_literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"

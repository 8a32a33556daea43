"""Names and texts as SQL, so that no name of a user is ever read as code."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

import duckdb

from snapdb.errors import InputError


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


def quote_odd(name: str) -> str:
    """An identifier as a person would write it: in double quotes where it needs them.

    >>> quote_odd("person"), quote_odd("my person"), quote_odd("order")
    ('person', '"my person"', '"order"')
    """
    plain = re.fullmatch(r"[a-z_]\w*", name, re.IGNORECASE | re.ASCII)
    kinds = [kind for _, kind in duckdb.tokenize(name)] if plain else []
    return name if kinds == [duckdb.token_type.identifier] else quote(name)


def text_literal(text: str) -> str:
    """A string in single quotes.

    Raises:
        InputError: it is a path that is not UTF-8, which Python reads as lone surrogates and DuckDB cannot open.

    >>> text_literal("it's")
    "'it''s'"
    """
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        shown = os.fsencode(text).decode(errors="replace")
        raise InputError(f"{shown} is not UTF-8; rename the part with the replaced character", code="not-unicode")
    return "'" + text.replace("'", "''") + "'"

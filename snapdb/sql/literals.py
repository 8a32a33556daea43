"""VALUES of nothing but literals, as programs write them by the ten thousand: known by one regular expression."""

from __future__ import annotations

import re

_SPACE = r"[\t-\r ]*+"
_NUMBER = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:e[+-]?[0-9]++)?+"
_LITERAL = rf"{_SPACE}(?:{_NUMBER}|'(?:[^']++|'')*+'|NULL|TRUE|FALSE){_SPACE}"
_ROW = rf"{_SPACE}\({_LITERAL}(?:,{_LITERAL})*+\){_SPACE}"
_VALUES = re.compile(rf"(VALUES{_ROW})(?:,{_ROW})*+", re.IGNORECASE | re.ASCII)


def first_row(query: str) -> str | None:
    """VALUES with just its first row, where a query is VALUES of numbers, strings, NULL, TRUE and FALSE; else None.

    Such a query names nothing, and its first row has as many columns as all of it.

    >>> first_row("VALUES (1, 'it''s'), (-2.5e3, NULL)"), first_row("VALUES (1), (now())")
    ("VALUES (1, 'it''s')", None)
    """
    found = _VALUES.fullmatch(query)
    return None if found is None else found[1].rstrip()

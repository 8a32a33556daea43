"""Parameters that come as text, from a command line or a notebook: which a statement names, what a value means."""

from __future__ import annotations

import re
from decimal import Decimal

from snapdb.sql.ast_parts import Statement
from snapdb.sql.tokens import scan

Value = int | float | Decimal | bool | str | None

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_WORDS: dict[str, Value] = {"true": True, "false": False, "null": None}


def value_of(text: str) -> Value:
    """What a text means as a parameter: a number, true, false, null or a quoted string as in SQL, else itself.

    Numbers with leading zeros are texts, as ids and postal codes need; dates too, which a query reads as dates.

    >>> value_of("42"), value_of("1.50"), value_of("1e3"), value_of("NULL"), value_of("'42'"), value_of("007")
    (42, Decimal('1.50'), 1000.0, None, '42', '007')
    """
    if found := _NUMBER.fullmatch(text):
        fraction, exponent = found.groups()
        return float(text) if exponent else Decimal(text) if fraction else int(text)
    if _QUOTED.fullmatch(text):
        return text[1:-1].replace("''", "'")
    return _WORDS.get(text.lower(), text)


def marks_of(statement: Statement) -> list[str]:
    """The parameters that a statement names, as they are written, each once.

    >>> from snapdb.sql import parse
    >>> marks_of(parse("SELECT $a, '$b', $a")[0])
    ['$a']
    """
    marks = (token.text for token in scan(statement.text) if token.kind == "parameter")
    return list(dict.fromkeys(marks))

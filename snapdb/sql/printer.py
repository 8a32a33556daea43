"""Functions that print parts of statements: names, strings, numbers, times, and clauses on one or more lines."""

import re
from collections.abc import Iterable
from decimal import Decimal

from snapdb.sql.lexer import scan
from snapdb.sql.queries import NO_NAMES
from snapdb.sql.syntax import RESERVED, Name, SqlFragment, VersionBound

WIDTH = 100
"""The maximum length of a statement that is printed on one line."""

_TAKEN = "AT BOTH DEGREE DRY IF INTERVAL MESSAGE NEW PROPERTY RETAIN SET SNAPSHOT"

_QUOTED = frozenset(_TAKEN.split()) | RESERVED | NO_NAMES
"""Words that must be quoted when used as names, because in some positions they would be parsed as keywords."""

_PLAIN = re.compile(r"[^\W\d]\w*")


def print_name(value: Name) -> str:
    """Print an identifier, in double quotes if it would otherwise be parsed as a keyword.

    >>> from snapdb.errors import Span
    >>> [print_name(Name(text, Span(0, 0))) for text in ("bought", "order", "Order item")]
    ['bought', '"order"', '"Order item"']
    """
    if value.schema:
        return f"{_print_part(value.schema)}.{_print_part(value.last)}"
    return _print_part(value.text)


def _print_part(text: str) -> str:
    """Print an identifier without a schema."""
    if _PLAIN.fullmatch(text) and text.upper() not in _QUOTED:
        return text
    return '"' + text.replace('"', '""') + '"'


def print_string(text: str) -> str:
    """Print a string literal. Only single quotes are escaped, by doubling."""
    return "'" + text.replace("'", "''") + "'"


def print_number(value: float | Decimal) -> str:
    """Print a number as the shortest text that parses to the same value."""
    return repr(value) if isinstance(value, int | float) else str(value)


def print_size(count: int) -> str:
    """Print a number of bytes in the largest unit that represents it exactly.

    >>> print_size(2_000_000_000), print_size(1536), print_size(7)
    ('2GB', '1536B', '7B')
    """
    power = next(power for power in (4, 3, 2, 1, 0) if count % 1000**power == 0)
    return f"{count // 1000**power}{('', 'K', 'M', 'G', 'T')[power]}B"


def print_columns(names: Iterable[Name]) -> str:
    """Print names in parentheses."""
    return f"({', '.join(map(print_name, names))})"


def print_named(keyword: str, value: Name | None) -> str | None:
    """Print a keyword and a name, or return None if there is no name."""
    return None if value is None else f"{keyword} {print_name(value)}"


def print_fragment(keyword: str, fragment: SqlFragment | None) -> str | None:
    """Print a keyword and an SQL fragment as written, or return None if there is no fragment."""
    return None if fragment is None else f"{keyword} {fragment.text}"


def print_message(text: str | None) -> str | None:
    """Print MESSAGE with its text, or return None if there is no message."""
    return None if text is None else f"MESSAGE {print_string(text)}"


def print_at(bound: VersionBound | None) -> str | None:
    """Print AT (…), or return None if there is no bound."""
    return None if bound is None else f"AT ({bound.kind} => {bound.value.text})"


_MOMENT = re.compile(r"(- )?number|(DATE |TIMESTAMP |TIMESTAMPTZ )?string")

_LENGTH = re.compile(r"INTERVAL (string( \w+)?|(- )?number \w+)")


def print_time(fragment: SqlFragment, *, length: bool = False) -> str:
    """Print a time as written, in parentheses if required. With `length`, an INTERVAL does not require them."""
    shape = " ".join(token.word or token.kind for token in scan(fragment.text))
    bare = _MOMENT.fullmatch(shape) or (length and _LENGTH.fullmatch(shape))
    return fragment.text if bare else f"({fragment.text})"


def print_creation(kind: str, named: Name, *, or_replace: bool, if_not_exists: bool) -> str:
    """Print CREATE [OR REPLACE] kind [IF NOT EXISTS] name."""
    return f"CREATE {'OR REPLACE ' * or_replace}{kind} {'IF NOT EXISTS ' * if_not_exists}{print_name(named)}"


def join_clauses(*given: object) -> str:
    """Join clauses with spaces. Values that are not strings are omitted."""
    return " ".join(clause for clause in given if isinstance(clause, str))


def print_statement(*given: object) -> str:
    """Print clauses on one line if they fit, otherwise one per line. Values that are not strings are omitted.

    >>> print_statement("DROP TABLE t", False, "CASCADE")
    'DROP TABLE t CASCADE'
    """
    line = join_clauses(*given)
    if len(line) <= WIDTH and "\n" not in line:
        return line
    return "\n  ".join(clause for clause in given if isinstance(clause, str))

"""Versions, times and lengths in statements, and the time bounds that a condition implies.

Only conditions that DuckDB is certain to interpret the same way are parsed: one comparison of the column with one
literal, or BETWEEN two literals.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from snapdb.plan.fits import SqlType
from snapdb.sql.lexer import Token, scan
from snapdb.types import Period

LAST = 2**63 - 1
_LITERAL_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?", re.ASCII)
_REVERSED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_INTEGER_LIMIT = 2**62
"""Integers of at least this magnitude are left to DuckDB, because bounds and their neighbours must fit in 64 bits."""
_SECOND = 1_000_000
_TIME_TYPES = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
"""The types of event times that are stored in microseconds. Sessions interpret times without a zone as UTC."""


def spelled(time: int) -> str:
    """Format a time as text in UTC.

    >>> spelled(1_790_000_000_000_000)
    '2026-09-21 14:13:20+00:00'
    """
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)).isoformat(sep=" ")
    except OverflowError:
        return str(time)


_MONTH, _DAY = 30, 86_400_000_000


def microseconds(length: Period) -> int:
    """Return a length in microseconds. A month counts as 30 days, and a day as 24 hours."""
    return (length.months * _MONTH + length.days) * _DAY + length.microseconds


class Bounds(NamedTuple):
    """The bounds start ≤ event time < stop, where None means unbounded."""

    start: int | None
    stop: int | None


def time_bounds(condition: str, element: str, column: str, type_: str) -> Bounds | None:
    """Return the bounds that a condition implies for an element's event time, or None if it has another form.

    Args:
        condition: The SQL condition.
        element: The name of the element.
        column: The column of the event time.
        type_: The type of that column.

    >>> time_bounds("bought.day <= 9", "bought", "day", "BIGINT")
    Bounds(start=None, stop=10)
    >>> time_bounds("(ts >= CAST('1970-01-02' AS DATE))", "bought", "ts", "TIMESTAMP")
    Bounds(start=86400000000, stop=None)
    >>> time_bounds("day + 1 > 9", "bought", "day", "BIGINT")
    """
    tokens = _without_brackets(scan(condition))
    names = {(column.lower(),), (element.lower(), column.lower())}
    # The column may be plain (one token) or qualified by the element (three tokens), on either side of the comparison.
    for size in (1, 3):
        if _spelled_name(tokens[:size]) in names:
            return _bounds_after(tokens[size:], type_)
        if _spelled_name(tokens[-size:]) in names and (comparison := _comparison_before(tokens[:-size])) is not None:
            return _bounds_of(_REVERSED[comparison[0]], _literal_time(comparison[1], type_))
    return None


def _bounds_after(tokens: Sequence[Token], type_: str) -> Bounds | None:
    """Return the bounds for the tokens after the column: an operator and a literal, or BETWEEN two literals."""
    words = [token.word for token in tokens]
    if words[:1] == ["BETWEEN"] and words.count("AND") == 1:
        middle = words.index("AND")
        low, high = _literal_time(tokens[1:middle], type_), _literal_time(tokens[middle + 1 :], type_)
        return None if low is None or high is None else Bounds(low, high + 1)
    # The lexer splits >= into two tokens, so longer operators are tried first.
    for size in (2, 1):
        sign = _joined(tokens[:size])
        if sign in _REVERSED:
            return _bounds_of(sign, _literal_time(tokens[size:], type_))
    return None


def _comparison_before(tokens: Sequence[Token]) -> tuple[str, Sequence[Token]] | None:
    """Return the comparison operator at the end of the tokens, and the tokens before it."""
    for size in (2, 1):
        sign = _joined(tokens[-size:])
        if sign in _REVERSED:
            return sign, tokens[:-size]
    return None


def _bounds_of(sign: str, value: int | None) -> Bounds | None:
    if value is None:
        return None
    # Event times are integers, so > t is the same as >= t + 1, and every bound can be half-open.
    start = {">": value + 1, ">=": value, "=": value}.get(sign)
    stop = {"<": value, "<=": value + 1, "=": value + 1}.get(sign)
    return Bounds(start, stop)


def _without_brackets(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens without brackets that enclose all of them."""
    while len(tokens) > 1 and tokens[0].text == "(" and tokens[-1].text == ")" and _is_enclosed(tokens):
        tokens = tokens[1:-1]
    return tokens


def _is_enclosed(tokens: Sequence[Token]) -> bool:
    """Return whether the first and the last bracket match."""
    depth = 0
    for token in tokens[:-1]:
        depth += (token.text == "(") - (token.text == ")")
        if not depth:
            return False
    return True


def _spelled_name(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the case-folded name that the tokens spell, as one part or two parts, or else ()."""
    if any(token.kind not in ("word", "quoted") for token in tokens[::2]) or any(t.text != "." for t in tokens[1::2]):
        return ()
    return tuple(token.identifier.lower() for token in tokens[::2])


def _joined(tokens: Sequence[Token]) -> str:
    return "".join(token.text for token in tokens)


def _literal_time(tokens: Sequence[Token], type_: str) -> int | None:
    """Return a literal in the unit of the column's event times, or None if it is ambiguous or not a literal."""
    tokens = _without_brackets(tokens)
    if SqlType(type_).key_family() == "integer":
        text = _joined(tokens)
        return int(text) if re.fullmatch(r"-?\d{1,19}", text, re.ASCII) and abs(int(text)) < _INTEGER_LIMIT else None
    if type_ not in _TIME_TYPES:
        return None
    match [token.word or token.kind for token in tokens]:
        case ["DATE" | "TIMESTAMP" as kind, "string"]:
            return _literal_moment(tokens[1], kind)
        case ["CAST", "(", "string", "AS", "DATE" | "TIMESTAMP" as kind, ")"]:
            return _literal_moment(tokens[2], kind)
        case ["string", ":", ":", "DATE" | "TIMESTAMP" as kind]:
            return _literal_moment(tokens[0], kind)
        case ["string"]:
            return _literal_moment(tokens[0], "DATE" if type_ == "DATE" else "TIMESTAMP")
    return None


def _literal_moment(token: Token, kind: str) -> int | None:
    """Return a date or time without a zone in microseconds, or None for any other text."""
    text = token.string_value
    if not _LITERAL_MOMENT.fullmatch(text) or (kind == "DATE" and len(text) > len("2026-07-01")):
        return None
    try:
        moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None
    passed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return passed.days * _DAY + passed.seconds * _SECOND + passed.microseconds

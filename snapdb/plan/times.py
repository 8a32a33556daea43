"""Time in statements: versions, moments and lengths, evaluated once, and the bounds that a condition sets.

Of conditions only what DuckDB and this module surely read alike is read: one comparison of the column with one literal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from snapdb.catalog import version_at, version_of_tag
from snapdb.errors import BindError, SnapdbError, Span
from snapdb.plan.fits import key_family
from snapdb.plan.queries import BoundQuery, written
from snapdb.sql.lexer import Token, identifier, scan, string_value
from snapdb.sql.syntax import SqlFragment, VersionBound
from snapdb.types import Period, TimeUnit

if TYPE_CHECKING:
    from snapdb.plan.scope import BindContext


LAST = 2**63 - 1
_WHOLE = re.compile(r"[0-9][0-9_]*")
_DIGITS = re.compile(r"[0-9]{1,18}")
_DATE = r"(?:19|20)[0-9]{2}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2})?"
_LITERAL = re.compile(rf"(?:DATE\s*'({_DATE})'|TIMESTAMP\s*'({_DATE}(?: {_TIME})?)')", re.IGNORECASE)
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_SQL_PARTS = """
    SELECT CAST(datepart('year', i) * 12 + datepart('month', i) AS BIGINT), CAST(datepart('day', i) AS BIGINT),
           CAST(datepart('hour', i) * 3_600_000_000 + datepart('minute', i) * 60_000_000 + datepart('microsecond', i)
                AS BIGINT)
    FROM (SELECT CAST(("""
_LITERAL_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?", re.ASCII)
_REVERSED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_INTEGER_LIMIT = 2**62
"""Integers from here on are left to DuckDB: bounds and their neighbours must fit into 64 bits."""
_SECOND = 1_000_000
_TIME_TYPES = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
"""Of event times that count in microseconds; sessions take times without a zone as UTC."""


def resolve_version(context: BindContext, at: VersionBound) -> int:
    """The version of AT (VERSION => n | TIMESTAMP => t | TAG => 'name').

    Raises:
        BindError: there is no such version or tag.
    """
    try:
        match at.kind:
            case "TIMESTAMP":
                return version_at(context.store.catalog_db, _moment(context, context.asked(at.value)))
            case "TAG":
                return version_of_tag(context.store.catalog_db, _text(context, at.value))
    except SnapdbError as error:
        error.span = error.span or at.value.span
        raise
    head = context.catalog.version
    found = time_value(context, at.value, "integer", "a version is a whole number")
    if not 1 <= found <= head:
        known = f"versions go from 1 to {head}" if head else "nothing was committed yet"
        raise BindError(f"there is no version {found}; {known}", span=at.value.span, code="unknown-version")
    return found


def time_value(context: BindContext, island: SqlFragment, unit: TimeUnit | None, why: str | None = None) -> int:
    """A bound of a window as an integer in the graph's unit."""
    if (plain := _plain(island.text, unit)) is not None:
        return plain
    asked = context.asked(island)
    is_integer = type_of(context, asked) in INTEGERS
    if unit == "integer" and not is_integer:
        why = why or "this graph's event times are integers"
        raise BindError(
            f"{why}: write a bare number, not {type_of(context, asked)}", span=island.span, code="time-kind"
        )
    if unit == "timestamp" and is_integer:
        why = why or "this graph's event times are timestamps"
        raise BindError(
            f"{why}: write TIMESTAMP '2026-01-31 12:00' or DATE '2026-01-31'", span=island.span, code="time-kind"
        )
    return whole(context, asked) if is_integer else _moment(context, asked)


def _plain(text: str, unit: TimeUnit | None) -> int | None:
    """What a literal says by itself, as DuckDB reads it; None where DuckDB is to be asked.

    >>> _plain("DATE '2026-01-31'", "timestamp"), _plain("1 + 2", "integer")
    (1769817600000000, None)
    """
    if unit == "integer":
        return int(text) if _DIGITS.fullmatch(text) else None
    if unit != "timestamp" or (found := _LITERAL.fullmatch(text)) is None:
        return None
    try:
        moment = datetime.fromisoformat(found[1] or found[2])
    except ValueError:
        return None
    return (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def duration(context: BindContext, island: SqlFragment) -> int:
    """An INTERVAL as microseconds; months count 30 days."""
    return number(context, context.asked(island), "SELECT epoch_us(CAST((", ") AS INTERVAL))")


def type_of(context: BindContext, asked: BoundQuery) -> str:
    """The type of an expression, which is not evaluated."""
    with context.describing(asked) as session:
        return session.describe(asked.text, asked.parameters, around=("SELECT (", ")"))[0].type


def whole(context: BindContext, asked: BoundQuery) -> int:
    """An integer expression. It may read tables; it is read once, here."""
    return number(context, _widened(asked), "SELECT CAST((", ") AS HUGEINT)")


def _widened(asked: BoundQuery) -> BoundQuery:
    """Arithmetic of whole numbers in 128 bits: DuckDB's literals are of 32, which 86400000 * 30 overflows."""
    tokens = scan(asked.text)
    if len(tokens) < 2 or any(token.kind not in ("number", "mark") for token in tokens):
        return asked
    wide = [(token.span, f"{token.text}::HUGEINT") for token in tokens if _WHOLE.fullmatch(token.text)]
    changed = written(SqlFragment(asked.text, asked.span), replacements=wide)
    return replace(asked, text=changed.text, pieces=changed.pieces if asked.pieces else ())


def number(context: BindContext, asked: BoundQuery, before: str, after: str) -> int:
    """What our SQL around an expression gives: a 64-bit integer, or an error at the expression's place."""
    value = _value(context, asked, before, after)
    if value is None:
        raise BindError("a finite value is needed here, found NULL or infinity", span=asked.span, code="not-finite")
    if not -(2**63) <= value <= LAST:
        raise BindError(
            "this is out of range; event times and versions are 64-bit integers", span=asked.span, code="not-finite"
        )
    return int(value)


def spelled(time: int) -> str:
    """A moment for a person, in UTC.

    >>> spelled(1_790_000_000_000_000)
    '2026-09-21 14:13:20+00:00'
    """
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)).isoformat(sep=" ")
    except OverflowError:
        return str(time)


def _moment(context: BindContext, asked: BoundQuery) -> int:
    """An expression as microseconds since 1970; what has no zone is UTC."""
    return number(context, asked, "SELECT epoch_us(CAST((", ") AS TIMESTAMPTZ))")


def _text(context: BindContext, island: SqlFragment) -> str:
    value = _value(context, context.asked(island), "SELECT CAST((", ") AS VARCHAR)")
    if value is None:
        raise BindError("a name is needed here, found NULL", span=island.span, code="null-name")
    return str(value)


def _value(context: BindContext, asked: BoundQuery, before: str, after: str) -> Any:
    """What a query gives; what DuckDB finds only while it runs is shown at the expression too."""
    try:
        with context.session(asked) as session:
            return session.wrap(before, asked.text, after, asked.parameters)[0][0]
    except SnapdbError as error:
        error.span = error.span or asked.span
        raise


_MONTH, _DAY = 30, 86_400_000_000


def period(context: BindContext, asked: BoundQuery) -> Period | None:
    """The parts of an INTERVAL expression; None where it is NULL, or nothing, or less than that in a part.

    Raises:
        BindError: DuckDB cannot read it, at its place.
    """
    try:
        with context.session(asked) as session:
            ((months, days, rest),) = session.wrap(_SQL_PARTS, asked.text, ") AS INTERVAL) AS i)", asked.parameters)
    except SnapdbError as error:
        error.span = error.span or asked.span
        raise
    return _positive_period(months, days, rest)


def period_of_text(context: BindContext, text: str, span: Span) -> Period | None:
    """The same of a text such as '36 hours'.

    Raises:
        BindError: it is no length of time, or does not say of what.
    """
    said = text.strip()
    try:
        with context.store.sql_engine.session() as session:
            ((months, days, rest),) = session.rows(f"{_SQL_PARTS}?) AS INTERVAL) AS i)", [said])
    except SnapdbError as error:
        raise BindError(
            f"'{said[:40]}' is no length of time; write one such as '30 minutes' or '2 hours'",
            span=span,
            code="bad-length",
        ) from error
    if said.isdecimal():
        raise BindError(
            f"'{said[:40]}' does not say of what; write a length of time such as '{said[:9]} minutes'",
            span=span,
            code="bad-length",
        )
    return _positive_period(months, days, rest)


def microseconds(length: Period) -> int:
    """A length by the clock; months count 30 days."""
    return (length.months * _MONTH + length.days) * _DAY + length.microseconds


def _positive_period(months: int | None, days: int | None, rest: int | None) -> Period | None:
    if months is None or days is None or rest is None or min(months, days, rest) < 0 or not (months or days or rest):
        return None
    return Period(months, days, rest)


class Bounds(NamedTuple):
    """start ≤ event time < stop; None is unbounded."""

    start: int | None
    stop: int | None


def time_bounds(condition: str, element: str, column: str, type_: str) -> Bounds | None:
    """The bounds that a condition sets to an element's event time; None: it says something else, or maybe so.

    Args:
        column: The event time's column.
        type_: Its type.

    >>> time_bounds("bought.day <= 9", "bought", "day", "BIGINT")
    Bounds(start=None, stop=10)
    >>> time_bounds("(ts >= CAST('1970-01-02' AS DATE))", "bought", "ts", "TIMESTAMP")
    Bounds(start=86400000000, stop=None)
    >>> time_bounds("day + 1 > 9", "bought", "day", "BIGINT")
    """
    tokens = _without_brackets(scan(condition))
    names = {(column.lower(),), (element.lower(), column.lower())}
    for size in (1, 3):
        if _spelled_name(tokens[:size]) in names:
            return _bounds_after(tokens[size:], type_)
        if _spelled_name(tokens[-size:]) in names and (found := _comparison_before(tokens[:-size])) is not None:
            return _bounds_of(_REVERSED[found[0]], _literal_time(found[1], type_))
    return None


def _bounds_after(tokens: Sequence[Token], type_: str) -> Bounds | None:
    """What stands after the column: a sign and a literal, or BETWEEN two of them."""
    words = [token.word for token in tokens]
    if words[:1] == ["BETWEEN"] and words.count("AND") == 1:
        middle = words.index("AND")
        low, high = _literal_time(tokens[1:middle], type_), _literal_time(tokens[middle + 1 :], type_)
        return None if low is None or high is None else Bounds(low, high + 1)
    for size in (2, 1):
        sign = _joined(tokens[:size])
        if sign in _REVERSED:
            return _bounds_of(sign, _literal_time(tokens[size:], type_))
    return None


def _comparison_before(tokens: Sequence[Token]) -> tuple[str, Sequence[Token]] | None:
    """The comparison that some tokens end in, and what stands before it."""
    for size in (2, 1):
        sign = _joined(tokens[-size:])
        if sign in _REVERSED:
            return sign, tokens[:-size]
    return None


def _bounds_of(sign: str, value: int | None) -> Bounds | None:
    if value is None:
        return None
    start = {">": value + 1, ">=": value, "=": value}.get(sign)
    stop = {"<": value, "<=": value + 1, "=": value + 1}.get(sign)
    return Bounds(start, stop)


def _without_brackets(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens without brackets around all of them."""
    while len(tokens) > 1 and tokens[0].text == "(" and tokens[-1].text == ")" and _is_enclosed(tokens):
        tokens = tokens[1:-1]
    return tokens


def _is_enclosed(tokens: Sequence[Token]) -> bool:
    """Whether the first bracket is closed by the last one."""
    depth = 0
    for token in tokens[:-1]:
        depth += (token.text == "(") - (token.text == ")")
        if not depth:
            return False
    return True


def _spelled_name(tokens: Sequence[Token]) -> tuple[str, ...]:
    """The name that tokens spell, case-folded: one word, or two with a dot between; else nothing."""
    if any(token.kind not in ("word", "quoted") for token in tokens[::2]) or any(t.text != "." for t in tokens[1::2]):
        return ()
    return tuple(identifier(token).lower() for token in tokens[::2])


def _joined(tokens: Sequence[Token]) -> str:
    """The text of tokens."""
    return "".join(token.text for token in tokens)


def _literal_time(tokens: Sequence[Token], type_: str) -> int | None:
    """A literal as the column's event times count; None for anything else, and for what DuckDB might read otherwise."""
    tokens = _without_brackets(tokens)
    if key_family(type_) == "integer":
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
    """A date or a moment without a zone, as microseconds; None when it is written in another way, or is none."""
    text = string_value(token)
    if not _LITERAL_MOMENT.fullmatch(text) or (kind == "DATE" and len(text) > len("2026-07-01")):
        return None
    try:
        found = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None
    passed = found - datetime(1970, 1, 1, tzinfo=UTC)
    return passed.days * _DAY + passed.seconds * _SECOND + passed.microseconds

"""Expressions that name a version or a moment, evaluated once."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from snapdb.catalog import version_at, version_of_tag
from snapdb.errors import BindError, SnapdbError, Span
from snapdb.plan.asked import Asked, written
from snapdb.sql.lexer import scan
from snapdb.sql.syntax import Island, VersionBound
from snapdb.types import Period, TimeUnit

if TYPE_CHECKING:
    from snapdb.plan.scope import Context

LAST = 2**63 - 1
_WHOLE = re.compile(r"[0-9][0-9_]*")
_DIGITS = re.compile(r"[0-9]{1,18}")
_DAY = r"(?:19|20)[0-9]{2}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2})?"
_LITERAL = re.compile(rf"(?:DATE\s*'({_DAY})'|TIMESTAMP\s*'({_DAY}(?: {_TIME})?)')", re.IGNORECASE)
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")


def resolve_version(context: Context, at: VersionBound) -> int:
    """The version of AT (VERSION => n | TIMESTAMP => t | TAG => 'name').

    Raises:
        BindError: there is no such version or tag.
    """
    try:
        match at.kind:
            case "TIMESTAMP":
                return version_at(context.ledger, _moment(context, context.asked(at.value)))
            case "TAG":
                return version_of_tag(context.ledger, _text(context, at.value))
    except SnapdbError as error:
        error.span = error.span or at.value.span
        raise
    head = context.catalog.version
    found = time_value(context, at.value, "integer", "a version is a whole number")
    if not 1 <= found <= head:
        known = f"versions go from 1 to {head}" if head else "nothing was committed yet"
        raise BindError(f"there is no version {found}; {known}", span=at.value.span, code="unknown-version")
    return found


def time_value(context: Context, island: Island, unit: TimeUnit | None, why: str | None = None) -> int:
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


def duration(context: Context, island: Island) -> int:
    """An INTERVAL as microseconds; months count 30 days."""
    return number(context, context.asked(island), "SELECT epoch_us(CAST((", ") AS INTERVAL))")


def type_of(context: Context, asked: Asked) -> str:
    """The type of an expression, which is not evaluated."""
    with context.describing(asked) as session:
        return session.describe(asked.text, asked.parameters, around=("SELECT (", ")"))[0].type


def whole(context: Context, asked: Asked) -> int:
    """An integer expression. It may read tables; it is read once, here."""
    return number(context, _widened(asked), "SELECT CAST((", ") AS HUGEINT)")


def _widened(asked: Asked) -> Asked:
    """Arithmetic of whole numbers in 128 bits: DuckDB's literals are of 32, which 86400000 * 30 overflows."""
    tokens = scan(asked.text)
    if len(tokens) < 2 or any(token.kind not in ("number", "mark") for token in tokens):
        return asked
    wide = [(token.span, f"{token.text}::HUGEINT") for token in tokens if _WHOLE.fullmatch(token.text)]
    changed = written(Island(asked.text, asked.span), replacements=wide)
    return replace(asked, text=changed.text, pieces=changed.pieces if asked.pieces else ())


def number(context: Context, asked: Asked, before: str, after: str) -> int:
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


def _moment(context: Context, asked: Asked) -> int:
    """An expression as microseconds since 1970; what has no zone is UTC."""
    return number(context, asked, "SELECT epoch_us(CAST((", ") AS TIMESTAMPTZ))")


def _text(context: Context, island: Island) -> str:
    value = _value(context, context.asked(island), "SELECT CAST((", ") AS VARCHAR)")
    if value is None:
        raise BindError("a name is needed here, found NULL", span=island.span, code="null-name")
    return str(value)


def _value(context: Context, asked: Asked, before: str, after: str) -> Any:
    """What a query gives; what DuckDB finds only while it runs is shown at the expression too."""
    try:
        with context.session(asked) as session:
            return session.wrap(before, asked.text, after, asked.parameters)[0][0]
    except SnapdbError as error:
        error.span = error.span or asked.span
        raise


_PARTS = """
    SELECT CAST(datepart('year', i) * 12 + datepart('month', i) AS BIGINT), CAST(datepart('day', i) AS BIGINT),
           CAST(datepart('hour', i) * 3_600_000_000 + datepart('minute', i) * 60_000_000 + datepart('microsecond', i)
                AS BIGINT)
    FROM (SELECT CAST(("""
_MONTH, _DAY_LENGTH = 30, 86_400_000_000


def period(context: Context, asked: Asked) -> Period | None:
    """The parts of an INTERVAL expression; None where it is NULL, or nothing, or less than that in a part.

    Raises:
        BindError: DuckDB cannot read it, at its place.
    """
    try:
        with context.session(asked) as session:
            ((months, days, rest),) = session.wrap(_PARTS, asked.text, ") AS INTERVAL) AS i)", asked.parameters)
    except SnapdbError as error:
        error.span = error.span or asked.span
        raise
    return _positive(months, days, rest)


def period_of_text(context: Context, text: str, span: Span) -> Period | None:
    """The same of a text such as '36 hours'.

    Raises:
        BindError: it is no length of time, or does not say of what.
    """
    said = text.strip()
    try:
        with context.relational.session() as session:
            ((months, days, rest),) = session.rows(f"{_PARTS}?) AS INTERVAL) AS i)", [said])
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
    return _positive(months, days, rest)


def microseconds(length: Period) -> int:
    """A length by the clock; months count 30 days."""
    return (length.months * _MONTH + length.days) * _DAY_LENGTH + length.microseconds


def _positive(months: int | None, days: int | None, rest: int | None) -> Period | None:
    if months is None or days is None or rest is None or min(months, days, rest) < 0 or not (months or days or rest):
        return None
    return Period(months, days, rest)

"""Lengths of time as the calendar has them: DuckDB reads them, we keep their parts."""

from __future__ import annotations

from snapdb.errors import BindError, SnapdbError, Span
from snapdb.plan.asked import Asked
from snapdb.plan.scope import Context
from snapdb.types import Period

_PARTS = """
    SELECT CAST(datepart('year', i) * 12 + datepart('month', i) AS BIGINT), CAST(datepart('day', i) AS BIGINT),
           CAST(datepart('hour', i) * 3_600_000_000 + datepart('minute', i) * 60_000_000 + datepart('microsecond', i)
                AS BIGINT)
    FROM (SELECT CAST(("""
_MONTH, _DAY = 30, 86_400_000_000


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
    return (length.months * _MONTH + length.days) * _DAY + length.microseconds


def _positive(months: int | None, days: int | None, rest: int | None) -> Period | None:
    if months is None or days is None or rest is None or min(months, days, rest) < 0 or not (months or days or rest):
        return None
    return Period(months, days, rest)

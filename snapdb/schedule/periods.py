"""Lengths of time by the calendar of UTC: a moment and some lengths later, and how many of them have passed."""

from __future__ import annotations

from calendar import monthrange
from datetime import date

from snapdb.types import Period

DAY = 86_400_000_000
"""Microseconds of a day."""

_CYCLE = 146_097
"""Days of 400 years, after which the calendar begins anew."""
_1970 = date(1970, 1, 1).toordinal()
_2000 = date(2000, 1, 1).toordinal() - _1970
_MONTHS = 400 * 12
"""Months of as many years."""


def add(moment: int, period: Period, times: int = 1) -> int:
    """The moment so many periods later: months first, where a day that a month lacks becomes its last; then the rest.

    Counting from one moment does not drift: 31 January and one month is 28 February, and two months are 31 March.

    >>> 31 * DAY == add(0, Period(1, 0, 0))
    True
    >>> [add(30 * DAY, Period(1, 0, 0), times) // DAY for times in (1, 2)]  # from 31 January 1970
    [58, 89]
    """
    days, rest = divmod(moment, DAY)
    if period.months:
        year, month, day = civil(days)
        month += period.months * times - 1
        year, month = year + month // 12, month % 12 + 1
        days = _first(year, month) + min(day, monthrange(2000 + year % 400, month)[1]) - 1
    return (days + period.days * times) * DAY + rest + period.microseconds * times


def steps_until(anchor: int, period: Period, moment: int) -> int:
    """How many of the moments anchor + 1 period, anchor + 2 periods, … are not after a moment, without a walk.

    No part of the period may be below 0, nor may all be 0.

    >>> steps_until(0, Period(0, 0, 1_000_000), 3_999_999)
    3
    """
    if moment <= anchor:
        return 0
    in_cycles = period.months * _CYCLE * DAY + (period.days * DAY + period.microseconds) * _MONTHS
    steps = (moment - anchor) * _MONTHS // in_cycles  # off by few, as months are
    while steps > 0 and add(anchor, period, steps) > moment:
        steps -= 1
    while add(anchor, period, steps + 1) <= moment:
        steps += 1
    return steps


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of the month of a day, counted from 1 January 1970; any year, of which `date` knows 9,999.

    >>> civil(0), civil(-1)
    ((1970, 1, 1), (1969, 12, 31))
    """
    cycles, rest = divmod(days - _2000, _CYCLE)
    found = date.fromordinal(_1970 + _2000 + rest)
    return found.year + 400 * cycles, found.month, found.day


def _first(year: int, month: int) -> int:
    """The first day of a month, counted from 1 January 1970."""
    cycles, within = divmod(year - 2000, 400)
    return date(2000 + within, month, 1).toordinal() - _1970 + cycles * _CYCLE

"""When a schedule fires. Moments are microseconds since 1970 UTC."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count as numbers
from itertools import takewhile
from zoneinfo import ZoneInfo

from snapdb.schedule.cron import cron_count, cron_firings
from snapdb.schedule.periods import DAY, add, steps_until
from snapdb.types import Schedule

_SECOND = 1_000_000
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = (datetime(9999, 1, 1, tzinfo=UTC) - _1970) // timedelta(microseconds=1)
"""Nothing fires from here on: no clock shows it."""


def firings(schedule: Schedule, after: int) -> Iterator[int]:
    """Every firing after a moment, increasing, as it is asked for; it ends where the schedule never fires again.

    >>> from snapdb.types import Period
    >>> steps = firings(Schedule("", None, "UTC", Period(0, 0, 2_000_000), anchor=0), after=5_000_000)
    >>> next(steps), next(steps)
    (6000000, 8000000)
    """
    if schedule.every is None:
        assert schedule.cron is not None
        yield from (second * _SECOND for second in cron_firings(schedule.cron, schedule.zone, after // _SECOND))
        return
    for step in numbers(steps_until(schedule.anchor, schedule.every, after) + 1):
        moment = add(schedule.anchor, schedule.every, step)
        if moment >= _LAST:
            return
        yield moment


def next_firing(schedule: Schedule, after: int) -> int | None:
    """The first firing after a moment; None where there is none any more."""
    return next(firings(schedule, after), None)


def count(schedule: Schedule, after: int, until: int) -> int:
    """How many firings come after a moment and not after another, without going through them."""
    if until <= after:
        return 0
    if schedule.every is None:
        assert schedule.cron is not None
        return cron_count(schedule.cron, schedule.zone, after // _SECOND, until // _SECOND)
    until = min(until, _LAST - 1)
    return steps_until(schedule.anchor, schedule.every, until) - steps_until(schedule.anchor, schedule.every, after)


def newest(schedule: Schedule, after: int, until: int, most: int) -> tuple[int, ...]:
    """The last firings that come after a moment and not after another, increasing, so many at most."""
    until = min(until, _LAST - 1)
    found = count(schedule, after, until)
    if not found:
        return ()
    if schedule.every is not None:
        last = steps_until(schedule.anchor, schedule.every, until)
        return tuple(
            add(schedule.anchor, schedule.every, step) for step in range(last - min(found, most) + 1, last + 1)
        )
    back, wanted = DAY, min(found, most)
    while count(schedule, since := max(after, until - back), until) < wanted:
        back *= 2
    return tuple(deque(takewhile(lambda moment: moment <= until, firings(schedule, since)), maxlen=most))


def stamp(schedule: Schedule, moment: int) -> tuple[str, str]:
    """What {date} and {time} stand for at a moment, by the clocks of the schedule's zone.

    >>> stamp(Schedule("", "0 3 * * *", "Asia/Tokyo", None, anchor=0), 18 * 3_600_000_000)
    ('19700102', '030000')
    """
    shown = (_1970 + timedelta(microseconds=moment)).astimezone(ZoneInfo(schedule.zone))
    return f"{shown:%Y%m%d}", f"{shown:%H%M%S}"

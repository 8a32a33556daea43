"""When a cron line fires in a time zone: cronsim reads the line, and clock changes of the zone are handled here."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_DAY = 86_400
_LAST = 9998
"""The last year that is looked at: `datetime` ends soon after."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """From one moment up to another, in seconds since 1970 UTC. A wall time is a moment plus the offset."""

    start: int
    stop: int
    offset: int
    shown: int
    """The wall time up to which clocks had come before. Those from here to the start's own were skipped (spring);
    those from the start's own to here are shown again (autumn)."""


def _stretches(zone: str, after: int) -> Iterator[_Stretch]:
    """The stretches that stop after a moment, in order and without gaps; a year's end cuts them too.

    >>> berlin = _stretches("Europe/Berlin", 1_806_195_600 - 1)  # 28 March 2027, 01:00 UTC
    >>> [(each.offset, each.shown - each.start - each.offset) for each in (next(berlin), next(berlin))]
    [(3600, 0), (7200, -3600)]
    """
    year = datetime.fromtimestamp(after, UTC).year - 1  # what clocks showed before is known only from then on
    start = _new_year(year)
    offset = _offset(zone, start)
    shown = start + offset
    while year <= _LAST:
        for stop, then in (*_changes(zone, year), (_new_year(year + 1), None)):
            if max(start, after) < stop:
                yield _Stretch(start, stop, offset, shown)
            shown = max(shown, stop + offset)
            start, offset = stop, offset if then is None else then
        year += 1


@lru_cache(maxsize=256)
def _changes(zone: str, year: int) -> tuple[tuple[int, int], ...]:
    """When clocks are set after a year has begun, up to its end: the first second, and the offset from then on."""
    days = range(_new_year(year), _new_year(year + 1) + 1, _DAY)
    offsets = [_offset(zone, day) for day in days]
    pairs = zip(days, offsets, offsets[1:], strict=False)
    return tuple((_set_to(zone, then, day), then) for day, before, then in pairs if before != then)


def _set_to(zone: str, offset: int, day: int) -> int:
    """The first second from a day's beginning to its end at which the offset is this one."""
    within = range(day + 1, day + _DAY + 1)
    return within[bisect_left(within, True, key=lambda second: _offset(zone, second) == offset)]


def _offset(zone: str, moment: int) -> int:
    """By how many seconds clocks are ahead of UTC."""
    ahead = datetime.fromtimestamp(moment, ZoneInfo(zone)).utcoffset()
    assert ahead is not None
    return ahead // timedelta(seconds=1)


def _new_year(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


_1970 = datetime(1970, 1, 1)


def cron_firings(line: str, zone: str, after: int) -> Iterator[int]:
    """Every firing after a moment, increasing; moments are seconds since 1970 UTC. A line without days has none.

    >>> evenings = cron_firings("0 3 * * *", "Asia/Tokyo", 0)
    >>> [next(evenings) / 3600 for _ in range(2)]
    [18.0, 42.0]
    """
    if _read(line) is None:
        return
    last = after
    for stretch in _stretches(zone, after):
        low, high = _walls(line, stretch, after)
        for moment in CronSim(line, _1970 + timedelta(seconds=low - 1)):
            wall = (moment - _1970) // timedelta(seconds=1)
            if wall >= high:
                break
            fires = max(wall - stretch.offset, stretch.start)
            if fires > last:
                yield fires
                last = fires
        else:
            return  # no day of the next 50 years is the line's


def cron_count(line: str, zone: str, after: int, until: int) -> int:
    """How many firings come after a moment and not after another: counted by days, not one by one.

    >>> cron_count("* * * * *", "UTC", 0, 366 * 86_400)
    527040
    """
    times = _read(line)
    if times is None:
        return 0
    found = 0
    for stretch in _stretches(zone, after):
        if stretch.start > until:
            break
        low, high = _walls(line, stretch, after)
        begins = stretch.start + stretch.offset
        if low < begins:  # whatever was skipped comes at once, together with what comes then anyway
            found += _between(times, low, begins + 1) > 0
            low = begins + 1
        found += _between(times, low, max(low, min(high, until + 1 + stretch.offset)))
    return found


def _walls(line: str, stretch: _Stretch, after: int) -> tuple[int, int]:
    """The wall times of a stretch at which the line fires after a moment: from the first on, up to the second."""
    certain = not any(field.startswith("*") for field in line.split()[:2])
    low = stretch.shown if certain else stretch.start + stretch.offset
    if after >= stretch.start:
        low = max(low, after + 1 + stretch.offset)
    return low, stretch.stop + stretch.offset


@lru_cache(maxsize=256)
def _read(line: str) -> CronSim | None:
    """The times that a line names; None where it names a day that none of its months has, such as 31 April."""
    try:
        return CronSim(line, _1970)
    except CronSimError:
        return None


def _between(times: CronSim, low: int, high: int) -> int:
    """How many wall times of a line are from one on and before another."""
    whole = sum(_has(times, day) for day in range(low // _DAY, high // _DAY))
    return whole * len(times.hours) * len(times.minutes) + _in_day(times, high) - _in_day(times, low)


def _in_day(times: CronSim, wall: int) -> int:
    """How many wall times of a line are on the day of this one, and before it."""
    day, second = divmod(wall, _DAY)
    if not _has(times, day):
        return 0
    hour, second = divmod(second, 3600)
    whole = sum(one < hour for one in times.hours) * len(times.minutes)
    return whole + (hour in times.hours) * sum(60 * minute < second for minute in times.minutes)


def _has(times: CronSim, day: int) -> bool:
    """Whether a line has a day, counted from 1 January 1970."""
    found = _1970.date() + timedelta(days=day)
    return found.month in times.months and times.match_day(found)

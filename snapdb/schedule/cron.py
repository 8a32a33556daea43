"""When a cron line fires in a time zone. cronsim reads lines and walks along them; clocks that are set are known here.

They are treated as Debian's cron does, so that what runs once a day runs once on every day:

- A line of certain times (neither its minute nor its hour begins with *) fires once for each time that it names. One
  that clocks skip in spring comes at once after the gap; one that they show twice in autumn comes the first time.
- Any other line follows the clock: it has no firings in a gap, and fires again while clocks show an hour again.

cronsim's own zones do the first, yet lose firings of the second kind where clocks are set by half an hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache

from cronsim import CronSim, CronSimError

from snapdb.schedule.stretches import Stretch, stretches

_1970 = datetime(1970, 1, 1)
_DAY = 86_400


def cron_firings(line: str, zone: str, after: int) -> Iterator[int]:
    """Every firing after a moment, increasing; moments are seconds since 1970 UTC. A line without days has none.

    >>> evenings = cron_firings("0 3 * * *", "Asia/Tokyo", 0)
    >>> [next(evenings) / 3600 for _ in range(2)]
    [18.0, 42.0]
    """
    if _read(line) is None:
        return
    last = after
    for stretch in stretches(zone, after):
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
    for stretch in stretches(zone, after):
        if stretch.start > until:
            break
        low, high = _walls(line, stretch, after)
        begins = stretch.start + stretch.offset
        if low < begins:  # whatever was skipped comes at once, together with what comes then anyway
            found += _between(times, low, begins + 1) > 0
            low = begins + 1
        found += _between(times, low, max(low, min(high, until + 1 + stretch.offset)))
    return found


def _walls(line: str, stretch: Stretch, after: int) -> tuple[int, int]:
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

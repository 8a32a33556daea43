"""A zone's time cut where its clocks are set: within a stretch, clocks are ahead of UTC by the same."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_DAY = 86_400
_LAST = 9998
"""The last year that is looked at: `datetime` ends soon after."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """From one moment up to another, in seconds since 1970 UTC. A wall time is a moment plus the offset."""

    start: int
    stop: int
    offset: int
    shown: int
    """The wall time up to which clocks had come before. Those from here to the start's own were skipped (spring);
    those from the start's own to here are shown again (autumn)."""


def stretches(zone: str, after: int) -> Iterator[Stretch]:
    """The stretches that stop after a moment, in order and without gaps; a year's end cuts them too.

    >>> berlin = stretches("Europe/Berlin", 1_806_195_600 - 1)  # 28 March 2027, 01:00 UTC
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
                yield Stretch(start, stop, offset, shown)
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

"""The fire times of schedules, in microseconds since 1970 UTC, and the decision about which of them run.

cronsim parses cron lines for wall-clock times. This module handles the clock changes of time zones.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count as integers
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from snapdb.schedule.periods import CYCLE, DAY, add
from snapdb.types import CatchUp, Period, Schedule

_DAY = 86_400
_LAST_YEAR = 9998
"""The last year that is examined, because `datetime` ends soon after."""


class _OffsetPeriod(NamedTuple):
    """A period of constant UTC offset, in seconds since 1970 UTC. A wall-clock time is a time plus the offset."""

    start: int
    """The first second of the period."""
    stop: int
    """The first second after the period."""
    offset: int
    """The number of seconds by which clocks are ahead of UTC."""
    shown: int
    """The wall-clock time that clocks had reached before the period. In spring, the wall-clock times between this time
    and the start of the period are skipped. In autumn, the wall-clock times between the start and this time are shown
    again."""


def _offset_periods(zone: str, after: int) -> Iterator[_OffsetPeriod]:
    """Yield the UTC-offset periods that end after a time, in order, without gaps, and split at year ends.

    >>> berlin = _offset_periods("Europe/Berlin", 1_806_195_600 - 1)  # 28 March 2027, 01:00 UTC
    >>> [(each.offset, each.shown - each.start - each.offset) for each in (next(berlin), next(berlin))]
    [(3600, 0), (7200, -3600)]
    """
    # Start a year earlier, so that `shown` covers a change just before `after`.
    year = datetime.fromtimestamp(after, UTC).year - 1
    start = _new_year(year)
    offset = _offset(zone, start)
    shown = start + offset
    while year <= _LAST_YEAR:
        for stop, then in (*_changes(zone, year), (_new_year(year + 1), None)):
            if max(start, after) < stop:
                yield _OffsetPeriod(start, stop, offset, shown)
            shown = max(shown, stop + offset)
            start, offset = stop, offset if then is None else then
        year += 1


@lru_cache(maxsize=256)
def _changes(zone: str, year: int) -> tuple[tuple[int, int], ...]:
    """Return the clock changes of a year, each as its first second and the offset from then on."""
    days = range(_new_year(year), _new_year(year + 1) + 1, _DAY)
    offsets = [_offset(zone, day) for day in days]
    pairs = zip(days, offsets, offsets[1:], strict=False)
    return tuple((_set_to(zone, then, day), then) for day, before, then in pairs if before != then)


def _set_to(zone: str, offset: int, day: int) -> int:
    """Return the first second of a day that has this offset, by binary search."""
    within = range(day + 1, day + _DAY + 1)
    return within[bisect_left(within, True, key=lambda second: _offset(zone, second) == offset)]


def _offset(zone: str, moment: int) -> int:
    """Return the number of seconds by which clocks are ahead of UTC."""
    ahead = datetime.fromtimestamp(moment, ZoneInfo(zone)).utcoffset()
    assert ahead is not None
    return ahead // timedelta(seconds=1)


def _new_year(year: int) -> int:
    """Return the first second of a year in UTC."""
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


_EPOCH = datetime(1970, 1, 1)


def _cron_firings(line: str, zone: str, after: int) -> Iterator[int]:
    """Yield every fire time after a time, in order, in seconds since 1970 UTC; none if the line names no valid day.

    >>> evenings = _cron_firings("0 3 * * *", "Asia/Tokyo", 0)
    >>> [next(evenings) / 3600 for _ in range(2)]
    [18.0, 42.0]
    """
    if _read(line) is None:
        return
    last = after
    for period in _offset_periods(zone, after):
        low, high = _walls(line, period, after)
        for moment in CronSim(line, _EPOCH + timedelta(seconds=low - 1)):
            wall = (moment - _EPOCH) // timedelta(seconds=1)
            if wall >= high:
                break
            # As in Vixie cron, a skipped wall-clock time fires when the skip ends. Several skipped times fire once.
            fires = max(wall - period.offset, period.start)
            if fires > last:
                yield fires
                last = fires
        else:
            return  # the line matches no day in the next 50 years


def _cron_count(line: str, zone: str, after: int, until: int) -> int:
    """Return the number of fire times after one time and up to another, counted by day rather than one by one.

    >>> _cron_count("* * * * *", "UTC", 0, 366 * 86_400)
    527040
    """
    times = _read(line)
    if times is None:
        return 0
    total = 0
    for period in _offset_periods(zone, after):
        if period.start > until:
            break
        low, high = _walls(line, period, after)
        begins = period.start + period.offset
        if low < begins:  # all skipped fire times coincide with the first one after the change
            total += _between(times, low, begins + 1) > 0
            low = begins + 1
        total += _between(times, low, max(low, min(high, until + 1 + period.offset)))
    return total


def _walls(line: str, period: _OffsetPeriod, after: int) -> tuple[int, int]:
    """Return the half-open range of wall-clock times of a period at which the line fires after a time."""
    # As in Vixie cron, a line with a fixed time does not run twice when clocks are set back, but a line with `*` does.
    certain = not any(field.startswith("*") for field in line.split()[:2])
    low = period.shown if certain else period.start + period.offset
    if after >= period.start:
        low = max(low, after + 1 + period.offset)
    return low, period.stop + period.offset


@lru_cache(maxsize=256)
def _read(line: str) -> CronSim | None:
    """Parse a cron line. Return None if it names only days that its months do not have, such as 31 April."""
    try:
        return CronSim(line, _EPOCH)
    except CronSimError:
        return None


def _between(times: CronSim, low: int, high: int) -> int:
    """Return the number of the line's wall-clock times from `low` to before `high`."""
    whole = sum(_has(times, day) for day in range(low // _DAY, high // _DAY))
    return whole * len(times.hours) * len(times.minutes) + _in_day(times, high) - _in_day(times, low)


def _in_day(times: CronSim, wall: int) -> int:
    """Return the number of the line's wall-clock times on the same day that are earlier than `wall`."""
    day, second = divmod(wall, _DAY)
    if not _has(times, day):
        return 0
    hour, second = divmod(second, 3600)
    whole = sum(each < hour for each in times.hours) * len(times.minutes)
    return whole + (hour in times.hours) * sum(60 * minute < second for minute in times.minutes)


def _has(times: CronSim, day: int) -> bool:
    """Return whether a line includes a day, which is counted from 1 January 1970."""
    date = _EPOCH.date() + timedelta(days=day)
    return date.month in times.months and times.match_day(date)


_MONTHS = 400 * 12
"""The number of months in a calendar cycle."""


def _steps_until(anchor: int, period: Period, moment: int) -> int:
    """Count the times anchor + 1 period, anchor + 2 periods, … up to `moment`, without iterating over them.

    No part of the period may be negative, and at least one must be positive.

    >>> _steps_until(0, Period(0, 0, 1_000_000), 3_999_999)
    3
    """
    if moment <= anchor:
        return 0
    in_cycles = period.months * CYCLE * DAY + (period.days * DAY + period.microseconds) * _MONTHS
    # The estimate from the mean length of a month is off by a few steps, which the loops correct.
    steps = (moment - anchor) * _MONTHS // in_cycles
    while steps > 0 and add(anchor, period, steps) > moment:
        steps -= 1
    while add(anchor, period, steps + 1) <= moment:
        steps += 1
    return steps


_FAR = 3 * 3_600_000_000
"""Three hours, as in Vixie cron. If a clock is set back by more, its earlier time was wrong."""


def after_a_jump(schedule: Schedule, considered: int, now: int) -> tuple[int, int | None]:
    """Return how a schedule continues if its fire times are settled up to `considered` and the clock is at `now`.

    If the clock was not set back, nothing changes. Otherwise:

    - If it was set back by at most three hours, a cron line waits until the clock reaches the old time, so no fire time
      runs twice. EVERY also waits if the clock was set back by at most one of its steps.
    - If it was set back by more, the earlier time was wrong, so later fire times no longer count as settled. A cron
      line may run again at times at which it already ran under the wrong clock.
    - If EVERY would have to wait longer than one step, its steps are counted from now, so a task that runs every two
      seconds does not pause for an hour.

    Returns:
        The time up to which fire times are settled from now on, and the new anchor from which steps of EVERY are
        counted, or None if the anchor does not change.
    """
    ahead = considered - now
    if ahead <= 0:
        return considered, None
    if schedule.every is None:
        return (now if ahead > _FAR else considered), None
    if ahead <= min(_FAR, add(now, schedule.every) - now):
        return considered, None
    return now, now


_SECOND = 1_000_000
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = (datetime(9999, 1, 1, tzinfo=UTC) - _1970) // timedelta(microseconds=1)
"""The upper limit of fire times. No clock reaches it."""


def firings(schedule: Schedule, after: int) -> Iterator[int]:
    """Yield every fire time after a time, in order, computed on demand. It ends if the schedule never fires again.

    >>> from snapdb.types import Period
    >>> steps = firings(Schedule("", None, "UTC", Period(0, 0, 2_000_000), anchor=0), after=5_000_000)
    >>> next(steps), next(steps)
    (6000000, 8000000)
    """
    if schedule.every is None:
        assert schedule.cron is not None
        yield from (second * _SECOND for second in _cron_firings(schedule.cron, schedule.zone, after // _SECOND))
        return
    for step in integers(_steps_until(schedule.anchor, schedule.every, after) + 1):
        moment = add(schedule.anchor, schedule.every, step)
        if moment >= _LAST:
            return
        yield moment


def next_firing(schedule: Schedule, after: int) -> int | None:
    """Return the first fire time after a time, or None if there is none."""
    return next(firings(schedule, after), None)


def count(schedule: Schedule, after: int, until: int) -> int:
    """Return the number of fire times after one time and up to another, without iterating over them."""
    if until <= after:
        return 0
    if schedule.every is None:
        assert schedule.cron is not None
        return _cron_count(schedule.cron, schedule.zone, after // _SECOND, until // _SECOND)
    until = min(until, _LAST - 1)
    return _steps_until(schedule.anchor, schedule.every, until) - _steps_until(schedule.anchor, schedule.every, after)


def newest(schedule: Schedule, after: int, until: int, most: int) -> tuple[int, ...]:
    """Return, in order, up to `most` of the last fire times after one time and up to another."""
    until = min(until, _LAST - 1)
    total = count(schedule, after, until)
    if not total:
        return ()
    if schedule.every is not None:
        last = _steps_until(schedule.anchor, schedule.every, until)
        return tuple(
            add(schedule.anchor, schedule.every, step) for step in range(last - min(total, most) + 1, last + 1)
        )
    # Search backwards in doubling steps for a start that leaves enough of them. The cost depends only on `most`.
    back, wanted = DAY, min(total, most)
    while count(schedule, since := max(after, until - back), until) < wanted:
        back *= 2
    return tuple(deque(takewhile(lambda moment: moment <= until, firings(schedule, since)), maxlen=most))


def stamp(schedule: Schedule, moment: int) -> tuple[str, str]:
    """Return the values of {date} and {time} at a time, in the schedule's time zone.

    >>> stamp(Schedule("", "0 3 * * *", "Asia/Tokyo", None, anchor=0), 18 * 3_600_000_000)
    ('19700102', '030000')
    """
    shown = (_1970 + timedelta(microseconds=moment)).astimezone(ZoneInfo(schedule.zone))
    return f"{shown:%Y%m%d}", f"{shown:%H%M%S}"


_LATE = 60_000_000
"""One minute, the greatest delay at which the last fire time still runs under catch_up = none."""
_WHY = "no scheduler was running when it was due"


class _Older(NamedTuple):
    """Missed fire times that are older than the listed ones and too many to list."""

    total: int
    """The number of fire times."""
    first: int
    """The first fire time."""
    last: int
    """The last fire time."""
    why: str
    """The reason why they were missed."""


class Decision(NamedTuple):
    """The decision about all fire times up to a time."""

    run: tuple[int, ...]
    """The fire times that run, oldest first."""
    missed: tuple[tuple[int, str], ...]
    """The fire times that do not run, with reasons, oldest first."""
    older: _Older | None
    """The missed fire times that are older than those in `missed`, or None."""
    considered: int
    """The time up to which this decision covers fire times. It is earlier than now if more fire times run than one
    decision covers. In that case, call `decide` again from this time."""


def decide(
    schedule: Schedule, policy: CatchUp, considered: int, awake_since: int, now: int, *, cap: int = 1000
) -> Decision:
    """Decide which fire times after `considered` and up to `now` run, and which are missed (catch-up).

    Times are microseconds since 1970 UTC. A scheduler has led without a gap since `awake_since`. Later fire times run,
    regardless of their delay. Earlier ones, which came due without a leader, depend on the policy:

    - all: all of them run.
    - last: the last one runs, and the others are missed.
    - none: all are missed. As an exception, the last one runs if its delay is at most a minute and at most half of the
      time to the next fire time, so a restart or a takeover loses nothing.

    One decision runs at most `cap` fire times, and lists at most the last `cap` missed ones. Neither a long absence nor
    a short period makes it slow.
    """
    if now <= considered:
        return Decision((), (), None, considered)
    alone = max(considered, min(awake_since - 1, now))  # the time up to which no scheduler led
    saved: tuple[int, ...] = ()
    missed: tuple[tuple[int, str], ...] = ()
    older = None
    if policy == "all":
        alone = considered
    else:
        saved, missed, older = _missed(schedule, policy, considered, alone, now, cap)
    # Take one more than `cap`, to detect whether another decision is needed.
    due = takewhile(lambda moment: moment <= now, firings(schedule, alone))
    run = (*saved, *islice(due, cap + 1 - len(saved)))
    if len(run) > cap:
        return Decision(run[:cap], missed, older, run[cap - 1])
    return Decision(run, missed, older, now)


def _missed(
    schedule: Schedule, policy: CatchUp, after: int, until: int, now: int, cap: int
) -> tuple[tuple[int, ...], tuple[tuple[int, str], ...], _Older | None]:
    """Return the last fire time if it runs anyway, the last missed ones with reasons, and the older ones."""
    gone = newest(schedule, after, until, cap + 2)
    saved = gone[-1:] if gone and (policy == "last" or _hardly_late(schedule, gone[-1], now)) else ()
    gone = gone[: len(gone) - len(saved)]
    listed = gone[-cap:]
    more = count(schedule, after, until) - len(saved) - len(listed)
    why = f"{_WHY}, and catch_up = last runs only the last one" if policy == "last" else _WHY
    first = next_firing(schedule, after) if more else None
    older = None if first is None else _Older(more, first, gone[-len(listed) - 1], why)
    return saved, tuple((moment, why) for moment in listed), older


def _hardly_late(schedule: Schedule, moment: int, now: int) -> bool:
    """Return whether a fire time is late by at most a minute and at most half of the time to the next fire time."""
    late, following = now - moment, next_firing(schedule, moment)
    return late <= _LATE and (following is None or 2 * late <= following - moment)

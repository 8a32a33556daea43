"""Calendar periods: adding months and days to a time, and the snapshots of a graph that a retention policy keeps."""

from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import date

from snapdb.types import Period, Retention, Rule

DAY = 86_400_000_000
"""The number of microseconds in a day."""

CYCLE = 146_097
"""The number of days in 400 years, after which the Gregorian calendar repeats."""
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_2000 = date(2000, 1, 1).toordinal() - _EPOCH_DAY


def add(moment: int, period: Period, times: int = 1) -> int:
    """Return a time plus some periods: add months, clip to the month's last day, then add days and microseconds.

    Adding several periods to one time does not drift: one month after 31 January is 28 February, and two months
    after 31 January is 31 March.

    >>> 31 * DAY == add(0, Period(1, 0, 0))
    True
    >>> [add(30 * DAY, Period(1, 0, 0), times) // DAY for times in (1, 2)]  # from 31 January 1970
    [58, 89]
    """
    days, rest = divmod(moment, DAY)
    if period.months:
        year, month, day = _civil(days)
        month += period.months * times - 1
        year, month = year + month // 12, month % 12 + 1
        days = _first(year, month) + min(day, monthrange(2000 + year % 400, month)[1]) - 1
    return (days + period.days * times) * DAY + rest + period.microseconds * times


def _civil(days: int) -> tuple[int, int, int]:
    """Convert a day counted from 1 January 1970 to year, month and day. Supports any year; `date` ends with year 9999.

    >>> _civil(0), _civil(-1)
    ((1970, 1, 1), (1969, 12, 31))
    """
    cycles, rest = divmod(days - _2000, CYCLE)
    shown = date.fromordinal(_EPOCH_DAY + _2000 + rest)
    return shown.year + 400 * cycles, shown.month, shown.day


def _first(year: int, month: int) -> int:
    """Return the first day of a month, counted from 1 January 1970."""
    cycles, within = divmod(year - 2000, 400)
    return date(2000 + within, month, 1).toordinal() - _EPOCH_DAY + cycles * CYCLE


_NAMES = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year"}

_BUCKETS: dict[str, Callable[[int], object]] = {
    "daily": lambda day: day,
    "weekly": lambda day: (day + 3) // 7,  # 1 January 1970 was a Thursday, and weeks begin on Monday
    "monthly": lambda day: _civil(day)[:2],
    "yearly": lambda day: _civil(day)[0],
}
"""Rule → the bucket of a day, which is counted from 1 January 1970. A rule keeps one snapshot per bucket."""


def kept(snapshots: Sequence[tuple[int, bool]], retention: Retention, now: int) -> list[str | None]:
    """Return why each snapshot is kept, or None. A snapshot is its time, and whether its version is tagged.

    Times are microseconds since 1970 UTC, days are days in UTC, and weeks are ISO 8601 weeks. A rule applies to the
    snapshots that are younger than its length, where months are calendar months. The rule `all` keeps all of them, and
    each other rule keeps the newest snapshot of each day, week, month or year. If several snapshots have the same time,
    the last one in the sequence counts as the newest. The newest snapshot of all is always kept. If several reasons
    apply, the first one is returned: rules in the order of their declaration, then the tag.

    >>> from snapdb.types import Period
    >>> days = Retention((Rule("daily", Period(0, 7, 0), "7 days"),), keep_tagged=True)
    >>> kept([(0, True), (1, False), (8 * DAY, False), (8 * DAY + 1, False)], days, now=9 * DAY)
    ['its version is tagged', None, None, "the last of its day, daily '7 days'"]
    """
    order = sorted(range(len(snapshots)), key=lambda place: snapshots[place][0])
    reasons: list[str | None] = [None] * len(snapshots)
    for rule in retention.rules:
        since = add(now, rule.length, -1)
        younger = [place for place in order if snapshots[place][0] > since]
        for place in _chosen(rule, younger, snapshots):
            reasons[place] = reasons[place] or _why(rule)
    for place, (_, tagged) in enumerate(snapshots):
        if tagged and retention.keep_tagged:
            reasons[place] = reasons[place] or "its version is tagged"
    for place in order[-1:]:
        reasons[place] = reasons[place] or "the newest"
    return reasons


def _chosen(rule: Rule, younger: list[int], snapshots: Sequence[tuple[int, bool]]) -> list[int]:
    """Return the snapshots that a rule keeps. `younger` are those to which it applies, from oldest to newest."""
    if rule.keeps == "all":
        return younger
    bucket = _BUCKETS[rule.keeps]
    # If a bucket has several snapshots, the dict keeps the last one, which is the newest.
    return list({bucket(snapshots[place][0] // DAY): place for place in younger}.values())


def _why(rule: Rule) -> str:
    """Return the reason why a rule keeps a snapshot, as text."""
    length = f"{rule.keeps} '{rule.text}'"
    return length if rule.keeps == "all" else f"the last of its {_NAMES[rule.keeps]}, {length}"

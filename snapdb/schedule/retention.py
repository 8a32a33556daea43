"""Which snapshots of a graph its retention keeps, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from snapdb.schedule.fire_times import DAY, add, civil
from snapdb.types import Retention, Rule

_NAMES = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year"}

_BUCKETS: dict[str, Callable[[int], object]] = {
    "daily": lambda day: day,
    "weekly": lambda day: (day + 3) // 7,  # 1 January 1970 was a Thursday; weeks begin on Mondays
    "monthly": lambda day: civil(day)[:2],
    "yearly": lambda day: civil(day)[0],
}
"""What the days of a rule's span have in common, of a day counted from 1 January 1970."""


def kept(snapshots: Sequence[tuple[int, bool]], retention: Retention, now: int) -> list[str | None]:
    """Why each snapshot stays, or None where nothing keeps it; each is its moment, and whether its version is tagged.

    Moments are microseconds since 1970 UTC, days those of UTC, weeks those of ISO 8601. A rule sees the snapshots that
    are younger than its length: months count back by the calendar. `all` keeps them, and the others the newest of each
    day, week, month or year; of snapshots of one moment the later in the sequence is newer. The newest of all stays
    whatever the rules say. Of several reasons the first is given: rules as they are written, then the tag.

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
    """Which of the snapshots that a rule sees it keeps; they are given from the oldest to the newest."""
    if rule.keeps == "all":
        return younger
    bucket = _BUCKETS[rule.keeps]
    return list({bucket(snapshots[place][0] // DAY): place for place in younger}.values())


def _why(rule: Rule) -> str:
    length = f"{rule.keeps} '{rule.text}'"
    return length if rule.keeps == "all" else f"the last of its {_NAMES[rule.keeps]}, {length}"

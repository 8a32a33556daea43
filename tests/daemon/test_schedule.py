"""When schedules fire, what becomes of missed firings, and what retention keeps: held against naive models."""

from __future__ import annotations

from bisect import bisect_right
from calendar import monthrange
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapdb.schedule import add, after_a_jump, count, decide, firings, kept, newest, next_firing, stamp
from snapdb.types import CatchUp, Period, Retention, Rule, Schedule
from tests.support.thoroughness import examples, some

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def at(*moment: int) -> int:
    """A moment of UTC, in microseconds since 1970."""
    return int(datetime(*moment, tzinfo=UTC).timestamp()) * SECOND  # type: ignore[misc, arg-type]


def by_line(line: str, zone: str = "UTC") -> Schedule:
    return Schedule(f"USING CRON {line} {zone}", line, zone, None, anchor=0)


def in_steps(period: Period, anchor: int = 0) -> Schedule:
    return Schedule("EVERY …", None, "UTC", period, anchor)


def within(schedule: Schedule, after: int, until: int) -> list[int]:
    return list(takewhile(lambda moment: moment <= until, firings(schedule, after)))


START, STOP = at(2027, 12, 1), at(2029, 1, 1)
"""A leap year and the month before it."""


class Walls:
    """What clocks show in a zone at each minute from START on, field by field."""

    def __init__(self, zone: str) -> None:
        quarters = range(START // SECOND, STOP // SECOND, 900)  # clocks are set at quarters of an hour
        ahead = [datetime.fromtimestamp(quarter, ZoneInfo(zone)).utcoffset() for quarter in quarters]
        offsets = np.repeat([offset // timedelta(minutes=1) for offset in ahead if offset is not None], 15)
        self.moments = np.arange(START, STOP, MINUTE)
        self.shown = self.moments // MINUTE + offsets
        self.fields = Fields(self.shown)


class Fields:
    """Minute, hour, day of the month, month, day of the week (0 is Sunday), and the days that the month has."""

    def __init__(self, shown: np.ndarray) -> None:
        self.minute, self.hour = shown % 60, shown // 60 % 24
        first, last = int(shown.min()) // 1440, int(shown.max()) // 1440
        days = [date(1970, 1, 1) + timedelta(days=day) for day in range(first, last + 1)]
        table = np.array([(d.day, d.month, d.isoweekday() % 7, monthrange(d.year, d.month)[1]) for d in days])
        self.day, self.month, self.weekday, self.length = table[shown // 1440 - first].T


walls = cache(Walls)

LINES: dict[str, Callable[[Fields], np.ndarray]] = {
    "0 3 * * *": lambda f: (f.minute == 0) & (f.hour == 3),
    "30 2 * * *": lambda f: (f.minute == 30) & (f.hour == 2),
    "15,45 1-2 * * *": lambda f: np.isin(f.minute, [15, 45]) & np.isin(f.hour, [1, 2]),
    "10 0 * * MON-FRI": lambda f: (f.minute == 10) & (f.hour == 0) & (f.weekday >= 1) & (f.weekday <= 5),
    "0 0 29 2 *": lambda f: (f.minute == 0) & (f.hour == 0) & (f.day == 29) & (f.month == 2),
    "0 12 31 * *": lambda f: (f.minute == 0) & (f.hour == 12) & (f.day == 31),
    "50 23 L * *": lambda f: (f.minute == 50) & (f.hour == 23) & (f.day == f.length),
    "0 9 13 * 5": lambda f: (f.minute == 0) & (f.hour == 9) & ((f.day == 13) | (f.weekday == 5)),
    "0 9 */2 * 5": lambda f: (f.minute == 0) & (f.hour == 9) & (f.day % 2 == 1) & (f.weekday == 5),
    "0 6 * * FRI#2": lambda f: (f.minute == 0) & (f.hour == 6) & (f.weekday == 5) & ((f.day + 6) // 7 == 2),
    "5 * * * *": lambda f: f.minute == 5,
    "*/20 2 * * *": lambda f: (f.minute % 20 == 0) & (f.hour == 2),
    "*/15 9 * 3,4,10 SUN": lambda f: (
        (f.minute % 15 == 0) & (f.hour == 9) & (f.weekday == 0) & np.isin(f.month, [3, 4, 10])
    ),
    "*/30 0 * * *": lambda f: (f.minute % 30 == 0) & (f.hour == 0),
}
ZONES = ["Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe", "UTC", "America/New_York", "Asia/Kolkata"]


@cache
def oracle(line: str, zone: str) -> list[int]:
    """Every firing of a line from START on, found by looking at every minute of the year.

    Debian's rule: a line whose minute or hour begins with * fires whenever clocks show a time of it, be it twice or not
    at all. Any other line fires once for each of its times: the first time that clocks show it or a later one.
    """
    clock, matches = walls(zone), LINES[line]
    if any(field.startswith("*") for field in line.split()[:2]):
        return [int(moment) for moment in clock.moments[matches(clock.fields)]]
    named = np.arange(clock.shown[0], clock.shown[-1] + 1)
    named = named[matches(Fields(named))]
    furthest = np.maximum.accumulate(clock.shown)
    return [int(moment) for moment in np.unique(clock.moments[np.searchsorted(furthest, named)])]


@pytest.mark.parametrize("zone", some(ZONES, 3))
@pytest.mark.parametrize("line", LINES)
def test_a_line_fires_all_year_at_the_minutes_that_clocks_show(line: str, zone: str) -> None:
    assert within(by_line(line, zone), START - 1, STOP - 1) == oracle(line, zone)


@pytest.mark.parametrize("zone", ZONES)
def test_the_next_firing_and_the_number_of_firings_hold_from_any_moment(zone: str) -> None:
    shown = walls(zone).shown
    changes = walls(zone).moments[1:][np.diff(shown) != 1]
    assert len(changes) == (0 if zone in {"UTC", "Asia/Kolkata"} else 2)
    moments = [int(change) + hours * HOUR + odd for change in changes for hours in range(-4, 4) for odd in (-1, 0, 1)]
    moments += [START, at(2028, 2, 28, 23), at(2028, 12, 29), at(2028, 7, 1) + 1]
    for line in LINES:
        schedule, all_of_them = by_line(line, zone), oracle(line, zone)
        for moment in moments:
            place = bisect_right(all_of_them, moment)
            if place < len(all_of_them):
                assert next_firing(schedule, moment) == all_of_them[place]
            for until in (moment + 2 * HOUR, moment + 40 * DAY):
                if until < STOP - DAY:
                    expected = all_of_them[place : bisect_right(all_of_them, until)]
                    assert count(schedule, moment, until) == len(expected)
        last = at(2028, 12, 1)
        expected = all_of_them[: bisect_right(all_of_them, last)]
        assert newest(schedule, START - 1, last, 50) == tuple(expected[-50:])


def test_every_minute_of_the_days_on_which_clocks_are_set() -> None:
    for zone in ("Europe/Berlin", "Australia/Lord_Howe"):
        moments = walls(zone).moments
        for change in moments[1:][np.diff(walls(zone).shown) != 1]:
            since = int(change) - DAY
            expected = [int(moment) for moment in moments if since < moment <= since + 2 * DAY]
            assert within(by_line("* * * * *", zone), since, since + 2 * DAY) == expected


def test_a_nightly_line_runs_once_in_the_nights_in_which_clocks_are_set() -> None:
    berlin = by_line("30 2 * * *", "Europe/Berlin")
    assert within(berlin, at(2027, 3, 27, 12), at(2027, 3, 29, 12)) == [at(2027, 3, 28, 1), at(2027, 3, 29, 0, 30)]
    assert within(berlin, at(2027, 10, 30, 12), at(2027, 11, 1)) == [at(2027, 10, 31, 0, 30)]
    assert next_firing(berlin, at(2027, 10, 31, 1, 15)) == at(2027, 11, 1, 1, 30)  # clocks show 02:15 again


def test_a_line_that_names_no_day_never_fires() -> None:
    for line in ("0 0 31 4 *", "0 0 30 2 */2"):
        assert next_firing(by_line(line, "Europe/Berlin"), START) is None
        assert count(by_line(line), 0, STOP) == 0
        assert newest(by_line(line), 0, STOP, 3) == ()
    assert within(by_line("0 0 29 2 *"), at(2029, 1, 1), at(2041, 1, 1)) == [
        at(2032, 2, 29),
        at(2036, 2, 29),
        at(2040, 2, 29),
    ]
    assert next_firing(by_line("0 0 29 2 *"), at(2097, 1, 1)) == at(2104, 2, 29)  # 2100 is no leap year


def test_stamps_are_those_of_the_clocks_of_the_zone() -> None:
    assert stamp(by_line("0 3 * * *", "Europe/Berlin"), at(2027, 12, 31, 23, 30)) == ("20280101", "003000")
    assert stamp(in_steps(Period(0, 1, 0)), at(2028, 2, 29, 3) + 5) == ("20280229", "030000")


def naive_add(moment: int, months: int) -> int:
    """Some months later or earlier, by `datetime`."""
    found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)
    year, month = divmod(found.year * 12 + found.month - 1 + months, 12)
    day = min(found.day, monthrange(year, month + 1)[1])
    found = found.replace(year=year, month=month + 1, day=day)
    return (found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


moments = st.integers(at(1975, 1, 1), at(2150, 1, 1))


@given(moments, st.integers(-600, 600))
def test_months_are_added_by_the_calendar(moment: int, months: int) -> None:
    assert add(moment, Period(months, 0, 0)) == naive_add(moment, months)
    assert add(moment, Period(1, 2, 3), months) == naive_add(moment, months) + months * (2 * DAY + 3)


def test_steps_of_months_do_not_drift() -> None:
    monthly = in_steps(Period(1, 0, 0), anchor=at(2028, 1, 31, 6))
    expected = [at(2028, 2, 29, 6), at(2028, 3, 31, 6), at(2028, 4, 30, 6), at(2028, 5, 31, 6)]
    assert list(islice(firings(monthly, 0), 4)) == expected
    assert next_firing(monthly, at(2028, 3, 1)) == expected[1]


def test_steps_are_found_at_once_however_many_have_passed() -> None:
    each_second = in_steps(Period(0, 0, SECOND), anchor=at(2018, 1, 1))
    assert next_firing(each_second, at(2028, 1, 1) + 1) == at(2028, 1, 1) + SECOND
    assert count(each_second, at(2018, 1, 1), at(2028, 1, 1)) == 3652 * 86_400
    assert next_firing(in_steps(Period(0, 0, 1), anchor=0), STOP) == STOP + 1
    assert next_firing(in_steps(Period(12 * 10_000, 0, 0)), START) is None


periods = st.builds(Period, st.integers(0, 30), st.integers(0, 40), st.integers(0, 2 * DAY)).filter(
    lambda period: add(0, period) >= HOUR
)


@given(periods, moments, st.integers(-30 * DAY, 1500 * DAY), st.integers(0, 30 * DAY))
def test_steps_are_those_of_a_walk_from_the_anchor(period: Period, anchor: int, after: int, span: int) -> None:
    after += anchor
    schedule, step = in_steps(period, anchor), 1
    while add(anchor, period, step) <= after and add(0, period) > DAY:
        step += 1
    if add(0, period) <= DAY:  # steps without months, which need no walk
        step = max(0, (after - anchor) // (add(0, period))) + 1
    expected = []
    while (moment := add(anchor, period, step)) <= after + span and len(expected) < 50:
        expected.append(moment)
        step += 1
    assert list(islice(within(schedule, after, after + span), 50)) == expected
    if len(expected) < 50:
        assert count(schedule, after, after + span) == len(expected)
        assert newest(schedule, after, after + span, 3) == tuple(expected[-3:])


schedules = st.sampled_from(
    [
        in_steps(Period(0, 0, 7 * SECOND), anchor=START - 5),
        in_steps(Period(0, 0, 5 * MINUTE), anchor=START),
        in_steps(Period(1, 0, 0), anchor=START),
        by_line("* * * * *"),
        by_line("*/15 1-3 * * *", "Europe/Berlin"),
        by_line("30 2 * * *", "Europe/Berlin"),
        by_line("0 0 31 4 *"),
    ]
)


@settings(max_examples=examples(250))
@given(
    schedules,
    st.sampled_from(["none", "last", "all"]),
    st.integers(0, 3 * DAY),
    st.integers(0, 3 * DAY),
    st.integers(-MINUTE, 90 * MINUTE),
    st.sampled_from([1, 3, 1000]),
)
def test_every_firing_is_run_or_missed_as_the_policy_says(
    schedule: Schedule, policy: CatchUp, since: int, considered: int, spell: int, cap: int
) -> None:
    considered += at(2027, 3, 26)
    awake = considered + spell
    now = max(considered, awake) + min(since, 2 * HOUR if schedule.every else since)
    due = within(schedule, considered, now)
    overdue = [moment for moment in due if moment < awake]
    run, missed = [moment for moment in due if moment >= awake], list(overdue)
    if overdue:
        after = next_firing(schedule, overdue[-1])
        hardly = now - overdue[-1] <= MINUTE and (after is None or now - overdue[-1] <= (after - overdue[-1]) / 2)
        saved = len(overdue) if policy == "all" else int(policy == "last" or hardly)
        run, missed = overdue[len(overdue) - saved :] + run, overdue[: len(overdue) - saved]

    found = decide(schedule, policy, considered, awake, now, cap=cap)
    told = [moment for moment, _ in found.missed]
    assert told == missed[-cap:]
    assert all(why for _, why in found.missed)
    older = missed[:-cap]
    if older:
        assert found.older is not None
        assert (found.older.total, found.older.first, found.older.last) == (len(older), older[0], older[-1])
    else:
        assert found.older is None
    rounds = 0
    done = list(found.run)
    while found.considered < now:
        assert len(found.run) == cap
        assert found.considered == found.run[-1]
        found = decide(schedule, policy, found.considered, awake, now, cap=cap)
        assert not found.missed or policy != "all"
        done += found.run
        rounds += 1
        if rounds == 20:
            break
    assert done == run[: len(done)]
    assert rounds == 20 or done == run


@pytest.mark.parametrize(
    ("policy", "run", "missed"),
    [("last", [4, 5], [1, 2, 3]), ("none", [5], [1, 2, 3, 4]), ("all", [1, 2, 3, 4, 5], [])],
)
def test_of_four_firings_without_a_daemon_and_one_with_it(policy: CatchUp, run: list[int], missed: list[int]) -> None:
    hourly, awake = by_line("0 * * * *"), at(2028, 5, 1, 4) + 30 * MINUTE
    found = decide(hourly, policy, at(2028, 5, 1), awake, at(2028, 5, 1, 5))
    assert list(found.run) == [at(2028, 5, 1, hour) for hour in run]
    assert [moment for moment, _ in found.missed] == [at(2028, 5, 1, hour) for hour in missed]
    assert (found.older, found.considered) == (None, at(2028, 5, 1, 5))


def test_a_year_away_is_told_at_once() -> None:
    now = at(2028, 12, 1)
    for schedule in (in_steps(Period(0, 0, SECOND)), by_line("* * * * *", "Europe/Berlin")):
        step = SECOND if schedule.every else MINUTE
        found = decide(schedule, "none", at(2027, 12, 1), now, now + step)
        assert (len(found.missed), found.run, found.considered) == (1000, (now, now + step), now + step)
        assert found.older is not None
        assert found.older.total == (now - at(2027, 12, 1)) // step - 1 - 1000
    found = decide(by_line("* * * * *"), "all", 0, now, now)
    assert (found.run[0], len(found.run), found.considered) == (MINUTE, 1000, 1000 * MINUTE)


def test_another_daemon_that_takes_over_loses_nothing_and_one_that_comes_late_repeats_nothing() -> None:
    nightly = by_line("0 3 * * *")
    due = at(2028, 5, 1, 3)
    taken_over = decide(nightly, "none", due - DAY, due + 10 * SECOND, due + 10 * SECOND)
    assert (taken_over.run, taken_over.missed) == ((due,), ())
    late = decide(nightly, "none", due - DAY, due + 2 * MINUTE, due + 2 * MINUTE)
    assert (late.run, [moment for moment, _ in late.missed]) == ((), [due])
    quick = decide(in_steps(Period(0, 0, 10 * SECOND), due), "none", due + 1, due + 36 * SECOND, due + 36 * SECOND)
    assert (quick.run, [moment - due for moment, _ in quick.missed]) == ((), [10 * SECOND, 20 * SECOND, 30 * SECOND])
    assert decide(nightly, "all", due, due, due) == decide(nightly, "none", due, due - DAY, due)


def test_a_clock_that_was_set_back_neither_fires_twice_nor_stands_still() -> None:
    nightly, now = by_line("0 3 * * *"), at(2028, 5, 1)
    assert after_a_jump(nightly, now, now)[0] == now
    assert after_a_jump(nightly, now - 5, now)[0] == now - 5
    assert after_a_jump(nightly, now + 3 * HOUR, now)[0] == now + 3 * HOUR
    assert after_a_jump(nightly, now + 3 * HOUR + 1, now)[0] == now
    quick = in_steps(Period(0, 0, 2 * SECOND), anchor=now + DAY)
    waits, anew = after_a_jump(quick, now + 2 * SECOND, now), after_a_jump(quick, now + 2 * SECOND + 1, now)
    assert waits == (now + 2 * SECOND, None)
    assert anew == (now, now)
    assert next_firing(replace(quick, anchor=now), now) == now + 2 * SECOND
    monthly = in_steps(Period(1, 0, 0), anchor=0)
    assert after_a_jump(monthly, now + HOUR, now)[0] == now + HOUR
    assert after_a_jump(monthly, now + DAY, now)[1] == now


LENGTHS = {
    "3 days": Period(0, 3, 0),
    "1 month": Period(1, 0, 0),
    "2 years": Period(24, 0, 0),
    "10 hours": Period(0, 0, 10 * HOUR),
    "1 year": Period(12, 0, 0),
    "1 month 12 hours": Period(1, 0, 12 * HOUR),
    "8000 years": Period(96_000, 0, 0),
}
rules = st.builds(
    lambda keeps, text: Rule(keeps, LENGTHS[text], text),
    st.sampled_from(["all", "daily", "weekly", "monthly", "yearly"]),
    st.sampled_from(sorted(LENGTHS)),
)
snapshots = st.lists(
    st.tuples(
        st.one_of(
            st.integers(at(2026, 1, 1), at(2029, 1, 1)),
            st.integers(-40, 2).map(lambda days: at(2028, 3, 31, 5) + days * DAY),
            st.integers(-60, 5).map(lambda hours: at(2028, 1, 1) + hours * HOUR),
        ),
        st.booleans(),
    ),
    max_size=25,
)


def on(moment: int) -> date:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)).date()


SAME: dict[str, Callable[[date], object]] = {
    "daily": date.isoformat,
    "weekly": lambda day: tuple(day.isocalendar())[:2],
    "monthly": lambda day: f"{day:%Y-%m}",
    "yearly": lambda day: day.year,
}


def reasons(index: int, those: list[tuple[int, bool]], retention: Retention, now: int) -> Iterator[str]:
    """What keeps one snapshot, looking at all the others anew."""
    moment, tagged = those[index]
    newer = [other for place, (other, _) in enumerate(those) if (other, place) > (moment, index)]
    for rule in retention.rules:
        if rule.length.months < 96_000:
            since = naive_add(now, -rule.length.months) - rule.length.days * DAY - rule.length.microseconds
            if moment <= since:
                continue
        if rule.keeps == "all" or not any(
            SAME[rule.keeps](on(other)) == SAME[rule.keeps](on(moment)) for other in newer
        ):
            yield f"{rule.keeps} '{rule.text}'"
    if tagged and retention.keep_tagged:
        yield "its version is tagged"
    if not newer:
        yield "the newest"


@settings(max_examples=examples(300))
@given(
    snapshots,
    st.builds(Retention, st.lists(rules, min_size=1, max_size=5).map(tuple), st.booleans()),
    st.sampled_from([at(2028, 3, 31, 5), at(2028, 1, 1), at(2028, 2, 29, 23, 59), at(2028, 12, 30)]),
)
def test_retention_keeps_what_a_naive_reading_of_each_rule_keeps(
    those: list[tuple[int, bool]], retention: Retention, now: int
) -> None:
    found = kept(those, retention, now)
    assert len(found) == len(those)
    for index, reason in enumerate(found):
        expected = next(reasons(index, those, retention, now), None)
        assert (reason is None) == (expected is None)
        assert reason is None or expected is None or reason.endswith(expected)


def test_retention_over_a_year_of_nightly_snapshots() -> None:
    now = at(2028, 12, 31, 12)
    nights = [at(2027, 12, 31, 3) + night * DAY for night in range(367)]
    days = {"all": "3 days", "daily": "7 days", "weekly": "56 days"}
    rules = tuple(Rule(keeps, Period(0, int(text.split()[0]), 0), text) for keeps, text in days.items())  # type: ignore[arg-type]
    found = kept([(night, night == nights[5]) for night in nights], Retention(rules, keep_tagged=True), now)
    stays = [(on(night).isoformat(), why) for night, why in zip(nights, found, strict=True) if why]
    assert stays[0] == ("2028-01-05", "its version is tagged")
    assert [day for day, why in stays if "weekly" in why] == [
        "2028-11-12",
        "2028-11-19",
        "2028-11-26",
        "2028-12-03",
        "2028-12-10",
        "2028-12-17",
        "2028-12-24",
    ]
    assert [day[8:] for day, why in stays if "daily" in why] == ["25", "26", "27", "28"]
    assert [day[8:] for day, why in stays if "all" in why] == ["29", "30", "31"]

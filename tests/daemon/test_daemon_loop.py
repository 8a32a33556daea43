"""The daemon's loop by a clock that is told what to show: every firing once, or on record as missed."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise, takewhile
from pathlib import Path

import pytest

from snapdb.errors import CommitConflict
from snapdb.schedule import firings
from snapdb.storage.catalog_db.task_rows import LeaderLease, RunRows, TaskRows
from snapdb.types import Schedule, Task, TaskRun
from tests.support.daemon_world import DAY, HOUR, MINUTE, SECOND, World
from tests.support.inside.execute import EndState
from tests.support.inside.storage import Leader, RunLock
from tests.support.thoroughness import SOAK


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


NEW_YEAR = moment("2028-01-01")
"""Of a leap year."""
YEAR = [
    ("0 3 * * *", "UTC"),
    ("30 2 * * *", "Europe/Berlin"),  # a time that spring leaves out and autumn has twice
    ("30 1 * * *", "America/New_York"),
    ("15 2 * * SUN", "Australia/Lord_Howe"),  # half an hour of daylight saving
    ("0 0 29 2 *", "Asia/Kolkata"),
    ("0 12 31 * *", "Europe/Berlin"),
    ("0 */8 * * *", "Europe/London"),
]


def due(schedule: Schedule, after: int, until: int) -> Iterator[int]:
    return takewhile(lambda moment: moment <= until, firings(schedule, after))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "d", NEW_YEAR)


def test_each_firing_of_a_year_runs_once_through_both_changes_of_daylight_saving(world: World) -> None:
    tasks = [world.task(f"t{n}", cron, zone) for n, (cron, zone) in enumerate(YEAR)]
    tasks.append(world.task("every", 13 * HOUR))
    world.until(NEW_YEAR + 366 * DAY)
    world.until(world.clock.now() + MINUTE)
    for task in tasks:
        wanted = list(due(task.schedule, NEW_YEAR, NEW_YEAR + 366 * DAY))
        assert world.states(task) == dict.fromkeys(wanted, "ok"), task.schedule
    by_line = [len(world.states(task)) for task in tasks]
    assert by_line[:2] == [366, 366]
    assert by_line[4] == 1
    assert by_line[5] == 7
    late = [run.started - run.scheduled for run in world.runs() if run.started is not None]
    assert max(late) < 5 * SECOND  # four lanes


@pytest.mark.parametrize("catch_up", ["none", "last", "all"])
def test_outages_at_random_moments_cost_what_the_policy_says(tmp_path: Path, catch_up: str) -> None:
    world, chance = World(tmp_path / "d", NEW_YEAR), random.Random(catch_up)
    tasks = [
        world.task("hourly", "0 * * * *", catch_up=catch_up),
        world.task("often", 7 * MINUTE, catch_up=catch_up, overlap="queue"),
        world.task("daily", "30 2 * * *", "Europe/Berlin", catch_up=catch_up),
    ]
    outages = []
    for _ in range(50 if SOAK else 12):
        world.for_(chance.randrange(3 * HOUR))
        gone = world.clock.now()
        asleep = chance.choice([SECOND, 40 * SECOND, 3 * MINUTE, 5 * HOUR, 2 * DAY])
        if chance.random() < 0.3:
            world.clock.wall += asleep  # a laptop that was shut
        elif chance.random() < 0.3:
            world.clock.go(asleep)  # a process that was stopped
        else:
            world.clock.go(asleep)  # another process that takes over
            world.take_over()
        outages.append((gone, world.clock.now()))
    world.for_(2 * HOUR)
    end = world.clock.now()
    world.for_(MINUTE)
    for task in tasks:
        states = world.states(task)
        wanted = dict.fromkeys(due(task.schedule, NEW_YEAR, end), "ran")
        for gone, back in outages:
            if back - gone <= 10 * SECOND:
                continue
            while_away = [moment for moment in wanted if gone < moment < back]
            spared = len(while_away)
            if catch_up == "last":
                spared = 1
            elif catch_up == "none":
                step = 7 * MINUTE if task.name == "often" else HOUR
                near = while_away and back - while_away[-1] <= min(MINUTE, step // 2)
                spared = 1 if near else 0
            for missed in while_away[: len(while_away) - spared]:
                wanted[missed] = "missed"
        # A run of which the daemon was killed is on record as failed: it began, and is not begun again.
        found = {m: "ran" if state in ("ok", "failed") else state for m, state in states.items() if m <= end}
        assert found == wanted


def test_a_firing_while_the_run_before_goes_is_missed_or_waits(world: World) -> None:
    world.fate = lambda task, run: (25.0, "ok")
    skips = world.task("skips", 10 * SECOND)
    queues = world.task("queues", 10 * SECOND, overlap="queue")
    world.for_(61 * SECOND)
    start = NEW_YEAR + 10 * SECOND
    assert [(run.scheduled - start) // SECOND for run in world.runs(skips) if run.state != "missed"] == [0, 30]
    assert [(run.scheduled - start) // SECOND for run in world.runs(skips) if run.state == "missed"] == [10, 20, 40, 50]
    assert "overlap = skip" in str(world.runs(skips)[1].error)
    assert [(run.started - start) // SECOND for run in world.runs(queues) if run.started] == [0, 25, 50]
    assert [(run.scheduled - start) // SECOND for run in world.runs(queues)] == [0, 10, 20]


def test_a_run_that_fails_is_tried_again_and_firings_meanwhile_are_missed(world: World) -> None:
    def fate(task: Task, run: TaskRun) -> tuple[float, EndState]:
        return 1.0, "ok" if run.attempt == 4 else "failed"

    world.fate = fate
    task = world.task("flaky", 6 * SECOND, retries=5)
    world.for_(19 * SECOND)
    tried = [run for run in world.runs(task) if run.run == 1]
    assert [run.state for run in tried] == ["failed", "failed", "failed", "ok"]
    starts = [run.started or 0 for run in tried]
    assert [(after - before) // SECOND for before, after in pairwise(starts)] == [2, 3, 5]
    assert [run.state for run in world.runs(task) if run.run > 1] == ["missed", "running"]
    assert "was waiting for its next attempt" in str(world.runs(task)[4].error)


def test_attempts_are_made_after_a_takeover_and_never_more_than_allowed(world: World) -> None:
    world.fate = lambda task, run: (5.0, "failed")
    task = world.task("doomed", DAY, retries=3)
    world.until(NEW_YEAR + DAY + 2 * SECOND)
    world.take_over()  # the first attempt dies with its daemon
    world.for_(MINUTE)
    tried = world.runs(task)
    assert [run.attempt for run in tried] == [1, 2, 3, 4]
    assert {run.state for run in tried} == {"failed"}
    assert "its process ended" in str(tried[0].error)
    assert tried[-1].retry is None


def test_more_tasks_than_lanes_run_one_after_the_other_and_none_is_missed(tmp_path: Path) -> None:
    world = World(tmp_path / "d", NEW_YEAR, jobs=2, fate=lambda task, run: (10.0, "ok"))
    tasks = [world.task(f"t{n}", "0 * * * *") for n in range(7)]
    world.for_(2 * HOUR + 5 * MINUTE)
    for task in tasks:
        assert list(world.states(task).values()) == ["ok", "ok"]


def test_a_suspended_task_rests_and_goes_on_from_when_it_is_resumed(world: World) -> None:
    task = world.task("rests", MINUTE)
    world.for_(150 * SECOND)
    with world.catalog_db.writing() as connection:
        TaskRows(connection).alter(task, replace(task, suspended=True), None)
    world.for_(10 * MINUTE)
    with world.catalog_db.writing() as connection:
        TaskRows(connection).alter(replace(task, suspended=True), task, world.clock.now())
    world.loop.step()
    world.for_(MINUTE)
    assert [(run.scheduled - NEW_YEAR) // MINUTE for run in world.runs(task)] == [1, 2, 13]


def test_a_clock_set_forward_misses_what_it_leaves_out(world: World) -> None:
    task = world.task("hourly", "0 * * * *")
    world.for_(90 * MINUTE)
    world.clock.wall += 5 * HOUR
    world.for_(HOUR)
    states = list(world.states(task).values())
    assert states == ["ok", *["missed"] * 5, "ok"]
    assert "clock.jump seconds=18000" in world.said.getvalue()


def test_a_clock_set_back_runs_no_firing_twice(world: World) -> None:
    cron = world.task("cron", "*/10 * * * *")
    steps = world.task("steps", 10 * SECOND)
    world.for_(65 * MINUTE)
    world.clock.wall -= HOUR + 1  # no firing from then on is one from before
    world.for_(30 * MINUTE)
    assert len(world.states(cron)) == 6  # it waits until the clock is where it was
    assert len([run for run in world.runs(steps) if run.started]) == pytest.approx(95 * 6, abs=3)
    world.for_(60 * MINUTE)
    assert set(world.states(cron).values()) == {"ok"}
    assert len(world.states(cron)) == 9
    assert "set back" in world.said.getvalue()


def test_a_clock_set_back_by_hours_runs_no_moment_twice(world: World) -> None:
    task = world.task("hourly", "0 * * * *")
    world.for_(6 * HOUR + MINUTE)
    world.clock.wall -= 5 * HOUR
    world.for_(7 * HOUR)
    assert [(run.scheduled - NEW_YEAR) / HOUR for run in world.runs(task)] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert world.said.getvalue().count("run.start") == 8


def test_a_clock_set_back_keeps_a_hundred_tasks_waiting_no_longer_than_one(world: World) -> None:
    tasks = [world.task(f"t{number}", 10 * SECOND) for number in range(100)]
    world.poll = 1.0
    world.take_over()
    world.fate = lambda task, run: (0.01, "ok")
    world.for_(15 * SECOND)
    world.clock.wall -= HOUR
    world.for_(13 * SECOND)
    assert {sum((run.started or 0) < NEW_YEAR for run in world.runs(task)) for task in tasks} == {1}


def test_a_clock_that_was_days_ahead_stops_nothing(world: World) -> None:
    world.clock.wall += 30 * DAY
    task = world.task("cron", "0 * * * *")
    world.for_(2 * HOUR + MINUTE)
    world.clock.wall -= 30 * DAY
    world.for_(2 * HOUR)
    assert [run.state for run in world.runs(task)] == ["ok"] * 4


def test_after_a_year_of_absence_what_was_missed_is_told_in_bounded_space(world: World) -> None:
    task = world.task("often", SECOND)
    world.for_(3 * SECOND)
    world.clock.go(365 * DAY)
    world.take_over()
    world.for_(3 * SECOND)
    missed = [run for run in world.runs(task) if run.state == "missed"]
    assert len(missed) <= 1010
    assert "31,53" in str(missed[0].error)
    assert [run.state for run in world.runs(task)][-3:] == ["ok"] * 3
    assert len(world.said.getvalue().splitlines()) < 50


def test_a_task_that_is_dropped_or_replaced_while_it_is_due_does_not_run(world: World) -> None:
    task, other = world.task("gone", MINUTE), world.task("stays", MINUTE)
    world.until(NEW_YEAR + 30 * SECOND)
    world.clock.go(30 * SECOND)
    with world.catalog_db.writing() as connection:
        TaskRows(connection).drop(task)
    world.for_(MINUTE + SECOND)
    assert world.runs(task) == []
    assert len(world.runs(other)) == 2


def test_a_run_by_hand_counts_as_the_run_before(world: World) -> None:
    task = world.task("nightly", MINUTE)
    world.poll = 1.0
    world.take_over()
    world.until(NEW_YEAR + 30 * SECOND)
    lock = RunLock(world.db_dir, task.id)
    assert lock.take()
    with world.catalog_db.writing(counted=False) as connection:
        run = RunRows(connection).begin(task, "manual", world.clock.now(), "somebody", world.clock.now())
    world.for_(MINUTE)
    assert [r.state for r in world.runs(task)] == ["running", "missed"]
    with world.catalog_db.writing(counted=False) as connection:
        RunRows(connection).end(run, "ok", world.clock.now())
    lock.release()
    world.for_(MINUTE)
    assert [r.state for r in world.runs(task)] == ["ok", "missed", "ok"]


def test_a_run_by_hand_that_was_killed_is_settled(world: World) -> None:
    task = world.task("nightly", HOUR)
    world.poll = 1.0
    world.take_over()
    with world.catalog_db.writing(counted=False) as connection:
        RunRows(connection).begin(task, "manual", world.clock.now(), "somebody", world.clock.now())
    world.for_(5 * SECOND)
    (run,) = world.runs(task)
    assert (run.state, run.retry) == ("failed", None)
    assert "its process ended" in str(run.error)


def test_a_full_disk_costs_no_firing_more_than_policy_and_is_told_once(world: World) -> None:
    task = world.task("often", 10 * SECOND)
    world.until(NEW_YEAR + 20 * SECOND + SECOND // 4)  # the second run goes on
    world.disk.full = True
    world.for_(4 * MINUTE)
    world.disk.full = False
    world.for_(MINUTE)
    states = world.states(task)
    assert list(states) == list(due(task.schedule, NEW_YEAR, world.clock.now()))
    ran = [moment for moment, state in states.items() if state == "ok"]
    assert ran[:2] == [NEW_YEAR + 10 * SECOND, NEW_YEAR + 20 * SECOND]
    assert len(ran) >= 4
    assert {state for moment, state in states.items() if moment not in ran} <= {"missed", "running"}
    said = world.said.getvalue()
    assert said.count(" ERROR error ") == 1
    assert "disk-full" in said
    assert "error.over" in said


def test_who_was_deposed_begins_nothing(world: World) -> None:
    task = world.task("nightly", MINUTE)
    world.for_(SECOND)
    assert LeaderLease(world.catalog_db).acquire(
        Leader("another", 0, "there", 2, 0), LeaderLease(world.catalog_db).read()
    )
    world.clock.go(MINUTE)
    with pytest.raises(CommitConflict) as lost:
        world.loop.step()
    assert lost.value.code == "leader-lost"
    assert world.runs(task) == []


RUNS = 10_000 if SOAK else 2_000


@pytest.mark.slow
def test_memory_stays_flat_over_thousands_of_runs(world: World) -> None:
    world.fate = lambda task, run: (0.01, "ok")
    world.task("quick", SECOND)

    def held() -> int:
        """Bytes that five hundred more runs leave behind."""
        tracemalloc.start()
        world.for_(500 * SECOND)
        world.lanes.began.clear()
        world.said.seek(0)
        world.said.truncate()
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return held

    world.for_(500 * SECOND + SECOND // 2)
    early = held()
    world.for_((RUNS - 1500) * SECOND)
    late = held()
    assert len(world.runs()) == RUNS
    assert late < early + 50_000
    assert late < 200_000


def test_a_task_that_is_always_behind_leaves_others_their_turns(tmp_path: Path) -> None:
    world = World(tmp_path / "d", NEW_YEAR, jobs=1)
    world.fate = lambda task, run: (3.0 if task.name == "hog" else 0.1, "ok")
    hog, other = world.task("hog", SECOND, overlap="queue"), world.task("other", 10 * SECOND)
    world.for_(5 * MINUTE + SECOND)
    assert [run.state for run in world.runs(other)] == ["ok"] * 29 + ["running"]
    assert max((run.started or 0) - run.scheduled for run in world.runs(other)) <= 4 * SECOND
    behind = [(run.started or 0) - run.scheduled for run in world.runs(hog)]
    assert len(behind) > 90
    assert behind[-1] > 3 * MINUTE
    assert "WARNING run.start task=hog" in world.said.getvalue()
    assert "WARNING run.start task=other" not in world.said.getvalue()


def test_firings_that_came_due_while_the_one_before_had_no_lane_are_told_so(tmp_path: Path) -> None:
    world = World(tmp_path / "d", NEW_YEAR, jobs=1)
    world.fate = lambda task, run: (35.0 if task.name == "long" else 1.0, "ok")
    world.task("long", 10 * SECOND, "UTC")
    short = world.task("short", 10 * SECOND)
    world.for_(48 * SECOND)
    runs = sorted(world.runs(short), key=lambda run: run.scheduled)
    assert [run.state for run in runs] == ["ok", "missed", "missed", "missed"]
    assert runs[1].error == "the previous run had not started yet, and overlap = skip"


def test_a_run_that_outlives_ten_thousand_firings_stays_on_record_and_so_does_the_last_good_one(world: World) -> None:
    task = world.task("long", SECOND)
    with world.catalog_db.writing(counted=False) as connection:
        good = RunRows(connection).begin(task, "manual", 0, "me", 0)
        RunRows(connection).end(good, "ok", 0)
        run = RunRows(connection).begin(task, "schedule", NEW_YEAR, "me", NEW_YEAR)
        for number in range(10_001):
            RunRows(connection).miss(task, NEW_YEAR + SECOND + number, "the run before it still went")
        RunRows(connection).end(run, "failed", NEW_YEAR)
        assert RunRows(connection).last_ok(task.id) is not None
        RunRows(connection).miss(task, NEW_YEAR + HOUR, "the run before it still went")
    kept = [run.run for run in world.runs(task)]
    assert kept == [1, *range(5, 10_005)]


def test_a_task_that_cannot_be_read_is_told_and_goes_on_when_it_can_be(world: World) -> None:
    task = world.task("t", MINUTE)
    world.for_(90 * SECOND)
    rename = "UPDATE tasks SET definition = replace(definition, ?, ?)"
    with world.catalog_db.writing() as connection:
        connection.execute(rename, ('"retries"', '"retires"'))
    world.for_(60 * SECOND)
    assert "is damaged" in world.said.getvalue()
    with world.catalog_db.writing() as connection:
        connection.execute(rename, ('"retires"', '"retries"'))
    world.for_(60 * SECOND)
    assert "error.over" in world.said.getvalue()
    assert len(world.runs(task)) == 3

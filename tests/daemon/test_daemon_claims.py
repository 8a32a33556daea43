"""What the leader writes of firings: each once, and nothing of a task that has moved meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from snapdb.storage.catalog_db.task_rows import LeaderLease, RunRows, TaskRows
from snapdb.types import Task, TaskRun
from tests.support.daemon_world import MINUTE, SECOND, World
from tests.support.inside.daemon import _again, _Claim, _claim, _resume
from tests.support.inside.storage import Leader
from tests.support.refusals import refused

NOW = 100 * MINUTE
LEADER = "daemon 1"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "d", NOW)


def wish(task: Task, was: int = NOW) -> _Claim:
    """A firing was missed, and the one after it runs."""
    return _Claim(task, was, NOW + 2 * MINUTE, ((NOW + MINUTE, "nobody led"),), NOW + 2 * MINUTE)


def by_hand(world: World, task: Task) -> TaskRun:
    with world.catalog_db.writing(counted=False) as connection:
        return RunRows(connection).begin(task, "manual", NOW, "somebody", NOW)


def end(world: World, run: TaskRun, retry: int | None = None) -> None:
    with world.catalog_db.writing(counted=False) as connection:
        RunRows(connection).end(run, "failed", NOW, retry=retry)


def test_a_claim_settles_its_firings_once(world: World) -> None:
    task = world.task("t", MINUTE)
    run = _claim(world.catalog_db, LEADER, wish(task), NOW)
    assert run is not None
    end(world, run)
    with refused("task-moved"):
        _claim(world.catalog_db, LEADER, wish(task), NOW)
    assert [(run.scheduled - NOW) // MINUTE for run in world.runs()] == [1, 2]
    # The clock was set back: the same firings come due again, and are on record.
    _resume(world.catalog_db, LEADER, task, None, NOW)
    assert _claim(world.catalog_db, LEADER, wish(task), NOW) is None
    assert [run.state for run in world.runs()] == ["missed", "failed"]
    with world.catalog_db.reading() as connection:
        assert TaskRows(connection).considered() == {task.id: NOW + 2 * MINUTE}


@pytest.mark.parametrize(
    ("moved", "code"),
    [
        (lambda world, task: world.take_over(), "leader-lost"),
        (by_hand, "task-moved"),
        (lambda world, task: end(world, by_hand(world, task), NOW), "task-moved"),
    ],
    ids=["another leads", "a run by hand goes on", "a run waits"],
)
def test_a_claim_is_refused_whole_where_something_moved(
    world: World, moved: Callable[[World, Task], object], code: str
) -> None:
    task = world.task("t", MINUTE)
    moved(world, task)
    before = world.runs()
    with refused(code):
        _claim(world.catalog_db, LEADER, wish(task), NOW)
    assert world.runs() == before
    with world.catalog_db.reading() as connection:
        assert TaskRows(connection).considered() == {task.id: NOW}


def test_a_claim_is_refused_where_its_task_is_another_now(world: World) -> None:
    task = world.task("t", MINUTE)
    with world.catalog_db.writing() as connection:
        TaskRows(connection).alter(task, replace(task, retries=9), None)
    with refused("task-moved"):
        _claim(world.catalog_db, LEADER, wish(task), NOW)
    with refused("task-moved"):
        _resume(world.catalog_db, LEADER, task, None, NOW)
    with world.catalog_db.writing() as connection:
        TaskRows(connection).drop(task)
    with refused("task-moved"):
        _claim(world.catalog_db, LEADER, wish(task), NOW)
    assert world.runs() == []


def test_an_attempt_is_made_once_and_not_beside_another_run(world: World) -> None:
    task = world.task("t", MINUTE)
    first = _claim(world.catalog_db, LEADER, wish(task), NOW)
    assert first is not None
    end(world, first, NOW + SECOND)
    hand = by_hand(world, task)
    with refused("task-moved"):
        _again(world.catalog_db, LEADER, task, first, NOW)
    end(world, hand)
    second = _again(world.catalog_db, LEADER, task, first, NOW)
    assert (second.run, second.attempt, second.version) == (first.run, 2, first.version)
    end(world, second, NOW + SECOND)
    with refused("run-lost"):
        _again(world.catalog_db, LEADER, task, first, NOW)
    world.take_over()
    with refused("leader-lost"):
        _again(world.catalog_db, LEADER, task, second, NOW)
    assert [(run.run, run.attempt) for run in world.runs()] == [(1, 1), (2, 1), (2, 2), (3, 1)]


def test_no_attempt_is_made_of_a_task_that_was_replaced(world: World) -> None:
    task = world.task("t", MINUTE)
    first = _claim(world.catalog_db, LEADER, wish(task), NOW)
    assert first is not None
    end(world, first, NOW + SECOND)
    with world.catalog_db.writing() as connection:
        TaskRows(connection).put(replace(task, body="SELECT 2", created=NOW + SECOND), task)
    with refused("run-lost"):
        _again(world.catalog_db, LEADER, task, first, NOW)


def test_how_a_run_ended_is_said_once_and_by_who_has_it(world: World) -> None:
    task = world.task("t", MINUTE)
    run = _claim(world.catalog_db, LEADER, wish(task), NOW)
    assert run is not None
    with refused("run-lost"):
        end(world, replace(run, holder="another"))
    end(world, run)
    with refused("run-lost"):
        end(world, run)


def test_who_leads_is_replaced_only_where_nothing_was_heard_of_them(world: World) -> None:
    me, silent = Leader("me", 0, "here", 1, NOW), LeaderLease(world.catalog_db).read()
    assert not LeaderLease(world.catalog_db).acquire(me, None)
    assert LeaderLease(world.catalog_db).heartbeat(LEADER)
    assert not LeaderLease(world.catalog_db).acquire(me, silent)
    assert LeaderLease(world.catalog_db).heartbeat(LEADER)
    assert LeaderLease(world.catalog_db).acquire(me, LeaderLease(world.catalog_db).read())
    assert not LeaderLease(world.catalog_db).heartbeat(LEADER)
    assert not LeaderLease(world.catalog_db).acquire(Leader("other", 0, "here", 2, NOW), silent)

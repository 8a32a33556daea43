"""Tasks in SQL: what is kept of them, what is told of their runs, and what races, crashes and damage leave."""

from __future__ import annotations

import os
import random
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import snapdb
from snapdb import Database
from snapdb.errors import SnapdbError
from snapdb.sql import parse
from snapdb.storage.catalog_db.task_rows import LeaderLease, RunRows, TaskRows
from snapdb.types import Period, Task, TaskRun
from tests.support.checks import problems, spoil
from tests.support.crashing import crash_everywhere, script
from tests.support.inside import catalog_db_of, db_dir_of
from tests.support.inside.cli import _question
from tests.support.inside.plan import AlterTaskPlan, CreateTaskPlan, DropPlan
from tests.support.inside.storage import Leader, RunLock
from tests.support.plans import planned
from tests.support.refusals import refused
from tests.support.thoroughness import SOAK
from tests.support.waiting import PATIENCE

SECOND, HOUR = 1_000_000, 3_600_000_000
NOON = 1_795_953_600_000_000
"""In November 2026."""
NIGHTLY = "CREATE TASK nightly SCHEDULE 'USING CRON 0 3 * * * Europe/Berlin' WITH (retries = 2) AS VACUUM"
OFTEN = "CREATE TASK often SCHEDULE EVERY INTERVAL '2 seconds' AS SELECT 1"
TIMES = 20 if SOAK else 1


@pytest.fixture
def own(db: Database) -> Database:
    """Two tasks."""
    db.script(f"{NIGHTLY}; {OFTEN}")
    return db


def task(db: Database, name: str = "nightly") -> Task:
    """The task as the catalog has it."""
    with db.reading() as engine:
        return engine.bind_context.catalog.task(name)


def write(db: Database, act: Callable[[sqlite3.Connection], Any]) -> Any:
    """What an action gives that a daemon would do."""
    with catalog_db_of(db).writing(counted=False) as connection:
        return act(connection)


def told(db: Database, query: str) -> list[dict[str, Any]]:
    """Rows by their columns."""
    rows: list[dict[str, Any]] = db.execute(query).arrow().to_pylist()
    return rows


def at(moment: int) -> datetime:
    """A moment as lists tell it."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)


def some_runs(db: Database) -> TaskRun:
    """Five runs, in an order that is not that of the rows: the one that is given goes on."""
    nightly, often = task(db), task(db, "often")

    def record(connection: sqlite3.Connection) -> TaskRun:
        runs = RunRows(connection)
        first = runs.begin(nightly, "schedule", NOON, "me", NOON + SECOND)
        runs.end(first, "failed", NOON + 2 * SECOND, error="no graph g", log="1 VACUUM\n", retry=NOON + HOUR)
        begin = runs.begin(often, "manual", NOON + 3 * SECOND, "her", NOON + 3 * SECOND)
        runs.end(begin, "ok", NOON + 4_500_000, rows=7, bytes=900)
        (waits,) = runs.waiting()
        again = runs.retry(waits, "me", NOON + 5 * SECOND)
        runs.end(again, "timeout", NOON + 6 * SECOND, error="stopped after its timeout of 1 second")
        runs.miss(often, NOON + 7 * SECOND, "the run before went on")
        return runs.begin(nightly, "schedule", NOON + 8 * SECOND, "me", NOON + 9 * SECOND)

    found: TaskRun = write(db, record)
    return found


def test_a_task_is_kept_as_it_was_said(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNAPDB_AUTHOR", "ann")
    before = datetime.now(UTC)
    result = db.execute(
        "CREATE TASK Often SCHEDULE EVERY INTERVAL '1 month 2 days 3 hours' WHEN (1 > 0) AS $x$ VACUUM; $x$"
    )
    kept = task(db, "oFTEN")
    assert (kept.name, kept.body, kept.condition) == ("Often", "VACUUM;", "1 > 0")
    assert (kept.folder, kept.author) == (str(tmp_path), "ann")
    assert kept.schedule.every == Period(1, 2, 3 * HOUR)
    assert before <= at(kept.created) <= datetime.now(UTC)
    assert kept.schedule.anchor == kept.created - kept.created % SECOND
    (shown,) = told(db, "SHOW TASKS")
    assert shown["next_run"] > before + timedelta(days=30)
    assert str(result.message) == (
        f"task Often: EVERY INTERVAL '1 month 2 days 3 hours'; next run at {shown['next_run']:%Y-%m-%d %H:%M:%S}"
        "+00:00, "
        f"but no scheduler is running; run: snapdb schedule run {db.path}"
    )


def test_a_folder_that_is_gone_is_told(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with refused("cannot-read"):
        db.execute(OFTEN)


def test_runs_are_listed_by_when_they_began_an_attempt_a_row(own: Database) -> None:
    some_runs(own)
    shown = own.execute("SHOW TASK RUNS")
    assert shown.columns == [
        "task",
        "run",
        "state",
        "scheduled",
        "error",
        "rows",
        "bytes",
        "started",
        "ended",
        "notified",
    ]
    assert [row[:3] for row in shown.fetchall()] == [
        ("nightly", 1, "failed"),
        ("often", 1, "ok"),
        ("nightly", 1, "timeout"),
        ("often", 2, "missed"),
        ("nightly", 2, "running"),
    ]
    rows = told(own, "SELECT * FROM snapdb.task_runs WHERE task = 'nightly' AND run = 1 ORDER BY attempt")
    assert [(r["attempt"], r["cause"], r["seconds"], r["retry_at"], r["log"], r["published"]) for r in rows] == [
        (1, "schedule", 1.0, None, "1 VACUUM\n", []),
        (2, "schedule", 1.0, None, "", []),
    ]
    assert [(r["scheduled"], r["started"], r["error"]) for r in rows] == [
        (at(NOON), at(NOON + SECOND), "no graph g"),
        (at(NOON), at(NOON + 5 * SECOND), "stopped after its timeout of 1 second"),
    ]
    assert own.execute("SHOW TASK RUNS OF Often").fetchall() == [
        ("often", 1, "ok", at(NOON + 3 * SECOND), None, 7, 900, at(NOON + 3 * SECOND), at(NOON + 4.5 * SECOND), None),
        ("often", 2, "missed", at(NOON + 7 * SECOND), "the run before went on", 0, 0, None, None, None),
    ]
    assert len(told(own, "SHOW TASK RUNS LIKE 'OF%'")) == 2


def test_show_tasks_tells_how_each_fares(own: Database) -> None:
    some_runs(own)
    shown = own.execute("SHOW TASKS")
    names = ["name", "state", "next_run", "last_state", "last_run", "schedule", "runs", "created", "notify"]
    assert shown.columns == names
    found = {row[0]: (row[1], row[4], row[3], row[6]) for row in shown.fetchall()}
    assert found == {
        "nightly": ("running", at(NOON + 9 * SECOND), "running", 2),
        "often": ("active", at(NOON + 7 * SECOND), "missed", 2),
    }
    own.execute("ALTER TASK nightly SUSPEND")
    rows = told(own, "SELECT state, suspended, next_run, last_error FROM snapdb.tasks")
    assert [tuple(row.values())[:2] for row in rows] == [("running", True), ("active", False)]
    assert rows[0]["next_run"] is None
    assert rows[1]["last_error"] == "the run before went on"


def test_a_schedule_waits_for_the_clock_that_was_set_back(own: Database) -> None:
    ahead = task(own, "often").created + 10 * HOUR
    write(own, lambda connection: connection.execute("UPDATE tasks SET considered = ?", (ahead,)))
    rows = {row["name"]: row["next_run"] for row in told(own, "SHOW TASKS")}
    assert at(ahead) < rows["often"] <= at(ahead + 2 * SECOND)


def test_describe_tells_when_it_runs_how_it_fared_and_who_fires_it(own: Database) -> None:
    found = dict(own.execute("DESCRIBE TASK nightly").fetchall())
    nobody = f"no scheduler is running; run: snapdb schedule run {own.path}"
    assert list(found) == [
        "schedule",
        "zone",
        "when",
        "timeout",
        "retries",
        "overlap",
        "catch_up",
        "notify",
        "folder",
        "statements",
        "created",
        "state",
        "next_runs",
        "runs",
        "last_run",
        "last_error",
        "daemon",
    ]
    assert (found["schedule"], found["retries"]) == ("USING CRON 0 3 * * * Europe/Berlin", "2")
    assert (found["zone"], found["when"]) == ("Europe/Berlin", None)
    assert (found["statements"], found["state"], found["runs"], found["last_run"]) == ("VACUUM", "active", "0", None)
    coming = [datetime.fromisoformat(text) for text in found["next_runs"].split(", ")]
    assert coming == sorted(coming)
    assert len(coming) == 3
    assert found["daemon"] == nobody
    goes_on = some_runs(own)
    assert LeaderLease(catalog_db_of(own)).acquire(Leader("me", 0, socket.gethostname(), os.getpid(), NOON), None)
    own.execute("ALTER TASK nightly SUSPEND")
    found = dict(own.execute("DESCRIBE nightly").fetchall())
    assert (found["state"], found["next_runs"], found["runs"]) == ("running, and suspended", None, "2")
    assert found["last_run"] == "running, 2026-11-29 12:00:09+00:00"
    assert found["daemon"] == f"pid {os.getpid()} on {socket.gethostname()} since 2026-11-29 12:00:00+00:00"
    write(
        own,
        lambda connection: RunRows(connection).end(goes_on, "failed", NOON + HOUR, error="x", retry=NOON + 2 * HOUR),
    )
    found = dict(own.execute("DESCRIBE nightly").fetchall())
    again = "failed, 2026-11-29 12:00:09+00:00; next attempt at 2026-11-29 14:00:00+00:00"
    assert (found["last_run"], found["last_error"]) == (again, "x")


def test_a_daemon_that_was_killed_is_told_as_gone(own: Database) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(PATIENCE)
    assert LeaderLease(catalog_db_of(own)).acquire(Leader("me", 0, socket.gethostname(), gone.pid, NOON), None)
    found = dict(own.execute("DESCRIBE TASK often").fetchall())
    assert found["daemon"].startswith(
        f"pid {gone.pid} on {socket.gethostname()} ended without releasing its lease; no scheduler is running"
    )


def test_a_replaced_task_keeps_its_runs_and_begins_anew(own: Database) -> None:
    goes_on = some_runs(own)
    write(
        own,
        lambda connection: RunRows(connection).end(goes_on, "failed", NOON + HOUR, error="x", retry=NOON + 2 * HOUR),
    )
    old = task(own)
    own.execute("ALTER TASK nightly SUSPEND")
    own.execute("CREATE OR REPLACE TASK NIGHTLY SCHEDULE EVERY INTERVAL '1 hour' AS CHECK DATABASE")
    new = task(own)
    assert (new.id, new.name, new.retries, new.suspended) == (old.id, "NIGHTLY", 0, False)
    with catalog_db_of(own).reading() as connection:
        assert RunRows(connection).waiting() == [], "an attempt would go on in the midst of other statements"
        assert TaskRows(connection).considered()[new.id] == new.created
    assert len(told(own, "SHOW TASK RUNS OF nightly")) == 3


def test_a_task_that_was_dropped_leaves_its_runs(own: Database) -> None:
    some_runs(own)
    before = own.execute("SHOW TASK RUNS OF nightly").fetchall()
    assert str(own.execute("DROP TASK nightly").message) == "task nightly dropped; its run history is kept"
    assert own.execute("SHOW TASK RUNS OF Nightly").fetchall() == before
    own.execute(NIGHTLY)
    assert told(own, "SHOW TASKS LIKE 'nightly'")[0]["runs"] == 0, "they are those of another"
    with refused("unknown-task", '"night"', at="night"):
        own.execute("SHOW TASK RUNS OF night")


def test_what_came_due_while_it_was_suspended_is_settled_when_it_goes_on(own: Database) -> None:
    often = task(own, "often")
    own.script("ALTER TASK often SUSPEND; ALTER TASK often SET (overlap = queue)")
    with catalog_db_of(own).reading() as connection:
        assert TaskRows(connection).considered()[often.id] == often.created
    own.execute("ALTER TASK often RESUME")
    with catalog_db_of(own).reading() as connection:
        assert TaskRows(connection).considered()[often.id] > often.created


def test_a_lost_race_changes_nothing(own: Database) -> None:
    with snapdb.connect(own.path) as other:
        old = task(other)
        changed = replace(old, retries=9)
        alter = planned(other, lambda e: AlterTaskPlan(old, changed, None, "retries set"))
        again = planned(other, lambda e: CreateTaskPlan(changed, old))
        create = planned(other, lambda e: CreateTaskPlan(replace(old, name="NEW"), None))
        drop = planned(other, lambda e: DropPlan(old, 0))
        own.execute("CREATE TASK new SCHEDULE EVERY INTERVAL '1 day' AS VACUUM")
        own.execute("ALTER TASK nightly SET (retries = 4)")
        for late in (alter, again, create):
            with refused("task-moved") as lost:
                late()
            assert lost.value.code == "task-moved"
        assert task(own).retries == 4
        own.execute("DROP TASK nightly")
        with refused("task-moved"):
            drop()


def test_tasks_are_made_in_no_transaction_and_in_nothing_that_is_read_only(own: Database) -> None:
    statements = ("ALTER TASK often SUSPEND", "DROP TASK often", "EXECUTE TASK often", OFTEN.replace("often", "more"))
    own.execute("BEGIN")
    assert len(told(own, "SHOW TASKS")) == 2
    for statement in statements:
        with refused("not-in-transaction"):
            own.execute(statement)
        own.script("ROLLBACK; BEGIN")
    own.execute("ROLLBACK")
    with snapdb.connect(own.path, read_only=True) as other:
        assert other.names()["tasks"] == ["nightly", "often"]
        assert dict(other.execute("DESCRIBE TASK often").fetchall())["state"] == "active"
        for statement in statements:
            with refused("read-only"):
                other.execute(statement)


def test_dropping_a_task_is_asked_about(own: Database) -> None:
    assert _question(own, parse("DROP TASK often")[0]) == "drop task often?"
    assert _question(own, parse("DROP TASK IF EXISTS other")[0]) is None


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE TASK often SCHEDULE EVERY INTERVAL '1 day' AS VACUUM",
        "ALTER TASK often SUSPEND",
        "DROP TASK often",
    ],
)
def test_a_crash_leaves_the_old_or_the_new_task(own: Database, tmp_path: Path, statement: str) -> None:
    own.close()
    assert crash_everywhere(own.path, tmp_path / "copy.snapdb", script(statement)) > 0


def test_locks_of_runs_are_in_nobodys_way(own: Database) -> None:
    lock = RunLock(db_dir_of(own), task(own).id)
    assert lock.take()
    assert told(own, "VACUUM RETAIN INTERVAL '0 seconds'") == []
    assert told(own, "CHECK DATABASE") == []
    lock.release()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE tasks SET definition = '{'", "cannot read the definition of task 'nightly'"),
        (
            'UPDATE tasks SET definition = replace(definition, \'"retries": 2\', \'"retries": "2"\')',
            "cannot read the definition of task 'nightly'",
        ),
        ("UPDATE tasks SET name = 'other' WHERE id = 1", "task 'other' is defined as another one"),
        ("UPDATE tasks SET folded = 'other' WHERE id = 1", "task 'nightly' has the lookup name 'other'"),
        (
            "UPDATE runs SET version = 70 WHERE run = 2 AND task = 1",
            "attempt 1 of run 2 of task 'nightly' refers to a version that does not exist",
        ),
        (
            "UPDATE runs SET published = '[1' WHERE run = 2 AND task = 1",
            "cannot read attempt 1 of run 2 of task 'nightly'",
        ),
        (
            "UPDATE runs SET ended = 1 WHERE run = 2 AND task = 1",
            "attempt 1 of run 2 of task 'nightly' is running, which contradicts its times",
        ),
    ],
)
def test_check_finds_damaged_tasks_and_runs(own: Database, damage: str, said: str) -> None:
    some_runs(own)
    assert problems(own.path) == []
    with closing(sqlite3.connect(own.path / "catalog.sqlite", isolation_level=None)) as connection:
        connection.execute(damage)
    assert said in [problem.problem for problem in problems(own.path)]


def test_spoiled_tasks_raise_only_errors_of_snapdb(own: Database, tmp_path: Path) -> None:
    some_runs(own)
    LeaderLease(catalog_db_of(own)).acquire(Leader("me", 0, socket.gethostname(), os.getpid(), NOON), None)
    path, random_ = own.path, random.Random("tasks")
    own.close()
    whole = (path / "catalog.sqlite").read_bytes()
    looks = (
        "SHOW TASKS",
        "SHOW TASK RUNS",
        "SELECT * FROM snapdb.tasks",
        "DESCRIBE TASK nightly",
        "CHECK DATABASE",
        "CREATE TASK IF NOT EXISTS more SCHEDULE EVERY INTERVAL '1 day' AS VACUUM",
    )
    for _ in range(30 * TIMES):
        for leftover in path.glob("catalog.sqlite-*"):
            leftover.unlink()
        (path / "catalog.sqlite").write_bytes(whole)
        what = spoil(path, random_, tmp_path, ("tasks", "tasks", "runs", "leader"))
        try:
            spoilt = snapdb.connect(path)
        except SnapdbError:
            continue
        with spoilt:
            for look in looks:
                try:
                    spoilt.execute(look).fetchall()
                except SnapdbError:
                    continue
                except Exception as error:
                    raise AssertionError(f"{what}: {look}: {type(error).__name__}: {error}") from error

"""The command line of tasks: `snapdb schedule …` and `snapdb wait`, their exit codes, formats and messages."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import snapdb
from snapdb.daemon import worker
from snapdb_cli.main import main
from tests.support.inside import open_catalog_db
from tests.support.inside.cli import Diagnostics
from tests.support.inside.storage import RunLock
from tests.support.refusals import refused
from tests.support.terminal import environment
from tests.support.waiting import spawned

COMMANDS = ("run", "list", "history", "run-now", "pause", "resume")
SETUP = """
CREATE TABLE t AS SELECT 1 AS a;
CREATE TABLE e AS SELECT 1 AS a, 1 AS b;
CREATE PROPERTY GRAPH g VERTEX TABLES (t KEY (a))
  EDGE TABLES (e SOURCE KEY (a) REFERENCES t DESTINATION KEY (b) REFERENCES t);
CREATE SNAPSHOT now OF g;
CREATE TASK grow SCHEDULE EVERY INTERVAL '1 day' AS INSERT INTO t VALUES (1 + {run});
CREATE TASK "it's broken" SCHEDULE 'USING CRON 0 3 * * * Europe/Berlin' AS $$ INSERT INTO t VALUES (100 + {run});
  SELECT * FROM
    nowhere; $$;
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.script(SETUP)
    return path


@pytest.fixture
def shop(made: Path, tmp_path: Path) -> Path:
    """A database with a task that works and one that fails, which nobody fires."""
    return Path(shutil.copytree(made, tmp_path / "shop.snapdb"))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody looks at stderr."""
    monkeypatch.setattr(Diagnostics, "narrates", property(lambda self: not self.quiet))


def schedule(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["schedule", *map(str, words)])


def wait(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["wait", *map(str, words)])


def listed(*words: str | Path) -> list[dict[str, object]]:
    done = schedule(*words, "--format", "json")
    assert done.exit_code == 0, done.stderr
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example_and_wants_a_database(command: str) -> None:
    done = schedule(command, "--help")
    assert done.exit_code == 0
    assert f"  snapdb schedule {command} shop.snapdb" in done.stdout
    assert (schedule(command).exit_code, schedule(command).stdout) == (2, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_database_that_is_not_there_is_not_made(command: str, tmp_path: Path) -> None:
    path, words = tmp_path / "typo.snapdb", ("grow",) if command == "run-now" else ()
    done = schedule(command, path, *words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"DatabaseError: no database exists at {path}; check the path; ")
    assert not path.exists()
    (tmp_path / "file").write_text("")
    done = schedule(command, tmp_path / "file", *words)
    assert done.exit_code == 1
    assert "is a file; a snapdb database is a directory" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Usage: snapdb schedule"),
        (("fire",), "No such command 'fire'"),
        (("run", "DB", "--jobs", "0"), "0 is not in the range"),
        (("run", "DB", "--grace", "-1"), "-1.0 is not in the range"),
        (("run", "DB", "--log-format", "xml"), "'text', 'json'"),
        (("run", "DB", "grow"), "unexpected extra argument"),
        (("history", "DB", "--last", "0"), "0 is not in the range"),
        (("list", "DB", "--format", "yaml"), "'yaml' is not one of"),
        (("run-now", "DB"), "Missing argument 'NAME'"),
    ],
)
def test_a_command_line_without_sense_is_a_usage_error(words: tuple[str, ...], said: str, shop: Path) -> None:
    done = schedule(*(str(shop) if word == "DB" else word for word in words))
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize("command", ["history", "run-now", "pause", "resume"])
def test_an_unknown_task_is_told_with_the_nearest_one(command: str, shop: Path) -> None:
    done = schedule(command, shop, "grwo")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith('BindError: task "grwo" does not exist; did you mean "grow"?\n')


def test_the_list_is_data_and_who_leads_is_said_to_who_looks(shop: Path, watched: None) -> None:
    assert [(task["name"], task["state"], task["runs"]) for task in listed("list", shop)] == [
        ("grow", "active", 0),
        ("it's broken", "active", 0),
    ]
    with snapdb.connect(shop) as db:
        shown = db.execute("SHOW TASKS").arrow().column_names
    assert list(listed("list", shop)[0]) == shown
    done = schedule("list", shop)
    assert "created" not in done.stdout, "a table leaves place for the rest"
    assert done.stderr == f"daemon: no scheduler is running; run: snapdb schedule run {shop}\n"


def test_a_database_without_tasks_says_what_makes_one(tmp_path: Path, watched: None) -> None:
    path = tmp_path / "new.snapdb"
    snapdb.connect(path).close()
    for command in ("list", "pause", "resume"):
        done = schedule(command, path)
        assert (done.exit_code, done.stderr) == (0, f"{path} has no tasks; CREATE TASK creates one\n")
    assert listed("history", path) == []


def test_runs_by_hand_end_with_the_code_of_what_became_of_them(shop: Path, watched: None) -> None:
    done = schedule("run-now", shop, "GROW")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("run 1 of task grow: ok, 1 row in ")
    assert schedule("run-now", shop, "grow", "-q").stderr == ""
    done = schedule("run-now", shop, "it's broken", "-q")
    assert (done.exit_code, done.stdout) == (1, "")
    assert (
        'run 1 of task it\'s broken failed: statement 2 of 2: BindError: table or snapshot "nowhere" does not exist'
        in done.stderr
    )
    assert "(line 3, column 5)" in done.stderr

    runs = listed("history", shop)
    assert [(run["task"], run["run"], run["state"], run["rows"]) for run in runs] == [
        ("grow", 1, "ok", 1),
        ("grow", 2, "ok", 1),
        ("it's broken", 1, "failed", 1),
    ]
    assert [run["run"] for run in listed("history", shop, "Grow", "--last", "1")] == [2]
    (failed,) = listed("history", shop, "--failed", "--log")
    assert "nowhere" in str(failed["error"])
    assert str(failed["log"]).startswith("1 INSERT INTO t VALUES (100 + 1): version ")
    assert listed("history", shop, "grow", "--failed") == []
    table = schedule("history", shop).stdout
    assert " seconds " in table
    assert " ended " not in table


def test_a_task_that_runs_already_is_worth_another_try(shop: Path) -> None:
    catalog_db = open_catalog_db(shop)
    ((task,),) = catalog_db.rows("SELECT id FROM tasks WHERE name = 'grow'")
    catalog_db.close()
    lock = RunLock(catalog_db.db_dir, task)
    assert lock.take()
    done = schedule("run-now", shop, "grow")
    lock.release()
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr == "LockedError: task grow is running; wait until the run ends: SHOW TASK RUNS OF grow\n"


def test_tasks_are_paused_and_resumed_one_by_one_and_together(shop: Path, watched: None) -> None:
    def states() -> list[object]:
        return [task["state"] for task in listed("list", shop)]

    assert schedule("pause", shop, "it's broken").stderr == "task it's broken: suspended\n"
    assert states() == ["active", "suspended"]
    assert schedule("pause", shop, "-q").stderr == ""
    assert states() == ["suspended", "suspended"]
    done = schedule("resume", shop)
    assert done.exit_code == 0
    assert "task grow: resumed; next run at 2" in done.stderr
    assert f"run: snapdb schedule run {shop}\n" in done.stderr
    assert states() == ["active", "active"]


def test_every_format_of_the_lists_can_be_read(shop: Path) -> None:
    assert (
        schedule("history", shop, "--format", "csv").stdout
        == "task,run,state,scheduled,error,rows,bytes,started,ended,notified\n"
    )
    assert len(schedule("list", shop, "--format", "jsonl").stdout.splitlines()) == 2
    done = CliRunner().invoke(main, ["schedule", "list", str(shop), "--format", "arrow"])
    assert done.exit_code == 0
    assert done.stdout_bytes.startswith(b"\xff\xff\xff\xff")


def test_a_snapshot_is_waited_for(shop: Path) -> None:
    done = wait(shop, "now", "--format", "json")
    assert done.exit_code == 0
    (found,) = json.loads(done.stdout)
    assert (found["snapshot"], found["graph"]) == ("now", "g")
    done = wait(shop, "now", "--newer-than", str(found["version"]), "--timeout", "0")
    assert (done.exit_code, done.stdout) == (3, "")
    assert f"with a version after {found['version']}, but it is at version {found['version']}" in done.stderr
    done = wait(shop, "later", "--timeout", "0")
    assert done.exit_code == 3
    assert f"which does not exist; no scheduler is running; run: snapdb schedule run {shop}" in done.stderr
    done = wait(shop, "g", "--timeout", "0")
    assert done.exit_code == 1
    assert "g is a property graph" in done.stderr
    assert wait(shop.parent / "typo.snapdb", "now").exit_code == 1
    assert wait(shop, "now", "--timeout", "-1").exit_code == 2
    assert wait(shop).exit_code == 2


Daemon = subprocess.Popen[str]


def daemon(path: Path, *words: str) -> AbstractContextManager[Daemon]:
    variables = environment(path.parent, COVERAGE_PROCESS_START="")
    return spawned("-m", "snapdb_cli", "schedule", "run", str(path), *words, env=variables)


def events(process: Daemon) -> Iterator[dict[str, object]]:
    assert process.stderr is not None
    for line in process.stderr:
        yield json.loads(line)


def test_a_daemon_tells_what_it_fires_in_lines_and_ends_by_signals(shop: Path) -> None:
    with daemon(shop, "--log-format", "json") as leads:
        told = events(leads)
        assert [next(told)["event"] for _ in range(2)] == ["daemon.start", "leader.won"]
        tasks = next(event for event in told if event["event"] == "tasks")
        assert (tasks["active"], tasks["of"], str(tasks["task"]) in ("grow", "it's broken")) == (2, 2, True)
        done = CliRunner().invoke(main, ["schedule", "list", str(shop)])
        assert done.exit_code == 0, "a list is only read, beside a daemon too"
        with snapdb.connect(shop) as db:
            assert str(db.execute("DESCRIBE TASK grow").fetchall()[-1][1]).startswith(f"pid {leads.pid} on ")
            db.execute("ALTER TASK grow SUSPEND")
        tasks = next(event for event in told if event["event"] == "tasks")
        assert (tasks["active"], tasks["of"], tasks["task"]) == (1, 2, "it's broken")
        leads.send_signal(signal.SIGINT)
        assert [event["why"] for event in told if event["event"] == "daemon.stop"] == ["SIGINT"]
        assert leads.stdout is not None
        assert leads.stdout.read() == ""
    assert leads.returncode == 130


def test_a_daemon_ends_when_its_database_is_another(shop: Path, tmp_path: Path) -> None:
    restored = tmp_path / "restored.snapdb"
    with daemon(shop) as leads:
        assert leads.stderr is not None
        while "INFO tasks " not in leads.stderr.readline():
            assert leads.poll() is None
        shutil.copytree(shop, restored)
        shop.rename(tmp_path / "old.snapdb")
        os.rename(restored, shop)
        said = leads.stderr.read()
    assert leads.returncode == 1
    assert f"the database at {shop} is not the one that was opened" in said
    assert "code=database-gone" in said


def test_a_worker_makes_no_database_where_one_was_moved_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_die_with", lambda parent: None)
    monkeypatch.setattr(worker, "_pipes", lambda: (io.BytesIO(b'{"do": "end"}\n'), io.BytesIO()))
    monkeypatch.setattr(worker.signal, "signal", lambda number, handler: None)
    with refused("no-database"):
        worker.work(tmp_path / "moved.snapdb", os.getpid())
    assert not (tmp_path / "moved.snapdb").exists()

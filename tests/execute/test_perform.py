"""A run of a task does each of its statements once, whatever ends it: an error, a stop, its timeout, a lost process."""

from __future__ import annotations

import gc
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import snapdb
from snapdb.execute.tasks import perform, runs
from snapdb.types import Task, TaskRun
from tests.support.crashing import Crash, CrashingDisk
from tests.support.format_one import SIXTH
from tests.support.inside import open_catalog_db
from tests.support.inside.execute import DatabaseSession, Stop, record
from tests.support.inside.storage import Disk, RunLock, hash_file, open_db_dir
from tests.support.performing import DAY, Worker, told
from tests.support.places import ROOT
from tests.support.thoroughness import SOAK
from tests.support.waiting import PATIENCE

SHOP = """
CREATE TABLE person AS SELECT 'p' || range AS name FROM range(8);
CREATE TABLE knows AS SELECT 'p' || range AS a, 'p' || (range + 1) % 8 AS b, range AS t FROM range(8);
CREATE TABLE log (what VARCHAR);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (name))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t));
CREATE SNAPSHOT last OF g; CREATE SNAPSHOT old OF g FOR EVENT_TIME AS OF 3;
"""
SECOND = 1_000_000
BODIES = {
    "inserts": "INSERT INTO log VALUES ('1'); INSERT INTO person VALUES ('q1'); INSERT INTO log VALUES ('2')",
    "a transaction": """INSERT INTO log VALUES ('1'); BEGIN; INSERT INTO log VALUES ('2'); SELECT 1;
        DELETE FROM knows WHERE t = 0; COMMIT; BEGIN; INSERT INTO log VALUES ('never'); ROLLBACK;
        INSERT INTO log VALUES ('3')""",
    "snapshots": """INSERT INTO knows VALUES ('p1', 'p5', 9); REFRESH SNAPSHOT last; CREATE SNAPSHOT s_{date} OF g;
        INSERT INTO log VALUES ('{run} {version}')""",
    "a graph and a tag": """CREATE TABLE place AS SELECT range AS id FROM range(3); CREATE TAG t_{run};
        CREATE PROPERTY GRAPH h VERTEX TABLES (place KEY (id)); DROP SNAPSHOT old; CREATE SNAPSHOT of_h OF h""",
    "files": """COPY (SELECT 1 AS a) TO 'a_{date}.parquet'; COPY SNAPSHOT last TO 'folder_{run}' (FORMAT parquet);
        INSERT INTO log VALUES ('1'); COPY SNAPSHOT old TO 'again' (FORMAT parquet, OVERWRITE)""",
    "upkeep": """INSERT INTO log VALUES ('1'); INSERT INTO log VALUES ('2'); VACUUM RETAIN INTERVAL '0 seconds';
        EXPIRE SNAPSHOTS OF g OLDER THAN INTERVAL '0 seconds'; INSERT INTO log VALUES ('3')""",
}
STEP = 1 if SOAK else 19
"""Every which point of failure is tried; `make soak` tries all."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.script(SHOP)
    return path


@pytest.fixture
def shop(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database of the test's own, in the folder that its tasks count paths from."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return Path(shutil.copytree(made, tmp_path / "shop.snapdb"))


def create(path: Path, body: str, options: str = "retries = 3", when: str = "") -> None:
    with snapdb.connect(path) as db:
        db.execute(f"CREATE TASK job SCHEDULE EVERY INTERVAL '1 day' {when} WITH ({options}) AS $$ {body} $$")


def contents(path: Path) -> dict[str, Any]:
    """All that a body can have changed; names of files that hold the same are the same."""
    with snapdb.connect(path) as db:
        seen: dict[str, Any] = {"versions": len(db.execute("SHOW VERSIONS").arrow())}
        assert db.execute("CHECK DATABASE").fetchall() == []
        for table, *_ in db.execute("SHOW TABLES").fetchall():
            seen[table] = sorted(map(str, db.execute(f'FROM "{table}"').fetchall()))
        seen["snapshots"] = db.execute("SELECT name, version, nodes, edges FROM snapdb.snapshots ORDER BY 1").fetchall()
        seen["tags"] = db.execute("SELECT name, version FROM snapdb.tags").fetchall()
        seen["graphs"] = db.execute("SELECT name FROM snapdb.graphs ORDER BY 1").fetchall()
    seen["files"] = sorted(str(p) for p in Path.cwd().rglob("*") if p.is_file() and not hidden(p))
    return seen


def hidden(path: Path) -> bool:
    """Whether a file was being written when its process ended: nothing of it has a name."""
    return any(part.startswith(".") for part in path.relative_to(Path.cwd()).parts)


def last(path: Path) -> tuple[str, int, int, int | None]:
    return told(Worker(path).rows()[-1])


# What a run does


def test_a_run_does_all_statements_and_records_them(shop: Path) -> None:
    create(shop, "INSERT INTO log SELECT '{date}{time}' FROM range(1000); SELECT 1; COPY log TO '{run}_{version}.csv'")
    worker = Worker(shop)
    ended = worker.perform(worker.task(), worker.claim(worker.task()))
    (row,) = worker.rows()
    assert (ended.state, ended.rows, ended.retry, ended.recorded) == ("ok", 2000, None, True)
    assert (told(row), row.published, row.error, row.rows) == (("ok", 1, 3, None), (4,), None, 2000)
    written = Path("1_3.csv")
    assert written.read_text().startswith("what\n20260101000000\n")
    assert row.bytes > written.stat().st_size
    lines = row.log.splitlines()
    assert lines[0].startswith(
        "1 INSERT INTO log SELECT '20260101000000' FROM range(1000): version 4: 1,000 rows added"
    )
    assert lines[1].startswith("2 SELECT 1: 1 row (")
    assert len(lines) == 3


def test_rows_of_a_transaction_that_is_rolled_back_do_not_count(shop: Path) -> None:
    create(shop, BODIES["a transaction"])
    worker = Worker(shop)
    ended = worker.perform(worker.task(), worker.claim(worker.task()))
    assert (ended.state, ended.rows) == ("ok", 4)
    assert worker.rows()[0].published == (4, 5, 6)
    assert contents(shop)["log"] == ["('1',)", "('2',)", "('3',)"]


def test_a_statement_that_fails_is_told_with_its_place_and_the_next_attempt_goes_on_there(shop: Path) -> None:
    create(shop, "INSERT INTO log VALUES ('once'); INSERT INTO log SELECT * FROM evening", "retries = 1")
    worker, task = Worker(shop), Worker(shop).task()
    ended = worker.perform(task, run := worker.claim(task))
    assert (ended.state, ended.retry) == ("failed", ended.ended + SECOND)
    assert str(ended.error).startswith(
        'statement 2 of 2: BindError: table or snapshot "evening" does not exist; available'
    )
    assert str(ended.error).endswith("(line 1, column 64)")
    assert "^^^^^" in ended.log
    with snapdb.connect(shop) as db:
        db.execute("CREATE TABLE evening AS SELECT 'late' AS what")
    second = worker.perform(task, worker.again(run))
    assert (second.state, second.rows) == ("ok", 1)
    assert contents(shop)["log"] == ["('late',)", "('once',)"]
    assert [told(row)[:3] for row in worker.rows()] == [("failed", 1, 1), ("ok", 2, 2)]


def test_attempts_end_with_the_retries_and_wait_ever_longer(shop: Path) -> None:
    create(shop, "SELECT * FROM nowhere", "retries = 2")
    worker, task = Worker(shop), Worker(shop).task()
    run, waits = worker.claim(task), []
    for _ in range(2):
        ended = worker.perform(task, run)
        waits.append((ended.retry or 0) - ended.ended)
        run = worker.again(run)
    assert waits == [SECOND, 2 * SECOND]
    assert worker.perform(task, run).retry is None


def test_a_graph_that_was_dropped_is_told(shop: Path) -> None:
    create(shop, "REFRESH SNAPSHOT last", "retries = 0")
    worker, task = Worker(shop), Worker(shop).task()
    with snapdb.connect(shop) as db:
        db.execute("DROP PROPERTY GRAPH g CASCADE")
    ended = worker.perform(task, worker.claim(task))
    assert (ended.state, ended.retry) == ("failed", None)
    assert str(ended.error).startswith('BindError: snapshot "last" does not exist')
    assert "line 1, column 18" in str(ended.error)


def test_a_task_that_was_replaced_or_dropped_meanwhile_is_not_tried_again(shop: Path) -> None:
    create(shop, "SELECT * FROM nowhere")
    worker, task = Worker(shop), Worker(shop).task()
    run = worker.claim(task)
    with snapdb.connect(shop) as db:
        db.execute("CREATE OR REPLACE TASK job SCHEDULE EVERY INTERVAL '1 day' WITH (retries = 3) AS SELECT 1")
    assert worker.perform(task, run).retry is None
    run = worker.claim(task, DAY + 1)
    with snapdb.connect(shop) as db:
        db.execute("CREATE OR REPLACE TASK job SCHEDULE EVERY INTERVAL '1 day' WITH (retries = 3) AS VACUUM")
    settled = worker.settle(worker.task(), run)
    assert settled is not None
    assert (settled.state, settled.retry) == ("failed", None)
    run = worker.claim(worker.task(), DAY + 2)
    with snapdb.connect(shop) as db:
        db.execute("DROP TASK job")
    ended = worker.settle(None, run)
    assert ended is not None
    assert (ended.state, ended.retry) == ("failed", None)
    assert ended.error == "its process ended before the end was complete; the statement in progress was rolled back"


# WHEN


def test_a_condition_that_does_not_hold_leaves_no_run(shop: Path) -> None:
    create(shop, "INSERT INTO log VALUES ('1')", when="WHEN (changed('g') > 0 AND (SELECT count(*) FROM person) > 9)")
    worker, task = Worker(shop), Worker(shop).task()
    assert worker.perform(task, worker.claim(task)).state == "skipped"
    assert worker.rows() == []
    with snapdb.connect(shop) as db:
        db.execute("INSERT INTO person SELECT 'n' || range FROM range(2)")
    assert worker.perform(task, worker.claim(task)).state == "ok"


def test_changed_counts_what_others_did_to_the_graph_since_the_last_run_that_ended_well(shop: Path) -> None:
    create(shop, "INSERT INTO person VALUES ('{run}')", when="WHEN (CHANGED ( 'g' ) >= 3)")
    worker, task = Worker(shop), Worker(shop).task()

    def performed(moment: int) -> str:
        return worker.perform(task, worker.claim(task, DAY + moment)).state

    assert performed(1) == "ok"  # of a task that never ran, all that there is
    assert performed(2) == "skipped"  # its own rows are no change
    with snapdb.connect(shop) as db:
        db.execute("INSERT INTO knows VALUES ('p1', 'p5', 9), ('p2', 'p5', 9)")
        db.execute("INSERT INTO log VALUES ('of no graph'), ('this is')")
        assert performed(3) == "skipped"
        db.execute("DELETE FROM knows WHERE a = 'p2' AND t = 9")
    assert performed(4) == "ok"
    assert performed(5) == "skipped"


def test_rows_of_a_table_that_was_replaced_count_as_removed(shop: Path) -> None:
    create(shop, "CREATE OR REPLACE TABLE knows AS FROM knows", when="WHEN (changed('g') = 8 + 1 + 1 + 2)")
    worker, task = Worker(shop), Worker(shop).task()
    with snapdb.connect(shop) as db:
        db.execute("EXECUTE TASK job")  # replaces, and that is its own doing
        db.execute("CREATE OR REPLACE TABLE knows AS FROM knows LIMIT 1")
        db.execute("INSERT INTO knows FROM knows")
        db.execute("CREATE OR REPLACE TABLE knows AS FROM knows LIMIT 0")
    assert worker.perform(task, worker.claim(task, DAY + 1)).state == "ok"


@pytest.mark.parametrize(
    ("when", "error"),
    [
        (
            "WHEN (7)",
            "QueryError: WHEN of a task must return one BOOLEAN value, found 1 of type int32; write a comparison",
        ),
        ("WHEN (changed('h') > 0)", 'BindError: graph "h" does not exist'),
        ("WHEN ((SELECT name FROM person) = 'p1')", "QueryError: "),
    ],
)
def test_a_condition_without_an_answer_is_a_failure(shop: Path, when: str, error: str) -> None:
    create(shop, "INSERT INTO log VALUES ('1')", when=when)
    worker, task = Worker(shop), Worker(shop).task()
    ended = worker.perform(task, worker.claim(task))
    assert (ended.state, ended.retry is None) == ("failed", False)
    assert str(ended.error).startswith(error)
    assert contents(shop)["log"] == []


def test_null_is_no(shop: Path) -> None:
    create(shop, "SELECT 1", when="WHEN (NULL)")
    worker, task = Worker(shop), Worker(shop).task()
    assert worker.perform(task, worker.claim(task)).state == "skipped"


# Links

PARTS = ("a", "b", "c")
USES = {
    "a file": "COPY log FROM '{at}/x.csv'",
    "a reader": "INSERT INTO log SELECT what FROM read_csv('{at}/x.csv', header = true)",
    "a glob": "INSERT INTO log SELECT what FROM '{at}/*.csv'",
    "a glob of directories": "INSERT INTO log SELECT what FROM read_csv('{start}/**/x.csv', header = true)",
    "a written file": "COPY (SELECT 1 AS one) TO '{at}/y.csv'",
    "a written folder": "COPY SNAPSHOT last TO '{at}/y' (FORMAT parquet)",
}


LINKS = [
    pytest.param(use, position, away, absolute, id=f"{use}-{position}{'-away' * away}{'-absolute' * absolute}")
    for number, use in enumerate(USES)
    for position in range(len(PARTS))
    for away in (False, True)
    for absolute in (False, True)
    if SOAK or ((away or position == number % len(PARTS)) and absolute == ((number + position) % 2 == 1))
]
"""Every use with a link at every part of a path that leads away. `make soak` tries relative and absolute paths of each,
and all links that stay within; other test runs try one of the two, and one such link."""


@pytest.mark.parametrize(("use", "position", "away", "absolute"), LINKS)
def test_a_directory_link_on_the_way_of_a_path_leads_nowhere_else(
    shop: Path, tmp_path: Path, use: str, position: int, away: bool, absolute: bool
) -> None:
    """The link is at each part of the path, and its target beside it or in another folder."""
    base = tmp_path / "work"
    parent, name = base.joinpath(*PARTS[:position]), PARTS[position]
    parent.mkdir(parents=True, exist_ok=True)
    target = tmp_path / "secret" if away else parent / "beside"
    target.joinpath(*PARTS[position + 1 :]).mkdir(parents=True)
    target.joinpath(*PARTS[position + 1 :], "x.csv").write_text("what\nread\n")
    (parent / name).symlink_to(target if away else "beside")
    place = base.joinpath(*PARTS) if absolute else Path(*PARTS)
    create(shop, USES[use].format(at=place, start=base if absolute else "."), "retries = 0")
    before = set((tmp_path / "secret").rglob("*"))
    worker = Worker(shop)
    ended = worker.perform(worker.task(), worker.claim(worker.task()))
    with snapdb.connect(shop, read_only=True) as db:
        read = db.execute("SELECT count(*) FROM log").fetchall()[0][0]
    if away and use == "a glob of directories":  # which goes through no links
        assert read == 0
    elif away:
        assert ended.state == "failed"
        assert "without symbolic links that point outside their directory" in str(ended.error)
        assert read == 0
        assert set((tmp_path / "secret").rglob("*")) == before
    else:
        assert ended.state == "ok", ended.error


def test_a_link_to_a_file_elsewhere_is_not_read(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("what\nread\n")
    for body in ("COPY log FROM 'a/x.csv'", "INSERT INTO log SELECT what FROM 'a/*.csv'"):
        shutil.rmtree(tmp_path / "work" / "a", ignore_errors=True)
        (tmp_path / "work" / "a").mkdir()
        (tmp_path / "work" / "a" / "x.csv").symlink_to(tmp_path / "secret.csv")
        create(shop, body, "retries = 0")
        worker = Worker(shop)
        assert worker.perform(worker.task(), worker.claim(worker.task())).state == "failed"
        with snapdb.connect(shop) as db:
            assert db.execute("SELECT count(*) FROM log").fetchall() == [(0,)]
            db.execute("DROP TASK job")


# Stops

LONG = {
    "a query": "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range, b.range) = 7",
    "an insert": "INSERT INTO log SELECT hash(range)::VARCHAR FROM range(3_000_000_000)",
    "a file": "COPY (SELECT hash(range) AS h FROM range(30_000_000_000)) TO 'h.csv'",
    "batches": """COPY (SAMPLE FROM last SEEDS (SELECT name FROM person) AS person FANOUT (knows => [2, 2]) BATCH 1
        EPOCHS 10_000_000) TO 'batches' (FORMAT npz)""",
}


@pytest.mark.parametrize("what", LONG)
def test_a_statement_without_an_end_is_ended(shop: Path, what: str) -> None:
    create(shop, f"INSERT INTO log VALUES ('1'); {LONG[what]}; INSERT INTO log VALUES ('2')", "retries = 1")
    stop, begun = Stop(), threading.Event()
    worker = Worker(shop, before=lambda db, number: begun.set() if number == 2 else None)
    task = worker.task()
    run = worker.claim(task)

    def ask() -> None:
        assert begun.wait(PATIENCE)
        stop.request("terminated")

    asking = threading.Thread(target=ask)
    asking.start()
    ended = worker.perform(task, run, stop)
    asking.join(PATIENCE)
    assert ended.error == "stopped: the scheduler is shutting down; statement 2 of 3 was rolled back"
    assert last(shop) == ("failed", 1, 1, ended.ended + SECOND)
    seen = contents(shop)
    assert (seen["log"], seen["files"]) == (["('1',)"], [])


def test_a_run_that_outlives_its_timeout_is_stopped_rolled_back_and_recorded(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is over as soon as the third statement begins."""
    create(shop, f"BEGIN; INSERT INTO log VALUES ('1'); {LONG['a query']}; COMMIT", "timeout = '1 second', retries = 1")
    begun: list[int] = []
    monkeypatch.setattr(runs, "time", SimpleNamespace(monotonic=lambda: 2.0 if len(begun) > 2 else 0.0))
    worker, task = Worker(shop, before=lambda db, number: begun.append(number)), Worker(shop).task()
    ended = worker.perform(task, worker.claim(task))
    assert ended.error == (
        "stopped after its timeout of 1 second; the transaction of statements 1 to 3 of 4 was rolled back"
    )
    assert (ended.rows, last(shop)) == (0, ("timeout", 1, 0, ended.ended + SECOND))
    assert contents(shop)["log"] == []


def test_a_stop_that_came_before_is_heard(shop: Path) -> None:
    create(shop, "INSERT INTO log VALUES ('1')")
    worker, task, stop = Worker(shop), Worker(shop).task(), Stop()
    stop.request("terminated")
    ended = worker.perform(task, worker.claim(task), stop)
    assert ended.error == "stopped: the scheduler is shutting down; no statement was started"
    assert worker.opened == []


def test_a_stop_between_statements_is_heard(shop: Path) -> None:
    """`run` forgets at its beginning what was asked for before: the stop is asked for just there."""
    create(shop, f"INSERT INTO log VALUES ('1'); {LONG['a query']}")
    stop = Stop()

    def ask(session: DatabaseSession, number: int) -> None:
        if number == 2:
            stop.request("terminated")
            time.sleep(0.2)
            session._stopped.clear()

    worker, task = Worker(shop, before=ask), Worker(shop).task()
    ended = worker.perform(task, worker.claim(task), stop)
    assert ended.error == "stopped: the scheduler is shutting down; statement 2 of 2 was rolled back"


def test_a_run_that_was_given_up_publishes_nothing(shop: Path) -> None:
    create(shop, "INSERT INTO log VALUES ('1'); COPY log TO 'x.csv'; INSERT INTO log VALUES ('2')")
    worker, task = Worker(shop), Worker(shop).task()
    run = worker.claim(task)
    assert worker.settle(task, run) is not None
    ended = worker.perform(task, run)
    assert (ended.state, ended.recorded) == ("lost", False)
    assert last(shop)[0] == "failed"
    seen = contents(shop)
    assert (seen["log"], seen["files"]) == ([], [])


def test_a_run_whose_process_lives_is_not_settled(shop: Path) -> None:
    create(shop, "INSERT INTO log VALUES ('1')")
    worker, task = Worker(shop), Worker(shop).task()
    run, lock = worker.claim(task), RunLock(open_db_dir(shop, read_only=False), 1)
    assert lock.take()
    assert worker.settle(task, run) is None
    lock.release()
    assert worker.settle(task, run) is not None


# Crashes


@pytest.mark.parametrize("name", BODIES)
def test_each_statement_is_done_once_wherever_the_process_ends(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    original, copy, work = tmp_path / "shop.snapdb", tmp_path / "copy.snapdb", tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    shutil.copytree(made, original)
    create(original, BODIES[name])
    worker = Worker(copy)

    def fresh() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(original, copy)
        for path in work.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    fresh()
    task = worker.task()
    assert worker.perform(task, worker.claim(task)).state == "ok"
    expected, states = contents(copy), set()
    published = worker.rows()[0].published
    for at in range(1, 1000, STEP):
        fresh()
        run = worker.claim(task)
        try:
            Worker(copy, CrashingDisk(copy, at)).perform(task, run)
        except Crash:
            gc.collect()  # what the dead process held open
        else:
            break
        if worker.rows()[0].state == "running":
            settled = worker.settle(task, run)
            assert settled is not None
            assert settled.recorded
            if settled.state != "ok":
                assert settled.retry == settled.ended + SECOND
                assert worker.perform(task, worker.again(run)).state == "ok", (at, worker.rows())
        states.add((worker.rows()[0].state, worker.rows()[0].step))
        assert contents(copy) == expected, at
        assert tuple(version for row in worker.rows() for version in row.published) == published, at
    else:
        raise AssertionError("it never ends")
    assert len(states) > 1


class DyingDisk(Disk):
    """Loses its power right after something got a name outside of the database, or before a commit."""

    def __init__(self, commits: int | None = None) -> None:
        self.left = commits

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        if self.left is None and target.parent == Path.cwd() and not hidden(target):
            raise Crash

    def commit(self, connection: sqlite3.Connection) -> None:
        if self.left is not None and not self.left:
            raise Crash
        self.left = None if self.left is None else self.left - 1
        super().commit(connection)


def exported_and_crashed(shop: Path) -> tuple[Worker, Task, TaskRun]:
    """A run whose process ended right after its folder got its name, and a worker for the next attempt."""
    create(shop, "COPY SNAPSHOT last TO 'folder_{run}' (FORMAT parquet); INSERT INTO log VALUES ('1')")
    worker, task = Worker(shop), Worker(shop).task()
    run = worker.claim(task)
    with pytest.raises(Crash):
        Worker(shop, DyingDisk()).perform(task, run)
    gc.collect()
    return worker, task, run


def test_a_folder_that_got_its_name_before_the_process_ended_is_not_put_there_again(shop: Path) -> None:
    worker, task, run = exported_and_crashed(shop)
    settled = worker.settle(task, run)
    assert settled is not None
    assert settled.state == "failed"
    ended = worker.perform(task, worker.again(run))
    assert ended.state == "ok"
    assert "its folder was written by an earlier attempt" in ended.log


def log_of_an_export(shop: Path, statement: int) -> str:
    """The log of the only run becomes what an older snapdb wrote of an export of this statement."""
    target = Path("folder_1").resolve()
    line = f'{statement} puts "{target}", whose manifest has sha256 {hash_file(target / "manifest.json")[1]}\n'
    with closing(sqlite3.connect(shop / "catalog.sqlite")) as connection, connection:
        connection.execute("UPDATE runs SET log = ?", (line,))
    return line


def test_what_a_run_exported_does_not_follow_from_its_log(shop: Path) -> None:
    worker, task, run = exported_and_crashed(shop)
    log_of_an_export(shop, statement=2)
    worker.settle(task, run)
    ended = worker.perform(task, worker.again(run))
    assert (ended.state, ended.error) == ("ok", None)
    first, second = ended.log.splitlines()
    assert "its folder was written by an earlier attempt" in first
    assert "1 row added" in second
    assert contents(shop)["log"] == ["('1',)"]


def test_a_run_of_the_sixth_format_knows_its_exports_after_the_upgrade(shop: Path) -> None:
    worker, task, run = exported_and_crashed(shop)
    line = log_of_an_export(shop, statement=1)
    with closing(sqlite3.connect(shop / "catalog.sqlite")) as connection, connection:
        connection.executescript(SIXTH)
    assert "format 6 → 7" in snapdb.upgrade(shop)
    settled = worker.settle(task, run)
    assert settled is not None
    assert (settled.state, settled.log) == ("failed", line)
    ended = worker.perform(task, worker.again(run))
    assert ended.state == "ok"
    assert "its folder was written by an earlier attempt" in ended.log
    with snapdb.connect(shop) as db:
        assert db.execute("CHECK DATABASE").fetchall() == []


def test_a_run_of_a_task_that_was_replaced_is_not_settled_by_the_new_body(shop: Path) -> None:
    create(shop, "INSERT INTO log VALUES ('1'); INSERT INTO log VALUES ('2')")
    worker, task = Worker(shop), Worker(shop).task()
    run = worker.claim(task)
    with pytest.raises(Crash):
        Worker(shop, DyingDisk(commits=1)).perform(task, run)
    gc.collect()
    with snapdb.connect(shop) as db:
        db.execute("CREATE OR REPLACE TASK job SCHEDULE EVERY INTERVAL '1 day' AS INSERT INTO log VALUES ('other')")
    with closing(sqlite3.connect(shop / "catalog.sqlite")) as connection, connection:
        assert connection.execute("SELECT replaced FROM runs").fetchone() == (1,)
        connection.execute("UPDATE runs SET log = ''")
    settled = worker.settle(Worker(shop).task(), run)
    assert settled is not None
    assert (settled.state, settled.retry) == ("failed", None)


def test_a_run_that_had_done_all_when_its_process_ended_ended_well(shop: Path) -> None:
    create(shop, "INSERT INTO log VALUES ('1'); INSERT INTO log VALUES ('2')")
    worker, task = Worker(shop), Worker(shop).task()
    run = worker.claim(task)
    with pytest.raises(Crash):
        Worker(shop, DyingDisk(commits=2)).perform(task, run)
    gc.collect()
    settled = worker.settle(task, run)
    assert settled is not None
    assert (settled.state, settled.rows) == ("ok", 2)
    assert "its process ended after the last statement" in settled.log
    assert last(shop) == ("ok", 1, 2, None)


def test_a_run_begins_nothing_while_another_process_holds_the_lock(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perform, "_PATIENCE", 0.1)
    create(shop, "INSERT INTO log VALUES ('1')")
    worker, task = Worker(shop), Worker(shop).task()
    run, lock = worker.claim(task), RunLock(open_db_dir(shop, read_only=False), 1)
    assert lock.take()
    ended = worker.perform(task, run)
    lock.release()
    assert (ended.state, ended.recorded) == ("failed", True)
    assert "another process is still running this task" in str(ended.error)
    assert contents(shop)["log"] == []


KILLED = """
import os, signal, sys
from pathlib import Path
from snapdb.storage.disk import Disk, hash_file
from tests.support.format_one import SIXTH
from tests.support.performing import Worker

class Killing(Disk):
    left = int(sys.argv[2])

    def commit(self, connection):
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1
        super().commit(connection)

worker = Worker(Path(sys.argv[1]), Killing())
worker.perform(worker.task(), worker.rows()[-1])
"""


@pytest.mark.parametrize("commits", [1, 2])
def test_a_process_that_is_killed_lets_go_and_leaves_what_it_had_done(shop: Path, commits: int) -> None:
    create(shop, "INSERT INTO log VALUES ('1'); INSERT INTO log VALUES ('2'); INSERT INTO log VALUES ('3')")
    worker, task = Worker(shop), Worker(shop).task()
    run = worker.claim(task)
    child = [sys.executable, "-c", KILLED, str(shop), str(commits)]
    ended = subprocess.run(child, cwd=ROOT, timeout=PATIENCE, check=False)
    assert ended.returncode == -signal.SIGKILL
    settled = worker.settle(task, run)
    assert settled is not None
    assert (settled.rows, settled.error) == (
        commits,
        f"its process ended before statement {commits + 1} of 3 was complete; the statement in progress was rolled "
        "back",
    )
    assert last(shop) == ("failed", 1, commits, settled.ended + SECOND)
    assert worker.perform(task, worker.again(run)).rows == 3 - commits
    assert contents(shop)["log"] == ["('1',)", "('2',)", "('3',)"]


def test_the_end_of_a_run_that_the_disk_refuses_is_recorded_later(shop: Path) -> None:
    """The disk is full when the end is to be written: nothing is lost but the moment."""
    create(shop, "INSERT INTO log VALUES ('1')")

    class Full(Disk):
        full = False

        def commit(self, connection: sqlite3.Connection) -> None:
            if self.full:
                raise sqlite3.OperationalError("database or disk is full")
            super().commit(connection)
            self.full = connection.execute("SELECT step FROM runs").fetchone()[0] == 1

    worker, task, disk = Worker(shop), Worker(shop).task(), Full()
    ended = Worker(shop, disk).perform(task, worker.claim(task))
    assert (ended.state, ended.recorded) == ("ok", False)
    assert "the disk is full" in ended.log
    assert last(shop)[0] == "running"
    catalog_db = open_catalog_db(shop)
    assert record(catalog_db, task, ended).recorded
    catalog_db.close()
    assert last(shop)[0] == "ok"

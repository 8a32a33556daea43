"""EXECUTE TASK beside other runs: it waits for none, takes over from the dead, and is stopped as any statement is."""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import snapdb
from snapdb import Database, QueryError
from snapdb.execute.tasks import operators
from snapdb.storage.catalog_db.task_rows import LeaderLease
from tests.support.inside import open_catalog_db
from tests.support.inside.storage import Leader, RunLock, open_db_dir
from tests.support.performing import Worker, told
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE, until

LONG = "INSERT INTO log SELECT hash(range)::VARCHAR FROM range(3_000_000_000)"
JOB = "CREATE TASK job SCHEDULE EVERY INTERVAL '1 day' WITH (retries = 3) AS $$ INSERT INTO log VALUES ('{run}') $$"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with snapdb.connect(tmp_path / "shop.snapdb", threads=1) as made:
        made.script(f"CREATE TABLE log (what VARCHAR); {JOB}")
        yield made


def logged(db: Database) -> list[str]:
    return [what for (what,) in db.execute("SELECT what FROM log ORDER BY what").fetchall()]


def test_it_says_what_it_did(db: Database) -> None:
    message = str(db.execute("EXECUTE TASK job").message)
    assert message.startswith("run 1 of task job: ok, 1 row in 0.")
    assert db.execute("EXECUTE TASK job").rowcount == 1
    assert logged(db) == ["1", "2"]


def test_it_works_in_a_temporary_database() -> None:
    with snapdb.connect() as db:
        db.script(f"CREATE TABLE log (what VARCHAR); {JOB}; EXECUTE TASK job")
        assert logged(db) == ["1"]
        path = db.path
    assert not path.exists()


def test_a_database_for_reading_only_runs_none(db: Database) -> None:
    with snapdb.connect(db.path, read_only=True) as reader, refused("read-only", at="EXECUTE TASK job"):
        reader.execute("EXECUTE TASK job")


def test_a_run_that_goes_on_is_not_met(db: Database) -> None:
    worker = Worker(db.path)
    worker.claim(worker.task())
    lock = RunLock(open_db_dir(db.path, read_only=False), 1)
    assert lock.take()
    with refused("task-running") as caught:
        db.execute("EXECUTE TASK job")
    assert caught.value.code == "task-running"
    lock.release()
    db.execute("EXECUTE TASK job")
    assert [told(row)[0] for row in worker.rows()] == ["failed", "ok"]
    assert str(worker.rows()[0].error).startswith("its process ended before its statement was complete")
    assert worker.rows()[0].retry is not None
    assert logged(db) == ["2"]


@contextmanager
def led(path: Path, *, alive: bool) -> Iterator[None]:
    """A daemon leads that has begun a run, and beats if it is alive."""
    with closing(open_catalog_db(path)) as catalog_db:
        assert LeaderLease(catalog_db).acquire(Leader("worker", 1, "here", 1, 0), None)
        done = threading.Event()

        def beating() -> None:
            while alive and not done.wait(0.1):
                LeaderLease(catalog_db).heartbeat("worker")

        thread = threading.Thread(target=beating)
        thread.start()
        yield
        done.set()
        thread.join(PATIENCE)


def test_a_run_that_a_daemon_is_about_to_begin_is_left_to_it(db: Database) -> None:
    worker = Worker(db.path)
    worker.claim(worker.task())
    with led(db.path, alive=True), refused("task-running"):
        db.execute("EXECUTE TASK job")
    assert [told(row)[0] for row in worker.rows()] == ["running"]


def test_a_daemon_that_is_silent_is_taken_for_dead(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "LEASE_TTL", 0.3)
    worker = Worker(db.path)
    worker.claim(worker.task())
    with led(db.path, alive=False):
        db.execute("EXECUTE TASK job")
    assert [told(row)[0] for row in worker.rows()] == ["failed", "ok"]


@pytest.mark.parametrize("press", [lambda db: db.interrupt(), lambda db: _thread.interrupt_main()], ids=["call", "key"])
def test_it_is_interrupted_as_any_statement_is(db: Database, press: Callable[[Database], None]) -> None:
    db.execute(f"CREATE TASK slow SCHEDULE EVERY INTERVAL '1 day' AS $$ INSERT INTO log VALUES ('1'); {LONG} $$")

    def once_it_goes() -> None:
        """Earlier there is nothing to interrupt, and nothing would end it then."""
        until(lambda: [run.step for run in Worker(db.path).rows()] == [1])
        time.sleep(0.2)  # until the endless statement has begun, which nothing tells
        press(db)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    threading.Thread(target=once_it_goes, daemon=True).start()
    try:
        with pytest.raises((QueryError, KeyboardInterrupt)) as caught:
            db.execute("EXECUTE TASK slow")
    finally:
        signal.signal(signal.SIGINT, before)
    if isinstance(caught.value, QueryError):
        assert caught.value.code == "interrupted"
    (row,) = Worker(db.path).rows()
    assert (row.error, told(row)) == ("interrupted; statement 2 of 2 was rolled back", ("failed", 1, 1, None))
    db.execute("EXECUTE TASK job")
    assert logged(db) == ["1", "1"]

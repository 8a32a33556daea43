"""Alerts of failed and missed runs: what is sent, when, how often, and that addresses stay secret."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import snapdb
from snapdb.daemon.alerts import AlertSender, endpoint, is_loopback, post_within, retry_delay
from snapdb.errors import CommitConflict, ParseError, QueryError
from snapdb.storage.catalog_db import task_rows
from snapdb.storage.catalog_db.task_rows import RunRows, TaskRows
from snapdb.types import Task, TaskRun
from tests.support.daemon_world import DAY, HOUR, MINUTE, SECOND, World
from tests.support.daemons import Shop, serving
from tests.support.inside.daemon import Log
from tests.support.inside.execute import Ended, EndState, record
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE, until

SECRET = "/hook-d41d8cd98f"
"""The part of an address that nothing may show."""
NOW = 1_795_316_400 * SECOND


class Receiver:
    """An HTTP server on this machine that keeps what is posted to it."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.posts: list[tuple[dict[str, Any], str | None]] = []
        """The JSON objects, each with its Idempotency-Key."""
        self.answers = threading.Event()
        """Whether requests are answered."""
        self.answers.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.path == SECRET
                assert self.headers["Content-Type"] == "application/json"
                receiver.posts.append((body, self.headers["Idempotency-Key"]))
                receiver.answers.wait(PATIENCE)
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{SECRET}"

    def close(self) -> None:
        self.answers.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        return {"SNAPDB_NOTIFY_OPS": self.url}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "d", NOW)


def fails(task: Task, run: TaskRun) -> tuple[float, EndState]:
    return 0.5, "failed"


def sender(world: World, environment: dict[str, str], post: Callable[[str, bytes, str], int] | None = None) -> Any:
    """The sender of the world's leader."""
    log = Log(world.said, "text", world.clock)
    holder = f"daemon {world.terms}"
    return AlertSender(world.catalog_db, holder, world.clock, log, environment=environment, post=post)


def listed(path: Path) -> list[tuple[Any, ...]]:
    """Task, run, attempt and what became of the alert, of every attempt."""
    with snapdb.connect(path, read_only=True) as db:
        return db.execute("SELECT task, run, attempt, notified FROM snapdb.task_runs ORDER BY ALL").fetchall()


def alerts(world: World) -> list[str]:
    """What became of each alert, by the catalog's rows, which takes less time than opening the database."""
    return [state for (state,) in world.catalog_db.rows("SELECT state FROM alerts ORDER BY task, run")]


def notified(path: Path) -> list[str | None]:
    return [row[3] for row in listed(path)]


def test_a_run_that_failed_after_its_retries_is_posted_once(world: World, receiver: Receiver) -> None:
    world.fate = fails
    world.task("nightly", HOUR, retries=2, notify="ops")
    world.task("silent", HOUR)
    sends = sender(world, receiver.environment)
    world.for_(HOUR + SECOND)
    assert [run.attempt for run in world.runs() if run.name == "nightly"] == [1]
    sends.step()
    assert receiver.posts == []  # two attempts are left
    world.for_(MINUTE)
    last = next(run for run in world.runs() if run.name == "nightly" and run.attempt == 3)
    assert listed(world.path) == [
        *(("nightly", 1, attempt, None) for attempt in (1, 2)),
        ("nightly", 1, 3, "pending"),
        ("silent", 1, 1, None),
    ]
    sends.step()
    sends.step()
    ((body, key),) = receiver.posts
    assert body.pop("id") == key
    with snapdb.connect(world.path, read_only=True) as db:
        ((scheduled, started, ended),) = db.execute(
            "SELECT strftime(COLUMNS(['scheduled', 'started', 'ended'])::TIMESTAMP, '%Y-%m-%dT%H:%M:%S.%fZ') "
            "FROM snapdb.task_runs WHERE attempt = 3"
        ).fetchall()
    assert body == {
        "task": "nightly",
        "run": 1,
        "state": "failed",
        "scheduled": scheduled,
        "started": started,
        "ended": ended,
        "attempts": 3,
        "error": {"code": None, "message": last.error},
        "version": last.version,
        "database": str(world.path),
    }
    assert notified(world.path) == [None, None, "sent", None]
    assert "alert.sent task=nightly run=1 notify=ops" in world.said.getvalue()


def test_a_retry_that_succeeds_posts_nothing(world: World, receiver: Receiver) -> None:
    world.fate = lambda task, run: (0.5, "ok" if run.attempt == 2 else "timeout")
    world.task("nightly", HOUR, retries=1, notify="ops")
    world.for_(HOUR + MINUTE)
    sender(world, receiver.environment).step()
    assert [run.state for run in world.runs()] == ["timeout", "ok"]
    assert receiver.posts == []


def test_every_missed_run_is_posted_with_its_reason(world: World, receiver: Receiver) -> None:
    world.task("hourly", HOUR, notify="ops")
    world.fate = lambda task, run: (2 * HOUR / SECOND, "ok")
    world.for_(2 * HOUR + MINUTE)  # the second fire time comes during the first run
    world.clock.go(5 * HOUR + 30 * MINUTE)
    world.take_over()
    world.for_(MINUTE)
    sender(world, receiver.environment).step()
    missed = [run for run in world.runs() if run.state == "missed"]
    assert len(missed) >= 5
    bodies = {body["run"]: body for body, _ in receiver.posts if body["state"] == "missed"}
    assert sorted(bodies) == [run.run for run in missed]
    for run in missed:
        body = bodies[run.run]
        assert (body["started"], body["ended"], body["attempts"]) == (None, None, 0)
        assert body["error"] == {"code": None, "message": run.error}
    assert len({key for _, key in receiver.posts}) == len(receiver.posts)


def test_a_receiver_that_fails_is_tried_again_with_the_same_id_for_a_day(world: World, receiver: Receiver) -> None:
    world.fate = fails
    world.task("nightly", 30 * DAY, notify="ops")
    world.for_(30 * DAY + MINUTE)
    sends, receiver.status = sender(world, receiver.environment), 503
    began, tries = world.clock.now(), []
    while alerts(world) == ["pending"]:
        count = len(receiver.posts)
        sends.step()
        if len(receiver.posts) > count:
            tries.append(world.clock.now() - began)
        world.clock.go(SECOND if world.clock.now() < began + HOUR else MINUTE)
    assert notified(world.path) == ["given_up"]
    waits = [(after - before) // SECOND for before, after in pairwise(tries)]
    assert waits[:10] == [2**tries for tries in range(1, 11)]
    assert max(waits) <= 3660
    assert DAY <= tries[-1] <= DAY + 2 * MINUTE
    assert len({key for _, key in receiver.posts}) == 1
    assert len({body["id"] for body, _ in receiver.posts}) == 1
    said = world.said.getvalue()
    assert said.count("alert.failed") == len(tries) - 1
    assert said.count("alert.given_up task=nightly run=1 notify=ops") == 1
    assert 'why="HTTP status 503"' in said
    sends.step()
    assert len(receiver.posts) == len(tries)


def test_a_receiver_that_recovers_gets_the_alert(world: World, receiver: Receiver) -> None:
    world.fate = fails
    world.task("nightly", HOUR, notify="ops")
    world.for_(HOUR + MINUTE)
    sends, receiver.status = sender(world, receiver.environment), 500
    sends.step()
    receiver.status = 204
    sends.step()  # its next try is not due yet
    assert (len(receiver.posts), notified(world.path)) == (1, ["pending"])
    world.clock.go(retry_delay(1))
    sends.step()
    assert (len(receiver.posts), notified(world.path)) == (2, ["sent"])
    assert receiver.posts[0] == receiver.posts[1]


def test_a_clock_that_is_set_back_does_not_stop_alerts(world: World, receiver: Receiver) -> None:
    world.fate = fails
    world.task("nightly", HOUR, notify="ops")
    world.for_(HOUR + MINUTE)
    world.clock.wall -= 3 * DAY
    sender(world, receiver.environment).step()
    assert notified(world.path) == ["sent"]


def test_an_alert_whose_leader_dies_before_it_notes_the_answer_is_sent_again(world: World, receiver: Receiver) -> None:
    class KilledError(BaseException):
        """The process ends here."""

    def killed(url: str, body: bytes, key: str) -> int:
        assert post_within(url, body, key) == 200
        raise KilledError

    world.fate = fails
    world.task("nightly", HOUR, notify="ops")
    world.for_(HOUR + MINUTE)
    old = sender(world, receiver.environment, killed)
    with pytest.raises(KilledError):
        old.step()
    assert notified(world.path) == ["pending"]
    world.take_over()
    sender(world, receiver.environment).step()
    assert notified(world.path) == ["sent"]
    first, second = receiver.posts
    assert first == second


def test_a_scheduler_that_no_longer_leads_sends_nothing(world: World, receiver: Receiver) -> None:
    world.fate = fails
    world.task("nightly", HOUR, notify="ops")
    world.for_(HOUR + MINUTE)
    old = sender(world, receiver.environment)
    world.take_over()
    with pytest.raises(CommitConflict) as lost:
        old.step()
    assert lost.value.code == "leader-lost"
    assert receiver.posts == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (None, "SNAPDB_NOTIFY_OPS of the scheduler is not set"),
        (" ", "is not set"),
        (f"http://alerts.example{SECRET}", "must be an https URL; http is supported only for loopback"),
        (f"http://10.0.0.7{SECRET}", "must be an https URL"),
        (f"http://localhost.example{SECRET}", "must be an https URL"),
        (f"http://127.0.0.1.example{SECRET}", "must be an https URL"),
        (f"file://{SECRET}", "is not a valid URL"),
        (f"ftp://127.0.0.1{SECRET}", "must be an https URL"),
        (SECRET, "is not a valid URL"),
        (f"https://{SECRET}", "is not a valid URL"),
        (f"https://me:pass@alerts.example{SECRET}", "is not a valid URL"),
        (f"https://alerts.example:x{SECRET}", "is not a valid URL"),
        (f"https://alerts.example{SECRET} x", "is not a valid URL"),
        (f"https://[::1{SECRET}", "is not a valid URL"),
    ],
)
def test_without_an_allowed_address_an_alert_waits_and_the_log_says_so_once(
    world: World, receiver: Receiver, url: str | None, why: str
) -> None:
    world.fate = fails
    world.task("nightly", HOUR, notify="ops")
    world.for_(2 * HOUR + MINUTE)

    def post(url: str, body: bytes, key: str) -> int:
        raise AssertionError("nothing may be sent there")

    sends = sender(world, {} if url is None else {"SNAPDB_NOTIFY_OPS": url}, post)
    for _ in range(3):
        sends.step()
        world.clock.go(2 * DAY)
    assert notified(world.path) == ["pending", "pending"]
    said = world.said.getvalue()
    assert said.count("alert.waits notify=ops") == 1
    assert why in said
    assert SECRET not in said
    sender(world, receiver.environment).step()  # days later, with the address of a scheduler that was started anew
    assert notified(world.path) == ["sent", "sent"]


def test_https_and_http_on_this_machine_are_allowed() -> None:
    for url in ("https://alerts.example/a?b=c", "HTTPS://alerts.example", "http://localhost:9/x", "http://[::1]:9/x"):
        assert endpoint("Ops", {"SNAPDB_NOTIFY_OPS": url}) == (url, None)
    assert not is_loopback("alerts.example")


def test_receivers_do_not_wait_for_one_that_cannot_be_reached(world: World, receiver: Receiver) -> None:
    world.fate = fails
    for number in range(4):
        world.task(f"a{number}", HOUR, notify="gone")
        world.task(f"b{number}", HOUR, notify="ops")
    world.for_(HOUR + MINUTE)
    tried = []

    def post(url: str, body: bytes, key: str) -> int:
        if url == receiver.url:
            return post_within(url, body, key)
        tried.append(key)
        raise TimeoutError(f"no answer from {url}")

    gone = {"SNAPDB_NOTIFY_GONE": f"https://gone.example{SECRET}"}
    sends = sender(world, receiver.environment | gone, post)
    sends.step()
    assert (len(tried), len(receiver.posts)) == (1, 4)
    sends.step()
    assert len(set(tried)) == 2
    assert "why=TimeoutError" in world.said.getvalue()
    assert SECRET not in world.said.getvalue()


def test_a_redirect_is_not_followed(world: World, receiver: Receiver) -> None:
    other = Receiver()
    try:
        receiver.status, receiver.headers = 307, {"Location": other.url}
        assert post_within(receiver.url, b"{}", "k") == 307
        receiver.status = 302
        assert post_within(receiver.url, b"{}", "k") == 302
        assert other.posts == []
    finally:
        other.close()


def test_a_try_takes_only_so_long(receiver: Receiver) -> None:
    receiver.answers.clear()
    with pytest.raises(TimeoutError):
        post_within(receiver.url, b"{}", "k", seconds=0.05)


def test_the_proxy_of_the_environment_is_not_asked_for_this_machine(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert post_within(receiver.url, b"{}", "k") == 200


def test_runs_go_on_while_a_receiver_hangs_and_no_trace_of_its_address_is_left(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path / "shop.snapdb")
    shop.task("bad", 1, "SELECT * FROM nowhere", notify="ops")
    shop.task("good", 1, "INSERT INTO done SELECT 'good', {run}, 1")
    monkeypatch.setenv("SNAPDB_NOTIFY_OPS", receiver.url)
    receiver.answers.clear()
    with serving(shop) as daemon:
        until(lambda: receiver.posts)
        until(lambda: "failed" in [run.state for run in shop.runs()])  # a busy machine misses the first runs
        ended = len([run for run in shop.runs() if run.state == "ok"])
        until(lambda: len([run for run in shop.runs() if run.state == "ok"]) >= ended + 3)
        receiver.answers.set()
        with shop.catalog_db.writing() as connection:
            for task in TaskRows(connection).read().values():
                TaskRows(connection).drop(task)
        until(lambda: {state for name, *_, state in listed(shop.path) if name == "bad"} - {None} == {"sent"})
        daemon.stop()
        daemon.process.wait(PATIENCE)
    codes = {(body["state"], body["error"]["code"]) for body, _ in receiver.posts}
    assert ("failed", "unknown-table") in codes <= {("failed", "unknown-table"), ("missed", None)}
    sent = {(name, run) for name, run, _, state in listed(shop.path) if state == "sent"}
    assert {(body["task"], body["run"]) for body, _ in receiver.posts} == sent
    shop.catalog_db.close()
    with snapdb.connect(shop.path) as db:
        shown = str(db.execute("SHOW TASKS")) + str(db.execute("SELECT * FROM snapdb.task_runs").arrow().to_pydict())
    files = b"".join(path.read_bytes() for path in shop.path.rglob("*") if path.is_file())
    for secret in (SECRET, receiver.url.removesuffix(SECRET).removeprefix("http://")):
        assert secret.encode() not in files
        assert secret not in daemon.log() + shown


@contextmanager
def opened(tmp_path: Path) -> Iterator[snapdb.Database]:
    with snapdb.connect(tmp_path / "shop.snapdb") as db:
        db.script(
            "CREATE TABLE t AS SELECT 1 AS a; "
            "CREATE TASK bad SCHEDULE EVERY INTERVAL '1 day' WITH (notify = 'Ops') AS SELECT * FROM nowhere"
        )
        yield db


def test_a_run_by_hand_that_fails_is_queued(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        with pytest.raises(QueryError):
            db.execute("EXECUTE TASK bad")
        db.execute("ALTER TASK bad SET (notify = NULL)")
        with pytest.raises(QueryError):
            db.execute("EXECUTE TASK bad")
        assert notified(db.path) == ["pending", None]
        assert db.execute("SELECT task, pending_alerts FROM snapdb.task_totals").fetchall() == [("bad", 1)]
        assert db.execute("CHECK DATABASE").fetchall() == []


def test_a_run_that_ctrl_c_ends_is_not_queued(world: World) -> None:
    task = world.task("nightly", HOUR, notify="ops")
    with world.catalog_db.writing() as connection:
        run = RunRows(connection).begin(task, "manual", NOW, "me", NOW)
    record(world.catalog_db, task, Ended(run, "failed", NOW + 1, error="interrupted", interrupted=True))
    assert notified(world.path) == [None]


def test_a_run_that_waits_for_a_retry_when_its_task_is_replaced_has_failed_for_good(world: World) -> None:
    world.fate = fails
    task = world.task("nightly", HOUR, retries=5, notify="ops")
    world.for_(HOUR + SECOND)
    assert notified(world.path) == [None]
    with world.catalog_db.writing() as connection:
        TaskRows(connection).put(task, task)
    assert notified(world.path) == ["pending"]


def test_the_option_is_shown_changed_and_cleared(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        shown = "SELECT notify FROM (SELECT * FROM snapdb.tasks)"
        assert db.execute(shown).fetchall() == [("ops",)]
        assert dict(db.execute("DESCRIBE TASK bad").fetchall())["notify"] == "ops"
        assert "notify" in db.execute("SHOW TASKS").arrow().column_names
        for value, stored in (("pager_2", "pager_2"), ("''", None), ("'ON_CALL'", "on_call"), ("NULL", None)):
            db.execute(f"ALTER TASK bad SET (notify = {value})")
            assert db.execute(shown).fetchall() == [(stored,)]
    assert snapdb.format_sql("ALTER TASK a SET (notify = NULL)").strip() == "ALTER TASK a SET (notify = NULL);"


@pytest.mark.parametrize("value", ["'on call'", "5", "INTERVAL '1 day'", f"'{'a' * 65}'", "'ö'"])
def test_a_name_that_no_variable_can_have_is_an_error(value: str, tmp_path: Path) -> None:
    with opened(tmp_path) as db, refused("bad-option", "SNAPDB_NOTIFY_OPS", at=value):
        db.execute(f"ALTER TASK bad SET (notify = {value})")


def test_an_address_in_the_place_of_its_name_is_not_repeated(tmp_path: Path) -> None:
    with opened(tmp_path) as db, pytest.raises(ParseError) as error:
        db.execute(f"ALTER TASK bad SET (notify = 'https://alerts.example{SECRET}')")
    assert error.value.code == "bad-option"
    assert SECRET not in str(error.value) + repr(error.value)


def test_totals_keep_growing_when_old_runs_are_deleted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_rows, "_KEPT", 10)
    world.fate = lambda task, run: (0.5, "failed" if run.run % 3 == 0 and run.attempt == 1 else "ok")
    world.task("often", HOUR, retries=1)
    world.task("bad", HOUR, notify="ops", overlap="queue")
    world.for_(40 * HOUR + MINUTE)
    with snapdb.connect(world.path, read_only=True) as db:
        query = "SELECT task, state, runs FROM snapdb.task_totals ORDER BY ALL"
        assert db.execute(query).fetchall() == [("bad", "failed", 13), ("bad", "ok", 27), ("often", "ok", 40)]
        ((recorded,),) = db.execute("SELECT count(*) FROM snapdb.task_runs").fetchall()
    assert recorded < 40
    # Alerts that have been pending for a day are deleted with their runs, and newer ones stay.
    rows = world.catalog_db.rows("SELECT run FROM alerts ORDER BY run")
    assert [run for (run,) in rows] == [run for run in range(3, 41, 3) if run >= 40 - 24]


def test_a_publication_has_no_alerts_and_a_backup_has_them(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        with pytest.raises(QueryError):
            db.execute("EXECUTE TASK bad")
        db.execute(f"PUBLISH TO 'file://{tmp_path}/published'")
        db.execute(f"BACKUP DATABASE TO '{tmp_path}/backup.snapdb'")
    assert notified(tmp_path / "backup.snapdb") == ["pending"]
    with snapdb.connect(f"file://{tmp_path}/published", cache=tmp_path / "cache") as copy:
        assert copy.execute("SELECT notified FROM snapdb.task_runs").fetchall() == [(None,)]
        assert copy.execute("SELECT pending_alerts FROM snapdb.task_totals").fetchall() == [(0,)]


def test_a_damaged_alert_does_not_stop_the_others(world: World, receiver: Receiver) -> None:
    world.fate = fails
    world.task("a", HOUR, notify="ops")
    world.task("b", HOUR, notify="ops")
    world.for_(HOUR + MINUTE)
    with world.catalog_db.writing() as connection:
        connection.execute("UPDATE alerts SET content = '{' WHERE task = 1")
    sends = sender(world, receiver.environment)
    sends.step()
    sends.step()
    assert [body["task"] for body, _ in receiver.posts] == ["b"]


def test_reading_does_not_make_the_tables(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "d") as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS a")
        assert db.execute("SELECT * FROM snapdb.task_totals").fetchall() == []
        assert db.execute("SHOW TASK RUNS").fetchall() == []
    shutil.copytree(tmp_path / "d", tmp_path / "copy")
    with snapdb.connect(tmp_path / "copy", read_only=True) as db:
        assert db.execute("SELECT * FROM snapdb.task_totals").fetchall() == []
    assert b"CREATE TABLE alerts" not in (tmp_path / "d" / "catalog.sqlite").read_bytes()

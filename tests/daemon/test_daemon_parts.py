"""The daemon's parts by themselves: who leads, workers that misbehave, and lines of the log."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from snapdb.storage.catalog_db.task_rows import LeaderLease, RunRows
from snapdb.types import TaskRun
from tests.support.daemon_world import MINUTE, SECOND, StandingClock, World
from tests.support.inside import open_catalog_db
from tests.support.inside.daemon import Clock, Died, Field, Intervals, Log, WorkerPool, _LeaseHolder, _notify
from tests.support.inside.execute import Ended
from tests.support.inside.storage import open_db_dir
from tests.support.places import ROOT
from tests.support.waiting import PATIENCE, until


class QuietClock(StandingClock):
    """Lets no heart beat."""

    def pause(self, stopped: threading.Event, seconds: float) -> bool:
        return stopped.wait(PATIENCE)

    def real(self, seconds: float) -> float:
        return 1.0


def test_a_silent_leader_is_followed_after_a_while_and_one_that_beats_is_not(tmp_path: Path) -> None:
    db_dir = open_db_dir(tmp_path / "d", read_only=False)
    catalog_db, clock, said = open_catalog_db(db_dir.path), QuietClock(MINUTE), io.StringIO()
    one, other = (_LeaseHolder(catalog_db, clock, Intervals(), Log(said, "text", clock)) for _ in range(2))
    first = one.poll()
    assert first is not None
    assert other.poll() is None
    for _ in range(20):
        clock.go(SECOND)
        assert LeaderLease(catalog_db).heartbeat(first.holder)
        assert other.poll() is None
    for _ in range(5):
        clock.go(SECOND)
        assert other.poll() is None
    assert first.lost() == "no heartbeat could be written for 25 s"  # which beats from elsewhere do not change
    clock.go(60 * SECOND)  # the machine stood still, the leader with it: perhaps it lives
    assert other.poll() is None
    for _ in range(6):
        clock.go(SECOND)
        second = other.poll()
    assert second is not None
    assert Intervals().lease_ttl + Intervals().poll + Intervals().heartbeat < 10, (
        "docs promise another leader within ten seconds"
    )
    assert not LeaderLease(catalog_db).heartbeat(first.holder)
    assert f"leader.won holder={second.holder} from={first.holder}" in said.getvalue()
    first.stop()
    second.stop(resign=True)
    assert LeaderLease(catalog_db).read() is None
    third = one.poll()
    assert third is not None
    third.stop()
    again = one.poll()  # it was itself who led, and leads no longer: nobody need wait for it
    assert again is not None
    again.stop()
    catalog_db.close()


@pytest.fixture
def run(tmp_path: Path) -> TaskRun:
    world = World(tmp_path / "d", MINUTE)
    task = world.task("t", MINUTE, timeout=SECOND // 10)
    with world.catalog_db.writing(counted=False) as connection:
        return RunRows(connection).begin(task, "schedule", MINUTE, "me", MINUTE)


def ended(run: TaskRun, path: Path, *command: str, timeout: int = int(PATIENCE) * SECOND) -> Ended | Died:
    """How a run of a task ends whose worker is a command."""
    task = World(path, MINUTE).task("t", MINUTE, timeout=timeout)
    clock = Clock()
    pool = WorkerPool(command, 1, clock, Intervals(kill=0.2), Log(io.StringIO(), "text", clock))
    pool.start(task, run)
    try:
        while not (over := pool.ended()):
            assert pool.free() == 0
            clock.wait(0.05)
        assert pool.free() == 1
        return over[0]
    finally:
        pool.close()
        clock.close()


def test_a_worker_that_does_not_stop_is_killed(run: TaskRun, tmp_path: Path) -> None:
    died = ended(run, tmp_path / "e", sys.executable, "-c", "import time; time.sleep(600)", timeout=SECOND // 10)
    assert died == Died(run, "it was asked to stop (its timeout), did not stop within 0.2 s, and was killed", "timeout")


def test_a_worker_that_ends_or_cannot_begin_is_a_run_that_died(run: TaskRun, tmp_path: Path) -> None:
    died = ended(run, tmp_path / "e", sys.executable, "-c", "import sys; sys.exit(3)")
    assert died == Died(run, "its worker ended with exit code 3")
    half = "import time; print('{\"ended', flush=True); time.sleep(600)"
    died = ended(run, tmp_path / "g", sys.executable, "-c", half)
    assert died == Died(run, "its worker ended by signal 9 (killed; out of memory?)")
    died = ended(run, tmp_path / "f", str(tmp_path / "nothing"))
    assert died == Died(run, "no worker could be started (No such file or directory)")


def test_a_worker_that_does_not_understand_what_it_is_to_do_ends(tmp_path: Path) -> None:
    path = World(tmp_path / "d", MINUTE).path
    command = [sys.executable, "-m", "snapdb.daemon.worker", str(path), str(os.getpid())]
    worker = subprocess.run(command, input=b'{"do": "run"}\n', capture_output=True, timeout=PATIENCE, check=False)
    assert worker.returncode == 70
    assert b"KeyError" in worker.stderr


def test_what_a_worker_complains_of_is_logged_and_its_stdin_tells_it_what_to_do(tmp_path: Path, run: TaskRun) -> None:
    code = "import json, sys; print(json.loads(input())['do'], file=sys.stderr); print('\\x1b[31mred', file=sys.stderr)"
    clock, said = Clock(), io.StringIO()
    pool = WorkerPool([sys.executable, "-c", code], 1, clock, Intervals(), Log(said, "text", clock))
    pool.start(World(tmp_path / "e", MINUTE).task("t", MINUTE), run)
    while not pool.ended():
        clock.wait(1.0)
    assert "WARNING worker.says worker=1 line=run\n" in said.getvalue()
    assert r'line="\u001b[31mred"' in said.getvalue()
    clock.close()


def test_a_worker_that_was_started_ahead_and_ended_is_replaced_after_a_while() -> None:
    clock, said = StandingClock(MINUTE), io.StringIO()
    pool = WorkerPool([sys.executable, "-c", ""], 1, clock, Intervals(), Log(said, "text", clock))

    def ended(times: int) -> bool:
        return not pool.ended() and said.getvalue().count("worker.end") == times

    pool.warm()
    until(lambda: ended(1))
    pool.warm()
    assert said.getvalue().count("worker.start") == 1
    clock.go(MINUTE)
    pool.warm()
    until(lambda: ended(2))
    assert said.getvalue().count("worker.start") == 2
    broken = WorkerPool([str(ROOT / "nothing")], 1, clock, Intervals(), Log(said, "text", clock))
    broken.warm()
    assert "no worker could be started (No such file or directory)" in said.getvalue()


def test_a_line_of_the_log_is_a_line_whatever_is_in_it() -> None:
    clock = StandingClock(1_795_316_400_312_999)
    fields: dict[str, Field] = {
        "task": "größe",
        "why": 'a "b"\n\x85\u2028\x9b',
        "rows": 3,
        "seconds": 1.5,
        "none": None,
        "late": 0.0,
    }
    text, lines = io.StringIO(), io.StringIO()
    Log(text, "text", clock).info("run.end", **fields)
    Log(lines, "json", clock).warn("run.end", **fields)
    assert text.getvalue() == (
        '2026-11-22T03:00:00.312Z INFO run.end task="größe" why="a \\"b\\"\\n\\u0085\\u2028\\u009b" rows=3 seconds=1.5 '
        "late=0\n"
    )
    (line,) = lines.getvalue().splitlines()
    assert json.loads(line) == {"time": "2026-11-22T03:00:00.312Z", "level": "WARNING", "event": "run.end"} | fields
    text.close()
    Log(text, "text", clock).info("nobody.reads")  # and nobody is stopped by that


def test_the_page_tells_of_every_event_of_the_log() -> None:
    code = "".join(path.read_text() for path in (ROOT / "snapdb" / "daemon").glob("*.py"))
    logged = set(re.findall(r'\b(?:info|warn|error|write)\(\s*"([a-z.]+)"', code))
    page = (ROOT / "docs" / "schedule.md").read_text()
    told = re.findall(r"^\| `([a-z.]+)` \| (?:INFO|WARNING|ERROR)", page, re.MULTILINE)
    assert len(logged) > 10
    assert sorted(told) == sorted(logged)


def test_a_wait_is_cut_short_by_a_wake_before_or_during_it() -> None:
    clock = Clock()
    clock.wake()
    waits = threading.Thread(target=lambda: [clock.wait(10 * PATIENCE) for _ in range(2)], daemon=True)
    waits.start()
    time.sleep(0.05)
    clock.wake()
    waits.join(PATIENCE)
    assert not waits.is_alive()
    before = clock.monotonic()
    clock.wait(0.02)
    assert clock.monotonic() - before >= 0.02
    clock.close()


def test_systemd_is_told_where_it_wants_to_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    _notify("READY=1")
    place = os.path.relpath(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(place)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        _notify("READY=1")
        assert listener.recv(100) == b"READY=1"
    _notify("STOPPING=1")  # nobody listens any more

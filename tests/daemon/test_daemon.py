"""Real daemons and their workers: killed, stopped, timed out, out of disk."""

from __future__ import annotations

import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise, takewhile
from pathlib import Path

import pytest

import snapdb
from snapdb.schedule import firings
from snapdb.storage.catalog_db.task_rows import LeaderLease, RunRows
from snapdb.types import Task, TaskRun
from tests.support.daemon_child import QuickClock
from tests.support.daemons import SECOND, Daemon, Shop, lives, serving
from tests.support.inside.daemon import Clock, Intervals, Log, WorkerPool
from tests.support.inside.execute import Ended
from tests.support.thoroughness import SOAK
from tests.support.waiting import PATIENCE, until


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / "shop.snapdb")
    yield shop
    shop.catalog_db.close()


def say(name: str, *parts: int) -> str:
    return ";\n".join(f"INSERT INTO done SELECT '{name}', {{run}}, {part}" for part in parts)


def test_two_daemons_race_through_an_hour_and_are_killed_all_the_time(shop: Shop) -> None:
    factor, chance = 300, random.Random(os.environ.get("SNAPDB_SEED", "9"))
    origin = time.time_ns() // 1000
    clock = QuickClock(factor, origin)
    common = {"now": origin, "retries": 8}
    tasks = [
        shop.task("all", 300, say("all", 1, 2), catch_up="all", overlap="queue", **common),
        shop.task("last", 400, say("last", 1), catch_up="last", overlap="queue", **common),
        shop.task("none", 240, say("none", 1, 2, 3), **common),
        shop.task("never", 500, say("never", 1) + "; SELECT 1 FROM nowhere", **{**common, "retries": 1}),
    ]

    def started(name: str) -> Daemon:
        return Daemon(
            shop.path.parent / f"{name}.log",
            "-m",
            "tests.support.daemon_child",
            str(shop.path),
            str(factor),
            str(origin),
        )

    daemons = {name: started(name) for name in "ab"}
    killed = 0
    try:
        while clock.now() < origin + 3600 * SECOND or killed < 4:
            time.sleep(chance.uniform(0.8, 2.4))
            name = chance.choice("ab")
            workers = daemons[name].workers()
            if workers and chance.random() < 0.4:
                with suppress(ProcessLookupError):
                    os.kill(chance.choice(workers), signal.SIGKILL)
            else:
                daemons[name].kill()
                daemons[name] = started(name)
            killed += 1
        end = clock.now()
        until(lambda: shop.considered() >= end)
        for daemon in daemons.values():
            daemon.stop()
        assert [daemon.process.wait(PATIENCE) for daemon in daemons.values()] == [0, 0]
    finally:
        for daemon in daemons.values():
            daemon.kill()
    rows, done = shop.runs(), shop.done()
    for task in tasks:
        wanted = list(takewhile(lambda moment: moment <= end, firings(task.schedule, task.schedule.anchor)))
        mine = [run for run in rows if run.task == task.id and run.scheduled <= end]
        first = [run for run in mine if run.attempt == 1]
        assert [run.scheduled for run in sorted(first, key=lambda run: run.scheduled)] == wanted, task.name
        assert len({run.run for run in mine}) == len(wanted)
        for one in first:
            attempts = [run for run in mine if run.run == one.run]
            last = max(attempts, key=lambda run: run.attempt)
            for part in (1, 2, 3):
                assert done[(task.name, one.run, part)] == (part <= last.step), (task.name, last)
            if last.state == "ok":
                assert last.step == task.body.count(";") + 1
            assert last.state != "running"
            if last.state == "missed":
                assert task.name not in ("all",)
                assert re.search("no scheduler was running|overlap = skip", str(last.error))
    assert max(done.values()) == 1
    states = Counter((run.name, run.state) for run in rows)
    assert states["all", "ok"] >= 6
    assert not states["never", "ok"]


ENDLESS = "SELECT sum(hash(a.range + b.range)) FROM range(10_000_000) a, range(10_000_000) b"


def test_runs_that_time_out_find_no_graph_or_lose_their_worker_are_on_record(shop: Shop) -> None:
    with snapdb.connect(shop.path) as db:
        db.execute("CREATE TABLE node AS SELECT range AS id FROM range(3)")
        db.execute("CREATE PROPERTY GRAPH g VERTEX TABLES (node KEY (id))")
    slow = shop.task("slow", 3600, f"{say('slow', 1)}; {ENDLESS}", first=1, timeout=SECOND // 2)
    graph = shop.task("snaps", 1, "CREATE SNAPSHOT s_{run} OF g")
    shot = shop.task("shot", 3600, f"{say('shot', 1)}; {ENDLESS}", first=1, retries=1)

    def ended(task: Task, state: str) -> list[TaskRun]:
        return [run for run in shop.runs() if run.task == task.id and run.state == state]

    with serving(shop, form="json", grace=0.5, jobs=3) as daemon:
        until(lambda: ended(graph, "ok"))
        with snapdb.connect(shop.path) as db:
            db.execute("DROP PROPERTY GRAPH g CASCADE")
        until(lambda: [run for run in ended(shot, "running") if run.step == 1])
        until(lambda: ended(slow, "timeout"))
        until(lambda: [run for run in ended(graph, "failed") if 'graph "g" does not exist' in str(run.error)])
        for worker in daemon.workers():
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        until(lambda: [run for run in ended(shot, "running") if run.attempt == 2])
        daemon.signal(signal.SIGINT)
        assert daemon.process.wait(PATIENCE) == 130
        told = [json.loads(line) for line in daemon.log().splitlines()]
    assert "timeout" in str(ended(slow, "timeout")[0].error)
    first, second = [run for run in shop.runs() if run.task == shot.id and run.run == 1]
    assert "its worker ended by signal 9" in str(first.error)
    assert (first.step, second.step, second.state) == (1, 1, "failed")
    assert shop.done()["shot", 1, 1] == 1
    (stopped,) = [run for run in shop.runs() if run.task == slow.id and run.run == 1]
    assert shop.done()["slow", 1, 1] == stopped.step  # none, where the machine took the run's whole time to begin it
    events = {one["event"] for one in told}
    assert events >= {"daemon.start", "leader.won", "run.start", "run.end", "run.retry", "run.stopped", "worker.end"}
    assert told[-1]["event"] == "daemon.stop"
    assert told[-1]["why"] == "SIGINT"
    assert told[-1]["rolled_back"] >= 1


def test_when_asked_to_end_runs_finish_or_are_rolled_back(shop: Shop) -> None:
    work = "SELECT count(*) FROM range(20_000_000) t(i) WHERE hash(i) % 7 = 3"
    long = f"{say('long', 1)}; INSERT INTO done SELECT 'long', ({ENDLESS}) % 2, 2"
    shop.task("long", 3600, long, first=1, retries=1)
    with serving(shop, grace=60) as daemon:
        until(lambda: [run.step for run in shop.runs()] == [1])
        shop.task("short", 3600, f"{work}; {say('short', 1)}", first=0.5)
        until(lambda: [run.state for run in shop.runs()] == ["running"] * 2)
        daemon.signal(signal.SIGTERM)
        until(lambda: [run.state for run in shop.runs()] == ["running", "ok"])
        daemon.signal(signal.SIGTERM)  # no more grace
        assert daemon.process.wait(PATIENCE) == 0
        said = daemon.log()
    stopped, finished = shop.runs()
    assert (finished.state, stopped.state) == ("ok", "failed")
    assert "shutting down" in str(stopped.error)
    assert stopped.retry is not None
    assert dict(shop.done()) == {("short", 1, 1): 1, ("long", 1, 1): 1}
    assert "daemon.stop why=SIGTERM finished=1 rolled_back=1" in said
    assert LeaderLease(shop.catalog_db).read() is None


def test_a_second_daemon_takes_over_after_a_kill(shop: Shop) -> None:
    task = shop.task("quick", 1, say("quick", 1))
    with serving(shop, "a") as one, serving(shop, "b") as another:
        until(lambda: "leader.waits" in one.log() + another.log())
        until(shop.runs)
        led = LeaderLease(shop.catalog_db).read()
        assert led is not None
        first, second = (one, another) if led.pid == one.process.pid else (another, one)
        workers = first.workers()
        first.kill()
        killed = time.time_ns() // 1000
        until(lambda: not any(map(lives, workers)))
        until(lambda: any(run.started and run.started > killed for run in shop.runs()))
        won = LeaderLease(shop.catalog_db).read()
        assert won is not None
        assert won.pid == second.process.pid
        second.signal(signal.SIGTERM)
        assert second.process.wait(PATIENCE) == 0
    rows = [run for run in shop.runs() if run.task == task.id]
    assert len({run.scheduled for run in rows}) == len(rows)
    assert {b - a for a, b in pairwise(run.scheduled for run in rows)} == {SECOND}
    assert {run.state for run in rows} <= {"ok", "missed", "failed"}


def test_a_standby_has_a_worker_ready_which_does_the_first_run_after_a_takeover_and_ends_with_it(shop: Shop) -> None:
    with serving(shop, "a") as leader:
        until(lambda: "leader.won" in leader.log())
        with serving(shop, "b") as standby, serving(shop, "c") as killed:
            until(lambda: "leader.waits" in standby.log())
            (ready,), (other,) = until(standby.workers), until(killed.workers)
            killed.kill()
            until(lambda: not lives(other))
            shop.task("quick", 1, say("quick", 1))
            leader.kill()
            until(lambda: "run.end" in standby.log())
            assert standby.log().count("worker.start") == 1
            assert f"worker.start worker=1 pid={ready}\n" in standby.log()
            assert standby.workers() == [ready]
            standby.kill()
            until(lambda: not lives(ready))


def test_a_run_that_fills_the_disk_is_on_record_and_succeeds_when_there_is_room(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, timeout=PATIENCE, check=False).returncode:
        pytest.skip("no file system of any size can be mounted here")
    try:
        shop = Shop(disk / "shop.snapdb")
        (disk / "filler").write_bytes(bytes(24 << 20))
        big = "INSERT INTO done SELECT 'big', hash(range)::UBIGINT % 1_000_000_007, hash(range + 1) % 99_999_999_977"
        shop.task("big", 3600, f"{say('big', 0)}; {big} FROM range(1_200_000)", first=1, retries=8)
        (disk / "log").mkdir()
        with serving(shop, "log/a"):
            until(lambda: any(run.state == "failed" for run in shop.runs()))
            (disk / "filler").unlink()
            until(lambda: any(run.state == "ok" for run in shop.runs()))
        attempts = shop.runs()
        assert [run.state for run in attempts] == ["failed"] * (len(attempts) - 1) + ["ok"]
        assert re.search("space|full", str(attempts[0].error))
        done = shop.done()
        assert done["big", 1, 0] == 1
        assert sum(done.values()) == 1_200_000 + 1
        shop.catalog_db.close()
    finally:
        subprocess.run(["umount", "-l", str(disk)], timeout=PATIENCE, check=True)


def test_the_memory_of_a_worker_stays_flat(shop: Shop) -> None:
    runs = 10_000 if SOAK else 90
    task = shop.task("small", 3600, "SELECT 1")
    clock, said = Clock(), io.StringIO()
    command = [sys.executable, "-m", "snapdb.daemon.worker", str(shop.path), str(os.getpid())]
    pool = WorkerPool(command, 1, clock, Intervals(), Log(said, "text", clock))

    def resident() -> int:
        pid = next(int(line.split("pid=")[1]) for line in reversed(said.getvalue().splitlines()) if "pid=" in line)
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096

    sizes = []
    try:
        for number in range(runs):
            with shop.catalog_db.writing(counted=False) as connection:
                run = RunRows(connection).begin(task, "schedule", number, "me", time.time_ns() // 1000)
            pool.start(task, run)
            while not (over := pool.ended()):
                clock.wait(10.0)
            assert isinstance(over[0], Ended)
            assert over[0].state == "ok", over[0]
            sizes.append(resident())
    finally:
        pool.kill()
    third = runs // 3
    assert min(sizes[-third:]) < max(sizes[third : 2 * third]) + (16 << 20)

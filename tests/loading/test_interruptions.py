"""Training that is stopped from outside ends clean and can go on: Ctrl-C, killed workers, snapshots and databases gone.

Where signals matter they are real ones, to a process of its own.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import snapdb
from snapdb import Batch, BatchStream
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.streams import prints, settles, workers_alive
from tests.support.waiting import PATIENCE, spawned

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on machines of one core

TOWN = """
CREATE TABLE person AS SELECT 'p' || range AS id, range % 2 AS club, [range % 2, 1]::FLOAT[2] AS f FROM range(300);
CREATE TABLE met AS
  SELECT 'p' || hash(range) % 300 AS a, 'p' || hash(range + 7) % 300 AS b, range AS t, [range]::FLOAT[1] AS w
  FROM range(2000);
CREATE PROPERTY GRAPH town VERTEX TABLES (person KEY (id) FEATURES (f AS x) TARGET (club AS y))
  EDGE TABLES (met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t)
    FEATURES (w AS edge_attr));
CREATE SNAPSHOT now OF town;
CREATE SAMPLER train AS SAMPLE FROM now SEEDS (SELECT id FROM person) AS person
  FANOUT (met BOTH => [3, 3]) BATCH 20 REPEATABLE (1);
"""
CHILD = """
import subprocess, sys

def test_dispositions():
    code = "import signal; print(signal.getsignal(signal.SIGINT).__name__, signal.getsignal(signal.SIGHUP).name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "default_int_handler SIG_DFL\\n", done.stderr
"""
BATCHES = 15
LOOP = """
import sys, time
from torch.utils.data import DataLoader
import snapdb

db = snapdb.connect(sys.argv[1], read_only=True)
stream = db.stream("train", threads=2)
loader = DataLoader(stream, batch_size=None, num_workers=2, multiprocessing_context="fork")
try:
    while True:
        for batch in loader:
            print(batch.index, flush=True)
            time.sleep(0.05)
except KeyboardInterrupt:
    print("stopped", flush=True)
stream.set_epoch(7)
print([batch.index for batch in loader] == [(7, number) for number in range(15)], flush=True)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "town.snapdb"
    with snapdb.connect(path) as db:
        db.script(TOWN)
    return path


@pytest.fixture
def town(made: Path, tmp_path: Path) -> Path:
    """A database of the test's own."""
    return Path(shutil.copytree(made, tmp_path / "town.snapdb"))


def forked(stream: BatchStream) -> DataLoader[Batch]:
    return DataLoader(stream, batch_size=None, num_workers=2, multiprocessing_context="fork")


def test_processes_of_tests_take_signals_though_the_tests_were_started_where_they_are_ignored(tmp_path: Path) -> None:
    """As under nohup, and in the background of a shell."""
    (tmp_path / "test_child.py").write_text(CHILD)
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_configure  # noqa: F401\n")
    ignoring = 'trap "" INT HUP; exec "$@"'
    command = [
        "sh",
        "-c",
        ignoring,
        "sh",
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        ".",
    ]
    paths = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=paths, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout


def test_ctrl_c_ends_the_loop_and_its_workers_and_the_next_loop_works(made: Path) -> None:
    # As a terminal does, the signal goes to the whole group: DataLoader workers get it too.
    with spawned("-W", "error", "-c", LOOP, str(made), start_new_session=True) as running:
        assert running.stdout is not None
        assert [running.stdout.readline() for _ in range(3)] == [f"(0, {number})\n" for number in range(3)]
        os.killpg(running.pid, signal.SIGINT)
        stdout, stderr = running.communicate(timeout=PATIENCE)
    assert stdout.splitlines()[-2:] == ["stopped", "True"]
    assert (stderr, running.returncode) == ("", 0)


def test_a_worker_that_is_killed_is_named_and_the_next_loop_works(made: Path) -> None:
    with snapdb.connect(made, read_only=True) as db:
        stream = db.stream("train", threads=1)
        loader = forked(stream)

        def read() -> None:
            for number, _ in enumerate(loader):
                if number == 2:
                    os.kill(next(iter(active_children())).pid or 0, signal.SIGKILL)
                    time.sleep(PATIENCE)  # which torch's handler of SIGCHLD ends by its error

        with pytest.raises(RuntimeError, match=r"worker \(pid.*\) (is killed by signal: Killed|exited unexpectedly)"):
            read()
        gc.collect()
        assert settles(lambda: not active_children())
        stream.set_epoch(1)
        assert [batch.index for batch in loader] == [(1, number) for number in range(BATCHES)]
        stream.set_epoch(1)
        assert prints(loader) == prints(stream)


@pytest.mark.parametrize("workers", [False, True])
def test_an_exception_in_the_loop_ends_threads_and_workers(made: Path, workers: bool) -> None:
    with snapdb.connect(made, read_only=True) as db:
        stream = db.stream("train", threads=2)

        def read() -> None:
            for number, _ in enumerate(forked(stream) if workers else stream):
                if number == 2:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            read()
        gc.collect()
        assert settles(lambda: workers_alive() == 0 and not active_children())
        assert [batch.index[1] for batch in stream] == list(range(BATCHES))


@pytest.mark.parametrize(
    "statement",
    [
        "DROP SNAPSHOT now CASCADE",
        "CREATE OR REPLACE SNAPSHOT now OF town FOR EVENT_TIME AS OF 10",
        "REFRESH SNAPSHOT now",
    ],
)
def test_a_stream_outlives_its_snapshot_whose_files_go_with_it(town: Path, statement: str) -> None:
    with snapdb.connect(town) as db, snapdb.connect(town) as other:
        expected = told(db.stream("train"))
        stream = db.stream("train", threads=2)
        running = iter(stream)
        first = next(running)
        before = set((town / "snapshots").iterdir())
        other.execute("INSERT INTO met SELECT 'p1', 'p2', 5000, [1]")
        other.execute(statement)
        other.execute("VACUUM RETAIN INTERVAL '0 seconds'")
        assert told([first, *running]) == expected
        stream.set_epoch(0)
        assert prints(forked(stream)) == prints(stream[number] for number in range(BATCHES))
        assert before <= set((town / "snapshots").iterdir())
        stream.close()
        other.execute("VACUUM RETAIN INTERVAL '0 seconds'")
        assert before.isdisjoint((town / "snapshots").iterdir())
        assert other.execute("CHECK DATABASE").fetchall() == []


def told(batches: Any) -> list[tuple[Any, ...]]:
    """All of each batch that is read late."""
    return [
        (b.ids("person").to_pylist(), *(v.tolist() for v in (*b.e_id.values(), *b.edge_time.values()))) for b in batches
    ]


def moved(town: Path) -> None:
    town.rename(town.with_name("elsewhere.snapdb"))


@pytest.mark.parametrize("leave", [moved, shutil.rmtree])
def test_a_database_that_is_gone_is_told_and_its_streams_read_on(town: Path, leave: Callable[[Path], None]) -> None:
    with snapdb.connect(town) as db:
        expected = prints(db.stream("train"))
        stream, named = db.stream("train", threads=2), db.stream("train", threads=2)
        running = iter(stream)
        batches = [next(running)]
        named[0].ids("person")
        leave(town)
        assert prints([*batches, *running]) == expected
        assert prints(forked(named)) == expected
        assert named[1].ids("person")[0].as_py().startswith("p")
        # Ids are read when they are first asked for.
        for use in (
            lambda: batches[0].ids("person"),
            lambda: db.stream("train"),
            lambda: db.execute("SELECT count(*) FROM person").fetchall(),
            lambda: db.execute("INSERT INTO person VALUES ('new', 1, [1, 1])"),
            lambda: db.execute("DROP SNAPSHOT now CASCADE"),
        ):
            with refused("database-gone", str(town)):
                use()
        stream.close()
    assert not town.exists()
    with refused("no-database"):
        snapdb.connect(town, read_only=True)


def test_a_database_that_took_the_place_of_an_open_one_is_another(tmp_path: Path) -> None:
    path, backup = tmp_path / "town.snapdb", tmp_path / "backup.snapdb"
    with snapdb.connect(path) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS a")
        db.execute("CHECK DATABASE").fetchall()
        shutil.copytree(path, backup)
        shutil.rmtree(path)
        backup.rename(path)
        for statement in ("SELECT * FROM t", "INSERT INTO t VALUES (2)"):
            with refused("database-gone", f" {path} "):
                db.execute(statement).fetchall()
    with snapdb.connect(path) as db:
        assert db.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_a_database_that_was_moved_goes_on_where_it_is(town: Path) -> None:
    with snapdb.connect(town) as db, db.stream("train") as stream:
        expected = prints(stream)
        stream.set_epoch(0)
        next(iter(stream))
        state = stream.state_dict()
        moved(town)
    with snapdb.connect(town.with_name("elsewhere.snapdb")) as db, db.stream("train") as stream:
        stream.load_state_dict(state)
        assert prints(stream) == expected[1:]
        assert db.execute("CHECK DATABASE").fetchall() == []

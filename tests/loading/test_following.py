"""A stream goes on with what was published since, between epochs and whole; who waits for a snapshot gets the next."""

from __future__ import annotations

import copy
import fcntl
import json
import pickle
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from torch.utils.data import DataLoader

import snapdb
from snapdb import Database, Published
from snapdb.errors import InputError, QueryError
from snapdb.loading import stream as stream_module
from snapdb.storage.catalog_db.task_rows import LeaderLease
from snapdb_cli.main import main
from tests.support.inside import catalog_db_of, committed_catalog_of
from tests.support.inside.storage import Leader
from tests.support.refusals import refused
from tests.support.streams import prints, settles, workers_alive
from tests.support.thoroughness import some
from tests.support.waiting import PATIENCE, spawned

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on machines of one core

TOWN = """
CREATE TABLE person AS SELECT 'p' || range AS id, [range % 2, range]::FLOAT[2] AS f FROM range(100);
CREATE TABLE met AS
  SELECT 'p' || hash(range) % 100 AS a, 'p' || hash(range + 7) % 100 AS b, range AS t, [range]::FLOAT[1] AS w
  FROM range(700);
CREATE PROPERTY GRAPH town VERTEX TABLES (person KEY (id) FEATURES (f AS x))
  EDGE TABLES (met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t)
    FEATURES (w AS edge_attr));
CREATE SNAPSHOT now OF town;
CREATE SAMPLER plain AS SAMPLE FROM now SEEDS (SELECT id FROM person) AS person
  FANOUT (met BOTH => [3, 3]) BATCH 20 REPEATABLE (1);
CREATE SAMPLER links AS SAMPLE FROM now SEEDS EDGES met (SELECT e_id FROM now.met WHERE e_id % 7 = 0)
  NEGATIVES 2 PER POSITIVE EXCLUDE KNOWN FANOUT (met BOTH => [3]) BATCH 30 REPEATABLE (1);
CREATE SAMPLER steady AS SAMPLE USING plain REFRESH OTF 30 PERCENT EVERY 3 BATCHES SHARED;
CREATE SAMPLER visited AS SAMPLE USING plain REFRESH OTF 30 PERCENT EVERY 2 BATCHES SCOPE VISITED;
CREATE CACHE near ON SAMPLER steady IN MEMORY '1MB';
"""
GROW = """
INSERT INTO person SELECT 'q{0}x' || range, [range, {0}]::FLOAT[2] FROM range(11);
INSERT INTO met
  SELECT 'p' || hash(range + {0}) % 100, 'q{0}x' || range % 11, 1000 + {0}, [range]::FLOAT[1] FROM range(90);
DELETE FROM met WHERE t % 100 = {0};
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "town.snapdb"
    with snapdb.connect(path) as db:
        db.script(TOWN)
    return path


@pytest.fixture
def town(made: Path, tmp_path: Path) -> Iterator[Database]:
    """A database of the test's own."""
    with snapdb.connect(shutil.copytree(made, tmp_path / "town.snapdb")) as db:
        yield db


def grow(db: Database, number: int, publish: str = "REFRESH SNAPSHOT now") -> None:
    db.script(f"{GROW.format(number)}; {publish}")


def fresh(db: Database, query: str, epoch: int, **options: Any) -> list[bytes]:
    """An epoch of a stream that is opened now."""
    with db.stream(query, threads=1, **options) as opened:
        opened.set_epoch(epoch)
        return prints(opened)


def held(db: Database, path: str) -> bool:
    """Whether somebody reads a snapshot's directory."""
    manifest = db.path / path / "manifest.json"
    if not manifest.exists():
        return False
    with manifest.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def directory(db: Database) -> str:
    """Where the snapshot's own files are."""
    return committed_catalog_of(db).snapshot("now").path


@pytest.mark.parametrize("query", some(["visited", "links", "steady", "plain", "SAMPLE USING plain BATCH 33"], 3))
def test_an_epoch_after_a_publication_is_that_of_a_stream_opened_then(town: Database, query: str) -> None:
    with town.stream(query, threads=2, follow=True) as stream:
        for epoch in range(4):
            was = stream.published
            if epoch in (1, 3):
                grow(town, epoch)
            read = prints(stream)
            assert read == fresh(town, query, epoch)
            assert read
            assert (stream.published != was) == (epoch in (1, 3))
            assert stream.lineage["version"] == town.wait_for("now").version
    assert workers_alive() == 0


@pytest.mark.parametrize("threads", [0, 2])
def test_nothing_changes_in_the_middle_of_an_epoch(town: Database, threads: int) -> None:
    before = fresh(town, "plain", 0)
    with town.stream("plain", threads=threads, follow=True) as stream:
        reading = iter(stream)
        first = [next(reading)]
        old = directory(town)
        grow(town, 1)
        others = prints(stream)  # begun later, and so on what was published
        assert others == fresh(town, "plain", 1)
        assert held(town, old), "the first loop still reads it"
        assert prints([*first, *reading]) == before
        assert not held(town, old)
        assert prints(stream) == fresh(town, "plain", 2), "and the first loop moved nothing"


def test_files_are_let_go_as_soon_as_the_stream_goes_on(town: Database) -> None:
    with town.stream("steady", threads=2, follow=True) as stream:
        for number in (1, 2):
            list(stream)
            assert settles(lambda: (stream.cache_stats() or {"refills": 0})["refills"] > 0)
            old = directory(town)
            grow(town, number)
            assert held(town, old)
            next(iter(stream))
            assert not held(town, old)
            assert held(town, directory(town))
    assert not held(town, directory(town))


def test_a_look_opens_nothing_where_nothing_moved(town: Database) -> None:
    with town.stream("plain", threads=1, follow=True) as stream:
        view, at = stream.view, stream.published
        town.script("INSERT INTO person VALUES ('new', [1, 2]); CREATE TABLE other (a INT)")
        assert len(prints(stream)) == 5, "what is loaded is not published yet"
        assert not stream.renew()
        assert stream.view is view
        town.execute("REFRESH SNAPSHOT now")
        assert stream.renew()
        moved = stream.published
        assert moved is not None
        assert moved.newer_than(at)
        town.execute("REFRESH SNAPSHOT now")  # which pins the same version again
        assert not stream.renew()
        assert not town.wait_for("now").newer_than(moved)


def test_renew_goes_on_by_hand_also_under_workers_that_are_forked_anew(town: Database) -> None:
    with town.stream("plain", threads=1) as stream:
        loader = DataLoader(stream, batch_size=None, num_workers=1, multiprocessing_context="fork")
        assert prints(loader) == fresh(town, "plain", 0)
        grow(town, 1)
        assert prints(loader) != fresh(town, "plain", 0), "a stream that does not follow stays"
        stream.set_epoch(3)
        assert stream.renew()
        assert prints(loader) == fresh(town, "plain", 3)
        assert not stream.renew()


def test_workers_and_ranks_do_not_follow(town: Database) -> None:
    with town.stream("plain", follow=True) as stream:
        sent = pickle.loads(ForkingPickler.dumps(stream))  # as to workers that are spawned
        forked = copy.copy(stream)
        forked._process = -1  # as in one that was forked
        for there in (sent, forked):
            for read in (lambda there=there: next(iter(there)), there.renew):
                with refused("cannot-follow", "num_workers"):
                    read()
        assert len(list(DataLoader(stream, batch_size=None))) == 5
    with pytest.raises(ValueError, match=r"found 2 ranks.*stream\.renew\(\) in each rank after a barrier"):
        town.stream("plain", follow=True, world_size=2)


def test_the_rest_of_an_epoch_comes_first_and_only_of_its_own_publication(town: Database) -> None:
    with town.stream("plain", threads=1, follow=True) as stream:
        for step, _ in enumerate(stream, start=1):
            if step == 2:
                state = stream.state_dict()
                break
        with town.stream("plain", threads=1, follow=True) as again:
            again.load_state_dict(state)
            grow(town, 1)
            assert not again.renew()
            assert [batch.index for batch in again] == [(0, 2), (0, 3), (0, 4)]
            assert again.lineage["version"] == state["snapshot"]["version"]
            assert prints(again) == fresh(town, "plain", 1)
        assert stream.renew()
        now = stream.state_dict()
        assert (now["epoch"], now["consumed"]) == (1, 0)
        with refused("stream-state", "set_epoch"):
            stream.load_state_dict(state)
        with refused("stream-state", "set_epoch"):
            stream.load_state_dict({**state, "epoch": 4, "consumed": 0})


def test_a_sampler_that_is_replaced_or_begins_a_generation_is_followed(town: Database) -> None:
    with town.stream("steady", threads=1, follow=True) as stream:
        list(stream)
        town.execute("REFRESH CACHE near")
        assert prints(stream) == fresh(town, "steady", 1)
        assert stream.spec.generation == 1
        town.execute("CREATE SNAPSHOT early OF town FOR EVENT_TIME AS OF 300")
        town.execute(
            "CREATE OR REPLACE SAMPLER steady AS SAMPLE FROM early SEEDS (SELECT id FROM person) AS person "
            "FANOUT (met IN => [4]) BATCH 7 REPEATABLE (2)"
        )
        assert prints(stream) == fresh(town, "steady", 2)
        assert stream.published is not None
        assert stream.published.name == "early"


def test_a_stream_whose_snapshot_was_dropped_goes_on_with_what_it_has(town: Database) -> None:
    before = [fresh(town, "plain", epoch) for epoch in range(2)]
    with town.stream("plain", threads=1, follow=True) as stream:
        old = directory(town)
        town.execute("DROP SNAPSHOT now CASCADE")
        with pytest.warns(RuntimeWarning, match="sampler plain was dropped: the stream continues with now at version"):
            assert prints(stream) == before[0]
        assert prints(stream) == before[1], "and it is said once"
        town.script("CREATE SNAPSHOT now OF town; " + TOWN.partition("CREATE SNAPSHOT now OF town;")[2])
        assert not stream.renew(), "it is the same again"
        grow(town, 1)
        assert prints(stream) == fresh(town, "plain", 2)
        assert not held(town, old)


def test_what_cannot_be_opened_is_told_and_the_stream_stays_where_it_is(town: Database) -> None:
    ids = ["p1", "p2", "p3"]
    before = fresh(town, "plain", 0, seeds=ids)
    with town.stream("plain", threads=1, follow=True, seeds=ids) as stream:
        version = stream.lineage["version"]
        town.script(
            "DELETE FROM met WHERE a = 'p2' OR b = 'p2'; DELETE FROM person WHERE id = 'p2'; REFRESH SNAPSHOT now"
        )
        new = directory(town)
        for _ in range(2):
            with refused("unknown-seed", "now", f"version {version}"):
                next(iter(stream))
        assert not held(town, new)
        assert prints([stream[0]]) == before
        town.script("INSERT INTO person VALUES ('p2', [1, 2]); REFRESH SNAPSHOT now")
        assert prints(stream) == fresh(town, "plain", 0, seeds=ids)


def test_a_sampler_that_cannot_be_opened_leaves_the_stream_as_it_was(
    town: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town.stream("steady", threads=1, follow=True) as stream:
        assert prints(stream) == fresh(town, "steady", 0)
        second = fresh(town, "steady", 1)
        grow(town, 1)

        def fails(*_: object) -> None:
            raise InputError("no room", code="memory")

        with monkeypatch.context() as patch:
            patch.setattr(stream_module, "OrderedWorkers", fails)
            with refused("memory"):
                stream.renew()
        assert not held(town, directory(town))
        stream._options = replace(stream._options, follow=False)
        assert prints(stream) == second, "its cache is there again, and its epochs go on"
        stream._options = replace(stream._options, follow=True)
        assert prints(stream) == fresh(town, "steady", 2)


def test_a_closed_stream_or_database_follows_nothing(town: Database) -> None:
    stream = town.stream("plain", threads=1, follow=True)
    town.close()
    with refused("closed"):
        next(iter(stream))
    stream.close()
    with refused("stream-closed"):
        stream.renew()


def test_the_next_publication_is_waited_for(town: Database) -> None:
    first = town.wait_for("NOW")
    assert town.wait_for("now", timeout=0) == first
    found: list[Published] = []
    waiting = threading.Thread(target=lambda: found.append(town.wait_for("now", newer_than=first)))
    waiting.start()
    with snapdb.connect(town.path) as other:
        other.execute("REFRESH SNAPSHOT now")  # which moves nothing
        with refused("wait-timeout"):
            town.wait_for("now", newer_than=first, timeout=0)
        other.execute("INSERT INTO person VALUES ('new', [1, 2])")
        other.execute("REFRESH SNAPSHOT now")
        waiting.join(PATIENCE)
    (second,) = found
    assert (second.version, second.graph) == (first.version + 1, "town")
    assert second.time > first.time
    assert town.wait_for("now", newer_than=first.version) == second
    assert town.wait_for("now", newer_than=second.time - timedelta(microseconds=1)) == second
    for past in (second, second.version, second.time, datetime.now(UTC)):
        with refused("wait-timeout", f"version {second.version},", kind=TimeoutError):
            town.wait_for("now", newer_than=past, timeout=0)


def test_a_snapshot_that_is_not_there_yet_is_waited_for_by_another_process(town: Database) -> None:
    code = (
        "import sys, snapdb\n"
        "with snapdb.connect(sys.argv[1], read_only=True) as db:\n"
        "    print('waits', flush=True)\n"
        "    print(db.wait_for('later', timeout=600).version, flush=True)"
    )
    with spawned("-c", code, str(town.path)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        town.script("CREATE TABLE more AS SELECT 1 AS a; CREATE SNAPSHOT later OF town")
        assert process.stdout.readline() == f"{town.wait_for('later').version}\n"


def test_a_wait_in_vain_tells_what_there_is_and_who_would_publish(town: Database) -> None:
    with refused("wait-timeout", '"now"', f"snapdb schedule run {town.path}") as late:
        town.wait_for("noww", timeout=0)
    assert late.value.retryable
    assert LeaderLease(catalog_db_of(town)).acquire(Leader("token", beat=5, host="host", pid=77, since=0), silent=None)
    with refused("wait-timeout", "pid 77 on host", f"snapdb schedule history {town.path}"):
        town.wait_for("noww", timeout=0)


def test_a_daemon_that_does_not_beat_is_told(town: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapdb.execute.samples.waiting.LEASE_TTL", 0.1)
    assert LeaderLease(catalog_db_of(town)).acquire(Leader("token", beat=5, host="host", pid=77, since=0), silent=None)
    with refused("wait-timeout", "pid 77 on host", f"snapdb schedule run {town.path}"):
        town.wait_for("later", timeout=0.2)


@pytest.mark.parametrize(("name", "kind"), [("met", "table"), ("town", "graph"), ("plain", "sampler")])
def test_what_never_becomes_a_snapshot_is_an_error_at_once(town: Database, name: str, kind: str) -> None:
    with refused("unknown-snapshot", name, kind):
        town.wait_for(name)


NAIVE = datetime(2026, 1, 1)


@pytest.mark.parametrize("given", [{"newer_than": True}, {"newer_than": "v1"}, {"newer_than": NAIVE}, {"timeout": -1}])
def test_wrong_arguments_of_a_wait_are_refused(town: Database, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="found"):
        town.wait_for("now", **given)


def test_a_wait_is_interrupted(town: Database) -> None:
    ended: list[BaseException] = []

    def waits() -> None:
        try:
            town.wait_for("never")
        except QueryError as error:
            ended.append(error)

    def interrupted() -> bool:
        town.interrupt()  # which whoever has not begun to wait does not hear
        return bool(ended)

    waiting = threading.Thread(target=waits)
    waiting.start()
    assert settles(interrupted)
    waiting.join(PATIENCE)
    (error,) = ended
    assert isinstance(error, QueryError)
    assert error.code == "interrupted"


def test_files_that_nobody_changes_are_not_waited_on(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapdb.storage.catalog_db.db_dir._immutable", lambda *_: True)
    with snapdb.connect(made, read_only=True) as db:
        assert db.wait_for("now").name == "now"
        with refused("cannot-wait"):
            db.wait_for("later")


def test_the_command_line_waits_and_tells_that_it_was_in_vain(town: Database) -> None:
    def snapdb_wait(*words: str) -> Result:
        return CliRunner().invoke(main, ["wait", str(town.path), *words])

    found = snapdb_wait("now", "--format", "json")
    there = town.wait_for("now")
    (row,) = json.loads(found.stdout)
    assert (row["snapshot"], row["graph"], row["version"]) == ("now", "town", there.version)
    assert datetime.fromisoformat(row["published"]) == there.time
    late = snapdb_wait("now", "--newer-than", str(there.version), "--timeout", "0")
    assert (late.exit_code, late.stdout) == (3, "")
    assert late.stderr.startswith(f"WaitTimeout: waited 0 s for snapshot now with a version after {there.version}")
    assert snapdb_wait("met").exit_code == 1
    assert snapdb_wait("now", "--timeout", "nan").exit_code == 2

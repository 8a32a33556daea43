"""A published database reads as the one that published it, from S3 and from a folder, whatever fails in between."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import snapdb
from snapdb.errors import CommitConflict, CorruptError, InputError, LockedError
from snapdb.loading import Batch
from tests.support.inside.remote import RETRY, is_url, open_store, shown
from tests.support.object_storage import SECRET, s3_server, use_bucket
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.thoroughness import SOAK

SETUP = """
CREATE TABLE person AS SELECT 'p' || range AS id,
  list_transform(range(6), lambda i: (range * 7 + i) / 3)::FLOAT[6] AS x,
  range % 5 AS y, range % 3 AS city, 'a long text of person ' || range AS bio FROM range(600);
CREATE TABLE film AS SELECT range AS id, range % 7 AS kind FROM range(90);
CREATE TABLE knows AS SELECT 'p' || (range * 7919) % 600 AS a, 'p' || (range * 104729 + 1) % 600 AS b,
  range % 100 AS at, 1.0 + range % 4 AS w FROM range(6000);
CREATE TABLE saw AS SELECT 'p' || range % 600 AS p, (range * 31) % 90 AS f FROM range(1500);
CREATE PROPERTY GRAPH g
  VERTEX TABLES (person KEY (id) FEATURES (x AS x) TARGET (y), film KEY (id) FEATURES (kind AS k))
  EDGE TABLES (
    knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (at) FEATURES (w AS w),
    saw SOURCE KEY (p) REFERENCES person DESTINATION KEY (f) REFERENCES film);
CREATE SNAPSHOT s OF g;
CREATE SNAPSHOT early OF g FOR EVENT_TIME AS OF 50;
INSERT INTO person SELECT 'q' || range, [1, 2, 3, 4, 5, 6]::FLOAT[6], 0, 1, 'new' FROM range(5);
INSERT INTO knows SELECT 'q' || range % 5, 'p' || range, 99, 2.5 FROM range(20);
DELETE FROM knows WHERE a = 'p7';
REFRESH SNAPSHOT s;
CREATE SAMPLER train AS SAMPLE FROM s SEEDS (SELECT id FROM person WHERE city = 1) AS person
  FANOUT (knows => [4, 3], saw OUT => [2, 2]) BATCH 32;
CREATE SAMPLER timed AS SAMPLE FROM early SEEDS (SELECT id FROM person WHERE city = 2 AND id LIKE 'p%') AS person
  FANOUT (knows => [4, 3]) BATCH 32;
"""
QUERIES = (
    "SELECT city, count(*), sum(y) FROM person GROUP BY ALL ORDER BY ALL",
    "SELECT sum(x[3]), max(w) FROM s.person p JOIN s.knows k ON p.id = k.a",
    "SELECT bio FROM person WHERE city = 2 AND y = 1 ORDER BY id LIMIT 3",
    "SELECT count(*) FROM early.knows WHERE at > 30",
    "SELECT * FROM film ORDER BY id DESC LIMIT 2",
    "SELECT count(*) FROM person AT (VERSION => 1)",
    "SELECT kind AS k, count(*) FROM film WHERE id IN (SELECT f FROM saw WHERE p = 'p3') GROUP BY ALL ORDER BY ALL",
    "SELECT name FROM snapdb.samplers ORDER BY 1",
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("publications") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.script(SETUP)
    return path


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def shop(source: Path, tmp_path: Path) -> Iterator[snapdb.Database]:
    shutil.copytree(source, tmp_path / "shop.snapdb")
    with snapdb.connect(tmp_path / "shop.snapdb") as db:
        yield db


@pytest.fixture(params=["file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new publication."""
    if request.param == "file":
        return f"file://{tmp_path}/published"
    return _bucket(request.getfixturevalue("endpoint"), monkeypatch, tmp_path.name)


def _bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch, name: str) -> str:
    use_bucket(endpoint, monkeypatch)
    return f"s3://snaps/{name}/shop"


def published(db: snapdb.Database, url: str, more: str = "") -> str:
    return str(db.execute(f"PUBLISH TO '{url}' {more}").message)


def batches(db: snapdb.Database, sampler: str = "train", **options: Any) -> list[bytes]:
    """The bytes of a sampler's batches."""

    def content(batch: Batch) -> bytes:
        features = [value for named in batch.features.values() for value in named.values()]
        return b"|".join(v.numpy().tobytes() for v in [*batch.n_id.values(), *batch.edge_index.values(), *features])

    with db.stream(sampler, **options) as stream:
        return [content(batch) for batch in stream]


@contextmanager
def fails(code: str) -> Iterator[None]:
    """Require an error with a code, whose message names files and folders of the test."""
    with pytest.raises(snapdb.SnapdbError) as caught:
        yield
    assert caught.value.code == code


def fetched(cache: Path) -> int:
    """The bytes on disk of the files that a cache has fetched."""
    files = [path for path in cache.glob("*/files/**/*") if path.is_file() and not path.name.startswith(".")]
    return sum(min(path.stat().st_size, path.stat().st_blocks * 512) for path in files)


def test_an_attached_copy_equals_the_database(shop: snapdb.Database, url: str, tmp_path: Path) -> None:
    assert "generation 1" in published(shop, url)
    with snapdb.connect(url, cache=tmp_path / "cache") as copy:
        for query in QUERIES:
            assert copy.execute(query).fetchall() == shop.execute(query).fetchall(), query
        for sampler in ("train", "timed"):
            assert batches(copy, sampler) == batches(shop, sampler)
        with shop.stream("train") as stream:
            batch = next(iter(stream))
        again = copy.replay(batch.lineage, 0)
        assert again.n_id["person"].equal(batch.n_id["person"])
        assert copy.execute("CHECK DATABASE").fetchall() == []
        ids = [b.ids("person").to_pylist() for b in copy.stream("train")]
        assert ids == [b.ids("person").to_pylist() for b in shop.stream("train")]
        torch.manual_seed(3)
        model = snapdb.train.GraphSAGE(features=6, classes=3, hidden=8, layers=2)
        people = {"node_type": "person", "fanout": "knows => [FULL]", "threads": 1}
        own, theirs = shop.infer(model, "early", **people), copy.infer(model, "early", **people)
        assert theirs.ids.equals(own.ids)
        assert torch.equal(theirs.states, own.states)


def test_a_trainer_fetches_only_what_it_reads(shop: snapdb.Database, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/published"
    published(shop, url)
    cache = tmp_path / "cache"
    with snapdb.connect(url, cache=cache) as copy:
        batches(copy, "timed")
        names = {path.name for path in cache.glob("*/files/topology/**/*.npy")}
        assert names == {"indptr.npy", "indices.npy"}, "no batch has read edge ids or times"
        assert not list(cache.glob("*/files/features/**/feature-w.npy")), "no batch has read edge features"
        states = [json.loads(path.read_text()) for path in cache.glob("*/files/tables/.*.columns")]
        assert not any("bio" in columns or "x" in columns for columns in states), "SEEDS reads two columns"
        before = fetched(cache)
    with snapdb.connect(url, cache=cache) as copy:
        batches(copy, "timed")
    assert fetched(cache) == before, "a second process fetches nothing"


def test_only_new_files_are_uploaded(shop: snapdb.Database, url: str) -> None:
    published(shop, url)
    store = open_store(url)
    before = {entry.key for entry in store.entries()}
    assert "generation 2" in published(shop, url)
    added = {entry.key.partition("/")[0] for entry in store.entries() if entry.key not in before}
    assert added <= {"generations", "catalogs", "listings"}


def test_a_reader_moves_to_a_newer_generation(shop: snapdb.Database, url: str, tmp_path: Path) -> None:
    published(shop, url)
    with snapdb.connect(url, cache=tmp_path / "cache") as copy, copy.stream("train", follow=True) as stream:
        assert not copy.renew()
        old = [b.n_id["person"].numpy().tobytes() for b in stream]
        shop.execute("INSERT INTO knows SELECT 'p1', 'p' || range, 10, 1 FROM range(300)")
        shop.execute("REFRESH SNAPSHOT s")
        published(shop, url)
        new = [b.n_id["person"].numpy().tobytes() for b in stream]  # follows between epochs
        assert new != old
        with shop.stream("train") as own:
            own.set_epoch(1)
            assert new == [b.n_id["person"].numpy().tobytes() for b in own]
        assert not copy.renew(), "the stream has renewed the database"
        assert (
            copy.execute("SELECT count(*) FROM s.knows").fetchall()
            == shop.execute("SELECT count(*) FROM s.knows").fetchall()
        )


def test_wait_for_sees_a_generation(shop: snapdb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapdb.execute.samples.waiting._REMOTE_PULSE", 0.01)
    url = f"file://{tmp_path}/published"
    published(shop, url)
    with snapdb.connect(url, cache=tmp_path / "cache") as copy:
        first = copy.wait_for("s")
        shop.execute("INSERT INTO knows VALUES ('p1', 'p2', 10, 1)")
        shop.execute("REFRESH SNAPSHOT s")
        thread = threading.Timer(0.05, lambda: published(shop, url))
        thread.start()
        assert copy.wait_for("s", newer_than=first, timeout=60).version > first.version
        thread.join()
        with refused("wait-timeout"):
            copy.wait_for("nothing", timeout=0.05)


def test_every_write_is_refused(shop: snapdb.Database, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/published"
    published(shop, url)
    with snapdb.connect(url, cache=tmp_path / "cache") as copy:
        for statement in (
            "INSERT INTO film VALUES (100, 1)",
            "CREATE SNAPSHOT t OF g",
            f"PUBLISH TO '{url}'",
            "DROP SAMPLER train",
        ):
            with refused("read-only-remote"):
                copy.execute(statement)
        with refused("read-only-remote"):
            copy.execute(f"BACKUP DATABASE TO '{tmp_path}/backup'")
    with refused("not-attached"):
        shop.renew()
    (root,) = (path.parent for path in (tmp_path / "cache").glob("*/*/attached.json"))
    with refused("read-only-remote"):
        snapdb.connect(root)


def test_the_chosen_snapshots_and_tables_are_published(shop: snapdb.Database, tmp_path: Path) -> None:
    expected = batches(shop, "train")
    url = f"file://{tmp_path}/seeds"
    shop.execute(f"PUBLISH SNAPSHOT s TO '{url}' WITH (tables = 'seeds')")
    with snapdb.connect(url, cache=tmp_path / "cache") as copy:
        assert batches(copy, "train") == expected
        assert [row[0] for row in copy.execute("SELECT name FROM snapdb.snapshots").fetchall()] == ["s"]
        with refused("not-published"):
            copy.execute("SELECT * FROM film").fetchall()
    url = f"file://{tmp_path}/none"
    published(shop, url, "WITH (tables = 'none')")
    ids = [row[0] for row in shop.execute("SELECT id FROM person WHERE city = 1").fetchall()]
    with snapdb.connect(url, cache=tmp_path / "cache2") as copy:
        assert batches(copy, "train", seeds=ids) == expected
        with refused("not-published"):
            copy.stream("train")


DAMAGED = [
    ("file", kind) for kind in ("catalogs", "listings", "tables", "topology", "features", "snapshots", "ids")
] + [("s3", kind) for kind in ("catalogs", "tables", "features")]
"""Where an object is damaged, and of which kind it is: what checks it does not know from which store it came."""


@pytest.mark.parametrize(("url", "kind"), DAMAGED, indirect=["url"])
def test_a_flipped_byte_is_found_and_named(shop: snapdb.Database, url: str, tmp_path: Path, kind: str) -> None:
    published(shop, url)
    store = open_store(url)
    keys = [e.key for e in store.entries() if e.key.startswith(f"{kind}/")]
    for key in keys:
        stored = store.get(key)
        assert stored is not None
        place = len(stored.content) // 2
        store.put(key, stored.content[:place] + bytes([stored.content[place] ^ 1]) + stored.content[place + 1 :])
    with pytest.raises(CorruptError) as caught:
        _read_all(url, tmp_path / "cache", set(keys))
    assert caught.value.code == "damaged-object"
    assert any(key in caught.value.message for key in keys)


def _read_all(url: str, cache: Path, damaged: set[str]) -> None:
    """Check and read everything in a publication with these damaged objects."""
    with snapdb.connect(url, cache=cache) as copy:
        assert {row[1] for row in copy.execute("CHECK DATABASE").fetchall()} == damaged
        for query in QUERIES:
            copy.execute(query).fetchall()
        for sampler in ("train", "timed"):
            batches(copy, sampler)
        with copy.stream("train") as stream:
            next(iter(stream)).ids("person")


def test_objects_that_are_gone_are_named(shop: snapdb.Database, url: str, tmp_path: Path) -> None:
    published(shop, url)
    store = open_store(url)
    with snapdb.connect(url, cache=tmp_path / "cache") as copy:
        store.remove([e.key for e in store.entries() if e.key.startswith(("features/", "tables/"))])
        assert {row[0] for row in copy.execute("CHECK DATABASE").fetchall()} == {"missing"}
        with fails("object-gone"):
            batches(copy, "train")
    store.remove(["HEAD.json"])
    with refused("no-publication"):
        snapdb.connect(url, cache=tmp_path / "cache")


def test_two_databases_do_not_overwrite_each_other(shop: snapdb.Database, url: str, tmp_path: Path) -> None:
    published(shop, url)
    with snapdb.connect(tmp_path / "other.snapdb") as other:
        other.execute("CREATE TABLE t AS SELECT 1 AS a")
        with fails("another-database"):
            published(other, url)
    shop.close()
    shutil.copytree(tmp_path / "shop.snapdb", tmp_path / "copy.snapdb")
    with snapdb.connect(tmp_path / "shop.snapdb") as one, snapdb.connect(tmp_path / "copy.snapdb") as two:
        assert "generation 2" in published(one, url)
        with fails("published-elsewhere"):
            published(two, url)
        assert "generation 3" in published(one, url)


def test_of_two_publishers_at_once_one_gets_a_conflict(
    shop: snapdb.Database, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(shop, url)
    shop.close()
    shutil.copytree(tmp_path / "shop.snapdb", tmp_path / "copy.snapdb")
    with snapdb.connect(tmp_path / "shop.snapdb") as one, snapdb.connect(tmp_path / "copy.snapdb") as two:
        one.execute("CREATE TABLE more AS SELECT 1 AS a")
        meanwhile = [lambda: published(two, url)]

        def report(what: str, share: float | None) -> None:
            if what == "writing the head" and meanwhile:
                assert "generation 2" in meanwhile.pop()()

        one.progress = report
        with pytest.raises(CommitConflict) as caught:
            published(one, url)
        assert caught.value.code == "published-elsewhere"
    with snapdb.connect(url, cache=tmp_path / "cache") as copy:
        assert "more" not in str(copy.execute("SELECT name FROM snapdb.tables").fetchall())


class _StopError(Exception):
    """Stops a publication."""


def test_a_publication_that_was_interrupted_can_be_repeated(shop: snapdb.Database, url: str, tmp_path: Path) -> None:
    """At whatever request it is interrupted, readers see the old generation, and the next publication succeeds.

    `make soak` interrupts it at each of its requests, and other test runs at every third.
    """
    published(shop, url)
    expected = batches(shop)
    shop.execute("INSERT INTO knows SELECT 'p1', 'p' || range, 10, 1 FROM range(300)")
    shop.execute("REFRESH SNAPSHOT s")
    steps = 0
    while True:
        left = steps

        def stop(what: str, share: float | None) -> None:
            nonlocal left
            if left == 0:
                raise _StopError
            left -= 1

        shop.progress = stop
        try:
            published(shop, url)
        except _StopError:
            with snapdb.connect(url, cache=tmp_path / "cache") as copy:
                assert batches(copy) == expected
            steps += 1 if SOAK else 3
            continue
        break
    shop.progress = None
    assert steps > 5
    with snapdb.connect(url, cache=tmp_path / "cache") as copy:
        assert batches(copy) == batches(shop) != expected


def test_a_vacuum_keeps_the_generations(shop: snapdb.Database, url: str, tmp_path: Path) -> None:
    published(shop, url, "WITH (keep = 2)")
    for number in range(3):
        shop.execute(f"INSERT INTO knows SELECT 'p{number}', 'p' || range, 10, 1 FROM range(600)")
        shop.execute("REFRESH SNAPSHOT s FULL")
        published(shop, url, "WITH (keep = 2)")
    store = open_store(url)
    before = {entry.key for entry in store.entries()}
    assert shop.execute(f"VACUUM '{url}'").fetchall() == [], "objects are kept for a day"
    planned = shop.execute(f"VACUUM '{url}' RETAIN INTERVAL '0 seconds' DRY RUN").fetchall()
    assert {entry.key for entry in store.entries()} == before
    removed = shop.execute(f"VACUUM '{url}' RETAIN INTERVAL '0 seconds'").fetchall()
    assert [row[:2] for row in removed] == [row[:2] for row in planned] != []
    assert {entry.key for entry in store.entries()} == before - {row[0] for row in removed}
    with snapdb.connect(url, cache=tmp_path / "cache") as copy:
        assert copy.execute("CHECK DATABASE").fetchall() == []
        assert batches(copy) == batches(shop)
    with refused("no-publication"):
        shop.execute(f"VACUUM '{url}-other'")


def test_publications_are_listed(shop: snapdb.Database, url: str) -> None:
    assert shop.execute("SHOW PUBLICATIONS").fetchall() == []
    published(shop, url)
    published(shop, url)
    ((place, generation, version, _, files, size),) = shop.execute("SHOW PUBLICATIONS").fetchall()
    ((head,),) = shop.execute("SELECT max(version) FROM snapdb.versions").fetchall()
    assert (place, generation, version) == (url, 2, head)
    assert files > 10
    assert size > 10_000
    assert shop.execute("SHOW PUBLICATIONS LIKE 'nothing'").fetchall() == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("PUBLISH TO 'ftp://host/shop'", "bad-url"),
        ("PUBLISH TO 's3://me:secret@bucket/shop'", "bad-url"),
        ("PUBLISH TO 's3:///shop'", "bad-url"),
        ("PUBLISH TO 'file://shop'", "bad-url"),
        ("PUBLISH TO 's3://bucket/shop?x=1'", "bad-url"),
        ("PUBLISH SNAPSHOT nothing TO 'file:///tmp/x'", "unknown-snapshot"),
        ("PUBLISH TO 'file:///tmp/x' WITH (table = 'all')", "unknown-option"),
        ("PUBLISH TO 'file:///tmp/x' WITH (tables = 'some')", "bad-option"),
        ("PUBLISH TO 'file:///tmp/x' WITH (keep = 0)", "bad-option"),
        ("PUBLISH TO 'file:///tmp/x' WITH (keep = 1, keep = 2)", "duplicate-clause"),
        ("PUBLISH TO 'file:///tmp/x' WITH (single_writer = maybe)", "bad-option"),
        ("PUBLISH 'file:///tmp/x'", "unexpected-word"),
        ("PUBLISH TO ''", "bad-url"),
        ("VACUUM 'shop'", "no-publication"),
    ],
)
def test_wrong_statements(
    shop: snapdb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with refused(code) as caught:
        shop.execute(text)
    assert caught.value.span is not None
    assert "secret" not in caught.value.message


def test_what_is_wrong_in_the_environment_is_said(shop: snapdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(InputError, match="needs obstore; install it with: pip install 'snapdb"):
        published(shop, "s3://bucket/shop")
    monkeypatch.undo()
    with socket.socket() as unused:  # bound, but nobody accepts
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{unused.getsockname()[1]}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setitem(RETRY, "max_retries", 0)
        with pytest.raises(LockedError) as caught:
            published(shop, "s3://bucket/shop")
    assert caught.value.code == "storage-busy"
    assert SECRET not in str(caught.value)
    with pytest.raises(ValueError, match="apply only to URLs"):
        snapdb.connect("here.snapdb", cache="there")


def test_storage_without_conditional_writes_is_found_out(
    shop: snapdb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def always(self: Any, key: str, content: bytes, tag: str | None) -> bool:
        self.put(key, content)
        return True

    monkeypatch.setattr("snapdb.remote.stores._Folder.replace", always)
    url = f"file://{tmp_path}/published"
    with refused("no-conditional-put"):
        published(shop, url)
    assert "generation 1" in published(shop, url, "WITH (single_writer = true)")
    with snapdb.connect(url, cache=tmp_path / "cache") as copy:
        assert batches(copy) == batches(shop)


def test_credentials_are_nowhere(
    shop: snapdb.Database,
    endpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = _bucket(endpoint, monkeypatch, tmp_path.name)
    published(shop, url)
    with snapdb.connect(url, cache=tmp_path / "cache") as copy:
        with copy.stream("train") as stream:
            assert SECRET not in json.dumps(dict(next(iter(stream)).lineage))
        shop.execute("PUBLISH TO 's3://snaps/again/shop'")
        for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
            assert os.environ[name] not in str(copy)
    store = open_store(url)
    for entry in store.entries():
        stored = store.get(entry.key)
        assert stored is not None
        assert SECRET.encode() not in stored.content
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in caplog.text


def test_the_cache_stays_below_its_size(shop: snapdb.Database, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/published"
    published(shop, url)
    cache = tmp_path / "cache"
    with snapdb.connect(url, cache=cache, cache_size=60_000) as copy:
        for sampler in ("train", "timed", "train"):
            assert batches(copy, sampler) == batches(shop, sampler)
    with snapdb.connect(url, cache=cache, cache_size=60_000) as copy:
        assert fetched(cache) <= 60_000
        assert copy.execute(QUERIES[0]).fetchall() == shop.execute(QUERIES[0]).fetchall()


KILLS = int(os.environ.get("SNAPDB_KILLS", "6"))
"""The number of publishers and readers that are killed."""
READER = """
import sys, snapdb, time
url, cache = sys.argv[1:]
with snapdb.connect(url, cache=cache) as db:
    for _ in range(100):
        ((rows, version),) = db.execute("SELECT (SELECT sum(n) FROM t), (SELECT n FROM u)").fetchall()
        assert rows == version, (rows, version)
        print(version, flush=True)
        db.renew()
"""
PUBLISHER = """
import sys, snapdb
path, url = sys.argv[1:]
with snapdb.connect(path) as db:
    while True:
        try:
            with db.transaction("next"):
                ((n,),) = db.execute("SELECT n FROM u").fetchall()
                db.execute("DELETE FROM t")
                db.execute("INSERT INTO t SELECT 1 FROM range(?)", [n + 1])
                db.execute("UPDATE u SET n = n + 1")
            print(db.execute(f"PUBLISH TO '{url}'").message, flush=True)
        except snapdb.SnapdbError as error:
            if not isinstance(error, (snapdb.errors.CommitConflict, snapdb.errors.LockedError)):
                raise
"""


@pytest.mark.slow
def test_publishers_and_readers_that_are_killed_show_no_mixture(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = _bucket(endpoint, monkeypatch, tmp_path.name)
    path = tmp_path / "db"
    with snapdb.connect(path) as db:
        db.script("CREATE TABLE t AS SELECT 1 AS n FROM range(1); CREATE TABLE u AS SELECT 1 AS n;")
        published(db, url)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "cli", ROOT / "grammar")))}
    draws = random.Random(7)

    def started(text: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", text, *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    for _ in range(KILLS // 2):
        processes = [started(PUBLISHER, path, url), started(READER, url, tmp_path / "cache")]
        for process in processes:
            assert process.stdout is not None
            for _ in range(draws.randint(1, 4)):
                if not process.stdout.readline():
                    break
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            _, errors = process.communicate()
            assert not errors.strip(), errors
        with snapdb.connect(url, cache=tmp_path / "fresh") as copy:
            assert copy.execute("CHECK DATABASE").fetchall() == []
            ((rows, version),) = copy.execute("SELECT (SELECT sum(n) FROM t), (SELECT n FROM u)").fetchall()
            assert rows == version
    with snapdb.connect(path) as db:
        published(db, url)


def test_a_path_is_a_file_url(shop: snapdb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"file://{tmp_path}/beside" in published(shop, "beside")
    with snapdb.connect(f"file://{tmp_path}/beside", cache=tmp_path / "cache") as copy:
        assert batches(copy) == batches(shop)


def test_urls() -> None:
    assert shown("https://a:b@host/x?sig=1") == "https://host/x"
    assert not is_url(Path("s3://x"))
    assert is_url("GS://bucket/x")


def test_nothing_is_imported_before_it_is_used(
    fresh_process: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    use = "import snapdb, sys; snapdb.connect().execute('SELECT 1').fetchall()"
    text = f"{use}; print({{'obstore', 'ray'}} & {{*sys.modules}})"
    assert fresh_process(text).stdout.strip() == "set()"


def test_an_attachment_is_found_in_any_process(shop: snapdb.Database, tmp_path: Path) -> None:
    """A stream that is sent to another process fetches there what it needs."""
    url = f"file://{tmp_path}/published"
    published(shop, url)
    with snapdb.connect(url, cache=tmp_path / "cache") as copy, copy.stream("train") as stream:
        sent = pickle.dumps(stream)
    other = "import pickle, sys; print([b.n_id['person'].tolist() for b in pickle.load(sys.stdin.buffer)])"
    read = subprocess.run([sys.executable, "-c", other], input=sent, capture_output=True, check=True)
    assert json.loads(read.stdout) == [b.n_id["person"].tolist() for b in shop.stream("train")]


def test_a_damaged_head_or_record_is_reported(shop: snapdb.Database, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/published"
    published(shop, url)
    head = tmp_path / "published" / "HEAD.json"
    content = json.loads(head.read_text())
    head.write_text(json.dumps({**content, "format": 99}))
    with refused("newer-format"):
        snapdb.connect(url, cache=tmp_path / "cache")
    head.write_text("{")
    with refused("damaged-object"):
        snapdb.connect(url, cache=tmp_path / "cache")
    head.write_text(json.dumps(content))
    (tmp_path / "shop.snapdb" / "publications.json").write_text("[")
    with refused("damaged-file"):
        published(shop, url)

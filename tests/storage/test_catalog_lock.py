"""What a process opens and closes in the database directory drops no lock that its commits rest on."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

import snapdb
from snapdb.storage.catalog_db import locks
from snapdb.storage.catalog_db.codec import VersionLog
from tests.support.inside import catalog_db_of
from tests.support.inside.storage import CatalogLock, open_db_dir
from tests.support.places import ROOT
from tests.support.refusals import refused

pytestmark = pytest.mark.slow

END = 300
"""Seconds after which a process that hangs is given up; nothing is measured by it."""


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=END)


def insert_elsewhere(path: Path, value: int) -> None:
    """Another process opens the database, inserts, and closes it."""
    run(f"import snapdb\nwith snapdb.connect({str(path)!r}) as db: db.execute('INSERT INTO t VALUES ({value})')")


def copy_tree(path: Path) -> None:
    shutil.copytree(path, path.with_name("copy"))


def pack(path: Path) -> None:
    with tarfile.open(path.with_name("packed.tar"), "w") as archive:
        archive.add(path)


def digest(path: Path) -> None:
    for each in path.iterdir():
        if each.is_file():
            hashlib.sha256(each.read_bytes())


def check_format(path: Path) -> None:
    with closing(sqlite3.connect(path / "catalog.sqlite")) as connection:
        connection.execute("SELECT count(*) FROM versions").fetchone()


READERS: dict[str, Callable[[Path], None]] = {
    "shutil.copytree": copy_tree,
    "tarfile": pack,
    "hashlib": digest,
    "sqlite3": check_format,
}


@pytest.mark.parametrize("reader", READERS)
def test_what_was_committed_stays_though_the_process_read_the_catalog_as_a_file(tmp_path: Path, reader: str) -> None:
    path = tmp_path / "test.snapdb"
    code = f"""
import os, pathlib, signal
import snapdb
from tests.storage.test_catalog_lock import READERS, insert_elsewhere
path = pathlib.Path({str(path)!r})
db = snapdb.connect(path)
db.execute("CREATE TABLE t AS SELECT 1 AS i")
READERS[{reader!r}](path)
insert_elsewhere(path, 2)
for i in (3, 4, 5):
    db.execute(f"INSERT INTO t VALUES ({{i}})")
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, timeout=END, cwd=ROOT)
    assert ended.returncode == -signal.SIGKILL
    with snapdb.connect(path) as db:
        assert db.execute("SELECT i FROM t ORDER BY i").fetchall() == [(1,), (2,), (3,), (4,), (5,)]
        assert db.execute("CHECK DATABASE").fetchall() == []
        assert [row[0] for row in db.execute("SELECT version FROM snapdb.versions").fetchall()] == [1, 2, 3, 4, 5]


def test_nobody_writes_beside_a_transaction_whose_sqlite_locks_were_dropped(tmp_path: Path) -> None:
    path = tmp_path / "test.snapdb"
    with snapdb.connect(path) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS i")
        with catalog_db_of(db).writing() as connection:
            connection.execute("UPDATE facts SET value = value + 1 WHERE name = 'changes'")
            digest(path)  # drops SQLite's lock of the one writer
            other = CatalogLock(open_db_dir(path, read_only=False))
            with refused("catalog-busy"), other.writing(0.01):
                pass
            other.release()
        insert_elsewhere(path, 2)
        assert db.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_the_log_is_folded_in_only_while_nobody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapdb.storage.catalog_db.connection._CHECKPOINT", 1)
    path = tmp_path / "test.snapdb"
    log = path / "catalog.sqlite-wal"
    with snapdb.connect(path) as db, snapdb.connect(path) as reader:
        db.execute("CREATE TABLE t AS SELECT 1 AS i")
        assert log.stat().st_size == 0
        with catalog_db_of(reader).reading() as connection:
            before = connection.execute("SELECT count(*) FROM versions").fetchone()[0]
            digest(path)
            writer = threading.Thread(target=db.execute, args=("INSERT INTO t VALUES (2)",))
            writer.start()
            writer.join()
            assert log.stat().st_size > 0
            assert connection.execute("SELECT count(*) FROM versions").fetchone()[0] == before
        db.execute("INSERT INTO t VALUES (3)")
        assert log.stat().st_size == 0


def test_the_last_one_out_leaves_no_log_and_an_earlier_one_leaves_it_to_others(tmp_path: Path) -> None:
    path = tmp_path / "test.snapdb"
    log = path / "catalog.sqlite-wal"
    first = snapdb.connect(path)
    first.execute("CREATE TABLE t AS SELECT 1 AS i")
    second = snapdb.connect(path)
    first.close()
    assert log.exists()
    second.close()
    assert not log.exists()


@pytest.mark.parametrize("removed", [True, False])
def test_a_log_that_was_taken_away_is_noticed_before_anything_is_written(tmp_path: Path, removed: bool) -> None:
    path = tmp_path / "test.snapdb"
    log = path / "catalog.sqlite-wal"
    db = snapdb.connect(path)
    db.execute("CREATE TABLE t AS SELECT 1 AS i")
    log.unlink()
    if not removed:
        log.write_bytes(b"")
    for statement in ("INSERT INTO t VALUES (2)", "SELECT * FROM t"):
        with refused("database-gone") as caught:
            db.execute(statement)
        assert caught.value.code == "database-gone"
    db.close()
    assert log.exists() is not removed  # neither folded in nor deleted: it is not this connection's


def forked(path: Path) -> None:
    """A database that lost a version: another one was published and acknowledged, as its log of versions says."""
    with snapdb.connect(path) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS i")
    VersionLog(path).append(2, "ab" * 32)


def test_a_check_finds_a_forked_history(tmp_path: Path) -> None:
    forked(path := tmp_path / "test.snapdb")
    with snapdb.connect(path) as db:
        rows = db.execute("CHECK DATABASE").fetchall()
    assert [(row[0], row[1]) for row in rows] == [("chain", "versions.log")]
    assert "version 2 was published, but is not in the catalog" in rows[0][2]
    with refused("damaged-file"):
        snapdb.connect(path, verify=True)


def test_no_version_number_is_given_out_twice(tmp_path: Path) -> None:
    forked(path := tmp_path / "test.snapdb")
    with snapdb.connect(path) as db:
        with refused("forked-history") as caught:
            db.execute("INSERT INTO t VALUES (2)")
        assert caught.value.code == "forked-history"
        assert db.execute("SELECT count(*) FROM t").fetchone() == (1,)
        (path / "versions.log").unlink()
        db.execute("INSERT INTO t VALUES (2)")
        assert db.execute("CHECK DATABASE").fetchall() == []


@pytest.mark.parametrize("torn", [b"2 abc", b"\0" * 40, b"2 " + b"a" * 64 + b"x\n"])
def test_a_line_that_a_crash_cut_short_says_nothing(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "test.snapdb"
    with snapdb.connect(path) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS i")
        with open(path / "versions.log", "ab") as log:
            log.write(torn)
        db.execute("INSERT INTO t VALUES (2)")
        db.execute("INSERT INTO t VALUES (3)")
        assert db.execute("CHECK DATABASE").fetchall() == []
    assert len((path / "versions.log").read_bytes().splitlines()) == 4


def test_a_process_forked_in_a_transaction_does_not_hold_its_lock(tmp_path: Path) -> None:
    path = tmp_path / "test.snapdb"
    with snapdb.connect(path) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS i")
        end, start = os.pipe()
        with catalog_db_of(db).writing():
            child = os.fork()
            if not child:
                os.read(end, 1)
                os._exit(0)
        insert_elsewhere(path, 2)
        os.write(start, b"x")
        os.waitpid(child, 0)
        os.close(end)
        os.close(start)
        assert db.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_a_read_only_connection_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "test.snapdb"
    with snapdb.connect(path) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS i")
    (path / "catalog.lock").unlink()
    with snapdb.connect(path, read_only=True) as db:
        assert db.execute("SELECT count(*) FROM t").fetchone() == (1,)
    assert not (path / "catalog.lock").exists()


def test_closing_leaves_no_file_open(tmp_path: Path) -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    path = tmp_path / "test.snapdb"
    snapdb.connect(path).close()
    before = opened()
    for _ in range(3):
        snapdb.connect(path).close()
        snapdb.connect(path, read_only=True).close()
    assert opened() == before
    assert fcntl.F_OFD_SETLK  # what the tests above rest on


def test_a_catalog_is_not_opened_without_the_lock_that_protects_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "test.snapdb"
    snapdb.connect(path).close()
    clock = itertools.count(0, 6)
    with open(path / "catalog.sqlite", "r+b") as held:
        start, length = locks._SHARED_RANGE
        taken = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
        fcntl.fcntl(held, fcntl.F_OFD_SETLK, taken)  # as SQLite holds it while it folds the log in and deletes it
        monkeypatch.setattr(locks, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
        with refused("catalog-busy"):
            CatalogLock(open_db_dir(path, read_only=False))
    monkeypatch.undo()
    snapdb.connect(path).close()

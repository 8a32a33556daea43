"""Versions, ids, conflicts and crashes, through the public door."""

from __future__ import annotations

import hashlib
import re
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import snapdb
from snapdb import Database
from tests.support.inside.storage import (
    MANIFEST,
    DatabaseDir,
    Disk,
    Lease,
    publishing,
    read_manifest,
    remove_unless_held,
)
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE, interrupting

GRAPH = """
CREATE TABLE person AS SELECT 'p' || lpad(range::VARCHAR, 3, '0') AS name FROM range(10);
CREATE TABLE knows AS SELECT 'p00' || range AS a, 'p00' || (range + 1) % 10 AS b FROM range(10);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (name))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
CREATE SNAPSHOT first OF g;
"""
SAMPLE = "SAMPLE FROM {} SEEDS (SELECT name FROM person) AS person FANOUT (knows BOTH => [2, 2]) BATCH 4 REPEATABLE (5)"


def test_a_snapshot_stays_as_it_was_whatever_is_committed_later(db: Database) -> None:
    db.script(GRAPH)
    before = db.execute(SAMPLE.format("first")).fetchall()
    db.script("""
    INSERT INTO person VALUES ('a first in order'), ('zz last');
    INSERT INTO knows VALUES ('a first in order', 'p001'), ('p001', 'zz last');
    DELETE FROM knows WHERE a = 'p003';
    """)
    assert db.execute(SAMPLE.format("first")).fetchall() == before
    db.execute("CREATE SNAPSHOT again OF g AT (VERSION => 2)")
    assert db.execute(SAMPLE.format("again")).fetchall() == before
    db.execute("CREATE OR REPLACE TABLE knows AS SELECT 'p001' AS a, 'p002' AS b")
    assert db.execute(SAMPLE.format("first")).fetchall() == before
    assert db.execute("SELECT count(*) FROM first.knows").fetchone() == (10,)
    db.execute("CREATE SNAPSHOT replaced OF g")
    assert db.execute("SELECT a, b, e_id FROM replaced.knows").fetchall() == [("p001", "p002", 0)]


def test_a_key_keeps_its_dense_id_for_ever(db: Database) -> None:
    db.script(GRAPH)
    db.execute("INSERT INTO person VALUES ('a first in order')")
    db.execute("DELETE FROM person WHERE name = 'a first in order'")
    db.execute("INSERT INTO person VALUES ('b'), ('a first in order')")
    db.execute("CREATE SNAPSHOT later OF g")
    (batch,) = db.stream(SAMPLE.format("later").replace("BATCH 4", "BATCH 100"))
    ids = dict(zip(batch.ids("person").to_pylist(), batch.n_id["person"].tolist(), strict=True))
    assert [ids[f"p{n:03}"] for n in range(10)] == list(range(10))
    assert (ids["a first in order"], ids["b"]) == (10, 11)


def test_a_snapshot_at_a_time_is_the_last_version_before_it(db: Database) -> None:
    db.script(GRAPH)
    (then,) = db.execute("SHOW VERSIONS").arrow()["time"].to_pylist()[-1:]
    time.sleep(0.01)
    db.execute("INSERT INTO knows VALUES ('p001', 'p005')")
    db.execute(f"CREATE SNAPSHOT s OF g AT (TIMESTAMP => TIMESTAMPTZ '{then.isoformat()}')")
    assert db.execute("SELECT count(*) FROM s.knows").fetchone() == (10,)


def test_versions_form_a_chain_of_hashes(db: Database) -> None:
    db.script(GRAPH + "INSERT INTO knows VALUES ('p001', 'p005') MESSAGE 'more'")
    with sqlite3.connect(db.path / "catalog.sqlite") as connection:
        rows = connection.execute("SELECT version, parent, hash, message FROM versions ORDER BY version").fetchall()
    connection.close()
    assert [row[0] for row in rows] == [1, 2, 3]
    assert [row[1] for row in rows] == ["", rows[0][2], rows[1][2]]
    assert rows[2][3] == "more"


def test_two_deletes_of_one_row_conflict_and_those_of_different_rows_do_not(db: Database) -> None:
    db.execute("CREATE TABLE t AS SELECT range AS a FROM range(10)")
    with snapdb.connect(db.path) as other:
        db.script("BEGIN; DELETE FROM t WHERE a < 5")
        other.execute("DELETE FROM t WHERE a IN (1, 9)")
        with refused("rows-moved"):
            db.execute("COMMIT")
        assert db.execute("SELECT count(*) FROM t").fetchone() == (8,)
        db.script("BEGIN; DELETE FROM t WHERE a < 5; UPDATE t SET a = 70 WHERE a = 7")
        other.script("DELETE FROM t WHERE a = 8; UPDATE t SET a = 60 WHERE a = 6")
        assert db.execute("COMMIT").message == "version 5: committed"
    assert db.execute("SELECT a FROM t ORDER BY a").fetchall() == [(5,), (60,), (70,)]


def test_appends_commute(db: Database) -> None:
    db.execute("CREATE TABLE t AS SELECT 0 AS a")
    with snapdb.connect(db.path) as other:
        db.script("BEGIN; INSERT INTO t VALUES (100); DELETE FROM t WHERE a = 0")
        other.execute("INSERT INTO t VALUES (200)")
        db.execute("COMMIT")
    assert db.execute("SELECT a FROM t ORDER BY a").fetchall() == [(100,), (200,)]


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ("ALTER TABLE t ADD COLUMN b INT", "INSERT INTO t VALUES (1)"),
        ("INSERT INTO t VALUES (1)", "ALTER TABLE t ADD COLUMN b INT"),
        ("DELETE FROM t", "ALTER TABLE t RENAME a TO b"),
        ("DROP TABLE t", "INSERT INTO t VALUES (1)"),
        ("INSERT INTO t VALUES (1)", "DROP TABLE t"),
        ("CREATE OR REPLACE TABLE t AS SELECT 5 AS a", "DELETE FROM t"),
        ("UPDATE t SET a = 1", "UPDATE t SET a = 2"),
        ("ALTER TABLE t ADD COLUMN b INT", "ALTER TABLE t ADD COLUMN c INT"),
    ],
)
def test_what_does_not_commute_is_a_conflict_that_says_what_moved(db: Database, mine: str, theirs: str) -> None:
    db.execute("CREATE TABLE t AS SELECT 0 AS a")
    with snapdb.connect(db.path) as other:
        db.script(f"BEGIN; {mine}")
        other.execute(theirs)
        with refused(
            "rows-moved" if mine.startswith("UPDATE") else "table-moved", "table t was changed concurrently: "
        ) as raised:
            db.execute("COMMIT")
        assert raised.value.retryable
    assert db.transaction_state == "idle"
    assert len(db.execute("SHOW VERSIONS").fetchall()) == 2


def test_rows_that_a_transaction_added_and_removed_again_need_the_table_for_itself(db: Database) -> None:
    db.execute("CREATE TABLE t AS SELECT 0 AS a")
    with snapdb.connect(db.path) as other:
        db.script("BEGIN; INSERT INTO t VALUES (1), (2); DELETE FROM t WHERE a = 2")
        other.execute("INSERT INTO t VALUES (3)")
        with refused("table-moved"):
            db.execute("COMMIT")
    db.script("BEGIN; INSERT INTO t VALUES (1), (2); DELETE FROM t WHERE a = 2; COMMIT")
    assert db.execute("SELECT a FROM t ORDER BY a").fetchall() == [(0,), (1,), (3,)]


WRITER = """
import sys, snapdb
with snapdb.connect({path!r}) as db:
    for i in range({count}):
        db.execute(f"INSERT INTO person VALUES ('{name}' || {{i}}), ('shared' || {{i}})")
        print(i, flush=True)
"""


def test_two_processes_append_keys_and_no_id_is_given_twice(db: Database) -> None:
    db.script(GRAPH)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER.format(path=str(db.path), name=name, count=6)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("x", "y")
    ]
    errors = [writer.communicate(timeout=PATIENCE)[1] for writer in writers]
    warned = [line for error in errors for line in error.splitlines()]
    expected = r"<string>:5: DataWarning: graph g: \d keys? of person ha(s|ve) more than one row \(shared\d.*"
    assert warned
    assert [line for line in warned if not re.fullmatch(expected, line)] == []
    db.execute("DELETE FROM person WHERE name LIKE 'shared%'")
    db.execute("CREATE SNAPSHOT s OF g")
    (batch,) = db.stream(SAMPLE.format("s").replace("BATCH 4", "BATCH 1000"))
    assert sorted(batch.ids("person").to_pylist()) == sorted(
        [f"p{n:03}" for n in range(10)] + [f"{name}{n}" for name in "xy" for n in range(6)]
    )
    assert len(set(batch.n_id["person"].tolist())) == 22


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05])
def test_a_killed_writer_leaves_whole_versions_only(db: Database, delay: float) -> None:
    db.script(GRAPH)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER.format(path=str(db.path), name="x", count=1000)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    acknowledged = int(writer.stdout.readline())
    time.sleep(delay)
    writer.send_signal(signal.SIGKILL)
    rest = writer.stdout.read().split()
    writer.wait(PATIENCE)
    writer.stdout.close()
    acknowledged = max([acknowledged, *map(int, rest)])
    with snapdb.connect(db.path, verify=True) as again:
        (found,) = again.execute("SELECT count(*) FROM person WHERE name LIKE 'x%'").fetchone()  # type: ignore[misc]
        assert found in (acknowledged + 1, acknowledged + 2)
        again.execute("INSERT INTO person VALUES ('after')")
        again.execute("DELETE FROM person WHERE name LIKE 'shared%'")
        again.execute("CREATE SNAPSHOT s OF g")
        assert again.execute("SELECT count(*) FROM s.person").fetchone() == (10 + found + 1,)


def test_a_stream_outlives_its_snapshot(db: Database) -> None:
    db.script(GRAPH)
    expected = [b.n_id["person"].tolist() for b in db.stream(SAMPLE.format("first"))]
    stream = db.stream(SAMPLE.format("first"))
    folder = next((db.path / "snapshots").iterdir())
    db.execute("DROP SNAPSHOT first")
    assert folder.exists()
    assert [b.n_id["person"].tolist() for b in stream] == expected
    stream.close()
    with refused("unknown-snapshot", '"first"', at="first"):
        db.stream(SAMPLE.format("first"))


def test_a_directory_is_removed_only_when_nobody_reads_it(tmp_path: Path) -> None:
    with publishing(Disk(), tmp_path / "x", {"kind": "test"}) as staging:
        (staging / "a").write_text("a")
    lease = Lease([tmp_path / "x"])
    assert not remove_unless_held(DatabaseDir(tmp_path, read_only=False), tmp_path / "x", tmp_path / "x" / MANIFEST)
    lease.release()
    assert remove_unless_held(DatabaseDir(tmp_path, read_only=False), tmp_path / "x", tmp_path / "x" / MANIFEST)
    assert not (tmp_path / "x").exists()


def test_publishing_leaves_all_or_nothing(tmp_path: Path) -> None:
    def fail_half_way() -> None:
        with publishing(Disk(), tmp_path / "x", {}) as staging:
            (staging / "a").write_text("a")
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    assert list(tmp_path.iterdir()) == []
    with publishing(Disk(), tmp_path / "x", {"n": 1}) as staging:
        (staging / "a").write_text("abc")
    assert read_manifest(tmp_path / "x") == {
        "n": 1,
        "files": {"a": {"bytes": 3, "sha256": hashlib.sha256(b"abc").hexdigest()}},
    }


def test_snapshots_of_one_version_share_a_topology(db: Database) -> None:
    db.script(GRAPH + "CREATE SNAPSHOT second OF g; CREATE SNAPSHOT third OF g WHERE person.name > 'p004'")
    assert len(list((db.path / "topology").rglob("indices.npy"))) == 1


def test_a_query_can_be_interrupted_and_the_database_goes_on(db: Database) -> None:
    with interrupting(db.interrupt), refused("interrupted"):
        db.execute("SELECT count(*) FROM range(10_000_000_000) t(a) WHERE hash(a) % 7 = 1").fetchall()
    assert db.execute("SELECT 1").fetchone() == (1,)


def test_registered_data_can_be_read_and_python_variables_cannot(db: Database) -> None:
    secret = [1, 2, 3]
    db.register("numbers", {"n": secret})
    assert db.execute("SELECT sum(n) FROM numbers").fetchone() == (6,)
    with refused("unknown-table", '"secret"', at="secret"):
        db.execute("SELECT * FROM secret")


def test_parameters_are_values_and_never_code(db: Database) -> None:
    db.execute("CREATE TABLE t AS SELECT $a AS a, $b::INT AS b", {"a": "x'; DROP TABLE t; --", "b": 2})
    db.execute("INSERT INTO t SELECT ?, ?", ["y", 3])
    db.execute("DELETE FROM t WHERE b = $b", {"b": 3})
    assert db.execute("SELECT * FROM t").fetchall() == [("x'; DROP TABLE t; --", 2)]
    with refused("parameter-missing", at="$b"):
        db.execute("SELECT $b", {"a": 1})
    with refused("parameter-missing", at="?"):
        db.execute("SELECT ?")


def test_a_temporary_database_goes_when_it_is_closed() -> None:
    with snapdb.connect() as db:
        db.execute("CREATE TABLE t (a INT)")
        path = db.path
    assert not path.exists()


def test_a_forked_process_connects_anew_and_closes_nothing() -> None:
    code = """
import os, snapdb
with snapdb.connect() as db:
    db.execute("CREATE TABLE t AS SELECT range AS a FROM range(1000)")
    if not (child := os.fork()):
        with snapdb.connect(db.path) as own:
            assert own.execute("SELECT sum(a) FROM t").fetchone() == (499500,)
        for act in (lambda: db.execute("SELECT sum(a) FROM t"), lambda: db.execute("CREATE TAG one"), db.names):
            try:
                act()
            except snapdb.DatabaseError as error:
                assert error.code == "closed" and "forked" in error.message, error
            else:
                raise AssertionError("a forked process used its parent's database")
        db.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert db.execute("SELECT count(*) FROM t").fetchone() == (1000,)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_keys_are_numbered_whatever_a_transaction_does_to_their_column(db: Database) -> None:
    graph = "CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY ({}))"
    db.script(f"CREATE TABLE v (k VARCHAR); {graph.format('k')}; INSERT INTO v VALUES ('c'); DROP PROPERTY GRAPH g")
    db.script("BEGIN; INSERT INTO v VALUES ('b'); ALTER TABLE v RENAME k TO name; INSERT INTO v VALUES ('a'); COMMIT")
    db.script(f"{graph.format('name')}; CREATE SNAPSHOT s OF g; DROP SNAPSHOT s; DROP PROPERTY GRAPH g")
    written = [pq.read_table(path).to_pylist() for path in (db.path / "ids").rglob("*.parquet")]
    keys = [[str(value) for row in rows for value in row.values()] for rows in written]
    assert [rows for rows in keys if "c" in rows and len(rows) == 3] == [["c", "a", "b"]]
    db.script(
        "BEGIN; INSERT INTO v VALUES ('d'); ALTER TABLE v ADD n INT; ALTER TABLE v DROP name; INSERT INTO v VALUES (1)"
    )
    assert db.execute("COMMIT").message == "version 4: committed"
    assert db.execute("SELECT count(n), count(*) FROM v").fetchone() == (1, 5)
    assert db.execute("CHECK DATABASE").fetchall() == []


def test_graphs_that_name_a_key_at_the_same_moment_share_its_ids(db: Database) -> None:
    graph = "CREATE PROPERTY GRAPH {} VERTEX TABLES ({} KEY (name))"
    with snapdb.connect(db.path) as other, ThreadPoolExecutor(2) as pool:
        for n in range(6):
            db.execute(f"CREATE TABLE t{n} AS SELECT 'p' || range AS name FROM range(1000)")
            made = [pool.submit(c.execute, graph.format(f"{x}{n}", f"t{n}")) for c, x in ((db, "g"), (other, "h"))]
            assert all(m.result().message for m in made)
            db.execute(f"INSERT INTO t{n} VALUES ('q')")
            db.script(f"CREATE SNAPSHOT s{n} OF g{n}; CREATE SNAPSHOT r{n} OF h{n}")
    assert len(list((db.path / "ids").rglob("*.parquet"))) == 12

"""Small files of a table are merged by the writer who brings one too many."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import snapdb
from snapdb import Database
from tests.support.inside import catalog_db_of
from tests.support.inside.storage import _MANY, _Member, _tiers
from tests.support.waiting import PATIENCE

WRITER = """
import snapdb
with snapdb.connect({path!r}) as db:
    for number in range(100):
        db.execute("INSERT INTO t VALUES ({first} + ?)", [number])
"""


def files(db: Database, kind: str = "rows") -> int:
    """How many files of a kind the catalog names."""
    return len(catalog_db_of(db).rows("SELECT 1 FROM segments WHERE kind = ?", (kind,)))


def test_inserts_merge_small_files_and_change_nothing_that_is_read(db: Database) -> None:
    db.execute("CREATE TABLE t (i BIGINT)")
    most = 0
    for number in range(3 * _MANY):
        message = db.execute(f"INSERT INTO t VALUES ({number})").message
        assert message == f"version {number + 2}: 1 row added to t"
        most = max(most, files(db))
    assert most == _MANY
    assert files(db) < _MANY
    for version in (2, 40, _MANY + 1, _MANY + 2, 2 * _MANY, 3 * _MANY):
        rows = db.execute(f"SELECT i FROM t AT (VERSION => {version})").fetchall()
        assert rows == [(i,) for i in range(version - 1)]
    assert db.execute("CHECK DATABASE").fetchall() == []


def test_deletes_merge_small_files_and_each_version_has_its_rows(db: Database) -> None:
    db.execute("CREATE TABLE t AS SELECT range AS i FROM range(1000)")
    for number in range(2 * _MANY + 5):
        db.execute(f"DELETE FROM t WHERE i = {3 * number}")
        assert files(db, "deletes") <= _MANY
    for version in (1, 2, _MANY, _MANY + 1, _MANY + 2, 2 * _MANY + 6):
        gone = {3 * number for number in range(version - 1)}
        rows = db.execute(f"SELECT i FROM t AT (VERSION => {version})").fetchall()
        assert rows == [(i,) for i in range(1000) if i not in gone]
        assert db.execute(f"SELECT count(*) FROM t AT (VERSION => {version})").fetchall() == [(len(rows),)]
    assert db.execute("CHECK DATABASE").fetchall() == []


def test_edges_keep_their_ids_and_snapshots_are_refreshed_over_merged_files(db: Database) -> None:
    db.script("""
        CREATE TABLE person AS SELECT range AS id FROM range(50);
        CREATE TABLE knows (a BIGINT, b BIGINT, t BIGINT);
        CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id)) EDGE TABLES (knows
          SOURCE KEY (a) REFERENCES person (id) DESTINATION KEY (b) REFERENCES person (id) EVENT TIME (t));
        INSERT INTO knows SELECT range % 50, range * 7 % 50, range FROM range(200);
        CREATE SNAPSHOT s OF g;
    """)
    for number in range(_MANY + 20):
        db.execute(f"INSERT INTO knows VALUES ({number % 50}, {number * 3 % 50}, {1000 + number})")
        if number % 20 == 3:
            db.execute(f"DELETE FROM knows WHERE t = {number} OR t = {1000 + number - 3}")
            db.execute("REFRESH SNAPSHOT s")
    db.execute("REFRESH SNAPSHOT s")
    assert files(db) < _MANY
    ids = db.execute("SELECT t, e_id FROM s.knows").fetchall()
    assert ids == sorted(ids)
    assert all(e_id == (t if t < 1000 else t - 800) for t, e_id in ids)
    sample = "SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (knows => [999]) REPEATABLE (1)"
    patched = db.execute(sample).fetchall()
    db.execute("REFRESH SNAPSHOT s FULL")
    assert db.execute(sample).fetchall() == patched


def test_a_transaction_merges_when_it_has_committed(db: Database) -> None:
    db.execute("CREATE TABLE t (i BIGINT)")
    db.execute("BEGIN")
    for number in range(_MANY + 5):
        db.execute(f"INSERT INTO t VALUES ({number})")
    assert files(db) == 1
    assert not catalog_db_of(db).rows("SELECT 1 FROM upkeep")
    db.execute("COMMIT")
    assert files(db) < _MANY
    assert db.execute("SELECT i FROM t").fetchall() == [(i,) for i in range(_MANY + 5)]


def test_a_merge_that_fails_leaves_the_insert_committed(db: Database) -> None:
    db.execute("CREATE TABLE t (i BIGINT)")
    for number in range(_MANY - 1):
        db.execute(f"INSERT INTO t VALUES ({number})")
    (damaged,) = catalog_db_of(db).rows("SELECT path FROM segments ORDER BY id DESC LIMIT 1")
    path = Path(db.path) / damaged["path"]
    whole = path.read_bytes()
    path.write_bytes(bytes(len(whole)))
    assert db.execute("INSERT INTO t VALUES (-1)").message.startswith("version 65")
    assert files(db) == _MANY + 1
    path.write_bytes(whole)
    assert db.execute("INSERT INTO t VALUES (-2)").message.startswith("version 66")
    assert files(db) < _MANY
    assert db.execute("SELECT i FROM t").fetchall()[-3:] == [(_MANY - 2,), (-1,), (-2,)]


def test_writers_at_once_merge_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.snapdb"
    with snapdb.connect(path) as db:
        db.execute("CREATE TABLE t (i BIGINT)")
        code = [WRITER.format(path=str(path), first=first) for first in (0, 1000)]
        writers = [subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE) for text in code]
        assert [writer.communicate(timeout=PATIENCE)[1] for writer in writers] == [b"", b""]
        assert sorted(db.execute("SELECT i FROM t").fetchall()) == [(n + i,) for n in (0, 1000) for i in range(100)]
        assert files(db) < 2 * _MANY
        assert db.execute("CHECK DATABASE").fetchall() == []


@pytest.mark.parametrize("rows", [[1], [40], [3_000], [1, 10, 100, 1_000, 10_000], [1, 1, 30_000]])
def test_merging_writes_each_row_a_few_times_however_many_inserts(rows: list[int]) -> None:
    overhead, inserts, taken, written, merges = 500, 5_000, 0, 0, 0
    run: list[_Member] = []
    for number in range(inserts):
        count = rows[number % len(rows)]
        run.append(_Member(str(number), count, overhead + 8 * count, "", 0, 1, 1))
        taken += run[-1].bytes
        for part in _tiers(run) if len(run) > _MANY else ():
            merged, at = sum(m.rows for m in part), run.index(part[0])
            run[at : at + len(part)] = [part[0]._replace(rows=merged, bytes=overhead + 8 * merged)]
            written, merges = written + run[at].bytes, merges + 1
        assert len(run) <= _MANY
        run = [member for member in run if member.bytes < 32 << 20]  # large ones are left alone
    assert merges < inserts / 40
    assert written < 3 * taken

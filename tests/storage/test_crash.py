"""The power goes at every operation of every statement: the old version or the new one is there, whole."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path

import pytest

import snapdb
from tests.support.crashing import Crash, CrashingDisk, _copy, crash_everywhere, script
from tests.support.format_one import write_format_one
from tests.support.inside.storage import _MANY, upgrade
from tests.support.refusals import refused

pytestmark = pytest.mark.slow

SHOP = """
CREATE TABLE person AS SELECT 'p' || range AS name, range * 2.5 AS weight FROM range(20);
CREATE TABLE knows AS SELECT 'p' || range AS a, 'p' || (range + 1) % 20 AS b, range AS t FROM range(20);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (name) FEATURES (weight AS x))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t));
CREATE SNAPSHOT first OF g FOR EVENT_TIME AS OF 10;
INSERT INTO person VALUES ('q1', 1); INSERT INTO person VALUES ('q2', 2);
CREATE TABLE spare (a INT); DELETE FROM knows WHERE a = 'p3'; DELETE FROM knows WHERE a = 'p4';
"""
STATEMENTS = {
    "create table": "CREATE TABLE made AS SELECT range AS a FROM range(5)",
    "replace table": "CREATE OR REPLACE TABLE knows AS SELECT 'p1' AS a, 'p2' AS b, 7::BIGINT AS t",
    "insert": "INSERT INTO person VALUES ('new', 0.5), ('p1', 3)",
    "new files": "COPY person FROM '${FILES}/*.csv' (FORMAT csv, NEW FILES ONLY)",
    "delete": "DELETE FROM knows WHERE t > 15",
    "update": "UPDATE knows SET t = t + 100 WHERE t < 3",
    "alter": "ALTER TABLE person ADD COLUMN age INTEGER DEFAULT 7",
    "drop table": "DROP TABLE spare",
    "transaction": """BEGIN; INSERT INTO person VALUES ('in', 1); DELETE FROM knows WHERE t = 9;
        UPDATE person SET weight = 0 WHERE name = 'p2'; CREATE TABLE made (a INT); COMMIT""",
    "snapshot": "CREATE SNAPSHOT second OF g",
    "replace snapshot": "CREATE OR REPLACE SNAPSHOT first OF g WHERE knows.t > 4",
    "drop snapshot": "DROP SNAPSHOT first",
    "vacuum": "VACUUM RETAIN INTERVAL '0 seconds'",
    "vacuum after a drop": "DROP SNAPSHOT first; VACUUM RETAIN INTERVAL '0 seconds'",
}
REFRESH = "REFRESH SNAPSHOT first"
SNAPSHOTS = {
    "refresh by a patch": ("", REFRESH, "patched"),
    "refresh over a patch": (f"{REFRESH}; INSERT INTO knows VALUES ('p1', 'p9', 9)", REFRESH, "patched"),
    "refresh by a merge": ("INSERT INTO knows SELECT 'p' || range, 'p7', 3 FROM range(3)", REFRESH, "merged"),
    "refresh by building": ("UPDATE person SET weight = 7 WHERE name = 'p3'", f"{REFRESH} FULL", "built"),
    "ends": ("", "CREATE SNAPSHOT second OF g FOR EVENT_TIME AS OF 9 WITH (layout = 'ends')", "(ends)"),
    "bitmap": ("", "CREATE SNAPSHOT second OF g FOR EVENT_TIME FROM 5 TO 9 WITH (layout = 'bitmap')", "(bitmap)"),
    "materialized": (
        "",
        "CREATE SNAPSHOT second OF g FOR EVENT_TIME WINDOW 4 WITH (layout = 'materialized')",
        "(materialized)",
    ),
}
"""What happened before, a statement, and how it did it."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shop") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.script(SHOP)
    (path.parent / "day.csv").write_text("name,weight\nfrom a file,3\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_crash_leaves_the_old_or_the_new_version(shop: Path, tmp_path: Path, name: str) -> None:
    statement = STATEMENTS[name].replace("${FILES}", str(shop.parent))
    assert crash_everywhere(shop, tmp_path / "copy.snapdb", script(statement)) > 1


def test_a_crash_while_small_files_are_merged_leaves_the_old_or_the_new_version(shop: Path, tmp_path: Path) -> None:
    original = tmp_path / "shop.snapdb"
    _copy(shop, original)
    script("; ".join(f"INSERT INTO knows VALUES ('p1', 'p5', {100 + i})" for i in range(_MANY - 1)))(original, None)
    insert = script("INSERT INTO knows VALUES ('p1', 'p6', 500)")
    alone = crash_everywhere(shop, tmp_path / "copy.snapdb", insert)
    assert crash_everywhere(original, tmp_path / "copy.snapdb", insert) > alone


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_crash_leaves_the_old_or_the_new_snapshot(shop: Path, tmp_path: Path, name: str) -> None:
    before, statement, how = SNAPSHOTS[name]
    original = tmp_path / "shop.snapdb"
    _copy(shop, original)
    script(before)(original, None)
    assert crash_everywhere(original, tmp_path / "copy.snapdb", script(statement)) > 20
    with snapdb.connect(original) as db:
        assert how in str(db.execute(statement).message)


def test_a_crash_in_an_upgrade_leaves_the_old_or_the_new_format(tmp_path: Path) -> None:
    original = tmp_path / "old.snapdb"
    write_format_one(original)
    with refused("old-format"):
        snapdb.connect(original)
    copy, crashes = tmp_path / "copy.snapdb", 0
    for at in range(1, 100):
        _copy(original, copy)
        try:
            upgrade(copy, disk=CrashingDisk(copy, at))
        except Crash:
            gc.collect()
            crashes += 1
        upgrade(copy)
        with snapdb.connect(copy) as db:
            assert db.execute("CHECK DATABASE").fetchall() == []
            assert db.execute("SELECT sum(a) FROM t").fetchone() == (10,)
        if crashes < at:
            break
    assert crashes > 5


def test_a_new_database_that_crashed_can_be_made_again(tmp_path: Path) -> None:
    for at in range(1, 100):
        path = tmp_path / "new.snapdb"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        try:
            script("CREATE TABLE t AS SELECT 1 AS a")(path, CrashingDisk(path, at))
        except Crash:
            gc.collect()
        else:
            break
        with snapdb.connect(path) as db:
            assert db.execute("CREATE OR REPLACE TABLE t AS SELECT 1 AS a").rowcount == 1
            assert db.execute("CHECK DATABASE").fetchall() == []
    assert at > 5

"""What is kept and what goes: EXPIRE SNAPSHOTS, DROP … CASCADE, and what SHOW and DESCRIBE tell of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import snapdb
from snapdb import Database
from tests.support.crashing import crash_everywhere, script
from tests.support.inside.execute import ExecutionContext
from tests.support.inside.plan import DropPlan, ExpirePlan
from tests.support.plans import planned
from tests.support.refusals import refused

SHOP = """
CREATE TABLE person AS SELECT 'p' || range AS name, range * 2.5 AS weight FROM range(20);
CREATE TABLE knows AS SELECT 'p' || range AS a, 'p' || (range + 1) % 20 AS b, range AS t FROM range(20);
CREATE TABLE spare (a INT);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (name) FEATURES (weight AS x))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t));
CREATE PROPERTY GRAPH other VERTEX TABLES (person KEY (name))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
CREATE SNAPSHOT s1 OF g FOR EVENT_TIME AS OF 5; CREATE SNAPSHOT s2 OF g FOR EVENT_TIME AS OF 9;
CREATE SNAPSHOT o1 OF other; CREATE SNAPSHOT s3 OF g FOR EVENT_TIME FROM 3 TO 12;
"""
SAMPLE = "SAMPLE FROM s1 SEEDS (SELECT name FROM person) AS person FANOUT (knows => [2])"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.script(SHOP)
    return path


def names(db: Database) -> list[str]:
    return [row[0] for row in db.execute("SHOW SNAPSHOTS").fetchall()]


def folders(shop: Path) -> int:
    return len(list((shop / "snapshots").iterdir()))


def test_expire_keeps_the_last_of_each_graph_and_removes_the_files_of_the_others(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        told = db.execute("EXPIRE SNAPSHOTS RETAIN LAST 1 DRY RUN")
        assert told.columns == ["snapshot", "action", "graph", "version", "created", "bytes", "reason"]
        expected = [("s1", "expire", "g"), ("s2", "expire", "g"), ("o1", "keep", "other"), ("s3", "keep", "g")]
        assert [row[:3] for row in told.fetchall()] == expected
        assert (names(db), folders(shop)) == (["s1", "s2", "o1", "s3"], 4)
        done = db.execute("EXPIRE SNAPSHOTS RETAIN LAST 1")
        assert [row[:3] for row in done.fetchall()] == expected
        assert re.fullmatch(
            r"2 snapshots expired, [\d,]+ bytes not shared with other snapshots; VACUUM removes .*", str(done.message)
        )
        assert (names(db), folders(shop)) == (["o1", "s3"], 2)
        assert db.execute("CHECK DATABASE").fetchall() == []
        again = db.execute("EXPIRE SNAPSHOTS OF g RETAIN LAST 1").fetchall()
        assert [(row[0], row[1]) for row in again] == [("s3", "keep")]


def test_expire_spares_a_tagged_version_and_what_is_young(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        assert not any(
            row[1] == "expire" for row in db.execute("EXPIRE SNAPSHOTS OLDER THAN INTERVAL '1 day'").fetchall()
        )
        db.execute("CREATE TAG v1")
        db.execute("INSERT INTO person VALUES ('new', 1)")
        db.execute("CREATE SNAPSHOT s4 OF g")
        rows = db.execute("EXPIRE SNAPSHOTS OLDER THAN INTERVAL '0 seconds'").fetchall()
        assert {row[0]: row[1] for row in rows} == dict.fromkeys(["s1", "s2", "s3", "o1"], "keep") | {"s4": "expire"}
        assert {row[6] for row in rows if row[1] == "keep"} == {"version 3 is tagged v1"}
        assert names(db) == ["s1", "s2", "o1", "s3"]


def test_a_stream_keeps_the_files_of_what_expired_until_it_is_done(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        expected = [batch.ids("person").to_pylist() for batch in db.stream(SAMPLE)]
        stream = db.stream(SAMPLE)
        rows = db.execute("EXPIRE SNAPSHOTS OF g RETAIN LAST 2").fetchall()
        assert rows[0][:2] + rows[0][6:] == ("s1", "expire", "its files are kept until their readers finish")
        assert "s1" not in names(db)
        assert folders(shop) == 4
        assert [batch.ids("person").to_pylist() for batch in stream] == expected
        stream.close()
        db.execute("VACUUM RETAIN INTERVAL '0 seconds'").fetchall()
        assert folders(shop) == 3


def test_a_snapshot_that_was_replaced_meanwhile_does_not_expire(shop: Path) -> None:
    with snapdb.connect(shop) as db, snapdb.connect(shop) as other:
        run = planned(
            db, lambda e: ExpirePlan(tuple((s, None) for s in e.bind_context.catalog.snapshots.values()), False)
        )
        other.execute("CREATE OR REPLACE SNAPSHOT s2 OF g")
        rows = {row[0]: (row[1], row[6]) for row in run()}
        action, reason = rows["s2"]
        assert action == "keep"
        assert reason.startswith("it was refreshed, replaced, dropped or given a sampler concurrently")
        assert rows["s1"] == ("expire", None)
        assert names(other) == ["s2"]


def test_cascade_takes_what_depends_and_tells_it(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        with refused("in-use", "CASCADE", at="knows"):
            db.execute("DROP TABLE knows")
        dropped = db.execute("DROP GRAPH other CASCADE")
        assert dropped.message == "graph other dropped, with snapshot o1"
        assert (names(db), folders(shop)) == (["s1", "s2", "s3"], 3)
        before = len(db.execute("SHOW VERSIONS").fetchall())
        message = str(db.execute("DROP TABLE knows CASCADE").message)
        for name in ("table knows dropped", "snapshot s1", "snapshot s2", "snapshot s3", "graph g"):
            assert name in message
        assert len(db.execute("SHOW VERSIONS").fetchall()) == before + 1
        assert (names(db), folders(shop)) == ([], 0)
        assert db.execute("SHOW GRAPHS").fetchall() == []
        assert db.execute("CHECK DATABASE").fetchall() == []


def test_cascade_stands_outside_transactions(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        db.execute("BEGIN")
        with refused("not-in-transaction", at="DROP TABLE knows CASCADE"):
            db.execute("DROP TABLE knows CASCADE")
        db.execute("ROLLBACK")
        assert names(db) == ["s1", "s2", "o1", "s3"]


def test_what_was_made_meanwhile_is_not_left_without_what_it_stands_on(shop: Path) -> None:
    with snapdb.connect(shop) as db, snapdb.connect(shop) as other:

        def dropping(kind: str, name: str) -> Callable[[], list[tuple[Any, ...]]]:
            def plan(engine: ExecutionContext) -> DropPlan:
                catalog = engine.bind_context.catalog
                snapshots = [s for s in catalog.snapshots.values() if s.graph.name == name or kind == "table"]
                graphs = [] if kind == "graph" else list(catalog.graphs.values())
                target = catalog.graph(name) if kind == "graph" else catalog.table(name)
                return DropPlan(target, catalog.version, (*snapshots, *graphs))

            return planned(db, plan)

        run = dropping("graph", "g")
        other.execute("CREATE SNAPSHOT s9 OF g")
        with refused("graph-moved"):
            run()
        run = dropping("table", "spare")
        other.execute("""CREATE PROPERTY GRAPH third VERTEX TABLES (spare KEY (a), person KEY (name))
            EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person)""")
        with refused("graph-moved"):
            run()
        assert names(other) == ["s1", "s2", "o1", "s3", "s9"]
        assert len(db.execute("SHOW GRAPHS").fetchall()) == 3


@pytest.mark.parametrize(
    "statement", ["DROP TABLE knows CASCADE", "DROP GRAPH g CASCADE", "EXPIRE SNAPSHOTS OF g RETAIN LAST 1"]
)
def test_a_crash_leaves_everything_or_nothing_of_what_goes_together(shop: Path, tmp_path: Path, statement: str) -> None:
    assert crash_everywhere(shop, tmp_path / "copy.snapdb", script(statement)) > 1


def test_show_lists_age_tag_and_what_a_snapshot_tracks(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        db.script(
            "CREATE TAG v1; CREATE TAG v2; CREATE SNAPSHOT tagged OF g AT (TAG => 'v1') FOR EVENT_TIME WINDOW 7;"
            "CREATE SNAPSHOT head OF other; CREATE SNAPSHOT fixed OF g AT (VERSION => 3)"
        )
        shown = db.execute("SHOW SNAPSHOTS OF g")
        assert shown.columns[7:10] == ["age", "tracks", "tag"]
        rows = {row[0]: row[7:10] for row in shown.fetchall()}
        assert list(rows) == ["s1", "s2", "s3", "tagged", "fixed"]
        assert rows["tagged"] == ("00:00", "tag v1 + window 7", "v1, v2")
        assert rows["fixed"] == ("00:00", None, "v1, v2")
        assert rows["s1"][1] == "head"
        assert [row[0] for row in db.execute("SHOW SNAPSHOTS OF other LIKE 'h%'").fetchall()] == ["head"]
        db.execute("DROP TAG v1")
        db.execute("INSERT INTO spare VALUES (1)")
        db.execute("CREATE SNAPSHOT untagged OF g")
        assert db.execute("SHOW SNAPSHOTS LIKE 'untagged'").fetchall()[0][9] is None


def test_describe_tells_of_each_element_how_it_lies(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        db.execute("CREATE SNAPSHOT w OF g FOR EVENT_TIME WINDOW 7")
        described = db.execute("DESCRIBE SNAPSHOT w")
        assert described.columns[:6] == ["name", "kind", "count", "version", "event_time", "filter"]
        assert described.columns[6:] == ["form", "bytes", "reason", "features", "stored"]
        first, person, knows = described.fetchall()
        assert first[4] == "WINDOW 7: BETWEEN 13 AND 19"
        assert first[:4] == ("w", "snapshot of g", 20, 3)
        assert (person[0], person[9]) == ("person", "x = weight")
        assert person[10].startswith("features/")
        assert (knows[2], knows[6] is not None, knows[8] is not None) == (7, True, True)
        assert knows[10].startswith("topology/")


def test_describe_tells_what_time_means_in_a_graph(db: Database) -> None:
    db.script("""CREATE TABLE person (id INT, born BIGINT, w DOUBLE);
        CREATE TABLE rated (id INT, at_time BIGINT, score DOUBLE);
        CREATE TABLE member (a INT, b INT, since BIGINT, til BIGINT);
        CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id) EVENT TIME (born)
            FEATURES ((w) AS x TYPE float16, score AS score FROM rated KEY (id) EVENT TIME (at_time) DEFAULT 0))
          EDGE TABLES (member SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person
            EVENT TIME (since, til) NULLS STATIC)""")
    person, member = db.execute("DESCRIBE GRAPH g").fetchall()
    assert person[5] == "born"
    assert person[7] == "x = w float16; score = score from rated (id; since at_time)"
    assert member[5] == "since → til, nulls static"

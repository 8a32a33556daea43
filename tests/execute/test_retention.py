"""Retention: what it lets go, by EXPIRE SNAPSHOTS and after runs, held against a plain model; files that are in use."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import snapdb
from snapdb import Database
from snapdb.sql import parse
from snapdb.types import Snapshot
from tests.support.crashing import crash_everywhere, script
from tests.support.inside import catalog_db_of, db_dir_of
from tests.support.inside.cli import _question
from tests.support.inside.execute import apply_retentions
from tests.support.inside.storage import MANIFEST, Disk, TablesLock, decode, encode
from tests.support.refusals import refused

SHOP = """
CREATE TABLE person AS SELECT 'p' || range AS name FROM range(20);
CREATE TABLE knows AS SELECT 'p' || range AS a, 'p' || (range + 1) % 20 AS b FROM range(20);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (name))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
CREATE SNAPSHOT s1 OF g; INSERT INTO knows VALUES ('p1', 'p5'); CREATE SNAPSHOT s2 OF g;
INSERT INTO knows VALUES ('p2', 'p6'); CREATE SNAPSHOT s3 OF g;
"""
MANY = """
CREATE TABLE p AS SELECT range AS id FROM range(3);
CREATE PROPERTY GRAPH g VERTEX TABLES (p KEY (id)); CREATE PROPERTY GRAPH h VERTEX TABLES (p KEY (id));
CREATE SNAPSHOT of_h OF h; CREATE TAG t;
"""
OTHER = "CREATE PROPERTY GRAPH h VERTEX TABLES (person KEY (name)); CREATE SNAPSHOT h1 OF h; CREATE SNAPSHOT h2 OF h"
KEEP_LAST = "ALTER PROPERTY GRAPH g SET RETENTION (all '0.000001 seconds')"
SAMPLE = "SAMPLE FROM s1 SEEDS (SELECT name FROM person) AS person FANOUT (knows => [2])"
DAY = 86_400


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("built") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.script(SHOP)
    return path


@pytest.fixture
def shop(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "shop.snapdb"))


def made_at(db: Database, moments: dict[str, datetime], *, field: str = "created") -> None:
    """Write into the catalog when snapshots were made, or refreshed."""
    with catalog_db_of(db).writing() as connection:
        for row in connection.execute("SELECT id, name, path, definition FROM snapshots").fetchall():
            if (moment := moments.get(row["name"])) is not None:
                microseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
                # A definition is read once for each id, as nothing changes one: so it gets another.
                (number,) = connection.execute("SELECT max(id) + 1 FROM snapshots").fetchone()
                told = replace(decode(Snapshot, row["definition"]), id=number, **{field: microseconds})
                connection.execute("DELETE FROM snapshots WHERE id = ?", (row["id"],))
                connection.execute(
                    "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)",
                    (number, told.name, told.name.lower(), encode(told), row["path"]),
                )


def applied(db: Database) -> list[str]:
    with db.reading(committed=True) as engine:
        return apply_retentions(engine)


def names(db: Database) -> list[str]:
    return [row[0] for row in db.execute("SHOW SNAPSHOTS").fetchall()]


def folders(shop: Path, kind: str = "snapshots") -> list[str]:
    return sorted(path.parent.name for path in (shop / kind).rglob(MANIFEST))


def noted(db: Database) -> list[str]:
    return [row["path"] for row in catalog_db_of(db).rows("SELECT path FROM garbage")]


@dataclass(frozen=True)
class Asked:
    """A snapshot as the model knows it."""

    name: str
    moment: datetime
    tagged: bool
    sampled: bool


BUCKETS: dict[str, Callable[[datetime], Any]] = {
    "daily": lambda t: t.date(),
    "weekly": lambda t: t.isocalendar()[:2],
    "monthly": lambda t: (t.year, t.month),
    "yearly": lambda t: t.year,
}


def modelled(asked: Sequence[Asked], rules: dict[str, int], keep_tagged: bool, now: datetime) -> set[str]:
    """Who stays, asked of each by itself."""
    stays = set()
    for one in asked:
        newer = [other for other in asked if other.moment > one.moment]
        held = one.sampled or (keep_tagged and one.tagged) or not newer
        for keeps, days in rules.items():
            young = now - one.moment < timedelta(days=days)
            bucket = BUCKETS.get(keeps, lambda t: t)
            held = held or (young and all(bucket(other.moment) != bucket(one.moment) for other in newer))
        if held:
            stays.add(one.name)
    return stays


def test_what_expires_is_what_a_plain_model_lets_go(tmp_path: Path) -> None:
    chance, count = random.Random(9), 24
    with snapdb.connect(tmp_path / "many.snapdb") as db:
        db.script(MANY)
        tagged = {f"s{n}" for n in range(0, count, 6)}
        for n in range(count):
            if n == 1:  # the others are of a version that has no tag
                db.execute("INSERT INTO p VALUES (100)")
            at = " AT (TAG => 't')" if f"s{n}" in tagged else ""
            db.execute(f"CREATE SNAPSHOT s{n} OF g{at}")
        db.execute("CREATE SAMPLER sa AS SAMPLE FROM s7 SEEDS (SELECT id FROM p) AS p FANOUT (DEFAULT => [1])")
        for trial in range(12):
            now = datetime.now(UTC)
            span = chance.choice([3, 30, 400, 4000])
            rules = {keeps: chance.randint(1, span) for keeps in ("all", *BUCKETS) if chance.random() < 0.5} or {
                "all": 1
            }
            # Ages are off from whole days by more than the test takes, so that none passes the end of a rule meanwhile.
            ages = [chance.randrange(span) * DAY + chance.randrange(3600, DAY - 3600) for _ in range(count)]
            moments = {f"s{n}": now - timedelta(seconds=age, microseconds=n) for n, age in enumerate(ages)}
            field = chance.choice(["created", "refreshed"])
            if field == "refreshed":
                made_at(db, {name: now - timedelta(days=9000) for name in moments})
            made_at(db, moments, field=field)
            if field == "created":
                unrefreshed(db)
            asked = [Asked(name, moment, name in tagged, name == "s7") for name, moment in moments.items()]
            keep_tagged = chance.random() < 0.5
            said = ", ".join(
                [f"{keeps} '{days} days'" for keeps, days in rules.items()] + ["keep_tagged"] * keep_tagged
            )
            told = db.execute(f"ALTER PROPERTY GRAPH g SET RETENTION ({said}) DRY RUN").fetchall()
            assert [row[0] for row in told] == sorted(moments, key=lambda name: moments[name])
            stays = modelled(asked, rules, keep_tagged, now)
            assert {row[0] for row in told if row[1] == "keep"} == stays, (trial, said)
            assert all((row[1] == "keep") == (row[6] is not None) for row in told)
        db.execute(f"ALTER PROPERTY GRAPH g SET RETENTION ({said})")
        assert [row[:2] for row in db.execute("EXPIRE SNAPSHOTS BY RETENTION").fetchall()] == [row[:2] for row in told]
        assert set(names(db)) == stays | {"of_h"}
        assert len(folders(db.path)) == len(stays) + 1
        assert db.execute("CHECK DATABASE").fetchall() == []


def unrefreshed(db: Database) -> None:
    """Take back that snapshots were refreshed."""
    with catalog_db_of(db).writing() as connection:
        for row in connection.execute("SELECT id, definition FROM snapshots").fetchall():
            told = replace(decode(Snapshot, row["definition"]), refreshed=None)
            connection.execute("UPDATE snapshots SET definition = ? WHERE id = ?", (encode(told), row["id"]))
    db._session._head = None


def test_setting_a_retention_lets_nothing_go_and_tells_what_it_would(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        said = str(db.execute(KEEP_LAST).message)
        assert said == (
            "graph g keeps all '0.000001 seconds'; 2 snapshots expire after the next run of a task, or with "
            "EXPIRE SNAPSHOTS OF g BY RETENTION"
        )
        assert names(db) == ["s1", "s2", "s3"]
        told = db.execute("ALTER PROPERTY GRAPH g SET RETENTION (all '1 day') DRY RUN")
        assert [row[1] for row in told.fetchall()] == ["keep"] * 3
        expired = "0 snapshots would expire, 0 bytes not shared with other snapshots"
        assert told.message == f"{expired}; the retention of graph g is unchanged"
        described = db.execute("DESCRIBE GRAPH g")
        assert len(described.fetchall()) == 2
        assert described.message == "keeps all '0.000001 seconds' of its snapshots"
        dropped = str(db.execute("ALTER PROPERTY GRAPH g DROP RETENTION").message)
        assert dropped == "graph g no longer has retention rules; its snapshots are kept until they are dropped"
    with snapdb.connect(shop, read_only=True) as db:
        assert db.execute("ALTER GRAPH g SET RETENTION (all '1 day') DRY RUN").rowcount == 3
        with refused("read-only"):
            db.execute(KEEP_LAST)


def test_a_run_applies_the_retention_of_every_graph_that_has_one(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        db.script(OTHER)
        assert applied(db) == []
        db.execute(KEEP_LAST)
        (line,) = applied(db)
        assert line.startswith("retention of graph g: expired s1, s2, ")
        assert names(db) == ["s3", "h1", "h2"]
        assert applied(db) == []
        db.script("ALTER PROPERTY GRAPH h SET RETENTION (all '1 day'); CREATE OR REPLACE SNAPSHOT s3 OF g")
        assert applied(db) == []
        assert len(folders(shop)) == 3


def test_a_snapshot_in_use_keeps_its_files_until_the_run_after_it_is_released(shop: Path) -> None:
    with snapdb.connect(shop) as db, snapdb.connect(shop) as trainer:
        expected = [batch.ids("person").to_pylist() for batch in db.stream(SAMPLE)]
        stream = trainer.stream(SAMPLE)
        db.execute(KEEP_LAST)
        (line,) = applied(db)
        assert line.endswith("; the files of s1 are kept until their readers finish")
        assert (names(db), len(folders(shop))) == (["s3"], 2)
        assert applied(db) == []
        assert [batch.ids("person").to_pylist() for batch in stream] == expected
        stream.close()
        assert applied(db) == ["removed the files of 1 expired snapshot, which no longer have readers"]
        assert len(folders(shop)) == 1
        assert db.execute("CHECK DATABASE").fetchall() == []


@pytest.mark.parametrize("statement", ["REFRESH SNAPSHOT s1", "CREATE OR REPLACE SNAPSHOT s1 OF g", "DROP SNAPSHOT s1"])
def test_what_was_replaced_or_dropped_while_it_was_read_goes_too(shop: Path, statement: str) -> None:
    with snapdb.connect(shop) as db:
        stream = db.stream(SAMPLE)
        db.script("INSERT INTO knows VALUES ('p3', 'p9')")
        db.execute(statement)
        there = len(names(db))
        assert len(folders(shop)) == there + 1
        assert applied(db) == []
        stream.close()
        assert applied(db) == ["removed the files of 1 expired snapshot, which no longer have readers"]
        assert len(folders(shop)) == there


def test_what_is_noted_does_not_pile_up(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        for _ in range(4):
            db.execute("CREATE OR REPLACE SNAPSHOT s1 OF g")
            assert len(noted(db)) == 1
        assert not [row for row in db.execute("VACUUM DRY RUN").fetchall() if row[1].startswith("snapshots/")]
        db.execute("VACUUM").fetchall()
        assert not [path for path in noted(db) if path.startswith("snapshots/")]


def age(shop: Path) -> None:
    """Make files as old as if they were written two hours ago."""
    for path in shop.rglob(MANIFEST):
        os.utime(path, (time.time() - 7200,) * 2)


def test_shared_files_that_no_snapshot_uses_go_when_nobody_else_is_at_the_tables(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        db.execute("REFRESH SNAPSHOT s3 FULL")
        db.execute(KEEP_LAST)
        shared = folders(shop, "topology")
        age(shop)
        stream = db.stream(SAMPLE.replace("s1", "s2"))
        reader = TablesLock(db_dir_of(db))
        assert len(applied(db)) == 1
        assert folders(shop, "topology") == shared
        reader.release()
        assert applied(db) == []  # nothing went, so nothing is looked at
        stream.close()
        lines = applied(db)
        assert lines[0] == "removed the files of 1 expired snapshot, which no longer have readers"
        assert lines[1].endswith("which no snapshot uses any more")
        assert len(folders(shop, "topology")) == 1
        assert db.execute("CHECK DATABASE").fetchall() == []
        assert len(db.execute(SAMPLE.replace("s1", "s3")).fetchall()) > 0


def test_shared_files_that_are_read_go_when_they_are_released(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        db.execute("REFRESH SNAPSHOT s3 FULL")
        db.execute(KEEP_LAST)
        age(shop)
        stream = db.stream(SAMPLE)
        shared = len(folders(shop, "topology"))
        assert len(applied(db)) >= 1
        held = folders(shop, "topology")
        assert 1 < len(held) <= shared
        stream.close()
        assert applied(db)[0].startswith("removed the files of ")
        assert len(folders(shop, "topology")) == 1
        assert db.execute("CHECK DATABASE").fetchall() == []


def test_a_lost_race_is_left_for_the_next_run(shop: Path) -> None:
    with snapdb.connect(shop) as db, snapdb.connect(shop) as other:
        db.execute(KEEP_LAST)
        with db.reading(committed=True) as engine:
            other.execute("CREATE OR REPLACE SNAPSHOT s1 OF g")
            other.execute("DROP SNAPSHOT s2")
            other.execute(
                "CREATE SAMPLER keeps AS SAMPLE FROM s1 SEEDS (SELECT name FROM person) AS person FANOUT (knows => [1])"
            )
            assert apply_retentions(engine) == []
        assert sorted(names(db)) == ["s1", "s3"]
        catalog_db_of(db)._connection.execute("PRAGMA busy_timeout = 20")
        writer = sqlite3.connect(shop / "catalog.sqlite", isolation_level=None)
        try:
            other.execute("DROP SAMPLER keeps")
            writer.execute("BEGIN IMMEDIATE")
            (line,) = applied(db)
        finally:
            writer.close()
        assert line.startswith("retention is postponed to the next run: ")
        assert applied(db)[0].startswith("retention of graph g: expired s3, ")


def meanwhile(monkeypatch: pytest.MonkeyPatch, db: Database, act: Callable[[], object]) -> None:
    """Do something once, after it was seen which snapshots are to go, and before they go."""
    plain = catalog_db_of(db).writing
    acts = [act]

    def writing(**options: bool) -> AbstractContextManager[sqlite3.Connection]:
        while acts:
            acts.pop()()
        return plain(**options)

    monkeypatch.setattr(catalog_db_of(db), "writing", writing)


@pytest.mark.parametrize("way", ["a run", "a statement"])
@pytest.mark.parametrize(
    ("act", "stays"),
    [
        ("CREATE TAG kept AT (VERSION => 2)", ["s1", "s3"]),
        ("DROP SNAPSHOT s3", ["s2"]),
        ("ALTER PROPERTY GRAPH g SET RETENTION (all '1 day')", ["s1", "s2", "s3"]),
        ("ALTER PROPERTY GRAPH g DROP RETENTION", ["s1", "s2", "s3"]),
    ],
)
def test_what_is_said_meanwhile_counts(
    shop: Path, act: str, stays: list[str], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with snapdb.connect(shop) as db, snapdb.connect(shop) as other:
        db.execute("ALTER PROPERTY GRAPH g SET RETENTION (all '0.000001 seconds', keep_tagged)")
        meanwhile(monkeypatch, db, lambda: other.execute(act))
        if way == "a run":
            applied(db)
        else:
            told = db.execute("EXPIRE SNAPSHOTS OF g BY RETENTION").fetchall()
            assert {row[0] for row in told if row[1] == "keep"} >= set(stays)
        assert sorted(names(db)) == stays


def test_a_crash_leaves_all_snapshots_that_go_or_none(shop: Path, tmp_path: Path) -> None:
    with snapdb.connect(shop) as db:
        db.execute(KEEP_LAST)
    assert crash_everywhere(shop, tmp_path / "copy.snapdb", script("EXPIRE SNAPSHOTS OF g BY RETENTION")) > 1


def test_a_crash_of_a_run_leaves_nothing_that_the_next_does_not_find(shop: Path, tmp_path: Path) -> None:
    with snapdb.connect(shop) as db:
        db.execute("REFRESH SNAPSHOT s3 FULL")
        db.execute(KEEP_LAST)

    def run(path: Path, disk: Disk | None) -> None:
        age(path)
        with Database(path, disk=disk) as db:
            applied(db)

    assert crash_everywhere(shop, tmp_path / "copy.snapdb", run) > 1


def test_a_retention_that_cannot_be_read_is_damage(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        with catalog_db_of(db).writing() as connection:
            connection.execute("""UPDATE graphs SET retention = '{"rules": 3, "keep_tagged": false}'""")
        with refused("damaged-catalog"):
            db.execute("SHOW GRAPHS").fetchall()


def test_the_prompt_asks_before_snapshots_go_and_not_before_a_retention_does(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        db.execute(KEEP_LAST)

        def asked(sql: str) -> str | None:
            return _question(db, parse(sql)[0])

        assert asked("EXPIRE SNAPSHOTS OF g BY RETENTION") == "expire 2 snapshots: s1, s2?"
        assert asked("EXPIRE SNAPSHOTS BY RETENTION DRY RUN") is None
        assert asked("ALTER PROPERTY GRAPH g DROP RETENTION") is None
        assert asked(KEEP_LAST) is None
        assert names(db) == ["s1", "s2", "s3"]

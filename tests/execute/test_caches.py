"""Caches by name, the generations of a sampler's rows, and EVERY AUTO: what the language says of REFRESH and keeps."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import snapdb
from snapdb import Database
from snapdb.types import CacheStats
from tests.support.checks import problems
from tests.support.crashing import crash_everywhere, script
from tests.support.format_one import UNSCHEDULED
from tests.support.inside import committed_catalog_of, db_dir_of
from tests.support.inside.plan import CreateCachePlan, DropPlan, RefreshCachePlan
from tests.support.inside.storage import CacheReport, CacheReports, this_process
from tests.support.plans import planned
from tests.support.refusals import refused
from tests.support.waiting import until

PEOPLE = """
CREATE TABLE person AS SELECT range AS name FROM range(60);
CREATE TABLE knows AS SELECT range % 60 AS a, (range * 7 + range // 13) % 60 AS b FROM range(1200);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (name)) EDGE TABLES (
  knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
CREATE SNAPSHOT s OF g;
"""
FRESH = "SAMPLE FROM s SEEDS (SELECT name FROM person) AS person FANOUT (knows => [3, 2]) BATCH 10"
TRAIN = f"{FRESH} REFRESH FCR EVERY 2 BATCHES SHARED"
CACHED = f"{PEOPLE}; CREATE SAMPLER train AS {TRAIN}; CREATE CACHE hot ON SAMPLER train IN MEMORY '1MB'"


@pytest.fixture
def own(db: Database) -> Database:
    """Persons, a sampler of theirs, and its cache."""
    db.script(CACHED)
    return db


def edges(stream: Any) -> list[list[int]]:
    """The edges of each batch of an epoch."""
    with stream:
        return [batch.only.e_id.tolist() for batch in stream]


def shown(db: Database, name: str = "hot") -> dict[str, Any]:
    """What SHOW CACHES tells of a cache."""
    (row,) = db.execute(f"SHOW CACHES LIKE '{name}'").arrow().to_pylist()
    return dict(row)


def described(db: Database) -> dict[str, str]:
    """What DESCRIBE CACHE tells."""
    return dict(db.execute("DESCRIBE CACHE hot").fetchall())


def kept(db: Database, sampler: str) -> str:
    """The text that a sampler keeps."""
    (found,) = db.execute("SELECT statement FROM snapdb.samplers WHERE name = ?", [sampler]).fetchall()
    return str(found[0])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("REFRESH FCR", "REFRESH FCR EVERY {} BATCHES"),
        ("REFRESH /* é */ FCR SHARED EVERY AUTO", "REFRESH FCR EVERY {} BATCHES SHARED"),
        ("REFRESH OTF 12.50 PERCENT SCOPE VISITED", "REFRESH OTF 12.50 PERCENT EVERY {} BATCHES SCOPE VISITED"),
    ],
)
def test_every_auto_becomes_a_number_where_a_sampler_is_made_or_opened(db: Database, said: str, told: str) -> None:
    db.script(PEOPLE)
    whole = f"{FRESH} {said} REPEATABLE (7)"
    db.execute(f"CREATE SAMPLER auto AS {whole}")
    with db.stream(whole) as stream:
        period = stream.spec.refresh.every
        assert stream.lineage["sampler"] == f"{FRESH} {told.format(period)} REPEATABLE (7)"
        found = [batch.only.e_id.tolist() for batch in stream]
    assert kept(db, "auto") == f"{FRESH} {told.format(period)} REPEATABLE (7)"
    db.execute("INSERT INTO person SELECT range FROM range(60, 2000)")
    db.execute("REFRESH SNAPSHOT s")
    with db.stream("auto") as later:
        assert later.spec.refresh.every == period, "what was counted then holds"
    assert edges(db.stream("SAMPLE USING auto SEEDS (SELECT name FROM person WHERE name < 60) AS person")) == found


def test_a_replay_does_not_count_again(db: Database) -> None:
    db.script(PEOPLE)
    with db.stream(f"{FRESH} REFRESH OTF 30 PERCENT") as stream:
        batches = list(stream)
    again = db.replay(batches[4].lineage, 4)
    assert again.lineage == batches[4].lineage
    assert again.only.e_id.tolist() == batches[4].only.e_id.tolist()


@pytest.mark.parametrize("scope", ["ALL", "VISITED"])
def test_rows_of_sql_are_those_of_a_stream_and_of_a_replay(db: Database, scope: str) -> None:
    db.script(PEOPLE)
    text = f"{FRESH} REFRESH OTF 40 PERCENT EVERY 2 BATCHES SCOPE {scope}"
    rows = db.execute(f"{text} EPOCHS 2").fetchall()
    with db.stream(text) as stream:
        batches = [batch for _ in range(2) for batch in stream]
    assert [[row[6] for row in rows if row[0] == number] for number in range(12)] == [
        batch.only.e_id.tolist() for batch in batches
    ]
    assert db.replay(batches[9].lineage, 3).only.e_id.tolist() == batches[9].only.e_id.tolist()
    found = db.replay_rows(batches[9].lineage, 3).column("e_id").to_pylist()
    assert found == batches[9].only.e_id.tolist()


def test_refresh_cache_begins_a_generation_that_open_streams_do_not_join(own: Database) -> None:
    with own.stream("train") as before:
        first = next(iter(before))
        own.execute("REFRESH CACHE hot CONCURRENTLY")
        assert [batch.lineage["generation"] for batch in before] == [0] * 6
        kept_on = edges(before)
    with own.stream("train") as after:
        batches = list(after)
    assert [batch.lineage["generation"] for batch in batches] == [1] * 6
    assert kept_on != [batch.only.e_id.tolist() for batch in batches]
    assert own.replay(first.lineage, 0).only.e_id.tolist() == first.only.e_id.tolist()
    assert own.replay(batches[3].lineage, 3).only.e_id.tolist() == batches[3].only.e_id.tolist()
    assert [row[6] for row in own.execute("SAMPLE USING train").fetchall()] == [
        edge for batch in batches for edge in batch.only.e_id.tolist()
    ]


def test_refresh_cache_draws_the_rows_that_this_process_keeps(own: Database) -> None:
    assert "drawn" not in own.execute("REFRESH CACHE hot").message, "no stream left any"
    with own.stream("train") as stream:
        list(stream)
        until(lambda: (stream.cache_stats() or {}).get("filled") == 60)
    assert own.execute("REFRESH CACHE hot").message == ("cache hot: generation 2 of sampler train, 60 rows sampled")
    assert edges(own.stream("train")) == edges(own.stream(f"SAMPLE USING train {'WITH torch'}"))


def test_other_generations_are_those_of_samplers_and_of_exports(own: Database, tmp_path: Path) -> None:
    own.execute("REFRESH CACHE hot")
    own.execute("CREATE SAMPLER twin AS SAMPLE USING train")
    own.execute("CREATE SAMPLER fresh AS SAMPLE USING train REFRESH FBL")
    own.execute("CREATE CACHE whole ON SAMPLER fresh")
    own.execute(f"COPY (SAMPLE USING train) TO '{tmp_path}/out'")
    assert {batch.lineage["generation"] for batch in snapdb.read_batches(tmp_path / "out")} == {1}
    assert edges(own.stream("twin")) == edges(own.stream(TRAIN)) != edges(own.stream("train"))
    before = edges(own.stream("fresh"))
    own.execute("REFRESH CACHE whole")
    assert edges(own.stream("fresh")) == before == edges(own.stream(FRESH))
    own.execute(f"CREATE OR REPLACE SAMPLER train AS {TRAIN}")
    assert edges(own.stream("train")) == edges(own.stream(TRAIN))
    assert (shown(own)["generation"], shown(own, "whole")["generation"]) == (0, 1)


def test_a_lineage_of_no_generation_is_damaged(own: Database) -> None:
    with own.stream("train") as stream:
        lineage = stream.lineage
    for generation, named in ((-1, "generation is -1"), ("1", "generation is '1'"), (None, "generation")):
        wrong = {name: value for name, value in lineage.items() if name != "generation" or generation is not None}
        with refused("lineage", named):
            own.replay(wrong | ({} if generation is None else {"generation": generation}), 0)


def test_what_a_stream_tells_of_its_cache_is_listed_everywhere(own: Database) -> None:
    assert [shown(own)[name] for name in ("bytes", "rows", "hit_rate", "streams")] == [None, None, None, 0]
    expected = edges(own.stream(TRAIN))
    with own.stream("train") as stream, snapdb.connect(own.path, read_only=True) as other:
        assert [batch.only.e_id.tolist() for batch in stream] == expected
        until(lambda: bool(shown(other)["rows"]))
        assert shown(other)["streams"] == 1
    found = shown(own)
    assert (found["streams"], found["rows"]) == (0, 60)
    assert 0 < found["bytes"] <= 1_000_000
    assert described(own)["rows"] == "60 of 60"
    own.execute("VACUUM").fetchall()
    assert shown(own)["bytes"] is None


def test_streams_that_have_a_cache_at_once_are_summed(own: Database) -> None:
    cache = committed_catalog_of(own).cache("hot")
    for number, (age, batch) in enumerate(((2.0, 7), (8.0, None))):
        stats = CacheStats(bytes=10, rows=4, filled=1 + 2 * number, hits=1, misses=1 - number, age=age, batch=batch)
        CacheReports(db_dir_of(own)).write(f"{number}", CacheReport(cache.id, this_process(), True, 0, stats))
    gone = CacheReport(cache.id, "1.0", True, 0, CacheStats(bytes=1000, hits=1000, error="the disk is full"))
    CacheReports(db_dir_of(own)).write("gone", gone)
    found = shown(own)
    assert [found[name] for name in ("bytes", "rows", "streams")] == [20, 4, 2]
    assert (found["hit_rate"], found["age"]) == (0.6667, (2.0 * 1 + 8.0 * 3) / 4)
    assert (described(own)["batch"], described(own)["error"]) == ("7", None)


def test_what_is_told_says_which_rows_it_is_of(own: Database) -> None:
    cache = committed_catalog_of(own).cache("hot")
    stats = CacheStats(bytes=10, rows=4, filled=2, drawn=2)
    CacheReports(db_dir_of(own)).write("one", CacheReport(cache.id, this_process(), True, 0, stats))
    assert (described(own)["streams"], described(own)["drawn"]) == ("1", "2 rows in an unfinished pass")
    own.execute("REFRESH CACHE hot")
    assert (described(own)["generation"], described(own)["streams"]) == (
        "1",
        "1; the numbers below are of generation 0",
    )
    CacheReports(db_dir_of(own)).write("two", CacheReport(cache.id, this_process(), True, 1, replace(stats, refills=1)))
    assert described(own)["streams"] == "2; the numbers below are of generation 0, 1"
    assert described(own)["drawn"] == "4 rows in 1 pass"


def test_what_happens_meanwhile_is_a_conflict(own: Database) -> None:
    catalog = committed_catalog_of(own)
    train, hot = catalog.sampler("train"), catalog.cache("hot")
    drop_sampler = planned(own, lambda e: DropPlan(train, 0))
    drop_cache = planned(own, lambda e: DropPlan(hot, 0))
    again = planned(own, lambda e: CreateCachePlan(hot, None))
    refresh = planned(own, lambda e: RefreshCachePlan(hot, train, False))
    with snapdb.connect(own.path) as other:
        with refused("sampler-moved"):
            drop_sampler()
        with refused("cache-moved"):
            again()
        other.execute("REFRESH CACHE hot")
        with refused("sampler-moved"):
            refresh()
        other.execute("CREATE OR REPLACE CACHE hot ON SAMPLER train")
        with refused("cache-moved") as caught:
            drop_cache()
        assert caught.value.code == "cache-moved"
        other.execute("DROP SAMPLER train CASCADE")
        with refused("sampler-moved"):
            again()
        assert other.execute("CHECK DATABASE").fetchall() == []


def test_caches_are_made_in_no_transaction_and_in_nothing_that_is_read_only(own: Database) -> None:
    own.execute("BEGIN")
    with refused("not-in-transaction", at="REFRESH CACHE hot"):
        own.execute("REFRESH CACHE hot")
    own.execute("ROLLBACK")
    with snapdb.connect(own.path, read_only=True) as other:
        assert shown(other)["sampler"] == "train"
        for statement in ("CREATE CACHE cold ON SAMPLER train", "REFRESH CACHE hot", "DROP CACHE hot"):
            with refused("read-only"):
                other.execute(statement)


def test_a_crash_leaves_the_old_or_the_new_generation(own: Database, tmp_path: Path) -> None:
    own.close()
    assert crash_everywhere(own.path, tmp_path / "copy.snapdb", script("REFRESH CACHE hot")) > 0


def test_a_database_without_caches_is_upgraded(own: Database) -> None:
    path = own.path
    own.close()
    with closing(sqlite3.connect(path / "catalog.sqlite", isolation_level=None)) as connection:
        ((text,),) = connection.execute("SELECT definition FROM samplers").fetchall()
        old = {name: value for name, value in json.loads(text).items() if name != "generation"}
        connection.execute("UPDATE samplers SET definition = ?", (json.dumps(old),))
        connection.executescript(f"{UNSCHEDULED} DROP TABLE caches; PRAGMA user_version = 4;")
    with refused("old-format"):
        snapdb.connect(path)
    assert snapdb.upgrade(path) == f"{path}: format 4 → 7; the old catalog was saved as catalog.sqlite.format-4"
    with snapdb.connect(path) as db:
        assert db.execute("SHOW CACHES").fetchall() == db.execute("CHECK DATABASE").fetchall() == []
        db.execute("CREATE CACHE hot ON SAMPLER train")
        assert edges(db.stream("train")) == edges(db.stream(TRAIN))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("definition = '{'", "cannot read the definition of cache 'hot'"),
        ("name = 'other'", "cache 'other' has the lookup name 'hot'"),
        (
            'sampler = \'t\', definition = replace(definition, \'"sampler": "train"\', \'"sampler": "t"\')',
            "cache 'hot' is of sampler 't', which does not exist",
        ),
    ],
)
def test_check_finds_damaged_caches(own: Database, damage: str, said: str) -> None:
    with closing(sqlite3.connect(own.path / "catalog.sqlite", isolation_level=None)) as connection:
        connection.execute(f"UPDATE caches SET {damage}")
    assert said in [problem.problem for problem in problems(own.path)]

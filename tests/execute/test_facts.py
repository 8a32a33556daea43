"""What there is, as tables of the schema snapdb: the rows of SHOW, anywhere in a query, exact at every moment."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapdb
from tests.support.inside.catalog import SYSTEM_TABLES
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE

SHOWN = {
    "tables": "TABLES",
    "columns": "COLUMNS",
    "graphs": "GRAPHS",
    "snapshots": "SNAPSHOTS",
    "samplers": "SAMPLERS",
    "versions": "VERSIONS",
    "tags": "TAGS",
}

SOCIAL = """
CREATE TABLE person (id INTEGER NOT NULL, name VARCHAR DEFAULT 'nobody', x FLOAT[2]) MESSAGE 'people';
INSERT INTO person VALUES (1, 'ann', [1, 2]), (2, 'bob', [3, 4]);
CREATE TABLE knows (a INTEGER, b INTEGER, t INTEGER, w DOUBLE);
INSERT INTO knows VALUES (1, 2, 5, 0.5), (2, 1, 9, 1);
CREATE TAG first AT (VERSION => 2);
CREATE PROPERTY GRAPH Social
  VERTEX TABLES (person KEY (id) FEATURES (x AS x DEFAULT 0))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person (id) DESTINATION KEY (b) REFERENCES person (id)
               EVENT TIME (t) WEIGHT (w));
CREATE SNAPSHOT q OF social FOR EVENT_TIME AS OF 7;
CREATE SNAPSHOT early OF social AT (TAG => 'first') ELEMENTS (person);
CREATE SAMPLER train AS SAMPLE FROM q SEEDS (SELECT id FROM person) AS person FANOUT (knows => [2, 1]) BATCH 16;
"""


def rows(db: snapdb.Database, query: str) -> list[Any]:
    return db.execute(query).fetchall()


def everything(db: snapdb.Database) -> dict[str, list[Any]]:
    """All facts, ages left out: they grow while the test runs."""
    return {
        name: rows(db, f"SELECT * {'EXCLUDE (age)' if name == 'snapshots' else ''} FROM snapdb.{name}")
        for name in SYSTEM_TABLES
    }


@pytest.fixture
def social(db: snapdb.Database) -> snapdb.Database:
    db.script(SOCIAL)
    return db


@pytest.mark.parametrize("name", SHOWN)
def test_a_table_of_facts_has_the_rows_of_show(social: snapdb.Database, name: str) -> None:
    shown, read = social.execute(f"SHOW {SHOWN[name]}"), social.execute(f"FROM snapdb.{name}")
    assert shown.columns == read.columns
    assert shown.fetchall() == read.fetchall()


def test_facts_join_with_each_other_and_with_data(social: snapdb.Database) -> None:
    social.register("wanted", {"tag": ["first", "last"]})
    query = "SELECT v.version, v.message, t.name FROM snapdb.versions v JOIN snapdb.tags t ON v.version = t.version"
    assert rows(social, query + " JOIN wanted w ON w.tag = t.name") == [(2, None, "first")]
    query = """
        SELECT t.name, t.rows = (SELECT count(*) FROM person), list(c.name ORDER BY c.position)
        FROM snapdb.tables t JOIN snapdb.columns c ON c.table = t.name WHERE t.name = 'person' GROUP BY ALL
    """
    assert rows(social, query) == [("person", True, ["id", "name", "x"])]
    assert rows(social, 'SELECT count(*) FROM "snapdb"."tables" AS tables, SNAPDB.Tables') == [(4,)]


def test_facts_tell_what_graphs_are_made_of(social: snapdb.Database) -> None:
    query = "SELECT element, kind, key, source, destination_key, event_time, weight, features FROM snapdb.elements"
    assert rows(social, query) == [
        ("person", "vertex", ["id"], None, None, None, None, ["x"]),
        ("knows", "edge", None, "person", ["b"], "t", "w", []),
    ]
    assert rows(social, "SELECT element, feature, columns, type, sparse, default_value FROM snapdb.features") == [
        ("person", "x", ["x"], "float32", False, 0.0)
    ]
    assert rows(social, "SELECT name, snapshot, batch, hops, method, seeds, kind FROM snapdb.samplers") == [
        ("train", "q", 16, 2, "UNIFORM", "person", "vertex")
    ]


def test_facts_may_be_stored_and_counted_on(social: snapdb.Database) -> None:
    social.execute("CREATE TABLE history AS SELECT * FROM snapdb.versions")
    assert rows(social, "SELECT count(*), max(version) FROM history") == [(4, 4)]
    social.execute("INSERT INTO history SELECT * FROM snapdb.versions WHERE version > 4")
    assert rows(social, "SELECT max(version) FROM history") == [(5,)]
    social.execute("DELETE FROM history WHERE version IN (SELECT version FROM snapdb.tags)")
    assert rows(social, "SELECT count(*) FROM history") == [(4,)]
    assert rows(social, "SELECT (SELECT max(version) FROM snapdb.versions)") == [(7,)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE SNAPSHOT bad OF social WHERE person.id IN (SELECT version FROM snapdb.versions)",
        "SAMPLE FROM q SEEDS (SELECT version AS id FROM snapdb.versions) AS person FANOUT (knows => [1])",
        'SAMPLE FROM q SEEDS (SELECT id FROM person, "SnapDB"."Versions") AS person FANOUT (knows => [1])',
        "CREATE SAMPLER s AS SAMPLE FROM q SEEDS (FROM snapdb.versions) AS person FANOUT (knows => [1])",
    ],
)
def test_what_must_be_repeatable_reads_no_facts(social: snapdb.Database, statement: str) -> None:
    with refused("not-repeatable") as caught:
        social.execute(statement)
    assert caught.value.code == "not-repeatable"
    assert caught.value.span is not None
    said = statement[caught.value.span.start : caught.value.span.stop]
    assert said.replace('"', "").lower() == "snapdb.versions"


def test_seeds_from_outside_read_no_facts(social: snapdb.Database) -> None:
    with refused("not-repeatable", at="snapdb.versions"):
        social.stream("train", seeds="SELECT version AS id FROM snapdb.versions")


def test_a_misspelt_table_of_facts_is_told_which_there_are(social: snapdb.Database) -> None:
    with refused("unknown-table", '"snapshots"', at="snapdb.snapshot"):
        rows(social, "SELECT * FROM snapdb.snapshot")
    with refused("unknown-table", at="snapdb.zebra"):
        rows(social, "SELECT * FROM snapdb.zebra")
    with refused("unknown-table", '"snapdb"', at="snapdb"):
        rows(social, "FROM snapdb")
    with refused("unknown-table", "SUMMARIZE SNAPSHOT", at="q"):
        rows(social, "SUMMARIZE q")


def test_columns_that_are_called_like_facts_stay_columns(social: snapdb.Database) -> None:
    social.script("CREATE TABLE t AS SELECT 1 AS snapdb, {'versions': 7} AS s")
    assert rows(social, "SELECT snapdb, s.versions FROM t") == [(1, 7)]
    assert rows(social, "SELECT snapdb.versions FROM (SELECT 5 AS versions) AS snapdb") == [(5,)]


def test_an_empty_database_has_empty_facts(db: snapdb.Database) -> None:
    assert {name for name, found in everything(db).items() if found} == {"errors"}  # those are always the same
    for kind in SHOWN.values():
        assert rows(db, f"SHOW {kind}") == []


def test_a_transaction_sees_what_it_did_itself(social: snapdb.Database) -> None:
    social.script("""
        BEGIN; CREATE TABLE fresh AS SELECT 1 AS id, 2 AS y; INSERT INTO person VALUES (3, 'cy', NULL);
        DELETE FROM knows WHERE a = 2; ALTER TABLE knows ADD COLUMN z INTEGER;
    """)
    assert rows(social, "SELECT name, rows FROM snapdb.tables") == [("person", 3), ("knows", 1), ("fresh", 2 - 1)]
    assert rows(social, "SELECT name FROM snapdb.columns c WHERE c.table <> 'person'") == [
        ("a",),
        ("b",),
        ("t",),
        ("w",),
        ("z",),
        ("id",),
        ("y",),
    ]
    assert rows(social, "SELECT max(version) FROM snapdb.versions") == [(4,)]  # it is none yet
    social.execute("ROLLBACK")
    assert rows(social, "SELECT name, rows FROM snapdb.tables") == [("person", 2), ("knows", 2)]


def test_a_transaction_does_not_see_what_others_committed_since(social: snapdb.Database) -> None:
    social.execute("BEGIN")
    before = everything(social)
    with snapdb.connect(social.path) as other:
        other.script("CREATE TABLE late (id INTEGER); CREATE TAG newest; CREATE SNAPSHOT more OF social")
    assert everything(social) == before
    social.execute("COMMIT")
    assert rows(social, "SELECT name FROM snapdb.tags") == [("first",), ("newest",)]
    assert ("more",) in rows(social, "SELECT name FROM snapdb.snapshots")


def test_a_database_that_is_only_read_tells_the_same(social: snapdb.Database) -> None:
    with snapdb.connect(social.path, read_only=True) as reader:
        assert everything(reader) == everything(social)


_COMMIT = """
import sys, snapdb
with snapdb.connect(sys.argv[1]) as db:
    for _ in range(4):
        db.execute("INSERT INTO busy VALUES (1)")
"""


def test_facts_agree_with_each_other_while_another_process_commits(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "d") as db:
        db.execute("CREATE TABLE busy (id INTEGER)")
        writer = subprocess.Popen([sys.executable, "-c", _COMMIT, tmp_path / "d"])
        query = """
            SELECT (SELECT max(version) FROM snapdb.versions), version, rows,
                   (SELECT sum(rows_added) FROM snapdb.versions), (SELECT count(*) FROM busy)
            FROM snapdb.tables
        """
        seen: set[int] = set()
        while writer.poll() is None or len(seen) == 0:
            ((newest, version, counted, added, there),) = rows(db, query)
            assert newest == version == counted + 1
            assert counted == added == there
            seen.add(counted)
            time.sleep(0.02)
        assert writer.wait(PATIENCE) == 0
        assert rows(db, "SELECT rows FROM snapdb.tables") == [(4,)]


def test_show_takes_a_part_of_what_there_is(social: snapdb.Database) -> None:
    columns = [("a", "INTEGER"), ("b", "INTEGER"), ("t", "INTEGER"), ("w", "DOUBLE")]
    wanted = [("knows", name, place, type_, True, None) for place, (name, type_) in enumerate(columns, 1)]
    assert rows(social, "SHOW COLUMNS OF Knows LIKE '_'") == wanted
    assert [row[0] for row in rows(social, "SHOW SNAPSHOTS OF Social LIKE 'E%'")] == ["early"]
    assert [row[0] for row in rows(social, "SHOW SAMPLERS LIKE 'tr%'")] == ["train"]
    assert rows(social, "SHOW SAMPLERS LIKE 'q%'") == []
    assert [row[0] for row in rows(social, "SHOW TABLES AT (VERSION => 1)")] == ["person"]
    with refused("unknown-table", '"knows"', at="nows"):
        social.execute("SHOW COLUMNS OF nows")


def test_describe_finds_out_what_a_name_is(social: snapdb.Database) -> None:
    for name, kind in (("Social", "GRAPH"), ("q", "SNAPSHOT"), ("train", "SAMPLER")):
        assert rows(social, f"DESCRIBE {name}") == rows(social, f"DESCRIBE {kind} {name}")
    social.register("given", {"u": [1]})
    assert social.execute("DESCRIBE person").columns[:2] == ["column_name", "column_type"]
    assert rows(social, "DESC given")[0][:2] == ("u", "BIGINT")
    assert [row[0] for row in rows(social, "DESCRIBE q.knows")] == ["a", "b", "t", "w", "e_id"]
    social.execute("CREATE TABLE train (id INTEGER)")  # a sampler's name is its own; the table comes first
    assert [row[0] for row in rows(social, "DESCRIBE train")] == ["id"]
    with refused("unknown-table", '"Social"', at="socail"):
        social.execute("DESCRIBE socail")


def test_names_know_the_columns_of_everything(social: snapdb.Database) -> None:
    social.register("given", {"u": [1]})
    social.script("ALTER TABLE person RENAME COLUMN name TO title; ALTER TABLE knows ADD COLUMN z INTEGER;")
    names = social.names()
    assert (names["tables"], names["snapshots"], names["samplers"]) == (
        ["person", "knows", "given"],
        ["q", "early"],
        ["train"],
    )
    columns = names["columns_of"]
    assert columns["person"] == ["id", "title", "x"]
    assert columns["early.person"] == columns["q.person"] == ["id", "name", "x"]
    assert columns["q.knows"] == ["a", "b", "t", "w", "e_id"]
    assert columns["given"] == ["u"]
    assert columns["snapdb.tags"] == ["name", "version", "time"]
    assert set(columns) >= {f"snapdb.{name}" for name in SYSTEM_TABLES}
    assert {"count", "sum", "read_parquet"} <= set(names["functions"])
    assert names["tags"] == ["first"]
    for element in ("early.person", "q.person", "q.knows"):
        assert list(social.execute(f"FROM {element}").columns) == columns[element]


def test_names_are_put_together_only_when_something_changed(social: snapdb.Database) -> None:
    first = social.names()
    assert social.names() is first
    social.execute("CREATE TAG again")
    assert social.names()["tags"] == ["first", "again"]
    social.register("more", np.arange(3))
    assert social.names()["columns_of"]["more"] == ["id"]
    social.execute("BEGIN")
    social.execute("CREATE TABLE own (mine INTEGER)")
    assert social.names()["columns_of"]["own"] == ["mine"]
    social.execute("ROLLBACK")
    assert "own" not in social.names()["tables"]

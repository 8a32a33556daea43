"""GRAPH_TABLE in statements, with parameters, in transactions, interrupted, and explained."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import snapdb

SOCIAL = """
CREATE TABLE person AS SELECT i AS id, 'p' || i AS name FROM range(60) r(i);
CREATE TABLE knows AS SELECT i % 60 AS a, (i * 17 + i // 60 * 7) % 60 AS b, i AS at FROM range(600) r(i);
CREATE PROPERTY GRAPH social VERTEX TABLES (person KEY (id)) EDGE TABLES (
  knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (at));
CREATE SNAPSHOT now OF social;
"""
HOPS = (
    "SELECT * FROM GRAPH_TABLE (now MATCH (a:person WHERE a.id = {})-[e:knows]->{{1,2}}(b) COLUMNS (b.id)) ORDER BY 1"
)
ENDLESS = "SELECT * FROM GRAPH_TABLE (now MATCH TRAIL (a)-[e:knows]->*(b) COLUMNS (a.id, b.id AS other))"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[snapdb.Database]:
    with snapdb.connect(tmp_path / "social.snapdb") as database:
        database.script(SOCIAL)
        yield database


def rows(db: snapdb.Database, sql: str, params: object = None) -> list[tuple[object, ...]]:
    return db.execute(sql, params).fetchall()  # type: ignore[arg-type]


def test_parameters_keep_their_order_although_the_clauses_are_moved(db: snapdb.Database) -> None:
    text = (
        "SELECT ? AS first, * FROM GRAPH_TABLE (now MATCH (a:person WHERE a.id = ?)-[:knows]->?(b) WHERE b.id > ? "
        "COLUMNS (a.id, ? AS fourth, b.id AS b)) WHERE b < ? ORDER BY ALL"
    )
    expected = rows(db, HOPS.replace("{{1,2}}", "{{0,1}}").format(3))
    found = rows(db, text, ["x", 3, 10, "y", 50])
    assert found == [("x", 3, "y", b) for (b,) in sorted(expected) if 10 < b < 50]
    named = text.replace("?(b)", "{0,1}(b)")
    for name in ("p", "q", "r", "s", "t"):
        named = named.replace("?", f"${name}", 1)
    assert rows(db, named, dict(zip("pqrst", ["x", 3, 10, "y", 50], strict=True))) == found
    numbered = text.replace("? AS first", "$2 AS first").replace("a.id = ?)", "a.id = $1)").replace("> ?", "> $3")
    numbered = numbered.replace("? AS fourth", "$4 AS fourth").replace("< ?", "< $5")
    assert rows(db, numbered, [3, "x", 10, "y", 50]) == found


def test_statements_and_samples_read_patterns(db: snapdb.Database, tmp_path: Path) -> None:
    hops = rows(db, HOPS.format(3))
    db.execute(f"CREATE TABLE near AS {HOPS.format(3)}")
    db.execute(f"INSERT INTO near {HOPS.format(4)}")
    assert rows(db, "SELECT count(*) FROM near") == [(len(hops) + len(rows(db, HOPS.format(4))),)]
    db.execute(f"COPY ({HOPS.format(3)}) TO '{tmp_path}/near.csv'")
    assert len((tmp_path / "near.csv").read_text().splitlines()) == len(hops) + 1
    seeds = HOPS.format(3).replace("SELECT *", "SELECT DISTINCT id").replace("1,2", "1,1")
    stream = db.stream(f"SAMPLE FROM now SEEDS ({seeds}) AS person FANOUT (knows => [1]) BATCH 100")
    assert sum(batch.batch_size for batch in stream) == len(rows(db, seeds))
    edges = "SELECT e_id FROM GRAPH_TABLE (now MATCH (a WHERE a.id = 3)-[e:knows]->(b) COLUMNS (e.e_id)) ORDER BY 1"
    stream = db.stream(f"SAMPLE FROM now SEEDS EDGES knows ({edges}) FANOUT (knows => [1]) BATCH 100")
    assert sum(batch.batch_size for batch in stream) == len(rows(db, edges))


def test_tasks_test_and_run_patterns(db: snapdb.Database) -> None:
    db.execute("CREATE TABLE found (id BIGINT)")
    path = "ANY SHORTEST (a:person WHERE a.id = 1)-[:knows]->{1,9}(b)"
    pattern = f"SELECT id FROM GRAPH_TABLE (social MATCH {path} COLUMNS (b.id))"
    db.execute(
        f"CREATE TASK near SCHEDULE EVERY INTERVAL '1 hour' WHEN (EXISTS ({pattern})) AS INSERT INTO found {pattern}"
    )
    db.execute("EXECUTE TASK near")
    assert rows(db, "SELECT count(*) FROM found") == [(len(rows(db, pattern)),)]
    with pytest.raises(snapdb.SnapdbError) as caught:
        db.execute(
            "CREATE TASK bad SCHEDULE EVERY INTERVAL '1 hour' WHEN (EXISTS (FROM GRAPH_TABLE (g MATCH (a)->))) "
            "AS CHECK DATABASE"
        )
    assert caught.value.span is not None


def test_a_graph_at_the_head_contains_the_changes_of_an_open_transaction(db: snapdb.Database) -> None:
    path = "ANY SHORTEST (a:person WHERE a.id = 99)-[:knows]->+(b)"
    count = f"SELECT count(*) FROM GRAPH_TABLE ({{}} MATCH {path} COLUMNS (b.id))"
    db.execute("BEGIN")
    db.execute("INSERT INTO person VALUES (99, 'new')")
    db.execute("INSERT INTO knows VALUES (99, 1, 1000)")
    inside = rows(db, count.format("social"))
    assert inside > [(1,)]
    assert rows(db, count.format("now")) == [(0,)]
    db.execute("ROLLBACK")
    assert rows(db, count.format("social")) == [(0,)]
    db.script("INSERT INTO person VALUES (99, 'new'); INSERT INTO knows VALUES (99, 1, 1000); CREATE TAG later")
    assert rows(db, count.format("social AT (TAG => 'later')")) == inside
    assert rows(db, count.format("social AT (VERSION => 2)")) == [(0,)]


def test_the_rows_are_the_same_on_any_number_of_threads_and_in_a_copy(db: snapdb.Database, tmp_path: Path) -> None:
    text = (
        "SELECT * FROM GRAPH_TABLE (now MATCH p = {} (a:person)-[e:knows]->{{1,}}(b) WHERE b.id < 5 "
        "COLUMNS (a.id, b.id AS other, edges(p) AS e))"
    )
    searches = ["ANY SHORTEST", "ALL SHORTEST", "SHORTEST 3 ACYCLIC", "ANY EARLIEST", "ANY CHEAPEST"]
    expected = [rows(db, text.format(search)) for search in searches]
    assert all(expected)
    db.execute(f"BACKUP DATABASE TO '{tmp_path}/copy.snapdb'")
    for threads in (1, 3):
        with snapdb.connect(tmp_path / "copy.snapdb", threads=threads, read_only=True) as copy:
            assert [rows(copy, text.format(search)) for search in searches] == expected


def test_an_interrupt_ends_a_search_and_the_database_goes_on(db: snapdb.Database) -> None:
    batches = iter(db.execute(ENDLESS))
    next(batches)
    db.interrupt()
    with pytest.raises(snapdb.QueryError) as caught:
        for _ in batches:
            pass
    assert caught.value.code == "interrupted"
    assert rows(db, "SELECT count(*) FROM person") == [(60,)]
    assert not [thread for thread in threading.enumerate() if thread.name == "snapdb-paths"]


def test_a_search_ends_when_no_more_rows_are_read(db: snapdb.Database) -> None:
    assert len(rows(db, ENDLESS + " LIMIT 5")) == 5
    batches = iter(db.execute(ENDLESS))
    next(batches)
    del batches
    assert not [thread for thread in threading.enumerate() if thread.name == "snapdb-paths"]


def test_explain_shows_the_search_with_expected_and_real_rows(db: snapdb.Database) -> None:
    for search, method in {
        "ANY SHORTEST": "multi-source breadth-first search",
        "SHORTEST 2": "best-first search",
        "ANY EARLIEST": "one scan of the edges in time order",
        "TRAIL": "depth-first search",
    }.items():
        text = f"FROM GRAPH_TABLE (now MATCH {search} (a:person WHERE a.id = 1)-[:knows]->+(b) COLUMNS (b.id))"
        plan = "\n".join(str(line) for (line,) in rows(db, f"EXPLAIN {text}"))
        assert f"PATH_SEARCH {'ALL TRAIL' if search == 'TRAIL' else search}" in plan
        assert method in plan
        assert "actual" not in plan
    measured = rows(db, f"EXPLAIN (ANALYZE, FORMAT json) {text.replace('TRAIL', 'ANY SHORTEST')}")
    plan = json.loads("".join(str(line) for (line,) in measured))["plan"]
    (search_node,) = [node for node in plan["children"] if node["operator"] == "PATH_SEARCH"]
    assert search_node["actual"]["rows"] == len(rows(db, text.replace("TRAIL", "ANY SHORTEST")))
    assert search_node["actual"]["sources"] == 1
    joins = "\n".join(
        str(line)
        for (line,) in rows(db, "EXPLAIN FROM GRAPH_TABLE (now MATCH (a)-[:knows]->(b) COLUMNS (a.name, b.id))")
    )
    assert "HASH_JOIN" in joins
    assert "PATH_SEARCH" not in joins

"""Graph algorithms in statements, from Python, over snapshots of the past, interrupted and explained."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import snapdb
from snapdb.types.algorithms import ALGORITHMS

SHOP = """
CREATE TABLE person AS SELECT (i * 7919) % 1000 + 1 AS id, (i * 37) % 100 AS at FROM range(60) r(i);
CREATE TABLE item AS SELECT 'i' || (i * 31) % 40 AS code, 'de' AS land, (i * 53) % 100 AS at FROM range(40) r(i);
CREATE TABLE knows AS SELECT p.id AS a, q.id AS b, (i * 29) % 100 AS at, (i % 7) / 4 AS w
  FROM range(150) r(i) JOIN (SELECT row_number() OVER () - 1 AS k, id FROM person) p ON p.k = (i * i + 3) % 60
  JOIN (SELECT row_number() OVER () - 1 AS k, id FROM person) q ON q.k = (i * 17 + i // 9) % 60;
CREATE TABLE bought AS SELECT p.id AS a, q.code AS b, 'de' AS land, (i * 43) % 100 AS at, (i % 5) AS w
  FROM range(90) r(i) JOIN (SELECT row_number() OVER () - 1 AS k, id FROM person) p ON p.k = (i * 13) % 60
  JOIN (SELECT row_number() OVER () - 1 AS k, code FROM item) q ON q.k = (i * 11 + i // 7) % 40;
"""
GRAPH = """
CREATE PROPERTY GRAPH shop VERTEX TABLES (person KEY (id) EVENT TIME (at), item KEY (code, land) EVENT TIME (at))
  EDGE TABLES (
    knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (at) WEIGHT (w),
    bought SOURCE KEY (a) REFERENCES person DESTINATION KEY (b, land) REFERENCES item EVENT TIME (at));
"""
NAMES = [each.name for each in ALGORITHMS]
KNOWS = "edges => 'knows'"
SLOW = "SELECT * FROM betweenness('large')"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[snapdb.Database]:
    with snapdb.connect(tmp_path / "shop.snapdb") as database:
        database.script(SHOP + GRAPH + "CREATE SNAPSHOT now OF shop;")
        yield database


def rows(db: snapdb.Database, sql: str, params: object = None) -> list[tuple[object, ...]]:
    return db.execute(sql, params).fetchall()  # type: ignore[arg-type]


def call(name: str, snapshot: str, edges: str | None = "knows", **options: str) -> str:
    """Return a call of an algorithm with the arguments that it needs."""
    person = "SELECT id FROM person WHERE at < 50 ORDER BY id"
    if edges is None:
        person = "SELECT 'person' AS type, id, NULL AS code, NULL AS land FROM person WHERE at < 50 ORDER BY id"
    given = {"edges": f"'{edges}'"} if edges is not None else {}
    if name == "hops":
        given["seeds"] = f"({person} LIMIT 3)"
    if name in ("common_neighbours", "adamic_adar"):
        given["pairs"] = f"(SELECT a.id, b.id AS other FROM ({person}) a, ({person}) b)"
        if edges is None:
            columns = ", ".join(f"{t}.{c} AS {t}_{c}" for t in "ab" for c in ("type", "id", "code", "land"))
            given["pairs"] = f"(SELECT {columns} FROM ({person}) a, ({person}) b)"
    given |= options
    return f"{name}('{snapshot}'{''.join(f', {option} => {value}' for option, value in given.items())})"


def test_any_place_of_a_query_in_a_statement_can_call_an_algorithm(db: snapdb.Database, tmp_path: Path) -> None:
    text = f"SELECT id, core_number AS core FROM core_number('now', {KNOWS})"
    expected = rows(db, text)
    assert len(expected) == 60
    db.execute(f"CREATE TABLE core AS {text}")
    db.execute(f"INSERT INTO core {text} WHERE id < 500")
    assert rows(db, "SELECT * FROM core LIMIT 60") == expected
    db.execute(f"COPY ({text}) TO '{tmp_path}/core.csv'")
    assert len((tmp_path / "core.csv").read_text().splitlines()) == 61
    db.execute(f"DELETE FROM core WHERE id IN (SELECT id FROM core_number('now', {KNOWS}))")
    assert rows(db, "SELECT count(*) FROM core") == [(0,)]
    seeds = f"SELECT id FROM core_number('now', {KNOWS}) WHERE core_number > 2"
    stream = db.stream(f"SAMPLE FROM now SEEDS ({seeds}) AS person FANOUT (knows => [1]) BATCH 100")
    assert sum(batch.batch_size for batch in stream) == len(rows(db, seeds)) > 0


def test_tasks_test_and_run_algorithms(db: snapdb.Database) -> None:
    db.execute("CREATE TABLE score (id BIGINT, score DOUBLE)")
    ranks = f"SELECT id, pagerank FROM pagerank('now', {KNOWS})"
    db.execute(
        "CREATE TASK rank SCHEDULE EVERY INTERVAL '1 hour' WHEN (EXISTS (SELECT 1 FROM degree('now'))) "
        f"AS INSERT INTO score {ranks}"
    )
    db.execute("EXECUTE TASK rank")
    assert rows(db, "FROM score") == rows(db, ranks)
    with pytest.raises(snapdb.ParseError, match="did you mean"):
        db.execute(
            "CREATE TASK bad SCHEDULE EVERY INTERVAL '1 hour' AS INSERT INTO score FROM pagerank('now', dampin => 1)"
        )


def test_parameters_are_snapshots_options_and_parts_of_queries(db: snapdb.Database) -> None:
    seeds = "(SELECT id FROM person WHERE at < {})"
    text = "SELECT {} AS first, * FROM hops({}, edges => {}, seeds => " + seeds + ", max_hops => {}) WHERE hops >= {}"
    expected = rows(db, text.format("'x'", "'now'", "['knows']", 20, 3, 1))
    assert expected
    values = ["x", "now", ["knows"], 20, 3, 1]
    assert rows(db, text.format(*"??????"), values) == expected
    named = dict(zip("abcdef", values, strict=True))
    assert rows(db, text.format(*(f"${name}" for name in named)), named) == expected
    assert rows(db, text.format("$6", "$5", "$4", "$3", "$2", "$1"), values[::-1]) == expected


def test_a_snapshot_of_the_past_and_a_copy_of_its_tables_have_the_same_values(db: snapdb.Database) -> None:
    db.execute("CREATE SNAPSHOT past OF shop FOR EVENT_TIME AS OF 60")
    for table in ("person", "item", "knows", "bought"):
        columns = "* EXCLUDE (e_id)" if table in ("knows", "bought") else "*"
        db.execute(f"CREATE TABLE {table}_old AS SELECT {columns} FROM past.{table} ORDER BY hash(at)")
    graph = GRAPH.replace("GRAPH shop", "GRAPH copied")
    for element in ("person", "item", "knows", "bought"):
        graph = graph.replace(f" {element} KEY", f" {element}_old AS {element} KEY")
        graph = graph.replace(f"({element} KEY", f"({element}_old AS {element} KEY")
        graph = graph.replace(f" {element} SOURCE", f" {element}_old AS {element} SOURCE")
    db.script(graph + "CREATE SNAPSHOT copy OF copied")
    given = ({}, {"direction": "'both'"}, {"samples": "5", "repeatable": "3"}, {"repeatable": "7"})
    for each, edges, options in itertools.product(ALGORITHMS, ("knows", None), given):
        if all(each.option(option) for option in options):
            texts = [f"FROM {call(each.name, s, edges, **options)} ORDER BY ALL" for s in ("past", "copy")]
            found, expected = (rows(db, text) for text in texts)
            assert len(found) > 0
            assert [row[:-1] for row in found] == [row[:-1] for row in expected]
            values = [[np.nan if row[-1] is None else row[-1] for row in result] for result in (found, expected)]
            np.testing.assert_allclose(*values, rtol=1e-9, err_msg=texts[0])


@pytest.mark.parametrize("edges", ["knows", None])
def test_values_have_the_same_bits_on_any_number_of_threads(
    db: snapdb.Database, tmp_path: Path, edges: str | None
) -> None:
    texts = [f"SELECT * FROM {call(name, 'now', edges)}" for name in NAMES]
    texts.append(f"SELECT * FROM {call('pagerank', 'now', 'knows', weight=chr(39) + 'at' + chr(39))}")
    expected = [db.execute(text).arrow() for text in texts]
    for threads in (1, 2, 3):
        with snapdb.connect(tmp_path / "shop.snapdb", threads=threads, read_only=True) as other:
            assert all(other.execute(text).arrow().equals(table) for text, table in zip(texts, expected, strict=True))


def test_rows_of_changed_and_encoded_snapshots_are_those_of_a_full_build(db: snapdb.Database) -> None:
    db.script("CREATE SNAPSHOT later OF shop; CREATE SNAPSHOT window OF shop FOR EVENT_TIME AS OF 70;")
    db.script(
        "DELETE FROM knows WHERE at % 9 = 1; INSERT INTO person VALUES (5000, 1); INSERT INTO knows VALUES "
        "(5000, (SELECT min(id) FROM person), 2, 0.5); DELETE FROM bought WHERE a IN (SELECT max(id) FROM person "
        "WHERE id < 5000); DELETE FROM knows WHERE (SELECT max(id) FROM person WHERE id < 5000) IN (a, b); "
        "DELETE FROM person WHERE id = (SELECT max(id) FROM person WHERE id < 5000); REFRESH SNAPSHOT later; "
        "REFRESH SNAPSHOT window; CREATE SNAPSHOT whole OF shop; "
        "CREATE SNAPSHOT rebuilt OF shop FOR EVENT_TIME AS OF 70"
    )
    for one, other in (("later", "whole"), ("window", "rebuilt")):
        for edges in ("knows", None):
            for name in NAMES:
                texts = [f"SELECT * FROM {call(name, snapshot, edges)} ORDER BY ALL" for snapshot in (one, other)]
                assert rows(db, texts[0]) == rows(db, texts[1])


def test_weights_are_those_of_the_chosen_column(db: snapdb.Database) -> None:
    for column, table in (("w", "knows"), ("at", "knows"), ("w", "bought")):
        sums = rows(db, f"SELECT a AS id, sum({column})::DOUBLE FROM {table} GROUP BY a ORDER BY a")
        found = f"FROM degree('now', edges => '{table}', weight => '{column.upper()}') WHERE degree > 0"
        found = f"SELECT id, degree {found} AND id IS NOT NULL ORDER BY id"
        assert rows(db, found) == [row for row in sums if row[1]]
    both = "SELECT sum(degree) FROM degree('now', weight => 'at')"
    assert rows(db, both) == rows(db, "SELECT (SELECT sum(at) FROM knows) + (SELECT sum(at) FROM bought)")


def test_a_graph_in_a_transaction_and_files_that_are_no_longer_needed(db: snapdb.Database) -> None:
    db.execute("BEGIN")
    db.execute("INSERT INTO knows SELECT 1, 1, 1, 1 WHERE false")
    assert len(rows(db, f"FROM hops('now', {KNOWS}, seeds => (SELECT min(id) FROM person))")) == 60
    db.execute("ROLLBACK")
    result = db.execute(f"FROM pagerank('now', {KNOWS})")
    db.execute("DROP SNAPSHOT now")
    assert result.arrow().num_rows == 60


def test_python_calls_return_what_the_statement_does(db: snapdb.Database) -> None:
    seeds = [row[0] for row in rows(db, "SELECT id FROM person LIMIT 3")]
    text = f"FROM hops('now', {KNOWS}, seeds => (SELECT id FROM person LIMIT 3), direction => 'both')"
    given = [seeds, np.array(seeds), pa.array(seeds), {"id": seeds}, "SELECT id FROM person LIMIT 3; -- three"]
    for each in given:
        assert db.algorithm("hops", "now", edges="knows", seeds=each, direction="both").fetchall() == rows(db, text)
    empty = [[], np.array([]), pa.array([], pa.string())]
    for each in empty:
        assert {row[1] for row in db.algorithm("hops", "now", edges="knows", seeds=each).fetchall()} == {None}
    pairs = [(seeds[0], seeds[1]), (seeds[1], seeds[2])]
    counts = [db.algorithm("common_neighbours", "now", edges=["knows"], pairs=p) for p in (pairs, np.array(pairs))]
    assert counts[0].columns == ["source", "destination", "common_neighbours"]
    assert counts[0].fetchall() == counts[1].fetchall()
    assert db.algorithm("adamic_adar", "now", edges="knows", pairs=[]).fetchall() == []
    ranks = db.algorithm("PageRank", "NOW", edges=("knows",), damping=np.float32(0.5), max_iterations=np.int64(90))
    assert ranks.fetchall() == rows(db, f"FROM pagerank('now', {KNOWS}, damping => 0.5, max_iterations => 90)")
    multiple = db.algorithm("hops", "now", seeds=[("item", None, "i0", "de")], direction="in")
    assert ("item", None, "i0", "de", 0) in multiple.fetchall()
    assert rows(db, "SELECT count(*) FROM person") == [(60,)]


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("pagerak", {}, "unknown-function"),
        ("pagerank", {"dampin": 1}, "unknown-option"),
        ("pagerank", {"not a name": 1}, "unknown-option"),
        ("pagerank", {"damping": 3}, "algorithm-option"),
        ("pagerank", {"edges": "know"}, "unknown-edge-type"),
        ("hops", {"edges": "knows"}, "missing-clause"),
        ("hops", {"edges": "knows", "seeds": 3}, "not-a-table"),
        ("hops", {"edges": "knows", "seeds": [-1]}, "unknown-seed"),
        ("hops", {"edges": "knows", "seeds": "SELECT 1; SELECT 2"}, "not-a-query"),
        ("hops", {"edges": "knows", "seeds": "DROP TABLE person"}, "not-a-query"),
    ],
)
def test_wrong_arguments_from_python_have_a_code(
    db: snapdb.Database, name: str, arguments: dict[str, object], code: str
) -> None:
    with pytest.raises(snapdb.SnapdbError) as caught:
        db.algorithm(name, "now", **arguments)  # type: ignore[arg-type]
    assert caught.value.code == code


@pytest.fixture
def large(db: snapdb.Database) -> snapdb.Database:
    """A database with a snapshot for which betweenness takes minutes."""
    db.script("""
    CREATE TABLE node AS SELECT range AS id FROM range(50000);
    CREATE TABLE link AS SELECT hash(range) % 50000 AS a, hash(range + 1000000) % 50000 AS b FROM range(400000);
    CREATE PROPERTY GRAPH net VERTEX TABLES (node KEY (id))
      EDGE TABLES (link SOURCE KEY (a) REFERENCES node DESTINATION KEY (b) REFERENCES node);
    CREATE SNAPSHOT large OF net;
    """)
    return db


@pytest.mark.parametrize(
    "text", [SLOW, f"CREATE TABLE scores AS {SLOW}", f"SELECT count(*) FROM ({SLOW})", f"EXPLAIN ANALYZE {SLOW}"]
)
def test_an_interrupt_ends_an_algorithm_and_the_database_goes_on(large: snapdb.Database, text: str) -> None:
    seen = threading.Event()

    def report(what: str, share: float | None) -> None:
        if what == "computing betweenness" and not seen.is_set():
            seen.set()
            threading.Timer(0.5, large.interrupt).start()

    large.progress = report
    with pytest.raises(snapdb.QueryError) as caught:
        large.execute(text)
    assert caught.value.code == "interrupted"
    assert rows(large, "SELECT count(*) FROM person") == [(60,)]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("snapdb-algorithms")]


def test_progress_names_the_algorithm_and_its_share(db: snapdb.Database) -> None:
    seen: list[tuple[str, float | None]] = []
    db.progress = lambda what, share: seen.append((what, share))
    db.execute(f"FROM pagerank('now', {KNOWS})").arrow()
    assert ("computing pagerank", 1.0) in seen


def test_arrays_that_do_not_fit_in_memory_are_one_error(db: snapdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapdb.algorithms.rows.usable_memory", lambda: 1000)
    with pytest.raises(snapdb.InputError) as caught:
        db.execute(f"FROM pagerank('now', {KNOWS})")
    assert caught.value.code == "memory"
    assert "pagerank over knows of snapshot now needs" in caught.value.message
    assert "60 nodes and 150 edges" in caught.value.message
    assert "500 bytes" in caught.value.message
    assert rows(db, "EXPLAIN " + f"FROM pagerank('now', {KNOWS})")


def test_explain_shows_what_is_read_and_how_long_it_took(db: snapdb.Database) -> None:
    text = f"FROM pagerank('now', {KNOWS})"
    plan = "\n".join(str(line) for (line,) in rows(db, f"EXPLAIN {text}"))
    assert "ALGORITHM pagerank over knows of snapshot now" in plan
    assert "expected nodes 60, edges 150, bytes " in plan
    assert "actual" not in plan
    plan = "\n".join(str(line) for (line,) in rows(db, f"EXPLAIN ANALYZE {text}"))
    assert "iterations" in plan
    measured = json.loads("".join(str(line) for (line,) in rows(db, f"EXPLAIN (ANALYZE, FORMAT json) {text}")))
    (node,) = [each for each in measured["plan"]["children"] if each["operator"] == "ALGORITHM"]
    assert node["actual"]["rows"] == 60
    assert node["actual"]["seconds"] > 0


def test_a_call_is_computed_once_although_a_query_reads_it_twice(db: snapdb.Database) -> None:
    seen: list[str] = []
    db.progress = lambda what, share: seen.append(what) if share == 1.0 else None
    text = f"WITH r AS (FROM degree('now', {KNOWS})) SELECT count(*) FROM r a JOIN r b USING (id)"
    assert rows(db, text) == [(60,)]
    assert seen.count("computing degree") == 1

"""What is held wrong is refused with one clear error, and changes nothing."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import snapdb
from snapdb import Database
from tests.support.refusals import refused

SETUP = """
CREATE TABLE person AS SELECT range AS id, [range, 1]::FLOAT[2] AS emb, range % 2 AS label FROM range(6);
CREATE TABLE knows AS SELECT range AS a, (range + 1) % 6 AS b, range * 10 AS at, 1.0 AS w FROM range(6);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id) FEATURES (emb AS x) TARGET (label AS y))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (at));
CREATE SNAPSHOT s OF g;
"""

SAMPLE = "SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (knows => [2, 2])"

REFUSED = {
    "syntax": ("CREATE TABLE", "unexpected-end"),
    "misspelt keyword": ("SAMPLE FRM s SEEDS (SELECT 1) AS person FANOUT (knows => [1])", "unexpected-word"),
    "unknown table": ("SELECT * FROM persn", "unknown-table"),
    "unknown table to insert into": ("INSERT INTO persn VALUES (1)", "unknown-table"),
    "unknown column": ("SELECT labl FROM person", "unknown-column"),
    "unknown graph": ("CREATE SNAPSHOT t OF h", "unknown-graph"),
    "unknown snapshot": (SAMPLE.replace("FROM s SEEDS", "FROM z SEEDS"), "unknown-snapshot"),
    "unknown edge type": (SAMPLE.replace("(knows", "(know"), "unknown-edge-type"),
    "unknown vertex type": (SAMPLE.replace("AS person", "AS persons"), "unknown-vertex-type"),
    "unknown element": ("CREATE SNAPSHOT t OF g ELEMENTS (persn)", "unknown-element"),
    "a graph read as a table": ("SELECT * FROM g", "unknown-table"),
    "a snapshot read as a table": ("SELECT * FROM s", "unknown-table"),
    "a seed that is not there": (SAMPLE.replace("SELECT id FROM person", "SELECT 77 AS id"), "unknown-seed"),
    "a NULL seed": (SAMPLE.replace("SELECT id FROM person", "SELECT NULL::BIGINT AS id"), "unknown-seed"),
    "duplicate seeds": (SAMPLE.replace("SELECT id FROM person", "SELECT 1 AS id FROM person"), "duplicate-seeds"),
    "random seeds": (SAMPLE.replace("FROM person)", "FROM person ORDER BY random())"), "not-repeatable"),
    "seeds of another type": (SAMPLE.replace("SELECT id FROM", "SELECT 'a' || id AS id FROM"), "seed-type"),
    "seeds with other columns": (SAMPLE.replace("SELECT id", "SELECT id, 'a' AS kind"), "seed-type"),
    "fanouts of two lengths": (SAMPLE.replace("[2, 2]", "[2, 2], DEFAULT => [1]"), "fanout-lengths"),
    "a negative fanout": (SAMPLE.replace("[2, 2]", "[2, -3]"), "out-of-range"),
    "batch 0": (SAMPLE + " BATCH 0", "out-of-range"),
    "in order without order": (SAMPLE + " IN ORDER", "no-order"),
    "a sampler in order without order": ("CREATE SAMPLER z AS " + SAMPLE + " IN ORDER", "no-order"),
    "duplicate seeds, each named once": (
        SAMPLE.replace("SELECT id FROM person", "SELECT 1 AS id FROM person"),
        "duplicate-seeds",
    ),
    "the engine's own tables": ("SELECT * FROM information_schema.tables", "refused"),
    "a function that lists the engine's tables": ("SELECT count(*) FROM duckdb_tables()", "refused"),
    "two statements without a semicolon": ("SELECT 1\nSELECT 2", "query-syntax"),
    "a pattern": ("MATCH (a) RETURN a", "refused"),
    "a file on the web": ("SELECT * FROM 'http://127.0.0.1:9/x.csv'", "storage-failed"),
    "in order with ties": (
        SAMPLE.replace("FROM person)", "FROM person ORDER BY y)").replace("SELECT id", "SELECT id, label AS y")
        + " IN ORDER",
        "ties-in-order",
    ),
    "event time of a wrong type": (
        "CREATE PROPERTY GRAPH h VERTEX TABLES (person KEY (id)) EDGE TABLES (knows SOURCE KEY (a) REFERENCES person "
        "DESTINATION KEY (b) REFERENCES person EVENT TIME (w))",
        "column-type",
    ),
    "a date where times are integers": ("CREATE SNAPSHOT t OF g FOR EVENT_TIME AS OF DATE '2026-01-01'", "time-kind"),
    "a window that ends first": ("CREATE SNAPSHOT t OF g FOR EVENT_TIME FROM 9 TO 3", "empty-window"),
    "a version to come": ("CREATE SNAPSHOT t OF g AT (VERSION => 99)", "unknown-version"),
    "a version before the tables": ("CREATE SNAPSHOT t OF g AT (VERSION => 1)", "does-not-fit"),
    "a filter over two elements": ("CREATE SNAPSHOT t OF g WHERE person.label = 1 OR knows.w > 0", "mixed-condition"),
    "a filter with a subquery": ("CREATE SNAPSHOT t OF g WHERE person.id IN (SELECT 1)", "subquery-here"),
    "a file that is not there": ("COPY person FROM '${TMP}/nope.parquet'", "no-file"),
    "a file cut short": ("COPY person FROM '${TMP}/short.parquet'", "unreadable-file"),
    "a file that is not Parquet": ("SELECT * FROM '${TMP}/text.parquet'", "unreadable-file"),
    "a file without a column": ("COPY person FROM '${TMP}/other.parquet'", "unknown-column"),
    "a taken name": ("CREATE TABLE S (a INT)", "exists"),
    "a reserved name": ("CREATE TABLE main (a INT)", "reserved-name"),
    "a table in use": ("DROP TABLE person", "in-use"),
    "a graph in use": ("DROP GRAPH g", "in-use"),
    "NULL in NOT NULL": ("CREATE TABLE n (a INT NOT NULL); INSERT INTO n VALUES (NULL)", "not-null-broken"),
    "too many values": ("INSERT INTO person VALUES (1, [1, 2], 0, 5)", "column-count"),
    "a value that does not fit": ("INSERT INTO person VALUES ('x', [1, 2], 0)", "bad-value"),
    "a type that Parquet changes": ("CREATE TABLE u (a UNION(element1 INT))", "unstorable-type"),
    "a key twice": ("CREATE TABLE p (a INT PRIMARY KEY); INSERT INTO p VALUES (1), (1)", "unique-broken"),
    "no key to reference": ("CREATE TABLE q (a INT REFERENCES person)", "constraint"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database that every test starts from; it is made once and copied."""
    path = tmp_path_factory.mktemp("made") / "test.snapdb"
    with snapdb.connect(path) as db:
        db.script(SETUP)
    return path


@pytest.fixture
def shop(made: Path, tmp_path: Path) -> Iterator[Database]:
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"x": [1]}), other)
    (tmp_path / "short.parquet").write_bytes(other.read_bytes()[:-20])
    (tmp_path / "text.parquet").write_text("not parquet at all")
    with snapdb.connect(shutil.copytree(made, tmp_path / "test.snapdb")) as db:
        yield db


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_bad_statements_are_refused_and_change_nothing(case: str, shop: Database, tmp_path: Path) -> None:
    text, code = REFUSED[case]
    *before, statement = text.replace("${TMP}", str(tmp_path)).split("; ")
    for line in before:
        shop.execute(line)
    known, files = _contents(shop)
    with refused(code) as caught:
        shop.execute(statement).fetchall()
    assert "Traceback" not in str(caught.value)
    assert _contents(shop) == (known, files)


def _contents(db: Database) -> tuple[list[object], list[str]]:
    """Everything the database lists, and its files but for SQLite's own."""
    known = [db.execute(f"SHOW {what}").fetchall() for what in ("VERSIONS", "TABLES", "GRAPHS", "SNAPSHOTS")]
    files = sorted(str(p) for p in db.path.rglob("*") if p.is_file() and not p.name.startswith("catalog."))
    return known, files


BAD_GRAPHS: dict[str, tuple[str, str]] = {
    "NULL key": ("INSERT INTO person VALUES (NULL, [0, 0], 0)", "null-key"),
    "duplicate key": ("INSERT INTO person VALUES (3, [0, 0], 0)", "duplicate-key"),
    "dangling source": ("INSERT INTO knows VALUES (70, 1, 5, 1)", "dangling-edges"),
    "dangling destination": ("INSERT INTO knows VALUES (1, NULL, 5, 1)", "dangling-edges"),
    "NULL time": ("INSERT INTO knows VALUES (1, 2, NULL, 1)", "no-event-time"),
    "NULL feature": ("INSERT INTO person VALUES (8, NULL, 0)", "bad-feature"),
    "NaN feature": ("INSERT INTO person VALUES (8, ['nan'::FLOAT, 1], 0)", "bad-feature"),
}


@pytest.mark.parametrize("case", BAD_GRAPHS, ids=str)
def test_bad_rows_are_reported_by_the_snapshot_that_would_hold_them(case: str, shop: Database) -> None:
    insert, code = BAD_GRAPHS[case]
    shop.execute(insert)
    with refused(code):
        shop.execute("CREATE SNAPSHOT t OF g")
    with refused(code):
        shop.execute(
            "CREATE OR REPLACE PROPERTY GRAPH g " + SETUP.split("PROPERTY GRAPH g ")[1].split(";", maxsplit=1)[0]
        )
    shop.execute("CREATE SNAPSHOT old OF g AT (VERSION => 2)")
    assert shop.execute("SELECT count(*) FROM old.person").fetchone() == (6,)


def test_ragged_features_are_refused_with_their_lengths(db: Database) -> None:
    db.execute("CREATE TABLE v AS SELECT 1 AS id, [1.0, 2.0] AS f UNION ALL SELECT 2, [1.0]")
    with refused("ragged-feature"):
        db.execute("CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id) FEATURES (f AS x))")


def test_a_default_stands_for_missing_features(db: Database) -> None:
    db.execute("CREATE TABLE v AS SELECT 1 AS id, 2.0 AS f UNION ALL SELECT 2, NULL UNION ALL SELECT 3, 'nan'::DOUBLE")
    db.execute("CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id) FEATURES (f AS x DEFAULT -1))")
    db.execute("CREATE SNAPSHOT s OF g")
    (batch,) = db.stream("SAMPLE FROM s SEEDS (SELECT id FROM v ORDER BY id) AS v FANOUT (DEFAULT => [1]) IN ORDER")
    assert batch.x["v"].tolist() == [[2.0], [-1.0], [-1.0]]


def test_dangling_edges_and_duplicate_keys_can_be_skipped_on_request(db: Database) -> None:
    db.script("""
    CREATE TABLE v AS SELECT * FROM (VALUES (1, 10), (2, 20), (2, 21)) t(id, f);
    CREATE TABLE e AS SELECT * FROM (VALUES (1, 2), (2, 1), (1, 9), (NULL, 1)) t(a, b);
    CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id) FEATURES (f AS x) ON DUPLICATE KEY LAST)
      EDGE TABLES (e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v ON DANGLING SKIP);
    CREATE SNAPSHOT s OF g;
    """)
    assert db.execute("SELECT a, b, e_id FROM s.e ORDER BY e_id").fetchall() == [(1, 2, 0), (2, 1, 1)]
    assert db.execute("SELECT id, f FROM s.v ORDER BY id").fetchall() == [(1, 10), (2, 21)]
    (batch,) = db.stream("SAMPLE FROM s SEEDS (SELECT id FROM v) AS v FANOUT (e => [FULL]) FIXED")
    assert sorted(batch.x["v"].flatten().tolist()) == [10.0, 21.0]
    assert sorted(batch.e_id["v", "e", "v"].tolist()) == [0, 1]


def test_empty_tables_and_graphs_without_edges_are_graphs(db: Database) -> None:
    db.script("""
    CREATE TABLE v (id BIGINT, f FLOAT);
    CREATE TABLE e (a BIGINT, b BIGINT, ts TIMESTAMP);
    CREATE PROPERTY GRAPH lone VERTEX TABLES (v KEY (id));
    CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id) FEATURES (f AS x))
      EDGE TABLES (e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (ts));
    CREATE SNAPSHOT nothing OF g FOR EVENT_TIME AS OF DATE '2026-01-01';
    CREATE SNAPSHOT alone OF lone;
    INSERT INTO v VALUES (1, 0.5);
    CREATE SNAPSHOT one OF g;
    """)
    sample = "SAMPLE FROM {} SEEDS (SELECT id FROM v) AS v FANOUT (e BOTH => [2, 2])"
    assert db.execute("SELECT count(*) FROM nothing.e").fetchone() == (0,)
    assert db.execute(sample.format("nothing")).fetchall() == []
    assert len(db.stream(sample.format("nothing"))) == 0
    (batch,) = db.stream(sample.format("one"))
    assert batch.x["v"].tolist() == [[0.5]]
    assert tuple(batch.edge_index["v", "e", "v"].shape) == (2, 0)


def _is_a_file(path: Path) -> None:
    path.write_text("hello")


def _is_another_directory(path: Path) -> None:
    path.mkdir()
    (path / "notes.txt").write_text("hello")


def _is_not_sqlite(path: Path) -> None:
    path.mkdir()
    (path / "catalog.sqlite").write_text("hello, this is not SQLite at all")


def _is_newer(path: Path) -> None:
    snapdb.connect(path).close()
    with sqlite3.connect(path / "catalog.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def _is_of_another_application(path: Path) -> None:
    snapdb.connect(path).close()
    with sqlite3.connect(path / "catalog.sqlite") as connection:
        connection.execute("PRAGMA application_id = 7")
    connection.close()


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (_is_a_file, "not-a-directory"),
        (_is_another_directory, "not-a-database"),
        (_is_not_sqlite, "not-a-database"),
        (_is_newer, "newer-format"),
        (_is_of_another_application, "not-a-database"),
    ],
)
def test_what_is_not_a_database_is_not_opened(make: Callable[[Path], None], code: str, tmp_path: Path) -> None:
    path = tmp_path / "x.snapdb"
    make(path)
    before = sorted((p, p.read_bytes()) for p in tmp_path.rglob("*") if p.is_file())
    with refused(code):
        snapdb.connect(path)
    assert sorted((p, p.read_bytes()) for p in tmp_path.rglob("*") if p.is_file()) == before


def test_a_place_that_cannot_be_written_is_refused() -> None:
    with refused("cannot-write"):
        snapdb.connect("/proc/nowhere.snapdb")


def test_a_read_only_database_reads_and_refuses_to_write(shop: Database) -> None:
    with snapdb.connect(shop.path, read_only=True) as reader:
        assert reader.execute("SELECT count(*) FROM s.knows").fetchone() == (6,)
        assert len(list(reader.stream(SAMPLE))) == 1
        with refused("read-only", at="INSERT INTO person VALUES (8, [1, 2], 0)"):
            reader.execute("INSERT INTO person VALUES (8, [1, 2], 0)")


def test_a_damaged_segment_is_named(shop: Database) -> None:
    path = next((shop.path / "tables").rglob("*.parquet"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with refused("damaged-table", path.name, recorded=False):
        shop.script("SELECT * FROM person; SELECT * FROM knows")
    path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with refused("damaged-file", path.name, recorded=False):
        snapdb.connect(shop.path, verify=True)


def test_a_damaged_topology_is_named(shop: Database) -> None:
    path = next((shop.path / "topology").rglob("indices.npy"))
    path.write_bytes(path.read_bytes()[:-1])
    with refused("damaged-snapshot", "indices.npy"):
        shop.stream(SAMPLE)

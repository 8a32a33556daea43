"""Views, macros, types and sequences: pinned by snapshots, safe with several writers and after crashes, and copied."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import snapdb
from snapdb import Database
from tests.support.crashing import crash_everywhere, script
from tests.support.refusals import refused

ORDERS = """
CREATE TABLE orders AS SELECT range AS id, 'p' || range % 20 AS a, 'p' || (range * 7 + 1) % 20 AS b, range AS t
  FROM range(60);
CREATE VIEW person AS SELECT DISTINCT a AS name, 1.5 AS weight FROM orders UNION SELECT b, 1.5 FROM orders;
CREATE VIEW knows AS SELECT a, b, t FROM orders WHERE id % 3 = 0;
"""
GRAPH = """
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (name) FEATURES (weight AS x))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t));
"""


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return snapdb.connect(tmp_path / "orders.snapdb")


def edges(db: Database, snapshot: str) -> list[tuple[str, str, int]]:
    """The edges of a snapshot in order."""
    return db.execute(f"SELECT a, b, t FROM {snapshot}.knows ORDER BY ALL").fetchall()


def test_a_snapshot_pins_the_definitions_and_the_rows_of_views(db: Database) -> None:
    db.script(ORDERS + GRAPH + "CREATE SNAPSHOT s OF g")
    pinned = edges(db, "s")
    assert pinned == db.execute("SELECT * FROM knows ORDER BY ALL").fetchall()
    db.script("INSERT INTO orders VALUES (90, 'p1', 'new', 90); CREATE OR REPLACE VIEW knows AS FROM orders")
    with refused("in-use", "t"):
        db.execute("CREATE OR REPLACE VIEW knows AS SELECT a, b FROM orders")
    assert edges(db, "s") == pinned
    db.execute("DROP TABLE orders")
    assert edges(db, "s") == pinned


changes = st.sampled_from(
    [
        "INSERT INTO orders VALUES (90, 'p1', 'p2', 90), (93, 'p1', 'p2', 90)",
        "DELETE FROM orders WHERE id % 7 = 0",
        "UPDATE orders SET b = 'p' || (id % 5) WHERE id % 4 = 0",
        "INSERT INTO orders SELECT id + 100, a, b, t FROM orders WHERE t < 9",
        "DELETE FROM orders WHERE t > 40",
        "CREATE OR REPLACE VIEW knows AS SELECT a, b, t FROM orders WHERE id % 2 = 0",
        "CREATE OR REPLACE VIEW knows AS SELECT a, b, t FROM orders WHERE t % 5 < 3",
    ]
)


@settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(changes, min_size=1, max_size=5))
def test_a_refresh_equals_a_new_snapshot_of_tables_with_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, many: list[str]
) -> None:
    sample = "SEEDS (SELECT name FROM person ORDER BY name) AS person FANOUT (knows => [3, 2]) BATCH 8"
    with snapdb.connect(tmp_path_factory.mktemp("views") / "views.snapdb") as db:
        db.script(ORDERS + GRAPH + "CREATE SNAPSHOT s OF g")
        for change in many:
            db.script(f"{change}; REFRESH SNAPSHOT s")
            wanted = db.execute("SELECT * FROM knows ORDER BY ALL").fetchall()
            assert edges(db, "s") == wanted
            assert (
                db.execute("SELECT name FROM s.person ORDER BY name").fetchall()
                == db.execute("SELECT name FROM person ORDER BY name").fetchall()
            )
        db.execute("CREATE SNAPSHOT again OF g")
        assert db.execute(f"SAMPLE FROM s {sample}").arrow() == db.execute(f"SAMPLE FROM again {sample}").arrow()
        assert db.execute("CHECK DATABASE").fetchall() == []


def test_writers_meanwhile_do_not_mix_versions(db: Database) -> None:
    db.script(
        "CREATE TABLE pairs (a INTEGER, b INTEGER); INSERT INTO pairs VALUES (0, 0);"
        "CREATE VIEW ends AS SELECT a AS id FROM pairs; CREATE VIEW lines AS SELECT a, a AS b FROM pairs;"
        "CREATE PROPERTY GRAPH p VERTEX TABLES (ends KEY (id)) EDGE TABLES"
        " (lines SOURCE KEY (a) REFERENCES ends DESTINATION KEY (b) REFERENCES ends)"
    )

    def write() -> None:
        with snapdb.connect(db.path) as other:
            for i in range(1, 12):
                other.execute(f"INSERT INTO pairs VALUES ({i}, {i})")

    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        for i in range(6):
            # An edge whose vertex is not there would be refused.
            db.execute(f"CREATE SNAPSHOT s{i} OF p")
        writing.result()
    for i in range(6):
        counts = f"SELECT (SELECT count(*) FROM s{i}.ends) = (SELECT count(*) FROM s{i}.lines)"
        assert db.execute(counts).fetchall() == [(True,)]


def test_two_sessions_cannot_replace_one_view_at_once(db: Database) -> None:
    db.execute("CREATE VIEW v AS SELECT 1 AS a")
    with snapdb.connect(db.path) as other:
        other.execute("BEGIN")
        other.execute("CREATE OR REPLACE VIEW v AS SELECT 2 AS a")
        db.execute("CREATE OR REPLACE VIEW v AS SELECT 3 AS a")
        with refused("definition-moved", "v"):
            other.execute("COMMIT")
    assert db.execute("FROM v").fetchall() == [(3,)]


def test_two_sessions_cannot_create_one_name_at_once(db: Database) -> None:
    db.execute("CREATE TABLE t (a INTEGER)")
    with snapdb.connect(db.path) as other:
        other.execute("BEGIN")
        other.execute("CREATE VIEW v AS SELECT 2 AS a")
        db.execute("CREATE TABLE v (a INTEGER)")
        with refused("exists", "v"):
            other.execute("COMMIT")


def test_currval_is_the_last_value_that_the_session_took(db: Database) -> None:
    db.execute("CREATE SEQUENCE s")
    db.execute("CREATE TABLE t (a BIGINT DEFAULT nextval('s'), b BIGINT)")
    db.execute("CREATE MACRO following() AS nextval('s')")
    assert db.execute("SELECT nextval('s')").fetchone() == (1,)
    with snapdb.connect(db.path) as other:
        assert other.execute("SELECT nextval('s')").fetchone() == (2,)
        assert db.execute("SELECT currval('s')").fetchone() == (1,)
        assert db.execute("SELECT nextval('s')").fetchone() == (3,)
        assert other.execute("SELECT currval('s')").fetchone() == (2,)
        assert other.execute("SELECT following(), currval('s')").fetchone() == (4, 4)
        assert db.execute("SELECT currval('s')").fetchone() == (3,)
        # A statement that takes values starts at the next one, which the default's part of it decides.
        db.execute("INSERT INTO t (b) SELECT b FROM (SELECT 0 AS b, currval('s') AS c)")
        assert db.execute("FROM t").fetchall() == [(5, 0)]
        assert db.execute("SELECT currval('s')").fetchone() == (5,)
        with other.transaction():
            assert other.execute("SELECT nextval('s')").fetchone() == (6,)
        assert other.execute("SELECT currval('s')").fetchone() == (6,)


def test_values_of_a_sequence_are_taken_once(db: Database) -> None:
    db.execute("CREATE SEQUENCE s")
    with snapdb.connect(db.path) as other:
        late = db.execute("SELECT nextval('s') FROM range(200000)")
        assert other.execute("SELECT nextval('s')").fetchall() == [(1,)]
        with refused("sequence-moved", "s"):
            late.fetchall()
        assert db.execute("SELECT nextval('s')").fetchall() == [(2,)]
    with snapdb.connect(db.path, read_only=True) as reader, refused("read-only", "s"):
        reader.execute("SELECT nextval('s')").fetchall()


def test_values_survive_a_rollback_and_a_restart(db: Database) -> None:
    db.script("CREATE SEQUENCE s INCREMENT BY 10 START 5; CREATE TABLE t (a BIGINT DEFAULT nextval('s'), b INTEGER)")
    db.script("BEGIN; INSERT INTO t (b) VALUES (1), (2); ROLLBACK")
    db.close()
    with snapdb.connect(db.path) as again:
        again.execute("INSERT INTO t (b) VALUES (3)")
        assert again.execute("SELECT a FROM t").fetchall() == [(25,)]


def test_a_check_compares_definitions_with_the_commit_records(db: Database) -> None:
    db.script(
        "CREATE VIEW v AS SELECT 1 AS a; CREATE OR REPLACE VIEW v AS SELECT 2 AS a; CREATE SCHEMA s; DROP SCHEMA s"
    )
    assert db.execute("CHECK DATABASE").fetchall() == []
    db.close()
    with sqlite3.connect(db.path / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE definitions SET definition = replace(definition, 'SELECT 2', 'SELECT 4')")
    with snapdb.connect(db.path) as again:
        (problem,) = again.execute("CHECK DATABASE").fetchall()
    assert "definition" in problem[2]


def test_a_backup_and_a_publication_have_the_definitions(db: Database, tmp_path: Path) -> None:
    db.script(ORDERS + GRAPH + "CREATE SNAPSHOT s OF g; CREATE MACRO twice(x) AS 2 * x")
    query = "SELECT count(*), twice(max(t)) FROM knows"
    wanted = db.execute(query).fetchall()
    db.execute(f"BACKUP DATABASE TO '{tmp_path / 'copy.snapdb'}'")
    db.execute(f"PUBLISH SNAPSHOT s TO 'file://{tmp_path / 'out'}'")
    for place in (tmp_path / "copy.snapdb", f"file://{tmp_path / 'out'}"):
        with snapdb.connect(place) as copy:
            assert copy.execute(query).fetchall() == wanted
            assert edges(copy, "s") == edges(db, "s")


MORE = "CREATE SNAPSHOT first OF g; CREATE VIEW spare AS SELECT 1 AS a; CREATE TABLE extra (a INTEGER);"
CRASHES = {
    "create": "CREATE VIEW v AS SELECT count(*) AS n FROM orders",
    "replace": "CREATE OR REPLACE VIEW spare AS SELECT 2 AS a",
    "drop": "DROP VIEW spare",
    "sequence": "CREATE SEQUENCE s START 5",
    "transaction": "BEGIN; CREATE VIEW v AS SELECT 1 AS a; INSERT INTO extra VALUES (1); DROP VIEW spare; COMMIT",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CRASHES)
def test_a_crash_leaves_the_old_or_the_new_definition(tmp_path: Path, name: str) -> None:
    with snapdb.connect(tmp_path / "shop.snapdb") as db:
        db.script(ORDERS + GRAPH + MORE)
    assert crash_everywhere(tmp_path / "shop.snapdb", tmp_path / "copy.snapdb", script(CRASHES[name])) > 1


def test_a_type_of_a_dropped_schema_leaves_its_tables_whole(db: Database) -> None:
    db.script(
        "CREATE SCHEMA s; CREATE TYPE s.mood AS ENUM ('a', 'b'); CREATE TABLE t (m s.mood); INSERT INTO t VALUES ('b')"
    )
    db.execute("DROP SCHEMA s CASCADE")
    assert db.execute("FROM t").fetchall() == [("b",)]
    with refused("unknown-type"):
        db.execute("SELECT 'a'::s.mood").fetchall()

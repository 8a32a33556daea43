"""COPY FROM DATABASE: the tables of DuckDB and SQLite files."""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

import snapdb
from snapdb import Database
from snapdb.sql import parse
from tests.support.refusals import refused


@pytest.fixture
def ducks(tmp_path: Path) -> Path:
    """A DuckDB file with tables of many types, a view and an index."""
    path = tmp_path / "f.duckdb"
    with duckdb.connect(str(path)) as other:
        other.execute("""CREATE TABLE person (id INTEGER PRIMARY KEY, mood ENUM('sad', 'ok'),
            big HUGEINT, part DECIMAL(9, 2), moment TIMESTAMP_NS,
            place STRUCT(x DOUBLE, tags VARCHAR[]), bits BIT, span INTERVAL)""")
        other.execute("""INSERT INTO person VALUES (1, 'ok', 10::HUGEINT ** 30, 1.25, '2026-01-01 00:00:00.000000001',
            {'x': 0.5, 'tags': ['a']}, '101', INTERVAL '1 day'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL)""")
        other.execute('CREATE TABLE "odd name" AS SELECT range AS i FROM range(100000); CREATE VIEW v AS FROM person')
        other.execute("CREATE INDEX i ON person (part)")
    return path


@pytest.fixture
def lite(tmp_path: Path) -> Path:
    """A SQLite file."""
    path = tmp_path / "f.sqlite"
    with sqlite3.connect(path) as other:
        other.executescript("""CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL,
            price NUMERIC(9, 2), share REAL, raw BLOB, day DATE, anything);
            INSERT INTO item VALUES (1, 'a', 2.5, 0.5, x'00ff', '2026-01-02', 'x'), (2, 'b', NULL, NULL, NULL, NULL, 3);
            CREATE TABLE sold (item INTEGER, at INTEGER); INSERT INTO sold VALUES (1, 7), (2, 8);""")
    other.close()
    return path


def test_all_tables_of_a_duckdb_file_become_one_version(db: Database, ducks: Path) -> None:
    done = db.execute(f"COPY FROM DATABASE '{ducks}' MESSAGE 'taken over'")
    assert done.message == f"version 1: 2 tables with 100,002 rows copied from {ducks}"
    assert done.rowcount == 100_002
    with duckdb.connect(str(ducks), read_only=True) as other:
        for name in ("person", '"odd name"'):
            query = f"SELECT count(*), min(x), max(x) FROM (SELECT {name}::VARCHAR AS x FROM {name})"
            assert db.execute(query).fetchall() == other.execute(query).fetchall()
        types = [row[1] for row in other.execute("DESCRIBE person").fetchall()]
    assert [row[1] for row in db.execute("DESCRIBE person").fetchall()] == types
    assert db.execute("SELECT message FROM snapdb.versions").fetchall()[-1] == ("taken over",)


def test_tables_are_chosen_and_renamed(db: Database, ducks: Path) -> None:
    db.execute(f"""COPY FROM DATABASE '{ducks}' TABLES ("ODD NAME" AS plain, person)""")
    assert sorted(row[0] for row in db.execute("SHOW TABLES").fetchall()) == ["person", "plain"]
    with refused("exists", "person", at="person"):
        db.execute(f"COPY FROM DATABASE '{ducks}' TABLES (person)")
    with refused("unknown-table", "persn", "person", recorded=False):
        db.execute(f"COPY FROM DATABASE '{ducks}' TABLES (persn AS p)")
    with refused("duplicate-name", at="b"):
        db.execute(f"""COPY FROM DATABASE '{ducks}' TABLES (person AS a, "odd name" AS b, person AS b)""")


def test_a_sqlite_file(db: Database, lite: Path) -> None:
    db.execute(f"COPY FROM DATABASE '{lite}'")
    assert db.execute("FROM item ORDER BY id").fetchall() == [
        (1, "a", 2.5, 0.5, b"\x00\xff", "2026-01-02", "x"),
        (2, "b", None, None, None, None, "3"),
    ]
    kinds = [row[1] for row in db.execute("DESCRIBE item").fetchall()]
    assert kinds == ["BIGINT", "VARCHAR", "DOUBLE", "DOUBLE", "BLOB", "VARCHAR", "VARCHAR"]
    assert db.execute("SELECT sum(at) FROM sold").fetchone() == (Decimal(15),)


def test_a_failure_leaves_nothing(db: Database, lite: Path, tmp_path: Path) -> None:
    with sqlite3.connect(lite) as other:
        other.execute("INSERT INTO sold VALUES ('text', 9)")
    other.close()
    before = sorted(path for path in Path(db.path).rglob("*.parquet"))
    with refused("unreadable-database", "sold", "several types", recorded=False):
        db.execute(f"COPY FROM DATABASE '{lite}'")
    assert db.execute("SHOW TABLES").fetchall() == []
    assert sorted(path for path in Path(db.path).rglob("*.parquet")) == before
    (tmp_path / "no.duckdb").write_bytes(b"x" * 100)
    for name in ("no.duckdb", "missing.duckdb", "."):
        with refused("unreadable-database", recorded=False):
            db.execute(f"COPY FROM DATABASE '{tmp_path}/{name}'")


def test_folders_limit_what_is_copied(tmp_path: Path, lite: Path) -> None:
    with snapdb.connect(folders=[]) as db, refused("folder-not-allowed", recorded=False):
        db.execute(f"COPY FROM DATABASE '{lite}'")


def test_it_is_part_of_a_transaction(db: Database, lite: Path) -> None:
    with db.transaction("all"):
        db.execute(f"COPY FROM DATABASE '{lite}' TABLES (sold)")
        db.execute("INSERT INTO sold VALUES (3, 9)")
    assert db.execute("SELECT count(*) FROM sold").fetchone() == (3,)
    assert len(db.execute("SHOW VERSIONS").fetchall()) == 1


def test_the_statement_is_printed() -> None:
    text = "COPY FROM DATABASE 'it''s.db' TABLES (a, \"b c\" AS d) MESSAGE 'm'"
    (statement,) = parse(text.lower().replace("'m'", "'m'"))
    assert statement.to_sql() == text

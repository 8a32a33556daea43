"""PRIMARY KEY, UNIQUE, CHECK and REFERENCES: accepted and refused as in DuckDB, and safe with several writers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import snapdb
from snapdb import Database
from snapdb.execute.tables import operators
from tests.support.crashing import crash_everywhere, script
from tests.support.refusals import refused

TABLES = """
CREATE TABLE p (a INTEGER PRIMARY KEY, b INTEGER, c VARCHAR, UNIQUE (b, c));
CREATE TABLE u (id INTEGER, a INTEGER REFERENCES p, CONSTRAINT positive CHECK (id > 0 AND id < 100), UNIQUE (id));
"""
small = st.sampled_from(["1", "2", "3", "NULL"])
rows = st.tuples(small, small, st.sampled_from(["'x'", "'y'", "NULL"])).map(lambda row: f"({', '.join(row)})")
more = st.lists(rows, min_size=1, max_size=2).map(", ".join)
references = st.tuples(st.sampled_from(["1", "2", "-1", "NULL", "200"]), small).map(lambda row: f"({', '.join(row)})")
writes = st.one_of(
    more.map("INSERT INTO p VALUES {}".format),
    references.map("INSERT INTO u VALUES {}".format),
    small.map("DELETE FROM p WHERE a = {}".format),
    small.map("DELETE FROM u WHERE a = {}".format),
    st.tuples(small, small).map(lambda pair: f"UPDATE p SET b = {pair[0]} WHERE a = {pair[1]}"),
    small.map("UPDATE u SET id = 5 WHERE id = {}".format),
)


def accepted(run: Callable[[str], Any], error: type[Exception], text: str) -> bool:
    """Whether a statement runs."""
    try:
        run(text)
    except error:
        return False
    return True


@settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(writes, min_size=4, max_size=10))
def test_rows_are_accepted_and_refused_as_in_duckdb(many: list[str]) -> None:
    peer = duckdb.connect()
    peer.execute(TABLES)
    with snapdb.connect() as db:
        db.script(TABLES)
        for text in many:
            ours = accepted(db.execute, snapdb.DataError, text)
            assert ours == accepted(peer.execute, duckdb.ConstraintException, text), text
        for table in ("p", "u"):
            read = f"FROM {table} ORDER BY ALL"
            assert db.execute(read).fetchall() == peer.execute(read).fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys.snapdb"
    with snapdb.connect(path) as db:
        db.script(TABLES)
        db.execute("INSERT INTO p VALUES (1, 1, 'x'), (2, 2, 'y')")
    return path


@pytest.fixture
def two(path: Path) -> Iterator[tuple[Database, Database]]:
    with snapdb.connect(path) as one, snapdb.connect(path) as other:
        yield one, other


@pytest.fixture
def between(two: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that lets another writer run a statement once, between a check and the commit."""

    def arrange(text: str) -> None:
        check = operators.check_constraints

        def checked(*given: Any) -> Any:
            needed = check(*given)
            monkeypatch.undo()
            two[1].script(text)
            return needed

        monkeypatch.setattr(operators, "check_constraints", checked)

    return arrange


@pytest.mark.parametrize(
    ("other", "statement", "code"),
    [
        ("INSERT INTO p VALUES (7, 7, 'x')", "INSERT INTO p VALUES (7, 8, 'y')", "unique-broken"),
        ("INSERT INTO p VALUES (7, 7, 'x')", "UPDATE p SET a = 7 WHERE a = 1", "unique-broken"),
        ("DELETE FROM p WHERE a = 1", "INSERT INTO u VALUES (1, 1)", "reference-broken"),
        ("INSERT INTO u VALUES (1, 1)", "DELETE FROM p WHERE a = 1", "key-referenced"),
        (
            "CREATE TABLE v (a INTEGER REFERENCES p); INSERT INTO v VALUES (2)",
            "DELETE FROM p WHERE a = 2",
            "key-referenced",
        ),
    ],
)
def test_a_concurrent_writer_cannot_break_a_constraint(
    two: tuple[Database, Database], between: Callable[[str], None], other: str, statement: str, code: str
) -> None:
    between(other)
    with refused(code, recorded=False):
        two[0].execute(statement)


def test_other_keys_of_a_concurrent_writer_do_not_conflict(
    two: tuple[Database, Database], between: Callable[[str], None]
) -> None:
    between("INSERT INTO p VALUES (7, 7, 'x')")
    two[0].execute("INSERT INTO p VALUES (8, 8, 'x')")
    assert two[0].execute("SELECT count(*), count(DISTINCT a) FROM p").fetchone() == (4, 4)


def test_many_writers_of_one_key_leave_one_row(path: Path) -> None:
    def write(number: int) -> int:
        with snapdb.connect(path) as db:
            return sum(accepted(db.execute, snapdb.SnapdbError, f"INSERT INTO p VALUES ({k}, {k}, 'z')") for k in keys)

    keys = range(10, 14)
    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(write, range(3))) == len(keys)
    with snapdb.connect(path) as db:
        assert db.execute("SELECT count(*), count(DISTINCT a) FROM p").fetchone() == (6, 6)


def test_a_transaction_that_lost_the_race_is_refused(two: tuple[Database, Database]) -> None:
    one, other = two
    one.execute("BEGIN")
    one.execute("INSERT INTO p VALUES (9, 9, 'x')")
    with refused("unique-broken", recorded=False):
        one.execute("INSERT INTO p VALUES (9, 10, 'x')")
    one.execute("ROLLBACK")
    one.execute("BEGIN")
    one.execute("INSERT INTO p VALUES (9, 9, 'x')")
    other.execute("INSERT INTO p VALUES (9, 11, 'x')")
    with refused("keys-moved", recorded=False):
        one.execute("COMMIT")
    assert one.execute("SELECT b FROM p WHERE a = 9").fetchall() == [(11,)]


@pytest.mark.slow
def test_a_crash_leaves_keys_unique(path: Path, tmp_path: Path) -> None:
    statements = "BEGIN; UPDATE p SET a = a + 1; INSERT INTO p VALUES (1, 5, 'z'); INSERT INTO u VALUES (4, 1); COMMIT"
    assert crash_everywhere(path, tmp_path / "copy.snapdb", script(statements)) > 1


def test_bulk_loads_are_checked(tmp_path: Path) -> None:
    files = tmp_path / "rows.parquet"
    duckdb.execute(f"COPY (SELECT range::BIGINT AS k FROM range(1000)) TO '{files}'")
    with snapdb.connect() as db:
        db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY)")
        db.execute(f"COPY t FROM '{files}'")
        with refused("unique-broken", recorded=False):
            db.execute(f"COPY t FROM '{files}'")
        with refused("unique-broken", recorded=False):
            db.execute(f"INSERT INTO t FROM '{files}'")
        db.execute("TRUNCATE t")
        assert db.execute(f"COPY t FROM '{files}'").rowcount == 1000
        assert db.execute("SELECT count(*) FROM t AT (VERSION => 2)").fetchone() == (1000,)


def test_constraints_are_those_of_the_version(path: Path) -> None:
    with snapdb.connect(path) as db:
        head = db.execute("SELECT name, kind, columns, enforced FROM snapdb.constraints ORDER BY ALL").fetchall()
        assert ("p_b_c_key", "UNIQUE", ["b", "c"], True) in head
        db.execute("DROP TABLE u")
        db.execute("CREATE OR REPLACE TABLE p AS FROM p")
        db.execute("INSERT INTO p VALUES (1, 1, 'x')")
        assert db.execute("SELECT count(*) FROM snapdb.constraints").fetchone() == (0,)

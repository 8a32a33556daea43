"""Binding asks DuckDB about tables without reading them: what it finds is what the rows would have told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import snapdb
from snapdb import Database
from snapdb.errors import BindError, CorruptError, SnapdbError
from snapdb.sql import parse
from tests.support.inside import catalog_db_of, catalog_of
from tests.support.inside.plan import CreateSnapshotPlan, CreateTablePlan
from tests.support.refusals import refused

SHOP = """
CREATE TABLE person AS SELECT i AS id, i % 3 AS grp, 'x' || i % 2 AS kind FROM range(6) r(i);
CREATE TABLE knows AS SELECT i AS a, (i + 1) % 6 AS b, TIMESTAMP '2026-01-01' + i * INTERVAL '1 day' AS ts
  FROM range(6) r(i);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person (id) DESTINATION KEY (b) REFERENCES person (id) EVENT TIME (ts));
CREATE SNAPSHOT s OF g;
"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with snapdb.connect(tmp_path / "shop.snapdb") as made:
        made.script(SHOP)
        yield made


def _columns(db: Database, sql: str) -> list[tuple[str, str]]:
    plan = db.plan(*parse(sql))
    assert isinstance(plan, CreateTablePlan)
    return [(column.name, column.type) for column in plan.columns]


def _damage(db: Database, table: str) -> None:
    """Files of the same size with other bytes."""
    (folder,) = {
        Path(row[0]).parent
        for row in catalog_db_of(db).rows(
            "SELECT path FROM segments s JOIN tables t ON t.id = s.table_id WHERE t.name = ?", (table,)
        )
    }
    for file in (db.path / folder).glob("*.parquet"):
        file.write_bytes(b"\0" * file.stat().st_size)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE other AS SELECT grp, count(*) AS n FROM person GROUP BY grp",
        "INSERT INTO person SELECT * FROM person WHERE id > 2",
        "UPDATE person SET grp = grp + 1 WHERE id = 2",
        "DELETE FROM person WHERE kind = 'x1'",
    ],
)
def test_a_plan_reads_no_file_and_running_it_finds_the_damage(db: Database, statement: str) -> None:
    _damage(db, "person")
    db.plan(*parse(statement))
    with pytest.raises(CorruptError):
        db.execute(statement).arrow()


def test_types_that_files_hold_in_another_form_are_told_as_they_were_declared(db: Database) -> None:
    types = [
        "HUGEINT",
        "INTERVAL",
        "ENUM('a', 'b')",
        "FLOAT[2]",
        "TIMESTAMP_S",
        'STRUCT("a b" HUGEINT, c DATE[])',
        "MAP(VARCHAR, INTEGER)",
        "TIME WITH TIME ZONE",
        "DECIMAL(20,3)",
        "UUID",
    ]
    db.execute(f"CREATE TABLE odd ({', '.join(f'c{i} {type_}' for i, type_ in enumerate(types))})")
    declared = [(c.name, c.type) for c in catalog_of(db).table("odd").columns]
    assert _columns(db, "CREATE TABLE copy AS SELECT * FROM odd") == declared
    assert _columns(db, "CREATE TABLE copy AS SELECT * FROM odd AT (VERSION => 3)") == declared


def test_a_pivot_has_the_columns_that_its_rows_tell(db: Database) -> None:
    pivot = "CREATE TABLE wide AS SELECT * FROM (PIVOT person ON kind IN ('x0', 'x1') USING count(*) GROUP BY grp)"
    assert [name for name, _ in _columns(db, pivot)] == ["grp", "x0", "x1"]
    told = "CREATE TABLE wide AS PIVOT person ON kind USING count(*) GROUP BY grp"
    assert [name for name, _ in _columns(db, told)] == ["grp", "x0", "x1"]


def test_a_column_that_came_or_went_is_known_to_the_next_statement(db: Database) -> None:
    question = "CREATE TABLE copy AS SELECT * FROM person"
    assert len(_columns(db, question)) == len(_columns(db, question)) == 3
    db.execute("ALTER TABLE person ADD COLUMN more INTEGER")
    assert _columns(db, question)[-1] == ("more", "INTEGER")
    before = "CREATE TABLE copy AS SELECT * FROM person AT (VERSION => 1)"
    assert len(_columns(db, before)) == 3


def test_a_snapshot_shows_its_elements_with_e_id_before_tables_of_other_columns(db: Database) -> None:
    assert _columns(db, "CREATE TABLE c AS SELECT * FROM s.knows")[-1] == ("e_id", "BIGINT")
    with refused("unknown-column", '"e_ids"', at="e_ids"):
        db.plan(*parse("SAMPLE FROM s SEEDS (SELECT id FROM person WHERE e_ids > 2) AS person FANOUT (knows => [2])"))


def test_names_of_one_statement_are_not_there_for_the_next(db: Database) -> None:
    db.plan(*parse("CREATE TABLE c AS SELECT * FROM person"))
    db.execute("DROP TABLE IF EXISTS c")
    for _ in range(2):
        with refused("unknown-table", '"persons"', '"person"', at="persons"):
            db.plan(*parse("INSERT INTO person SELECT * FROM persons"))


@pytest.mark.parametrize(
    ("literal", "asked"),
    [
        ("DATE '2026-01-03'", "(DATE '2026-01-03')"),
        ("TIMESTAMP '2026-01-03'", "(TIMESTAMP '2026-01-03')"),
        ("TIMESTAMP '2026-01-03 12:30'", "(TIMESTAMP '2026-01-03 12:30')"),
        ("TIMESTAMP '1969-12-31 23:59:59'", "(TIMESTAMP '1969-12-31 23:59:59')"),
    ],
)
def test_a_literal_bound_means_what_duckdb_says_it_means(db: Database, literal: str, asked: str) -> None:
    plans = [db.plan(*parse(f"CREATE SNAPSHOT w OF g FOR EVENT_TIME AS OF {bound}")) for bound in (literal, asked)]
    first, second = plans
    assert isinstance(first, CreateSnapshotPlan)
    assert isinstance(second, CreateSnapshotPlan)
    assert first.window == second.window


def test_a_day_that_is_none_is_refused_at_its_place(db: Database) -> None:
    statement = "CREATE SNAPSHOT w OF g FOR EVENT_TIME AS OF DATE '2026-02-30'"
    with pytest.raises(SnapdbError) as caught:
        db.plan(*parse(statement))
    assert caught.value.span is not None
    assert statement[caught.value.span.start :].startswith("DATE")


def test_a_name_of_a_hundred_thousand_letters_is_refused_at_its_place(db: Database) -> None:
    name = "a" * 100_000
    with pytest.raises(BindError) as caught:
        db.execute(f"SELECT {name} FROM person")
    assert caught.value.span == (7, 7 + len(name))

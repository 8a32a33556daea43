"""INSERT, COPY FROM and UPDATE warn of rows by which the next CREATE SNAPSHOT of a graph would fail."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import snapdb
from tests.support.program import run
from tests.support.refusals import refused

SHOP = """
CREATE TABLE person AS SELECT range AS id, 1.5::DOUBLE AS x FROM range(8);
CREATE TABLE town AS SELECT 'T' || range AS name, range AS region FROM range(4);
CREATE TABLE knows AS SELECT range AS a, (range + 1) % 8 AS b, 1 AS t FROM range(8);
CREATE TABLE lives AS SELECT range AS who, 'T' || range % 4 AS town, range % 4 AS region FROM range(8);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id), town KEY (name, region)) EDGE TABLES (
  knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person,
  lives SOURCE KEY (who) REFERENCES person DESTINATION KEY (town, region) REFERENCES town);
CREATE SNAPSHOT s OF g;
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[snapdb.Database]:
    with snapdb.connect(tmp_path / "db") as db:
        db.script(SHOP)
        yield db


def warned(db: snapdb.Database, *statements: str) -> list[str]:
    """What the statements warn of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for statement in statements:
            db.execute(statement)
    assert all(each.category is snapdb.DataWarning for each in caught)
    assert {each.filename for each in caught} <= {__file__}
    return [str(each.message) for each in caught]


def test_an_edge_to_a_key_that_was_never_there_is_warned_of(shop: snapdb.Database) -> None:
    added = "INSERT INTO knows SELECT 0, 100 + range, 1 FROM range(5)"
    assert warned(shop, added) == [
        "graph g: 5 edges of knows have a destination that does not exist in person (100, 101, 102), so "
        "CREATE SNAPSHOT would fail; add the vertices, or declare ON DANGLING SKIP"
    ]
    with refused("dangling-edges", "100", "101", "102", at="CREATE SNAPSHOT u OF g"):
        shop.execute("CREATE SNAPSHOT u OF g")
    assert warned(shop, "INSERT INTO person SELECT 100 + range, 0 FROM range(5)") == []
    shop.execute("CREATE SNAPSHOT u OF g")


def test_ends_of_several_columns_and_of_null_are_looked_at(shop: snapdb.Database) -> None:
    found = warned(shop, "INSERT INTO lives VALUES (1, 'T1', 3), (NULL, 'T1', 1), (2, 'T2', 2)")
    assert [text.partition(", so CREATE")[0] for text in found] == [
        "graph g: 1 edge of lives has a source that does not exist in person (None)",
        "graph g: 1 edge of lives has a destination that does not exist in town ((T1, 3))",
    ]


def test_a_key_that_comes_twice_is_warned_of(shop: snapdb.Database) -> None:
    found = warned(shop, "INSERT INTO person VALUES (3, 0), (20, 0), (20, 0), (21, 0), (7, 0)")
    assert found == [
        "graph g: 3 keys of person have more than one row (3, 7, 20), so CREATE SNAPSHOT would fail; make them "
        "unique, or declare ON DUPLICATE KEY FIRST or LAST"
    ]
    with refused("duplicate-key", at="CREATE SNAPSHOT u OF g"):
        shop.execute("CREATE SNAPSHOT u OF g")
    assert "1 key of town has" in warned(shop, "INSERT INTO town VALUES ('T1', 1), ('T1', 2)")[0]


def test_a_key_may_come_back_after_its_row_went(shop: snapdb.Database) -> None:
    assert warned(shop, "DELETE FROM person WHERE id = 3", "INSERT INTO person VALUES (3, 9)") == []
    assert len(warned(shop, "INSERT INTO person VALUES (3, 10)")) == 1
    again = "BEGIN", "DELETE FROM person WHERE id = 4", "INSERT INTO person VALUES (4, 9)"
    assert warned(shop, *again) == []
    assert len(warned(shop, "INSERT INTO person VALUES (4, 10)")) == 1
    shop.execute("ROLLBACK")


def test_an_update_is_warned_of_where_it_changes_a_key(shop: snapdb.Database) -> None:
    assert warned(shop, "UPDATE person SET x = 2", "UPDATE knows SET t = 5", "UPDATE person SET id = id") == []
    assert "1 key of person has more than one row (5)" in warned(shop, "UPDATE person SET id = 5 WHERE id = 6")[0]
    assert "3 edges of knows have a source" in warned(shop, "UPDATE knows SET a = a + 50 WHERE a < 3")[0]


def test_a_transaction_sees_the_vertices_that_it_has_added(shop: snapdb.Database) -> None:
    found = warned(
        shop,
        "BEGIN",
        "INSERT INTO person VALUES (50, 0), (51, 0)",
        "INSERT INTO town VALUES ('new', 9)",
        "INSERT INTO knows VALUES (50, 51, 1)",
        "INSERT INTO lives VALUES (51, 'new', 9)",
    )
    assert found == []
    assert "(52)" in warned(shop, "INSERT INTO knows VALUES (50, 52, 1)")[0]
    assert "1 key of person has more than one row (50)" in warned(shop, "INSERT INTO person VALUES (50, 0)")[0]
    shop.execute("ROLLBACK")


def test_copy_from_warns_as_insert_does(shop: snapdb.Database, tmp_path: Path) -> None:
    shop.execute(f"COPY (SELECT 0 AS a, 77 AS b, 1 AS t) TO '{tmp_path}/edges.csv'")
    shop.execute(f"COPY (SELECT 0::BIGINT AS a, 78::BIGINT AS b, 1::INTEGER AS t) TO '{tmp_path}/edges.parquet'")
    assert "(77)" in warned(shop, f"COPY knows FROM '{tmp_path}/edges.csv'")[0]
    assert "(78)" in warned(shop, f"COPY knows FROM '{tmp_path}/edges.parquet'")[0]


def test_what_a_graph_allows_is_not_warned_of(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "db") as db:
        db.script("""CREATE TABLE p AS SELECT range AS id FROM range(4); CREATE TABLE k (a BIGINT, b BIGINT);
            CREATE PROPERTY GRAPH g VERTEX TABLES (p KEY (id) ON DUPLICATE KEY LAST) EDGE TABLES (
              k SOURCE KEY (a) REFERENCES p DESTINATION KEY (b) REFERENCES p ON DANGLING SKIP);
            CREATE SNAPSHOT s OF g;""")
        assert warned(db, "INSERT INTO p VALUES (1), (1), (9)", "INSERT INTO k VALUES (1, 100)") == []


def test_a_warning_that_is_an_error_leaves_nothing_behind(shop: snapdb.Database) -> None:
    before = sorted(shop.path.rglob("*.parquet"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", snapdb.DataWarning)
        for statement in ("INSERT INTO knows VALUES (0, 100, 1)", "UPDATE knows SET b = 100"):
            with pytest.raises(snapdb.DataWarning):
                shop.execute(statement)
    assert shop.execute("SELECT count(*) FROM knows WHERE b = 100").fetchone() == (0,)
    assert sorted(shop.path.rglob("*.parquet")) == before


def test_the_command_line_says_it_on_stderr(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    assert run(path, "-c", SHOP).exit_code == 0
    done = run(path, "-c", "INSERT INTO knows VALUES (0, 100, 1); INSERT INTO knows VALUES (0, 100, 1)")
    assert done.exit_code == 0
    assert (
        done.stderr.count("warning: graph g: 1 edge of knows has a destination that does not exist in person (100)")
        == 2
    )


def test_many_edges_are_compared_by_a_filter_that_grows_with_the_map(shop: snapdb.Database) -> None:
    many = "INSERT INTO lives SELECT range % 8, CASE WHEN range = 3 THEN '{}' ELSE 'T1' END, 1 FROM range(5000)"
    assert warned(shop, many.format("T1")) == []
    assert warned(shop, many.format("new"))[0].startswith(
        "graph g: 1 edge of lives has a destination that does not exist in town ((new, 1)), so CREATE"
    )
    assert warned(shop, "INSERT INTO town VALUES ('new', 1)", many.format("new")) == []


def test_every_key_of_a_map_is_in_its_filter(shop: snapdb.Database) -> None:
    shop.execute("INSERT INTO town SELECT 'U' || range, -range FROM range(20000)")
    with warnings.catch_warnings():
        warnings.simplefilter("error", snapdb.DataWarning)
        shop.execute("INSERT INTO lives SELECT 0, name, region FROM town")
        shop.execute("INSERT INTO person SELECT range * 3 + 1000, 0 FROM range(5000)")
        shop.execute("INSERT INTO knows SELECT id, id, 1 FROM person")

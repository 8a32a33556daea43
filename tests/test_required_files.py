"""What is never read is never required: files that a statement does not name may be missing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import snapdb

SHOP = """
CREATE TABLE person AS SELECT range AS id, range % 3 AS y FROM range(20);
CREATE TABLE town AS SELECT 'T' || range AS name FROM range(4);
CREATE TABLE knows AS SELECT range AS a, (range * 7 + 1) % 20 AS b, range AS t FROM range(20);
CREATE TABLE lives AS SELECT range AS who, 'T' || range % 4 AS town, range AS t FROM range(20);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id), town KEY (name)) EDGE TABLES (
  knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t),
  lives SOURCE KEY (who) REFERENCES person DESTINATION KEY (town) REFERENCES town EVENT TIME (t) ON DANGLING SKIP);
CREATE SNAPSHOT s OF g;
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[snapdb.Database]:
    with snapdb.connect(tmp_path / "db") as db:
        db.script(SHOP)
        yield db


def remove_table(db: snapdb.Database, name: str) -> Path:
    """Remove the only file of a table."""
    with closing(sqlite3.connect(f"file:{db.path}/catalog.sqlite?mode=ro", uri=True)) as connection:
        sql = "SELECT path FROM segments s JOIN tables t ON t.id = s.table_id WHERE t.name = ?"
        ((found,),) = connection.execute(sql, (name,)).fetchall()
    path = db.path / found
    path.unlink()
    return path


def test_a_query_asks_for_the_files_of_the_elements_that_it_names(shop: snapdb.Database, tmp_path: Path) -> None:
    gone = remove_table(shop, "knows")
    assert shop.execute("SELECT count(id), max(y) FROM s.person").fetchone() == (20, 2)
    assert shop.execute("SELECT count(*) FROM s.lives JOIN s.person p ON who = p.id WHERE t < 9").fetchone() == (9,)
    shop.execute(f"COPY s.town TO '{tmp_path}/town.csv'")
    for query in ("SELECT max(t) FROM s.knows", "SELECT max(t) FROM knows", f"COPY s.knows TO '{tmp_path}/k.csv'"):
        with pytest.raises(snapdb.CorruptError, match=str(gone)):
            shop.execute(query)


def test_an_element_asks_for_its_ends_where_they_decide(shop: snapdb.Database) -> None:
    gone = remove_table(shop, "town")
    assert shop.execute("SELECT max(t) FROM s.knows").fetchone() == (19,)
    with pytest.raises(snapdb.CorruptError, match=str(gone)):  # a dangling edge is left out
        shop.execute("SELECT max(t) FROM s.lives")

"""The tables of docs/statements.md, checked against the program row by row."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import snapdb
from snapdb import Database
from tests.support.places import ROOT, make_sqlite_file
from tests.support.refusals import refused

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "statements.md").read_text()
ROW = re.compile(r"^\| `(.+?)` \| (.*?) \|(?: (.*?) \|)?$", re.MULTILINE)
SETUP = """
CREATE TABLE orders (id INTEGER, state VARCHAR);
INSERT INTO orders VALUES (1, 'open'), (2, 'paid');
CREATE TABLE customer AS SELECT range::INTEGER AS id, 'c' || range AS name FROM range(4);
CREATE TABLE ordered AS SELECT range::INTEGER AS a, 1::INTEGER AS b FROM range(3);
CREATE TABLE spare (a INT);
CREATE TAG first AT (VERSION => 4);
CREATE PROPERTY GRAPH shop VERTEX TABLES (customer KEY (id) FEATURES (id AS x))
  EDGE TABLES (ordered SOURCE KEY (a) REFERENCES customer DESTINATION KEY (b) REFERENCES customer);
CREATE SNAPSHOT q OF shop;
CREATE SNAPSHOT kept OF shop;
CREATE SAMPLER train AS SAMPLE FROM kept SEEDS (SELECT id FROM customer) AS customer FANOUT (ordered => [2]);
CREATE TASK nightly SCHEDULE 'USING CRON 0 3 * * *' AS INSERT INTO orders VALUES (9, 'open');
"""


def rows(heading: str) -> list[tuple[str, str, str]]:
    """The rows of the table under a heading: statement, and what else is said."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [(found[1].replace("\\|", "|"), found[2], found[3]) for found in ROW.finditer(section)]


def test_the_page_has_both_tables() -> None:
    assert len(rows("Supported")) > 30
    assert len(rows("Not supported")) > 20


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database in which statements run; it is made once and copied."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch, snapdb.connect(folder / "test.snapdb") as db:
        patch.chdir(folder)
        db.script(SETUP)
    make_sqlite_file(folder / "old.sqlite")
    return folder


@pytest.mark.parametrize(("statement", "happens"), [row[:2] for row in rows("Supported")])
def test_what_is_allowed_runs(
    made: Path, statement: str, happens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    with snapdb.connect(tmp_path / "test.snapdb") as db:
        before = len(db.execute("SHOW VERSIONS").fetchall())
        db.execute(statement).fetchall()
        after = len(db.execute("SHOW VERSIONS").fetchall())
    assert after == before + happens.startswith("a version")


@pytest.mark.parametrize(("statement", "reason", "way"), rows("Not supported"))
def test_what_is_refused_says_why_and_what_to_do(db: Database, statement: str, reason: str, way: str) -> None:
    with refused(
        "refused", f" is not supported: {reason}; {way}", recorded=False
    ) as caught:  # the page has the wording
        db.execute(statement)
    assert caught.value.span is not None

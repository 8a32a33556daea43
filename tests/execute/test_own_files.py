"""No statement opens the files of the database as data, however their path is written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import snapdb
from snapdb import Database
from tests.support.refusals import refused

OWN = "only snapdb opens"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("own")
    (root / "in").mkdir()
    (root / "in" / "a.csv").write_text("a\n1\n")
    (root / "in" / "x.txt").write_text("x")
    return root


@pytest.fixture(scope="module")
def db(root: Path) -> Iterator[Database]:
    with snapdb.connect(root / "shop.snapdb", threads=1) as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS a")
        (root / "link").symlink_to(database.path)
        (root / "in" / "catalog").symlink_to(database.path / "catalog.sqlite")
        yield database


QUERIES = (
    "SELECT * FROM read_blob('{db}/*')",
    "SELECT * FROM read_blob('{db}/catalog.sqlite')",
    "SELECT count(*) FROM read_text('{root}/*/catalog.sqlite-wal')",
    "SELECT * FROM read_csv('{root}/**')",
    "SELECT * FROM '{root}/shop.snapdb/tables/**/*.parquet'",
    'SELECT * FROM "{db}/tables/x.parquet"',
    "FROM sniff_csv('{db}/catalog.sqlite')",
    "SELECT * FROM read_blob('{root}/link/c*')",
    "SELECT * FROM read_text('{root}/in/catalog')",
    "SELECT * FROM read_text('{root}/in/../shop.snapdb/versions.log')",
    "SELECT * FROM read_blob(['{root}/in/a.csv', '{db}/catalog.sqlite'])",
    "SELECT * FROM read_blob('{root}/shop' || '.snapdb/*')",
    "SELECT * FROM read_blob(concat('{root}', '/', chr(115), 'hop.snapdb/catalog.lock'))",
    "FROM query('SELECT * FROM read_blob(''{db}/catalog.sqlite'')')",
    "FROM query_table('{db}/tables/x.parquet')",
    "SELECT * FROM t JOIN (SELECT * FROM read_text('file:{db}/catalog.lock')) USING (a)",
    "WITH c AS (SELECT filename FROM read_blob('{db}/*')) SELECT * FROM c",
    "SELECT (SELECT count(*) FROM read_blob('{db}/*'))",
    "SELECT * FROM parquet_metadata('{db}/tables/*/*.parquet')",
    "CREATE TABLE u AS SELECT * FROM read_blob('{db}/*')",
    "INSERT INTO t SELECT 1 FROM read_blob('{db}/*')",
    "DELETE FROM t WHERE a IN (SELECT size FROM read_blob('{db}/*'))",
    "COPY t FROM '{db}/tables/**/*.parquet'",
    "COPY (SELECT * FROM read_blob('{db}/*')) TO '{root}/out.parquet'",
    "EXPLAIN ANALYZE SELECT * FROM read_blob('{db}/*')",
)


@pytest.mark.parametrize("query", QUERIES)
def test_a_path_into_the_database_is_an_error_at_its_place(db: Database, root: Path, query: str) -> None:
    text = query.format(db=db.path, root=root)
    with refused("own-file", recorded=False) as caught:
        db.execute(text).arrow()
    assert caught.value.span is not None
    assert text[slice(*caught.value.span)].strip()
    assert db.execute("SELECT count(*) FROM t").fetchone() == (1,)


@pytest.mark.parametrize("given", [{"p": "{db}/*"}, {"p": ["{root}/in/a.csv", "{db}/catalog.sqlite"]}])
def test_a_parameter_may_not_lead_there_either(db: Database, root: Path, given: dict[str, Any]) -> None:
    def filled(value: Any) -> Any:
        return [filled(v) for v in value] if isinstance(value, list) else value.format(db=db.path, root=root)

    (value,) = map(filled, given.values())
    for query, parameters in (("SELECT * FROM read_blob($p)", {"p": value}), ("SELECT * FROM read_blob(?)", [value])):
        with refused("own-file", recorded=False):
            db.execute(query, parameters).arrow()


def test_a_path_relative_to_the_database_leads_there(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(db.path)
    for path in ("catalog.sqlite", "*", "./tables/**", "../*/catalog.lock"):
        with refused("own-file", recorded=False):
            db.execute(f"SELECT * FROM read_blob('{path}')").arrow()


OTHERS = (
    ("SELECT count(*) FROM read_csv('{root}/in/a.csv')", 1),
    ("SELECT count(*) FROM read_text('{root}/*/x.txt')", 1),
    ("SELECT count(*) FROM read_csv('{root}/**/*.csv')", 1),
    ("SELECT count(*) FROM (SELECT '{db}/catalog.sqlite' AS path)", 1),
    ("SELECT count(*) FROM glob('{db}/catalog.lock')", 1),
    ("SELECT count(*) FROM (VALUES ('{db}/*'))", 1),
)


@pytest.mark.parametrize(("query", "rows"), OTHERS)
def test_other_files_and_texts_that_only_look_like_paths_are_read(
    db: Database, root: Path, query: str, rows: int
) -> None:
    assert db.execute(query.format(db=db.path, root=root)).fetchone() == (rows,)


def test_another_database_is_read_as_files(db: Database, root: Path) -> None:
    shutil.copytree(db.path, root / "copy.snapdb")
    assert db.execute(f"SELECT a FROM '{root}/copy.snapdb/tables/**/*.parquet'").fetchall() == [(1,)]

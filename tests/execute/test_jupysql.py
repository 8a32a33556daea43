"""JupySQL's magics run over the SQLAlchemy dialect. JupySQL is no dependency, so the tests are skipped without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import snapdb

pytest.importorskip("sql.magic", reason="jupysql is not installed")
globalipapp = pytest.importorskip("IPython.testing.globalipapp")

SHOP = """
CREATE TABLE person AS SELECT range AS id, range * 2 AS age FROM range(5);
CREATE TABLE knows AS SELECT range AS a, (range + 1) % 5 AS b FROM range(5);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
CREATE SNAPSHOT now OF g;
"""
Cell = Callable[[str], Any]


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
    """Run a cell of a notebook that is connected to a database, and return its result."""
    monkeypatch.chdir(tmp_path)
    with snapdb.connect("shop.snapdb") as db:
        db.script(SHOP)
    shell = globalipapp.start_ipython() or globalipapp.get_ipython()

    def run(text: str) -> Any:
        done = shell.run_cell(text)
        done.raise_error()
        return done.result

    run("%load_ext sql")
    run("%config SqlMagic.feedback = 0")
    run("%config SqlMagic.named_parameters = 'enabled'")
    run("%sql snapdb:///shop.snapdb")
    yield run
    run("%sql --close snapdb:///shop.snapdb")


def test_statements_of_every_kind(cell: Cell) -> None:
    cell("low = 3")
    assert list(cell("%sql SELECT id FROM person WHERE age > :low ORDER BY id")) == [(2,), (3,), (4,)]
    assert list(cell("%sql SELECT id FROM person WHERE age > {{low}} ORDER BY id")) == [(2,), (3,), (4,)]
    assert list(cell("%%sql\nCREATE TABLE t AS SELECT 1 AS x; INSERT INTO t VALUES (2);\nFROM t")) == [(1,), (2,)]
    cell("%sql REFRESH SNAPSHOT now")
    assert len(cell("%sql SAMPLE FROM now SEEDS (SELECT id FROM person) AS person FANOUT (knows => [1])")) == 5
    assert cell("%sql SELECT count(*) AS n FROM now.person").DataFrame()["n"].tolist() == [5]
    with snapdb.connect("shop.snapdb", read_only=True) as db:  # each statement is committed
        assert db.execute("FROM t").fetchall() == [(1,), (2,)]


def test_frames_snippets_and_lists(cell: Cell) -> None:
    cell("import pandas as pd; frame = pd.DataFrame({'a': [1, 2]})")
    cell("%sql --persist frame")
    assert cell("%sql SELECT sum(a) AS s FROM frame").DataFrame()["s"].tolist() == [3]
    cell("%%sql --save old\nSELECT * FROM person WHERE age > 4")
    assert list(cell("%sql --with old SELECT count(*) FROM old")) == [(2,)]
    assert [row[0] for row in cell("%sqlcmd tables")._table.rows] == ["frame", "knows", "person"]
    assert "BIGINT" in str(cell("%sqlcmd columns --table person"))
    assert "mean" in str(cell("%sqlcmd profile --table person"))

"""FROM names variables of the calling code: data frames, Arrow data, arrays and relations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import torch

import snapdb
from snapdb import Database
from tests.support.inside.plan import caller_variables
from tests.support.refusals import refused

in_module = pd.DataFrame({"id": [7]})
ROWS = {"id": [1, 2, 3], "v": [0.5, 1.0, 2.0]}
KINDS: dict[str, Callable[[], object]] = {
    "pandas": lambda: pd.DataFrame(ROWS),
    "polars": lambda: pl.DataFrame(ROWS),
    "a lazy polars frame": lambda: pl.LazyFrame(ROWS),
    "an Arrow table": lambda: pa.table(ROWS),
    "a record batch": lambda: pa.RecordBatch.from_pydict(ROWS),
    "a reader": lambda: pa.table(ROWS).to_reader(),
    "a dataset": lambda: ds.dataset(pa.table(ROWS)),
    "arrays": lambda: {name: np.array(values) for name, values in ROWS.items()},
    "tensors": lambda: {name: torch.tensor(values, dtype=torch.float64) for name, values in ROWS.items()},
    "lists": lambda: ROWS,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_variable_is_read_as_a_table(db: Database, kind: str) -> None:
    df = KINDS[kind]()
    assert db.execute("SELECT sum(id), sum(v) FROM df AS d WHERE d.id > 1").fetchall() == [(5, 3.0)]
    del df


def test_a_variable_stands_wherever_a_table_does(db: Database) -> None:
    df, other = pd.DataFrame(ROWS), pd.DataFrame({"id": [2], "w": ["x"]})
    assert db.execute("SELECT v, w FROM df JOIN other USING (id), in_module").fetchall() == [(1.0, "x")]
    db.execute("CREATE TABLE t AS FROM df")
    db.execute("INSERT INTO t SELECT id + 10, v FROM (FROM df)")
    assert db.execute("SELECT count(*), max(id) FROM t").fetchone() == (6, 13)
    assert [row[0] for row in db.execute("DESCRIBE df").fetchall()] == ["id", "v"]
    assert db.execute("SUMMARIZE df").rowcount == 2
    assert db.script("SELECT 1; SELECT count(*) FROM df")[1].fetchone() == (3,)
    del df, other


def test_a_copied_variable_and_seeds_from_one(db: Database, tmp_path: Path) -> None:
    df = pd.DataFrame({"id": [0, 2]})
    db.script(
        "CREATE TABLE p AS SELECT range AS id FROM range(4);"
        "CREATE TABLE e AS SELECT range AS a, (range + 1) % 4 AS b FROM range(4);"
        "CREATE PROPERTY GRAPH g VERTEX TABLES (p KEY (id))"
        " EDGE TABLES (e SOURCE KEY (a) REFERENCES p DESTINATION KEY (b) REFERENCES p); CREATE SNAPSHOT s OF g"
    )
    seeds = "SEEDS (SELECT id FROM df) AS p FANOUT (e => [1])"
    assert db.execute("SELECT count(*) FROM (FROM df)").fetchone() == (2,)
    (batch,) = db.stream(f"SAMPLE FROM s {seeds}")
    assert batch.input_id.tolist() == [0, 1]
    db.execute(f"COPY (FROM df) TO '{tmp_path}/out.csv'")
    assert (tmp_path / "out.csv").read_text() == "id\n0\n2\n"
    with refused("unknown-table", "df"):
        db.execute(f"CREATE SAMPLER kept AS SAMPLE FROM s {seeds}")
    del df


def test_names_of_the_database_and_the_query_win(db: Database) -> None:
    t, u = pd.DataFrame({"a": ["variable"]}), pd.DataFrame({"a": ["variable"]})
    db.execute("CREATE TABLE t AS SELECT 'table' AS a")
    assert db.execute("FROM t").fetchall() == [("table",)]
    assert db.execute("WITH u AS (SELECT 'query' AS a) FROM u").fetchall() == [("query",)]
    db.register("u", {"a": ["registered"]})
    assert db.execute("FROM u").fetchall() == [("registered",)]
    del t, u


def test_variables_of_other_types_are_named_in_the_error(db: Database) -> None:
    number = 3
    with refused("unknown-table", "number", "int", at="number"):
        db.execute("FROM number")
    with refused("unknown-table", "nothing"):
        db.execute("FROM nothing")
    del number


def test_only_the_caller_is_seen(db: Database) -> None:
    df = pd.DataFrame(ROWS)

    def inner() -> Any:
        return db.execute("FROM df")

    with refused("unknown-table", "df"):
        inner()
    with caller_variables({"df": df}.get):
        assert inner().rowcount == 3


@pytest.mark.parametrize("options", [{"variables": False}, {"folders": []}], ids=str)
def test_variables_can_be_hidden(options: dict[str, Any]) -> None:
    df = pd.DataFrame(ROWS)
    with snapdb.connect(**options) as hidden, refused("unknown-table", "df"):
        hidden.execute("FROM df")
    with snapdb.connect(folders=[], variables=True) as shown:
        assert shown.execute("FROM df").rowcount == 3
    del df


def test_a_task_sees_no_variables(db: Database) -> None:
    df = pd.DataFrame({"id": [1]})
    db.execute("CREATE TASK nightly SCHEDULE EVERY INTERVAL '1 day' AS CREATE TABLE copied AS FROM df")
    with refused("task-failed", "df", recorded=False):
        db.execute("EXECUTE TASK nightly")
    del df

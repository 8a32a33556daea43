"""Relations: lazy queries that are composed, read and named in other queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from snapdb import Database, Relation
from tests.support.refusals import refused


@pytest.fixture
def numbers(db: Database) -> Relation:
    db.execute("CREATE TABLE t AS SELECT range AS n, range % 2 AS odd FROM range(6)")
    made = db.sql("FROM t")
    assert made is not None
    return made


def query(db: Database, text: str, params: list[object] | dict[str, object] | None = None) -> Relation:
    made = db.sql(text, params)
    assert made is not None
    return made


def test_rows_are_read_in_every_form(numbers: Relation) -> None:
    rows = [(i, i % 2) for i in range(6)]
    assert (numbers.columns, numbers.types, numbers.shape) == (["n", "odd"], ["BIGINT", "BIGINT"], (6, 2))
    assert numbers.fetchall() == numbers.fetchall() == rows
    assert (numbers.fetchone(), numbers.fetchmany(2), numbers.fetchall()) == (rows[0], rows[1:3], rows[3:])
    assert numbers.df().to_dict("list") == numbers.arrow().to_pydict() == numbers.pl().to_dict(as_series=False)
    assert numbers.fetchnumpy()["n"].tolist() == list(range(6))
    assert pa.table(numbers).num_rows == len(numbers) == 6
    assert repr(numbers) == repr(numbers.execute())


def test_a_relation_runs_when_it_is_read(db: Database, numbers: Relation) -> None:
    db.execute("DELETE FROM t WHERE n > 1")
    assert numbers.fetchall() == [(0, 0), (1, 1)]


def test_relations_are_composed(numbers: Relation) -> None:
    some = numbers.filter("n > 1").set_alias("low")
    assert some.select("n * 10 AS x").order("x DESC").limit(2, 1).fetchall() == [(40,), (30,)]
    assert some.aggregate("odd, sum(n) AS s").order("odd").fetchall() == [(0, 6), (1, 8)]
    assert some.aggregate("count(*)", "odd").fetchall() == [(2,), (2,)]
    assert numbers.select("odd").distinct().order("odd").fetchall() == [(0,), (1,)]
    assert numbers.join(some, "n", "left").order("n").fetchall()[:3] == [(0, 0, None), (1, 1, None), (2, 0, 0)]
    assert numbers.join(numbers, "n, odd").order("n").fetchone() == (0, 0)
    assert len(numbers.set_alias("a").join(some, "a.n = low.n")) == 4
    assert len(numbers.union(some)) == 10
    assert sorted(numbers.except_(some).fetchall()) == [(0, 0), (1, 1)]
    assert len(numbers.intersect(some)) == 4
    assert some.query("x", "SELECT count(*) FROM x").fetchall() == [(4,)]


def test_a_relation_in_a_variable_is_a_table(db: Database, numbers: Relation) -> None:
    few = numbers.filter("n < 2")
    both: Any = db.sql("SELECT * FROM few JOIN numbers USING (n)")
    assert both.order("n").fetchall() == [(0, 0, 0), (1, 1, 1)]
    del few


def test_parameters_and_variables_stay_with_a_query(db: Database, numbers: Relation) -> None:
    frame = pd.DataFrame({"n": [1, 2]})
    first, second = query(db, "FROM t WHERE n > ?", [1]), query(db, "FROM t WHERE n < ?", [3])
    assert first.intersect(second).fetchall() == [(2, 0)]
    named: Any = db.sql("SELECT n FROM frame WHERE n > $low", {"low": 1})
    del frame
    assert named.filter("n < 9").fetchall() == [(2,)]
    with refused("not-composable", "position"):
        named.union(first)


def test_other_statements(db: Database, numbers: Relation, tmp_path: Path) -> None:
    assert db.sql("CREATE TABLE u (a INT)") is None
    shown = query(db, "SHOW TABLES")
    assert sorted(shown.df()["name"]) == ["t", "u"]
    with refused("not-composable", "SHOW"):
        shown.filter("true")
    assert numbers.create("copied").message == "version 3: table copied with 6 rows"
    assert numbers.insert_into("copied").rowcount == 6
    numbers.limit(2).write_parquet(tmp_path / "o'n.parquet")
    assert pq.read_table(tmp_path / "o'n.parquet").to_pydict() == {"n": [0, 1], "odd": [0, 1]}
    numbers.limit(1).write_csv(tmp_path / "n.csv")
    assert (tmp_path / "n.csv").read_text() == "n,odd\n0,0\n"


def test_mistakes_are_reported_at_once(db: Database, numbers: Relation) -> None:
    with refused("unknown-column", "nope", at="nope"):
        db.sql("SELECT nope FROM t")
    with refused("unknown-column", "nope"):
        numbers.filter("nope > 1").fetchall()


def test_numpy_columns_with_nulls_are_masked(db: Database) -> None:
    columns = query(db, "SELECT 1::INT AS a, NULL::DOUBLE AS b, 'x' AS c, sum(3) AS d").fetchnumpy()
    assert isinstance(columns["b"], np.ma.MaskedArray)
    assert (columns["a"].tolist(), columns["b"].mask.tolist(), columns["c"].tolist()) == ([1], [True], ["x"])
    assert columns["d"].tolist() == [3]

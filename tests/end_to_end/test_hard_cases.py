"""Names, values and moments that once gave something wrong without a word."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import snapdb
from snapdb import Database
from tests.support.refusals import refused

EDGES = """
CREATE TABLE v AS SELECT range AS id FROM range(4);
CREATE TABLE e AS SELECT range % 4 AS a, (range + 1) % 4 AS b, TIMESTAMP '2020-01-01' + INTERVAL 1 DAY * range AS t,
  range AS w FROM range(8);
CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id))
  EDGE TABLES (e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (t));
"""
SAMPLE = "SAMPLE FROM s SEEDS (SELECT id FROM v) AS v FANOUT (e => [FULL])"


def rows(db: Database, query: str) -> list[tuple[Any, ...]]:
    return db.execute(query).fetchall()


def test_a_folder_called_like_a_column_does_not_become_one(tmp_path: Path) -> None:
    (tmp_path / "seed=7").mkdir()
    with snapdb.connect(tmp_path / "seed=7" / "v=1.snapdb") as db:
        db.execute("CREATE TABLE r AS SELECT range AS seed, range * 10 AS v FROM range(3)")
        assert rows(db, "SELECT * FROM r") == [(0, 0), (1, 10), (2, 20)]


@pytest.mark.parametrize("name", ["file_index", "FILE_ROW_NUMBER", "snapdb row id"])
def test_names_that_reading_needs_are_refused_as_columns(db: Database, name: str) -> None:
    with refused("reserved-name"):
        db.execute(f'CREATE TABLE t AS SELECT 1 AS "{name}"')


@pytest.mark.parametrize("type_", ["TIMESTAMP", "TIMESTAMPTZ", "DATE"])
def test_an_infinite_event_time_is_an_error_and_no_past(db: Database, type_: str) -> None:
    db.script(f"CREATE TABLE v AS SELECT 1 AS id; CREATE TABLE e AS SELECT 1 AS a, 1 AS b, '-infinity'::{type_} AS t")
    with refused("no-event-time"):
        db.execute(
            "CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id)) EDGE TABLES "
            "(e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (t))"
        )


@pytest.mark.parametrize("type_", ["TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMPTZ", "DATE", "UINTEGER"])
def test_every_kind_of_event_time_cuts_where_it_should(db: Database, type_: str) -> None:
    moment = "range" if type_ == "UINTEGER" else f"(TIMESTAMP '2020-01-01' + INTERVAL 1 DAY * range)::{type_}"
    bound = "3" if type_ == "UINTEGER" else "DATE '2020-01-04'"
    db.script(f"""
    CREATE TABLE v AS SELECT range AS id FROM range(2);
    CREATE TABLE e AS SELECT 0 AS a, 1 AS b, {moment} AS k0 FROM range(9);
    CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id))
      EDGE TABLES (e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (k0));
    CREATE SNAPSHOT s OF g FOR EVENT_TIME AS OF {bound};
    """)
    assert rows(db, "SELECT count(*) FROM s.e") == [(4,)]
    assert sorted(r[6] for r in rows(db, SAMPLE)) == [0, 1, 2, 3]


def test_time_zones_move_a_bound(db: Database) -> None:
    db.script(EDGES + "CREATE SNAPSHOT s OF g FOR EVENT_TIME AS OF TIMESTAMPTZ '2020-01-03 01:00:00+02'")
    assert rows(db, "SELECT max(t)::VARCHAR FROM s.e") == [("2020-01-02 00:00:00",)]


def test_a_key_column_may_have_any_name(db: Database) -> None:
    db.execute("CREATE TABLE u AS SELECT range AS n FROM range(4)")
    db.execute("CREATE PROPERTY GRAPH g VERTEX TABLES (u KEY (n))")
    db.execute("CREATE TABLE d AS SELECT 0 AS n UNION ALL SELECT 0")
    with refused("duplicate-key"):
        db.execute("CREATE PROPERTY GRAPH h VERTEX TABLES (d KEY (n))")


def test_replacing_a_table_does_not_lose_what_was_inserted_meanwhile(db: Database) -> None:
    db.execute("CREATE TABLE t AS SELECT 0 AS x")
    with snapdb.connect(db.path) as other:
        done: list[object] = []

        def insert(*_: object) -> None:
            if not done:
                done.append(other.execute("INSERT INTO t VALUES (1)"))

        db.progress = insert
        with refused("table-moved"):
            db.execute("CREATE OR REPLACE TABLE t AS SELECT x FROM t")
    assert rows(db, "SELECT x FROM t ORDER BY x") == [(0,), (1,)]


@pytest.mark.parametrize(
    "condition",
    ["random() < 0.5", '"random"() < e.w', "e.t < now()", "e.t > current_date", "age(e.t) > INTERVAL 1 DAY"],
)
def test_what_changes_by_itself_is_no_filter(db: Database, condition: str) -> None:
    db.script(EDGES)
    with refused("not-repeatable"):
        db.execute(f"CREATE SNAPSHOT s OF g WHERE {condition}")


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("len(list_filter([e.w], lambda x: x > 3)) > 0", {4, 5, 6, 7}),
        ("e IS NOT NULL AND e.w > 5", {6, 7}),
        ("e.e_id > 3 AND e_id < 6", {4, 5}),
        ("w IN (1, 2) AND v.id < 3", {1}),
    ],
)
def test_filters_may_be_any_condition_on_one_element(db: Database, condition: str, kept: set[int]) -> None:
    db.script(EDGES + f"CREATE SNAPSHOT s OF g WHERE {condition}")
    assert {r[0] for r in rows(db, "SELECT e_id FROM s.e")} == kept
    assert {r[6] for r in rows(db, SAMPLE)} == kept


def test_a_key_called_y_is_not_the_target(db: Database) -> None:
    db.script("""
    CREATE TABLE cell AS SELECT range // 3 AS x, 'r' || range % 3 AS y, 5 AS label FROM range(6);
    CREATE PROPERTY GRAPH g VERTEX TABLES (cell KEY (x, y) TARGET (label AS y));
    CREATE SNAPSHOT s OF g;
    """)
    sample = "SAMPLE FROM s SEEDS (SELECT x, y FROM cell) AS cell FANOUT (DEFAULT => [1])"
    (batch,) = db.stream(sample)
    assert batch.y.tolist() == [5] * 6
    (batch,) = db.stream(sample, seeds=[(0, "r1"), (1, "r2")])
    assert batch.ids("cell").to_pylist() in (
        [{"x": 0, "y": "r1"}, {"x": 1, "y": "r2"}],
        [{"x": 1, "y": "r2"}, {"x": 0, "y": "r1"}],
    )


def test_rows_keep_their_order_after_a_delete(db: Database) -> None:
    db.script(
        "CREATE TABLE o AS SELECT range AS a FROM range(3); INSERT INTO o VALUES (10), (11); DELETE FROM o WHERE a = 1"
    )
    for _ in range(5):
        db.execute("CREATE OR REPLACE TABLE p AS SELECT * FROM o")
        assert rows(db, "SELECT a FROM p") == [(0,), (2,), (10,), (11,)]


@pytest.mark.parametrize("column", ["[1.5, 2]", "DATE '2020-01-01'", "TIMESTAMP '2020-01-01'", "{'a': 1}"])
def test_a_target_is_a_number_or_a_string(db: Database, column: str) -> None:
    db.execute(f"CREATE TABLE v AS SELECT 1 AS id, {column} AS label")
    with refused("column-type", "TARGET", at="label"):
        db.execute("CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id) TARGET (label AS y))")


def test_a_csv_with_other_names_is_not_loaded_by_guess(db: Database, tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text("first,second\na,b\n")
    db.execute("CREATE TABLE c (u VARCHAR, w VARCHAR)")
    with refused("file-columns"):
        db.execute(f"COPY c FROM '{tmp_path}/h.csv'")
    db.execute(f"COPY c FROM '{tmp_path}/h.csv' (HEADER true)")
    assert rows(db, "SELECT * FROM c") == [("a", "b")]


def test_a_state_of_a_snapshot_with_another_filter_is_refused(db: Database) -> None:
    db.script(EDGES + "CREATE SNAPSHOT s OF g")
    state = db.stream(SAMPLE).state_dict()
    db.execute("CREATE OR REPLACE SNAPSHOT s OF g WHERE e.w < 5")
    with refused("stream-state"):
        db.stream(SAMPLE).load_state_dict(state)


def test_an_emptied_catalog_is_not_a_new_database(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "d") as db:
        db.execute("CREATE TABLE t (a INT)")
    (tmp_path / "d" / "catalog.sqlite").write_bytes(b"")
    with refused("damaged-catalog"):
        snapdb.connect(tmp_path / "d")


def test_a_closed_result_and_a_closed_database_say_so(db: Database) -> None:
    result = db.execute("SELECT range FROM range(300_000)")
    result.close()
    with refused("consumed"):
        result.fetchall()
    db.close()
    with refused("closed"):
        db.execute("SELECT 1")


@pytest.mark.parametrize(
    "values", ["1 AS id, NULL::FLOAT[2] AS f WHERE false", "1 AS id, NULL::FLOAT[2] AS f", "1 AS id, []::FLOAT[] AS f"]
)
def test_features_without_values_have_their_width(db: Database, values: str) -> None:
    db.execute(f"CREATE TABLE v AS SELECT {values}")
    db.execute("CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id) FEATURES (f AS x DEFAULT 7))")
    db.execute("CREATE SNAPSHOT s OF g")
    sample = "SAMPLE FROM s SEEDS (SELECT id FROM v) AS v FANOUT (DEFAULT => [1])"
    found = [batch.x["v"].tolist() for batch in db.stream(sample)]
    assert found == ([] if "false" in values else [[[]]] if "[]::" in values else [[[7.0, 7.0]]])


@pytest.mark.parametrize(("bound", "count"), [("9223372036854775807", 3), ("-9223372036854775808", 1), ("0", 2)])
def test_the_largest_integers_are_bounds(db: Database, bound: str, count: int) -> None:
    db.script(f"""
    CREATE TABLE v AS SELECT 0 AS id;
    CREATE TABLE e AS SELECT 0 AS a, 0 AS b, unnest([-9223372036854775808, 0, 9223372036854775807]) AS t;
    CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id))
      EDGE TABLES (e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (t));
    CREATE SNAPSHOT s OF g FOR EVENT_TIME AS OF {bound};
    """)
    assert len(rows(db, SAMPLE)) == count == rows(db, "SELECT count(*) FROM s.e")[0][0]
    with refused("not-finite", at="9223372036854775808"):
        db.execute("CREATE SNAPSHOT t OF g FOR EVENT_TIME AS OF 9223372036854775808")


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ("SELECT 0 AS a, 1 AS b, TIMESTAMP '2020-01-01' AS t, 7 AS e_id", "e_id"),
        ("SELECT 0 AS a, 1 AS b, 1.5 AS t", "event time"),
        ("SELECT 'k' AS a, 1 AS b, TIMESTAMP '2020-01-01' AS t", "e.a is VARCHAR"),
        ("SELECT 0 AS a, 1 AS b", '"t"'),
    ],
)
def test_a_replaced_table_must_still_fit_its_graph(db: Database, table: str, named: str) -> None:
    db.script(EDGES)
    db.execute(f"CREATE OR REPLACE TABLE e AS {table}")
    with refused("does-not-fit", "graph g", named):
        db.execute("CREATE SNAPSHOT s OF g")


def test_a_missing_file_is_not_a_lock(db: Database) -> None:
    with pytest.raises(snapdb.InputError) as caught:
        db.execute("SELECT * FROM '/nope/blocks.parquet'").fetchall()
    assert not caught.value.retryable


def test_targets_of_seeds_are_whole_where_they_can_be(db: Database) -> None:
    db.script(EDGES + "CREATE SNAPSHOT s OF g")
    sample = "SAMPLE FROM s SEEDS (SELECT b AS id, {} AS y FROM s.e GROUP BY b) AS v FANOUT (e => [1])"
    (batch,) = db.stream(sample.format("sum(w)"))
    assert batch.y.dtype == torch.int64
    (batch,) = db.stream(sample.format("avg(w)"))
    assert batch.y.dtype == torch.float32
    for bad, code in (("99999999999999999999::HUGEINT", "seed-range"), ("1e300", "seed-range"), ("'a'", "seed-type")):
        with refused(code, '"y"'):
            db.stream(sample.format(bad))


def test_skipped_edges_are_counted(db: Database) -> None:
    db.script("CREATE TABLE v AS SELECT 1 AS id; CREATE TABLE e AS SELECT 1 AS a, range AS b FROM range(4)")
    db.execute(
        "CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id)) EDGE TABLES "
        "(e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v ON DANGLING SKIP)"
    )
    message = db.execute("CREATE SNAPSHOT s OF g").message
    assert message is not None
    assert message.endswith("1 edge (full); 3 dangling edges of e skipped")


def test_bad_features_are_shown_by_the_users_keys(db: Database) -> None:
    db.execute(
        "CREATE TABLE v AS SELECT 'A' || range AS k, CASE WHEN range <> 1 THEN NULL ELSE 1.0 END AS f FROM range(4)"
    )
    with refused("bad-feature"):
        db.execute("CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (k) FEATURES (f AS x))")


@pytest.mark.parametrize("pattern", ["tables/*/*.parquet", "ids/*/*.parquet", "topology/*/*/edge_id.npy"])
def test_a_damaged_file_of_the_database_is_named(db: Database, pattern: str) -> None:
    db.script(EDGES + "INSERT INTO e VALUES (0, 1, TIMESTAMP '2021-01-01', 1); CREATE SNAPSHOT s OF g")
    for path in sorted(db.path.glob(pattern)):
        whole = path.read_bytes()
        for damage in (whole[:-3], b"\0" * len(whole), None):
            path.unlink(missing_ok=True)
            if damage is not None:
                path.write_bytes(damage)
            with pytest.raises(snapdb.CorruptError):
                db.script("SELECT * FROM e; CREATE OR REPLACE SNAPSHOT t OF g WHERE e.w > 1; " + SAMPLE)
        path.write_bytes(whole)


@pytest.mark.parametrize(
    "seeds",
    [
        "",
        "SELECT 1; SELECT 2",
        "DROP TABLE v",
        "SELECT id FROM v ORDER BY random()",
        {},
        np.array(1),
        torch.tensor(2),
        [2**64],
        {"id": [1], "y": [1, 2]},
        object(),
        ["a"],
        [99],
    ],
)
def test_bad_seeds_from_outside_are_refused(db: Database, seeds: Any) -> None:
    db.script(EDGES + "CREATE SNAPSHOT s OF g")
    with pytest.raises(snapdb.SnapdbError):
        db.stream(SAMPLE, seeds=seeds)
    assert rows(db, "SELECT count(*) FROM v") == [(4,)]


def test_seeds_come_in_many_forms(db: Database) -> None:
    db.script(EDGES + "CREATE SNAPSHOT s OF g")
    wanted: list[Any] = [
        [1, 3],
        np.array([1, 3]),
        torch.tensor([3, 1]),
        {"id": [1, 3], "y": [0, 1]},
        "SELECT id FROM v WHERE id % 2",
    ]
    for seeds in wanted:
        (batch,) = db.stream(SAMPLE, seeds=seeds)
        assert sorted(batch.ids("v").to_pylist()[:2]) == [1, 3]
    assert list(db.stream(SAMPLE, seeds=[])) == []


def test_uuids_may_be_given_as_text(db: Database) -> None:
    keys = [uuid.UUID(int=i) for i in range(3)]
    db.register("given", {"k": [str(k) for k in keys]})
    db.script("CREATE TABLE u AS SELECT k::UUID AS k FROM given; CREATE PROPERTY GRAPH g VERTEX TABLES (u KEY (k))")
    db.execute("CREATE SNAPSHOT s OF g")
    (batch,) = db.stream("SAMPLE FROM s SEEDS (FROM u) AS u FANOUT (DEFAULT => [1])", seeds=[str(keys[2])])
    assert batch.ids("u").to_pylist() == [str(keys[2])]


def test_python_arguments_that_cannot_be_are_value_errors(db: Database) -> None:
    db.script(EDGES + "CREATE SNAPSHOT s OF g")
    with pytest.raises(ValueError, match="threads must be an integer"):
        db.stream(SAMPLE, threads=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="params must be a mapping"):
        db.execute("SELECT ?", 5)  # type: ignore[arg-type]
    with refused("epochs-in-stream", "EPOCHS", at="EPOCHS 2"):
        db.stream(SAMPLE + " EPOCHS 2")


def test_a_value_that_fails_late_in_a_stream_of_rows_is_one_error(db: Database) -> None:
    query = "SELECT CAST(CASE WHEN range = 900_000 THEN 'x' ELSE '1' END AS INTEGER) AS a FROM range(1_000_000)"
    with refused("bad-value", "'x'"):
        db.execute(query).fetchall()

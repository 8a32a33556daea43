"""Tables from which rows were deleted: read in order without a sort, counted without being read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import snapdb
from snapdb import Database
from snapdb.sql_engine import tables
from snapdb.types import Segment
from tests.support.inside.kernels import find_ids
from tests.support.inside.sql_engine import _live_condition
from tests.support.refusals import refused

_LEAF = 1 << 15


@pytest.fixture
def small_bitmaps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A bitmap for few rows, so that files of a test have several."""
    monkeypatch.setattr(tables, "_LEAF", _LEAF)
    tables._condition.cache_clear()
    yield
    tables._condition.cache_clear()


def test_a_scan_after_a_delete_neither_sorts_nor_joins(db: Database) -> None:
    db.script("CREATE TABLE t AS SELECT range AS i FROM range(100000); DELETE FROM t WHERE i % 100 = 7")
    plan = "\n".join(row[0] for row in db.execute("EXPLAIN SELECT * FROM t").fetchall())
    assert "the row is not deleted" in plan
    assert not [word for word in ("ORDER", "JOIN", "get_bit") if word in plan]


@pytest.mark.parametrize("deletes", [1_000, 30_000])
def test_the_sql_does_not_grow_with_the_number_of_deletes(tmp_path: Path, deletes: int) -> None:
    ids = np.random.default_rng(deletes).choice(3_000_000, deletes, replace=False)
    pq.write_table(pa.table({"row_id": ids}), tmp_path / "gone.parquet")
    files = [Segment("rows", 3_000_000, 0, "", 0)]
    condition = _live_condition(files, (Segment("gone.parquet", deletes, 0, "", 0),), 3_000_000, tmp_path)
    assert condition is not None
    assert len(condition) < 1_000, "three bitmaps, each by its name"


def test_bitmaps_that_nobody_holds_any_more_are_made_again(db: Database) -> None:
    db.script("CREATE TABLE t AS SELECT range AS i FROM range(1000); DELETE FROM t WHERE i % 100 = 7")
    for _ in range(2):
        assert db.execute("SELECT count(i) FROM t").fetchall() == [(990,)]
        tables._bitmap.cache_clear()
        tables._deleted_ids.cache_clear()


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.usefixtures("small_bitmaps")
def test_rows_come_in_the_order_of_their_ids_whatever_the_threads(tmp_path: Path, threads: int) -> None:
    expected: list[int] = []
    rng = np.random.default_rng(7)
    with snapdb.connect(tmp_path / "x.snapdb", threads=threads) as db:
        db.execute("CREATE TABLE t (i BIGINT)")
        for number, rows in enumerate((300_000, 1, 70_000, 5, 130_000)):
            first = number * 1_000_000
            db.execute(f"INSERT INTO t (i) SELECT range + {first} FROM range({rows})")
            expected += range(first, first + rows)
            if number == 2:
                db.execute("ALTER TABLE t ADD COLUMN more BIGINT DEFAULT 4")
        gone = {
            *rng.choice(300_000, 3_000, replace=False).tolist(),  # a bitmap for each part
            *(2_000_000 + i for i in (0, 32_767, 32_768, 69_999)),  # compared one by one
            *range(3_000_000, 3_000_005),  # a whole file
            *range(4_010_000, 4_090_000),  # a range
        }
        db.register("gone", pa.table({"i": sorted(gone)}))
        db.execute("DELETE FROM t WHERE i IN (SELECT i FROM gone)")
        expected = [i for i in expected if i not in gone]
        assert [i for i, _ in db.execute("SELECT * FROM t").fetchall()] == expected
        db.execute("CREATE TABLE copy AS SELECT * FROM t")
        assert [i for i, _ in db.execute("SELECT * FROM copy").fetchall()] == expected
        assert db.execute("SELECT count(i) FROM t").fetchall() == [(len(expected),)]


@pytest.mark.usefixtures("small_bitmaps")
@pytest.mark.parametrize("stop", [0, 1, 40_000, _LEAF, 3 * _LEAF])
def test_the_condition_says_of_each_position_whether_its_row_is_live(tmp_path: Path, stop: int) -> None:
    """Random sets of deletes, thin and dense, against a list of booleans, over files of which some are later ones."""
    rng = np.random.default_rng(stop)
    rows = [int(n) for n in (0, 1, rng.integers(1, 9), _LEAF, 70_001)]
    firsts = np.cumsum([0, *rows[:-1]]).tolist()
    total = sum(rows)
    for share in (0.0, 0.0002, 0.01, 0.6, 1.0):
        ids = np.flatnonzero(rng.random(total) < share)
        path = tmp_path / f"gone-{share}.parquet"
        pq.write_table(pa.table({"row_id": rng.permutation(ids)}), path)
        deletes = (Segment(path.name, ids.size, 0, "", 0),)
        files = [Segment(f"{i}", n, 0, "", first) for i, (n, first) in enumerate(zip(rows, firsts, strict=True))]
        condition = _live_condition(files, deletes, stop, tmp_path)
        live = np.ones(total, np.bool_)
        live[ids], live[stop:] = False, False
        with snapdb.connect() as db:
            places = [(f, p) for f, n in enumerate(rows) for p in range(n)]
            db.register(
                "places", pa.table({"file_index": [f for f, _ in places], "file_row_number": [p for _, p in places]})
            )
            found = db.execute(f"SELECT {condition or 'true'} FROM places").fetchall()
        assert [bool(value) for (value,) in found] == live.tolist()


def test_a_damaged_file_of_deletes_is_named(db: Database) -> None:
    db.script("CREATE TABLE t AS SELECT range AS i FROM range(1000); DELETE FROM t WHERE i % 100 = 7")
    (path,) = (p for p in Path(db.path).rglob("tables/*/*.parquet"))
    path.write_bytes(b"\0" * path.stat().st_size)
    with refused("damaged-file", path.name, recorded=False):
        db.execute("SELECT * FROM t").fetchall()


def test_rows_are_counted_from_the_catalog(db: Database) -> None:
    db.script("""
        CREATE TABLE t AS SELECT range AS i FROM range(1000);
        CREATE TABLE u AS SELECT 1 AS i;
        DELETE FROM t WHERE i % 100 = 7;
    """)
    for path in Path(db.path).rglob("*.parquet"):
        path.unlink()
    for query, rows in (
        ("SELECT count(*) FROM t", [(990,)]),
        ('SELECT COUNT ( * ) AS n FROM "T" AT (VERSION => 1) AS x', [(1000,)]),
        ("SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM u) AS n", [(991,)]),
        ("SELECT count(*) FROM t UNION ALL SELECT count(*) FROM u", [(990,), (1,)]),
    ):
        result = db.execute(query)
        assert result.columns == (["n"] if "AS n" in query else ["count_star()"]), query
        assert result.fetchall() == rows, query
    db.execute("BEGIN")
    db.execute("INSERT INTO u VALUES (4)")
    assert db.execute("SELECT count(*) FROM u").fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("WITH t AS (SELECT 1) SELECT count(*) FROM t", [(1,)]),
        ("SELECT count(*) FROM t WHERE i < 5", [(5,)]),
        ("SELECT count(*) FROM t, u", [(1980,)]),
        ("SELECT count(*) FROM t GROUP BY i LIMIT 1", [(1,)]),
        ("SELECT count(*) FROM t USING SAMPLE 0 ROWS", [(0,)]),
        ("SELECT count(*) FILTER (i < 3) FROM t", [(3,)]),
        ("SELECT count(*) + 1 FROM t", [(991,)]),
    ],
)
def test_other_counts_are_duckdbs(db: Database, query: str, rows: list[tuple[int]]) -> None:
    db.script("""
        CREATE TABLE t AS SELECT range AS i FROM range(1000);
        CREATE TABLE u AS SELECT unnest([1, 2]) AS i;
        DELETE FROM t WHERE i % 100 = 7;
    """)
    assert db.execute(query).fetchall() == rows


def test_refresh_after_a_delete_reads_no_row_of_the_edges(db: Database) -> None:
    db.script("""
        CREATE TABLE person AS SELECT range AS id FROM range(100);
        CREATE TABLE knows AS SELECT range % 100 AS a, range * 7 % 100 AS b, range AS t FROM range(1000);
        CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id)) EDGE TABLES (knows
          SOURCE KEY (a) REFERENCES person (id) DESTINATION KEY (b) REFERENCES person (id) EVENT TIME (t));
        CREATE SNAPSHOT s OF g;
    """)
    rows = max(Path(db.path).rglob("tables/**/*.parquet"), key=lambda path: path.stat().st_size)
    for condition in ("t % 50 = 7", "t % 49 = 3"):  # on the root, then on a patch of it
        db.execute(f"DELETE FROM knows WHERE {condition}")
        whole = rows.read_bytes()
        rows.write_bytes(b"\0" * len(whole))
        assert "removed" in db.execute("REFRESH SNAPSHOT s").message
        rows.write_bytes(whole)
        digests = [_edges(db)]
        db.execute("REFRESH SNAPSHOT s FULL")
        assert digests == [_edges(db)]


def _edges(db: Database) -> list[tuple[object, ...]]:
    """What a sampler sees of every edge."""
    sample = "SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (knows => [1000]) BATCH 100 REPEATABLE (1)"
    return sorted(db.execute(sample).fetchall())


def test_edges_are_found_by_their_ids_in_one_pass() -> None:
    rng = np.random.default_rng(3)
    ids = rng.permutation(5_000).astype(np.int32)
    for size in (0, 1, 63, 64, 65, 4_999):
        wanted = rng.choice(9_000, size, replace=False)
        assert find_ids(ids, wanted).tolist() == np.flatnonzero(np.isin(ids, wanted)).tolist()

"""Features stored as float16, bfloat16 and int8: the error of each value, refreshes, caches, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import snapdb
from snapdb.errors import BindError, DataError
from tests.support.inside.kernels import Scale, decode, encode, gather_decoded
from tests.support.thoroughness import some

ROWS, WIDTH = 600, 5
BASE = "list_transform(range(5), lambda i: CASE i WHEN 4 THEN 3 ELSE sin(id * (i + 1)) * pow(10, i) END)::FLOAT[5]"
KINDS = ("float16", "bfloat16", "int8")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[snapdb.Database]:
    with snapdb.connect(tmp_path / "db.snapdb") as db:
        db.script(f"""
            CREATE TABLE n AS SELECT range AS id FROM range({ROWS});
            ALTER TABLE n ADD COLUMN x FLOAT[5];
            UPDATE n SET x = {BASE};
            CREATE TABLE e AS SELECT range % {ROWS} AS a, (range * 7) % {ROWS} AS b FROM range(3000);
        """)
        yield db


def graph(db: snapdb.Database, item: str, name: str = "g") -> None:
    db.script(f"""
        CREATE PROPERTY GRAPH {name} VERTEX TABLES (n KEY (id) FEATURES ({item}))
          EDGE TABLES (e SOURCE KEY (a) REFERENCES n DESTINATION KEY (b) REFERENCES n);
        CREATE SNAPSHOT {name}_now OF {name};
    """)


def rows(db: snapdb.Database, name: str = "g") -> Any:
    """All delivered features, by key."""
    sample = f"SAMPLE FROM {name}_now SEEDS (SELECT id FROM n) AS n FANOUT (e => [0]) BATCH 100000"
    with db.stream(sample) as stream:
        (batch,) = stream
    order = np.argsort(np.array(batch.user_ids["n"].to_pylist()))
    values = batch.features["n"]["x"]
    assert values.dtype == torch.float32
    return values.numpy()[order]


def table(db: snapdb.Database) -> Any:
    return np.array([row[0] for row in db.execute("SELECT x FROM n ORDER BY id").fetchall()], np.float32)


def steps(values: Any) -> Any:
    """The error that each column of int8 may have."""
    spread = values.max(axis=0).astype(np.float64) - values.min(axis=0)
    return spread / 255 / 2 * (1 + 1e-3) + np.abs(values).max(axis=0) * 1e-6


def close(kind: str, found: Any, values: Any, ranges: Any = None) -> bool:
    if kind == "int8":
        return bool((np.abs(found - values) <= steps(values if ranges is None else ranges)).all())
    if kind == "float16":
        return bool((found == values.astype(np.float16).astype(np.float32)).all())
    return bool((found == torch.from_numpy(values).to(torch.bfloat16).to(torch.float32).numpy()).all())


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_delivered_as_float32_within_the_error_of_their_type(db: snapdb.Database, kind: str) -> None:
    graph(db, f"x AS x STORED {kind}")
    assert close(kind, rows(db), table(db))
    if kind == "int8":
        assert (rows(db)[:, 4] == 3).all()  # a constant column has no error


@pytest.mark.parametrize(("kind", "share"), [("float16", 0.5), ("bfloat16", 0.5), ("int8", 0.25)])
def test_files_are_smaller(db: snapdb.Database, tmp_path: Path, kind: str, share: float) -> None:
    graph(db, f"x AS x STORED {kind}")
    (file,) = tmp_path.rglob("feature-x.npy")
    assert file.stat().st_size - 4096 == ROWS * WIDTH * 4 * share
    assert list(tmp_path.rglob("values-*")) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_refresh_patches_rows_within_the_ranges(db: snapdb.Database, kind: str) -> None:
    graph(db, f"x AS x STORED {kind}")
    before = table(db)
    db.execute("UPDATE n SET x = list_transform(x, lambda v: v / 2)::FLOAT[5] WHERE id % 60 = 1")
    db.execute("UPDATE n SET x = list_value(x[1], x[2], x[3], x[4], 3)::FLOAT[5] WHERE id % 60 = 1")
    db.execute("INSERT INTO n SELECT 600 + range, [0.5, 0.25, 1, 2, 3]::FLOAT[5] FROM range(3)")
    outcome = str(db.execute("REFRESH SNAPSHOT g_now"))
    assert "patched" in outcome or "merged" in outcome
    assert close(kind, rows(db), table(db), before)


@pytest.mark.parametrize("many", [60, 3])
def test_a_row_outside_of_the_ranges_writes_the_file_anew(db: snapdb.Database, many: int) -> None:
    graph(db, "x AS x STORED int8")
    db.execute(f"UPDATE n SET x = list_transform(x, lambda v: v * 10)::FLOAT[5] WHERE id % {many} = 1")
    db.execute("REFRESH SNAPSHOT g_now")
    assert close("int8", rows(db), table(db))


def test_a_large_refresh_merges_codes(db: snapdb.Database) -> None:
    graph(db, "x AS x STORED int8")
    before = table(db)
    db.execute("UPDATE n SET x = list_value(x[1] / 2, x[2] / 2, x[3], x[4], 3)::FLOAT[5] WHERE id % 4 = 1")
    db.execute("REFRESH SNAPSHOT g_now")
    assert close("int8", rows(db), table(db), before)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_follow_the_default_before_they_are_encoded(db: snapdb.Database, kind: str) -> None:
    db.execute("UPDATE n SET x = list_value(NULL, x[2], x[3], x[4], 3)::FLOAT[5] WHERE id = 5")
    with pytest.raises(DataError, match="NULL"):
        graph(db, f"x AS x STORED {kind}")
    graph(db, f"x AS x STORED {kind} DEFAULT 40", "h")
    expected = np.array([row[0] for row in db.execute("SELECT x FROM n ORDER BY id").fetchall()], object)
    values = np.array([[40 if v is None else v for v in row] for row in expected], np.float32)
    assert close(kind, rows(db, "h"), values)


SPILLED = "IN MEMORY '7MB' SPILL '1MB'"
CACHED = [("int8", SPILLED), *((kind, "IN MEMORY '2500KB'") for kind in KINDS), *((k, SPILLED) for k in KINDS[:2])]


@pytest.mark.parametrize(("kind", "cache"), some(CACHED, 4))
def test_batches_are_the_same_with_a_cache_of_features(db: snapdb.Database, kind: str, cache: str) -> None:
    graph(db, f"x AS x STORED {kind}")
    db.execute("CREATE SAMPLER t AS SAMPLE FROM g_now SEEDS (FROM n SELECT id) AS n FANOUT (e => [3, 2]) BATCH 50")
    with db.stream("t") as stream:
        plain = [batch.features["n"]["x"] for batch in stream]
    db.execute(f"CREATE CACHE c ON SAMPLER t FEATURES {cache} WITH (when = 'always')")
    with db.stream("t", threads=1) as stream:
        assert all(torch.equal(batch.features["n"]["x"], one) for batch, one in zip(stream, plain, strict=True))
        assert stream.cache_stats("FEATURES") is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_history_is_encoded_too(db: snapdb.Database, kind: str) -> None:
    db.execute(
        "CREATE TABLE moods AS SELECT range % 500 AS id, range AS at, sin(range)::FLOAT AS mood FROM range(2000)"
    )
    graph(db, f"mood AS x STORED {kind} FROM moods KEY (id) EVENT TIME (at) DEFAULT 0.5")
    last = db.execute("SELECT arg_max(mood, at) FROM moods GROUP BY id ORDER BY id").fetchall()
    values = np.array([[row[0]] for row in last] + [[0.5]] * 100, np.float32)
    assert close(kind, rows(db), values)
    sample = "SAMPLE FROM g_now SEEDS (SELECT id, 1500 AS seed_time FROM n) AS n FANOUT (e => [2]) TEMPORAL < SEED_TIME"
    violations = [row[2] for row in db.execute(f"AUDIT {sample}").fetchall() if row[1] == "feature time"]
    assert violations
    assert not any(violations)


@pytest.mark.parametrize("kind", KINDS)
def test_exports_summaries_and_differences_read_values(db: snapdb.Database, tmp_path: Path, kind: str) -> None:
    graph(db, f"x AS x STORED {kind}")
    db.execute(f"COPY SNAPSHOT g_now TO '{tmp_path / 'out'}' (FORMAT npz)")
    found = [np.load(file, allow_pickle=False) for file in (tmp_path / "out").rglob("*.npz")]
    (values,) = (one[name] for one in found for name in one.files if one[name].shape == (ROWS, WIDTH))
    assert values.dtype == np.float32
    assert close(kind, values, table(db))
    assert f"stored {kind}" in str(db.execute("SUMMARIZE SNAPSHOT g_now").fetchall())
    assert f"stored {kind}" in str(db.execute("DESCRIBE PROPERTY GRAPH g").fetchall())
    plan = db.execute("EXPLAIN SAMPLE FROM g_now SEEDS (FROM n SELECT id) AS n FANOUT (e => [1])").fetchall()
    assert f"stored as {kind}" in str(plan)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("x AS x STORED int4", "unknown type"),
        ("x AS x TYPE int8 STORED int8", "STORED is not supported for TYPE int8"),
        ("x AS x SPARSE STORED int8", "STORED is not supported for sparse features"),
        ("x AS x STORED int8, id AS x", "different STORED types"),
    ],
)
def test_what_cannot_be_stored_so_is_refused(db: snapdb.Database, item: str, words: str) -> None:
    db.execute("ALTER TABLE n ADD COLUMN ix BIGINT[]")
    with pytest.raises(BindError, match=words):
        graph(db, item.replace("x AS x SPARSE", "ix AS x SPARSE"))


def test_float16_refuses_values_beyond_its_range(db: snapdb.Database) -> None:
    db.execute("UPDATE n SET x = [70000, 0, 0, 0, 0]::FLOAT[5] WHERE id = 9")
    with pytest.raises(DataError, match="float16"):
        graph(db, "x AS x STORED float16")
    graph(db, "x AS x STORED bfloat16", "h")


def test_int8_refuses_infinite_values(db: snapdb.Database) -> None:
    """They would make the range of a column infinite, and every other value of it meaningless."""
    db.execute("UPDATE n SET x = [1, 'inf'::FLOAT, 0, 0, 0]::FLOAT[5] WHERE id = 9")
    with pytest.raises(DataError, match="1 row of n has an infinite value in feature column"):
        graph(db, "x AS x STORED int8")
    graph(db, "x AS x STORED bfloat16", "h")


def test_codes_of_int8_are_within_half_a_step_for_a_million_rows() -> None:
    values = np.random.default_rng(7).standard_normal((200_000, 5)).astype(np.float32) * np.float32(
        [1, 1e-3, 1e6, 0, 5]
    )
    scale = Scale.of(values.min(axis=0), values.max(axis=0))
    found = decode(encode(values, "int8", scale), "int8", scale)
    assert (np.abs(found.astype(np.float64) - values) <= steps(values)).all()
    assert scale.covers(values)
    assert not scale.covers(values * 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_gather_that_decodes_gives_what_a_gather_and_a_decoding_give(kind: str) -> None:
    rng = np.random.default_rng(3)
    values = rng.standard_normal((1000, 67)).astype(np.float32)
    scale = Scale.of(values.min(axis=0), values.max(axis=0)) if kind == "int8" else None
    codes, ids = encode(values, kind, scale), rng.integers(0, 1000, 5000)
    assert np.array_equal(gather_decoded(codes, ids, kind, scale), decode(codes[ids], kind, scale))
    with pytest.raises(IndexError, match="row 1000 does not exist"):
        gather_decoded(codes, np.array([1000]), kind, scale)

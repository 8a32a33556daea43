"""Snapshots of tables that do not fit into memory: the same files, whatever the memory and the order of the rows."""

from __future__ import annotations

import errno
import os
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import snapdb
from snapdb.arrays import Int64s
from snapdb.storage.arrays.row_partitions import RowPartitions
from tests.support.inside.storage import map_array
from tests.support.refusals import refused

FILES = "snapdb.storage.arrays.feature_files"
ROWS = 500

TABLE = """
CREATE TABLE person AS SELECT {key} AS id, [i / 7, i % 11, -i] AS x, i * 0.5 AS age,
    CASE WHEN i % 5 = 0 THEN NULL ELSE [i, 2 * i] END AS pair, i % 3 AS y
  FROM range({rows}) t(i) ORDER BY {order};
"""
GRAPH = """
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id) {duplicates}
  FEATURES (x AS x, (age, pair) AS both DEFAULT -1, x AS small STORED int8, age AS half STORED bfloat16) TARGET (y));
"""
SHUFFLED = "hash(i)"


def _files(folder: Path, key: str, order: str, duplicates: str = "", rows: int = ROWS) -> dict[str, bytes]:
    """Return the feature files of a snapshot by name."""
    with snapdb.connect(folder) as db:
        db.script(TABLE.format(key=key, order=order, rows=rows))
        db.script(GRAPH.format(duplicates=duplicates))
        db.execute("CREATE SNAPSHOT s OF g")
        assert db.execute("CHECK DATABASE").fetchall() == []
    (directory,) = (folder / "features").glob("*/*")
    return {path.name: path.read_bytes() for path in directory.glob("*.npy")}


def _limit(monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    """Read rows in small batches, with this many bytes of memory."""
    monkeypatch.setattr(f"{FILES}.available_memory", lambda: memory)
    monkeypatch.setattr(f"{FILES}.ROWS_AT_ONCE", 50)
    monkeypatch.setattr("snapdb.storage.arrays.row_partitions._NEAR", 2)


@pytest.mark.parametrize(
    ("key", "duplicates"),
    [
        *product(["i", "i * 1000003", "'p' || i"], ["", "ON DUPLICATE KEY LAST"]),
        ("i % 300 + 0.5", "ON DUPLICATE KEY LAST"),  # without the clause, duplicate keys are an error
    ],
)
@pytest.mark.parametrize("order", ["i", SHUFFLED])
def test_the_files_do_not_depend_on_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, order: str, duplicates: str
) -> None:
    expected = _files(tmp_path / "ample", key, order, duplicates)
    added: list[int] = []
    _limit(monkeypatch, 4000)  # about 20 of the 500 rows
    add = RowPartitions.add

    def counted(self: RowPartitions, where: Int64s, batch: pa.RecordBatch) -> None:
        added.append(where.size)
        add(self, where, batch)

    monkeypatch.setattr(RowPartitions, "add", counted)
    assert _files(tmp_path / "scarce", key, order, duplicates) == expected
    if not key.startswith("'"):  # the order of texts is between the two
        assert bool(added) == (order == SHUFFLED), "only rows in random order are set aside"
    assert {"feature-x.npy", "feature-both.npy", "feature-small.npy", "feature-half.npy"} <= set(expected)


def test_the_features_are_those_of_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _limit(monkeypatch, 1)
    _files(tmp_path / "db", "i * 1000003", SHUFFLED, rows=100)
    (path,) = (tmp_path / "db" / "features").glob("*/*/feature-x.npy")
    i = np.arange(100)
    assert np.array_equal(map_array(path), np.stack([i / 7, i % 11, -i], axis=1).astype(np.float32))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    slots=st.integers(1, 60),
    partition=st.integers(0, 70),
    sizes=st.lists(st.integers(0, 20), max_size=8),
    seed=st.integers(0, 2**32 - 1),
)
def test_each_row_returns_once_in_the_partition_of_its_slot(
    tmp_path: Path, slots: int, partition: int, sizes: list[int], seed: int
) -> None:
    draws = np.random.default_rng(seed)
    expected: list[tuple[int, str]] = []
    with RowPartitions(tmp_path, slots, partition) as partitions:
        for size in sizes:
            where = draws.integers(0, slots, size)
            texts = [f"row {draws.integers(10**6)}" for _ in range(size)]
            partitions.add(where, pa.RecordBatch.from_pydict({"t": pa.array(texts, pa.string())}))
            expected += zip(where.tolist(), texts, strict=True)
        parts = [
            [pair for where, batch in part for pair in zip(where.tolist(), batch["t"].to_pylist(), strict=True)]
            for part in partitions.partitions()
        ]
    assert sorted(pair for part in parts for pair in part) == sorted(expected)
    bounds = [(min(part)[0], max(part)[0]) for part in parts]
    assert all(high - low < max(partition, 1) for low, high in bounds)
    assert all(one[1] < other[0] for one, other in pairwise(bounds))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["posix_fallocate", "pwrite"])
def test_a_full_disk_is_an_error_and_leaves_no_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with snapdb.connect(tmp_path / "db") as db:
        db.script(TABLE.format(key="i", order=SHUFFLED, rows=ROWS) + GRAPH.format(duplicates=""))
        if call == "posix_fallocate":
            monkeypatch.setattr("os.posix_fallocate", full)
        else:
            _limit(monkeypatch, 1)
            monkeypatch.setattr(RowPartitions, "_write", full)
        with refused("disk-full"):
            db.execute("CREATE SNAPSHOT s OF g")
        monkeypatch.undo()
        assert db.execute("SHOW SNAPSHOTS").fetchall() == []
        assert list((tmp_path / "db" / "features").glob("*/*")) == []
        db.execute("CREATE SNAPSHOT s OF g")


def test_duckdb_leaves_memory_for_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapdb.sql_engine.engine.usable_memory", lambda: 1 << 30)
    with snapdb.connect(tmp_path / "db") as db:
        ((limit,),) = db.execute("SELECT current_setting('memory_limit')").fetchall()
    assert limit == "358.3 MiB"

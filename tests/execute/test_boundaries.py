"""What cannot pass the boundary to Python, Arrow or the disk is an error of snapdb's, with the way round."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import snapdb
from snapdb import Database
from tests.support.inside.execute import JSON, spell, type_name
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE

GRAPH = """
CREATE TABLE person AS SELECT range AS id, [range, 1]::FLOAT[2] AS emb, range % 2 AS label FROM range(60);
CREATE TABLE knows AS SELECT range AS a, (range + 1) % 60 AS b, range * 10 AS at, 1.0 + range % 3 AS w FROM range(60);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id) FEATURES (emb AS x) TARGET (label AS y))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (at) WEIGHT (w));
CREATE SNAPSHOT s OF g;
"""
SAMPLE = "SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (knows => [2, 2]) WEIGHT BY w"
UNION = "union_value(num := 2)::UNION(num INTEGER, word VARCHAR)"
NOT_UTF8 = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{'a': ", "}")], ids=["list", "struct"])
def test_values_nested_deeper_than_arrow_carries_are_refused(opening: str, closing: str, db: Database) -> None:
    with refused("not-in-arrow", "VARCHAR") as error:
        db.execute(f"SELECT {opening * 70}1{closing * 70} AS deep")
    assert (error.value.code, error.value.span is not None) == ("not-in-arrow", True)
    kept = db.execute(f"SELECT ({opening * 70}1{closing * 70})::VARCHAR AS deep").fetchone()
    assert kept is not None
    assert kept[0].count("1") == 1
    assert db.execute(f"SELECT {opening * 62}1{closing * 62} AS deep").arrow().num_rows == 1


@pytest.mark.parametrize("at", [8, 10, 16, 32, 64, 80])
def test_a_spoiled_header_of_any_array_is_named(at: int, tmp_path: Path) -> None:
    """Sixty-four bytes of zeros: numpy reads a header as Python, whose own errors must not come through."""
    place = tmp_path / "spoiled.snapdb"
    with snapdb.connect(place) as db:
        db.script(GRAPH)
    arrays = sorted(place.rglob("*.npy"))
    assert {"indptr.npy", "indices.npy", "time.npy", "weight.npy", "target.npy"} <= {a.name for a in arrays}
    for array in arrays:
        whole = array.read_bytes()
        array.chmod(0o644)
        array.write_bytes(whole[:at] + bytes(64) + whole[at + 64 :])
        with snapdb.connect(place) as db, refused("damaged-file", array.name), db.stream(SAMPLE) as stream:
            next(iter(stream)).to_arrow()
        array.write_bytes(whole)


def test_a_database_whose_path_is_not_utf8_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / NOT_UTF8
    folder.mkdir()
    for path in (tmp_path / f"{NOT_UTF8}.snapdb", folder / "shop.snapdb"):
        with refused("database-path") as error:
            snapdb.connect(path)
        assert error.value.code == "database-path"
        assert not path.exists()
    with refused("database-path", "NUL"):
        snapdb.connect(f"{tmp_path}/a\0b")


def test_a_file_in_a_folder_that_is_not_utf8_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, db: Database
) -> None:
    folder = tmp_path / NOT_UTF8
    folder.mkdir()
    monkeypatch.chdir(folder)
    with refused("not-unicode", at="COPY (SELECT 1 AS a) TO 'a.csv'"):
        db.execute("COPY (SELECT 1 AS a) TO 'a.csv'")
    assert list(folder.iterdir()) == []


def data() -> Any:
    torch = pytest.importorskip("torch")
    return pytest.importorskip("torch_geometric.data").Data(edge_index=torch.zeros(2, 4, dtype=torch.long))


def hetero() -> Any:
    return pytest.importorskip("torch_geometric.data").HeteroData()


class Obstinate:
    """Has every attribute, none of which is what it seems."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: 1 / 0


@pytest.mark.parametrize("make", [data, hetero, lambda: {"a": data()}, Obstinate, lambda: [Obstinate()], object])
def test_what_is_no_table_is_not_registered(make: Callable[[], Any], db: Database) -> None:
    with refused("not-a-table") as error:
        db.register("pg", make())
    assert error.value.code == "not-a-table"


def test_graphs_of_pyg_are_registered_a_table_at_a_time(db: Database) -> None:
    graph = data()
    with refused("not-a-table", '"src"', "edge_index"):
        db.register("pg", graph)
    db.register("pg", {"src": graph.edge_index[0], "dst": graph.edge_index[1]})
    assert db.execute("SELECT count(*) FROM pg").fetchall() == [(4,)]


UNIONS = {
    "a value": (UNION, "2", 2),
    "a word": (UNION.replace("num := 2", "word := 'two'"), "two", "two"),
    "in a list": (f"[{UNION}, NULL]", "[2, null]", [2, None]),
    "in a struct": (f"{{'a': {UNION}}}", '{"a": 2}', {"a": 2}),
    "in a map": (f"MAP {{1: {UNION}}}", '{"1": 2}', {1: 2}),
    "of dates beyond Python's": (
        "union_value(at := TIMESTAMP 'infinity')::UNION(at TIMESTAMP, word VARCHAR)",
        "infinity",
        None,
    ),
}


@pytest.mark.parametrize("case", UNIONS)
def test_values_of_unions_are_carried_or_refused(case: str, db: Database) -> None:
    value, shown, python = UNIONS[case]
    query = f"SELECT {value} AS u UNION ALL SELECT NULL UNION ALL SELECT {value}"
    result = db.execute(query)
    assert spell(result.arrow()["u"]) == [shown, None, shown]
    assert spell(result.arrow()["u"].slice(1), JSON)[0] is None
    assert "union(" in type_name(result.schema.field("u").type)
    assert shown in repr(result)
    assert shown in result._repr_html_().replace("&quot;", '"')
    if python is not None:
        assert result.fetchall() == [(python,), (None,), (python,)]
    with refused("not-in-a-frame", "VARCHAR") as error:
        result.df()
    assert error.value.code == "not-in-a-frame"


def test_unions_of_arrow_are_spelled_from_where_a_slice_begins() -> None:
    codes, members = pa.array([0, 1, 0], pa.int8()), [pa.array([5, 0, 6]), pa.array(["x", "y", "z"])]
    sparse = pa.UnionArray.from_sparse(codes, members)
    dense = pa.UnionArray.from_dense(codes, pa.array([0, 0, 1], pa.int32()), members)
    assert (spell(sparse), spell(sparse[1:])) == (["5", "y", "6"], ["y", "6"])
    assert (spell(dense), spell(dense[1:])) == (["5", "x", "0"], ["x", "0"])


@pytest.mark.parametrize("value", ["DATE '0044-03-15 (BC)'", "DATE 'infinity'", "TIME '24:00:00'"])
def test_a_frame_names_the_column_that_it_cannot_hold(value: str, db: Database) -> None:
    with refused("not-in-a-frame") as error:
        db.execute(f"SELECT 1 AS i, {value} AS d").df()
    assert error.value.code == "not-in-a-frame"
    assert db.execute(f"SELECT 1 AS i, ({value})::VARCHAR AS d").df().shape == (1, 2)


def test_a_result_that_outlives_its_database_is_dropped_quietly(tmp_path: Path) -> None:
    work = """
import gc, sys, snapdb
for begin in (False, True):
    db = snapdb.connect()
    result = db.execute("SELECT * FROM range(1_000_000)")
    batches = iter(result)
    if begin:
        next(batches)
    db.close()
    del batches, result
    gc.collect()
"""
    done = subprocess.run(
        [sys.executable, "-c", work], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_result_is_read_or_closed_after_its_database(db: Database) -> None:
    other = snapdb.connect()
    read, closed = (other.execute("SELECT * FROM range(300_000)") for _ in range(2))
    other.close()
    assert len(read.fetchall()) == 300_000
    closed.close()
    gc.collect()

"""The formats of COPY SNAPSHOT … TO that other libraries read have the arrays of FORMAT npz, read here naively."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from safetensors.numpy import load_file

import snapdb
from snapdb import Database
from tests.support.export_shop import SHOP
from tests.support.inside.storage import read_folder
from tests.support.refusals import refused

Arrays = dict[str, npt.NDArray[Any]]
ELEMENTS = ("vertices/customer", "vertices/product", "edges/bought", "edges/knows")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with snapdb.connect(tmp_path_factory.mktemp("shop") / "db") as db:
        db.script(SHOP)
        yield db


@pytest.fixture
def shop(built: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The database of all tests, which none of them changes. The test runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    yield built
    assert [name for name in os.listdir() if name.startswith(".")] == []


def exported(db: Database, format_: str, more: str = "") -> dict[str, Arrays]:
    """Export the snapshot june as npz and in a format, and return the arrays of npz by element."""
    db.execute("COPY SNAPSHOT june TO 'npz' (FORMAT npz)")
    db.execute(f"COPY SNAPSHOT june TO 'out' (FORMAT {format_}{more})")
    whole = {}
    for element in ELEMENTS:
        with np.load(f"npz/{element}.npz", allow_pickle=False) as arrays:
            whole[element] = dict(arrays)
    folder = read_folder("out", "snapshot")
    assert folder.manifest["file_format"] == format_
    assert all(len(folder.checked(name)) == facts["bytes"] for name, facts in folder.files.items())
    there = {path.relative_to("out").as_posix() for path in Path("out").rglob("*") if path.is_file()}
    assert there == {"manifest.json", *folder.files}
    return whole


def bounds(destination: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """The first edge of each destination."""
    return np.concatenate([[0], np.cumsum(np.bincount(destination, minlength=count))])


def count_of(whole: dict[str, Arrays], edge: str) -> int:
    return len(whole["vertices/product" if edge == "edges/bought" else "vertices/customer"]["ids"])


def test_arrow_has_a_row_per_vertex_and_edge(shop: Database) -> None:
    whole = exported(shop, "arrow")
    for element, arrays in whole.items():
        table = pa.ipc.open_file(f"out/{element}.arrow").read_all()
        facts = json.loads((table.schema.metadata or {}).get(b"snapdb", b"{}"))
        for name, values in arrays.items():
            if name == "y_classes":
                assert facts[name] == values.tolist()
            elif name == "edge_index":
                assert table["source"].to_pylist() == values[0].tolist()
                assert table["destination"].to_pylist() == values[1].tolist()
            elif "." not in name:
                assert table[name].to_pylist() == values.tolist(), name
    product = pa.ipc.open_file("out/vertices/product.arrow").read_all()
    sparse, arrays = product["x"].to_pylist(), whole["vertices/product"]
    assert [i for row in sparse for i in row["indices"]] == arrays["x.indices"].tolist()
    assert [v for row in sparse for v in row["values"]] == arrays["x.values"].tolist()
    assert [len(row["values"]) for row in sparse] == np.diff(arrays["x.indptr"]).tolist()
    for edge in ("edges/bought", "edges/knows"):
        indptr = pa.ipc.open_file(f"out/{edge}.indptr.arrow").read_all()["indptr"].to_numpy()
        assert np.array_equal(indptr, bounds(whole[edge]["edge_index"][1], count_of(whole, edge)))


def test_safetensors_has_the_arrays_of_npz(shop: Database) -> None:
    whole = exported(shop, "safetensors")
    for element, arrays in whole.items():
        tensors = load_file(f"out/{element}.safetensors")
        assert tensors.keys() - {"indptr"} == arrays.keys()
        for name, values in arrays.items():
            found = tensors[name]
            if values.dtype.kind == "U":
                found = np.array(pa.ipc.open_stream(found.tobytes()).read_all()[name].to_pylist())
            assert np.array_equal(found, values), name
            assert values.dtype.kind == "U" or found.dtype == values.dtype
        if "edge_index" in arrays:
            expected = bounds(arrays["edge_index"][1], count_of(whole, element))
            assert np.array_equal(tensors["indptr"], expected)


@pytest.mark.parametrize("format_", ["arrow", "safetensors"])
def test_parts_of_any_size_give_the_same_values(shop: Database, monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    shop.execute(f"COPY SNAPSHOT june TO 'once' (FORMAT {format_})")
    monkeypatch.setattr("snapdb.execute.exports.arrays._PART", 40)
    monkeypatch.setattr("snapdb.execute.exports.arrow_files._ROWS", 7)
    shop.execute(f"COPY SNAPSHOT june TO 'again' (FORMAT {format_})")
    for element in ELEMENTS:
        one, two = (Path(folder, f"{element}.{format_}") for folder in ("once", "again"))
        if format_ == "arrow":
            assert pa.ipc.open_file(one).read_all().equals(pa.ipc.open_file(two).read_all())
        else:
            tensors = load_file(two)
            for name, values in load_file(one).items():
                texts = (name == "ids" and values.dtype == np.uint8) or name == "y_classes"
                found = [_texts(each) for each in (values, tensors[name])] if texts else (values, tensors[name])
                assert np.array_equal(*found), name


def _texts(content: npt.NDArray[Any]) -> list[str]:
    return [str(value) for value in pa.ipc.open_stream(content.tobytes()).read_all().column(0).to_pylist()]


def test_a_feature_that_takes_the_name_of_the_bounds_is_refused(db: Database, tmp_path: Path) -> None:
    db.script("""
        CREATE TABLE v AS SELECT 1 AS id; CREATE TABLE e AS SELECT 1 AS a, 1 AS b, 0.5::FLOAT AS w;
        CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id)) EDGE TABLES (e SOURCE KEY (a) REFERENCES v
          DESTINATION KEY (b) REFERENCES v FEATURES (w AS indptr));
        CREATE SNAPSHOT q OF g;""")
    with refused("duplicate-name", '"indptr"', recorded=False):
        db.execute(f"COPY SNAPSHOT q TO '{tmp_path / 'q'}' (FORMAT safetensors)")
    db.execute(f"COPY SNAPSHOT q TO '{tmp_path / 'q'}' (FORMAT npz)")

"""The formats of COPY SNAPSHOT … TO that other libraries read have the arrays of FORMAT npz, read here naively."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
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


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 7 vertices and 5 edges, and batches of 6 rows, so that every boundary is crossed."""
    for module in ("graphar", "graphar_chunks"):
        monkeypatch.setattr(f"snapdb.execute.exports.{module}.VERTEX_CHUNK", 7)
        monkeypatch.setattr(f"snapdb.execute.exports.{module}.EDGE_CHUNK", 5)
    monkeypatch.setattr("snapdb.execute.exports.graphar._ROWS", 6)


def number(path: Path) -> int:
    return int.from_bytes(path.read_bytes(), "little")


def chunked(folder: Path, rows: int, size: int) -> pa.Table:
    """The rows of consecutive chunks, of which all but the last are full."""
    tables = [pq.read_table(pa.BufferReader((folder / f"chunk{i}").read_bytes())) for i in range(-(-rows // size))]
    assert [table.num_rows for table in tables] == [min(size, rows - i * size) for i in range(len(tables))]
    return pa.concat_tables(tables)


@pytest.mark.usefixtures("small_chunks")
def test_graphar_has_the_vertices_of_the_snapshot_in_chunks(shop: Database) -> None:
    whole = exported(shop, "graphar")
    graph = yaml.safe_load(Path("out/shop.graph.yml").read_text())
    assert (graph["name"], graph["version"]) == ("shop", "gar/v1")
    for file, name, key in (("customer.vertex.yml", "customer", "cid"), ("product.vertex.yml", "product", "pid")):
        assert file in graph["vertices"]
        info = yaml.safe_load(Path("out", file).read_text())
        (group,) = info["property_groups"]
        root = Path("out", info["prefix"])
        count = number(root / "vertex_count")
        table = chunked(root / group["prefix"], count, info["chunk_size"])
        assert table["_graphArVertexIndex"].to_pylist() == [*range(count)]
        assert table[key].to_pylist() == whole[f"vertices/{name}"]["ids"].tolist()
        assert [p["name"] for p in group["properties"] if p["is_primary"]] == [key]
        rows = shop.execute(f"SELECT * FROM june.{name}").arrow().to_pylist()
        columns = [each["name"] for each in group["properties"]]
        assert columns == list(rows[0])
        by_key = {row[key]: row for row in rows}
        assert [by_key[row[key]] for row in table.select(columns).to_pylist()] == table.select(columns).to_pylist()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("edge", ["customer_bought_product", "customer_knows_customer"])
@pytest.mark.parametrize("side", ["src", "dst"])
def test_graphar_has_both_adjacency_lists(shop: Database, edge: str, side: str) -> None:
    whole = exported(shop, "graphar")
    info = yaml.safe_load(Path(f"out/{edge}.edge.yml").read_text())
    assert {"ordered": True, "aligned_by": side, "file_type": "parquet"} in info["adj_lists"]
    root = Path("out", info["prefix"], "ordered_by_source" if side == "src" else "ordered_by_dest")
    size, vertices = info[f"{side}_chunk_size"], number(root / "vertex_count")
    parts, degrees = [], list[int]()
    for part in range(-(-vertices // size)):
        count = number(root / f"edge_count{part}")
        offsets = pq.read_table(pa.BufferReader((root / f"offset/chunk{part}").read_bytes()))["_graphArOffset"]
        assert (offsets[0].as_py(), offsets[-1].as_py()) == (0, count)
        assert len(offsets) == min(size, vertices - part * size) + 1
        degrees += np.diff(offsets.to_numpy()).tolist()
        if count:
            ends = chunked(root / f"adj_list/part{part}", count, info["chunk_size"])
            values = chunked(root / f"properties/part{part}", count, info["chunk_size"])
            parts.append(ends.append_column("e_id", values["e_id"]).append_column("row", pa.array(values.to_pylist())))
    table = pa.concat_tables(parts)
    source, destination = (table[f"_graphAr{end}Index"].to_numpy() for end in ("Src", "Dst"))
    near = source if side == "src" else destination
    assert np.array_equal(near, np.repeat(np.arange(vertices), degrees))
    arrays = whole[f"edges/{info['edge_type']}"]
    expected = sorted(zip(arrays["e_id"].tolist(), *arrays["edge_index"].tolist(), strict=True))
    assert sorted(zip(table["e_id"].to_pylist(), source.tolist(), destination.tolist(), strict=True)) == expected
    rows = shop.execute(f"SELECT * FROM june.{info['edge_type']} ORDER BY e_id").arrow().to_pylist()
    assert sorted(table["row"].to_pylist(), key=lambda row: row["e_id"]) == rows


@pytest.mark.usefixtures("small_chunks")
def test_graphars_own_library_reads_the_export(shop: Database) -> None:
    graphar = pytest.importorskip("graphar", reason="graphar is not installed")
    whole = exported(shop, "graphar")
    graph = graphar.GraphInfo.load(str(Path("out/shop.graph.yml").resolve()))
    customers = graphar.VerticesCollection.Make(graph, "customer")
    assert [vertex.property("cid") for vertex in customers] == whole["vertices/customer"]["ids"].tolist()
    for edge, destination in (("bought", "product"), ("knows", "customer")):
        arrays = whole[f"edges/{edge}"]
        expected = sorted(zip(arrays["e_id"].tolist(), *arrays["edge_index"].tolist(), strict=True))
        kinds = importlib.import_module("graphar.types").AdjListType
        for kind in (kinds.ordered_by_source, kinds.ordered_by_dest):
            edges = graphar.EdgesCollection.Make(graph, "customer", edge, destination, kind)
            assert sorted((each.property("e_id"), each.source(), each.destination()) for each in edges) == expected


def test_graphar_has_types_for_every_column(db: Database, tmp_path: Path) -> None:
    db.script("""
        CREATE TABLE v AS SELECT 1 AS id, 7::UTINYINT AS small, 5::UINTEGER AS wide, 0.25::FLOAT AS f, true AS yes,
          DATE '2026-01-02' AS day, TIMESTAMP '2026-01-02 03:04:05.678901' AS at, 1.5::DECIMAL(9, 2) AS price,
          [1, 2]::INTEGER[] AS list, [0.5, 1]::DOUBLE[2] AS pair, {'a': 1} AS nested, NULL::VARCHAR AS nothing;
        CREATE PROPERTY GRAPH "a graph" VERTEX TABLES (v AS "no: type" KEY (id));
        CREATE SNAPSHOT q OF "a graph";""")
    db.execute(f"COPY SNAPSHOT q TO '{tmp_path / 'q'}' (FORMAT graphar)")
    (graph,) = (yaml.safe_load(path.read_text()) for path in (tmp_path / "q").glob("*.graph.yml"))
    info = yaml.safe_load((tmp_path / "q" / graph["vertices"][0]).read_text())
    assert info["type"] == "no: type"
    (group,) = info["property_groups"]
    assert {each["name"]: each["data_type"] for each in group["properties"]} == {
        "id": "int32",
        "small": "int32",
        "wide": "int64",
        "f": "float",
        "yes": "bool",
        "day": "date",
        "at": "timestamp",
        "price": "string",
        "list": "list<int32>",
        "pair": "list<double>",
        "nested": "string",
        "nothing": "string",
    }
    table = pq.read_table(pa.BufferReader((tmp_path / "q" / info["prefix"] / "properties" / "chunk0").read_bytes()))
    assert table.schema.field("at").type == pa.timestamp("ms")
    assert (table["price"][0].as_py(), table["nested"][0].as_py(), table["pair"][0].as_py()) == (
        "1.50",
        "{'a': 1}",
        [0.5, 1.0],
    )


def test_graphar_names_of_edge_types_that_would_be_the_same_are_refused(db: Database, tmp_path: Path) -> None:
    ends = "SOURCE KEY (a) REFERENCES {} DESTINATION KEY (b) REFERENCES {}"
    db.script(f"""
        CREATE TABLE t AS SELECT 1 AS id; CREATE TABLE e AS SELECT 1 AS a, 1 AS b;
        CREATE PROPERTY GRAPH g VERTEX TABLES (t AS x KEY (id), t AS x_y KEY (id)) EDGE TABLES (
          e AS y_z {ends.format("x", "x")}, e AS z {ends.format("x_y", "x")});
        CREATE SNAPSHOT q OF g;""")
    with refused("duplicate-name", "x_y_z_x", recorded=False):
        db.execute(f"COPY SNAPSHOT q TO '{tmp_path / 'q'}' (FORMAT graphar)")


def loaded(root: Path) -> tuple[dict[str, Any], dict[tuple[str, str, str], npt.NDArray[Any]], dict[str, Any]]:
    """Read metadata.yaml as GraphBolt does: the graph, the features by domain, type and name, and the sets by name."""
    metadata = yaml.safe_load((root / "metadata.yaml").read_text())

    def array(entry: Any) -> npt.NDArray[Any]:
        assert entry["format"] == "numpy"
        return np.load(root / entry["path"], allow_pickle=False)  # type: ignore[no-any-return]

    graph = {
        "nodes": {each.get("type"): each["num"] for each in metadata["graph"]["nodes"]},
        "edges": {each.get("type"): array(each) for each in metadata["graph"]["edges"]},
        "attributes": {each["name"]: array(each) for each in metadata["graph"].get("feature_data", ())},
    }
    features = {(each["domain"], each.get("type"), each["name"]): array(each) for each in metadata["feature_data"]}
    sets = {
        name: {part.get("type"): {each["name"]: array(each) for each in part["data"]} for part in task[name]}
        for task in metadata["tasks"]
        for name in task
        if name.endswith("_set")
    }
    return graph, features, {"sets": sets, "tasks": metadata["tasks"]}


def test_dgl_has_the_graph_features_and_sets_of_a_data_set(shop: Database) -> None:
    whole = exported(shop, "dgl")
    graph, features, task = loaded(Path("out"))
    assert graph["nodes"] == {"customer": 29, "product": 11}
    customer, bought = whole["vertices/customer"], whole["edges/bought"]
    for name, kind in (("edges/bought", "customer:bought:product"), ("edges/knows", "customer:knows:customer")):
        assert np.array_equal(graph["edges"][kind], whole[name]["edge_index"])
    assert graph["attributes"] == {}
    for name in ("x", "age", "y", "time"):
        assert np.array_equal(features["node", "customer", name], customer[name])
    for name in ("edge_attr", "edge_time", "e_id"):
        assert np.array_equal(features["edge", "customer:bought:product", name], bought[name])
    weights = features["edge", "customer:bought:product", "edge_weight"]
    assert weights.dtype == np.float32
    assert np.array_equal(weights, bought["edge_weight"].astype(np.float32))
    assert not any(name in ("ids", "train_mask") or name.startswith("x.") for _, _, name in features)
    assert task["tasks"][0]["name"] == "node_classification"
    assert task["tasks"][0]["num_classes"] == len(customer["y_classes"])
    for split, name in (("train", "train_set"), ("test", "test_set")):
        part = task["sets"][name]["customer"]
        seeds = np.flatnonzero(customer[f"{split}_mask"] & (customer["y"] != -1))
        assert np.array_equal(part["seeds"], seeds)
        assert np.array_equal(part["labels"], customer["y"][seeds])
    assert np.array_equal(np.load("out/nodes/product/x.indptr.npy"), whole["vertices/product"]["x.indptr"])


def test_dgl_has_no_types_for_a_graph_with_one_of_each(db: Database, tmp_path: Path) -> None:
    db.script("""
        CREATE TABLE v AS SELECT range AS id, range::FLOAT AS worth,
          ['train', 'valid', 'test'][1 + range % 3] AS split FROM range(9);
        CREATE TABLE e AS SELECT range * 5 % 9 AS a, range * 7 % 9 AS b, range AS t, range / 2 AS w FROM range(40);
        CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id) TARGET (worth)) EDGE TABLES (e SOURCE KEY (a) REFERENCES v
          DESTINATION KEY (b) REFERENCES v EVENT TIME (t) WEIGHT (w));
        CREATE SNAPSHOT q OF g;""")
    db.execute(f"COPY SNAPSHOT q TO '{tmp_path / 'q'}' (FORMAT dgl)")
    graph, features, task = loaded(tmp_path / "q")
    assert graph["nodes"] == {None: 9}
    destination = graph["edges"][None][1]
    assert destination.tolist() == sorted(destination.tolist())  # GraphBolt does not reorder the graph's attributes
    assert np.array_equal(graph["attributes"]["edge_time"], features["edge", None, "edge_time"])
    assert set(graph["attributes"]) == {"edge_time", "edge_weight"}
    assert task["tasks"][0]["name"] == "node_regression"
    assert task["sets"]["validation_set"][None]["labels"].tolist() == [1, 4, 7]


def test_dgl_names_with_a_colon_are_refused(db: Database, tmp_path: Path) -> None:
    db.script("""
        CREATE TABLE v AS SELECT 1 AS id;
        CREATE PROPERTY GRAPH g VERTEX TABLES (v AS "a:b" KEY (id));
        CREATE SNAPSHOT q OF g;""")
    with refused("bad-name", "a:b", recorded=False):
        db.execute(f"COPY SNAPSHOT q TO '{tmp_path / 'q'}' (FORMAT dgl)")


def test_a_feature_that_takes_the_name_of_the_bounds_is_refused(db: Database, tmp_path: Path) -> None:
    db.script("""
        CREATE TABLE v AS SELECT 1 AS id; CREATE TABLE e AS SELECT 1 AS a, 1 AS b, 0.5::FLOAT AS w;
        CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id)) EDGE TABLES (e SOURCE KEY (a) REFERENCES v
          DESTINATION KEY (b) REFERENCES v FEATURES (w AS indptr));
        CREATE SNAPSHOT q OF g;""")
    with refused("duplicate-name", '"indptr"', recorded=False):
        db.execute(f"COPY SNAPSHOT q TO '{tmp_path / 'q'}' (FORMAT safetensors)")
    db.execute(f"COPY SNAPSHOT q TO '{tmp_path / 'q'}' (FORMAT npz)")

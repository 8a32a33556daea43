"""COPY SNAPSHOT … TO gives back, in every format, what SELECT over the snapshot shows; and nothing, or all of it."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import torch
from click.testing import CliRunner, Result

import snapdb
from snapdb import Database
from snapdb_cli.main import main
from tests.support.export_shop import SHOP
from tests.support.inside.cli import _EXPORTS
from tests.support.inside.execute import _WRITERS
from tests.support.inside.loading import CONTAINERS
from tests.support.inside.plan import SnapshotFormat, _BatchFormat
from tests.support.inside.storage import read_folder
from tests.support.processes import PeerProcess
from tests.support.refusals import refused


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of all tests, which only copies of it change."""
    place = tmp_path_factory.mktemp("shop") / "db"
    with snapdb.connect(place) as db:
        db.script(SHOP)
    return place


@pytest.fixture
def stored(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it; the test runs in an empty folder."""
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    return Path(shutil.copytree(built, tmp_path / "db"))


@pytest.fixture
def shop(stored: Path) -> Iterator[Database]:
    with snapdb.connect(stored) as db:
        yield db
    assert [name for name in os.listdir() if name.startswith(".")] == []  # nothing half-written stays


def arrays(path: str) -> dict[str, Any]:
    """What a .npz file holds, without pickle."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def listed(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same rows, arrays as lists: Parquet and NumPy do not keep which of the two a column was."""
    return [tuple(list(value) if isinstance(value, tuple) else value for value in row) for row in rows]


def selected(db: Database, query: str) -> list[tuple[Any, ...]]:
    return listed(db.execute(query).fetchall())


def check_june(db: Database, customer: Any, product: Any, bought: Any, knows: Any) -> None:
    """Arrays hold what the snapshot's views show; each argument gives them by name."""
    ids, codes = customer["ids"].tolist(), [None, *customer["y_classes"].tolist()]
    shown = selected(db, "SELECT cid, emb, age, churn, born, split FROM june.customer ORDER BY cid")
    rows = zip(
        ids,
        customer["x"].tolist(),
        customer["age"].reshape(-1).tolist(),
        customer["y"].tolist(),
        customer["time"].tolist(),
        customer["train_mask"].tolist(),
        customer["test_mask"].tolist(),
        strict=True,
    )
    assert (
        sorted((i, x, a, codes[y + 1], t, "train" if tr else "test" if te else None) for i, x, a, y, t, tr, te in rows)
        == shown
    )
    pids = product["ids"].tolist()
    assert sorted(pids) == [pid for (pid,) in selected(db, "SELECT pid FROM june.product ORDER BY pid")]
    source, destination = bought["edge_index"].tolist()
    found = [
        (ids[s], pids[d], e, t, w, f)
        for s, d, e, t, w, f in zip(
            source,
            destination,
            bought["e_id"].tolist(),
            bought["edge_time"].tolist(),
            bought["edge_weight"].tolist(),
            bought["edge_attr"].tolist(),
            strict=True,
        )
    ]
    assert sorted(found) == selected(db, "SELECT cid, pid, e_id, ts, qty, basket FROM june.bought ORDER BY ALL")
    assert sorted(range(len(found)), key=lambda i: (destination[i], found[i][3], found[i][2])) == [*range(len(found))]
    source, destination = knows["edge_index"].tolist()
    friends = zip((ids[s] for s in source), (ids[d] for d in destination), knows["e_id"].tolist(), strict=True)
    assert sorted(friends) == selected(db, "SELECT a, b, e_id FROM june.knows ORDER BY ALL")


def test_parquet_holds_each_element_as_the_snapshot_shows_it(shop: Database) -> None:
    done = shop.execute("COPY SNAPSHOT june TO 'june'")
    rows = 0
    for path, element in (
        ("vertices/customer", "customer"),
        ("vertices/product", "product"),
        ("edges/bought", "bought"),
        ("edges/knows", "knows"),
    ):
        there = duckdb.sql(f"SELECT * FROM 'june/{path}.parquet'")
        shown = shop.execute(f"SELECT * FROM june.{element}")
        assert there.columns == shown.columns
        assert listed(there.fetchall()) == listed(shown.fetchall())
        rows += shown.rowcount
    assert done.rowcount == rows
    assert str(done.message).startswith("40 vertices and ")


def test_npz_holds_arrays_with_ids_from_zero(shop: Database) -> None:
    shop.execute("COPY SNAPSHOT june TO 'june' (FORMAT npz)")
    product = arrays("june/vertices/product.npz")
    check_june(
        shop,
        arrays("june/vertices/customer.npz"),
        product,
        arrays("june/edges/bought.npz"),
        arrays("june/edges/knows.npz"),
    )
    dense = np.zeros(product["x.shape"], np.float32)
    dense[np.repeat(np.arange(11), np.diff(product["x.indptr"])), product["x.indices"]] = product["x.values"]
    for pid, row in zip(product["ids"].tolist(), dense.tolist(), strict=True):
        ((idx, val),) = selected(shop, f"SELECT idx, val FROM june.product WHERE pid = '{pid}'")
        assert {i: v for i, v in enumerate(row) if v} == {i: v for i, v in zip(idx, val, strict=True) if v}


def test_pyg_data_has_the_names_that_pyg_knows(shop: Database) -> None:
    shop.execute("COPY SNAPSHOT june TO 'june' (FORMAT pyg)")
    data = torch.load("june/data.pt", weights_only=False)
    assert data.validate()
    bought, knows = (data[key] for key in data.edge_types)
    assert data.edge_types == [("customer", "bought", "product"), ("customer", "knows", "customer")]
    customer = data["customer"].to_dict() | {"ids": data.ids["customer"], "y_classes": data.y_classes["customer"]}
    check_june(
        shop,
        customer,
        {"ids": data.ids["product"]},
        bought.to_dict() | {"e_id": bought.edge_id},
        knows.to_dict() | {"e_id": knows.edge_id},
    )
    assert data["product"].x.is_coalesced()
    assert bought.edge_weight.dtype == torch.float32  # which layers multiply by
    assert (data["customer"].num_nodes, data["product"].num_nodes) == (29, 11)


def test_one_type_of_each_makes_plain_data(shop: Database) -> None:
    shop.execute("COPY SNAPSHOT friends TO 'friends' (FORMAT pyg)")
    data = torch.load("friends/data.pt", weights_only=False)
    assert type(data).__name__ == "Data"
    assert data.validate()
    assert (data.num_nodes, data.num_edges, data.ids["customer"].tolist()) == (30, 90, [*range(30)])


def test_pygs_own_loader_runs_on_what_was_exported(shop: Database, peer_process: PeerProcess) -> None:
    shop.execute("COPY SNAPSHOT june TO 'june' (FORMAT pyg)")
    script = """
import sys, torch
from torch_geometric.loader import NeighborLoader
data = torch.load("june/data.pt", weights_only=False)
loader = NeighborLoader(data, [-1, -1], input_nodes=("customer", data["customer"].train_mask), is_sorted=True)
key, seen = ("customer", "knows", "customer"), 0
for batch in loader:
    nodes, (source, destination) = batch["customer"].n_id, batch[key].edge_index
    assert torch.equal(batch["customer"].x, data["customer"].x[nodes])
    whole = {tuple(pair) for pair in data[key].edge_index.t().tolist()}
    assert {(nodes[s].item(), nodes[d].item()) for s, d in zip(source, destination)} <= whole
    assert torch.equal(batch[key].edge_id, data[key].edge_id[batch[key].e_id])
    seen += batch["customer"].batch_size
assert seen == int(data["customer"].train_mask.sum())
assert data.ids["customer"][nodes.numpy()][0] in data.ids["customer"]
"""
    peer_process("-c", script)


def test_the_same_snapshot_gives_the_same_bytes_in_parts_of_any_size(
    shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute("COPY SNAPSHOT june TO 'once' (FORMAT npz)")
    for size in (1, 40):
        monkeypatch.setattr("snapdb.execute.exports.arrays._PART", size)
        shop.execute("COPY SNAPSHOT june TO 'again' (FORMAT npz, OVERWRITE)")
        assert read_folder("again").files == read_folder("once").files


@pytest.mark.parametrize("form", ["full", "ends", "bitmap", "materialized"])
def test_no_form_of_a_snapshot_shows_in_its_export(shop: Database, form: str) -> None:
    window = "" if form == "full" else "FOR EVENT_TIME AS OF 120"
    elements = "ELEMENTS (customer, product, bought)"
    shop.execute(f"CREATE SNAPSHOT plain OF shop {window} {elements}")
    shop.execute(f"CREATE SNAPSHOT laid OF shop {window} {elements} WITH (layout = '{form}')")
    for name in ("plain", "laid"):
        shop.execute(f"COPY SNAPSHOT {name} TO '{name}' (FORMAT npz)")
    assert read_folder("plain").files == read_folder("laid").files


def test_a_patched_snapshot_is_exported_as_one_that_is_built_anew(shop: Database) -> None:
    shop.execute("CREATE SNAPSHOT head OF shop")
    shop.execute("INSERT INTO customer SELECT 50 + i, [i, 7], 9, 'c1', i, 'train' FROM range(2) r(i)")
    shop.execute("UPDATE product SET val = [7.5, 8.5]::FLOAT[] WHERE pid = 'p3'")
    shop.execute("INSERT INTO bought SELECT 50, 'p3', 300 + i, 1, [1, 2] FROM range(4) r(i)")
    shop.execute("DELETE FROM knows WHERE a = 1")
    for name, how in (("patched", ""), ("rebuilt", " FULL")):
        shop.execute(f"REFRESH SNAPSHOT head{how}")
        shop.execute(f"COPY SNAPSHOT head TO '{name}' (FORMAT npz)")
    assert read_folder("patched").files == read_folder("rebuilt").files
    assert 7.5 in arrays("patched/vertices/product.npz")["x.values"]


def test_features_that_change_are_those_of_the_windows_end(shop: Database) -> None:
    shop.execute("CREATE TABLE mood AS SELECT i % 30 AS cid, i AS ts, i AS level FROM range(90) r(i)")
    shop.execute(
        "CREATE PROPERTY GRAPH moody VERTEX TABLES (customer KEY (cid) EVENT TIME (born) "
        "FEATURES (level AS x FROM mood KEY (cid) EVENT TIME (ts) DEFAULT -1))"
    )
    shop.execute("CREATE SNAPSHOT then OF moody FOR EVENT_TIME AS OF 40")
    shop.execute("COPY SNAPSHOT then TO 'then' (FORMAT npz)")
    found = arrays("then/vertices/customer.npz")
    moods = dict(zip(found["ids"].tolist(), found["x"][:, 0].tolist(), strict=True))
    assert moods == {cid: cid + 30 if cid <= 10 else cid for cid in range(30)}


def test_keys_of_every_type_come_back(db: Database, tmp_path: Path) -> None:
    kinds = {
        "u": ("UUID", "'00000000-0000-0000-0000-00000000000' || i"),
        "d": ("DATE", "'2026-01-0' || i"),
        "t": ("TIMESTAMP", "'2026-01-0' || i || ' 10:00:00'"),
        "n": ("DECIMAL(9, 2)", "i || '.25'"),
        "b": ("BLOB", "'\\x00' || i || '\\x00'"),
        "s": ("VARCHAR", "repeat('ü', i)"),
        "w": ("UTINYINT", "'' || i"),
    }
    columns = ", ".join(f"({value})::{type_} AS {name}" for name, (type_, value) in kinds.items())
    db.execute(f"CREATE TABLE thing AS SELECT {columns} FROM range(1, 4) r(i)")
    vertices = ", ".join(f"thing AS {name} KEY ({name})" for name in kinds)
    db.execute(f"CREATE PROPERTY GRAPH g VERTEX TABLES ({vertices}, thing AS pair KEY (w, s))")
    db.execute("CREATE SNAPSHOT q OF g")
    db.execute(f"COPY SNAPSHOT q TO '{tmp_path / 'q'}' (FORMAT npz)")
    found = {name: arrays(str(tmp_path / "q" / "vertices" / f"{name}.npz"))["ids"] for name in kinds}
    assert {name: str(ids.dtype) for name, ids in found.items()} == {
        "u": "<U36",
        "d": "datetime64[D]",
        "t": "datetime64[us]",
        "n": "<U4",
        "b": "<U6",
        "s": "<U3",
        "w": "uint8",
    }
    assert [sorted(found[name].tolist())[0] for name in "unbsw"] == [
        "00000000-0000-0000-0000-000000000001",
        "1.25",
        "003100",
        "ü",
        1,
    ]
    pair = arrays(str(tmp_path / "q" / "vertices" / "pair.npz"))
    assert sorted(zip(pair["ids.w"].tolist(), pair["ids.s"].tolist(), strict=True))[2] == (3, "üüü")
    db.execute(f"COPY SNAPSHOT q TO '{tmp_path / 'pyg'}' (FORMAT pyg)")
    data = torch.load(tmp_path / "pyg" / "data.pt", weights_only=False)
    assert data.ids["pair"]["s"].tolist() == pair["ids.s"].tolist()


def test_a_snapshot_of_nothing_is_an_export_too(db: Database, tmp_path: Path) -> None:
    db.script("""
        CREATE TABLE v (id VARCHAR, x FLOAT, split VARCHAR); CREATE TABLE e (a VARCHAR, b VARCHAR, t INTEGER);
        CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id) FEATURES (x AS x))
          EDGE TABLES (e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (t));
        CREATE SNAPSHOT q OF g;""")
    for format_ in get_args(SnapshotFormat):
        done = db.execute(f"COPY SNAPSHOT q TO '{tmp_path / format_}' (FORMAT {format_})")
        assert str(done.message).startswith("0 vertices and 0 edges to ")
    assert arrays(str(tmp_path / "npz" / "edges" / "e.npz"))["edge_index"].shape == (2, 0)
    assert torch.load(tmp_path / "pyg" / "data.pt", weights_only=False).num_nodes == 0


def test_the_manifest_tells_what_is_where_and_where_it_comes_from(shop: Database) -> None:
    shop.execute("COPY SNAPSHOT june TO 'june' (FORMAT npz)")
    folder = read_folder("june", "snapshot")
    assert list(folder.files) == [f"edges/{e}.npz" for e in ("bought", "knows")] + [
        f"vertices/{v}.npz" for v in ("customer", "product")
    ]
    assert all(len(folder.checked(name)) == facts["bytes"] for name, facts in folder.files.items())
    customer = folder.manifest["schema"]["vertices"]["customer"]
    assert (customer["rows"], customer["key"], customer["split"]) == (29, ["cid"], "split")
    assert customer["fields"]["x"] == {"type": "float32", "shape": [29, 2]}
    bought = folder.manifest["schema"]["edges"]["bought"]
    assert (bought["source"], bought["destination"], bought["file"]) == ("customer", "product", "edges/bought.npz")
    lineage = folder.manifest["lineage"]
    assert (lineage["snapshot"], lineage["graph"], lineage["window"]) == ("june", "shop", [40, 200])
    assert (lineage["rng"], lineage["version"], lineage["snapdb"]) == ("snapdb-1", 4, snapdb.__version__)
    json.dumps(folder.manifest)


def test_an_older_snapshot_is_exported_as_it_was(shop: Database) -> None:
    shop.execute("COPY SNAPSHOT june TO 'before' (FORMAT npz)")
    shop.execute("DELETE FROM bought WHERE ts > 50")
    shop.execute("INSERT INTO customer (cid, emb, age, born) VALUES (99, [1, 2], 3, 4)")
    shop.execute("COPY SNAPSHOT june TO 'after' (FORMAT npz)")
    assert read_folder("before").files == read_folder("after").files


def test_a_split_of_another_column_is_said(shop: Database) -> None:
    shop.execute("COPY SNAPSHOT june TO 'june' (FORMAT npz, SPLIT CHURN)")
    found = arrays("june/vertices/customer.npz")
    assert {name for name in found if name.endswith("_mask")} == {"c0_mask", "c1_mask", "c2_mask"}
    assert np.array_equal(found["c1_mask"], found["y"] == 1)


def test_a_column_called_split_that_is_none_makes_no_masks(shop: Database) -> None:
    shop.execute("UPDATE customer SET split = 'in two words' WHERE cid = 5")
    shop.execute("CREATE SNAPSHOT july OF shop")
    shop.execute("COPY SNAPSHOT july TO 'july' (FORMAT npz)")
    assert not any(name.endswith("_mask") for name in arrays("july/vertices/customer.npz"))
    with refused("bad-split", "'in two words'"):
        shop.execute("COPY SNAPSHOT july TO 'other' (FORMAT npz, SPLIT split)")
    shop.execute("UPDATE customer SET split = 'fold_' || cid")
    shop.execute("CREATE OR REPLACE SNAPSHOT july OF shop WHERE customer.cid < 29")
    shop.execute("COPY SNAPSHOT july TO 'folds' (FORMAT npz, SPLIT split)")  # 29 of them are still splits
    shop.execute("INSERT INTO customer SELECT 100 + i, [1, 2], 3, 'c0', 1, 'other_' || i FROM range(9) r(i)")
    shop.execute("CREATE OR REPLACE SNAPSHOT july OF shop")
    with refused("bad-split"):
        shop.execute("COPY SNAPSHOT july TO 'other' (FORMAT npz, SPLIT split)")
    assert not Path("other").exists()


def test_a_feature_that_takes_the_name_of_an_array_is_refused(shop: Database) -> None:
    shop.execute("CREATE PROPERTY GRAPH g VERTEX TABLES (customer KEY (cid) FEATURES (emb AS time) EVENT TIME (born))")
    shop.execute("CREATE SNAPSHOT q OF g")
    with refused("duplicate-name", '"time"', at="'q'"):
        shop.execute("COPY SNAPSHOT q TO 'q' (FORMAT npz)")
    shop.execute("COPY SNAPSHOT q TO 'q' (FORMAT parquet)")
    ends = "SOURCE KEY (cid) REFERENCES customer DESTINATION KEY (pid) REFERENCES product"
    edges = f"EDGE TABLES (bought {ends} FEATURES (basket AS edge_id, qty AS ids))"
    shop.execute(f"CREATE PROPERTY GRAPH h VERTEX TABLES (customer KEY (cid), product KEY (pid)) {edges}")
    shop.execute("CREATE SNAPSHOT r OF h")
    with refused("duplicate-name", "FORMAT", '"edge_id"', at="'r'"):
        shop.execute("COPY SNAPSHOT r TO 'r' (FORMAT pyg)")
    shop.execute("COPY SNAPSHOT r TO 'r' (FORMAT npz)")
    assert arrays("r/edges/bought.npz")["ids"].shape == (200, 1)


def test_names_that_are_no_file_names_are_written_all_the_same(db: Database, tmp_path: Path) -> None:
    db.script("""
        CREATE TABLE v AS SELECT 1 AS id;
        CREATE PROPERTY GRAPH g VERTEX TABLES (v AS "../in/out" KEY (id));
        CREATE SNAPSHOT q OF g;""")
    db.execute(f"COPY SNAPSHOT q TO '{tmp_path / 'q'}' (FORMAT npz)")
    assert arrays(str(tmp_path / "q" / "vertices" / "%2E.%2Fin%2Fout.npz"))["ids"].tolist() == [1]


@pytest.mark.parametrize("format_", get_args(SnapshotFormat))
def test_a_full_disk_leaves_nothing(shop: Database, format_: str) -> None:
    shop.execute("CREATE TABLE wide AS SELECT i AS id, range(500)::FLOAT[500] AS x FROM range(200) r(i)")
    shop.execute("CREATE PROPERTY GRAPH w VERTEX TABLES (wide KEY (id) FEATURES (x AS x))")
    shop.execute("CREATE SNAPSHOT q OF w")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, before[1]))
    try:
        with refused("unwritable-file", at="'full'") as raised:
            shop.execute(f"COPY SNAPSHOT q TO 'full' (FORMAT {format_})")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raised.value.span is not None
    assert os.listdir() == []


@pytest.mark.parametrize("format_", get_args(SnapshotFormat))
def test_a_stopped_export_leaves_nothing(shop: Database, format_: str) -> None:
    def stop(what: str, share: float | None) -> None:
        if what.startswith("writing"):
            shop.interrupt()

    shop.progress = stop
    try:
        with pytest.raises(snapdb.QueryError) as raised:
            shop.execute(f"COPY SNAPSHOT june TO 'june' (FORMAT {format_})")
    finally:
        shop.progress = None
    assert raised.value.code == "interrupted"
    assert os.listdir() == []


def test_what_stands_there_is_replaced_only_when_it_is_an_export(shop: Database) -> None:
    shop.execute("COPY SNAPSHOT june TO 'out' (FORMAT npz)")
    with refused("folder-exists", at="'out'") as raised:
        shop.execute("COPY SNAPSHOT june TO 'out'")
    assert raised.value.code == "folder-exists"
    shop.execute("COPY SNAPSHOT june TO 'out' (OVERWRITE)")
    assert read_folder("out").manifest["file_format"] == "parquet"
    Path("mine").mkdir()
    Path("mine/thesis.tex").write_text("everything")
    with refused("folder-exists", at="'mine'"):
        shop.execute("COPY SNAPSHOT june TO 'mine' (OVERWRITE)")
    with refused("unwritable-file"):
        shop.execute(f"COPY SNAPSHOT june TO '{shop.path / 'tables' / 'june'}'")
    assert Path("mine/thesis.tex").read_text() == "everything"


@pytest.mark.parametrize("wrong", [-1, 3, 1000])
def test_an_edge_that_leads_nowhere_is_damage(shop: Database, wrong: int) -> None:
    made = "CREATE SNAPSHOT own OF shop WITH (layout = 'materialized') ELEMENTS (customer, knows)"
    shop.execute(f"{made} WHERE customer.cid <> 3")
    path = max(shop.path.glob("snapshots/*/rows-0-indices.npy"), key=lambda path: path.stat().st_mtime_ns)
    indices = np.load(path, mmap_mode="r+")
    indices[0] = wrong
    indices.flush()
    with refused("damaged-snapshot"):
        shop.execute("COPY SNAPSHOT own TO 'own' (FORMAT npz)")


def snapdb_export(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, words)])


def test_the_command_line_exports_snapshots_and_samplers(stored: Path) -> None:
    assert snapdb_export(stored, "JUNE", "--to", "june", "--format", "npz").exit_code == 0
    assert arrays("june/edges/knows.npz")["edge_index"].shape[0] == 2
    done = snapdb_export(stored, "june", "train", "--to", "both", "--epochs", "2", "--split", "churn")
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    assert read_folder("both/june", "snapshot").manifest["schema"]["vertices"]["customer"]["split"] == "churn"
    assert len(read_folder("both/train", "batches").files) == 4
    again = snapdb_export(stored, "june", "--to", "june")
    assert (again.exit_code, "not empty" in again.stderr) == (1, True)
    assert snapdb_export(stored, "june", "--to", "june", "--overwrite").exit_code == 0
    assert read_folder("june").manifest["file_format"] == "parquet"


def test_a_taken_folder_is_told_before_any_of_several_is_written(stored: Path) -> None:
    (own := Path("both/train")).mkdir(parents=True)
    (own / "notes.txt").write_text("mine")
    for more, said in (
        ([], "both/train already exists and is not empty"),
        (["--overwrite"], "was not exported by snapdb"),
    ):
        done = snapdb_export(stored, "june", "train", "--to", "both", *more)
        assert (done.exit_code, said in done.stderr) == (1, True), done.stderr
        assert [path.name for path in Path("both").iterdir()] == ["train"]


def test_several_exports_may_go_below_the_home_folder(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (db_dir := tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(db_dir))
    assert snapdb_export(stored, "june", "train", "--to", "~/both").exit_code == 0
    assert sorted(path.name for path in (db_dir / "both").iterdir()) == ["june", "train"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["junee", "--to", "o"], 1, 'sampler or snapshot "junee" does not exist; did you mean "june"?'),
        (["friends", "--to", "o"], 1, '"friends" is both a sampler and a snapshot; run one of these statements'),
        (["june", "--to", "o", "--epochs", "2"], 2, "--epochs is supported only for samplers"),
        (["train", "--to", "o", "--split", "fold"], 2, "--split is supported only for snapshots"),
        (["train", "june", "--to", "o", "--format", "pyg"], 1, "unknown format 'pyg' of COPY (SAMPLE …) TO"),
        (["june", "--to", "o", "--format", "csv"], 2, "Invalid value for '--format'"),
        (["june"], 2, "Missing option '--to'"),
        (["june", "--to", "no/o"], 1, "its parent folder does not exist"),
        (["june", "train", "--to", "no/o"], 1, "its parent folder does not exist"),
        (["june", "--to", "/"], 1, "/ already exists and is not empty"),
    ],
)
def test_the_command_line_says_what_cannot_be_exported(stored: Path, words: list[str], code: int, said: str) -> None:
    done = snapdb_export(stored, *words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert said in done.stderr
    assert not Path("o").exists()


class Capsule:
    """Rows of another library: only Arrow's C interface, or DLPack, tells them."""

    def __init__(self, held: Any, *says: str) -> None:
        self.held = held
        self.says = says

    def __getattr__(self, name: str) -> Any:
        if name in self.says:
            return getattr(self.held, name)
        raise AttributeError(name)


STREAM, ARRAY, DLPACK = ("__arrow_c_stream__",), ("__arrow_c_array__",), ("__dlpack__", "__dlpack_device__")


@pytest.mark.parametrize(
    "data",
    [
        Capsule(pa.table({"id": [1, 2], "b": ["x", None]}), *STREAM),
        Capsule(pa.RecordBatch.from_pydict({"id": [1, 2], "b": ["x", None]}), *ARRAY),
        {"id": Capsule(pa.chunked_array([[1], [2]]), *STREAM), "b": Capsule(pa.array(["x", None]), *ARRAY)},
        {"id": Capsule(torch.tensor([1, 2]), *DLPACK), "b": ["x", None]},
        {"id": Capsule(np.array([1, 2]), *DLPACK), "b": ["x", None]},
    ],
    ids=["stream", "array", "columns", "torch", "numpy"],
)
def test_anyones_data_can_be_registered(db: Database, data: Any) -> None:
    db.register("theirs", data)
    assert db.execute("SELECT id, b FROM theirs ORDER BY id").fetchall() == [(1, "x"), (2, None)]


@pytest.mark.parametrize(
    "seeds",
    [
        Capsule(pa.chunked_array([[5, 7]]), *STREAM),
        Capsule(pa.table({"cid": [5, 7]}), *STREAM),
        Capsule(np.array([5, 7], np.int32), *DLPACK),
        Capsule(torch.tensor([5, 7]), *DLPACK),
    ],
    ids=["array", "table", "numpy", "torch"],
)
def test_anyones_ids_can_be_seeds(shop: Database, seeds: Any) -> None:
    query = "SAMPLE FROM june SEEDS (SELECT cid FROM customer) AS customer FANOUT (DEFAULT => [2])"
    (batch,) = shop.stream(query, seeds=seeds, threads=0)
    assert sorted(batch.ids("customer").to_pylist()[:2]) == [5, 7]


def test_a_result_is_read_by_whoever_speaks_arrow(shop: Database) -> None:
    shop.register("sums", shop.execute("SELECT cid, sum(qty) AS spent FROM june.bought GROUP BY cid"))
    assert selected(shop, "SELECT sum(spent) FROM sums") == selected(shop, "SELECT sum(qty) FROM june.bought")


@pytest.mark.parametrize("data", [Capsule(np.array(3), *DLPACK), Capsule(np.array([1j]), *DLPACK)])
def test_what_is_no_table_is_said(db: Database, data: Any) -> None:
    with pytest.raises(snapdb.InputError) as raised:
        db.register("theirs", data)
    assert raised.value.code == "not-a-table"


def test_the_command_line_offers_every_format_that_can_be_written() -> None:
    assert set(_WRITERS) == set(get_args(SnapshotFormat))
    assert set(CONTAINERS) == set(get_args(_BatchFormat))
    assert set(_EXPORTS) == {*_WRITERS, *CONTAINERS}

"""`db.import_graph` of every form, and the way back."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.io
import torch
from click.testing import CliRunner
from scipy import sparse
from torch_geometric.data import Data, HeteroData, TemporalData

from snapdb import Database, pyg
from snapdb_cli.main import main
from tests.support import dgl_stand_in as dgl
from tests.support.refusals import refused


def equal(one: Any, two: Any) -> bool:
    """Whether two objects of PyG have the same tensors under the same names."""
    if hasattr(one, "node_types"):
        kinds = [*one.node_types, *one.edge_types]
        return kinds == [*two.node_types, *two.edge_types] and all(
            _alike(one[kind].to_dict(), two[kind].to_dict()) for kind in kinds
        )
    return _alike(one.to_dict(), two.to_dict())


def _alike(one: dict[str, Any], two: dict[str, Any]) -> bool:
    drop = {"num_nodes"}
    names = one.keys() - drop
    return names == two.keys() - drop and all(torch.equal(one[n], two[n]) for n in names)


def data() -> Data:
    draw = torch.Generator().manual_seed(0)
    return Data(
        x=torch.rand(12, 3, generator=draw),
        y=torch.arange(12) % 4,
        edge_index=torch.randint(0, 12, (2, 40), generator=draw),
        edge_attr=torch.rand(40, 2, generator=draw),
        edge_weight=torch.rand(40, generator=draw),
        edge_time=torch.arange(40),
        train_mask=torch.arange(12) < 5,
        val_mask=torch.arange(12) >= 9,
    )


def hetero() -> HeteroData:
    draw, made = torch.Generator().manual_seed(1), HeteroData()
    made["item"].x, made["user"].x = torch.rand(7, 2, generator=draw), torch.rand(5, 4, generator=draw)
    made["user"].y = torch.arange(5)
    made["user", "likes", "item"].edge_index = torch.randint(0, 5, (2, 20), generator=draw)
    made["user", "knows", "user"].edge_index = torch.randint(0, 5, (2, 9), generator=draw)
    made["user", "knows", "user"].edge_attr = torch.rand(9, 1, generator=draw)
    return made


@pytest.mark.parametrize("make", [data, hetero], ids=["Data", "HeteroData"])
def test_what_comes_from_pyg_goes_back_equal(db: Database, make: Any) -> None:
    made = db.import_graph("shop", make())
    assert made.notes == ()
    assert equal(pyg.to_data(db, "now"), make())


def test_events_go_back_in_the_order_of_time(db: Database) -> None:
    events = TemporalData(
        src=torch.tensor([0, 1, 0]), dst=torch.tensor([2, 3, 3]), t=torch.tensor([5, 7, 9]), msg=torch.rand(3, 2)
    )
    db.import_graph("events", events)
    back = pyg.to_data(db, "now", temporal=True)
    for name in ("src", "dst", "t", "msg"):
        assert torch.equal(back[name], events[name])


def test_what_is_not_stored_is_told(db: Database) -> None:
    made = db.import_graph(
        "g", Data(x=torch.rand(3, 2).double(), edge_index=torch.tensor([[0], [1]]), name="q", classes=torch.tensor(4))
    )
    assert sorted(made.notes) == [
        "classes of the whole graph is not stored",
        "name, a str, is not stored: it has no value per row",
        "node.x of type float64 is stored as 32-bit floats",
    ]
    assert str(made).startswith("graph g and snapshot now over 2 tables:\n  node: 3 rows\n  edge: 1 row\nnote: ")
    db.execute(made.statement.replace("GRAPH g", "GRAPH again"))


def test_a_graph_of_dgl_is_read_by_its_public_methods(db: Database) -> None:
    graph = dgl.graph((torch.tensor([0, 1]), torch.tensor([1, 2])))
    graph.ndata.update(feat=torch.rand(3, 2), label=torch.arange(3))
    graph.edata["weight"] = torch.tensor([0.5, 2.0])
    db.import_graph("g", graph)
    back = pyg.to_data(db, "now")
    assert torch.equal(back.x, graph.ndata["feat"])
    assert back.y.tolist() == [0, 1, 2]
    assert back.edge_weight.tolist() == [0.5, 2.0]


def test_a_graph_of_dgl_with_several_types(db: Database) -> None:
    ends = {
        ("user", "likes", "item"): (torch.tensor([0, 1]), torch.tensor([1, 2])),
        ("user", "knows", "user"): (torch.tensor([0]), torch.tensor([1])),
    }
    graph = dgl.heterograph(ends)
    graph.nodes["item"].data["feat"] = torch.rand(3, 2)
    graph.edges["likes"].data["w"] = torch.tensor([0.5, 2.0])
    db.import_graph("g", graph)
    back = pyg.to_data(db, "now")
    assert torch.equal(back["item"].x, graph.nodes["item"].data["feat"])
    assert back["user", "likes", "item"].edge_weight.tolist() == [0.5, 2.0]


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_networkx(db: Database, kind: Any) -> None:
    graph = kind()
    graph.add_node("a", age=3)
    graph.add_edge("a", "b", weight=2.0, label="x")
    graph.add_edge("b", "c")
    graph.add_edge("b", "a", weight=1.0)
    made = db.import_graph("g", graph)
    assert db.execute("SELECT id, age FROM now.node ORDER BY id").fetchall() == [("a", 3), ("b", None), ("c", None)]
    found = db.execute("SELECT source, destination, weight, label FROM now.edge ORDER BY e_id").fetchall()
    assert found == [(u, v, each.get("weight", 1), each.get("label")) for u, v, each in graph.edges(data=True)]
    assert len(made.notes) == 1 + (not graph.is_directed())


def test_nodes_of_several_types_have_texts_as_keys(db: Database) -> None:
    made = db.import_graph("g", nx.DiGraph([(1, "b"), ((2, 3), 1)]))
    assert "texts" in made.notes[0]
    assert db.execute("SELECT source, destination FROM now.edge").fetchall() == [("1", "b"), ("(2, 3)", "1")]


def test_igraph(db: Database) -> None:
    graph = igraph.Graph([(0, 1), (1, 2)], directed=True)
    graph.vs["name"], graph.vs["age"], graph.es["weight"] = ["a", "b", "c"], [1, 2, 3], [0.5, 1.5]
    db.import_graph("g", graph)
    assert db.execute("FROM now.node").fetchall() == [("a", 1), ("b", 2), ("c", 3)]
    rows = db.execute("SELECT source, destination, weight FROM now.edge").fetchall()
    assert rows == [("a", "b", 0.5), ("b", "c", 1.5)]


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
def test_sparse_matrices(db: Database, form: str) -> None:
    matrix = sparse.random(6, 6, 0.4, random_state=1)
    db.import_graph("g", matrix.asformat(form))
    rows = db.execute("SELECT source, destination, weight FROM now.edge").fetchall()
    back = sparse.coo_matrix(([w for *_, w in rows], ([a for a, *_ in rows], [b for _, b, _ in rows])), (6, 6))
    assert np.allclose(back.toarray(), matrix.toarray())


def test_a_matrix_that_is_not_square_has_two_types(db: Database) -> None:
    db.import_graph("g", sparse.csr_array(np.eye(3, 5)))
    counts = "SELECT (SELECT count(*) FROM now.row), (SELECT count(*) FROM now.column), (SELECT count(*) FROM now.edge)"
    assert db.execute(counts).fetchone() == (3, 5, 3)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, lambda rows: rows], ids=["pandas", "polars", "dict"])
def test_a_frame_of_edges(db: Database, library: Any) -> None:
    frame = library({"at": [1, 2, 3], "who": ["x", "y", "x"], "whom": ["y", "z", "x"], "w": [0.5, 1.0, 2.0]})
    db.import_graph("g", frame, source_column="who", destination_column="WHOM", time="at", weight="w")
    assert db.execute("FROM now.node").fetchall() == [("x",), ("y",), ("z",)]
    assert pyg.to_data(db, "now").edge_time.tolist() == [1, 2, 3]
    with refused("unknown-column", "wo"):
        db.import_graph("h", frame, source_column="wo")


def test_named_frames(db: Database) -> None:
    frames = {
        "customer": pd.DataFrame({"cid": [1, 2], "name": ["a", "b"]}),
        "product": pl.DataFrame({"id": ["p"]}),
        "bought": pd.DataFrame({"c": [1, 2], "p": ["p", "p"]}),
    }
    ends = {"bought": ("c", "customer", "p", "product")}
    made = db.import_graph("shop", frames, keys={"customer": "cid"}, edges=ends, prefix="my_", snapshot="june")
    assert made.tables == {"my_customer": 2, "my_product": 1, "my_bought": 2}
    assert db.execute("SELECT name FROM june.my_customer").fetchall() == [("a",), ("b",)]
    with refused("not-a-graph", "edges="):
        db.import_graph("other", frames)
    with refused("unknown-table", "costumer", "customer"):
        db.import_graph("other", frames, edges={"bought": ("c", "costumer", "p", "product")})


def test_a_failure_leaves_nothing(db: Database) -> None:
    frames = {"v": pd.DataFrame({"id": [1, 1]}), "e": pd.DataFrame({"a": [1], "b": [9]})}
    before = db.execute("SHOW TABLES").fetchall()
    with refused("duplicate-key"):
        db.import_graph("g", frames, edges={"e": ("a", "v", "b", "v")})
    assert (db.execute("SHOW TABLES").fetchall(), db.execute("SHOW GRAPHS").fetchall()) == (before, [])
    with refused("not-a-graph", "snapshots", "snapshot"):
        db.import_graph("g", frames, snapshots="x")  # type: ignore[call-arg]
    with refused("not-a-table", "int"):
        db.import_graph("g", 3)


EDGES = [(0, 1), (1, 2), (0, 2)]


def texts() -> dict[str, str]:
    """Edge lists by file name."""
    rows = "\n".join(f"{a}\t{b}" for a, b in EDGES)
    return {
        "edges.csv": "who,whom\n" + rows.replace("\t", ","),
        "edges.tsv": "who\twhom\n" + rows,
        "snap.txt": f"# Directed graph: snap.txt\n# Nodes: 3 Edges: 3\n# FromNodeId\tToNodeId\n{rows}\n",
        "out.konect": "% asym positive\n% 3 3 3\n" + "\n".join(f"{a} {b} 1 17" for a, b in EDGES),
    }


@pytest.mark.parametrize("name", texts())
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_edge_lists(db: Database, tmp_path: Path, name: str, packed: bool) -> None:
    path = tmp_path / (f"{name}.gz" if packed else name)
    content = texts()[name].encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    db.import_graph("g", str(path))
    assert pyg.to_data(db, "now").edge_index.tolist() == [[0, 1, 0], [1, 2, 2]]


def test_binary_edge_lists(db: Database, tmp_path: Path) -> None:
    ends = np.array(EDGES).T
    matrix = sparse.coo_matrix((np.ones(3), tuple(ends)), (3, 3))
    sparse.save_npz(tmp_path / "matrix.npz", matrix)
    scipy.io.mmwrite(tmp_path / "matrix.mtx", matrix)
    np.savez(tmp_path / "arrays.npz", edge_index=ends, x=np.eye(3, dtype=np.float32), y=np.arange(3))
    pd.DataFrame(EDGES, columns=["a", "b"]).to_parquet(tmp_path / "edges.parquet")
    for i, name in enumerate(["matrix.npz", "matrix.mtx", "arrays.npz", "edges.parquet"]):
        db.import_graph(f"g{i}", tmp_path / name, snapshot=f"s{i}", prefix=f"t{i}_")
        assert sorted(zip(*pyg.to_data(db, f"s{i}").edge_index.tolist(), strict=True)) == sorted(EDGES)
    assert pyg.to_data(db, "s2").y.tolist() == [0, 1, 2]
    np.savez(tmp_path / "bad.npz", edge_index=np.array([{}], dtype=object))
    with refused("unsafe-file", "bad.npz"):
        db.import_graph("g", tmp_path / "bad.npz")
    (tmp_path / "x.pkl").write_bytes(b"")
    with refused("not-a-graph", "x.pkl"):
        db.import_graph("g", tmp_path / "x.pkl")
    with refused("not-a-graph", "nothing.csv", recorded=False):
        db.import_graph("g", tmp_path / "nothing.csv")


def packed(path: Path, rows: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("\n".join(rows).encode()))


def test_a_folder_of_ogb(db: Database, tmp_path: Path) -> None:
    raw = tmp_path / "arxiv" / "raw"
    packed(raw / "edge.csv.gz", [f"{a},{b}" for a, b in EDGES])
    packed(raw / "num-node-list.csv.gz", ["3"])
    packed(raw / "num-edge-list.csv.gz", ["3"])
    packed(raw / "node-feat.csv.gz", ["0.5,1", "2,3", "4,5"])
    packed(raw / "node-label.csv.gz", ["0", "2", "1"])
    packed(raw / "node_year.csv.gz", ["2017", "2018", "2019"])
    for part, node in (("train", 0), ("valid", 1), ("test", 2)):
        packed(tmp_path / "arxiv" / "split" / "time" / f"{part}.csv.gz", [str(node)])
    db.import_graph("g", tmp_path / "arxiv")
    back = pyg.to_data(db, "now")
    assert back.x.tolist() == [[0.5, 1], [2, 3], [4, 5]]
    assert (back.y.tolist(), back.train_mask.tolist(), back.val_mask.tolist(), back.test_mask.tolist()) == (
        [0, 2, 1],
        [True, False, False],
        [False, True, False],
        [False, False, True],
    )
    assert db.execute("SELECT year FROM now.node ORDER BY id").fetchall() == [(2017,), (2018,), (2019,)]


def test_a_folder_of_ogb_with_several_types(db: Database, tmp_path: Path) -> None:
    raw = tmp_path / "mag" / "raw"
    packed(raw / "triplet-type-list.csv.gz", ["author,writes,paper", "paper,cites,paper"])
    packed(raw / "num-node-dict.csv.gz", ["author,paper", "2,3"])
    packed(raw / "relations" / "author___writes___paper" / "edge.csv.gz", ["0,2", "1,0"])
    packed(raw / "relations" / "paper___cites___paper" / "edge.csv.gz", [f"{a},{b}" for a, b in EDGES])
    packed(raw / "node-feat" / "paper" / "node-feat.csv.gz", ["1,2", "3,4", "5,6"])
    packed(raw / "node-label" / "paper" / "node-label.csv.gz", ["7", "8", "9"])
    packed(tmp_path / "mag" / "split" / "time" / "paper" / "train.csv.gz", ["0", "2"])
    db.import_graph("g", tmp_path / "mag")
    back = pyg.to_data(db, "now")
    assert back["author", "writes", "paper"].edge_index.tolist() == [[0, 1], [2, 0]]
    assert back["paper"].train_mask.tolist() == [True, False, True]
    assert (back["author"].num_nodes, back["paper"].y.numel()) == (2, 3)


def test_splits_of_links_in_pickles_are_named(db: Database, tmp_path: Path) -> None:
    raw = tmp_path / "collab" / "raw"
    packed(raw / "edge.csv.gz", [f"{a},{b}" for a, b in EDGES])
    packed(raw / "edge_year.csv.gz", ["1999", "2001", "2000"])
    packed(raw / "edge_weight.csv.gz", ["1", "3", "2"])
    packed(raw / "num-node-list.csv.gz", ["3"])
    for part in ("train", "valid", "test"):
        (tmp_path / "collab" / "split" / "time").mkdir(parents=True, exist_ok=True)
        (tmp_path / "collab" / "split" / "time" / f"{part}.pt").write_bytes(b"not read")
    made = db.import_graph("g", tmp_path / "collab")
    assert made.notes == (
        "split/time/test.pt, split/time/train.pt, split/time/valid.pt are not read, because loading a pickle can run "
        "code; docs/importing.md shows how to import splits of links from a file that you trust",
    )
    back = pyg.to_data(db, "now")
    assert back.edge_time.tolist() == [1999, 2001, 2000]
    assert back.edge_weight.tolist() == [1, 3, 2]


def tgb(folder: Path, name: str, head: str, *rows: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}_edgelist.csv").write_text("\n".join([head, *rows]))
    return folder


WIKI = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features"


def test_a_folder_of_tgb(db: Database, tmp_path: Path) -> None:
    """Items are numbered after users, and the last name of the header stands for all features."""
    folder = tgb(tmp_path / "w", "tgbl-wiki", WIKI, "0,0,3.0,0,0.5,0.25", "1,1,4.0,1,0.75,1")
    (folder / "tgbl-wiki_val_ns.pkl").write_bytes(b"not read")
    made = db.import_graph("g", folder)
    assert made.notes == (
        "item_id n is vertex 2 + n, as in the package of TGB",
        "tgbl-wiki_val_ns.pkl is not read, because loading a pickle can run code",
    )
    rows = db.execute("SELECT source, destination, edge_time, state_label FROM now.edge").fetchall()
    assert rows == [(0, 2, 3, 0), (1, 3, 4, 1)]
    back = pyg.to_data(db, "now")
    assert (back.num_nodes, back.edge_attr.tolist()) == (4, [[0.5, 0.25], [0.75, 1]])
    with refused("not-a-graph", "neither", recorded=False):
        db.import_graph("h", tmp_path)


def test_a_folder_of_tgb_without_features(db: Database, tmp_path: Path) -> None:
    db.import_graph("g", tgb(tmp_path / "u", "tgbl-uci", WIKI, "0,0,3,0", "1,1,4,0"))
    back = pyg.to_data(db, "now")
    assert ("edge_attr" in back, back.edge_index.tolist()) == (False, [[0, 1], [2, 3]])


def test_a_folder_of_tgb_with_keys_of_text_and_weights(db: Database, tmp_path: Path) -> None:
    a, b = "0x27cbb0e6885ccb1db2dab7c2314131c94795fbef", "0x8426a27add8dca73548f012d92c7f8f4bbd42a3e"
    db.import_graph("g", tgb(tmp_path / "c", "tgbl-coin", "time,src,dst,weight", f"7,{a},{b},800.0", f"8,{b},{a},2.5"))
    assert db.execute("FROM now.node").fetchall() == [(a,), (b,)]
    assert sorted(pyg.to_data(db, "now").edge_weight.tolist()) == [2.5, 800]


def test_a_folder_of_tgb_with_named_features_and_types_of_vertices(db: Database, tmp_path: Path) -> None:
    head = "ts,src,dst,relation_type,num_words,score"
    folder = tgb(tmp_path / "f", "thgl-forum", head, "5,0,1,2,10,-3", "6,1,2,0,20,4")
    (folder / "thgl-forum_nodetype.csv").write_text("node_id,type\n2,1\n0,0\n1,0\n")
    db.import_graph("g", folder)
    assert db.execute("SELECT id, type FROM now.node ORDER BY id").fetchall() == [(0, 0), (1, 0), (2, 1)]
    assert pyg.to_data(db, "now").edge_attr.tolist() == [[10, -3], [20, 4]]
    assert db.execute("SELECT relation_type FROM now.edge ORDER BY e_id").fetchall() == [(2,), (0,)]


def test_a_folder_of_tgb_with_days_and_texts(db: Database, tmp_path: Path) -> None:
    folder = tgb(tmp_path / "d", "tgbl-flight", "day,src,dst,callsign", "2019-01-01,AAA,BBB,X1", "2019-01-02,BBB,CCC,")
    (folder / "airport_node_feat.csv").write_text("airport_code,continent,latitude\nCCC,EU,1.5\nAAA,NA,-3\n")
    db.import_graph("g", folder)
    assert db.execute("FROM now.node ORDER BY id").fetchall() == [
        ("AAA", "NA", -3.0),
        ("BBB", None, None),
        ("CCC", "EU", 1.5),
    ]
    assert db.execute("SELECT callsign FROM now.edge ORDER BY edge_time").fetchall() == [("X1",), (None,)]


def test_arrays_of_tgn(db: Database, tmp_path: Path) -> None:
    (tmp_path / "ml_wiki.csv").write_text(",u,i,ts,label,idx\n0,1,3,0.0,0.0,1\n1,2,3,36.0,1.0,2\n")
    np.save(tmp_path / "ml_wiki.npy", np.array([[0, 0], [0.5, 1], [2, 3]]))
    np.save(tmp_path / "ml_wiki_node.npy", np.arange(12).reshape(4, 3))
    db.import_graph("g", tmp_path)
    back = pyg.to_data(db, "now", keys=True)
    assert back.key.tolist() == [1, 2, 3]
    assert (back.edge_index.tolist(), back.edge_time.tolist()) == ([[0, 1], [2, 2]], [0, 36])
    assert (back.edge_attr.tolist(), back.x.tolist()[0]) == ([[0.5, 1], [2, 3]], [3, 4, 5])
    np.save(tmp_path / "ml_wiki.npy", np.array([{}], dtype=object))
    with refused("unsafe-file", "ml_wiki.npy"):
        db.import_graph("h", tmp_path)


def test_the_command_line_imports_a_file(tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text(texts()["edges.csv"])
    base = ["import", str(tmp_path / "web.snapdb"), str(edges)]
    shown = CliRunner().invoke(main, [*base, "--graph", "web"])
    assert shown.exit_code == 0, shown.output
    assert "graph web and snapshot now over 2 tables" in shown.output
    wrong = CliRunner().invoke(main, [*base, "--time", "at"])
    assert (wrong.exit_code, "'at' does not exist" in wrong.output) == (1, True)

"""Layer-wise inference gives what the model gives on the whole graph, for every vertex, and leaves nothing behind."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

import snapdb
from snapdb.loading import Batch
from snapdb.train import GCN, GraphSAGE, predict
from tests.support.refusals import refused

NODES, EDGES, WIDTH = 200, 1_200, 4

GRAPH = """
CREATE TABLE node AS SELECT 'n' || lpad(id::VARCHAR, 3, '0') AS name, x::FLOAT[4] AS x, id % 5 > 0 AS young FROM nodes;
CREATE TABLE likes AS SELECT 'n' || lpad(a::VARCHAR, 3, '0') AS a, 'n' || lpad(b::VARCHAR, 3, '0') AS b FROM edges;
CREATE TABLE place AS SELECT range AS town, range % 3 AS street, [range, 1]::FLOAT[2] AS x FROM range(40);
CREATE TABLE visits AS SELECT DISTINCT a, hash(b) % 40 AS town, hash(b) % 40 % 3 AS street FROM likes;
CREATE PROPERTY GRAPH g
  VERTEX TABLES (node KEY (NAME) FEATURES (x))
  EDGE TABLES (likes SOURCE KEY (a) REFERENCES node DESTINATION KEY (b) REFERENCES node);
CREATE PROPERTY GRAPH h
  VERTEX TABLES (node KEY (name) FEATURES (x), place KEY (town, street) FEATURES (x))
  EDGE TABLES (likes SOURCE KEY (a) REFERENCES node DESTINATION KEY (b) REFERENCES node,
               visits SOURCE KEY (a) REFERENCES node DESTINATION KEY (town, street) REFERENCES place);
CREATE SNAPSHOT s OF g;
CREATE SNAPSHOT young OF g WHERE node.young;
CREATE SNAPSHOT t OF h;
"""


def arrays() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Features [nodes, width] and edges [2, E], some twice and some from a node to itself."""
    rng = np.random.default_rng(3)
    x, edges = rng.standard_normal((NODES, WIDTH), dtype=np.float32), rng.integers(0, NODES, (2, EDGES))
    edges[0, :9] = edges[1, :9]
    edges[:, 9:20] = edges[:, 20:31]
    return x, edges


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[snapdb.Database]:
    """`s` has one type of each, `young` a part of its vertices, `t` two vertex types; `node` is numbered by name."""
    x, edges = arrays()
    with snapdb.connect(tmp_path_factory.mktemp("infer") / "db") as db:
        db.register("nodes", {"id": np.arange(NODES), "x": x})
        db.register("edges", {"a": edges[0], "b": edges[1]})
        db.script(GRAPH)
        yield db


def whole(db: snapdb.Database, model: nn.Module, hops: int, snapshot: str = "s") -> Tensor:
    """What the model gives on the whole graph as one batch."""
    counts = ", ".join(["FULL"] * hops)
    sample = f"SAMPLE FROM {snapshot} SEEDS (SELECT name FROM node) AS node FANOUT (likes => [{counts}]) BATCH 9999"
    return predict(model, db.stream(sample, threads=0)).logits


def mean_of_neighbours(batch: Batch, x: Tensor) -> Tensor:
    """A layer without weights."""
    source, target = batch.only.edge_index
    total = x.new_zeros(batch.batch_size, x.shape[1]).index_add_(0, target, x[source])
    return total / torch.bincount(target, minlength=batch.batch_size).clamp(min=1)[:, None]


@pytest.mark.parametrize("snapshot", ["s", "young"])
@pytest.mark.parametrize(
    ("model", "hops"),
    [
        (GraphSAGE(WIDTH, 3, hidden=8, layers=3), 3),
        (GraphSAGE(WIDTH, 3, hidden=8, layers=1, residual=False, norm=False), 1),
        (GCN(WIDTH, 3, normalize="mean"), 2),
        (GCN(WIDTH, 3), 3),  # one hop more: the degrees of the outermost neighbours
    ],
    ids=["sage", "one layer", "mean", "symmetric"],
)
def test_a_model_of_ours_gives_what_it_gives_on_the_whole_graph(
    db: snapdb.Database, model: nn.Module, hops: int, snapshot: str
) -> None:
    found = db.infer(model, snapshot, batch=64)
    torch.testing.assert_close(found.states, whole(db, model, hops, snapshot), atol=1e-5, rtol=0)
    assert found.ids.to_pylist() == [name for (name,) in db.execute(f"SELECT name FROM {snapshot}.node").fetchall()]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("GraphSAGE", {}),
        ("GraphSAGE", {"jk": "last"}),
        ("GCN", {}),
        ("GCN", {"normalize": False}),
        ("GCN", {"num_layers": 1, "norm": None}),
        ("GAT", {"heads": 2}),
        ("GIN", {}),
        ("EdgeCNN", {}),
    ],
)
def test_a_model_of_pyg_gives_what_it_gives_on_the_whole_graph(
    db: snapdb.Database, kind: str, words: dict[str, Any]
) -> None:
    models = pytest.importorskip("torch_geometric.nn.models", reason="torch_geometric is not installed")
    x, edges = map(torch.from_numpy, arrays())
    torch.manual_seed(1)
    words = {"num_layers": 2, "dropout": 0.5, "norm": "batch_norm"} | words
    model = getattr(models, kind)(WIDTH, 8, out_channels=3, **words)
    model(x, edges)  # batch norm learns its numbers
    found = db.infer(model, "s", batch=64)
    assert model.training
    model.eval()
    torch.testing.assert_close(found.states, model(x, edges).detach(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["HeteroConv", "HGTConv"])
def test_a_graph_of_many_types_goes_through_layers_of_pyg(db: snapdb.Database, kind: str) -> None:
    pyg = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
    keys = [("node", "likes", "node"), ("place", "rev_visits", "node"), ("node", "visits", "place")]

    def conv_of(widths: dict[str, int]) -> Any:
        if kind == "HGTConv":
            return pyg.HGTConv(widths, 8, (list(widths), keys), heads=2)
        return pyg.HeteroConv({key: pyg.SAGEConv((widths[key[0]], widths[key[2]]), 8) for key in keys})

    torch.manual_seed(2)
    convs = [conv_of({"node": WIDTH, "place": 2}), conv_of({"node": 8, "place": 8})]
    layers = [lambda batch, x, conv=conv: conv(x, batch.edge_index) for conv in convs]
    expected, edges = hetero(db)
    for conv in convs:
        expected = conv(expected, edges)
    for node_type, states in expected.items():
        found = db.infer(
            None, "t", layers=layers, fanout="likes => [FULL], visits BOTH => [FULL]", node_type=node_type, batch=32
        )
        torch.testing.assert_close(found.states, states.detach(), atol=1e-5, rtol=0)


def hetero(db: snapdb.Database) -> tuple[dict[str, Tensor], dict[tuple[str, str, str], Tensor]]:
    """Snapshot t as PyG holds it: features by node type, edges by edge type."""
    opened = db.open_snapshot("t")
    try:
        view = opened.view
        x = {
            kind: torch.from_numpy(view.node_features[kind]["x"].read(np.arange(count)))
            for kind, count in view.node_counts.items()
        }
        place = {
            (row["town"], row["street"]): i for i, row in enumerate(view.keys["place"].read(np.arange(40)).to_pylist())
        }
    finally:
        opened.lease.release()
    likes = db.execute("SELECT right(a, 3)::INT, right(b, 3)::INT FROM t.likes").fetchall()
    visits = db.execute("SELECT right(a, 3)::INT, town, street FROM t.visits").fetchall()
    visited = torch.tensor([[a, place[town, street]] for a, town, street in visits]).T
    return x, {
        ("node", "likes", "node"): torch.tensor(likes).T,
        ("node", "visits", "place"): visited,
        ("place", "rev_visits", "node"): visited.flip(0),
    }


def test_a_type_that_no_relation_leads_to_has_no_states_after_a_layer_that_leaves_it_out(db: snapdb.Database) -> None:
    seen: list[set[str]] = []

    def layer(batch: Batch, x: dict[str, Tensor]) -> dict[str, Tensor]:
        seen.append(set(x))
        return {"place": x["place"]} if "place" in x else {}

    found = db.infer(None, "t", layers=[layer, layer], fanout="visits => [FULL]", node_type="place", batch=100)
    assert seen == [{"node", "place"}, {"node", "place"}, {"place"}]
    assert found.states.shape == (40, 2)
    with refused("layer-states"):
        db.infer(None, "t", layers=[layer], fanout="visits => [FULL]", node_type="node")


def test_layers_may_be_plain_functions(db: snapdb.Database) -> None:
    found = db.infer(None, "s", layers=[mean_of_neighbours] * 2, batch=33)
    x, edges = arrays()
    mix = np.zeros((NODES, NODES))
    np.add.at(mix, (edges[1], edges[0]), 1)
    mix /= np.maximum(mix.sum(axis=1, keepdims=True), 1)
    np.testing.assert_allclose(found.states.numpy(), mix @ (mix @ x), atol=1e-5)


def test_batches_and_threads_change_nothing(db: snapdb.Database) -> None:
    model = GraphSAGE(WIDTH, 3, hidden=8)
    first = db.infer(model, "s", batch=NODES, threads=0).states
    for batch, threads in ((1, 2), (7, 1), (64, 3)):
        torch.testing.assert_close(db.infer(model, "s", batch=batch, threads=threads).states, first, atol=1e-6, rtol=0)


def test_a_transform_changes_what_the_first_layer_reads(db: snapdb.Database) -> None:
    keep = [lambda batch, x: x, lambda batch, x: x]
    found = db.infer(None, "s", layers=keep, transform=lambda x: x / 2)
    assert found.states.equal(torch.from_numpy(arrays()[0] / 2))


def test_layers_see_other_features_and_edges_of_their_batch(db: snapdb.Database) -> None:
    seen = set()

    def layer(batch: Batch, x: Tensor) -> Tensor:
        seen.add((tuple(batch.features["node"]), batch.y is None, batch.seed_type))
        assert batch.only.x is x
        assert len(batch.only.e_id) == batch.only.edge_index.shape[1]
        return x[: batch.batch_size, :1]

    assert db.infer(None, "s", layers=[layer, layer]).states.shape == (NODES, 1)
    assert seen == {(("x",), True, "node")}


def test_the_table_has_the_users_ids_and_is_one_version(db: snapdb.Database) -> None:
    model = GraphSAGE(WIDTH, 3, hidden=8)
    before = db.execute("SHOW VERSIONS").arrow().num_rows
    found = db.infer(model, "s", into="embedded", batch=64)
    assert db.execute("SHOW VERSIONS").arrow().num_rows == before + 1
    assert [row[:2] for row in db.execute("DESCRIBE TABLE embedded").fetchall()] == [
        ("name", "VARCHAR"),
        ("embedding", "FLOAT[3]"),
    ]
    names, rows = zip(*db.execute("SELECT * FROM embedded ORDER BY name").fetchall(), strict=True)
    assert list(names) == sorted(found.ids.to_pylist())
    np.testing.assert_array_equal(np.array(rows, np.float32), found.states.numpy())
    assert found.arrow().equals(pa.table(found))
    near = "SELECT array_cosine_similarity(a.embedding, b.embedding) FROM embedded a JOIN embedded b USING (name)"
    assert min(row[0] for row in db.execute(near).fetchall()) == pytest.approx(1)
    db.execute("DROP TABLE embedded")


def test_keys_of_several_columns_keep_their_types_and_numbers_may_stand_alone(db: snapdb.Database) -> None:
    def busy(batch: Batch, x: Any) -> Tensor:
        return torch.bincount(batch.edge_index["node", "visits", "place"][1], minlength=batch.batch_size)

    db.infer(None, "t", layers=[busy], fanout="visits => [FULL]", node_type="place", into="busy", column="visitors")
    assert [row[:2] for row in db.execute("DESCRIBE TABLE busy").fetchall()] == [
        ("town", "BIGINT"),
        ("street", "BIGINT"),
        ("visitors", "BIGINT"),
    ]
    counted = "SELECT town, street, count(v.a) FROM t.place p LEFT JOIN t.visits v USING (town, street) GROUP BY ALL"
    assert db.execute(f"({counted}) EXCEPT SELECT * FROM busy").fetchall() == []
    db.execute("DROP TABLE busy")


def test_a_table_is_replaced_only_when_that_is_said(db: snapdb.Database) -> None:
    def layers(number: float) -> list[Any]:
        return [lambda batch, x: torch.full((batch.batch_size,), number)]

    db.infer(None, "s", layers=layers(1), into="one")
    with refused("exists"):
        db.infer(None, "s", layers=layers(2), into="ONE")
    db.infer(None, "s", layers=layers(3), into="one", replace=True)
    assert db.execute("SELECT DISTINCT embedding FROM one").fetchall() == [(3.0,)]
    db.execute("DROP TABLE one")


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ({"into": "node", "replace": True}, "exists", "g"),
        ({"into": "s", "replace": True}, "exists", '"s"'),
        ({"into": "file", "column": "name"}, "duplicate-name", "'name'"),
        ({"node_type": "nod"}, "unknown-vertex-type", '"node"'),
        ({"fanout": "lkes => [FULL]"}, "unknown-edge-type", '"likes"'),
    ],
)
def test_what_cannot_be_is_told_before_the_work(
    db: snapdb.Database, arguments: dict[str, Any], code: str, named: str
) -> None:
    def never(batch: Batch, x: Tensor) -> Tensor:
        raise AssertionError("no batch should have been made")

    with refused(code, named):
        db.infer(None, "s", layers=[never], **arguments)


def test_which_type_is_meant_must_be_said_where_there_are_several(db: snapdb.Database) -> None:
    with refused("several-types", "node_type", "'node'"):
        db.infer(GraphSAGE(WIDTH, 3), "t")


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"batch": 0}, ValueError),
        ({"batch": True}, ValueError),
        ({"into": 5}, TypeError),
        ({"column": None}, TypeError),
        ({"layers": []}, TypeError),
        ({"layers": [3]}, TypeError),
    ],
)
def test_arguments_of_another_kind_are_refused(db: snapdb.Database, arguments: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        db.infer(GraphSAGE(WIDTH, 3), "s", **arguments)


@pytest.mark.parametrize("counts", ["5", "0", "FULL, 3"])
def test_inference_draws_nothing_so_every_fanout_is_full(db: snapdb.Database, counts: str) -> None:
    with refused("out-of-range", "'likes => [FULL]'"):
        db.infer(GraphSAGE(WIDTH, 3), "s", fanout=f"likes => [{counts}]")


def test_an_error_in_a_layer_tells_the_layer_the_type_and_the_batch(db: snapdb.Database) -> None:
    def narrow(batch: Batch, x: Tensor) -> Tensor:
        return x @ torch.ones(WIDTH + batch.index[1], 1)

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
        db.infer(None, "s", layers=[mean_of_neighbours, narrow], batch=64)
    assert caught.value.__notes__ == ["The error occurred in layer 2 of 2 (node, batch 1)."]


def test_a_model_that_does_not_tell_its_layers_is_refused(db: snapdb.Database) -> None:
    with refused("not-layerwise"):
        db.infer(nn.Linear(WIDTH, 3), "s")
    models = pytest.importorskip("torch_geometric.nn.models", reason="torch_geometric is not installed")
    with refused("not-layerwise", "'cat'"):
        db.infer(models.GraphSAGE(WIDTH, 8, num_layers=2, jk="cat"), "s")
    with refused("not-layerwise", "add_self_loops"):
        db.infer(models.GCN(WIDTH, 8, num_layers=2, add_self_loops=False), "s")
    with refused("model-inputs"):
        db.infer(models.GraphSAGE(WIDTH, 8, num_layers=2), "t", node_type="node", fanout="DEFAULT => [FULL]")


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        (lambda batch, x: x[: batch.batch_size - 1], "63"),
        (lambda batch, x: x.numpy(), "ndarray"),
        (lambda batch, x: x[:, :, None], "1"),
        (lambda batch, x: x.bfloat16(), "bfloat16"),
        (lambda batch, x: x[:, : 1 + batch.index[1]], "(1,) float32"),
        (lambda batch, x: x if batch.index[1] else x.double(), "float64"),
        (lambda batch, x: {} if batch.index[1] else {"node": x}, "no states"),
        (lambda batch, x: {}, "node"),
    ],
)
def test_a_layer_that_gives_something_else_is_told_so(db: snapdb.Database, layer: Any, named: str) -> None:
    with refused("layer-states", named):
        db.infer(None, "s", layers=[layer], batch=64)


class Failing(nn.Module):
    """Two layers, the second of which fails at its last batch."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.norm = nn.Dropout(0.5), nn.BatchNorm1d(WIDTH)
        self.norm.eval()

    def layerwise(self) -> list[Any]:
        return [lambda batch, x: self.drop(self.norm(x)), self.fail]

    def fail(self, batch: Batch, x: Tensor) -> Tensor:
        if batch.index[1] == 3:
            raise KeyboardInterrupt
        assert not self.drop.training
        return x


def test_an_interrupt_leaves_no_table_no_file_and_the_model_as_it_was(tmp_path: Path) -> None:
    with toy(tmp_path) as db:
        model, before = Failing(), files(db.path)
        with pytest.raises(KeyboardInterrupt):
            db.infer(model, "s", into="embedded", batch=64)
        assert (model.training, model.drop.training, model.norm.training) == (True, True, False)
        assert files(db.path) == before
        assert "embedded" not in tables(db)
        db.execute("DROP SNAPSHOT s")
        assert [path for path in files(db.path) if path.startswith("snapshots/")] == []


def test_progress_tells_the_share_and_may_stop_it(tmp_path: Path) -> None:
    with toy(tmp_path) as db:
        told: list[tuple[str, float | None]] = []
        kept: list[set[str]] = []

        def progress(what: str, share: float | None) -> None:
            told.append((what, share))
            kept.append(files(db.path))

        db.progress = progress
        before = files(db.path)
        db.infer(None, "s", layers=[mean_of_neighbours] * 2, batch=50)
        shares = [share for what, share in told if what.startswith("inferring node, layer ")]
        assert shares == [i / 8 for i in range(8)]
        assert set().union(*kept) == before  # states lie in files without a name
        db.progress = lambda what, share: db.interrupt() if what.endswith("layer 2 of 2") else None
        with refused("interrupted"):
            db.infer(None, "s", layers=[mean_of_neighbours] * 2, batch=50, into="embedded")
        db.progress = None
        assert "embedded" not in tables(db)
        assert db.infer(None, "s", layers=[mean_of_neighbours]).states.shape == (NODES, WIDTH)


def test_a_disk_without_room_is_told_before_it_is_full(db: snapdb.Database) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with refused("disk-full", "200", "1,600,000"):
            db.infer(None, "s", layers=[lambda batch, x: torch.zeros(batch.batch_size, 2_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_database_opened_for_reading_infers_and_writes_no_table(tmp_path: Path) -> None:
    with toy(tmp_path):
        pass
    with snapdb.connect(tmp_path / "db", read_only=True) as db:
        before = files(db.path)
        assert db.infer(None, "s", layers=[mean_of_neighbours]).states.shape == (NODES, WIDTH)
        with refused("read-only", at='CREATE TABLE embedded AS SELECT 1 AS "embedding"'):
            db.infer(None, "s", layers=[mean_of_neighbours], into="embedded")
        assert files(db.path) == before


def test_a_transaction_takes_the_table_with_it(tmp_path: Path) -> None:
    with toy(tmp_path) as db:
        db.execute("BEGIN")
        db.infer(None, "s", layers=[mean_of_neighbours], into="embedded")
        assert db.execute("SELECT count(*) FROM embedded").fetchone() == (NODES,)
        db.execute("ROLLBACK")
        assert "embedded" not in tables(db)


def test_a_snapshot_that_is_dropped_meanwhile_is_read_to_its_end(tmp_path: Path) -> None:
    with toy(tmp_path) as db:
        other = snapdb.connect(db.path)

        def layer(batch: Batch, x: Tensor) -> Tensor:
            if batch.index[1] == 1:
                other.execute("DROP SNAPSHOT IF EXISTS s")
            return mean_of_neighbours(batch, x)

        expected = db.infer(None, "s", layers=[mean_of_neighbours] * 2, batch=50).states
        assert db.infer(None, "s", layers=[layer, layer], batch=50).states.equal(expected)
        other.close()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_what_the_cpu_gives(db: snapdb.Database) -> None:
    model = GraphSAGE(WIDTH, 3, hidden=8)
    expected = db.infer(model, "s", batch=64).states
    found = db.infer(model.to("cuda"), "s", batch=64).states
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@contextmanager
def toy(folder: Path) -> Iterator[snapdb.Database]:
    """A database with snapshot s alone."""
    x, edges = arrays()
    with snapdb.connect(folder / "db") as db:
        db.register("nodes", {"id": np.arange(NODES), "x": x})
        db.register("edges", {"a": edges[0], "b": edges[1]})
        db.script("""
            CREATE TABLE node AS SELECT id, x::FLOAT[4] AS x FROM nodes;
            CREATE TABLE likes AS FROM edges;
            CREATE PROPERTY GRAPH g VERTEX TABLES (node KEY (id) FEATURES (x))
              EDGE TABLES (likes SOURCE KEY (a) REFERENCES node DESTINATION KEY (b) REFERENCES node);
            CREATE SNAPSHOT s OF g""")
        yield db


def tables(db: snapdb.Database) -> list[str]:
    return [name for (name,) in db.execute("SELECT name FROM snapdb.tables").fetchall()]


def files(folder: Path) -> set[str]:
    """All files of a folder, by their paths in it."""
    return {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names}

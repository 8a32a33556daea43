"""PyG's other forms of data: induced subgraphs, stores, and whole snapshots as Data."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch_geometric.data import Data, EdgeAttr, FeatureStore, GraphStore, HeteroData, TensorAttr
from torch_geometric.data.graph_store import EdgeLayout

import snapdb
from snapdb import pyg
from snapdb.pyg import LinkNeighborLoader, NeighborLoader
from tests.support.refusals import refused


def random_data(seed: int = 0) -> Data:
    """A graph with parallel edges and self loops."""
    draw = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, 30, (2, 150), generator=draw)
    return Data(x=torch.rand(30, 2, generator=draw), edge_index=edges, train_mask=torch.arange(30) % 3 == 0)


def random_hetero() -> HeteroData:
    draw, data = torch.Generator().manual_seed(1), HeteroData()
    data["user"].x, data["item"].x = torch.rand(20, 2, generator=draw), torch.rand(15, 3, generator=draw)
    for name, destination, count in (("likes", "item", 15), ("knows", "user", 20)):
        ends = [torch.randint(0, high, (80,), generator=draw) for high in (20, count)]
        data["user", name, destination].edge_index = torch.stack(ends)
    return data


def within(edges: torch.Tensor, sources: torch.Tensor, destinations: torch.Tensor) -> list[int]:
    """The numbers of all edges between two sets of nodes."""
    there = torch.isin(edges[0], sources) & torch.isin(edges[1], destinations)
    return sorted(there.nonzero().flatten().tolist())


@pytest.mark.parametrize("words", [{"subgraph_type": "induced"}, {"directed": False}], ids=str)
@pytest.mark.parametrize("count", [[2], [2, 2]], ids=str)
def test_an_induced_batch_has_all_edges_between_its_nodes(words: dict[str, Any], count: list[int]) -> None:
    data = random_data()
    sampled = 0
    for batch in NeighborLoader(data, count, torch.arange(30), batch_size=7, **words):
        assert sorted(batch.e_id.tolist()) == within(data.edge_index, batch.n_id, batch.n_id)
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.x, data.x[batch.n_id])
        sampled += batch.e_id.numel()
    assert sampled > 0


def test_induced_batches_have_the_nodes_of_directional_ones_and_are_repeatable() -> None:
    data = random_data()
    options: dict[str, Any] = {"input_nodes": torch.arange(30), "batch_size": 5, "seed": 3}
    plain = NeighborLoader(data, [2, 2], **options)
    first, again = (NeighborLoader(data, [2, 2], subgraph_type="induced", **options) for _ in range(2))
    for one, two, three in zip(plain, first, again, strict=True):
        assert torch.equal(one.n_id, two.n_id)
        assert torch.equal(two.edge_index, three.edge_index)
        assert set(one.e_id.tolist()) <= set(two.e_id.tolist())


def test_induced_batches_of_several_types_and_of_links() -> None:
    data = random_hetero()
    for batch in NeighborLoader(data, [2, 2], ("item", torch.arange(15)), batch_size=4, subgraph_type="induced"):
        for key in data.edge_types:
            ends = batch[key[0]].n_id, batch[key[2]].n_id
            assert sorted(batch[key].e_id.tolist()) == within(data[key].edge_index, *ends)
    plain = random_data()
    links = LinkNeighborLoader(plain, [2], batch_size=20, neg_sampling="binary", subgraph_type="induced")
    for batch in links:
        assert sorted(batch.e_id.tolist()) == within(plain.edge_index, batch.n_id, batch.n_id)


def test_induced_batches_of_a_snapshot(db: snapdb.Database) -> None:
    db.script(GRAPH)
    with pyg.open(db, "s") as graph:
        whole = pyg.to_data(db, "s")["person", "knows", "person"].edge_index
        numbers = {dense: i for i, dense in enumerate(graph.there("person").tolist())}
        for batch in NeighborLoader(graph, [1], "person", batch_size=3, subgraph_type="induced"):
            nodes = torch.tensor([numbers[dense] for dense in batch["person"].n_id.tolist()])
            found = nodes[batch["person", "knows", "person"].edge_index]
            expected = whole[:, within(whole, nodes, nodes)]
            assert Counter(zip(*found.tolist(), strict=True)) == Counter(zip(*expected.tolist(), strict=True))


def test_trees_exclude_induced_batches() -> None:
    for words in ({"disjoint": True}, {"time_attr": "time"}):
        with refused("pyg-argument", "induced"):
            NeighborLoader(random_data(), [2], subgraph_type="induced", **words)  # type: ignore[arg-type]


def test_loaders_have_the_names_of_pyg() -> None:
    data = random_data()
    assert repr(NeighborLoader(data, [2])) == "NeighborLoader()"
    assert repr(LinkNeighborLoader(data, [2])) == "LinkNeighborLoader()"
    assert isinstance(pyg.loader(data, [2]), NeighborLoader)
    assert isinstance(pyg.link_loader(data, [2]), LinkNeighborLoader)


def test_stores_give_the_batches_of_their_data() -> None:
    for data, seeds in ((random_hetero(), ("user", torch.arange(20))), (random_hetero(), "item")):
        options: dict[str, Any] = {"input_nodes": seeds, "batch_size": 6, "seed": 9}
        own = list(NeighborLoader(data, [2, 2], **options))
        stored = list(NeighborLoader((data, data), [2, 2], **options))
        for one, two in zip(own, stored, strict=True):
            for kind in data.node_types:
                assert torch.equal(one[kind].n_id, two[kind].n_id)
                assert torch.equal(one[kind].x, two[kind].x)
            for key in data.edge_types:
                assert torch.equal(one[key].edge_index, two[key].edge_index)


def test_stores_with_times_of_nodes() -> None:
    timed = random_hetero()
    for kind in timed.node_types:
        timed[kind].time = torch.arange(timed[kind].num_nodes)
    words: dict[str, Any] = {"input_nodes": ("item", torch.arange(15)), "time_attr": "time", "batch_size": 5}
    for one, two in zip(NeighborLoader(timed, [3], **words), NeighborLoader((timed, timed), [3], **words), strict=True):
        assert torch.equal(one["user"].n_id, two["user"].n_id)


def test_a_tuple_of_anything_else_is_refused() -> None:
    data = random_hetero()
    with refused("pyg-argument", "feature store"):
        NeighborLoader((data, 3), [2], "user")  # type: ignore[arg-type]
    with refused("pyg-argument", "weight_attr"):
        NeighborLoader((data, data), [2], "user", weight_attr="w")


GRAPH = """
CREATE TABLE person AS SELECT i * 10 AS id, [i, i + 0.5]::FLOAT[2] AS x, i % 3 AS kind, i < 4 AS train_mask
  FROM range(8) r(i);
CREATE TABLE item AS SELECT 'i' || i AS code, i::DOUBLE AS price FROM range(5) r(i);
CREATE TABLE knows AS SELECT i % 8 * 10 AS a, i * 3 % 8 * 10 AS b, i AS at, [i]::FLOAT[1] AS w FROM range(20) r(i);
CREATE TABLE bought AS SELECT i % 8 * 10 AS a, 'i' || i % 5 AS b FROM range(11) r(i);
DELETE FROM knows WHERE a = 30 OR b = 30; DELETE FROM bought WHERE a = 30; DELETE FROM person WHERE id = 30;
CREATE PROPERTY GRAPH g
  VERTEX TABLES (person KEY (id) FEATURES (x) TARGET (kind), item KEY (code) FEATURES (price AS x))
  EDGE TABLES (
    knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (at)
      FEATURES (w AS edge_attr),
    bought SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES item);
CREATE SNAPSHOT s OF g;
"""


def test_a_whole_snapshot_is_a_hetero_data(db: snapdb.Database) -> None:
    db.script(GRAPH)
    data = pyg.to_data(db, "s", keys=True)
    assert isinstance(data, HeteroData)
    data.validate()
    ids = data["person"].key.tolist()
    assert sorted(ids) == [0, 10, 20, 40, 50, 60, 70]
    assert data["person"].x[:, 0].tolist() == [key / 10 for key in ids]
    assert data["person"].y.tolist() == [key // 10 % 3 for key in ids]
    assert data["person"].train_mask.tolist() == [key < 40 for key in ids]
    assert sorted(data["item"].key) == ["i0", "i1", "i2", "i3", "i4"]
    knows = data["person", "knows", "person"]
    rows = db.execute("SELECT a, b, at, w[1] FROM knows").fetchall()
    ends = knows.edge_index
    assert [
        (ids[a], ids[b], at, w)
        for a, b, at, w in zip(*ends.tolist(), knows.edge_time.tolist(), knows.edge_attr[:, 0].tolist(), strict=True)
    ] == rows


def test_a_whole_snapshot_of_one_type_is_a_data(db: snapdb.Database) -> None:
    db.script(GRAPH)
    db.script(
        "CREATE PROPERTY GRAPH one VERTEX TABLES (person KEY (id) FEATURES (x))"
        " EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (at));"
        "CREATE SNAPSHOT o OF one"
    )
    data = pyg.to_data(db, "o")
    assert isinstance(data, Data)
    assert (data.num_nodes, data.num_edges, "key" in data) == (7, db.execute("FROM knows").rowcount, False)
    events = pyg.to_data(db, "o", temporal=True)
    assert events.t.tolist() == sorted(data.edge_time.tolist())
    assert torch.equal(torch.stack([events.src, events.dst]), data.edge_index[:, data.edge_time.argsort(stable=True)])
    with refused("pyg-argument", "knows, bought"):
        pyg.to_data(db, "s", temporal=True)


class _Partial(FeatureStore):  # type: ignore[misc]
    """A feature store whose tensors are computed."""

    def __init__(self, kind: str | None, count: int) -> None:
        super().__init__()
        self.kind, self.count = kind, count

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        return [TensorAttr(self.kind, "x")]

    def _get_tensor(self, attr: TensorAttr) -> torch.Tensor:
        return torch.arange(float(self.count))[attr.index if attr.index is not None else slice(None)]

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...]:
        return (self.count,)

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise NotImplementedError

    _remove_tensor = _put_tensor


def test_a_feature_store_of_ones_own() -> None:
    data = HeteroData()
    data["user", "knows", "user"].edge_index = random_hetero()["user", "knows", "user"].edge_index
    data["user"].num_nodes = 20
    for batch in NeighborLoader((_Partial("user", 20), data), [2], ("user", torch.arange(20)), batch_size=8):
        assert batch["user"].x.tolist() == batch["user"].n_id.tolist()


class _Edges(GraphStore):  # type: ignore[misc]
    """A graph store with one edge type without a name, as sparse columns."""

    def __init__(self, data: Data) -> None:
        super().__init__()
        order = torch.argsort(data.edge_index[1], stable=True)
        counts = torch.bincount(data.edge_index[1], minlength=data.num_nodes)
        self.sources = data.edge_index[0, order]
        self.starts = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
        self.nodes = data.num_nodes

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        return [EdgeAttr(None, EdgeLayout.CSC, is_sorted=True, size=(self.nodes, self.nodes))]

    def _get_edge_index(self, attr: EdgeAttr) -> tuple[torch.Tensor, torch.Tensor]:
        return self.sources, self.starts

    def _put_edge_index(self, edge_index: Any, attr: EdgeAttr) -> bool:
        raise NotImplementedError

    _remove_edge_index = _put_edge_index


def test_stores_without_types() -> None:
    data = random_data()
    edges = _Edges(data)
    for batch in NeighborLoader((_Partial(None, 30), edges), [3], torch.arange(30), batch_size=10):
        assert batch.x.tolist() == batch.n_id.tolist()
        ends = batch.n_id[batch.edge_index]
        assert torch.equal(ends[0], edges.sources[batch.e_id])

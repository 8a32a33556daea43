"""snapdb.pyg: PyG's loaders run on a snapshot, and ours give from PyG's own data what NeighborLoader gives."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import snapdb
from tests.support.processes import PeerProcess
from tests.support.refusals import refused

pyg = pytest.importorskip("snapdb.pyg", reason="torch_geometric is not installed")
pyg_data = pytest.importorskip("torch_geometric.data")
pyg_loader = pytest.importorskip("torch_geometric.loader")
pyg_sampler = pytest.importorskip("torch_geometric.sampler")
pyg_nn = pytest.importorskip("torch_geometric.nn")
peer = pytest.importorskip("tests.support.pyg_peer")

BOUGHT, BACK = peer.BOUGHT, peer.BACK


# --- the fields of NeighborLoader --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_the_peer(peer_process: PeerProcess) -> dict[str, dict[str, list[str]]]:
    """What the batches of PyG's own loaders hold, from an environment where these run."""
    found: dict[str, dict[str, list[str]]] = json.loads(peer_process(peer.__file__))
    return found


def assert_same_fields(batch: Any, theirs: dict[str, list[str]]) -> None:
    """The same names in each store; torch-sparse counts no hops, where pyg-lib does."""
    counts = {"num_sampled_nodes", "num_sampled_edges"}
    found = peer.fields(batch)
    ours, peers = ({key: sorted(set(names) - counts) for key, names in each.items()} for each in (found, theirs))
    assert ours == peers
    assert all(counts & set(names) for names in found.values() if names)


@pytest.mark.parametrize("case", peer.NODES)
def test_a_batch_of_nodes_has_the_fields_of_neighbor_loader(
    case: str, of_the_peer: dict[str, dict[str, list[str]]]
) -> None:
    make, words = peer.NODES[case]
    assert_same_fields(next(iter(pyg.loader(make(), [3, 2], batch_size=8, **words))), of_the_peer[case])


@pytest.mark.parametrize("case", peer.LINKS)
def test_a_batch_of_edges_has_the_fields_of_link_neighbor_loader(
    case: str, of_the_peer: dict[str, dict[str, list[str]]]
) -> None:
    make, words = peer.LINKS[case]
    assert_same_fields(next(iter(pyg.link_loader(make(), [3, 2], batch_size=8, **words))), of_the_peer[case])


# --- PyG's own data ----------------------------------------------------------------------------------------------


def assert_of(data: Any, batch: Any, fanout: int) -> None:
    """A batch of one type is a true part of the data, and its first hop has what it should."""
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    for name in ("x", "y", "train_mask"):
        assert torch.equal(batch[name], data[name][batch.n_id])
    assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
    assert batch.name == "mine"
    degrees = torch.bincount(data.edge_index[1], minlength=data.num_nodes)[batch.n_id[: batch.batch_size]]
    drawn = torch.bincount(batch.edge_index[1, : batch.num_sampled_edges[0]], minlength=batch.batch_size)
    assert torch.equal(drawn, degrees.clamp(max=fanout))


def test_every_row_of_a_batch_is_that_of_its_node_or_edge() -> None:
    data = peer.homogeneous()
    loader = pyg.loader(data, [3, 2], input_nodes=data.train_mask, batch_size=8, shuffle=True)
    assert isinstance(loader, pyg_loader.NeighborLoader)
    batches = list(loader)
    assert len(batches) == len(loader) == 4
    for batch in batches:
        assert_of(data, batch, 3)
        assert torch.equal(batch.input_id, batch.n_id[: batch.batch_size])  # of a mask, as PyG gives it
    assert sorted(torch.cat([batch.input_id for batch in batches]).tolist()) == list(range(0, 60, 2))


def test_several_types_keep_their_rows_and_those_without_edges_are_empty() -> None:
    data = peer.heterogeneous()
    (batch,) = pyg.loader(data, {BOUGHT: [3, 0], BACK: [0, 2]}, input_nodes="product", batch_size=64)
    assert torch.equal(batch["product"].x, data["product"].x[batch["product"].n_id])
    assert torch.equal(batch[BOUGHT].edge_attr, data[BOUGHT].edge_attr[batch[BOUGHT].e_id])
    assert batch["shop"].num_nodes == 0
    for source, edge, destination in (BOUGHT, BACK):
        index, e_id = batch[source, edge, destination].edge_index, batch[source, edge, destination].e_id
        ends = torch.stack([batch[source].n_id[index[0]], batch[destination].n_id[index[1]]])
        assert torch.equal(ends, data[source, edge, destination].edge_index[:, e_id])
    assert (
        batch[BOUGHT].num_sampled_edges[1] == batch[BACK].num_sampled_edges[0] == 0 < batch[BACK].num_sampled_edges[1]
    )


def seen(loader: Any) -> list[list[int]]:
    return [[*batch.n_id.tolist(), *batch.e_id.tolist()] for batch in loader]


def test_the_seed_fixes_the_epochs_whatever_the_number_of_threads() -> None:
    data = peer.homogeneous()
    one, two = (pyg.loader(data, [3, 2], batch_size=16, shuffle=True, seed=7, num_workers=n) for n in (1, 3))
    first, second = seen(one), seen(one)
    assert first != second
    assert [seen(two), seen(two)] == [first, second]
    two.set_epoch(0)
    assert (
        next(iter(two)).n_id.tolist()
        == next(iter(pyg.loader(data, [3, 2], batch_size=16, shuffle=True, seed=7))).n_id.tolist()
    )
    assert seen(two) == second
    assert seen(pyg.loader(data, [3, 2], batch_size=16, shuffle=True, seed=8)) != first


def test_numbers_of_neighbours_are_said_as_pyg_says_them() -> None:
    data = peer.heterogeneous()
    said = ([2, 1], {BOUGHT: [2, 1], BACK: [2, 1]}, pyg_sampler.NumNeighbors({BOUGHT: [2, 1]}, default=[2, 1]))
    first, *others = (seen_by_type(pyg.loader(data, numbers, "customer", batch_size=40)) for numbers in said)
    assert others == [first, first]


def seen_by_type(loader: Any) -> list[Any]:
    return [[batch[key].e_id.tolist() for key in (BOUGHT, BACK)] for batch in loader]


def test_transforms_run_on_every_batch_and_an_epoch_may_be_left_early() -> None:
    def renamed(batch: Any) -> Any:
        batch.features = batch.x
        return batch

    def without_edges(out: Any) -> Any:
        out.edge = None
        return out

    data = peer.homogeneous()
    words: dict[str, Any] = {"transform": renamed, "transform_sampler_output": without_edges, "pin_memory": True}
    loader = pyg.loader(data, [2], batch_size=8, shuffle=True, **words)
    for batch in loader:
        assert torch.equal(batch.features, data.x[batch.n_id])
        assert "e_id" not in batch
        break
    assert next(iter(loader)).input_id.tolist() != batch.input_id.tolist()

    def broken(batch: Any) -> Any:
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError):
        list(pyg.loader(data, [2], transform=broken))


def test_columns_of_every_kind_arrive_as_plain_tensors_and_are_read_when_a_batch_is_made() -> None:
    data = peer.homogeneous()
    data.half, data.turned = torch.rand(60, 2, dtype=torch.bfloat16), torch.rand(3, 60).t()
    data.learned = torch.rand(60, 2, requires_grad=True)
    data.sparse = torch.eye(60).to_sparse_coo()
    loader = pyg.loader(data, [2], batch_size=16)
    loader.data.late = torch.arange(60)
    for batch in loader:
        for name in ("x", "half", "turned", "learned", "late", "train_mask"):
            assert type(batch[name]) is torch.Tensor
            assert torch.equal(batch[name], data[name][batch.n_id])
        assert torch.equal(batch.sparse.to_dense(), torch.eye(60)[batch.n_id])
    batch.learned.sum().backward()
    assert data.learned.grad is not None
    assert type(data.x) is torch.Tensor


def test_drop_last_and_a_sampler_of_torch_work_as_they_do_in_pyg() -> None:
    data = peer.homogeneous()
    assert [b.batch_size for b in pyg.loader(data, [2], batch_size=25)] == [25, 25, 10]
    assert [b.batch_size for b in pyg.loader(data, [2], batch_size=25, drop_last=True)] == [25, 25]
    nodes = torch.arange(60, dtype=torch.int32)
    backwards = pyg.loader(data, [2], nodes, batch_size=25, sampler=range(59, -1, -1))
    assert next(iter(backwards)).input_id.tolist() == list(range(59, 34, -1))


def test_a_tree_sees_nothing_after_its_seed_and_what_is_at_its_time() -> None:
    data, at = peer.homogeneous(), torch.full((60,), 100)
    (batch,) = pyg.loader(data, [-1], input_time=at, time_attr="time", batch_size=60)
    assert batch.time.max() == 100
    assert sorted(batch.e_id.tolist()) == torch.nonzero(data.time <= 100).view(-1).tolist()
    assert torch.equal(batch.seed_time, at)
    assert torch.equal(batch.batch[: batch.batch_size], torch.arange(60))
    (last,) = pyg.loader(data, [2], input_time=at, time_attr="time", temporal_strategy="last", batch_size=60)
    for seed in range(60):
        mine = torch.nonzero((data.edge_index[1] == seed) & (data.time <= 100)).view(-1)[-2:]
        assert sorted(last.e_id[last.edge_index[1] == seed].tolist()) == mine.tolist()


def test_times_of_nodes_bound_neighbours_and_are_those_of_seeds_that_have_no_other() -> None:
    data = peer.homogeneous()
    (batch,) = pyg.loader(data, [-1, -1], time_attr="born", batch_size=60)
    assert (batch.n_id <= batch.batch).all()  # node i is born at i, and seed i is node i
    assert "seed_time" not in batch
    inward = (data.edge_index[0] <= data.edge_index[1]).sum()
    assert batch.num_sampled_edges[0] == inward


def test_disjoint_trees_share_no_node() -> None:
    data = peer.homogeneous()
    (batch,) = pyg.loader(data, [-1], disjoint=True, batch_size=60)
    assert sorted(batch.e_id.tolist()) == list(range(500))
    assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])


def test_an_edge_of_weight_nothing_is_not_drawn() -> None:
    data = peer.homogeneous()
    for batch in pyg.loader(data, [2, 2], weight_attr="weight", batch_size=16):
        assert (batch.weight > 0).all()
    few = [batch.weight for batch in pyg.loader(data, [100], weight_attr="weight", batch_size=16)]
    assert all((weight > 0).all() for weight in few)
    data.weight[:] = 0
    (nothing,) = pyg.loader(data, [2], weight_attr="weight", batch_size=60)
    assert nothing.num_edges == 0
    assert nothing.num_sampled_nodes == [60, 0]
    data.weight[3] = -1
    with refused("bad-weight"):
        pyg.loader(data, [2], weight_attr="weight")
    with refused("pyg-data", "weight_attr", "'heavy'"):
        pyg.loader(data, [2], weight_attr="heavy")


ENDS, HEAVY = torch.tensor([[1, 3, 0, 4], [2, 2, 1, 3]]), torch.tensor([0.0, 1.0, 0.0, 1.0])
"""Of PyG's own tests of weighted loaders: node 1, and node 2 but for one, have edges of weight 0 alone."""


def test_weighted_homo_neighbor_loader_of_pyg_passes() -> None:
    data = pyg_data.Data(num_nodes=5, edge_index=ENDS, edge_weight=HEAVY)
    words: dict[str, Any] = {"batch_size": 1, "weight_attr": "edge_weight"}
    loader = pyg.loader(data, [1] * 2, input_nodes=torch.tensor([2]), **words)
    assert len(loader) == 1
    batch = next(iter(loader))
    assert batch.num_nodes == 3
    assert batch.n_id.tolist() == [2, 3, 4]
    assert batch.num_edges == 2
    assert batch.n_id[batch.edge_index].tolist() == [[3, 4], [2, 3]]
    more = next(iter(pyg.loader(data, [5] * 2, input_nodes=torch.tensor([2]), **words)))
    assert more.n_id[more.edge_index].tolist() == [[3, 4], [2, 3]]


def test_weighted_hetero_neighbor_loader_of_pyg_passes() -> None:
    data = pyg_data.HeteroData()
    data["paper"].num_nodes = 5
    data["paper", "to", "paper"].edge_index = ENDS
    data["paper", "to", "paper"].edge_weight = HEAVY
    seeds = ("paper", torch.tensor([2]))
    loader = pyg.loader(data, [1] * 2, input_nodes=seeds, batch_size=1, weight_attr="edge_weight")
    assert len(loader) == 1
    batch = next(iter(loader))
    assert batch["paper"].num_nodes == 3
    assert batch["paper"].n_id.tolist() == [2, 3, 4]
    assert batch["paper", "paper"].num_edges == 2
    assert batch["paper"].n_id[batch["paper", "paper"].edge_index].tolist() == [[3, 4], [2, 3]]


def test_ways_back_are_added_where_they_are_asked() -> None:
    (batch,) = pyg.loader(peer.homogeneous(), [2], subgraph_type="bidirectional", batch_size=60)
    pairs = set(map(tuple, batch.edge_index.t().tolist()))
    assert pairs == {(b, a) for a, b in pairs}


def test_negatives_are_pygs_and_fixed_by_the_seed() -> None:
    data = peer.homogeneous()
    words: dict[str, Any] = {"batch_size": 100, "neg_sampling": pyg_sampler.NegativeSampling("binary", 1.5)}
    first = list(pyg.link_loader(data, [2], num_workers=1, **words))
    again = list(pyg.link_loader(data, [2], num_workers=3, **words))
    for one, other in zip(first, again, strict=True):
        assert one.edge_label.tolist() == [1.0] * 100 + [0.0] * 150
        assert torch.equal(one.n_id[one.edge_label_index], other.n_id[other.edge_label_index])
    ends = torch.cat([batch.n_id[batch.edge_label_index[:, :100]] for batch in first], dim=1)
    assert torch.equal(ends, data.edge_index)
    assert len({tuple(batch.n_id[batch.edge_label_index[0, 100:]].tolist()) for batch in first}) == 5
    heavy = torch.zeros(60)
    heavy[7] = 1
    (triple,) = pyg.link_loader(
        data, [2], neg_sampling=pyg_sampler.NegativeSampling("triplet", 2, dst_weight=heavy), batch_size=500
    )
    assert triple.dst_neg_index.shape == (500, 2)
    assert set(triple.n_id[triple.dst_neg_index].view(-1).tolist()) == {7}


def test_the_ends_of_an_edge_and_their_negatives_see_nothing_after_it() -> None:
    data = peer.heterogeneous()
    words: dict[str, Any] = {"time_attr": "time", "edge_label_time": data[BOUGHT].time, "neg_sampling": "triplet"}
    (batch,) = pyg.link_loader(data, [4, 4], BOUGHT, batch_size=300, **words)
    when = data[BOUGHT].time[batch["product"].batch[batch[BOUGHT].edge_index[1]]]
    assert (batch[BOUGHT].time <= when).all()
    assert torch.equal(batch["customer"].seed_time, data[BOUGHT].time)
    assert batch["product"].dst_neg_index.shape == (300,)


def test_layerwise_inference_of_pyg_runs_on_the_loader() -> None:
    data = peer.homogeneous()
    torch.manual_seed(0)
    model = pyg_nn.GraphSAGE(4, 8, num_layers=2, out_channels=3).eval()
    loader = pyg.loader(data, [-1], batch_size=16)
    with torch.no_grad():
        assert torch.allclose(model.inference(loader), model(data.x, data.edge_index), atol=1e-5)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({"subgraph_type": "induced", "disjoint": True}, "pyg-argument"),
        ({"temporal_strategy": "first"}, "pyg-argument"),
        ({"time_attr": "time", "temporal_strategy": "last", "replace": True}, "pyg-argument"),
        ({"neighbor_sampler": object()}, "pyg-argument"),
        ({"generator": torch.Generator()}, "pyg-argument"),
        ({"worker_init_fn": print}, "pyg-argument"),
        ({"colour": 3}, "pyg-argument"),
        ({"refresh": "FCR"}, "pyg-argument"),
        ({"bach_size": 3}, "pyg-argument"),
        ({"shuffle": True, "sampler": range(3)}, "pyg-argument"),
        ({"batch_size": None}, "pyg-argument"),
        ({"time_attr": "x"}, "pyg-data"),
        ({"time_attr": "when"}, "pyg-data"),
        ({"seed": -1}, "pyg-argument"),
        ({"seed": 2**64}, "pyg-argument"),
        ({"seed": None}, "pyg-argument"),
        ({"seed": 1.5}, "pyg-argument"),
        ({"num_workers": -1}, "pyg-argument"),
        ({"prefetch_factor": "2"}, "pyg-argument"),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_to_do(words: dict[str, Any], code: str) -> None:
    with refused(code):
        pyg.loader(peer.homogeneous(), [2], **words)


@pytest.mark.parametrize(
    ("make", "figures"),
    [
        (lambda d: pyg.loader(d, [2], torch.ones(59, dtype=torch.bool)), ("59", "60")),
        (lambda d: pyg.loader(d, [2], torch.arange(5), torch.arange(4), time_attr="time"), ("4", "5")),
        (lambda d: pyg.link_loader(d, [2], d.edge_index[:, :9], torch.ones(8)), ("8", "9")),
        (lambda d: pyg.link_loader(d, [2], edge_label_time=d.time[1:], time_attr="time"), ("499", "500")),
    ],
    ids=["mask", "time", "label", "label time"],
)
def test_what_is_given_for_each_seed_is_as_long_as_the_seeds(
    make: Callable[[Any], Any], figures: tuple[str, str]
) -> None:
    with refused("pyg-argument", *figures):
        make(peer.homogeneous())


@pytest.mark.parametrize("node", [-1, 60, 2**62, -(2**63)])
def test_seeds_that_are_no_nodes_are_refused(node: int) -> None:
    data = peer.homogeneous()
    with refused("unknown-seed", f"({node})", "60"):
        list(pyg.loader(data, [2], input_nodes=torch.tensor([3, node]), batch_size=2))
    with refused("unknown-seed", f"({node})", "60"):
        list(pyg.link_loader(data, [2], torch.tensor([[3], [node]])))


def test_numbers_that_are_not_whole_are_refused() -> None:
    with refused("pyg-argument", "num_neighbors", "1.5"):
        pyg.loader(peer.homogeneous(), [2, 1.5])
    with refused("pyg-argument"):
        next(iter(pyg.loader(peer.homogeneous(), [2], input_nodes=torch.tensor([1.5]))))


def test_data_that_cannot_be_sampled_is_refused() -> None:
    data = peer.homogeneous()
    data.edge_index[0, 3] = 60
    with refused("dangling-edges", "'node'"):
        pyg.loader(data, [2])
    with refused("pyg-data"):
        pyg.loader([data], [2])
    with refused("pyg-argument", "'customer'", "'product'", "'shop'"):
        pyg.loader(peer.heterogeneous(), [2])
    with pytest.raises(ValueError, match="Missing number of neighbors for edge type"):
        pyg.loader(peer.heterogeneous(), {BOUGHT: [2]}, "shop")
    with refused("pyg-data"):
        next(iter(pyg.loader(peer.homogeneous(), [2], input_time=torch.zeros(60), time_attr="time")))
    with refused("pyg-argument", "'shop'"):
        next(iter(pyg.link_loader(peer.heterogeneous(), [2], (("customer", "in", "shop"), torch.zeros(2, 3).long()))))
    timed = pyg.loader(peer.homogeneous(), [2], time_attr="time", batch_size=8)
    with refused("needs-seed-time", "'node'", "input_time"):
        next(iter(timed))


# --- a snapshot --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop() -> Iterator[Any]:
    """Customers who know each other and buy; customer c39 is in a table, but in no later version."""
    draw = np.random.default_rng(0)
    with snapdb.connect() as db:
        ends = {"a": draw.integers(0, 39, 300), "b": draw.integers(0, 20, 300), "t": np.arange(300)}
        db.register("deals", {**ends, "w": draw.random(300), "f": draw.random((300, 2)).astype(np.float32)})
        db.register("friends", {"a": draw.integers(0, 39, 200), "b": draw.integers(0, 39, 200)})
        db.script("""
            CREATE TABLE customer AS
              SELECT format('c{:02d}', i) AS cid, [i, 2 * i]::FLOAT[2] AS x, i % 3 AS y FROM range(40) r(i);
            CREATE TABLE product AS SELECT i AS pid, [i]::FLOAT[1] AS x FROM range(20) r(i);
            CREATE TABLE bought AS SELECT format('c{:02d}', a) AS cid, b AS pid, t, w, f::FLOAT[2] AS f FROM deals;
            CREATE TABLE knows AS SELECT format('c{:02d}', a) AS a, format('c{:02d}', b) AS b FROM friends;
            CREATE PROPERTY GRAPH shop
              VERTEX TABLES (customer KEY (cid) FEATURES (x) TARGET (y), product KEY (pid) FEATURES (x))
              EDGE TABLES (bought SOURCE KEY (cid) REFERENCES customer DESTINATION KEY (pid) REFERENCES product
                             EVENT TIME (t) WEIGHT (w) FEATURES (f AS edge_attr),
                           knows SOURCE KEY (a) REFERENCES customer DESTINATION KEY (b) REFERENCES customer);
            CREATE PROPERTY GRAPH people VERTEX TABLES (customer KEY (cid) FEATURES (x) TARGET (y))
              EDGE TABLES (knows SOURCE KEY (a) REFERENCES customer DESTINATION KEY (b) REFERENCES customer);
            CREATE SNAPSHOT before OF people;
            DELETE FROM customer WHERE cid = 'c00';
            DELETE FROM bought WHERE cid = 'c00';
            DELETE FROM knows WHERE a = 'c00' OR b = 'c00';
            CREATE SNAPSHOT q OF shop;
            CREATE SNAPSHOT p OF people;
        """)
        yield db


def assert_equal_data(ours: Any, theirs: Any) -> None:
    for one, other in zip(ours.stores, theirs.stores, strict=True):
        for name in set(other.keys()) - {"y"}:
            value = other[name]
            assert torch.equal(one[name], value) if isinstance(value, torch.Tensor) else one[name] == value, name


def test_the_loader_of_a_snapshot_gives_what_its_stream_gives(shop: Any) -> None:
    with pyg.open(shop, "p") as people:
        loader = pyg.loader(people, [3, 2], batch_size=16, shuffle=True, seed=5)
        stream = shop.stream("""SAMPLE FROM p SEEDS (SELECT cid FROM p.customer) AS customer
                                FANOUT (knows => [3, 2]) BATCH 16 REPEATABLE (5)""")
        for _ in range(2):
            for ours, theirs in zip(loader, stream, strict=True):
                ours.input_id = theirs.input_id  # dense ids count c00 too, which is not in the snapshot
                assert_equal_data(ours, theirs.to_pyg())
                assert ours.y[: ours.batch_size].tolist() == theirs.y.tolist()


def test_a_loader_of_several_types_gives_what_the_stream_gives(shop: Any) -> None:
    at = torch.arange(200, 220)
    with pyg.open(shop, "q", reverse=True) as q:
        reverse = {key: [2, 2] if key[1] != "rev_knows" else [0, 0] for key in map(tuple, q.graph.relations)}
        loader = pyg.loader(q, reverse, "product", at, time_attr="edge_time", batch_size=7, seed=5)
        stream = shop.stream(
            """SAMPLE FROM q SEEDS (SELECT pid, 200 + pid AS seed_time FROM q.product ORDER BY pid) AS product
               FANOUT (bought BOTH => [2, 2], knows => [2, 2]) TEMPORAL <= SEED_TIME BATCH 7 IN ORDER REPEATABLE (5)"""
        )
        for ours, theirs in zip(loader, map(snapdb.Batch.to_pyg, stream), strict=True):
            for key in (BOUGHT, BACK, ("customer", "knows", "customer")):
                assert torch.equal(ours[key].edge_index, theirs[key].edge_index)
                assert torch.equal(ours[key].e_id, theirs[key].e_id)
            for name in ("edge_attr", "edge_time", "edge_weight"):
                assert torch.equal(ours[BACK][name], theirs[BACK][name])
            for name in ("customer", "product"):
                assert torch.equal(ours[name].x, theirs[name].x)
                assert torch.equal(ours[name].batch, theirs[name].batch)


def test_weights_and_trees_of_a_snapshot_are_those_of_the_stream(shop: Any) -> None:
    with pyg.open(shop, "q") as q:
        numbers = {BOUGHT: [3, 0], ("customer", "knows", "customer"): [0, 2]}
        (batch,) = pyg.loader(q, numbers, "product", weight_attr="edge_weight", batch_size=20, seed=3)
        (wanted,) = shop.stream("""SAMPLE FROM q SEEDS (SELECT pid FROM q.product ORDER BY pid) AS product
                                   FANOUT (bought => [3, 0], knows => [0, 2]) WEIGHT BY bought.w BATCH 20 IN ORDER
                                   REPEATABLE (3)""")
        assert torch.equal(batch[BOUGHT].e_id, wanted.e_id[BOUGHT])
        assert torch.equal(batch[BOUGHT].edge_weight, wanted.edge_weight[BOUGHT].float())
        (trees,) = pyg.loader(q, [-1], "product", disjoint=True, batch_size=20)
        assert sorted(trees[BOUGHT].e_id.tolist()) == sorted(q.graph_store.edge_ids(BOUGHT).tolist())


def test_pygs_own_loader_runs_on_the_stores_and_follows_torchs_seed(shop: Any) -> None:
    with pyg.open(shop, "q") as q:
        sampler = q.sampler({BOUGHT: [3, 3], ("customer", "knows", "customer"): [2, 2]})
        loader = pyg_loader.NodeLoader(
            q.data, sampler, input_nodes="product", batch_size=20, transform=q.with_edge_features
        )

        def drawn() -> Any:
            torch.manual_seed(3)
            return next(iter(loader))

        batch, again, other = drawn(), drawn(), next(iter(loader))
        assert torch.equal(batch[BOUGHT].e_id, again[BOUGHT].e_id)
        assert not torch.equal(batch[BOUGHT].e_id, other[BOUGHT].e_id)
        assert torch.equal(batch["product"].x[:, 0].long(), batch["product"].n_id)
        assert batch[BOUGHT].edge_attr.shape == (batch[BOUGHT].edge_index.shape[1], 2)
        wanted = q.feature_store.get_tensor(BOUGHT, "edge_attr", index=batch[BOUGHT].e_id)
        assert torch.equal(batch[BOUGHT].edge_attr, wanted)


def test_pygs_workers_and_link_loader_run_on_the_stores(shop: Any) -> None:
    with pyg.open(shop, "q") as q:
        loader = pyg_loader.LinkLoader(
            q.data, q.sampler([2, 2]), edge_label_index=BOUGHT, neg_sampling="binary", batch_size=64, num_workers=1
        )
        rows = sum(batch[BOUGHT].edge_label.shape[0] for batch in loader)
        assert rows == 2 * q.graph_store.edge_ids(BOUGHT).shape[0]
        there = pickle.loads(pickle.dumps(q.sampler([2, 2])))
        again = pickle.loads(pickle.dumps(q))
        assert torch.equal(again.feature_store["product", "x", None], q.feature_store["product", "x", None])
        again.close()
        inputs = pyg_sampler.NodeSamplerInput(torch.arange(3), torch.arange(3), None, "product")
        one, other = (sampler.keyed(9).sample_from_nodes(inputs) for sampler in (there, q.sampler([2, 2])))
        assert torch.equal(one.edge[BOUGHT], other.edge[BOUGHT])


def test_the_graph_store_is_the_snapshots_topology(shop: Any) -> None:
    with pyg.open(shop, "q") as q:
        row, col, _ = q.graph_store.coo([BOUGHT])
        found = shop.execute("SELECT cid, pid, e_id FROM q.bought ORDER BY pid, t, e_id").arrow()
        assert q.ids(row[BOUGHT], "customer").equals(found["cid"].combine_chunks())
        assert q.ids(col[BOUGHT], "product").equals(found["pid"].combine_chunks())
        assert q.graph_store.edge_ids(BOUGHT).tolist() == found["e_id"].to_pylist()
        assert q.graph_store.get_edge_index(BOUGHT, "csc")[1].shape == (21,)


def test_ids_lead_to_nodes_and_back(shop: Any) -> None:
    with pyg.open(shop, "p") as people:
        nodes = people.find(["c17", "c03"])
        assert people.ids(nodes).to_pylist() == ["c17", "c03"]
        (batch,) = pyg.loader(people, [-1], nodes, batch_size=2)
        assert batch.x[:2].tolist() == [[17.0, 34.0], [3.0, 6.0]]
        assert people.ids(batch.n_id.numpy()).equals(people.ids(batch.n_id))
        with refused("unknown-seed", "'c00'"):
            people.find(["c01", "c00"])
        for numbers in ([-1, 3], [40]):
            with refused("pyg-argument", "40", f"{numbers[0]} to {numbers[-1]}"):
                people.ids(torch.tensor(numbers))
        assert people.ids(torch.tensor([], dtype=torch.int64)).to_pylist() == []
        with refused("pyg-argument", "'customer'"):
            pyg.loader(people, [2], torch.ones(39, dtype=torch.bool))
    with pyg.open(shop, "before") as people:
        assert people.ids(people.find(["c00"])).to_pylist() == ["c00"]


def test_nodes_that_are_gone_are_no_seeds_and_no_negatives(shop: Any) -> None:
    with pyg.open(shop, "p") as people:
        gone = (set(range(40)) - set(people.there().tolist())).pop()
        with refused("unknown-seed", f"({gone})", "`there('customer')`"):
            next(iter(pyg.loader(people, [2], torch.tensor([gone, gone + 1]), batch_size=2)))
        asked = pyg_sampler.NegativeSampling("triplet", 20)
        for batch in pyg.link_loader(people, [2], neg_sampling=asked, batch_size=50):
            assert gone not in batch.n_id.tolist()


def test_a_snapshot_and_its_loader_say_what_they_are_in_a_line(shop: Any) -> None:
    with pyg.open(shop, "p") as people:
        assert repr(people).startswith("SnapshotGraph(p; nodes: 40 customer; edges: ")
        loader = pyg.loader(people, [2], batch_size=10, seed=3)
        assert repr(loader) == "NeighborLoader()"


def test_a_snapshot_cannot_be_opened_without_its_database() -> None:
    with refused("pyg-argument"):
        pyg.open("shop.snapdb", "p")  # type: ignore[arg-type]


def test_what_a_snapshot_cannot_give_is_refused(shop: Any) -> None:
    with pyg.open(shop, "p") as people:
        with refused("pyg-argument", "'edge_time'", "time_attr"):
            people.sampler([2], time_attr="t")
        with refused("needs-event-time", "EVENT TIME"):
            people.sampler([2], time_attr="edge_time")
        with refused("pyg-argument", "'z'", "FEATURES"):
            people.feature_store.get_tensor(None, "z", index=None)
        with refused("pyg-argument", "INSERT", "UPDATE", "REFRESH"):
            people.feature_store.put_tensor(torch.zeros(1), group_name=None, attr_name="z", index=None)
        with pytest.raises(IndexError, match="ids must be 0 ≤ id < 40, found 0 to 40"):
            people.feature_store.get_tensor(None, "x", index=torch.tensor([0, 40]))
    with refused("unknown-snapshot", '"r"'):
        pyg.open(shop, "r")
    with pyg.open(shop, "q") as q, refused("pyg-argument"):
        q.there()


def test_a_node_that_is_born_later_is_no_neighbour() -> None:
    with snapdb.connect() as db:
        db.script("""
            CREATE TABLE v AS SELECT i AS id, i AS born FROM range(10) r(i);
            CREATE TABLE e AS SELECT i AS a, 9 - i AS b, 0 AS t FROM range(10) r(i);
            CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id) EVENT TIME (born))
              EDGE TABLES (e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (t));
            CREATE SNAPSHOT s OF g;
        """)
        with pyg.open(db, "s") as s:
            (batch,) = pyg.loader(s, [-1], time_attr="edge_time", batch_size=10)
            assert batch.num_sampled_edges == [5]
            assert (batch.n_id <= batch.batch).all()


def test_features_that_change_in_time_are_not_given_to_trees_of_a_time() -> None:
    with snapdb.connect() as db:
        db.script("""
            CREATE TABLE v AS SELECT i AS id FROM range(3) r(i);
            CREATE TABLE h AS SELECT i AS id, i AS t, [i]::FLOAT[1] AS x FROM range(3) r(i);
            CREATE TABLE e AS SELECT i AS a, 2 - i AS b, 0 AS t FROM range(3) r(i);
            CREATE PROPERTY GRAPH g
              VERTEX TABLES (v KEY (id) FEATURES (x FROM h KEY (id) EVENT TIME (t) DEFAULT 0))
              EDGE TABLES (e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (t));
            CREATE SNAPSHOT s OF g;
        """)
        with pyg.open(db, "s") as s:
            assert next(iter(pyg.loader(s, [-1], batch_size=3))).x.tolist() == [[0.0], [1.0], [2.0]]
            with refused("pyg-argument", "'x'"):
                s.sampler([2], time_attr="edge_time")

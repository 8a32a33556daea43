"""A batch carries names, features and edge columns that fit its nodes and edges, and turns into other forms."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from snapdb.loading import Batch
from snapdb.types import FULL, Backend, Direction, Drawing, EdgeType, Fanout, Temporal
from tests.support.graphs import EdgeList, MemoryGraph, all_seeds, sample_spec, ties
from tests.support.inside.graph import GraphView, HistoryFeature, _SparseFeature
from tests.support.inside.kernels import Csr, empty_csr
from tests.support.inside.loading import DeviceTransfer, one_ahead
from tests.support.inside.storage import HistoryArrays
from tests.support.refusals import refused
from tests.support.streams import open_stream

BOUGHT = EdgeType("customer", "bought", "product")
KNOWS = EdgeType("customer", "knows", "customer")
REVERSED = EdgeType("product", "rev_bought", "customer")


def one_batch(graph: MemoryGraph, seed_type: str, *fanouts: Fanout, y: Any = None, size: int = 6) -> Batch:
    seeds = all_seeds(graph, seed_type, y)
    with open_stream(graph.view(), seeds, sample_spec(seed_type, *fanouts, batch_size=size), threads=0) as stream:
        return stream[1]


def both_types() -> Batch:
    return one_batch(ties(), "customer", Fanout(BOUGHT, "BOTH", (3, 2)), Fanout(KNOWS, "IN", (2, 2)))


def knows_only(**changes: Any) -> Batch:
    graph = replace(ties(), edges={KNOWS: ties().edges[KNOWS]}, **changes)
    return one_batch(graph, "customer", Fanout(KNOWS, "IN", (2, FULL)))


def test_seeds_come_first_and_have_their_place_in_the_seed_set() -> None:
    batch = both_types()
    assert (batch.seed_type, batch.batch_size, batch.index) == ("customer", 6, (0, 1))
    assert torch.equal(batch.n_id["customer"][:6], batch.input_id)  # every customer is a seed, in order of dense id
    assert batch.input_id.dtype == batch.n_id["product"].dtype == torch.int64


def test_edges_join_the_ends_that_their_rows_say() -> None:
    batch = both_types()
    listed = ties().edges[BOUGHT]
    for key, source, destination in ((BOUGHT, 0, 1), (REVERSED, 1, 0)):
        e_id, index = batch.e_id[key].numpy(), batch.edge_index[key]
        assert index.dtype == torch.int64
        assert index.shape == (2, e_id.size)
        assert np.array_equal(batch.n_id["customer"][index[source]], listed.source[e_id])
        assert np.array_equal(batch.n_id["product"][index[destination]], listed.destination[e_id])


def test_features_and_edge_columns_are_those_of_the_nodes_and_edges() -> None:
    batch, graph = both_types(), ties()
    for name in ("customer", "product"):
        assert np.array_equal(batch.x[name], graph.features[name]["x"][batch.n_id[name]])
    assert np.array_equal(batch.features["customer"]["age"], graph.features["customer"]["age"][batch.n_id["customer"]])
    listed, e_id = graph.edges[BOUGHT], batch.e_id[REVERSED]
    assert np.array_equal(batch.edge_attr[REVERSED], listed.features["edge_attr"][e_id])
    assert listed.time is not None
    assert np.array_equal(batch.edge_time[REVERSED], listed.time[e_id])
    assert listed.weight is not None
    assert np.array_equal(batch.edge_weight[REVERSED], listed.weight[e_id])


def test_keys_are_plain_tuples_too() -> None:
    batch = both_types()
    assert batch.edge_index[("customer", "knows", "customer")] is batch.edge_index[KNOWS]  # type: ignore[index]


def test_ids_are_the_users() -> None:
    batch = both_types()
    assert batch.ids("customer").to_pylist() == [f"c{i}" for i in batch.n_id["customer"].tolist()]
    assert batch.ids("product").to_pylist() == [1000 + i for i in batch.n_id["product"].tolist()]


def test_counts_per_hop_add_up_to_the_nodes_and_edges() -> None:
    batch = both_types()
    for name, counts in batch.num_sampled_nodes.items():
        assert len(counts) == 3
        assert sum(counts) == len(batch.n_id[name]) == len(batch.x[name])
    for key, drawn in batch.num_sampled_edges.items():
        assert len(drawn) == 2
        assert sum(drawn) == batch.edge_index[key].shape[1]


def test_targets_are_the_graphs_or_those_of_the_seed_query() -> None:
    batch = both_types()
    assert batch.y is not None
    assert np.array_equal(batch.y, ties().targets["customer"][batch.input_id])
    given = one_batch(ties(), "customer", Fanout(KNOWS, "IN", (2,)), y=np.arange(30) / 2)
    assert given.y is not None
    assert given.y.tolist() == [i / 2 for i in given.input_id.tolist()]


def test_no_target_is_none() -> None:
    assert one_batch(ties(), "product", Fanout(BOUGHT, "IN", (2,))).y is None


def test_every_type_of_the_sampler_is_there_if_empty() -> None:
    graph = replace(ties(), edges={BOUGHT: EdgeList.of([]), KNOWS: EdgeList.of([])})
    batch = one_batch(graph, "customer", Fanout(BOUGHT, "OUT", (3, 2)), Fanout(KNOWS, "IN", (2, 2)))
    assert batch.x["product"].shape == (0, 4)
    assert batch.edge_index[REVERSED].shape == batch.edge_index[KNOWS].shape == (2, 0)
    assert batch.num_sampled_nodes == {"customer": [6, 0, 0], "product": [0, 0, 0]}
    assert batch.num_sampled_edges == {REVERSED: [0, 0], KNOWS: [0, 0]}
    assert batch.e_id[KNOWS].shape == (0,)
    assert len(batch.ids("product")) == 0


def test_edge_columns_are_read_once() -> None:
    batch = both_types()
    assert batch.e_id[KNOWS] is batch.e_id[KNOWS]
    assert batch.edge_attr[REVERSED] is batch.edge_attr[REVERSED]


def test_a_column_that_the_graph_lacks_says_what_to_do() -> None:
    batch = both_types()
    assert KNOWS not in batch.edge_time
    assert batch.edge_weight.get(KNOWS) is None
    with refused("missing"):
        batch.edge_time[KNOWS]
    with refused("missing", "FEATURES", kind=KeyError):
        batch.edge_attr[KNOWS]
    with refused("missing"):
        batch.ids("shop")


def test_a_batch_travels_whole_without_the_graph() -> None:
    batch = both_types()
    copy: Batch = pickle.loads(pickle.dumps(batch))
    assert copy.ids("customer").equals(batch.ids("customer"))
    assert torch.equal(copy.edge_attr[REVERSED], batch.edge_attr[REVERSED])
    assert torch.equal(copy.e_id[KNOWS], batch.e_id[KNOWS])
    assert torch.equal(pickle.loads(pickle.dumps(copy)).e_id[KNOWS], batch.e_id[KNOWS])
    with refused("missing", "EVENT TIME"):
        copy.edge_time[KNOWS]


def test_moving_a_batch_moves_what_is_read_later() -> None:
    batch = both_types()
    moved = batch.to("meta")
    for tensor in (moved.x["product"], moved.edge_index[KNOWS], moved.e_id[KNOWS], moved.edge_attr[REVERSED], moved.y):
        assert tensor is not None
        assert tensor.device.type == "meta"
    assert batch.x["product"].device.type == "cpu"
    assert moved.ids("product").equals(batch.ids("product"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_batch_goes_to_the_gpu_and_back() -> None:
    batch = both_types()
    there = batch.pin_memory().to("cuda", non_blocking=True)
    assert there.e_id[KNOWS].device.type == "cuda"
    assert torch.equal(there.to("cpu").x["product"], batch.x["product"])


def test_only_answers_without_keys_for_one_type() -> None:
    batch = knows_only()
    assert batch.only.x is batch.x["customer"]
    assert batch.only.edge_index is batch.edge_index[KNOWS]
    assert batch.only.e_id is batch.e_id[KNOWS]
    assert batch.only.num_sampled_edges == batch.num_sampled_edges[KNOWS]
    assert batch.only.ids().equals(batch.ids("customer"))
    assert batch.only.batch_size == 6
    assert batch.only.lineage is batch.lineage
    assert repr(batch.only) == f"{batch!r}.only"


def test_only_refuses_several_types() -> None:
    with refused("several-types", "'customer'", "'product'"):
        _ = both_types().only.x


def test_only_tells_what_the_one_type_lacks() -> None:
    with refused("missing", "WEIGHT"):
        _ = knows_only().only.edge_weight


def test_blocks_hold_the_edges_that_each_layer_needs() -> None:
    batch = both_types()
    blocks = batch.to_blocks()
    assert len(blocks) == 2
    assert blocks[-1].num_destinations["customer"] == batch.batch_size
    for outer, inner in pairwise(blocks):
        assert outer.num_destinations == inner.num_sources
    assert blocks[0].num_sources == {name: len(ids) for name, ids in batch.n_id.items()}
    ends: dict[EdgeType, tuple[str, str]] = {
        BOUGHT: ("customer", "product"),
        REVERSED: ("product", "customer"),
        KNOWS: ("customer", "customer"),
    }
    for block in blocks:
        for key, (neighbor, seed_side) in ends.items():
            index = block.edge_index[key]
            assert index.numel() == 0 or int(index[0].max()) < block.num_sources[neighbor]
            assert index.numel() == 0 or int(index[1].max()) < block.num_destinations[seed_side]


def test_arrow_tables_hold_nodes_and_edges_row_by_row() -> None:
    batch = both_types()
    tables = batch.to_arrow()
    customers, bought = tables["customer"], tables[REVERSED]
    assert customers.column_names == ["id", "n_id", "hop", "x", "age", "y"]
    assert customers["id"].to_pylist() == batch.ids("customer").to_pylist()
    assert customers["hop"].to_pylist() == np.repeat([0, 1, 2], batch.num_sampled_nodes["customer"]).tolist()
    assert customers["y"].null_count == len(customers) - batch.batch_size
    assert customers["x"].type == pa.list_(pa.float32(), 5)
    assert bought.column_names == ["neighbour", "seed_side", "hop", "e_id", "edge_time", "edge_weight", "edge_attr"]
    assert bought["e_id"].to_pylist() == batch.e_id[REVERSED].tolist()


@pytest.mark.parametrize("direction", ["IN", "OUT", "BOTH"])
def test_the_key_of_each_direction_is_pygs(direction: Direction) -> None:
    batch = one_batch(ties(), "customer", Fanout(BOUGHT, direction, (2, 2)))
    expected = {"IN": [BOUGHT], "OUT": [REVERSED], "BOTH": [BOUGHT, REVERSED]}[direction]
    assert list(batch.edge_index) == expected
    assert list(one_batch(ties(), "customer", Fanout(KNOWS, "BOTH", (2, 2))).edge_index) == [KNOWS]


BACKENDS = pytest.mark.parametrize("backend", ["numba", "torch"])


def timed_batch(backend: Backend, *, view: GraphView | None = None, **changes: Any) -> Batch:
    """Customers at the times 0, 1, 2, … 9, 0, …, each with a tree of what was before."""
    graph = ties()
    spec = sample_spec("customer", Fanout(BOUGHT, "BOTH", (3, 2)), Fanout(KNOWS, "IN", (2, 2)), batch_size=12)
    spec = replace(spec, temporal=Temporal(inclusive=False, within=None), backend=backend, **changes)
    seeds = replace(all_seeds(graph, "customer"), time=np.arange(30) % 10)
    with open_stream(view or graph.view(), seeds, spec, threads=0) as stream:
        return stream[0]


@BACKENDS
def test_trees_join_only_their_own_nodes_and_look_back_from_their_seeds_time(backend: Backend) -> None:
    batch = timed_batch(backend)
    assert batch.seed_time is not None
    assert batch.seed_time.tolist() == [i % 10 for i in batch.input_id.tolist()]
    assert batch.batch["customer"][:12].tolist() == list(range(12))
    for key, index in batch.edge_index.items():
        near = batch.batch[key.destination][index[1]]
        assert torch.equal(batch.batch[key.source][index[0]], near)
        if key in batch.edge_time:
            assert bool((batch.edge_time[key] < batch.seed_time[near]).all())
    assert len(batch.e_id[BOUGHT]) > 0
    assert set(batch.audit().values()) == {0}
    assert "one tree per seed" in repr(batch)


def test_without_trees_the_mapping_is_empty_and_says_why() -> None:
    batch = both_types()
    assert len(batch.batch) == 0
    assert (batch.seed_time, batch.edge_label_index, batch.negatives_missing) == (None, None, 0)
    with refused("missing", "TEMPORAL"):
        batch.batch["customer"]


@BACKENDS
def test_features_that_change_are_those_before_each_trees_time(backend: Backend) -> None:
    changes = np.arange(30 * 4)
    arrays = HistoryArrays(np.arange(0, 121, 4), changes % 4 * 3, changes[:, None].astype(np.float32))  # at 0, 3, 6, 9
    mood = HistoryFeature(arrays, "mood", stop=None, default=-1, element="customer")
    view = replace(ties().view(), node_features={"customer": {"mood": mood}})
    batch = timed_batch(backend, view=view)
    assert batch.seed_time is not None
    before = batch.seed_time[batch.batch["customer"]]
    last = torch.div(before - 1, 3, rounding_mode="floor")  # -1: nothing happened yet
    expected = torch.where(last < 0, -1, batch.n_id["customer"] * 4 + last)
    assert torch.equal(batch.features["customer"]["mood"][:, 0].long(), expected)
    assert len(expected.unique()) > 12


def test_features_that_change_are_those_of_the_windows_end_without_times() -> None:
    arrays = HistoryArrays(np.arange(0, 61, 2), np.arange(60) % 2, np.arange(60)[:, None].astype(np.float32))
    mood = HistoryFeature(arrays, "mood", stop=None, default=None, element="customer")
    view = replace(ties().view(), node_features={"customer": {"mood": mood}})
    spec = sample_spec("customer", Fanout(KNOWS, "IN", (2,)))
    batch = open_stream(view, all_seeds(ties(), "customer"), spec, threads=0)[0]
    assert torch.equal(batch.features["customer"]["mood"][:, 0].long(), 2 * batch.n_id["customer"] + 1)


@BACKENDS
def test_blocks_have_the_edges_of_their_own_hop_for_all_nodes_met_before(backend: Backend) -> None:
    graph = ties()
    spec = sample_spec("customer", Fanout(BOUGHT, "BOTH", (3, 2)), Fanout(KNOWS, "IN", (2, FULL)), batch_size=6)
    spec = replace(spec, layout="BLOCKS", backend=backend)
    batch = open_stream(graph.view(), all_seeds(graph, "customer"), spec, threads=0)[0]
    outer, inner = batch.to_blocks()
    for key, index in batch.edge_index.items():
        assert torch.equal(torch.cat([inner.edge_index[key], outer.edge_index[key]], dim=1), index)
        assert outer.edge_index[key].shape[1] == batch.num_sampled_edges[key][1]
    degrees = np.bincount(graph.edges[KNOWS].destination, minlength=30)
    met = batch.n_id["customer"][: outer.num_destinations["customer"]]
    assert outer.num_destinations == inner.num_sources
    assert torch.bincount(outer.edge_index[KNOWS][1], minlength=len(met)).tolist() == degrees[met].tolist()
    assert outer.num_sources == {name: len(ids) for name, ids in batch.n_id.items()}


def test_a_vertex_that_is_a_seed_twice_is_there_twice() -> None:
    graph = ties()
    seeds = replace(all_seeds(graph, "customer"), ids=np.repeat(np.arange(15), 2))
    spec = replace(sample_spec("customer", Fanout(KNOWS, "IN", (2, 2)), batch_size=30), allow_duplicates=True)
    batch = open_stream(graph.view(), seeds, spec, threads=0)[0]
    assert torch.equal(batch.n_id["customer"][:30], torch.from_numpy(seeds.ids)[batch.input_id])
    assert batch.y is not None
    assert len(batch.y) == 30


def test_priority_delivers_weights_that_estimate_sums() -> None:
    graph = ties()
    listed = graph.edges[BOUGHT]
    spec = sample_spec("product", Fanout(BOUGHT, "IN", (4,)), batch_size=20)
    spec = replace(spec, drawing=Drawing("PRIORITY", weighted=True))
    total = 0.0
    with open_stream(graph.view(), all_seeds(graph, "product"), spec, threads=0) as stream:
        for epoch in range(300):
            stream.set_epoch(epoch)
            (batch,) = stream
            assert bool((batch.edge_weight[BOUGHT] >= 1).all())
            assert listed.weight is not None
            weights = torch.from_numpy(listed.weight)[batch.e_id[BOUGHT]]
            total += float((weights * batch.edge_weight[BOUGHT]).sum())
    assert listed.weight is not None
    assert total / 300 == pytest.approx(listed.weight.sum(), rel=0.02)


def test_the_torch_back_end_makes_the_same_batch() -> None:
    ours, theirs = timed_batch("numba"), timed_batch("torch")
    for part in ("n_id", "batch", "edge_index", "e_id", "edge_time", "x", "edge_attr"):
        assert list(getattr(ours, part)) == list(getattr(theirs, part)), part
        for name, tensor in getattr(ours, part).items():
            assert torch.equal(tensor, getattr(theirs, part)[name]), part
    assert ours.num_sampled_edges == theirs.num_sampled_edges


def test_features_lie_on_the_device_as_far_as_they_fit() -> None:
    graph, batch = ties(), both_types()
    none = Csr(np.zeros(31, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
    view = graph.view()
    features = {**view.node_features["customer"], "bag": _SparseFeature(none, empty_csr(none), None, 4)}
    view = replace(view, node_features={"customer": features, "product": view.node_features["product"]})
    size, ids = 30 * 5 * 4, batch.n_id["customer"].numpy()
    for room, resident in ((size, {"x"}), (size + 8 * 30, {"x", "age"}), (0, set())):
        delivery = DeviceTransfer(torch.device("cpu"), view, ("customer",), room)
        read = {name: delivery.rows("customer", name, f, lambda: ids, None) for name, f in features.items()}
        assert {name for name, rows in read.items() if rows is None} == resident  # and never those of no fixed place
        found = {name: rows for name, rows in read.items() if rows is not None}
        packed = delivery.pinned(replace(batch, features={**batch.features, "customer": found}))
        whole = delivery.receive(delivery.send(packed))
        assert list(whole.features["customer"]) == ["x", "age", "bag"]
        for name in ("x", "age"):
            assert torch.equal(whole.features["customer"][name], batch.features["customer"][name])
        assert torch.equal(whole.x["product"], batch.x["product"])


def test_copies_begin_one_ahead_and_errors_keep_their_turn() -> None:
    def numbers() -> Iterator[int]:
        yield from range(1, 4)
        raise OSError("disk on fire")

    items = one_ahead(numbers())
    assert [next(items) for _ in range(3)] == [1, 2, 3]
    with pytest.raises(OSError, match="disk on fire"):
        next(items)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("on", [None, "cuda"])
@pytest.mark.parametrize("threads", [0, 3])
def test_a_stream_hands_batches_over_on_the_gpu(on: str | None, threads: int) -> None:
    graph = ties()
    spec = replace(sample_spec("customer", Fanout(BOUGHT, "BOTH", (3, 2)), Fanout(KNOWS, "IN", (2, 2))), device=on)
    plain = list(open_stream(graph.view(), all_seeds(graph, "customer"), replace(spec, device=None), threads=0))
    there = list(open_stream(graph.view(), all_seeds(graph, "customer"), spec, device="cuda", threads=threads))
    for ours, theirs in zip(plain, there, strict=True):
        assert theirs.x["product"].device.type == theirs.e_id[KNOWS].device.type == "cuda"
        for part in ("n_id", "edge_index", "x", "e_id", "edge_attr", "edge_weight"):
            for name, tensor in getattr(ours, part).items():
                assert torch.equal(tensor, getattr(theirs, part)[name].cpu()), part
        assert ours.ids("customer").equals(theirs.ids("customer"))

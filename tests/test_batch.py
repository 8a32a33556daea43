"""A batch carries names, features and edge columns that fit its nodes and edges, and turns into other forms."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from snapdb.errors import BindError, SnapdbError
from snapdb.loading import Batch, BatchStream
from snapdb.loading.lazy import MissingEntryError
from snapdb.types import FULL, Direction, EdgeType, Fanout
from tests.graphs import EdgeList, MemoryGraph, all_seeds, sample_spec, ties

BOUGHT = EdgeType("customer", "bought", "product")
KNOWS = EdgeType("customer", "knows", "customer")
REVERSED = EdgeType("product", "rev_bought", "customer")


def one_batch(graph: MemoryGraph, seed_type: str, *fanouts: Fanout, y: Any = None, size: int = 6) -> Batch:
    seeds = all_seeds(graph, seed_type, y)
    with BatchStream(graph.view(), seeds, sample_spec(seed_type, *fanouts, batch_size=size), threads=0) as stream:
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
    with pytest.raises(MissingEntryError, match=r"which has .*bought.*; an edge type has times when its table says"):
        batch.edge_time[KNOWS]
    with pytest.raises(KeyError, match="FEATURES"):
        batch.edge_attr[KNOWS]
    with pytest.raises(SnapdbError, match="sampler reaches"):
        batch.ids("shop")


def test_a_batch_travels_whole_without_the_graph() -> None:
    batch = both_types()
    copy: Batch = pickle.loads(pickle.dumps(batch))
    assert copy.ids("customer").equals(batch.ids("customer"))
    assert torch.equal(copy.edge_attr[REVERSED], batch.edge_attr[REVERSED])
    assert torch.equal(copy.e_id[KNOWS], batch.e_id[KNOWS])
    assert torch.equal(pickle.loads(pickle.dumps(copy)).e_id[KNOWS], batch.e_id[KNOWS])
    with pytest.raises(MissingEntryError, match="EVENT TIME"):
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


def test_only_refuses_several_types() -> None:
    with pytest.raises(BindError, match="needs one type for x, but the batch has 'customer', 'product'"):
        _ = both_types().only.x


def test_only_tells_what_the_one_type_lacks() -> None:
    with pytest.raises(MissingEntryError, match="WEIGHT"):
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
        for key, (neighbour, seed_side) in ends.items():
            index = block.edge_index[key]
            assert index.numel() == 0 or int(index[0].max()) < block.num_sources[neighbour]
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

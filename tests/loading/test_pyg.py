"""`to_pyg()` is what PyG's own loader makes of the same sample, field for field, and its tools accept it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from snapdb.loading import Batch
from snapdb.sampling import Seeds
from snapdb.types import EdgeType, Fanout, Link, Negatives, Temporal
from tests.support.graphs import EdgeList, MemoryGraph, all_seeds, sample_spec, ties
from tests.support.processes import FreshProcess, PeerProcess
from tests.support.refusals import refused
from tests.support.streams import open_stream

pyg = pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
pyg_data = pytest.importorskip("torch_geometric.data")
pyg_loader = pytest.importorskip("torch_geometric.loader")
pyg_sampler = pytest.importorskip("torch_geometric.sampler")
pyg_utils = pytest.importorskip("torch_geometric.utils")
peer = pytest.importorskip("tests.support.pyg_peer")


BOUGHT = EdgeType("customer", "bought", "product")
KNOWS = EdgeType("customer", "knows", "customer")
SOLD = EdgeType("product", "sold", "customer")


def first_batch(graph: MemoryGraph, *fanouts: Fanout) -> Batch:
    spec = sample_spec("customer", *fanouts, batch_size=6, order="IN ORDER")
    return open_stream(graph.view(), all_seeds(graph, "customer"), spec, threads=0)[0]


def homogeneous() -> tuple[MemoryGraph, Batch]:
    graph = replace(ties(), edges={KNOWS: ties().edges[KNOWS]}, nodes={"customer": 30})
    graph = replace(graph, features={"customer": {"x": ties().features["customer"]["x"]}})
    return graph, first_batch(graph, Fanout(KNOWS, "IN", (2, 3)))


def heterogeneous() -> tuple[MemoryGraph, Batch]:
    bought = ties().edges[BOUGHT]
    sold = replace(bought, source=bought.destination, destination=bought.source)
    graph = replace(ties(), edges={**ties().edges, SOLD: sold})
    fanouts = (Fanout(edge, "IN", (3, 2)) for edge in graph.edges)
    return graph, first_batch(graph, *fanouts)


class Replay(pyg_sampler.BaseSampler):  # type: ignore[misc, name-defined]
    """A PyG sampler that answers with the sample of a batch, so that PyG's loader fills in the rest."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    @property
    def edge_permutation(self) -> None:
        return None

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> Any:
        batch = self.batch
        if neg_sampling.is_triplet():
            ends = (batch.src_index, batch.dst_pos_index, batch.dst_neg_index)
            return self._answer((index.input_id, *ends, batch.seed_time))
        times = batch.seed_time
        drawn = None if times is None else times.repeat_interleave(2)
        later = None if times is None or drawn is None else torch.cat([times, drawn])
        return self._answer((index.input_id, batch.edge_label_index, batch.edge_label, later))

    def sample_from_nodes(self, index: Any, **_: Any) -> Any:
        return self._answer((index.input_id, index.time))

    def _answer(self, metadata: Any) -> Any:
        batch, trees = self.batch, dict(self.batch.batch) or None
        if len(batch.n_id) == 1:
            row, col = batch.only.edge_index
            return pyg_sampler.SamplerOutput(
                batch.only.n_id,
                row,
                col,
                batch.only.e_id,
                batch=trees and trees["customer"],
                num_sampled_nodes=batch.only.num_sampled_nodes,
                num_sampled_edges=batch.only.num_sampled_edges,
                metadata=metadata,
            )
        return pyg_sampler.HeteroSamplerOutput(
            dict(batch.n_id),
            {tuple(key): index[0] for key, index in batch.edge_index.items()},
            {tuple(key): index[1] for key, index in batch.edge_index.items()},
            {tuple(key): batch.e_id[key] for key in batch.edge_index},
            batch=trees,
            num_sampled_nodes=dict(batch.num_sampled_nodes),
            num_sampled_edges={tuple(key): counts for key, counts in batch.num_sampled_edges.items()},
            metadata=metadata,
        )


def pyg_data_of(graph: MemoryGraph, batch: Batch) -> Any:
    """The whole graph as PyG holds it."""
    single = len(batch.n_id) == 1
    data = pyg_data.Data() if single else pyg_data.HeteroData()
    for name in batch.n_id:
        store = data if single else data[name]
        for label, values in graph.features[name].items():
            store[label] = torch.from_numpy(values)
    (data if single else data["customer"]).y = torch.from_numpy(graph.targets["customer"])
    for edge in graph.edges:
        store, listed = (data if single else data[tuple(edge)]), graph.edges[edge]
        store.edge_index = torch.stack([torch.from_numpy(listed.source), torch.from_numpy(listed.destination)])
        if "edge_attr" in listed.features:
            store.edge_attr = torch.from_numpy(listed.features["edge_attr"])
        if listed.time is not None:
            store.edge_time = torch.from_numpy(listed.time)
        if listed.weight is not None:
            store.edge_weight = torch.from_numpy(listed.weight).float()  # the type that layers take
    return data


def pyg_answer(graph: MemoryGraph, batch: Batch) -> Any:
    """What PyG's NodeLoader delivers for the same seeds and the same sample."""
    data, single = pyg_data_of(graph, batch), len(batch.n_id) == 1
    seeds = batch.n_id["customer"][: batch.batch_size]
    loader = pyg_loader.NodeLoader(
        data,
        Replay(batch),
        input_nodes=seeds if single else ("customer", seeds),
        input_time=batch.seed_time,
        input_id=batch.input_id,
        batch_size=6,
    )
    return next(iter(loader))


def pyg_link_answer(graph: MemoryGraph, batch: Batch, mode: str) -> Any:
    """What PyG's LinkLoader delivers for the same seed edges and the same sample."""
    assert batch.src_index is not None
    data, single = pyg_data_of(graph, batch), len(batch.n_id) == 1
    ends = torch.zeros((2, batch.batch_size), dtype=torch.int64)  # the answer is made already
    loader = pyg_loader.LinkLoader(
        data,
        Replay(batch),
        edge_label_index=ends if single else (tuple(batch.seed_type), ends),
        neg_sampling=pyg_sampler.NegativeSampling(mode, 2),
        input_id=batch.input_id,
        batch_size=6,
    )
    return next(iter(loader))


def assert_same_store(ours: Any, theirs: Any, batch_size: int) -> None:
    assert set(ours.keys()) == set(theirs.keys())
    for name, value in theirs.items():
        expected = value[:batch_size] if name == "y" else value  # the contract: seeds only
        assert type(ours[name]) is type(expected), name
        if isinstance(expected, torch.Tensor):
            assert ours[name].dtype == expected.dtype, name
            assert torch.equal(ours[name], expected), name
        else:
            assert ours[name] == expected, name


def test_one_type_gives_data_as_pygs_loader_does() -> None:
    graph, batch = homogeneous()
    ours, theirs = batch.to_pyg(), pyg_answer(graph, batch)
    assert type(ours) is type(theirs) is pyg_data.Data
    assert_same_store(ours, theirs, batch.batch_size)
    assert ours.num_nodes == len(batch.only.n_id)


def test_several_types_give_heterodata_as_pygs_loader_does() -> None:
    graph, batch = heterogeneous()
    ours, theirs = batch.to_pyg(), pyg_answer(graph, batch)
    assert type(ours) is type(theirs) is pyg_data.HeteroData
    assert ours.metadata()[0] == list(batch.n_id)
    assert set(ours.edge_types) == set(theirs.edge_types)
    for key in [*theirs.node_types, *theirs.edge_types]:
        assert_same_store(ours[key], theirs[key], batch.batch_size)
        assert list(ours[key].keys()) == list(theirs[key].keys())  # as print shows them
    ours.validate()


def test_ids_are_the_users_names_of_the_rows() -> None:
    _, batch = heterogeneous()
    data = batch.to_pyg()
    assert batch.ids("customer").to_pylist() == [f"c{i}" for i in data["customer"].n_id.tolist()]
    assert batch.ids("product").to_pylist() == (data["product"].n_id + 1000).tolist()


def link_batch(
    graph: MemoryGraph,
    edge: EdgeType,
    *fanouts: Fanout,
    timed: bool,
    negatives: Negatives | None = Negatives(2, None, None),  # noqa: B008  # it is frozen
    labels: Any = None,
) -> Batch:
    """Six edges as seeds, with two negatives each unless said otherwise."""
    ids = np.array([3, 8, 13, 40, 41, 60])
    listed = graph.edges[edge]
    times = np.arange(6) if timed else None
    seeds = Seeds(edge.source, ids, labels, None, times, (listed.source[ids], listed.destination[ids]))
    spec = replace(
        sample_spec(edge.source, *fanouts, batch_size=6),
        link=Link(edge, negatives, "PAIR"),
        temporal=Temporal(inclusive=False, within=None) if timed else None,
    )
    return open_stream(graph.view(), seeds, spec, threads=0)[0]


@pytest.mark.parametrize("mode", ["binary", "triplet"])
@pytest.mark.parametrize("timed", [False, True])
def test_seed_edges_of_one_type_give_data_as_pygs_loader_does(mode: str, timed: bool) -> None:
    graph, _ = homogeneous()
    batch = link_batch(graph, KNOWS, Fanout(KNOWS, "IN", (2, 3)), timed=timed)
    ours, theirs = batch.to_pyg(), pyg_link_answer(graph, batch, mode)
    assert type(ours) is type(theirs) is pyg_data.Data
    assert_has_store(ours, theirs)
    assert ("batch" in ours) == timed


@pytest.mark.parametrize("mode", ["binary", "triplet"])
@pytest.mark.parametrize("timed", [False, True])
def test_seed_edges_of_several_types_give_heterodata_as_pygs_loader_does(mode: str, timed: bool) -> None:
    graph, _ = heterogeneous()
    batch = link_batch(graph, BOUGHT, *(Fanout(edge, "IN", (3, 2)) for edge in graph.edges), timed=timed)
    ours, theirs = batch.to_pyg(), pyg_link_answer(graph, batch, mode)
    assert type(ours) is type(theirs) is pyg_data.HeteroData
    assert set(ours.edge_types) == set(theirs.edge_types)
    for key in [*theirs.node_types, *theirs.edge_types]:
        assert_has_store(ours[key], theirs[key])


def assert_has_store(ours: Any, theirs: Any) -> None:
    """Ours serves both modes of negatives, and gives no target but those of seeds."""
    both = {
        "edge_label_index",
        "edge_label",
        "edge_label_time",
        "src_index",
        "dst_pos_index",
        "dst_neg_index",
        "seed_time",
    }
    assert set(theirs.keys()) - {"y"} <= set(ours.keys()) <= set(theirs.keys()) | both
    for name, value in theirs.items():
        if isinstance(value, torch.Tensor) and name != "y":
            assert ours[name].dtype == value.dtype, name
            assert torch.equal(ours[name], value), name
        elif name != "y":
            assert ours[name] == value, name


@pytest.mark.parametrize("edge", [KNOWS, BOUGHT])
def test_trees_of_seed_edges_are_numbered_as_their_seeds(edge: EdgeType) -> None:
    graph, _ = heterogeneous()
    batch = link_batch(graph, edge, *(Fanout(key, "IN", (3, 2)) for key in graph.edges), timed=True)
    data, seeds = batch.to_pyg(), torch.arange(6)
    times = batch.input_id  # seed i is at time i
    assert torch.equal(data[edge.source].batch[data[edge.source].src_index], seeds)
    others = data[edge.destination]
    assert torch.equal(others.batch[others.dst_pos_index], seeds)
    assert torch.equal(others.batch[others.dst_neg_index], seeds.view(-1, 1).expand(-1, 2))
    assert torch.equal(data[tuple(edge)].edge_label_time, torch.cat([times, times.repeat_interleave(2)]))
    assert torch.equal(data[edge.source].seed_time, times)


def test_labels_of_seed_edges_without_negatives_are_edge_label() -> None:
    graph, _ = heterogeneous()
    ratings = np.array([5.0, 3.0, 1.0, 4.0, 4.0, 2.0])
    fanout = Fanout(BOUGHT, "IN", (3,))
    store = link_batch(graph, BOUGHT, fanout, timed=False, negatives=None, labels=ratings).to_pyg()[tuple(BOUGHT)]
    assert store.edge_label.tolist() == store.y.tolist() == ratings[store.input_id].tolist()
    store = link_batch(graph, BOUGHT, fanout, timed=False, labels=ratings).to_pyg()[tuple(BOUGHT)]
    assert store.edge_label.tolist() == [1.0] * 6 + [0.0] * 12
    assert store.y.tolist() == ratings[store.input_id].tolist()


def test_seeds_with_times_give_trees_as_pygs_loader_does() -> None:
    graph, _ = heterogeneous()
    spec = replace(
        sample_spec("customer", *(Fanout(edge, "IN", (3, 2)) for edge in graph.edges), batch_size=6),
        temporal=Temporal(inclusive=True, within=None),
    )
    seeds = replace(all_seeds(graph, "customer"), time=np.arange(30) % 12)
    batch = open_stream(graph.view(), seeds, spec, threads=0)[0]
    ours, theirs = batch.to_pyg(), pyg_answer(graph, batch)
    for key in [*theirs.node_types, *theirs.edge_types]:
        assert_same_store(ours[key], theirs[key], batch.batch_size)
    assert len(ours["product"].batch) == len(ours["product"].x)


def test_both_ways_are_two_edge_types_or_one_where_both_ends_are_of_one_type() -> None:
    graph = ties()
    batch = first_batch(graph, Fanout(BOUGHT, "BOTH", (3, 2)), Fanout(KNOWS, "BOTH", (3, 2)))
    data, back = batch.to_pyg(), ("product", "rev_bought", "customer")
    assert set(data.edge_types) == {tuple(BOUGHT), back, tuple(KNOWS)}
    for key, edge, ways in ((tuple(BOUGHT), BOUGHT, 1), (back, BOUGHT, -1), (tuple(KNOWS), KNOWS, 0)):
        listed, store = graph.edges[edge], data[key]
        ends = [data[kind].n_id[index] for kind, index in zip(key[::2], store.edge_index, strict=True)]
        there = torch.from_numpy(np.stack([listed.source, listed.destination]))[:, store.e_id]
        drawn = torch.stack(ends) if ways >= 0 else torch.stack(ends).flip(0)
        same = (drawn == there).all(dim=0) | ((drawn.flip(0) == there).all(dim=0) if ways == 0 else False)
        assert bool(same.all())
        assert store.num_edges > 0
    for key in (tuple(BOUGHT), back):
        columns = graph.edges[BOUGHT]
        assert torch.equal(data[key].edge_attr, torch.from_numpy(columns.features["edge_attr"])[data[key].e_id])
        assert columns.weight is not None
        assert torch.equal(data[key].edge_weight, torch.from_numpy(columns.weight)[data[key].e_id].float())
    data.validate()


def test_types_that_nothing_was_drawn_of_are_there_and_empty() -> None:
    graph, _ = heterogeneous()
    never = replace(graph, edges={**graph.edges, SOLD: EdgeList.of([], [])})
    fanouts = (Fanout(KNOWS, "IN", (2, 2)), Fanout(BOUGHT, "IN", (2, 2)), Fanout(SOLD, "IN", (2, 2)))
    batch = first_batch(never, *fanouts)
    ours, theirs = batch.to_pyg(), pyg_answer(never, batch)
    for key in [*theirs.node_types, *theirs.edge_types]:
        assert_same_store(ours[key], theirs[key], batch.batch_size)
    product, bought = ours["product"], ours[tuple(BOUGHT)]
    assert product.x.shape == (0, 4)
    assert product.num_sampled_nodes == [0, 0, 0]
    assert bought.edge_index.shape == (2, 0)
    assert bought.edge_attr.shape == (0, 3)
    assert bought.num_sampled_edges == ours[tuple(SOLD)].num_sampled_edges == [0, 0]
    ours.validate()


def test_nodes_and_edges_with_a_feature_of_one_name_are_kept_apart() -> None:
    graph, _ = homogeneous()
    knows = replace(graph.edges[KNOWS], features={"x": np.ones((120, 2), np.float32)})
    data = first_batch(replace(graph, edges={KNOWS: knows}), Fanout(KNOWS, "IN", (2, 3))).to_pyg()
    assert type(data) is pyg_data.HeteroData
    assert data["customer"].x.shape[1] == 5
    assert torch.equal(data[tuple(KNOWS)].x, torch.ones(data[tuple(KNOWS)].num_edges, 2))


def test_a_column_of_the_seeds_does_not_hide_a_feature() -> None:
    graph, _ = homogeneous()
    graph = replace(graph, features={"customer": {"age": np.arange(30)}})
    spec = sample_spec("customer", Fanout(KNOWS, "IN", (2, 3)))
    for name in ("weight", "age"):
        seeds = replace(all_seeds(graph, "customer"), columns={name: np.arange(30) / 2})
        batch = open_stream(graph.view(), seeds, spec, threads=0)[0]
        if name == "weight":
            assert torch.equal(batch.to_pyg().weight, batch.input_id / 2)
        else:
            with refused("not-for-pyg", "SEEDS", "'age'"):
                batch.to_pyg()


def test_layers_take_the_weights_of_edges() -> None:
    graph, _ = homogeneous()
    knows = replace(graph.edges[KNOWS], weight=np.arange(120) / 7)
    data = first_batch(replace(graph, edges={KNOWS: knows}), Fanout(KNOWS, "IN", (2, 3))).to_pyg()
    assert torch.equal(data.edge_weight, (data.e_id / 7).float())
    state = data.x
    for layer in (pyg.nn.GCNConv(5, 4), pyg.nn.GCNConv(4, 3)):
        state = layer(state, data.edge_index, data.edge_weight)
    assert state.shape == (data.num_nodes, 3)


WHOLE = """
import json, torch, warnings
from torch_geometric.loader import NeighborLoader
from tests.support.pyg_peer import heterogeneous, homogeneous

def columns(store):
    return {name: value.tolist() for name, value in store.items() if isinstance(value, torch.Tensor)}

warnings.simplefilter("ignore")
one = next(iter(NeighborLoader(homogeneous(), [-1, -1], torch.arange(6), batch_size=6)))
several = next(iter(NeighborLoader(heterogeneous(), [-1, -1], ("customer", torch.arange(6)), batch_size=6)))
print(json.dumps([{str(store._key): columns(store) for store in batch.stores} for batch in (one, several)]))
"""


@pytest.fixture(scope="module")
def whole(peer_process: PeerProcess) -> Any:
    """What PyG's own NeighborLoader gives of all neighbours of six nodes: nothing is left to chance."""
    return json.loads(peer_process("-c", WHOLE))


def taken(data: Any) -> MemoryGraph:
    """PyG's data as a graph of ours."""
    if isinstance(data, pyg_data.Data):
        nodes, edges = {"customer": data}, {KNOWS: data}
    else:
        nodes, edges = {n: data[n] for n in data.node_types}, {EdgeType(*key): data[key] for key in data.edge_types}
    return MemoryGraph(
        nodes={name: store.num_nodes for name, store in nodes.items()},
        edges={
            edge: EdgeList(
                *store.edge_index.numpy(),
                features={"edge_attr": store.edge_attr.numpy()} if "edge_attr" in store else {},
            )
            for edge, store in edges.items()
        },
        features={name: {"x": store.x.numpy()} for name, store in nodes.items() if "x" in store},
        targets={name: store.y.numpy() for name, store in nodes.items() if "y" in store},
    )


def rows(store: Any, *names: str) -> list[Any]:
    """The rows of some columns, sorted: PyG lists the neighbours of a node in no order of its own."""
    columns = [values.tolist() if isinstance(values := store[name], torch.Tensor) else values for name in names]
    return sorted(zip(*columns, strict=True))


def test_all_neighbours_are_those_of_neighbor_loader(whole: Any) -> None:
    for make, theirs in zip((peer.homogeneous, peer.heterogeneous), whole, strict=True):
        graph = taken(make())
        fanouts = (Fanout(edge, "IN", (-1, -1)) for edge in graph.edges)
        seeds = replace(all_seeds(graph, "customer"), query_order=np.arange(graph.nodes["customer"]))
        spec = sample_spec("customer", *fanouts, batch_size=6, order="IN ORDER")
        ours = open_stream(graph.view(), seeds, spec, threads=0)[0].to_pyg()
        for store in ours.stores:
            other = theirs[str(store._key)]
            if "x" in store:
                assert rows(store, "n_id", "x") == rows(other, "n_id", "x")
            if "e_id" in store:
                wanted = ("e_id", "edge_attr") if "edge_attr" in store else ("e_id",)
                assert rows(store, *wanted) == rows(other, *wanted)
            if "input_id" in store:
                size = store.batch_size
                assert (
                    store.input_id.tolist() == other["input_id"] == store.n_id[:size].tolist() == other["n_id"][:size]
                )
                assert store.y.tolist() == other["y"][:size]


def test_blocks_are_refused_with_the_way_out() -> None:
    graph, _ = homogeneous()
    spec = replace(sample_spec("customer", Fanout(KNOWS, "IN", (2, 3))), layout="BLOCKS")
    batch = open_stream(graph.view(), all_seeds(graph, "customer"), spec, threads=0)[0]
    with refused("not-for-pyg", "LAYOUT BLOCKS", "to_blocks", "LAYOUT NODES"):
        batch.to_pyg()


def test_nodes_without_x_have_their_number() -> None:
    graph, _ = homogeneous()
    batch = first_batch(replace(graph, features={}), Fanout(KNOWS, "IN", (2, 3)))
    assert batch.to_pyg().num_nodes == len(batch.only.n_id)


def test_trim_to_layer_takes_data_and_keeps_the_edges_of_the_blocks() -> None:
    _, batch = homogeneous()
    data = batch.to_pyg()
    x, edge_index = data.x, data.edge_index
    for layer, block in enumerate(batch.to_blocks()):
        x, edge_index, _ = pyg_utils.trim_to_layer(layer, data.num_sampled_nodes, data.num_sampled_edges, x, edge_index)
        assert torch.equal(edge_index, block.edge_index[KNOWS])
        assert len(x) == block.num_sources["customer"]


def test_trim_to_layer_takes_heterodata_and_keeps_the_edges_of_the_blocks() -> None:
    _, batch = heterogeneous()
    data = batch.to_pyg()
    x, edge_index = data.x_dict, data.edge_index_dict
    for layer, block in enumerate(batch.to_blocks()):
        x, edge_index, _ = pyg_utils.trim_to_layer(
            layer, data.num_sampled_nodes_dict, data.num_sampled_edges_dict, x, edge_index
        )
        for key, index in block.edge_index.items():
            assert torch.equal(edge_index[tuple(key)], index)
        assert {name: len(rows) for name, rows in x.items()} == block.num_sources


def test_messages_flow_to_the_seeds() -> None:
    _, batch = homogeneous()
    data = batch.to_pyg()
    conv = pyg.nn.SAGEConv(5, 3)
    assert conv(data.x, data.edge_index).shape == (len(batch.only.n_id), 3)
    assert int(data.edge_index[1].max()) < sum(data.num_sampled_nodes[:-1])


def test_without_pyg_the_error_says_how_to_get_it(fresh_process: FreshProcess) -> None:
    code = (
        "import sys; sys.modules['torch_geometric'] = None\n"
        "from tests.support.streams import stream\n"
        "from snapdb.errors import SnapdbError\n"
        "try: stream()[0].to_pyg()\n"
        "except SnapdbError as error: print(error)\n"
        "try: import snapdb.pyg\n"
        "except SnapdbError as error: print(error)\n"
    )
    done = fresh_process(code)
    assert done.stdout.count("pip install 'snapdb[pyg]'") == 2, done.stderr

"""`to_dgl()` gives DGL's own functions what a batch holds, under the names that DGL's loaders use."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from snapdb.loading import Batch
from snapdb.sampling import Seeds
from snapdb.types import Fanout, Link, Negatives, Temporal
from tests.support import dgl_stand_in as dgl
from tests.support.graphs import MemoryGraph, all_seeds, sample_spec, ties
from tests.support.processes import FreshProcess
from tests.support.refusals import refused
from tests.support.streams import BOUGHT, KNOWS, open_stream

FANOUTS = (Fanout(BOUGHT, "BOTH", (3, 2)), Fanout(KNOWS, "IN", (2, 2)))


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dgl", dgl)


def first(graph: MemoryGraph, *fanouts: Fanout, ids: str = "int64", **options: Any) -> Batch:
    spec = sample_spec("customer", *fanouts, batch_size=6, **options)
    return open_stream(graph.view(), all_seeds(graph, "customer"), spec, threads=0, ids=ids)[0]


def same(frame: dgl.Frame, **columns: torch.Tensor) -> None:
    for name, values in columns.items():
        assert torch.equal(frame[name], values), name


@pytest.mark.parametrize("ids", ["int32", "int64"])
def test_a_graph_has_the_batch_as_its_data(ids: str) -> None:
    batch = first(ties(), *FANOUTS, ids=ids)
    graph = batch.to_dgl()
    assert graph.idtype == getattr(torch, ids)
    assert set(graph.canonical_etypes) == {tuple(key) for key in batch.edge_index}
    for name, n_id in batch.n_id.items():
        same(graph.nodes[name].data, _ID=n_id, **batch.features[name])
        assert graph.num_nodes(name) == len(n_id)
    for key, index in batch.edge_index.items():
        assert torch.equal(torch.stack(graph.edges(etype=tuple(key))), index)
        same(graph.edges[tuple(key)].data, _ID=batch.e_id[key], **batch.edge_features[key])
        for name, columns in (("edge_time", batch.edge_time), ("edge_weight", batch.edge_weight)):
            assert (name in graph.edges[tuple(key)].data) == (key in columns)
    assert graph.edges[tuple(BOUGHT)].data["edge_weight"].dtype == torch.float32  # which layers multiply by
    seeds = graph.nodes["customer"].data
    assert torch.equal(seeds["input_id"][:6], batch.input_id)
    assert bool((seeds["input_id"][6:] == -1).all())
    assert batch.y is not None
    assert torch.equal(seeds["y"][:6], batch.y)
    assert "y" not in graph.nodes["product"].data


def test_one_type_of_each_is_homogeneous() -> None:
    graph = replace(ties(), edges={KNOWS: ties().edges[KNOWS]}, nodes={"customer": 30})
    batch = first(replace(graph, features={"customer": ties().features["customer"]}), Fanout(KNOWS, "IN", (2, 3)))
    made = batch.to_dgl()
    assert made.is_homogeneous
    same(made.ndata, _ID=batch.only.n_id, x=batch.only.x)
    same(made.edata, _ID=batch.only.e_id)


def test_blocks_are_those_of_dgls_loaders() -> None:
    batch = first(ties(), *FANOUTS, layout="BLOCKS")
    blocks = batch.to_dgl()
    assert len(blocks) == 2
    for block, flow in zip(blocks, batch.to_blocks(), strict=True):
        assert block.is_block
        for name in batch.n_id:
            count, width = flow.num_destinations[name], flow.num_sources[name]
            same(block.srcnodes[name].data, _ID=batch.n_id[name][:width])
            same(block.dstnodes[name].data, _ID=batch.n_id[name][:count])
        for key, index in flow.edge_index.items():
            assert torch.equal(torch.stack(block.edges(etype=tuple(key))), index)
    for key in batch.edge_index:
        parts = [block.edges[tuple(key)].data[dgl.EID] for block in reversed(blocks)]
        assert torch.equal(torch.cat(parts), batch.e_id[key])
    # A layer reads the sources of the next one.
    assert blocks[0].num_dst_nodes("customer") == blocks[1].num_src_nodes("customer")
    for name, features in batch.features.items():
        same(blocks[0].srcnodes[name].data, **features)
    assert batch.y is not None
    same(blocks[-1].dstnodes["customer"].data, y=batch.y, input_id=batch.input_id)
    assert "x" not in blocks[-1].dstnodes["customer"].data


def test_each_node_has_the_time_of_its_seed() -> None:
    graph = ties()
    seeds = replace(all_seeds(graph, "customer"), time=np.arange(30))
    temporal = Temporal(inclusive=True, within=None)
    spec = sample_spec("customer", *FANOUTS, batch_size=6, temporal=temporal)
    batch = open_stream(graph.view(), seeds, spec, threads=0)[0]
    assert batch.seed_time is not None
    for name, tree in batch.batch.items():
        same(batch.to_dgl().nodes[name].data, batch=tree, seed_time=batch.seed_time[tree])


def test_without_trees_only_seeds_have_a_time() -> None:
    graph = ties()
    seeds = replace(all_seeds(graph, "customer"), time=np.arange(30))
    batch = open_stream(graph.view(), seeds, sample_spec("customer", *FANOUTS, batch_size=6), threads=0)[0]
    times = batch.to_dgl().nodes["customer"].data["seed_time"]
    assert batch.seed_time is not None
    assert torch.equal(times[:6], batch.seed_time)
    assert times[6:].unique().tolist() == [-(2**63)]


def test_seed_edges_are_pairs_of_the_graphs_nodes() -> None:
    graph, ids = ties(), np.arange(6)
    ends = graph.edges[BOUGHT].source[ids], graph.edges[BOUGHT].destination[ids]
    seeds = Seeds("customer", ids, None, None, None, ends)
    link = Link(BOUGHT, Negatives(2, None, None), "PAIR")
    batch = open_stream(graph.view(), seeds, sample_spec("customer", *FANOUTS, batch_size=6, link=link), threads=0)[0]
    made = batch.to_dgl()
    assert batch.edge_label_index is not None
    source, destination = batch.edge_label_index[:, :6]
    assert made.nodes["customer"].data[dgl.NID][source].tolist() == ends[0][batch.input_id].tolist()
    assert made.nodes["product"].data[dgl.NID][destination].tolist() == ends[1][batch.input_id].tolist()
    assert "input_id" not in made.nodes["customer"].data


def test_columns_of_the_seeds_are_data_of_their_nodes() -> None:
    graph = ties()
    for name in ("late", "age"):
        seeds = replace(all_seeds(graph, "customer"), columns={name: np.arange(30) > 3})
        batch = open_stream(graph.view(), seeds, sample_spec("customer", *FANOUTS, batch_size=6), threads=0)[0]
        if name == "late":
            late = batch.to_dgl().nodes["customer"].data["late"]
            assert torch.equal(late[:6], batch.seed_columns["late"])
            assert not late[6:].any()
        else:
            with refused("duplicate-name", "'age'"):
                batch.to_dgl()


def test_without_dgl_the_error_names_the_page_of_its_versions(fresh_process: FreshProcess) -> None:
    code = (
        "import sys; sys.modules['dgl'] = None\n"
        "from tests.support.streams import stream\n"
        "from snapdb.errors import SnapdbError\n"
        "try: stream()[0].to_dgl()\n"
        "except SnapdbError as error: print(error.code, error)\n"
    )
    done = fresh_process(code)
    assert done.stdout.startswith("package-missing to_dgl() needs dgl, which is not installed: https://"), done.stderr

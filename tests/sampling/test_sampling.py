"""The sampler gives the oracle's batches, bit for bit, on every graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapdb.sampling import Seeds, Subgraph, epoch_order, numba_sampler, vertex_input
from snapdb.types import FULL, Direction, EdgeType, Fanout, SampleSpec
from tests.support import oracle
from tests.support.graphs import EdgeList, MemoryGraph, agreed, all_seeds, sample_spec, ties
from tests.support.inside.sampling import _LIMIT
from tests.support.refusals import refused
from tests.support.thoroughness import examples

BOUGHT = EdgeType("customer", "bought", "product")
KNOWS = EdgeType("customer", "knows", "customer")
COUNTS = st.sampled_from([0, 1, 2, 3, 5, 64, 65, 130, 1500, FULL])


def same_as_oracle(graph: MemoryGraph, spec: SampleSpec, seeds: list[int], batch: int) -> Subgraph:
    """Samples, and compares with the oracle."""
    return agreed(graph.view(), graph.oracle(), spec, seeds, batch)


@st.composite
def edge_lists(draw: st.DrawFn, sources: int, destinations: int) -> EdgeList:
    """Random ends with many parallel edges and self loops, or one hub."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(0, 60))
    source, destination = rng.integers(0, sources, count), rng.integers(0, destinations, count)
    hub = draw(st.sampled_from([0, 0, 0, 64, 65, 66, 140]))
    source = np.concatenate([source, rng.integers(0, sources, hub)])
    destination = np.concatenate([destination, np.full(hub, rng.integers(0, destinations))])
    time = rng.integers(-3, 4, source.size) if draw(st.booleans()) else None
    return EdgeList(source.astype(np.int64), destination.astype(np.int64), time)


@st.composite
def cases(draw: st.DrawFn) -> tuple[MemoryGraph, SampleSpec, list[int], int]:
    """A graph of two vertex and up to three edge types, a sampler over some of them, seeds, a batch number."""
    nodes = {"customer": draw(st.integers(1, 12)), "product": draw(st.integers(1, 12))}
    types = draw(
        st.lists(st.sampled_from([BOUGHT, KNOWS, EdgeType("product", "like", "product")]), unique=True, max_size=3)
    )
    edges = {e: draw(edge_lists(nodes[e.source], nodes[e.destination])) for e in types}
    hops = draw(st.integers(1, 3))
    directions: st.SearchStrategy[Direction] = st.sampled_from(["IN", "OUT", "BOTH"])
    fanouts = [
        Fanout(e, draw(directions), tuple(draw(COUNTS) for _ in range(hops))) for e in draw(st.permutations(types))
    ]
    seed_type = draw(st.sampled_from(sorted(nodes)))
    seeds = draw(st.lists(st.integers(0, nodes[seed_type] - 1), unique=True, max_size=6))
    timed = all(f.direction != "BOTH" for f in fanouts)
    before = draw(st.sampled_from([None, 0, 2])) if timed else None
    graph = MemoryGraph(nodes, edges, before=before, indices=draw(st.sampled_from([np.int32, np.int64])))
    spec = sample_spec(seed_type, *fanouts, seed=draw(st.integers(0, 2**64 - 1)))
    return graph, spec, seeds, draw(st.integers(0, 2**40))


@settings(max_examples=examples(300), deadline=None)
@given(cases())
def test_every_batch_is_the_oracles(case: tuple[MemoryGraph, SampleSpec, list[int], int]) -> None:
    same_as_oracle(*case)


@pytest.mark.parametrize("degree", [1, 63, 64, 65, 127, 128, 129, 1023, 1025, 3000])
@pytest.mark.parametrize("fanout", [0, 1, 15, 63, 64, 65, 128, 129, 1024, 1025, FULL])
def test_hubs_of_every_size_give_the_oracles_draws(degree: int, fanout: int) -> None:
    hub = EdgeList(np.arange(degree, dtype=np.int64), np.zeros(degree, np.int64))
    graph = MemoryGraph({"customer": 3000}, {KNOWS: hub})
    found = same_as_oracle(graph, sample_spec("customer", Fanout(KNOWS, "IN", (fanout,))), [0, 2], batch=7)
    assert len(found.hops[0][0].position) == (degree if fanout == FULL else min(degree, fanout))


def test_frontiers_longer_than_a_block_give_the_oracles_draws() -> None:
    rng = np.random.default_rng(3)
    edges = EdgeList(rng.integers(0, 400, 3000), rng.integers(0, 400, 3000))
    spec = sample_spec("customer", Fanout(KNOWS, "BOTH", (3, 4)))
    same_as_oracle(MemoryGraph({"customer": 400}, {KNOWS: edges}), spec, list(range(0, 400, 2)), batch=3)


def test_a_scratch_that_was_used_before_changes_nothing() -> None:
    graph, spec = ties(), sample_spec("customer", Fanout(BOUGHT, "OUT", (2, 2, 2)), Fanout(KNOWS, "IN", (2, 2, 2)))
    sampler = numba_sampler(graph.view(), spec)
    used = sampler.scratch()
    for batch in range(50):
        sampler.sample(vertex_input(sampler.spec.seed_type, np.arange(batch % 30, dtype=np.int64)), batch, used)
    again = sampler.sample(vertex_input(sampler.spec.seed_type, np.array([5, 3])), 9, used)
    fresh = sampler.sample(vertex_input(sampler.spec.seed_type, np.array([5, 3])), 9, sampler.scratch())
    assert all(np.array_equal(again.edges[r].index, fresh.edges[r].index) for r in sampler.relations)
    assert all(np.array_equal(again.nodes[t], fresh.nodes[t]) for t in sampler.node_types)


@pytest.mark.parametrize("left", [0, 3, 12, 20, 45])
def test_stamps_that_run_out_in_a_batch_change_nothing(left: int) -> None:
    graph, spec = ties(), sample_spec("customer", Fanout(BOUGHT, "BOTH", (2, 2, 2)), Fanout(KNOWS, "IN", (2, 2, 2)))
    sampler = numba_sampler(graph.view(), spec)
    worn = sampler.scratch()
    for nodes in worn.nodes.values():
        nodes.base = _LIMIT - left
    for batch in range(3):
        seeds = np.array([5, 3, 20], np.int64)
        entry = vertex_input(sampler.spec.seed_type, seeds)
        again, fresh = sampler.sample(entry, batch, worn), sampler.sample(entry, batch, sampler.scratch())
        assert all(np.array_equal(again.edges[r].index, fresh.edges[r].index) for r in sampler.relations)
        assert all(np.array_equal(again.nodes[t], fresh.nodes[t]) for t in sampler.node_types)


def test_blocks_are_views_of_the_edges_of_their_relation() -> None:
    sampler = numba_sampler(ties().view(), sample_spec("customer", Fanout(KNOWS, "IN", (3, 3))))
    found = sampler.sample(vertex_input(sampler.spec.seed_type, np.arange(4)), 0, sampler.scratch())
    (relation,) = sampler.relations
    joined = np.concatenate([hop[0].neighbor for hop in found.hops])
    assert np.array_equal(joined, found.edges[relation].index[0])
    assert all(np.shares_memory(hop[0].position, found.edges[relation].position) for hop in found.hops)


def test_each_part_of_the_pick_key_changes_the_draw() -> None:
    near, far = np.repeat(np.arange(3, dtype=np.int64), 500), np.full(1500, 3, np.int64)
    hubs = EdgeList(np.concatenate([near, far, [1]]), np.concatenate([far, near, [2]]))  # 1 → 2, and hubs both ways
    follows = EdgeType("customer", "follows", "customer")
    view = MemoryGraph({"customer": 4}, {KNOWS: hubs, follows: hubs}).view()

    def picks(
        edge: EdgeType = KNOWS, direction: Direction = "IN", seed: int = 1, batch: int = 1, node: int = 0
    ) -> tuple[int, ...]:
        sampler = numba_sampler(view, sample_spec("customer", Fanout(edge, direction, (9,)), seed=seed))
        position = (
            sampler.sample(vertex_input(sampler.spec.seed_type, np.array([node])), batch, sampler.scratch())
            .hops[0][0]
            .position
        )
        return tuple((position - view.adjacency(sampler.relations[0]).rows.indptr[node]).tolist())

    changed = [picks(follows), picks(direction="OUT"), picks(seed=2), picks(batch=2), picks(node=1)]
    assert len({picks(), *changed}) == 6


def test_the_hop_changes_the_draw() -> None:
    chain = EdgeList(np.array([1, *range(2, 502)]), np.array([0] + [1] * 500))
    sampler = numba_sampler(
        MemoryGraph({"customer": 502}, {KNOWS: chain}).view(), sample_spec("customer", Fanout(KNOWS, "IN", (9, 9)))
    )
    second = sampler.sample(vertex_input(sampler.spec.seed_type, np.array([0])), 0, sampler.scratch()).hops[1][0]
    first = sampler.sample(vertex_input(sampler.spec.seed_type, np.array([1])), 0, sampler.scratch()).hops[0][0]
    assert len(first.position) == len(second.position) == 9
    assert first.position.tolist() != second.position.tolist()


def test_two_fanouts_for_one_key_of_the_batch_are_refused() -> None:
    spec = sample_spec("customer", Fanout(BOUGHT, "IN", (1,)), Fanout(BOUGHT, "BOTH", (1,)))
    with refused("duplicate-fanout"):
        numba_sampler(ties().view(), spec)


def test_a_negative_fanout_is_refused() -> None:
    with pytest.raises(ValueError, match="found -2"):
        numba_sampler(ties().view(), sample_spec("customer", Fanout(BOUGHT, "IN", (-2,))))


def test_seeds_of_an_unknown_type_are_refused() -> None:
    with pytest.raises(ValueError, match="the snapshot has: customer, product"):
        numba_sampler(ties().view(), sample_spec("shop", Fanout(BOUGHT, "IN", (1,))))


@pytest.mark.parametrize("seeds", [[-1], [3, 30]])
def test_seeds_outside_the_snapshot_are_refused(seeds: list[int]) -> None:
    sampler = numba_sampler(ties().view(), sample_spec("customer", Fanout(KNOWS, "IN", (1,))))
    with pytest.raises(IndexError, match="0 ≤ id < 30"):
        sampler.sample(vertex_input(sampler.spec.seed_type, np.array(seeds)), 0, sampler.scratch())


def test_the_shuffle_is_the_oracles() -> None:
    seeds = Seeds("customer", np.arange(1000), None, None)
    for epoch in range(3):
        assert epoch_order(seeds, 42, epoch, "SHUFFLE").tolist() == oracle.seed_order(1000, 42, epoch)


def test_fixed_keeps_the_shuffle_of_epoch_0() -> None:
    seeds = Seeds("customer", np.arange(100), None, None)
    first = epoch_order(seeds, 42, 0, "SHUFFLE")
    assert np.array_equal(epoch_order(seeds, 42, 5, "FIXED"), first)
    assert not np.array_equal(epoch_order(seeds, 42, 5, "SHUFFLE"), first)


def test_in_order_takes_the_order_of_the_query() -> None:
    seeds = all_seeds(ties(), "customer")
    assert epoch_order(seeds, 42, 3, "IN ORDER").tolist() == list(range(29, -1, -1))


def test_in_order_without_a_query_order_is_refused() -> None:
    with pytest.raises(ValueError, match="no query order"):
        epoch_order(Seeds("customer", np.arange(3), None, None), 42, 0, "IN ORDER")

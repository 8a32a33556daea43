"""Every method on graphs so small that what it must draw can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import pytest

from snapdb.sampling import ExcludedEdges, SamplerInput, SeedGroup, Subgraph, numba_sampler, open_sampler, vertex_input
from snapdb.types import FULL, Backend, Direction, Drawing, EdgeType, Fanout, Link, Relation, SampleSpec, Temporal
from tests.support import oracle
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec, ties
from tests.support.inside.graph import EdgeColumn
from tests.support.inside.kernels import plain_array
from tests.support.refusals import refused

KNOWS = EdgeType("person", "knows", "person")
ALWAYS, FOR_EVER = oracle.ALWAYS, oracle.OPEN
PLAIN = Drawing()
WEIGHTS = (("knows", "w"),)
ET = oracle.type_hash(KNOWS, "IN")


def star(
    size: int,
    *,
    time: Sequence[int] | None = None,
    weight: Sequence[float] | None = None,
    until: Sequence[int] | None = None,
    born: Sequence[int] | None = None,
) -> MemoryGraph:
    """Persons 1, 2, … know person 0: edge i comes from person i + 1."""
    edges = EdgeList(
        np.arange(1, size + 1),
        np.zeros(size, np.int64),
        None if time is None else np.array(time, np.int64),
        None if weight is None else np.array(weight, np.float64),
        until=None if until is None else np.array(until, np.int64),
    )
    births = {} if born is None else {"person": np.array(born, np.int64)}
    return MemoryGraph({"person": size + 1}, {KNOWS: edges}, born=births)


def spec(*counts: int, direction: Direction = "IN", drawing: Drawing = PLAIN, **further: Any) -> SampleSpec:
    """A statement that traversals the one edge type."""
    return sample_spec("person", Fanout(KNOWS, direction, counts), drawing=drawing, **further)


def drawn(
    graph: MemoryGraph,
    asked: SampleSpec,
    seeds: Sequence[int] = (0,),
    times: Sequence[int] | None = None,
    batch: int = 7,
) -> Subgraph:
    """One batch of vertices."""
    sampler = numba_sampler(graph.view(), asked)
    at = None if times is None else np.array(times, np.int64)
    return sampler.sample(vertex_input("person", np.array(seeds, np.int64), times=at), batch, sampler.scratch())


def edges(graph: MemoryGraph, asked: SampleSpec, *args: Any, **further: Any) -> list[int]:
    """The ids of the edges that one batch draws, in emission order."""
    found = drawn(graph, asked, *args, **further)
    (relation,) = found.edges
    ids: list[int] = graph.view().adjacency(relation).edge_id.read(found.edges[relation].position).tolist()
    return ids


def hashes(count: int, hop: int = 0, batch: int = 7) -> list[int]:
    """The hash keys of the first edges of person 0."""
    return [oracle.key(42, oracle.HASH, batch, hop, ET, 0, edge) for edge in range(count)]


# By rank


def test_with_replacement_each_draw_is_for_itself() -> None:
    key = oracle.pick_key(42, 7, 0, ET, 0)
    wanted = [oracle.below(oracle.draw(key, j), 5) for j in range(4)]
    assert edges(star(5), spec(4, drawing=Drawing(replace=True))) == wanted


def test_with_replacement_a_row_no_longer_than_the_fanout_comes_once() -> None:
    assert edges(star(5), spec(5, drawing=Drawing(replace=True))) == [0, 1, 2, 3, 4]


def test_latest_takes_the_greatest_time_and_edge_id() -> None:
    graph = star(6, time=[3, 9, 1, 9, 9, 2])
    assert edges(graph, spec(2, drawing=Drawing("LATEST"))) == [3, 4]
    assert edges(graph, spec(4, drawing=Drawing("LATEST"))) == [0, 1, 3, 4]
    assert edges(star(6), spec(2, drawing=Drawing("LATEST"))) == [4, 5]


def test_latest_both_ways_looks_at_edges_in_and_out_together() -> None:
    listed = EdgeList.of([(1, 0), (2, 0), (0, 3), (0, 4), (0, 0)], time=[5, 1, 4, 2, 3])
    graph = MemoryGraph({"person": 5}, {KNOWS: listed})
    assert edges(graph, spec(3, direction="BOTH", drawing=Drawing("LATEST"))) == [
        4,
        0,
        2,
    ]  # of the loop only the way in
    assert edges(graph, spec(4, direction="BOTH", drawing=Drawing("LATEST"))) == [4, 0, 4, 2]


def test_full_takes_what_counts_would_cut() -> None:
    assert edges(star(6), spec(2, drawing=Drawing("FULL"))) == [0, 1, 2, 3, 4, 5]
    assert edges(star(6), spec(0, drawing=Drawing("FULL"))) == []


# By weight


def test_topk_takes_the_greatest_weight_and_edge_id_of_any_sign() -> None:
    topk = Drawing("TOPK", weights=WEIGHTS, weighted=True)
    graph = star(6, weight=[-1.0, 0.0, -5.0, -0.0, 2.0, -1.0])
    assert edges(graph, spec(1, drawing=topk)) == [4]
    assert edges(graph, spec(2, drawing=topk)) == [3, 4]
    assert edges(graph, spec(4, drawing=topk)) == [1, 3, 4, 5]


def test_the_race_goes_by_length_over_weight() -> None:
    weight = [1.0, 8.0, 0.25, 3.0, 1.5, 2.0]
    lengths = [oracle.race_length(oracle.u32(key)) / w for key, w in zip(hashes(6), weight, strict=True)]
    wanted = sorted(np.argsort(lengths)[:3].tolist())
    assert edges(star(6, weight=weight), spec(3, drawing=Drawing(weights=WEIGHTS, weighted=True))) == wanted


BY_WEIGHT = {
    "weight by": Drawing(weights=WEIGHTS, weighted=True),
    "with replacement": Drawing(replace=True, weights=WEIGHTS, weighted=True),
    "priority": Drawing("PRIORITY", weights=WEIGHTS, weighted=True),
}


@pytest.mark.parametrize("backend", get_args(Backend))
@pytest.mark.parametrize("asked", BY_WEIGHT.values(), ids=BY_WEIGHT)
def test_an_edge_of_weight_0_is_never_drawn_whatever_the_fanout(asked: Drawing, backend: Backend) -> None:
    graph = star(5, weight=[0.0, 1.0, -0.0, 2.0, 0.0])
    for count in (2, 3, 4, 5, 9):
        sampler = open_sampler(graph.view(), spec(count, drawing=asked, backend=backend))
        (found,) = sampler.sample(vertex_input("person", np.array([0])), 7, sampler.scratch()).edges.values()
        assert found.position.tolist() == [1, 3]
        assert found.weight is None or found.weight.tolist() == [1.0, 1.0]
    nothing = open_sampler(star(5, weight=[0.0] * 5).view(), spec(3, 3, drawing=asked, backend=backend))
    drawn_of = nothing.sample(vertex_input("person", np.array([0])), 7, nothing.scratch())
    assert [found.position.size for found in drawn_of.edges.values()] == [0]
    assert drawn_of.nodes["person"].tolist() == [0]


@pytest.mark.parametrize("asked", BY_WEIGHT.values(), ids=BY_WEIGHT)
def test_full_fanouts_and_topk_take_edges_of_weight_0(asked: Drawing) -> None:
    graph = star(4, weight=[0.0, 1.0, 0.0, 2.0])
    assert edges(graph, spec(FULL, drawing=asked)) == [0, 1, 2, 3]
    topk = Drawing("TOPK", weights=WEIGHTS, weighted=True)
    assert edges(graph, spec(3, drawing=topk)) == [1, 2, 3]
    assert edges(graph, spec(5, drawing=topk)) == [0, 1, 2, 3]


def test_only_a_hop_that_takes_a_number_of_edges_skips_those_of_weight_0() -> None:
    graph, asked = star(3, weight=[0.0, 1.0, 2.0]), BY_WEIGHT["weight by"]
    skips = [
        numba_sampler(graph.view(), spec(*counts, drawing=asked)).traversals[0].skips_zeros
        for counts in ((FULL, 2), (FULL, 0))
    ]
    assert skips == [True, False]
    assert not numba_sampler(star(2, weight=[1.0, 2.0]).view(), spec(2, drawing=asked)).traversals[0].skips_zeros
    assert (
        not numba_sampler(graph.view(), spec(2, drawing=Drawing("TOPK", weights=WEIGHTS, weighted=True)))
        .traversals[0]
        .skips_zeros
    )


@pytest.mark.parametrize("asked", BY_WEIGHT.values(), ids=BY_WEIGHT)
def test_lineages_without_a_record_of_it_draw_edges_of_weight_0_where_all_are_taken(asked: Drawing) -> None:
    graph, old = star(5, weight=[0.0, 1.0, 0.0, 2.0, 0.0]), replace(asked, zero_weight="WITH ALL")
    assert edges(graph, spec(5, drawing=old)) == [0, 1, 2, 3, 4]
    assert set(edges(graph, spec(4, drawing=old))) <= {1, 3}
    assert not numba_sampler(graph.view(), spec(5, drawing=old)).traversals[0].skips_zeros


def test_draws_with_replacement_fall_on_sums_of_weights() -> None:
    weight = [1.0, 0.0, 3.0, 1.0, 0.0]
    sums = np.cumsum([round(w / 3 * 2**32) for w in weight]).tolist()
    key = oracle.pick_key(42, 7, 0, ET, 0)
    bars = [oracle.below(oracle.draw(key, j), sums[-1]) for j in range(2)]
    wanted = [next(i for i, bound in enumerate(sums) if bound > bar) for bar in bars]
    asked = Drawing(replace=True, weights=WEIGHTS, weighted=True)
    assert edges(star(5, weight=weight), spec(2, drawing=asked)) == wanted
    assert not {1, 4} & set(wanted)
    assert edges(star(5, weight=weight), spec(3, drawing=asked)) == [0, 2, 3]  # no more than these weigh something


def test_where_only_weightless_edges_are_in_time_none_is_drawn() -> None:
    graph = star(4, time=[1, 2, 3, 9], weight=[0.0, 0.0, 0.0, 1.0])
    for replaced in (False, True):
        asked = Drawing(replace=replaced, weights=WEIGHTS, weighted=True)
        early = spec(2, drawing=asked, temporal=Temporal(False, None))
        assert edges(graph, early, times=[5]) == []
        assert edges(graph, early, times=[3]) == []


def test_priority_weighs_each_edge_by_one_over_its_chance() -> None:
    weight = [1.0, 8.0, 0.25, 3.0, 1.5]
    scores = [(oracle.u32(key) + 0.5) / w for key, w in zip(hashes(5), weight, strict=True)]
    asked = spec(2, drawing=Drawing("PRIORITY", weights=WEIGHTS, weighted=True))
    graph = star(5, weight=weight)
    chosen, limit = sorted(np.argsort(scores)[:2].tolist()), sorted(scores)[2]
    assert edges(graph, asked) == chosen
    (found,) = drawn(graph, asked).edges.values()
    assert found.weight.tolist() == [1 / min(1.0, weight[edge] * limit / 2**32) for edge in chosen]


def test_priority_weighs_what_comes_anyway_as_itself() -> None:
    asked = Drawing("PRIORITY", weights=WEIGHTS, weighted=True)
    for graph, count in ((star(3, weight=[1.0, 0.0, 2.0]), 3), (star(4, weight=[0.0, 1.0, 0.0, 2.0]), 2)):
        (found,) = drawn(graph, spec(count, drawing=asked)).edges.values()
        assert found.weight.tolist() == [1.0] * 2
    (found,) = drawn(star(3, weight=[1.0, 0.0, 2.0]), spec(FULL, drawing=asked)).edges.values()
    assert found.weight.tolist() == [1.0] * 3


def test_an_edge_type_that_is_not_weighed_draws_as_if_all_weights_were_one() -> None:
    lengths = [oracle.race_length(oracle.u32(key)) for key in hashes(6)]
    wanted = sorted(np.argsort(lengths)[:2].tolist())
    graph = star(6, weight=[9.0, 1.0, 5.0, 0.0, 2.0, 1.0])
    assert edges(graph, spec(2, drawing=Drawing(weights=(("likes", "w"),), weighted=True))) == wanted


def test_weights_by_edge_id_stand_in_for_the_graphs_own() -> None:
    topk = Drawing("TOPK", weights=WEIGHTS, weighted=True)
    graph = replace(star(4, weight=[9.0, 1.0, 1.0, 1.0]), weights={"knows": np.array([0.0, 3.0, 7.0, 5.0])})
    assert edges(graph, spec(2, drawing=topk)) == [2, 3]


# By hash


def test_bottomk_takes_the_smallest_hashes_of_edges() -> None:
    wanted = sorted(np.argsort(np.array(hashes(9), np.uint64))[:4].tolist())
    assert edges(star(9), spec(4, drawing=Drawing("BOTTOMK"))) == wanted


def test_labor_draws_a_neighbour_alike_for_all_who_have_it() -> None:
    sources, destinations = np.arange(2, 10).tolist() * 2, [0] * 8 + [1] * 8
    pairs = list(zip(sources, destinations, strict=True))
    graph = MemoryGraph({"person": 10}, {KNOWS: EdgeList.of(pairs)})
    score = {node: oracle.key(42, oracle.HASH, 7, 0, node) for node in range(2, 10)}
    wanted = sorted(sorted(score, key=lambda node: score[node])[:3])
    found = drawn(graph, spec(3, drawing=Drawing("LABOR")), seeds=[0, 1])
    ends = found.nodes["person"][found.edges[next(iter(found.edges))].index[0]]
    assert ends.tolist() == wanted * 2


def test_labors_draws_last_for_as_many_batches_as_depend_on_each_other() -> None:
    graph = star(400)
    by_batch = [set(edges(graph, spec(100, drawing=Drawing("LABOR", dependent=4)), batch=b)) for b in range(9)]
    stay = [len(by_batch[0] & later) for later in by_batch]
    assert stay[0] == 100
    assert all(before > after for before, after in pairwise(stay[:5]))  # a quarter is drawn anew
    assert max(stay[4:]) < 45  # by chance alone it is 25


# In time


@pytest.mark.parametrize(
    ("inclusive", "within", "wanted"),
    [(False, None, [4, 0, 1, 2]), (True, None, [4, 0, 1, 2, 3]), (False, 2, [4, 1, 2]), (True, 2, [4, 1, 2, 3])],
)
def test_a_tree_sees_what_was_before_its_seed(inclusive: bool, within: int | None, wanted: list[int]) -> None:
    graph = star(6, time=[1, 3, 4, 5, ALWAYS, 6])
    assert edges(graph, spec(FULL, temporal=Temporal(inclusive, within)), times=[5]) == wanted
    assert edges(graph, spec(FULL, temporal=Temporal(inclusive, within)), times=[FOR_EVER])[0] == 4
    assert edges(graph, spec(FULL, temporal=Temporal(inclusive, within)), times=[ALWAYS]) == [4]


@pytest.mark.parametrize(
    ("inclusive", "within", "wanted"),
    [(False, None, [3, 1, 2]), (True, None, [3, 1]), (False, 2, [3, 1, 2]), (True, 3, [3, 0, 1, 2])],
)
def test_edges_that_end_are_seen_while_they_last(inclusive: bool, within: int | None, wanted: list[int]) -> None:
    graph = star(4, time=[1, 1, 2, ALWAYS], until=[3, FOR_EVER, 5, 0])
    assert edges(graph, spec(FULL, temporal=Temporal(inclusive, within)), times=[5]) == wanted


def test_neighbours_must_be_born_before_what_a_tree_sees_ends() -> None:
    graph = star(3, born=[ALWAYS, 4, 5, 6])
    assert edges(graph, spec(FULL, temporal=Temporal(False, None)), times=[5]) == [0]
    assert edges(graph, spec(FULL, temporal=Temporal(True, None)), times=[5]) == [0, 1]
    assert edges(graph, spec(FULL)) == [0, 1, 2]  # without times all are there


def test_ranks_count_what_is_in_time() -> None:
    graph = star(100, time=[ALWAYS] * 10 + list(range(90)))
    asked = spec(5, temporal=Temporal(False, 20))
    place = oracle.key(42, oracle.PICK, 7, 0, ET, 0, 0)
    eligible = [*range(10), *range(40, 60)]  # without a time, and 30 ≤ time < 50
    assert edges(graph, asked, times=[50]) == [eligible[rank] for rank in oracle.floyd(place, 30, 5)]


def test_trees_share_no_nodes_and_draw_each_for_itself() -> None:
    graph = star(50, time=[0] * 50)
    found = drawn(graph, spec(3, temporal=Temporal(False, None)), seeds=[0, 0], times=[5, 5])
    assert found.trees is not None
    assert found.nodes["person"][:2].tolist() == [0, 0]
    assert [ids.tolist() for ids in found.entered] == [[0, 1]]
    (block,) = found.edges.values()
    assert found.trees["person"][block.index[0]].tolist() == found.trees["person"][block.index[1]].tolist()
    near = [found.nodes["person"][block.index[0][block.index[1] == seed]].tolist() for seed in (0, 1)]
    assert near[0] != near[1]  # the ordinal is in the key


def test_hashes_do_not_depend_on_the_tree() -> None:
    graph = star(50, time=[0] * 50)
    asked = spec(3, drawing=Drawing("BOTTOMK"), temporal=Temporal(False, None))
    ids = edges(graph, asked, seeds=[0, 0], times=[5, 5])
    assert ids[:3] == ids[3:] == edges(graph, spec(3, drawing=Drawing("BOTTOMK")))


def test_a_batch_of_trees_grows_its_memory_and_forgets_it() -> None:
    rng = np.random.default_rng(1)
    listed = EdgeList(rng.integers(0, 300, 9000), rng.integers(0, 300, 9000), rng.integers(0, 9, 9000))
    sampler = numba_sampler(
        MemoryGraph({"person": 300}, {KNOWS: listed}).view(), spec(7, 7, temporal=Temporal(True, 5))
    )
    used = sampler.scratch()
    for count in (2, 500, 3):
        entry = vertex_input("person", np.arange(count) % 300, times=np.full(count, 8))
        again, fresh = sampler.sample(entry, 3, used), sampler.sample(entry, 3, sampler.scratch())
        (old,), (new,) = again.edges.values(), fresh.edges.values()
        assert np.array_equal(old.index, new.index)
        assert np.array_equal(old.position, new.position)
        assert again.trees is not None
        pairs = set(zip(again.trees["person"].tolist(), again.nodes["person"].tolist(), strict=True))
        assert len(pairs) == again.nodes["person"].size


def test_seeds_without_times_are_refused_where_time_bounds() -> None:
    with pytest.raises(ValueError, match="needs the times of seeds; add a column seed_time to SEEDS"):
        drawn(star(3, time=[1, 2, 3]), spec(2, temporal=Temporal(False, None)))


# Who enters


def test_a_vertex_that_is_a_seed_twice_is_expanded_twice() -> None:
    listed = EdgeList.of([(1, 0), (0, 1)])
    found = drawn(MemoryGraph({"person": 2}, {KNOWS: listed}), spec(1, 1), seeds=[0, 1, 0])
    assert found.nodes["person"].tolist() == [0, 1, 0]
    assert [ids.tolist() for ids in found.entered] == [[0, 1, 2]]
    (block,) = found.edges.values()
    assert block.index.tolist() == [[1, 0, 1], [0, 1, 2]]  # edges lead to the first copy
    assert found.nodes_per_hop["person"] == (3, 0, 0)


def test_more_seeds_than_vertices_fit() -> None:
    seeds = [0, 1] * 40
    found = drawn(MemoryGraph({"person": 2}, {KNOWS: EdgeList.of([(1, 0)])}), spec(1), seeds=seeds)
    assert found.nodes["person"].tolist() == seeds


def test_ends_of_seed_edges_enter_once_and_negatives_last() -> None:
    link = Link(KNOWS, None, "NONE")
    groups = [([3, 1], [0, 1]), ([1, 4], [0, 1]), ([4, 5], [1, 1])]
    entry = SamplerInput(tuple(SeedGroup("person", np.array(i), np.array(t)) for i, t in groups), np.arange(2))
    sampler = numba_sampler(star(6).view(), spec(2, link=link))
    found = sampler.sample(entry, 0, sampler.scratch())
    assert found.nodes["person"].tolist() == [3, 1, 4, 5]
    assert [ids.tolist() for ids in found.entered] == [[0, 1], [1, 2], [2, 3]]


def test_in_trees_the_ends_of_a_seed_edge_and_its_negatives_share_one() -> None:
    groups = [([3, 1], [0, 1]), ([1, 3], [0, 1]), ([3, 5], [0, 1])]
    entry = SamplerInput(
        tuple(SeedGroup("person", np.array(i), np.array(t)) for i, t in groups), np.arange(2), np.array([1, 1])
    )
    sampler = numba_sampler(star(6).view(), spec(2, link=Link(KNOWS, None, "NONE"), temporal=Temporal(False, None)))
    found = sampler.sample(entry, 0, sampler.scratch())
    assert found.trees is not None
    assert found.nodes["person"].tolist() == [3, 1, 1, 3, 5]
    assert found.trees["person"].tolist() == [0, 1, 0, 1, 1]
    assert [ids.tolist() for ids in found.entered] == [[0, 1], [2, 3], [0, 4]]


@pytest.mark.parametrize(
    ("ids", "trees", "text"),
    [
        ([7], [0], "dense ids of seeds of group 1, of type person, must be 0 ≤ id < 7, found 7 to 7"),
        ([-1], [0], "found -1 to -1"),
        ([1], [1], "trees of seeds of group 1, of type person, must be 0 ≤ id < 1, found 1 to 1"),
    ],
)
def test_who_is_not_in_the_snapshot_cannot_enter(ids: list[int], trees: list[int], text: str) -> None:
    groups = (SeedGroup("person", np.array([0]), np.array([0])), SeedGroup("person", np.array(ids), np.array(trees)))
    sampler = numba_sampler(star(6).view(), spec(2, link=Link(KNOWS, None, "NONE")))
    with pytest.raises(IndexError, match=text):
        sampler.sample(SamplerInput(groups, np.arange(1)), 0, sampler.scratch())


# What is left out


def link_entry(pair: tuple[int, int], times: list[int] | None = None) -> SamplerInput:
    """A seed edge that must not be seen."""
    source, destination = (np.array([end]) for end in pair)
    tree = np.zeros(1, np.int64)
    groups = (SeedGroup("person", source, tree), SeedGroup("person", destination, tree))
    at = None if times is None else np.array(times)
    return SamplerInput(groups, tree, at, ExcludedEdges(KNOWS, source, destination, tree))


def seen(graph: MemoryGraph, asked: SampleSpec, entry: SamplerInput) -> set[int]:
    sampler = numba_sampler(graph.view(), asked)
    (relation,) = sampler.relations
    found = sampler.sample(entry, 0, sampler.scratch()).edges[relation]
    return set(graph.view().adjacency(relation).edge_id.read(found.position).tolist())


@pytest.mark.parametrize("direction", ["IN", "OUT", "BOTH"])
def test_parallel_copies_of_a_seed_edge_are_left_out_whichever_way_they_are_walked(direction: Direction) -> None:
    graph = MemoryGraph({"person": 3}, {KNOWS: EdgeList.of([(1, 0), (2, 0), (1, 0), (0, 1), (1, 2)])})
    asked = spec(FULL, FULL, direction=direction, link=Link(KNOWS, None, "PAIR"))
    found = seen(graph, asked, link_entry((1, 0)))
    assert not found & {0, 2}
    assert 3 in found  # the way back is not the seed


def test_a_tree_is_kept_from_its_own_pair_from_its_time_on() -> None:
    graph = MemoryGraph({"person": 3}, {KNOWS: EdgeList.of([(1, 0)] * 3 + [(2, 0)], time=[3, 4, 5, 4])})
    link = Link(KNOWS, None, "PAIR")
    assert seen(graph, spec(FULL, link=link, temporal=Temporal(True, None)), link_entry((1, 0), [4])) == {0, 3}
    assert seen(graph, spec(FULL, link=link, temporal=Temporal(False, None)), link_entry((1, 0), [4])) == {0}


def test_ranks_count_what_is_not_left_out() -> None:
    sources = np.concatenate([np.arange(1, 41), np.full(10, 50)])
    graph = MemoryGraph({"person": 51}, {KNOWS: EdgeList(sources, np.zeros(50, np.int64))})
    sampler = numba_sampler(graph.view(), spec(5, link=Link(KNOWS, None, "PAIR")))
    found = sampler.sample(link_entry((50, 0)), 7, sampler.scratch())
    (block,) = found.edges.values()
    wanted = oracle.floyd(oracle.pick_key(42, 7, 0, ET, 0), 40, 5)
    assert found.nodes["person"][block.index[0]].tolist() == [rank + 1 for rank in wanted]


# Layouts


def test_blocks_expand_all_that_was_met_and_nodes_only_what_is_new() -> None:
    chain = MemoryGraph({"person": 4}, {KNOWS: EdgeList.of([(1, 0), (2, 1), (3, 2)])})
    for layout, counts in (("NODES", [1, 1, 1]), ("BLOCKS", [1, 2, 3])):
        found = drawn(chain, spec(1, 1, 1, layout=layout))
        assert [hop[0].position.size for hop in found.hops] == counts
        assert found.nodes_per_hop["person"] == (1, 1, 1, 1)


def test_reused_hops_draw_the_same_again() -> None:
    graph = star(50)
    again = drawn(graph, spec(3, 3, layout="BLOCKS", reuse_hops=True))
    assert again.hops[0][0].position.tolist() == again.hops[1][0].position.tolist()
    fresh = drawn(graph, spec(3, 3, layout="BLOCKS"))
    assert fresh.hops[0][0].position.tolist() != fresh.hops[1][0].position.tolist()
    place = oracle.pick_key(42, 7, 2**32 - 1, ET, 0)
    assert edges(graph, spec(3, reuse_hops=True)) == oracle.floyd(place, 50, 3)


# What cannot be drawn


@pytest.mark.parametrize(
    ("weight", "method", "named"),
    [
        ([1.0, -2.0, np.nan, np.inf, -1.0], "UNIFORM", ("w has 4", "-2.0 at e_id 1", "nan at e_id 2", "inf at e_id 3")),
        ([1.0, -2.0, np.nan, 1.0, -1.0], "TOPK", ("w has 1", "nan at e_id 2")),
    ],
)
def test_weights_that_no_draw_can_go_by_are_refused(weight: list[float], method: Any, named: tuple[str, ...]) -> None:
    with refused("bad-weight", *named):
        numba_sampler(star(5, weight=weight).view(), spec(2, drawing=Drawing(method, weights=WEIGHTS, weighted=True)))


def test_weights_of_edges_that_are_not_in_the_snapshot_do_not_matter() -> None:
    graph = replace(star(3, time=[1, 2, 9], weight=[1.0, 2.0, -1.0]), before=5)
    assert edges(graph, spec(2, drawing=Drawing(weights=WEIGHTS, weighted=True))) == [0, 1]


def test_an_edge_type_without_the_weights_that_are_asked_for_is_refused() -> None:
    with refused("needs-weight", "'w'"):
        numba_sampler(star(3).view(), spec(2, drawing=Drawing(weights=WEIGHTS, weighted=True)))


def test_columns_of_another_length_are_damage() -> None:
    graph = star(3, time=[1, 2, 3])
    view = graph.view()
    rows = view.adjacency(Relation(KNOWS, "IN"))
    short = replace(view, adjacency=lambda _: replace(rows, time=EdgeColumn(np.zeros(2, np.int64))))
    with refused("corrupt"):
        numba_sampler(short, spec(2, temporal=Temporal(False, None)))


def test_neighbours_that_are_no_vertices_are_damage() -> None:
    for further in ({"temporal": Temporal(False, None)}, {"drawing": Drawing("BOTTOMK")}):
        graph = star(3, time=[1, 2, 3])
        view = graph.view()
        rows = view.adjacency(Relation(KNOWS, "IN"))
        bad = replace(rows, rows=rows.rows._replace(indices=plain_array(np.array([1, 9, 2]), np.int32)))
        sampler = numba_sampler(replace(view, adjacency=lambda _, bad=bad: bad), spec(3, **further))
        entry = vertex_input("person", np.array([0]), times=np.array([9]))
        with refused("damaged-snapshot"):
            sampler.sample(entry, 0, sampler.scratch())


def test_the_same_batch_comes_whatever_the_drafts_room_was() -> None:
    graph = ties()
    fanouts = (Fanout(EdgeType("customer", "bought", "product"), "BOTH", (3, 3)),)
    asked = sample_spec("customer", *fanouts, drawing=Drawing("BOTTOMK"))
    sampler = numba_sampler(graph.view(), asked)
    roomy = sampler.scratch()
    roomy.draft.reserve(10_000, 10_000)
    entry = vertex_input("customer", np.arange(30))
    for found, other in zip(
        sampler.sample(entry, 1, roomy).edges.values(),
        sampler.sample(entry, 1, sampler.scratch()).edges.values(),
        strict=True,
    ):
        assert np.array_equal(found.index, other.index)


def test_both_ways_between_two_vertex_types_draws_each_way_by_keys_of_its_own() -> None:
    """Else node i of one type would pick the very ranks that node i of the other picks."""
    bought = EdgeType("customer", "bought", "product")
    pairs = [(source, destination) for source in range(20) for destination in range(20)]
    graph = MemoryGraph({"customer": 20, "product": 20}, {bought: EdgeList.of(pairs)})
    entry = SamplerInput(
        tuple(SeedGroup(kind, np.arange(20), np.arange(20)) for kind in ("customer", "product")), np.arange(20)
    )

    def ranks(*directions: Direction) -> list[list[int]]:
        said = sample_spec("customer", *(Fanout(bought, way, (3,)) for way in directions))
        said = replace(said, link=Link(bought, None, "NONE"))
        sampler = numba_sampler(graph.view(), said)
        found = sampler.sample(entry, 0, sampler.scratch())
        return [(found.edges[traversal.relation].position % 20).tolist() for traversal in sampler.traversals]

    inward, outward = ranks("BOTH")
    assert inward != outward
    assert [inward, outward] == ranks("IN", "OUT")


def test_a_weight_too_small_to_divide_by_is_refused() -> None:
    with refused("bad-weight", "250", "300"):
        numba_sampler(star(3, weight=[1, 1e-300, 1]).view(), spec(2, drawing=Drawing(weights=WEIGHTS, weighted=True)))

"""Negatives of seed edges agree with the oracle in every way of drawing them, and never with what is known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapdb.sampling import SeedExpansion, Seeds
from snapdb.sampling import seeds as drawing
from snapdb.types import EdgeType, Fanout, Link, Negatives, SampleSpec
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec
from tests.support.inside.kernels import _count_born, _rank_born, _select_born, birth_order
from tests.support.negatives import BOUGHT, Ints, drawn, expected
from tests.support.refusals import refused
from tests.support.thoroughness import examples

KNOWS = EdgeType("person", "knows", "person")
STATIC = -(2**63)


def link_spec(
    count: int = 3, known: Any = None, weight: str | None = None, edge: EdgeType = BOUGHT, exclude: Any = "PAIR"
) -> SampleSpec:
    """A statement whose seeds are edges."""
    link = Link(edge, Negatives(count, weight, known), exclude)
    return sample_spec(edge.source, Fanout(edge, "IN", (2,)), link=link)


def edge_seeds(graph: MemoryGraph, edge: EdgeType = BOUGHT, times: Ints | None = None) -> Seeds:
    """Every edge as a seed, by edge id."""
    listed = graph.edges[edge]
    return Seeds(edge.source, listed.edge_id, None, None, times, (listed.source, listed.destination))


def market(seed: int, *, born: bool = False, ends: bool = False, holes: bool = False) -> MemoryGraph:
    """30 customers buy 25 products, some of which more than once, some of them always."""
    rng = np.random.default_rng(seed)
    count = 150
    time = rng.integers(0, 20, count)
    time[rng.random(count) < 0.1] = STATIC
    until = np.where(rng.random(count) < 0.2, 2**63 - 1, np.maximum(time, 0) + rng.integers(0, 10, count))
    alive = rng.random(25) < 0.7
    alive[0] = True
    products = np.flatnonzero(alive) if holes else np.arange(25)
    births = rng.integers(0, 12, 25)
    births[rng.random(25) < 0.2] = STATIC
    bought = EdgeList(rng.integers(0, 30, count), rng.choice(products, count), time=time, until=until if ends else None)
    return MemoryGraph(
        nodes={"customer": 30, "product": 25},
        edges={BOUGHT: bought},
        born={"product": births} if born else {},
        alive={"product": alive} if holes else {},
        destination_weights=np.where(rng.random(25) < 0.2, 0.0, rng.integers(1, 4, 25) / 2),
    )


def test_a_negative_is_the_one_of_the_contract() -> None:
    graph = MemoryGraph({"customer": 9, "product": 1000}, {BOUGHT: EdgeList.of([(i, i) for i in range(9)])})
    spec = link_spec(2)
    assert drawn(SeedExpansion(graph.view(), spec, edge_seeds(graph)), np.array([3]))[0][1] == 47


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("known", [None, "EVER", "BEFORE", "AT"])
@pytest.mark.parametrize(("born", "ends", "holes"), [(False, False, False), (True, False, True), (True, True, False)])
def test_every_way_to_draw_agrees_with_the_oracle(
    weight: str | None, known: Any, born: bool, ends: bool, holes: bool
) -> None:
    graph = market(1, born=born, ends=ends, holes=holes)
    times = np.random.default_rng(2).integers(-3, 22, 150)
    spec = link_spec(4, known, weight)
    entrance = SeedExpansion(graph.view(), spec, edge_seeds(graph, times=times))
    ordinals = np.random.default_rng(3).permutation(150)[:60]
    for epoch in (0, 5):
        assert drawn(entrance, ordinals, epoch) == expected(graph, spec, ordinals, times, epoch)


RATED = EdgeType("customer", "rated", "product")
OWNS = EdgeType("customer", "owns", "product")


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("known", ["EVER", "BEFORE", "AT"])
@pytest.mark.parametrize("among", [(RATED,), (BOUGHT, RATED), (OWNS, BOUGHT), (OWNS,), (RATED, OWNS, BOUGHT)])
@pytest.mark.parametrize(("born", "ends", "holes"), [(False, True, False), (True, False, True)])
def test_the_types_that_are_listed_are_looked_at_and_no_others(
    weight: str | None, known: Any, among: tuple[EdgeType, ...], born: bool, ends: bool, holes: bool
) -> None:
    """With moments, with lasting edges and without times, side by side."""
    graph, other = market(1, born=born, ends=False, holes=holes), market(7, born=born, ends=ends, holes=holes)
    still = market(9, holes=holes).edges[BOUGHT]
    owns = EdgeList(still.source[:60], graph.edges[BOUGHT].destination[:60])
    graph = replace(
        graph,
        edges={
            **graph.edges,
            RATED: replace(other.edges[BOUGHT], destination=graph.edges[BOUGHT].destination[::-1].copy()),
            OWNS: owns,
        },
    )
    times = np.random.default_rng(2).integers(-3, 22, 150)
    spec = link_spec(4, known, weight)
    assert spec.link is not None
    assert spec.link.negatives is not None
    spec = replace(spec, link=replace(spec.link, negatives=replace(spec.link.negatives, among=among)))
    ordinals = np.random.default_rng(3).permutation(150)[:60]
    found = drawn(SeedExpansion(graph.view(), spec, edge_seeds(graph, times=times)), ordinals)
    assert found == expected(graph, spec, ordinals, times)


@pytest.mark.parametrize("weight", [None, "w"])
def test_without_times_births_do_not_count(weight: str | None) -> None:
    graph = market(4, born=True)
    spec = link_spec(5, "EVER", weight)
    ordinals = np.arange(150)
    assert drawn(SeedExpansion(graph.view(), spec, edge_seeds(graph)), ordinals) == expected(
        graph, spec, ordinals, None
    )


@pytest.mark.parametrize("weight", [None, "w"])
def test_too_few_are_a_shortfall_at_the_end(weight: str | None) -> None:
    pairs = [(0, i) for i in range(8)] + [(1, 3)]
    graph = MemoryGraph(
        {"customer": 2, "product": 10}, {BOUGHT: EdgeList.of(pairs)}, destination_weights=np.arange(10, dtype=float)
    )
    spec = link_spec(4, "EVER", weight)
    found = drawn(SeedExpansion(graph.view(), spec, edge_seeds(graph)), np.array([0, 8]))
    assert sorted(found[0][:2]) == [8, 9]
    assert found[0][2:] == [-1, -1]
    assert -1 not in found[1]
    assert 3 not in found[1]


def test_nobody_left_is_no_error() -> None:
    graph = MemoryGraph({"customer": 1, "product": 2}, {BOUGHT: EdgeList.of([(0, 0), (0, 1)])})
    entry = SeedExpansion(graph.view(), link_spec(2, "EVER"), edge_seeds(graph)).entry(np.array([1, 0]), 0)
    assert entry.negatives is not None
    assert entry.negatives.tolist() == [[-1, -1], [-1, -1]]
    assert entry.groups[2].ids.size == 0


def test_slots_are_distinct_and_go_over_all() -> None:
    graph = MemoryGraph({"customer": 1, "product": 40}, {BOUGHT: EdgeList.of([(0, 7), (0, 9)])})
    for known, left in ((None, range(40)), ("EVER", [i for i in range(40) if i not in (7, 9)])):
        (found,) = drawn(SeedExpansion(graph.view(), link_spec(40, known), edge_seeds(graph)), np.array([0]))
        assert sorted(i for i in found if i >= 0) == list(left)


def test_a_negative_depends_on_nothing_but_its_seed() -> None:
    graph = market(5, born=True)
    times = np.random.default_rng(6).integers(0, 20, 150)
    entrance = SeedExpansion(graph.view(), link_spec(3, "BEFORE"), edge_seeds(graph, times=times))
    together = drawn(entrance, np.arange(150))
    assert [drawn(entrance, np.array([i]))[0] for i in range(150)] == together
    assert drawn(entrance, np.arange(150)[::-1])[::-1] == together
    assert drawn(entrance, np.arange(150), epoch=1) != together


def test_many_edges_of_sources_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = market(7)
    times = np.random.default_rng(6).integers(0, 20, 150)
    entrance = SeedExpansion(graph.view(), link_spec(3, "BEFORE"), edge_seeds(graph, times=times))
    whole = drawn(entrance, np.arange(150))
    for held in (1, 13):
        monkeypatch.setattr(drawing, "_HELD", held)
        assert drawn(entrance, np.arange(150)) == whole


def test_an_edge_beyond_the_snapshot_makes_nobody_known() -> None:
    bought = EdgeList.of([(0, 1), (0, 2), (0, 3)], time=[1, 5, 9])
    graph = MemoryGraph({"customer": 1, "product": 5}, {BOUGHT: bought}, before=6)
    found = SeedExpansion(graph.view(), link_spec(5, "EVER"), edge_seeds(graph))
    assert sorted(drawn(found, np.array([0]))[0]) == [-1, -1, 0, 3, 4]


def test_what_is_known_before_needs_times() -> None:
    graph = market(8)
    with refused("needs-seed-time", "EXCLUDE KNOWN BEFORE SEED_TIME", "seed_time"):
        SeedExpansion(graph.view(), link_spec(1, "BEFORE"), edge_seeds(graph))


def test_a_neighbour_that_is_no_vertex_is_damage() -> None:
    graph = market(8)
    view = replace(graph.view(), node_counts={"customer": 30, "product": 20})
    with refused("damaged-snapshot", "CHECK DATABASE"):
        SeedExpansion(view, link_spec(1, "EVER"), edge_seeds(graph)).entry(np.arange(150), 0)


def test_seed_edges_enter_as_sources_destinations_and_negatives() -> None:
    graph = market(9)
    seeds = edge_seeds(graph, times=np.arange(150))
    entry = SeedExpansion(graph.view(), link_spec(2), seeds).entry(np.array([5, 3]), 0)
    listed = graph.edges[BOUGHT]
    assert [group.type for group in entry.groups] == ["customer", "product", "product"]
    assert entry.groups[0].ids.tolist() == listed.source[[5, 3]].tolist()
    assert entry.groups[1].ids.tolist() == listed.destination[[5, 3]].tolist()
    assert entry.groups[2].trees.tolist() == [0, 0, 1, 1]
    assert entry.ordinals.tolist() == [5, 3]
    assert entry.times is not None
    assert entry.times.tolist() == [5, 3]


@pytest.mark.parametrize(("exclude", "pairs"), [("NONE", None), ("PAIR", [(0, 1)]), ("BOTH", [(0, 1), (1, 0)])])
def test_pairs_that_a_batch_must_not_see(exclude: str, pairs: list[tuple[int, int]] | None) -> None:
    graph = MemoryGraph({"person": 3}, {KNOWS: EdgeList.of([(0, 1), (2, 0)])})
    entry = SeedExpansion(graph.view(), link_spec(1, edge=KNOWS, exclude=exclude), edge_seeds(graph, KNOWS))
    out = entry.entry(np.array([0]), 0).excluded
    assert (None if out is None else list(zip(out.source, out.destination, strict=True))) == pairs
    assert out is None or not out.trees.any()


def test_between_different_types_there_is_no_pair_back() -> None:
    graph = market(9)
    out = SeedExpansion(graph.view(), link_spec(1, exclude="BOTH"), edge_seeds(graph)).entry(np.arange(4), 0).excluded
    assert out is not None
    assert out.source.size == 4


def test_vertices_enter_alone() -> None:
    graph = market(9)
    seeds = Seeds("customer", np.arange(30), None, None, np.arange(30) + 100)
    entry = SeedExpansion(graph.view(), sample_spec("customer", Fanout(BOUGHT, "OUT", (2,))), seeds).entry(
        np.array([4]), 0
    )
    assert [group.ids.tolist() for group in entry.groups] == [[4]]
    assert entry.times is not None
    assert entry.times.tolist() == [104]
    assert entry.negatives is None
    assert entry.excluded is None


def test_each_destination_is_as_likely_as_the_others() -> None:
    graph = MemoryGraph({"customer": 1, "product": 12}, {BOUGHT: EdgeList.of([(0, 4)] * 6000)})
    spec = link_spec(1, "EVER")
    counts = Counter(row[0] for row in drawn(SeedExpansion(graph.view(), spec, edge_seeds(graph)), np.arange(6000)))
    assert sorted(counts) == [i for i in range(12) if i != 4]
    chi_square = sum((count - 6000 / 11) ** 2 / (6000 / 11) for count in counts.values())
    assert chi_square < 29.6  # of 10 degrees of freedom: p > 0.001
    thin = [count - (545 if i % 2 else -545) // 5 for i, count in sorted(counts.items())]  # a control that is biased
    assert sum((count - 6000 / 11) ** 2 / (6000 / 11) for count in thin) > 29.6


def test_weighted_negatives_come_by_their_weights() -> None:
    weights = np.array([1.0, 2.0, 3.0, 0.0, 4.0])
    bought = EdgeList.of([(0, 2)] * 7000)
    graph = MemoryGraph({"customer": 1, "product": 5}, {BOUGHT: bought}, destination_weights=weights)
    spec = link_spec(1, "EVER", "w")
    counts = Counter(row[0] for row in drawn(SeedExpansion(graph.view(), spec, edge_seeds(graph)), np.arange(7000)))
    wanted = {0: 1000.0, 1: 2000.0, 4: 4000.0}
    assert set(counts) == set(wanted)
    assert sum((counts[i] - n) ** 2 / n for i, n in wanted.items()) < 13.8  # of 2 degrees of freedom: p > 0.001
    assert sum((counts[i] - 7000 / 3) ** 2 / (7000 / 3) for i in wanted) > 13.8  # as if all were alike


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.integers(-5, 5), max_size=40), st.integers(-6, 6))
def test_who_is_born_by_a_moment_is_found_by_rank(births: list[int], moment: int) -> None:
    order = birth_order(np.array(births, np.int64))
    there = [i for i, birth in enumerate(births) if birth <= moment]
    count = _count_born(order.times, moment)
    assert count == len(there)
    assert [_select_born(order, count, rank) for rank in range(count)] == there
    assert [_rank_born(order, count, number) for number in range(len(births))] == [
        sum(other < number for other in there) for number in range(len(births))
    ]


def test_births_of_many_are_found_across_blocks() -> None:
    births = np.random.default_rng(0).integers(0, 1000, 5000)
    order = birth_order(births)
    there = np.flatnonzero(births <= 700)
    count = _count_born(order.times, 700)
    assert count == there.size
    assert [_select_born(order, count, rank) for rank in range(0, count, 7)] == there[::7].tolist()
    assert [_rank_born(order, count, number) for number in range(0, 5000, 9)] == np.searchsorted(
        there, np.arange(0, 5000, 9)
    ).tolist()

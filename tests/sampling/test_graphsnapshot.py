"""GraphSnapShot's strategies, held to what its specification asks of them: one test for each numbered statement.

The module beside has the original's defects: where it is easy, a test sees that they would not pass. Hubs of one batch
stand for many draws, as the node is part of every key; draws are fixed by their seeds. `pytest -s` prints p-values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from snapdb.sampling import ExcludedEdges, SamplerInput, SeedGroup, open_sampler, vertex_input
from snapdb.types import EdgeType, Fanout, Link, Refresh
from tests.support import graphsnapshot_original as original
from tests.support.chances import included, normal, paired
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec
from tests.support.stars import (
    DEGREES,
    EVERY,
    FCR,
    KEPT,
    MODES,
    OTF_FETCH,
    OTF_PART_FETCH,
    VISITED,
    VISITED_FETCH,
    cache_of,
    filled,
    sampled,
    stars_of,
    turns,
)

LIKELY = 1e-3
"""What p-values are above, the seeds being fixed."""

Ints = npt.NDArray[np.int64]

every_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
every_row = pytest.mark.parametrize("mode", KEPT.values(), ids=KEPT.keys())


def uniform(name: str, drawn: Ints, degree: int, control: Ints) -> None:
    """Checks singles and pairs of sets, and that the control is seen not to be uniform."""
    p, odd = included(drawn, degree), paired(drawn, degree)
    beyond, control_p = float((abs(odd) > 3).mean()), included(control, degree)
    print(f"{name}: p = {p:.4f}, {beyond:.2%} of pairs beyond 3 sd; control p = {control_p:.1e}")
    assert LIKELY < p <= 1
    assert beyond < 0.01
    assert abs(odd).max() < 4.5
    assert control_p < LIKELY


def within_3_sd(seen: int, count: int, chance: float) -> bool:
    """Whether as many of some were seen as by chance, or exactly none or all."""
    return abs(seen - count * chance) <= 3 * math.sqrt(count * chance * (1 - chance))


def chance() -> np.random.Generator:
    """Randomness for controls."""
    return np.random.default_rng(8)


@every_row
def test_statement_03_no_row_and_no_batch_holds_an_edge_twice(mode: Refresh) -> None:
    """No row and no batch contains an edge twice, even after 1,000 refreshes."""
    stars = stars_of(DEGREES, 20)
    for batch in (0, EVERY + 2, 1000 * EVERY, 1001 * EVERY + 3):
        assert stars.drawn(10, mode, batch).distinct()
        assert stars.rows(20, mode, batch).distinct()


def test_statement_03_sees_the_copies_of_the_original() -> None:
    rng, leaf = chance(), np.array([7])
    row = edges = np.arange(8)
    for _ in range(20):
        row, leaf = (
            original.refreshed_in_part(each, of, 20, 0.3, rng) for each, of in ((row, edges), (leaf, leaf[:1]))
        )
    assert (row.size, leaf.size) == (20, 15)


@every_mode
def test_statement_04_a_node_gets_its_fanout_or_all_that_it_has(mode: Refresh | None) -> None:
    """Every batch returns min(degree, fanout) distinct edges of a node."""
    stars = stars_of(DEGREES, 20)
    for fanout in (5, 10):
        for batch in range(0, 9 * EVERY, EVERY - 1):
            drawn = stars.drawn(fanout, mode, batch)
            assert (np.bincount(drawn.hubs) == np.minimum(stars.degrees, fanout)).all()
            assert drawn.distinct()


def test_statement_04_sees_the_double_edges_of_the_original() -> None:
    rng, three, eight = chance(), np.arange(3), np.arange(8)
    assert original.fetched_in_part(three, three, 10, 0.4, rng).size == 6
    seen = [np.unique(original.fetched_in_part(eight, eight, 10, 0.4, rng)).size for _ in range(2000)]
    assert np.mean(seen) < 8


@every_mode
def test_statement_05_a_node_of_few_edges_gets_all_of_them(mode: Refresh | None) -> None:
    """If a node's degree is at most the fanout, batches return all of its edges, even after 20 refreshes."""
    stars = stars_of(DEGREES, 20)
    few = stars.degrees <= 10
    for batch in (0, 20 * EVERY, 21 * EVERY - 1):
        drawn = stars.drawn(10, mode, batch)
        ranks = drawn.ranks[few[drawn.hubs]]
        assert ranks.tolist() == [rank for degree in stars.degrees[few] for rank in range(degree)]


def test_statement_06_rows_are_refreshed_when_the_statement_says() -> None:
    """In n batches, every row is filled n/T times, including the first time."""
    stars = stars_of((200,), 50)
    rows = [stars.rows(20, FCR, batch).sets(20) for batch in range(100)]
    anew = np.array([(one != other).any(axis=1) for one, other in pairwise(rows)])
    assert (1 + anew.sum(axis=0) == 100 // EVERY).all()
    assert (1 + np.flatnonzero(anew.any(axis=1))).tolist() == list(range(EVERY, 100, EVERY))
    assert original.refreshes(100, 1671, 20) == 2


@pytest.mark.parametrize("mode", list(KEPT.values())[:7], ids=list(KEPT)[:7])
def test_statement_08_refreshes_draw_every_neighbour_and_every_pair_alike(mode: Refresh) -> None:
    """Over 20,000 refreshes, all neighbours and all pairs of neighbours are equally likely."""
    stars = stars_of((40,), 4000)
    drawn = np.concatenate([stars.drawn(10, mode, turn * 8 * EVERY).sets(10) for turn in range(5)])
    first = stars.rows(20, mode, 0).sets(20)[:, :10]  # a row lists its edges in order: the first of them are no sample
    uniform("delivered", drawn, 40, first)


@pytest.mark.parametrize("share", ["0.05", "0.15", "0.5"])
def test_statement_09_a_row_stays_as_long_as_the_share_says(share: str) -> None:
    """After D batches, an OTF row is unchanged with probability max(0, 1 - Dp/T); redrawn rows are uniform samples."""
    stars, every, hubs = stars_of((40,), 4000), 10, 4000
    mode = Refresh("OTF", every, share=Fraction(share))
    start = stars.rows(20, mode, 7).sets(20)
    for later in (1, 7, 15, 30, 250):
        kept = max(0.0, 1 - later * float(Fraction(share)) / every)
        now = stars.rows(20, mode, 7 + later).sets(20)
        assert within_3_sd(int((now == start).all(axis=1).sum()), hubs, kept)
        both = (now[:, :, None] == start[:, None, :]).any(axis=2).mean(axis=1)
        spread = max(float(both.std()) / math.sqrt(hubs), 1e-9)
        assert abs(both.mean() - (0.5 + 0.5 * kept)) < 3 * spread
    drawn = np.concatenate([stars.drawn(10, mode, turn * 50 * every).sets(10) for turn in range(5)])
    uniform(f"OTF {share}", drawn, 40, start[:, :10])


def test_statement_09_sees_rows_that_are_refreshed_all_at_once() -> None:
    stars, share = stars_of((40,), 2000), Fraction(1, 2)
    rows = [stars.rows(20, Refresh("FCR", 10), batch).sets(20) for batch in (10, 15)]
    assert not within_3_sd(int((rows[0] == rows[1]).all(axis=1).sum()), 2000, 1 - 5 * float(share) / 10)


def test_statement_10_the_rows_whose_turn_has_come_change_and_no_others() -> None:
    """A batch redraws np/T rows (within 4 sd), those that enter a new round; rows of low degree never change."""
    stars, every, share = stars_of((40, 12), 2000), 10, 0.15
    mode, hubs = Refresh("OTF", every, share=Fraction(share).limit_denominator(100)), 2000
    rounds = [turned[::2] for turned in turns(mode, 2 * hubs, range(30, 40))]
    found = [stars.rows(20, mode, batch) for batch in range(30, 40)]
    large = found[0].hubs % 2 == 0
    for (before, turned), (held, now) in zip(pairwise(rounds), pairwise(found), strict=True):
        changed = (now.ranks[large] != held.ranks[large]).reshape(hubs, 20).any(axis=1)
        assert (changed == (turned != before)).all()
        assert (now.ranks[~large] == held.ranks[~large]).all()
        chance = share / every
        assert abs(changed.sum() - hubs * chance) < 4 * math.sqrt(hubs * chance * (1 - chance))


@pytest.mark.parametrize("percent", [0, 40, 60, 100])
def test_statement_11_a_partial_fetch_takes_its_part_from_the_row(percent: int) -> None:
    """With a fanout of f, exactly k edges are drawn from the row, and f - k from all other edges of the node."""
    stars = stars_of((100,), 4000)
    k, batch = percent // 10, 3 * EVERY + 1
    for mode in (replace(m, fetch=Fraction(percent, 100)) for m in (OTF_FETCH, OTF_PART_FETCH, VISITED_FETCH)):
        drawn, rows = stars.drawn(10, mode, batch), stars.rows(20, mode, batch).sets(20)
        assert drawn.distinct()
        mine = (drawn.sets(10)[:, :, None] == rows[:, None, :]).any(axis=2)
        assert mine[:, :k].all()
        # the rest is of all others, of which some are in the row too
        chance, count = (20 - k) / (100 - k), mine[:, k:].size
        assert abs(mine[:, k:].sum() - count * chance) <= 3 * math.sqrt(count * chance * (1 - chance))


@pytest.mark.parametrize("mode", [OTF_FETCH, VISITED_FETCH, FCR])
def test_statement_11_what_does_not_come_from_the_row_is_read(mode: Refresh) -> None:
    stars, fetched = stars_of((100, 40), 50), 10 if mode.fetch is None else 4
    sampler = stars.sampler(10, mode)
    sampler.cache = cache = filled(cache_of(sampler), sampler, 17)
    drawn, before = stars.of(sampler, 17), cache.stats(17)
    assert before.bytes_read - before.bytes_filled == 4 * 100 * (10 - fetched)
    assert before.bytes_saved == 4 * 100 * fetched
    sampler.cache = None
    assert (drawn.ranks == stars.of(sampler, 17).ranks).all()


def test_statement_11_sees_that_the_original_delivers_fewer() -> None:
    rng, twelve = chance(), np.arange(12)
    seen = [np.unique(original.fetched_in_part(twelve, twelve, 10, 0.4, rng)).size for _ in range(2000)]
    assert abs(np.mean(seen) - 8.0) < 0.1


def mean_of_draws(mode: Refresh | None, draws: int, hubs: int) -> float:
    """The variance of a mean over the neighbours' values, averaged over the batches of a period, in units of theirs."""
    stars, values = stars_of((40,), hubs), np.random.default_rng(3).normal(size=(hubs, 40))
    drawn = [stars.drawn(10, mode, batch).sets(10) for batch in range(draws)]
    means = np.mean([np.take_along_axis(values, ranks, axis=1).mean(axis=1) for ranks in drawn], axis=0)
    return float(((means - values.mean(axis=1)) ** 2).mean() / values.var(axis=1).mean())


def test_statement_12_a_period_costs_as_much_variance_as_it_is_said_to() -> None:
    """The variance of a mean over 20 batches of one period is 7.3 times that of FBL, as EXPLAIN estimates."""
    d, size, f, n, hubs = 40, 20, 10, 20, 4000
    kept, afresh = mean_of_draws(Refresh("FCR", n), n, hubs), mean_of_draws(None, n, hubs)
    foretold = d / (d - 1) * ((1 / size) * (1 - size / d) + (1 / (n * f)) * (1 - f / size))
    baseline = d / (d - 1) * (1 / (n * f)) * (1 - f / d)
    assert abs(kept / foretold - 1) < 0.1
    assert abs(afresh / baseline - 1) < 0.1
    assert abs(kept / afresh / 7.33 - 1) < 0.1


@pytest.mark.parametrize("mode", [FCR, OTF_PART_FETCH, replace(VISITED, shared=True), replace(FCR, above=30)])
def test_statement_13_weights_leave_sums_unbiased(mode: Refresh) -> None:
    """Under METHOD PRIORITY, Horvitz-Thompson sums are unbiased over 60,000 draws."""
    values = np.random.default_rng(4).random(20) * 3
    stars = stars_of((20,), 12_000, (1.0, 2.0, 3.0, 4.0, 5.0) * 4)
    sums = []
    for turn in range(5):
        drawn = stars.drawn(5, mode, turn * 8 * EVERY)
        sums.append((values[drawn.sets(5)] * drawn.weights.reshape(-1, 5)).sum(axis=1))
    found = np.concatenate(sums)
    z = (found.mean() - values.sum()) / (found.std() / math.sqrt(found.size))
    print(f"bias in standard errors: {z:.2f}; p = {normal(float(z)):.3f}")
    assert abs(z) < 3


def test_statement_13_sees_weights_that_are_used_twice() -> None:
    weights = np.array([1.0, 2.0, 3.0, 4.0, 5.0] * 4)
    drawn = original.twice_weighted(weights, 10, 5, 60_000, chance())
    inclusion = np.bincount(drawn.ravel(), minlength=20).reshape(4, 5).mean(axis=0) / 60_000
    assert abs(inclusion - [0.042, 0.135, 0.248, 0.361, 0.463]).max() < 0.005
    once = np.tile([0.092, 0.179, 0.256, 0.328, 0.395], 4)
    sums = (1 / once[drawn]).sum(axis=1)  # a count of the edges
    assert abs(sums.mean() - 20) > 3 * sums.std() / math.sqrt(sums.size)


KNOWS = EdgeType("person", "knows", "person")
PEOPLE = 60


def society(people: int, degree: int) -> MemoryGraph:
    """People who know so many different others each."""
    rng = np.random.default_rng(6)
    known = np.concatenate([(rng.permutation(people - 1)[:degree] + 1 + who) % people for who in range(people)])
    return MemoryGraph({"person": people}, {KNOWS: EdgeList(known, np.repeat(np.arange(people), degree))})


@every_mode
def test_statement_14_each_hop_has_its_own_fanout(mode: Refresh | None) -> None:
    """With fanouts of 15, 10 and 5 and AMPLIFY 1.5, a node has at most 15, 10 and 5 edges at the three hops."""
    refresh = None if mode is None else replace(mode, amplify=Fraction("1.5"))
    spec = sample_spec("person", Fanout(KNOWS, "IN", (15, 10, 5)), refresh=refresh, layout="BLOCKS")
    sampler = open_sampler(society(300, 61).view(), spec)
    for batch in (0, 3 * EVERY):
        found = sampled(sampler, vertex_input("person", np.arange(5)), batch)
        assert [set(np.bincount(block.seed_side).tolist()) for (block,) in found.hops] == [{15}, {10}, {5}]


def test_statement_14_sees_caches_that_are_mixed_up() -> None:
    assert original.most_in_layers([15, 10, 5], 1.5) == [7, 10, 5]


def link_batch(edges: EdgeList, chosen: Ints) -> tuple[SamplerInput, npt.NDArray[np.bool_]]:
    """Some edges as seeds, and [destinations, sources] what is hidden: they, and those back."""
    source, destination, trees = edges.source[chosen], edges.destination[chosen], np.arange(chosen.size)
    both = np.concatenate([source, destination]), np.concatenate([destination, source])
    groups = SeedGroup("person", source, trees), SeedGroup("person", destination, trees)
    hidden = np.zeros((PEOPLE, PEOPLE), np.bool_)
    hidden[both] = True
    return SamplerInput(groups, chosen, None, ExcludedEdges(KNOWS, *both, np.concatenate([trees, trees]))), hidden


@every_mode
def test_statement_17_seed_edges_are_never_delivered(mode: Refresh | None) -> None:
    """No batch contains any of its 10,000 seed edges or their reverse; nodes still get a full fanout of other edges."""
    graph, rng = society(PEOPLE, 30), np.random.default_rng(7)
    edges = graph.edges[KNOWS]
    knows = np.zeros((PEOPLE, PEOPLE), np.bool_)
    knows[edges.destination, edges.source] = True
    spec = sample_spec("person", Fanout(KNOWS, "IN", (6,)), refresh=mode, link=Link(KNOWS, None, "BOTH"))
    sampler = open_sampler(graph.view(), spec)
    for batch in range(80):
        entry, hidden = link_batch(edges, rng.permutation(edges.source.size)[:10])
        found = sampled(sampler, entry, batch)
        ids, ((block,),) = found.nodes["person"], found.hops
        delivered = np.zeros_like(knows)
        delivered[ids[block.seed_side], ids[block.neighbor]] = True
        assert not (delivered & hidden).any()
        left = (knows & ~hidden).sum(axis=1)[ids[: np.unique(np.concatenate([g.ids for g in entry.groups])).size]]
        assert np.bincount(block.seed_side).tolist() == np.minimum(left, 6).tolist()
        assert delivered.sum() == block.position.size


def test_statement_17_sees_edges_that_are_excluded_by_ids_of_the_cache() -> None:
    rows = np.arange(5000, 5200).reshape(10, 20)
    assert np.isin(np.arange(5000, 5005), original.without(rows, np.arange(5000, 5005))).all()


def own(per: Mapping[EdgeType, tuple[int, int]]) -> dict[EdgeType, EdgeList]:
    """Edge type → (nodes, edges of each): every edge comes from a vertex of its own."""
    return {
        edge: EdgeList(np.arange(nodes * each), np.repeat(np.arange(nodes), each))
        for edge, (nodes, each) in per.items()
    }


def shop() -> MemoryGraph:
    """Customers buy products and are served by makers; products are made by makers and are sold with others."""
    bought, serves = EdgeType("product", "bought", "customer"), EdgeType("maker", "serves", "customer")
    made, sold = EdgeType("maker", "made", "product"), EdgeType("product", "with", "product")
    edges = own({bought: (5, 30), serves: (5, 8), made: (150, 25), sold: (150, 40)})
    return MemoryGraph({"customer": 5, "product": 6000, "maker": 3750}, edges)


@every_row
def test_statement_18_every_edge_type_is_delivered_as_without_rows(mode: Refresh) -> None:
    """With seeds of one of three vertex types and two hops, every edge type returns as many edges as under FBL."""
    graph = shop()

    def counts(refresh: Refresh | None) -> dict[str, int]:
        fanouts = [Fanout(edge, "IN", (10, 10)) for edge in graph.edges]
        sampler = open_sampler(graph.view(), sample_spec("customer", *fanouts, refresh=refresh))
        found = sampled(sampler, vertex_input("customer", np.arange(5)), 7)
        return {relation.edge.edge: edges.position.size for relation, edges in found.edges.items()}

    assert counts(mode) == counts(None) == {"bought": 50, "serves": 40, "made": 500, "with": 500}

"""Every method draws with the chances that it promises, and each measure sees a biased sampler as one.

Draws are fixed by their seeds, so nothing here flickers; `pytest -s` prints the p-values. TOPK, LATEST and FULL draw
nothing: tests/sampling/test_methods.py compares them. Hubs of one batch stand for many draws, as the node is part of
every key.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from snapdb.kernels.rng import below, draw
from snapdb.sampling import Seeds, epoch_order, vertex_input
from snapdb.types import Direction, Drawing, EdgeType, Fanout, Link, Negatives, Temporal
from tests.support import oracle
from tests.support.chances import STRICT, alike, drawn_sets, fair, normal, ordered, proportional, sets, unordered
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec
from tests.support.inside.sampling import SeedExpansion, open_sampler

OF, ALSO = EdgeType("leaf", "of", "hub"), EdgeType("leaf", "also", "hub")
TO = EdgeType("hub", "to", "leaf")
WEIGHTS = [1.0, 2.0, 3.0, 4.0, 10.0]
HUBS = 20_000
OWN = (("of", "weight"),)

Ints = npt.NDArray[np.int64]


def stars(degree: int, weights: list[float] | None = None, *, hubs: int = HUBS) -> MemoryGraph:
    """Hubs with as many leaves each, all their own; an edge's id is hub * degree + rank, its time its rank."""
    leaf = np.arange(hubs * degree, dtype=np.int64)
    hub = leaf // degree
    weight = None if weights is None else np.tile(weights, hubs)
    inward = EdgeList(leaf, hub, leaf % degree, weight)
    return MemoryGraph(
        {"hub": hubs, "leaf": leaf.size}, {OF: inward, ALSO: inward, TO: EdgeList(hub, leaf, leaf % degree)}
    )


def picks(
    graph: MemoryGraph,
    k: int,
    drawing: Drawing,
    *,
    seeds: Ints | None = None,
    edge: EdgeType = OF,
    batch: int = 3,
    hop: int = 0,
    weights: bool = False,
    **further: Any,
) -> Any:
    """[hubs, k] the ranks that each drew at a hop, in emission order; `weights`: and their weights."""
    direction: Direction = "OUT" if edge == TO else "IN"
    spec = sample_spec("hub", Fanout(edge, direction, (*[k] * hop, k)), drawing=drawing, **further)
    sampler = open_sampler(graph.view(), spec)
    chosen = np.arange(graph.nodes["hub"], dtype=np.int64) if seeds is None else seeds
    times = np.full(chosen.size, 7) if spec.temporal else None
    found = sampler.sample(vertex_input("hub", chosen, times=times), batch, sampler.scratch())
    degree = graph.nodes["leaf"] // graph.nodes["hub"]
    block = found.hops[hop][0]
    ranks = (sampler.traversals[0].adjacency.edge_id.read(block.position) % degree).reshape(-1, k)
    assert block.seed_side[::k].tolist() == list(range(chosen.size))
    (edges,) = found.edges.values()
    return (ranks, edges.weight.reshape(-1, k)) if weights else ranks


def biased() -> np.random.Generator:
    """Randomness for controls."""
    return np.random.default_rng(1)


def least(scores: npt.NDArray[Any], k: int) -> Ints:
    """[draws, k] the ranks of the least scores."""
    found: Ints = np.argsort(scores, axis=1)[:, :k]
    return found


def test_uniform_draws_every_set_equally_often() -> None:
    drawn, longer = picks(stars(6), 3, Drawing()), picks(stars(6), 5, Drawing())
    fair("UNIFORM against a prefix of Floyd", drawn_sets(drawn, sets(6, 3)), drawn_sets(longer[:, :3], sets(6, 3)))


def test_replacement_draws_every_sequence_equally_often() -> None:
    every = dict.fromkeys(np.ndindex(5, 5, 5), 1 / 125)
    drawn, distinct = picks(stars(5), 3, Drawing(replace=True)), picks(stars(5), 3, Drawing())
    fair(
        "WITH REPLACEMENT against distinct edges",
        drawn_sets(drawn, every, in_order=True),
        drawn_sets(distinct, every, in_order=True),
    )


def test_numbers_below_many_are_uniform() -> None:
    drawn = np.array([int(draw(np.uint64(9), np.uint64(i))) for i in range(60_000)], np.uint64)
    for bits in (32, 64):
        n = 3 << (bits - 3)
        found = [int(below(r, np.uint64(n))) for r in drawn]
        remainder = [int(r) >> (64 - bits) for r in drawn]
        thirds = [[3 * (t % n) // n for t in each] for each in (found, remainder)]
        p, control = (proportional(np.bincount(each, minlength=3), np.full(3, 1 / 3)) for each in thirds)
        fair(f"below 3·2^{bits - 3} against remainders", p, control)
        narrow = [((int(r) >> 32) * n) >> 32 for r in drawn]
        units = [np.array([t % 4 for t in each]) for each in (found, narrow)]
        if bits == 64:  # numbers of 32 bits, stretched, leave most numbers out
            p, control = (proportional(np.bincount(each, minlength=4), np.full(4, 0.25)) for each in units)
            fair("below 3·2^61 against 32-bit draws", p, control)


def test_weights_draw_as_one_by_one_without_replacement() -> None:
    drawn = picks(stars(5, WEIGHTS), 2, Drawing(weights=OWN, weighted=True))
    chances = unordered(ordered(WEIGHTS, 2))
    control = least(biased().random((HUBS, 5)) / WEIGHTS, 2)
    fair("WEIGHT BY against u/w", drawn_sets(drawn, chances), drawn_sets(control, chances))


def test_inclusion_by_weight_is_that_of_the_race_on_a_longer_row() -> None:
    weights = [1.0] * 30 + [50.0]
    drawn = picks(stars(31, weights), 1, Drawing(weights=OWN, weighted=True))
    chances = {(rank,): weight / 80 for rank, weight in enumerate(weights)}
    control = least(biased().random((HUBS, 31)) / weights, 1)
    fair("WEIGHT BY, one heavy of 31, against u/w", drawn_sets(drawn, chances), drawn_sets(control, chances))


def test_weights_with_replacement_draw_every_edge_by_its_share() -> None:
    shares = np.array(WEIGHTS) / sum(WEIGHTS)
    chances = {(a, b): float(shares[a] * shares[b]) for a, b in np.ndindex(5, 5)}
    drawn = picks(stars(5, WEIGHTS), 2, Drawing(replace=True, weights=OWN, weighted=True))
    control = picks(stars(5, WEIGHTS), 2, Drawing(weights=OWN, weighted=True))
    fair(
        "WEIGHT BY WITH REPLACEMENT against the race",
        drawn_sets(drawn, chances, in_order=True),
        drawn_sets(control, chances, in_order=True),
    )


def test_priority_weights_make_sums_unbiased() -> None:
    values = np.array([5.0, 1.0, 4.0, 1.0, 0.2])
    drawn, weight = picks(stars(5, WEIGHTS), 2, Drawing("PRIORITY", weights=OWN, weighted=True), weights=True)
    p = []
    for factor in (weight, np.full_like(weight, 5 / 2)):
        sums = (values[drawn] * factor).sum(axis=1)
        z = (sums.mean() - values.sum()) / (sums.std() / math.sqrt(HUBS))
        p.append(normal(float(z)))
    fair("PRIORITY with Horvitz-Thompson weights against counts", *p)


@pytest.mark.parametrize("method", ["BOTTOMK", "LABOR"])
def test_smallest_hashes_draw_every_set_equally_often(method: Any) -> None:
    drawn = picks(stars(6), 3, Drawing(method))
    unmixed = (np.arange(HUBS * 6, dtype=np.uint64) * np.uint64(oracle.G)).reshape(-1, 6)
    fair(f"{method} against unmixed hashes", drawn_sets(drawn, sets(6, 3)), drawn_sets(least(unmixed, 3), sets(6, 3)))


def shared(method: Any, batch: int) -> int:
    """How many of 300 leaves 60 hubs draw together, 5 each of 40."""
    rng = np.random.default_rng(5)
    leaves = np.concatenate([rng.permutation(300)[:40] for _ in range(60)])
    graph = MemoryGraph({"hub": 60, "leaf": 300}, {OF: EdgeList(leaves, np.repeat(np.arange(60), 40))})
    sampler = open_sampler(graph.view(), sample_spec("hub", Fanout(OF, "IN", (5,)), drawing=Drawing(method)))
    found = sampler.sample(vertex_input("hub", np.arange(60)), batch, sampler.scratch())
    return int(found.nodes["leaf"].size)


def test_labor_shares_neighbours_between_destinations() -> None:
    batches = range(40)
    counts = {m: np.array([shared(m, b) for b in batches]) for m in ("LABOR", "UNIFORM", "BOTTOMK")}

    def z(one: str) -> float:
        gap = counts[one] - counts["UNIFORM"]
        return float(gap.mean() / (gap.std() / math.sqrt(gap.size)))

    fewer = {m: float(counts[m].mean()) for m in counts}
    p = {m: normal(z(m)) for m in ("LABOR", "BOTTOMK")}
    print(f"neighbours of 60 hubs: {fewer}; p of as many as UNIFORM's: LABOR {p['LABOR']:.1e};", end=" ")
    print(f"with the destination in the key (BOTTOMK) {p['BOTTOMK']:.3f}")
    assert z("LABOR") < 0
    assert normal(z("LABOR")) < STRICT < normal(z("BOTTOMK"))
    assert fewer["LABOR"] < 0.75 * fewer["UNIFORM"]


@pytest.mark.parametrize("distance", [0, 1, 4, 7, 8, 20])
def test_dependent_batches_turn_over_one_neighbour_after_another(distance: int) -> None:
    n = 8
    graph = stars(2)

    def kept(dependent: int, batch: int, later: int) -> int:
        pair = [picks(graph, 1, Drawing("LABOR", dependent=dependent), batch=b) for b in (batch, later)]
        return int((pair[0] == pair[1]).sum())

    q = max(0.0, 1 - distance / n)
    # both variates stay, or one is drawn anew (the order then holds in 2 of 3), or both are
    chance = q * q + 2 * q * (1 - q) * 2 / 3 + (1 - q) ** 2 / 2
    chances = np.array([chance, 1 - chance])
    found = kept(n, 40, 40 + distance)
    p = proportional(np.array([found, HUBS - found]), chances)
    control = kept(1, 40 // n, (40 + distance) // n)  # all turn over at once
    together = proportional(np.array([control, HUBS - control]), chances)
    print(f"DEPENDENT BATCHES 8, {distance} later: p = {p:.4f}; control p = {together:.1e}")
    assert p > STRICT
    assert (together < STRICT) == (distance % n != 0 and distance < 2 * n)


def test_a_time_leaves_draws_uniform_among_what_came_before() -> None:
    seeds = np.zeros(HUBS, np.int64)  # one hub in as many trees: what differs is the seed's ordinal
    drawn = picks(stars(10, hubs=2), 3, Drawing(), seeds=seeds, temporal=Temporal(False, None))
    whole = np.argsort(biased().random((HUBS, 10)), axis=1)[:, :3]
    late = np.argsort(np.where(np.sort(whole, axis=1) < 7, np.sort(whole, axis=1), 99), axis=1)
    cut = np.take_along_axis(np.where(whole < 7, whole, whole - 7), late, axis=1)  # folds what is late to the front
    fair("TEMPORAL against folding back what is late", drawn_sets(drawn, sets(7, 3)), drawn_sets(cut, sets(7, 3)))


PAIRS = {
    "UNIFORM": Drawing(),
    "WITH REPLACEMENT": Drawing(replace=True),
    "WEIGHT BY": Drawing(weights=OWN, weighted=True),
    "WEIGHT BY WITH REPLACEMENT": Drawing(replace=True, weights=OWN, weighted=True),
    "PRIORITY": Drawing("PRIORITY", weights=OWN, weighted=True),
    "BOTTOMK": Drawing("BOTTOMK"),
    "LABOR": Drawing("LABOR"),
}
LIKE = {"layout": "BLOCKS"}


@pytest.mark.parametrize("name", PAIRS)
def test_draws_of_hops_batches_and_seeds_are_independent(name: str) -> None:
    graph, drawing = stars(8, [1.0] * 8), PAIRS[name]

    def first(**changed: Any) -> Ints:
        ranks: Ints = picks(graph, 1, drawing, **changed)[:, 0]
        return ranks

    base = first()
    others = {"batch": first(batch=4), "hop": first(hop=1, **LIKE), "seed": first(seed=43), "node": np.roll(base, 1)}
    again = first(hop=1, reuse_hops=True, **LIKE)
    control = alike(first(reuse_hops=True, **LIKE), again, 8)  # the hop is not in the key
    for what, other in others.items():
        fair(f"{name}, another {what}, against REUSE HOPS", alike(base, other, 8), control)


@pytest.mark.parametrize("name", [name for name in PAIRS if name != "LABOR"])
def test_draws_of_types_and_directions_are_independent(name: str) -> None:
    graph = stars(8, [1.0] * 8)
    base, other, out = (picks(graph, 1, PAIRS[name], edge=edge)[:, 0] for edge in (OF, ALSO, TO))
    blind = [picks(graph, 1, Drawing("LABOR"), edge=edge)[:, 0] for edge in (OF, ALSO, TO)]  # no type in the key
    fair(f"{name}, another type, against LABOR", alike(base, other, 8), alike(blind[0], blind[1], 8))
    fair(f"{name}, another direction, against LABOR", alike(base, out, 8), alike(blind[0], blind[2], 8))


# Seeds and negatives


def test_shuffles_put_every_seed_first_equally_often() -> None:
    seeds = Seeds("hub", np.arange(10), None, np.arange(10))
    firsts = [int(epoch_order(seeds, 42, epoch, "SHUFFLE")[0]) for epoch in range(5000)]
    fixed = [int(epoch_order(seeds, 42, epoch, "FIXED")[0]) for epoch in range(50)]
    even = np.full(10, 0.1)
    fair(
        "SHUFFLE against FIXED",
        proportional(np.bincount(firsts, minlength=10), even),
        proportional(np.bincount(fixed, minlength=10), even),
    )


def test_subsets_cover_every_seed_once_and_by_chance() -> None:
    seeds, share = Seeds("hub", np.arange(10), None, np.arange(10)), Fraction(3, 10)
    slice_of = {"SHUFFLE": [0] * 4, "IN ORDER": [0] * 4}
    for order, found in slice_of.items():
        for turn in range(2000):
            parts = [epoch_order(seeds, 42, 4 * turn + part, order, share).tolist() for part in range(4)]  # type: ignore[arg-type]
            assert sorted(seed for part in parts for seed in part) == list(range(10))
            found[next(place for place, part in enumerate(parts) if 0 in part)] += 1
    chances = np.array([0.3, 0.3, 0.3, 0.1])
    p, control = (proportional(np.array(found), chances) for found in slice_of.values())
    fair("SUBSET against slices in order", p, control)


def negatives(count: int, *, weighted: bool = False, epoch: int = 0) -> Ints:
    """[seeds, count] negatives of an edge of hub 0 among 6 leaves, of which it knows leaf 5."""
    graph = MemoryGraph(
        {"hub": 1, "leaf": 6},
        {TO: EdgeList.of([(0, 5)])},
        destination_weights=np.array([*WEIGHTS, 3.0]) if weighted else None,
    )
    link = Link(TO, Negatives(count, "weight" if weighted else None, "EVER"), "PAIR")
    zeros = np.zeros(HUBS, np.int64)
    seeds = Seeds("hub", zeros, None, None, ends=(zeros, zeros + 5))
    entry = SeedExpansion(graph.view(), sample_spec("hub", link=link), seeds).entry(np.arange(HUBS), epoch)
    return entry.groups[2].ids.reshape(HUBS, count)


def test_negatives_draw_every_sequence_equally_often() -> None:
    bits = biased().integers(0, 16, (HUBS, 2))
    one = bits[:, 0] % 5
    control = np.stack([one, (one + 1 + bits[:, 1] % 4) % 5], axis=1)
    chances = ordered([1.0] * 5, 2)
    fair(
        "NEGATIVES against remainders of few bits",
        drawn_sets(negatives(2), chances, in_order=True),
        drawn_sets(control, chances, in_order=True),
    )


def test_weighted_negatives_draw_as_one_by_one_without_replacement() -> None:
    control = least(biased().random((HUBS, 5)) / WEIGHTS, 2)
    chances = ordered(WEIGHTS, 2)
    fair(
        "NEGATIVES WEIGHTED BY against u/w",
        drawn_sets(negatives(2, weighted=True), chances, in_order=True),
        drawn_sets(control, chances, in_order=True),
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_negatives_of_epochs_are_independent(weighted: bool) -> None:
    one, other = (negatives(1, weighted=weighted, epoch=epoch)[:, 0] for epoch in (0, 1))
    shares = np.array(WEIGHTS) / sum(WEIGHTS) if weighted else np.full(5, 0.2)
    chances = np.outer(shares, shares).ravel()

    def p(a: Ints, b: Ints) -> float:
        return proportional(np.bincount(a * 5 + b, minlength=25), chances)

    fair(f"NEGATIVES {'WEIGHTED ' if weighted else ''}of another epoch against the same", p(one, other), p(one, one))


def test_slots_of_negatives_are_those_of_epochs_and_seeds_too() -> None:
    drawn = negatives(2)[:, 0]
    fair("NEGATIVES of another seed against the same", alike(drawn, np.roll(drawn, 1), 5), alike(drawn, drawn, 5))

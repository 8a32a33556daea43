"""Rows that serve many batches: both back ends draw what the oracle draws, whatever else the statement says.

Also what each part of a row's key changes, and what it does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from snapdb.kernels.rng import fold
from snapdb.sampling import numba_sampler, open_sampler, vertex_input
from snapdb.types import FULL, Direction, Drawing, EdgeType, Fanout, Refresh, Relation, Temporal
from tests.support import oracle
from tests.support.backends import HALF, ONE, REFRESHES, both_agree, refreshed, same_batches
from tests.support.chances import STRICT, inclusion, pairs_are_even
from tests.support.forms import FORMS, view_of
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec
from tests.support.inside.kernels import floyd
from tests.support.inside.sampling import _row_words, row_keys
from tests.support.methods import OF, PARTS, PICKS, Draw, hub, weighed
from tests.support.oracle.numbers import NO_HOP
from tests.support.refusals import refused
from tests.support.thoroughness import examples
from tests.support.worlds import SETTINGS, Case

METHODS = ("uniform", "priority")
WEIGHED = Drawing("PRIORITY", weights=(("of", "stars"), ("also", "stars")), weighted=True)


def stars(count: int, weights: npt.NDArray[np.float64]) -> MemoryGraph:
    """So many hubs, each with the same leaves at times 0, 1, …"""
    node, leaf = np.divmod(np.arange(count * weights.size), weights.size)
    listed = EdgeList(leaf, node, leaf, weights[leaf])
    return MemoryGraph({"leaf": weights.size, "hub": count}, {OF: listed})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", REFRESHES)
def test_rows_give_what_the_oracle_gives(how: str, method: str) -> None:
    first = list(REFRESHES).index(how) + METHODS.index(method)
    for number, setting in list(enumerate(SETTINGS))[first % 3 :: 3]:  # the others are met by other ways
        both_agree(*refreshed(how, method, setting, get_args(Direction)[(first + number // 3) % 3], number))


@pytest.mark.parametrize("how", REFRESHES)
def test_rows_by_the_rule_of_lineages_that_record_none_give_what_the_oracle_gives(how: str) -> None:
    for number, setting in enumerate(SETTINGS):
        found, rounds = refreshed(how, "priority", setting, get_args(Direction)[number % 3], number)
        old = replace(found.spec.drawing, zero_weight="WITH ALL")
        both_agree(found._replace(spec=replace(found.spec, drawing=old)), rounds)


@pytest.mark.parametrize("how", ["full above", "partial shared above"])
def test_edges_that_weigh_something_decide_whether_a_node_has_a_row(how: str) -> None:
    for weighing in range(60, 75):  # above: 66
        weights = np.where(np.arange(120) % 120 < weighing, 1.0 + np.arange(120) % 3, 0.0)
        fanout = Fanout(OF, "IN", (4,))
        spec = sample_spec("hub", fanout, drawing=WEIGHED, refresh=REFRESHES[how])
        both_agree(Case(stars(3, weights), spec, vertex_input("hub", np.arange(3)), weighing))


@settings(max_examples=examples(25), deadline=None)
@given(
    st.sampled_from(list(REFRESHES)),
    st.sampled_from(METHODS),
    st.sampled_from(list(SETTINGS)),
    st.sampled_from(get_args(Direction)),
    st.integers(2, 2**32),
)
def test_rows_of_any_world_give_what_the_oracle_gives(
    how: str, method: str, setting: str, direction: Direction, seed: int
) -> None:
    both_agree(*refreshed(how, method, setting, direction, seed))


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_every_length_give_what_the_oracle_gives(method: str) -> None:
    k, drawing = 12, Drawing() if method == "uniform" else WEIGHED
    for degree in (k, k + 1, 2 * k - 1, 2 * k, 2 * k + 1, 64, 65, 300):
        graph = hub(degree)
        for how, temporal in (("full", None), ("partial fetch", Temporal(True, 20)), ("full above", None)):
            fanout = Fanout(OF, "IN", (k,))
            spec = sample_spec("hub", fanout, drawing=drawing, temporal=temporal, refresh=REFRESHES[how])
            times = np.array([30, 30, 30]) if temporal else None
            both_agree(Case(graph, spec, vertex_input("hub", np.array([0, 1, 2]), times=times), degree))
    wide = sample_spec("hub", Fanout(OF, "IN", (140,)), drawing=drawing, refresh=REFRESHES["partial fetch"])
    both_agree(Case(hub(1000), wide, vertex_input("hub", np.array([0, 1, 2])), 5))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", FORMS)
def test_rows_of_every_form_give_what_the_oracle_gives(form: str, method: str) -> None:
    graph = weighed(7, 65, ends=form == "full")
    knows = EdgeType("customer", "knows", "customer")
    drawing = Drawing() if method == "uniform" else Drawing("PRIORITY", weights=(("knows", "w"),), weighted=True)
    for number, direction in enumerate(get_args(Direction)):
        temporal = Temporal(True, 3) if number % 2 else None
        times = np.array([2, 5, 3, 9, 4]) if temporal else None
        spec = sample_spec(
            "customer",
            Fanout(knows, direction, (4, 2)),
            drawing=drawing,
            temporal=temporal,
            allow_duplicates=True,
            refresh=REFRESHES["partial fetch shared"],
        )
        entry = vertex_input("customer", np.array([0, 0, 3, 5, 11]), times=times)
        for patched in (False, True):
            view = view_of(graph.adjacency(form, patched=patched), graph.nodes)
            both_agree(Case(graph.listed(form), spec, entry, 3), view=view)


@pytest.mark.parametrize("method", METHODS)
def test_edge_ids_past_two_billion_enter_keys_whole(method: str) -> None:
    graph, drawing = hub(40), Drawing() if method == "uniform" else WEIGHED
    (listed,) = graph.edges.values()
    ids = 2**31 + 2**32 * (np.arange(41, dtype=np.int64) % 3) + np.arange(41)
    wide = replace(graph, edges={OF: replace(listed, ids=ids)})
    spec = sample_spec("hub", Fanout(OF, "IN", (5,)), drawing=drawing, refresh=REFRESHES["partial fetch"])
    both_agree(Case(wide, spec, vertex_input("hub", np.array([0, 1, 2])), 5))


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_many_nodes_are_the_same_on_both_back_ends(method: str) -> None:
    graph, drawing = stars(1500, np.arange(1, 15) / 4), Drawing() if method == "uniform" else WEIGHED
    nodes = np.random.default_rng(0).permutation(1500)
    for temporal in (None, Temporal(False, 11)):
        entry = vertex_input("hub", nodes, times=nodes % 20)
        for how in ("partial", "partial fetch", "full above"):
            fanout = Fanout(OF, "IN", (4,))
            spec = sample_spec("hub", fanout, drawing=drawing, temporal=temporal, refresh=REFRESHES[how])
            same_batches(graph.view(), spec, entry, "cpu", 6)


# Keys

BOUGHT = Relation(EdgeType("customer", "bought", "product"), "IN")


def test_the_keys_of_rows_are_the_contracts() -> None:
    spec = sample_spec("product", refresh=Refresh("FCR", 10, shared=True))
    keys = row_keys(spec, BOUGHT, 0, 39)
    assert hex(fold(keys.now, np.uint64(123456))) == "0xc7b75dc917766c6a"
    words = _row_words(keys, torch.tensor([123456]))
    assert hex(int(words) % 2**64) == "0xc7b75dc917766c6a"
    assert floyd(words, torch.tensor([20]), 10).tolist() == [[10, 4, 6, 3, 7, 5, 9, 13, 18, 19]]
    own = row_keys(
        replace(spec, refresh=Refresh("OTF", 9, shared=True, visited=True)),
        BOUGHT,
        0,
        5,
        {(BOUGHT, NO_HOP): np.full(123457, 3, np.int32)},
    )
    assert int(_row_words(own, torch.tensor([123456]))) == int(words)


def test_phases_are_the_contracts() -> None:
    keys = row_keys(sample_spec("product", refresh=Refresh("OTF", 10)), BOUGHT, 0, 39)
    assert int(fold(keys.phase, np.uint64(5))) >> 32 == 3177133315
    slot = oracle.Slot.of(oracle.Refresh("OTF", 10), False, 42, 0, BOUGHT.hash)
    assert oracle.phase(slot, 5) == 3177133315


ROW = {"seed", "seed above 2^63", "batch above 2^32", "type", "direction", "node", "generation", "round"}
OWN = ROW - {"round", "batch above 2^32"} | {"own round"}
TREES = {"ordinal", "ordinal or not"}
PARTS_OF_ROWS: dict[str, dict[str, Any]] = {
    **PARTS,
    "generation": {"clauses": {"generation": 1}},
    "round": {"batch": 14},
    "own round": {},
}
DRAWS: dict[str, tuple[Refresh, dict[str, Any], set[str]]] = {
    "row": (Refresh("FCR", 7, amplify=ONE), {}, ROW | {"hop"}),
    "row shared": (Refresh("FCR", 7, amplify=ONE, shared=True), {}, ROW),
    "row reusing hops": (Refresh("FCR", 7, amplify=ONE), {"reuse_hops": True}, ROW),
    "row by weights": (
        Refresh("FCR", 7, amplify=ONE),
        {"drawing": WEIGHED},
        ROW | {"hop", "edge id", "edge id above 2^32"},
    ),
    "row of its own round": (Refresh("OTF", 7, amplify=ONE, visited=True), {}, OWN | {"hop"}),
    "picks of everything": (Refresh("FCR", 7, above=1000), {}, PICKS | TREES),
    "fresh": (Refresh("OTF", 7, fetch=Fraction(0)), {}, PICKS | TREES),
    "fresh reusing hops": (Refresh("OTF", 7, fetch=Fraction(0)), {"reuse_hops": True}, PICKS - {"hop"} | TREES),
}
"""What is drawn, and which changes must change it; all others must not."""


def drawn(what: str, changes: Mapping[str, Any], own: int = 2) -> list[int]:
    """The ranks that are delivered."""
    refresh, clauses, _ = DRAWS[what]
    further = dict(changes)
    clauses = {"refresh": refresh, **clauses, **further.pop("clauses", {})}
    base = replace(Draw(clauses.pop("drawing", Drawing())), **further)
    edge = EdgeType("leaf", base.edge, "hub") if base.direction == "IN" else EdgeType("hub", base.edge, "leaf")
    rounds = {(Relation(edge, base.direction), base.hop): np.full(10, own, np.int32)}  # type: ignore[arg-type]
    return replace(base, clauses=clauses, rounds=rounds if refresh.visited else None).ranks()


@pytest.mark.parametrize("what", DRAWS)
def test_each_part_of_a_key_changes_draws_and_nothing_else_does(what: str) -> None:
    usual = drawn(what, {})
    of_trees = drawn(what, {"temporal": True})
    found = set()
    for part, changes in PARTS_OF_ROWS.items():
        base = of_trees if part in ("ordinal", "seed time") else usual
        further = {"temporal": True} if base is of_trees else {}
        if drawn(what, {**changes, **further}, own=3 if part == "own round" else 2) != base:
            found.add(part)
    matters = DRAWS[what][2]
    assert found == (matters | {"round"} if "batch" in matters else matters)  # a later round has another batch number


def test_rows_that_hold_everything_and_no_rows_give_the_same_draws() -> None:
    refresh = Refresh("FCR", 7, above=1000)
    assert Draw(Drawing(), clauses={"refresh": refresh}).ranks() == Draw(Drawing()).ranks()


def test_each_row_is_drawn_anew_at_its_own_turn() -> None:
    every, nodes = 16, 6
    ends = np.divmod(np.arange(nodes * 30), 30)
    graph = MemoryGraph({"leaf": 30, "hub": nodes}, {OF: EdgeList(ends[1], ends[0])})
    entry = vertex_input("hub", np.arange(nodes))

    def turns(**clauses: Any) -> list[list[int]]:
        """Of each node, the batches that find another row than the one before."""
        spec = sample_spec("hub", Fanout(OF, "IN", (5,)), refresh=Refresh("OTF", every, amplify=ONE))
        sampler = numba_sampler(graph.view(), replace(spec, **clauses))
        batches = [sampler.sample(entry, batch, sampler.scratch()) for batch in range(2 * every + 1)]
        rows = [found.hops[0][0].position.reshape(nodes, 5) for found in batches]
        return [[b for b in range(1, len(rows)) if (rows[b][n] != rows[b - 1][n]).any()] for n in range(nodes)]

    slot = oracle.Slot.of(oracle.Refresh("OTF", every), False, 42, 0, Relation(OF, "IN").hash)
    first = [1 + (((2**32 - 1 - oracle.phase(slot, node)) * every) >> 32) for node in range(nodes)]
    assert turns() == [[batch, batch + every] for batch in first]
    assert turns(generation=3) == turns()
    assert turns(seed=43) != turns()


# Laws


@pytest.mark.parametrize(
    "refresh",
    [
        Refresh("FCR", 1, amplify=ONE),
        Refresh("FCR", 1, amplify=Fraction(3, 2)),
        Refresh("OTF", 1, amplify=ONE, fetch=HALF),
    ],
    ids=["rows", "picks", "picks and fresh"],
)
def test_rows_drawn_anew_for_every_batch_have_the_law_of_no_rows(refresh: Refresh) -> None:
    nodes, degree, k = 80, 20, 6
    sampler = numba_sampler(
        stars(nodes, np.ones(degree)).view(), sample_spec("hub", Fanout(OF, "IN", (k,)), refresh=refresh)
    )
    scratch, entry = sampler.scratch(), vertex_input("hub", np.arange(nodes))
    batches = [sampler.sample(entry, batch, scratch).hops[0][0].position for batch in range(100)]
    found = np.concatenate(batches).reshape(-1, k) % degree
    assert all(len(set(row)) == k for row in found[:200].tolist())
    assert STRICT < inclusion(found, degree) < 1 - STRICT
    pairs_are_even(found, degree)


@pytest.mark.parametrize("fetch", [None, HALF], ids=["picks", "picks and fresh"])
@pytest.mark.parametrize("time", [12, 9], ids=["all", "before"])
def test_weights_of_delivered_edges_add_up_to_all_that_are_eligible(time: int, fetch: Fraction | None) -> None:
    nodes, weights = 2000, np.array([1, 2, 3, 0, 5, 1, 0.25, 3, 8, 2, 1, 4.0])
    refresh = Refresh("FCR" if fetch is None else "OTF", 1, fetch=fetch)
    fanout, before = Fanout(OF, "IN", (3,)), Temporal(False, None)
    spec = sample_spec("hub", fanout, drawing=WEIGHED, temporal=before, refresh=refresh)
    sampler = numba_sampler(stars(nodes, weights).view(), spec)
    sums = np.zeros((10, nodes))
    for batch in range(10):
        entry = vertex_input("hub", np.arange(nodes), times=np.full(nodes, time))
        (edges,) = sampler.sample(entry, batch, sampler.scratch()).edges.values()
        assert edges.weight is not None
        np.add.at(sums[batch], edges.index[1], edges.weight * weights[edges.position % 12])
    error = sums.std() / np.sqrt(sums.size)
    assert abs(sums.mean() - weights[:time].sum()) < 4 * error


# What torch refuses


def test_rows_beyond_what_torch_draws_are_refused() -> None:
    graph = hub(5)
    spec = sample_spec("hub", Fanout(OF, "IN", (5, 600)), refresh=Refresh("FCR", 3), backend="torch")
    with refused("device", "REFRESH", "FANOUT", "600", "1,200"):
        open_sampler(graph.view(), spec)
    open_sampler(graph.view(), replace(spec, backend="numba"))
    open_sampler(graph.view(), replace(spec, fanouts=(Fanout(OF, "IN", (512, FULL)),)))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason=f"torch {torch.__version__} finds no CUDA device")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", REFRESHES)
def test_a_gpu_draws_rows_as_numba_does(how: str, method: str) -> None:
    for setting in SETTINGS:
        for direction in get_args(Direction):
            (graph, spec, entry, batch), rounds = refreshed(how, method, setting, direction, 1)
            same_batches(graph.view(), spec, entry, "cuda", batch, rounds=rounds)

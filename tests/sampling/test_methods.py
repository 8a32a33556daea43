"""The table of all methods: both back ends draw what the oracle draws, whatever else the statement says.

Rows of every length and form are here, ids past 2^31, and what each part of a key changes, and what it does not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapdb.sampling import vertex_input
from snapdb.types import FULL, Backend, Direction, Drawing, EdgeType, Fanout, Temporal
from tests.support import oracle
from tests.support.forms import FORMS, view_of
from tests.support.graphs import MemoryGraph, agreed, compared, expected, sample_spec
from tests.support.inside.sampling import SamplerInput, open_sampler
from tests.support.methods import OF, PARTS, PICKS, Draw, hub, weighed
from tests.support.thoroughness import SOAK, examples
from tests.support.worlds import DRAWINGS, SETTINGS, case

BACKENDS = get_args(Backend)
CLOSE = (("knows", "closeness"), ("of", "stars"), ("also", "stars"))
WEIGHED: dict[str, Drawing] = {
    name: replace(how, weights=CLOSE if how.weighted else ()) for name, how in DRAWINGS.items()
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("drawing", DRAWINGS)
def test_every_method_draws_what_the_oracle_draws(drawing: str, setting: str, backend: Backend) -> None:
    for direction in get_args(Direction):
        graph, spec, entry, batch = case(drawing, setting, direction, 0)
        agreed(graph.view(), graph.oracle(), replace(spec, backend=backend), entry, batch)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(list(DRAWINGS)),
    st.sampled_from(list(SETTINGS)),
    st.sampled_from(get_args(Direction)),
    st.integers(2, 2**32),
)
def test_any_world_is_drawn_as_the_oracle_draws_it(drawing: str, setting: str, direction: Direction, seed: int) -> None:
    graph, spec, entry, batch = case(drawing, setting, direction, seed)
    agreed(graph.view(), graph.oracle(), spec, entry, batch)


@pytest.mark.parametrize("drawing", ["weighted", "partly weighted", "weighted with replacement", "priority"])
def test_the_rule_of_lineages_that_record_none_draws_what_the_oracle_draws(drawing: str) -> None:
    for number, setting in enumerate(SETTINGS):
        graph, spec, entry, batch = case(drawing, setting, get_args(Direction)[number % 3], 1)
        old = replace(spec, drawing=replace(spec.drawing, zero_weight="WITH ALL"))
        for backend in BACKENDS:
            agreed(graph.view(), graph.oracle(), replace(old, backend=backend), entry, batch)


# Rows of every length


def counted(drawing: str, *counts: int) -> tuple[int, ...]:
    """Fanouts as they are once a statement is bound: METHOD FULL takes all."""
    return tuple(FULL if drawing == "full" else count for count in counts)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("drawing", WEIGHED)
def test_rows_of_every_length_give_the_oracles_draws(drawing: str, backend: Backend) -> None:
    k = 15
    for degree in (0, 1, k - 1, k, k + 1, 63, 64, 65, 66, 128, 129, 1000):
        graph = hub(degree)
        for temporal in (None, Temporal(True, 20)):
            spec = sample_spec(
                "hub",
                Fanout(OF, "IN", counted(drawing, k)),
                drawing=WEIGHED[drawing],
                temporal=temporal,
                backend=backend,
            )
            entry = vertex_input("hub", np.array([0, 1, 2]), times=np.array([30, 30, 30]) if temporal else None)
            agreed(graph.view(), graph.oracle(), spec, entry, degree)


STAR = 100_001


@pytest.fixture(scope="module")
def star() -> tuple[MemoryGraph, oracle.Graph]:
    """A hub of 100,001 leaves, and the oracle's list of it, which takes a while to make."""
    graph = hub(STAR, seed=1)
    return graph, graph.oracle()


@pytest.mark.parametrize("drawing", WEIGHED)
def test_a_hub_of_a_hundred_thousand_gives_the_oracles_draws(
    star: tuple[MemoryGraph, oracle.Graph], drawing: str
) -> None:
    graph, listed = star
    spec = sample_spec("hub", Fanout(OF, "IN", counted(drawing, 70)), drawing=WEIGHED[drawing])
    entry = vertex_input("hub", np.array([0]))
    wanted = expected(listed, spec, entry, 5)
    for backend in BACKENDS:
        sampler = open_sampler(graph.view(), replace(spec, backend=backend))
        compared(sampler, sampler.sample(entry, 5, sampler.scratch()), wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hub_in_many_trees_gives_the_oracles_draws(star: tuple[MemoryGraph, oracle.Graph], backend: Backend) -> None:
    graph, listed = star
    spec = sample_spec("hub", Fanout(OF, "IN", (3,)), temporal=Temporal(False, 7), backend=backend)
    agreed(graph.view(), listed, spec, vertex_input("hub", np.zeros(4, np.int64), times=np.array([3, 9, 9, 60])), 5)


# Ids past 2^31


FIRST = ("uniform", "weighted", "priority", "labor", "latest")
WIDE = [*FIRST, *(name for name in DRAWINGS if name not in FIRST)] if SOAK else FIRST
"""Methods that are tried with ids past 2^31, for which the kernels of each take seconds to compile: `make soak` tries
all."""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("drawing", WIDE)
def test_edge_ids_past_two_billion_enter_keys_whole(drawing: str, backend: Backend) -> None:
    graph = hub(40)
    (listed,) = graph.edges.values()
    ids = 2**31 + 2**32 * (np.arange(41, dtype=np.int64) % 3) + np.arange(41)
    wide = replace(graph, edges={OF: replace(listed, ids=ids)})
    for k in (3, 40):
        spec = sample_spec("hub", Fanout(OF, "IN", counted(drawing, k)), drawing=WEIGHED[drawing], backend=backend)
        agreed(wide.view(), wide.oracle(), spec, [0, 1, 2], 5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("drawing", WIDE)
def test_vertices_past_two_billion_are_drawn_and_numbered(drawing: str, backend: Backend) -> None:
    graph = hub(40)
    (listed,) = graph.edges.values()
    far = listed.source + 2**33
    keys = {"leaf": pa.array([], pa.int64())}  # nobody asks for them
    wide = MemoryGraph({"leaf": 2**34, "hub": 3}, {OF: replace(listed, source=far)}, keys=keys, indices=np.int64)
    how = WEIGHED[drawing]
    spec = sample_spec(
        "hub", Fanout(OF, "IN", counted(drawing, 5)), drawing=how, temporal=Temporal(True, None), backend=backend
    )
    entry = vertex_input("hub", np.array([0, 1, 0]), times=np.array([30, 30, 99]))
    agreed(wide.view(), wide.oracle(), spec, entry, 5)


# Physical forms


TIMES: dict[str, Temporal | None] = {"all": None, "before": Temporal(False, None), "within": Temporal(True, 3)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ends", [False, True], ids=["instants", "intervals"])
@pytest.mark.parametrize("when", TIMES)
@pytest.mark.parametrize("drawing", WEIGHED)
def test_every_form_gives_the_oracles_draws(drawing: str, when: str, ends: bool, backend: Backend) -> None:
    """`make soak` tries each form in all three directions, and other test runs in one."""
    graph = weighed(7, 65, ends=ends)
    temporal = TIMES[when]
    entry = vertex_input("customer", np.array([0, 0, 3, 5, 11]), times=np.array([2, 5, 3, 9, 4]) if temporal else None)
    for form in FORMS:
        wanted = graph.listed(form).oracle()
        for patched in (False, True) if backend == "numba" else (True,):  # torch lays out all forms anew
            view = view_of(graph.adjacency(form, patched=patched), graph.nodes)
            turn = (list(TIMES).index(when) + list(FORMS).index(form) + patched) % 3
            for direction in get_args(Direction) if SOAK else get_args(Direction)[turn : turn + 1]:
                counts = counted(drawing, 4, 2)
                spec = sample_spec(
                    "customer",
                    Fanout(EdgeType("customer", "knows", "customer"), direction, counts),
                    drawing=WEIGHED[drawing],
                    temporal=temporal,
                    allow_duplicates=True,
                    backend=backend,
                )
                agreed(view, wanted, spec, entry, 3)


# Keys: what changes draws, and what does not


HASHES = PICKS | {"edge id", "edge id above 2^32"}
NEIGHBOURS = {"seed", "seed above 2^63", "batch", "batch above 2^32", "hop", "neighbour"}
MATTERS: dict[str, set[str]] = {
    "uniform": PICKS | {"ordinal", "ordinal or not"},
    "with replacement": PICKS | {"ordinal", "ordinal or not"},
    "weighted with replacement": PICKS | {"ordinal", "ordinal or not"},
    "weighted": HASHES,
    "priority": HASHES,
    "bottomk": HASHES,
    "labor": NEIGHBOURS,
    "labor dependent": NEIGHBOURS | {"type", "direction"},  # these enter the neighbour's phase
    "topk": set(),
    "latest": set(),
}
"""Of each method, which changes must change what is drawn; all others must not."""


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("drawing", MATTERS)
def test_each_part_of_a_key_changes_draws_and_nothing_else_does(drawing: str, part: str) -> None:
    changes = PARTS[part]
    base = Draw(WEIGHED[drawing])
    if part in ("ordinal", "seed time"):
        base = replace(base, temporal=True)
    if drawing == "labor dependent" and part == "batch":
        changes = {"batch": 9 + 7}  # after so many batches every variate is new
    found, other = base.ranks(), replace(base, **changes).ranks()
    assert (found != other) == (part in MATTERS[drawing])


@pytest.mark.parametrize("drawing", WEIGHED)
def test_the_order_of_fanouts_changes_nothing(drawing: str) -> None:
    graph, spec, entry, batch = case(drawing, "plain", "IN", 0)
    backward = replace(spec, fanouts=spec.fanouts[::-1])
    one, other = (agreed(graph.view(), graph.oracle(), each, entry, batch) for each in (spec, backward))
    assert all(np.array_equal(one.nodes[name], other.nodes[name]) for name in one.nodes)
    assert all(np.array_equal(one.edges[r].index, other.edges[r].index) for r in one.edges)


@pytest.mark.parametrize("drawing", WEIGHED)
def test_the_columns_type_of_row_ends_and_ids_changes_nothing(drawing: str) -> None:
    graph, spec, entry, batch = case(drawing, "plain", "BOTH", 1)
    wide = replace(graph, indices=np.int64)
    long = {edge: replace(listed, ids=listed.edge_id.astype(np.int64)) for edge, listed in graph.edges.items()}
    agreed(wide.view(), graph.oracle(), spec, entry, batch)
    agreed(replace(graph, edges=long).view(), graph.oracle(), spec, entry, batch)


def test_every_domain_has_its_own_bits() -> None:
    domains = (oracle.ROW, oracle.PICK, oracle.FRESH, oracle.PHASE, oracle.SEEDPERM, oracle.NEG, oracle.HASH)
    assert domains == tuple(range(1, 8))
    assert len({oracle.key(42, domain, 1, 2, 3, 4) for domain in domains}) == 7


def test_a_uniform_draw_and_a_hash_of_the_same_node_are_of_two_domains() -> None:
    place = oracle.Place(42, 7, 1, 5, 9, ordinal=11)
    assert place.pick != place.hash(11)


def test_an_empty_batch_is_the_oracles() -> None:
    for drawing in DRAWINGS:
        graph, spec, _, _ = case(drawing, "before", "IN", 0)
        nobody = vertex_input(spec.seed_type, np.empty(0, np.int64), times=np.empty(0, np.int64))
        for backend in BACKENDS:
            agreed(graph.view(), graph.oracle(), replace(spec, backend=backend), nobody, 0)


def test_a_node_that_is_a_seed_twice_is_expanded_twice_with_the_same_draws() -> None:
    graph, spec = hub(100), sample_spec("hub", Fanout(OF, "IN", (5,)), allow_duplicates=True)
    for backend in BACKENDS:
        found = agreed(graph.view(), graph.oracle(), replace(spec, backend=backend), [0, 1, 0], 2)
        block = found.hops[0][0]
        assert block.seed_side.tolist() == [0] * 5 + [1] + [2] * 5
        assert block.neighbor[:5].tolist() == block.neighbor[6:].tolist()
        assert found.nodes["hub"].tolist() == [0, 1, 0]


def test_trees_share_no_nodes() -> None:
    graph = hub(30)
    spec = sample_spec("hub", Fanout(OF, "BOTH", (FULL, FULL)), temporal=Temporal(False, None))
    entry: SamplerInput = vertex_input("hub", np.array([0, 0]), times=np.array([20, 40]))
    for backend in BACKENDS:
        found = agreed(graph.view(), graph.oracle(), replace(spec, backend=backend), entry, 2)
        assert found.trees is not None
        for relation, edges in found.edges.items():
            far, near = edges.index
            assert np.array_equal(found.trees[relation.reaches][far], found.trees[relation.expands][near])

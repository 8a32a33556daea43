"""Random walks of both back ends equal those of the oracle, in every encoding and with every clause."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from snapdb.sampling import SamplerInput, vertex_input
from snapdb.types import RandomWalk, Relation, SampleSpec, Temporal
from tests.support import forms
from tests.support.inside.graph import GraphView
from tests.support.inside.sampling import open_walker
from tests.support.oracle import Graph
from tests.support.oracle import walks as oracle
from tests.support.walk_cases import (
    ALONE,
    BACKENDS,
    COUNTS,
    METAPATHS,
    Case,
    options_of,
    random_case,
    values,
    walk_spec,
)


def compare(view: GraphView, graph: Graph, spec: SampleSpec, entry: SamplerInput, batch: int) -> None:
    """Compare the walks, edges, pairs and negatives of each back end with the oracle's."""
    options, walk = options_of(spec), spec.walk
    assert walk is not None
    seeds, ordinals = entry.groups[0].ids.tolist(), entry.ordinals.tolist()
    times = None if entry.times is None else entry.times.tolist()
    wanted = oracle.walks(graph, options, spec.seed, batch, seeds, ordinals, times)
    window = walk.window or 1
    pairs = oracle.pairs(graph, options, wanted, spec.seed, batch, ordinals, times, window, walk.negatives)
    for backend in BACKENDS:
        walker = open_walker(view, replace(spec, backend=backend))
        found = walker.sample(entry, batch, walker.scratch())
        nodes, positions = values(found.nodes), values(found.position)
        assert nodes.tolist() == [[-1 if node is None else node for node in each.nodes] for each in wanted]
        adjacency = {traversal.relation: traversal.adjacency for traversal in walker.traversals}
        for i in range(walk.length):
            rows, edges = adjacency[walk.steps[i % len(walk.steps)]], [each.edges[i] for each in wanted]
            taken = positions[:, i] >= 0
            assert taken.tolist() == [edge is not None for edge in edges]
            ids = rows.edge_id.read(positions[taken, i]).tolist()
            assert ids == [edge.edge.edge_id for edge in edges if edge is not None]
            if rows.outward is not None:
                outward = rows.outward[positions[taken, i]].tolist()
                assert outward == [edge.outward for edge in edges if edge is not None]
        assert (found.pairs is None) == (walk.window is None)
        assert (found.negatives is None) == (walk.negatives == 0 or walk.window is None)
        if found.pairs is not None:
            assert values(found.pairs).T.tolist() == [[pair.center, pair.context] for pair in pairs]
        if found.negatives is not None:
            assert values(found.negatives).tolist() == [pair.negatives for pair in pairs]


def agree(case: Case) -> None:
    compare(case.graph.view(), case.graph.oracle(), case.spec, case.entry, case.batch)


TEMPORALS = {
    "any time": None,
    "before": Temporal(inclusive=False, within=None),
    "until": Temporal(inclusive=True, within=None),
    "recent": Temporal(inclusive=True, within=5),
}
BIASES = [
    (Fraction("0.25"), Fraction(4)),
    (Fraction(4), Fraction("0.25")),
    (Fraction(1), Fraction("0.5")),
    (Fraction("2.5"), Fraction(1)),
]


@pytest.mark.parametrize("path", METAPATHS)
@pytest.mark.parametrize("features", ["", "wide", "weight", "weight dead"])
@pytest.mark.parametrize("restart", [Fraction(0), Fraction("0.3")])
def test_walks_equal_the_oracles(path: str, features: str, restart: Fraction) -> None:
    for seed in range(2):
        agree(random_case(seed, path, features, restart=restart))


@pytest.mark.parametrize("path", ALONE)
@pytest.mark.parametrize("features", ["", "wide", "weight", "time until born"])
@pytest.mark.parametrize("biases", BIASES)
def test_walks_of_the_second_order_equal_the_oracles(
    path: str, features: str, biases: tuple[Fraction, Fraction]
) -> None:
    back, inout = biases
    agree(random_case(3, path, features, back=back, inout=inout, restart=Fraction("0.1")))


@pytest.mark.parametrize("path", METAPATHS)
@pytest.mark.parametrize("temporal", list(TEMPORALS)[1:])
@pytest.mark.parametrize("features", ["time", "time until", "time born weight", "time until born dead", "born", ""])
def test_walks_within_time_bounds_equal_the_oracles(path: str, temporal: str, features: str) -> None:
    biases = {"back": Fraction("0.5"), "inout": Fraction(2)} if path in ALONE else {}
    for seed, further in enumerate([{}, biases, {"restart": Fraction("0.25")}]):
        agree(random_case(seed, path, features, temporal=TEMPORALS[temporal], **further))


@pytest.mark.parametrize("path", METAPATHS)
@pytest.mark.parametrize("temporal", TEMPORALS)
@pytest.mark.parametrize("clock", ["forward", "backward"])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("features", ["time", "time until born", "time weight"])
def test_walks_that_respect_time_equal_the_oracles(
    path: str, temporal: str, clock: str, strict: bool, features: str
) -> None:
    biases = {"back": Fraction("0.5"), "inout": Fraction(2)} if path in ALONE else {}
    for seed, further in enumerate([{}, {"restart": Fraction("0.25"), **biases}]):
        agree(random_case(seed, path, features, temporal=TEMPORALS[temporal], clock=clock, strict=strict, **further))


@pytest.mark.parametrize("path", METAPATHS)
@pytest.mark.parametrize("features", ["", "dead", "time born", "time born dead"])
@pytest.mark.parametrize(("window", "negatives"), [(1, 0), (2, 3), (50, 1)])
def test_pairs_and_negatives_equal_the_oracles(path: str, features: str, window: int, negatives: int) -> None:
    temporal = TEMPORALS["before"] if "time" in features else None
    for seed in range(2):
        agree(random_case(seed, path, features, window=window, negatives=negatives, temporal=temporal))


@pytest.mark.parametrize("form", forms.FORMS)
@pytest.mark.parametrize("patched", [False, True])
@pytest.mark.parametrize("direction", ["IN", "OUT", "BOTH"])
def test_every_encoding_gives_the_same_walks(form: str, patched: bool, direction: Any) -> None:
    path = (Relation(forms.KNOWS, direction),)
    for seed in range(2):
        made = forms.changing(seed, 30, 200, hub=90)
        view = forms.view_of(made.adjacency(form, patched=patched), made.nodes)
        for clauses in (
            {},
            {"back": Fraction("0.25"), "inout": Fraction(4)},
            {"back": Fraction(4), "inout": Fraction("0.25"), "clock": "forward"},
        ):
            for temporal in (None, TEMPORALS["recent"]):
                spec = walk_spec(RandomWalk(6, path, per_seed=2, **clauses), "customer", temporal=temporal)
                ids = np.arange(0, made.nodes, 4, dtype=np.int64)
                entry = vertex_input("customer", ids, times=ids % 9 if temporal else None)
                compare(view, made.oracle(form), spec, entry, seed)


def test_threads_do_not_change_walks() -> None:
    case = random_case(1, "both", "time weight", clock="forward")
    walker = open_walker(case.graph.view(), case.spec)
    alone = [values(walker.sample(case.entry, batch, walker.scratch()).nodes).tolist() for batch in range(20)]
    with ThreadPoolExecutor(2) as threads:
        found = threads.map(lambda batch: walker.sample(case.entry, batch, walker.scratch()), range(20))
        assert [values(each.nodes).tolist() for each in found] == alone


def test_every_part_of_the_key_changes_the_walks() -> None:
    case = random_case(2, "both", "")
    walk = replace(case.spec.walk, length=40, per_seed=2)
    spec, entry = replace(case.spec, walk=walk), vertex_input("person", np.array([3, 3, 7]), np.array([0, 1, 2]))

    def walks(spec: SampleSpec = spec, entry: SamplerInput = entry, batch: int = 0) -> list[list[int]]:
        walker = open_walker(case.graph.view(), spec)
        return [list(row) for row in values(walker.sample(entry, batch, walker.scratch()).nodes).tolist()]

    same = walks()
    assert walks() == same
    assert len({tuple(row) for row in same[:4]}) == 4  # two ordinals of one vertex, with two numbers each
    for other in (walks(replace(spec, seed=spec.seed + 1)), walks(batch=1)):
        assert all(one != two for one, two in zip(same, other, strict=True))
    # A walk does not depend on the other seeds of its batch, and its start does not depend on its length.
    assert walks(entry=vertex_input("person", np.array([7, 3]), np.array([2, 1]))) == [*same[4:], *same[2:4]]
    assert walks(replace(spec, walk=replace(walk, length=7))) == [row[:8] for row in same]
    assert walks(replace(spec, walk=replace(walk, per_seed=1))) == same[::2]


def test_seeds_outside_the_snapshot_are_an_error() -> None:
    case = random_case(0, "out", "")
    walker = open_walker(case.graph.view(), case.spec)
    with pytest.raises(IndexError, match="dense ids of seeds"):
        walker.sample(vertex_input("person", np.array([COUNTS["person"]])), 0, walker.scratch())

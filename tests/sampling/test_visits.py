"""FANOUT (BY WALKS …): the neighbours of both back ends equal those of the oracle, with every clause of the walks."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from snapdb.sampling import SamplerInput, SeedGroup, vertex_input
from snapdb.types import SampleSpec, Temporal, Visits
from tests.support.inside.sampling import open_sampler
from tests.support.oracle import walks as oracle
from tests.support.walk_cases import Case, options_of, random_case, values

BACKENDS = ("numba", "torch")
EVERY_HOP = 2**32 - 1
PATHS = ("out", "both", "types")


def visit_case(seed: int, path: str, features: str, tops: tuple[int, ...], **clauses: Any) -> Case:
    """Return a random graph with a statement whose neighbours are visited by walks."""
    case = random_case(seed, path, features, **clauses)
    walk = case.spec.walk
    assert walk is not None
    fanouts = tuple(replace(fanout, counts=(1,) * len(tops)) for fanout in case.spec.fanouts)
    walk = replace(walk, per_seed=walk.per_seed * 4)
    return case._replace(spec=replace(case.spec, walk=None, visits=Visits(walk, tops), fanouts=fanouts))


def expected(case: Case) -> tuple[list[int], list[int], list[list[tuple[int, int, int]]]]:
    """Return the oracle's nodes, their trees, and for each hop (neighbour, expanded node, visits) by local id."""
    spec, entry, graph = case.spec, case.entry, case.graph.oracle()
    visits = spec.visits
    assert visits is not None
    options = options_of(replace(spec, walk=visits.walk))
    group = entry.groups[0]
    nodes, trees = group.ids.tolist(), group.trees.tolist()
    local: dict[tuple[int, int], int] = {}
    for place, node in enumerate(nodes):
        local.setdefault((trees[place] if spec.disjoint else 0, node), place)
    hops, low = [], 0
    for hop, top in enumerate(visits.tops):
        edges, high = [], len(nodes)
        for place in range(0 if spec.layout == "BLOCKS" else low, high):
            tree = trees[place]
            own = (int(entry.ordinals[tree]),) if spec.disjoint else ()
            number = EVERY_HOP if spec.reuse_hops else hop
            parts = (spec.seed, oracle.VISIT, case.batch, number, *own, nodes[place])
            time = None if entry.times is None else int(entry.times[tree])
            for neighbor, count in oracle.visited(graph, options, parts, nodes[place], time, top):
                key = (tree if spec.disjoint else 0, neighbor)
                if key not in local:
                    local[key] = len(nodes)
                    nodes.append(neighbor)
                    trees.append(tree)
                edges.append((local[key], place, count))
        hops.append(edges)
        low = high
    return nodes, trees, hops


def agree(case: Case) -> None:
    """Compare the nodes, edges and visits of each back end with the oracle's."""
    nodes, trees, hops = expected(case)
    for backend in BACKENDS:
        sampler = open_sampler(case.graph.view(), replace(case.spec, backend=backend))
        found = sampler.sample(case.entry, case.batch, sampler.scratch())
        assert values(found.nodes[case.spec.seed_type]).tolist() == nodes
        if case.spec.disjoint:
            assert found.trees is not None
            assert values(found.trees[case.spec.seed_type]).tolist() == trees
        for blocks, wanted in zip(found.hops, hops, strict=True):
            (block,) = blocks
            columns = (values(block.neighbor), values(block.seed_side), values(block.weight))
            assert list(zip(*(column.tolist() for column in columns), strict=True)) == wanted
        (edges,) = found.edges.values()
        (traversal,) = sampler.traversals
        assert (traversal.adjacency.edge_id.read(values(edges.position)) == -1).all()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("features", ["", "weight dead"])
@pytest.mark.parametrize("tops", [(1,), (3, 2), (40, 40)])
def test_neighbours_equal_the_oracles(path: str, features: str, tops: tuple[int, ...]) -> None:
    agree(visit_case(1, path, features, tops))
    agree(visit_case(2, path, features, tops, restart=Fraction("0.4")))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("inclusive", [False, True])
def test_neighbours_of_disjoint_trees_equal_the_oracles(path: str, inclusive: bool) -> None:
    temporal = Temporal(inclusive=inclusive, within=None)
    agree(visit_case(3, path, "time until born", (4, 3), temporal=temporal))
    agree(visit_case(4, path, "time weight", (4, 3), temporal=temporal, restart=Fraction("0.2")))


@pytest.mark.parametrize("further", [{"layout": "BLOCKS"}, {"reuse_hops": True}, {"ids": "int32"}], ids=str)
def test_the_clauses_of_samples_apply(further: dict[str, Any]) -> None:
    agree(visit_case(5, "both", "", (3, 2), **further))


def test_a_seed_that_occurs_twice_has_its_own_edges() -> None:
    case = visit_case(6, "both", "", (3, 2))
    agree(case._replace(entry=vertex_input(case.spec.seed_type, np.array([4, 2, 4, 4]))))


def test_an_empty_batch_has_no_edges() -> None:
    case = visit_case(7, "out", "", (3,))
    agree(case._replace(entry=vertex_input(case.spec.seed_type, np.empty(0, np.int64))))


def test_groups_of_seed_edges_share_their_nodes() -> None:
    case = visit_case(8, "both", "", (3, 2))
    places = np.arange(3)
    groups = tuple(SeedGroup("person", np.array(ids), places) for ids in ([1, 2, 3], [3, 4, 1]))
    for backend in BACKENDS:
        spec = replace(case.spec, backend=backend)
        found = _sampled(case, spec, SamplerInput(groups, places))
        assert values(found.nodes["person"])[:4].tolist() == [1, 2, 3, 4]
        assert [values(local).tolist() for local in found.entered] == [[0, 1, 2], [2, 3, 0]]


def _sampled(case: Case, spec: SampleSpec, entry: SamplerInput) -> Any:
    sampler = open_sampler(case.graph.view(), spec)
    return sampler.sample(entry, 0, sampler.scratch())


@pytest.mark.parametrize("part", ["seed", "batch", "hop"])
def test_each_part_of_the_key_changes_the_walks(part: str) -> None:
    case = visit_case(9, "both", "", (2, 2))
    found = _sampled(case, case.spec, case.entry)
    if part == "seed":
        other = _sampled(case, replace(case.spec, seed=case.spec.seed ^ 1), case.entry)
    elif part == "batch":
        sampler = open_sampler(case.graph.view(), case.spec)
        other = sampler.sample(case.entry, 1, sampler.scratch())
    else:
        other = _sampled(case, replace(case.spec, reuse_hops=True), case.entry)
    one, another = (np.concatenate([values(b.weight) for (b,) in each.hops]).tolist() for each in (found, other))
    assert one != another

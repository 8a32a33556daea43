"""Random walks follow their law: uniform and weighted steps, node2vec's transitions, restarts and negatives.

Each test also requires that a walker with a wrong rule fails it.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from snapdb.sampling import vertex_input
from snapdb.types import Drawing, EdgeType, Fanout, RandomWalk, Relation
from tests.support.chances import fair, normal, proportional
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec
from tests.support.inside.sampling import open_walker

KNOWS = EdgeType("node", "knows", "node")
BOTH = (Relation(KNOWS, "BOTH"),)
SEEDS = 40_000

Ints = npt.NDArray[np.int64]


def walked(graph: MemoryGraph, walk: RandomWalk, start: int, seeds: int = SEEDS, **further: Any) -> Any:
    """Return the walks of one vertex that is many seeds."""
    spec = sample_spec("node", Fanout(KNOWS, walk.steps[0].direction, (1,)), walk=walk, **further)
    walker = open_walker(graph.view(), spec)
    return walker.sample(vertex_input("node", np.full(seeds, start)), 0, walker.scratch())


def star(degree: int, weight: npt.NDArray[np.float64] | None = None) -> MemoryGraph:
    """Return edges between vertex 0 and each other vertex."""
    others = np.arange(1, degree + 1)
    return MemoryGraph({"node": degree + 1}, {KNOWS: EdgeList(np.zeros(degree, np.int64), others, weight=weight)})


@pytest.mark.parametrize("degree", [2, 7, 100])
def test_steps_are_uniform(degree: int) -> None:
    """Later steps are tested too, because each step has its own key."""
    graph = star(degree)
    nodes = walked(graph, RandomWalk(4, BOTH), 0).nodes
    even, uneven = np.full(degree, 1 / degree), np.arange(1, degree + 1) / np.arange(1, degree + 1).sum()
    for column in (1, 3):
        counts = np.bincount(nodes[:, column] - 1, minlength=degree)
        fair(f"step {column} of degree {degree}", proportional(counts, even), proportional(counts, uneven))


def test_steps_of_a_walk_are_independent() -> None:
    degree = 9
    nodes = walked(star(degree), RandomWalk(4, BOTH), 0).nodes
    cells = np.bincount((nodes[:, 1] - 1) * degree + nodes[:, 3] - 1, minlength=degree**2)
    even = np.full(degree**2, 1 / degree**2)
    same = np.where(np.arange(degree**2) % (degree + 1) == 0, 2.0, 1.0)
    fair("two steps", proportional(cells, even), proportional(cells, same / same.sum()))


def test_steps_are_proportional_to_weights() -> None:
    weight = np.array([0.0, 1.0, 2.0, 0.5, 8.0, 3.25, 0.0, 1e-3])
    drawing = Drawing("UNIFORM", replace=True, weights=(("knows", "w"),), weighted=True)
    counts = np.bincount(walked(star(8, weight), RandomWalk(1, BOTH), 0, drawing=drawing).nodes[:, 1] - 1, minlength=8)
    squared = weight**1.2
    fair("weights", proportional(counts, weight / weight.sum()), proportional(counts, squared / squared.sum()))


PAIRS = [(0, 1), (0, 2), (1, 2), (1, 3), (1, 4), (1, 4), (2, 3), (4, 5), (5, 1), (3, 3), (1, 6), (6, 7)]
"""A multigraph with triangles, a loop and parallel edges."""


def transitions(back: float, near: float, far: float, before: int, node: int) -> dict[int, float]:
    """Return node2vec's probability of each next vertex, computed from the lists of neighbours."""
    rows: dict[int, list[int]] = {}
    for source, destination in PAIRS:
        rows.setdefault(destination, []).append(source)
        rows.setdefault(source, []).append(destination)
    weights: Counter[int] = Counter()
    found: dict[int, float] = {}
    for neighbor in rows[node]:
        weights[neighbor] += 1
        bias = back if neighbor == before else near if neighbor in rows[before] else far
        found[neighbor] = found.get(neighbor, 0.0) + bias
    return {neighbor: weight / sum(found.values()) for neighbor, weight in found.items()}


@pytest.mark.parametrize(("back", "inout"), [("0.25", "4"), ("4", "0.25"), ("1", "0.5"), ("0.3", "1"), ("2", "3")])
def test_steps_of_the_second_order_follow_node2vec(back: str, inout: str) -> None:
    """The control swaps the biases of neighbours and of others, or of the previous vertex and neighbours."""
    edges = EdgeList.of(PAIRS)
    p, q = Fraction(back), Fraction(inout)
    walk = RandomWalk(12, BOTH, back=p, inout=q)
    nodes = walked(MemoryGraph({"node": 8}, {KNOWS: edges}), walk, 0).nodes
    right = (float(1 / p), 1.0, float(1 / q))
    wrong = (right[0], right[2], right[1]) if q != 1 else (right[1], right[0], right[2])
    triples = np.concatenate([nodes[:, at : at + 3] for at in range(nodes.shape[1] - 2)])
    for before, node in ((0, 1), (4, 1), (2, 1), (3, 2)):
        counts = np.bincount(triples[(triples[:, 0] == before) & (triples[:, 1] == node), 2], minlength=8)
        chances, controls = (transitions(*biases, before, node) for biases in (right, wrong))
        p_value, control = (
            proportional(counts, np.array([law.get(at, 0.0) for at in range(8)])) for law in (chances, controls)
        )
        fair(f"p = {back}, q = {inout}: {before} to {node}", p_value, control)


@pytest.mark.parametrize("restart", ["0.15", "0.5"])
def test_restarts_have_their_rate(restart: str) -> None:
    share = float(restart)
    positions = walked(star(5), RandomWalk(10, BOTH, restart=Fraction(restart)), 0).position
    for step in (0, 9):
        rate, spread = float((positions[:, step] < 0).mean()), (share * (1 - share) / SEEDS) ** 0.5
        fair(f"restart at step {step}", normal((rate - share) / spread), normal((rate - share * 1.1) / spread))
    # A restart does not depend on the restart of the step before.
    both = float(((positions[:, 3] < 0) & (positions[:, 4] < 0)).mean())
    assert abs(both - share**2) < 5 * (share**2 / SEEDS) ** 0.5


def test_negatives_are_uniform_over_the_existing_vertices() -> None:
    alive = np.array([True, True, False, True, True, True, False, True])
    graph = star(7)
    graph = MemoryGraph(graph.nodes, graph.edges, alive={"node": alive})
    negatives = walked(graph, RandomWalk(2, BOTH, window=2, negatives=3), 0, seeds=4000).negatives
    chances = alive / alive.sum()
    for slot in range(3):
        counts = np.bincount(negatives[:, slot], minlength=8)
        fair(f"negative {slot}", proportional(counts, chances), proportional(counts, np.full(8, 1 / 8)))
    cells = np.bincount(negatives[:, 0] * 8 + negatives[:, 1], minlength=64)
    independent = np.outer(chances, chances).reshape(-1)
    fair("two negatives", proportional(cells, independent), proportional(cells, np.full(64, 1 / 64)))

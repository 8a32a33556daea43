"""Path search, compared with an enumeration of all paths that checks every condition by its definition."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from snapdb.kernels.paths.problem import ACCEPT, ACYCLIC, SIMPLE, STATIC, TRAIL, WALK, Limits, PathEdges, Paths, Program
from tests.support.inside.kernels import Selection, earliest, edge_rows, selected, shortest, walks
from tests.support.thoroughness import examples

_MOST_PATHS = 3000
LENGTH, COST, ARRIVAL = range(3)
"""What a selection compares."""
_NEVER = np.zeros(1, np.uint8)


class _Path(NamedTuple):
    source: int
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    transitions: tuple[int, ...]
    positions: tuple[int, ...] = ()


class _TooManyError(Exception):
    pass


def _edges(draw: np.random.Generator, nodes: int, rows: int, degree: float, timed: str, costs: bool) -> PathEdges:
    """Random rows with parallel edges and self loops. Some edges are at two positions, as undirected edges are."""
    counts = draw.poisson(degree, rows)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    size = int(indptr[-1])
    width = draw.choice([np.int32, np.int64])
    time = draw.integers(0, 6, size)
    if timed == "some":
        time[draw.random(size) < 0.3] = STATIC
    return PathEdges(
        indptr,
        draw.integers(0, nodes, size).astype(width),
        draw.integers(0, max(int(size * 0.8), 1), size).astype(width),
        time if timed != "none" else np.empty(0, np.int64),
        draw.integers(0, 4, size) / 2 if costs else np.empty(0),
    )


def _program(draw: np.random.Generator, nodes: int, graphs: int, states: int) -> Program:
    tests = draw.random((int(draw.integers(0, 4)), nodes)) < 0.7
    first, to, test = [0], [], []
    for _ in range(states + 1):
        for target in range(ACCEPT, states):
            for _ in range(int(draw.random() < (0.9 if states == 1 else 0.5)) + int(draw.random() < 0.1)):
                to.append(target)
                test.append(int(draw.integers(-1, tests.shape[0])))
        first.append(len(to))
    base = draw.integers(0, graphs, states) * (nodes + 1)
    return Program(base, *(np.array(each, np.int32) for each in (first, to, test)), tests)


def _plain_program(draw: np.random.Generator, nodes: int) -> Program:
    """One state, as `shortest` and `earliest` take them."""
    tests = draw.random((3, nodes)) < 0.7
    initial = [(0, int(draw.integers(-1, 3)))] + [(ACCEPT, int(draw.integers(-1, 3)))] * int(draw.integers(0, 2))
    to, test = zip((0, int(draw.integers(-1, 3))), (ACCEPT, int(draw.integers(-1, 3))), *initial, strict=True)
    first = np.array([0, 2, 2 + len(initial)], np.int32)
    return Program(np.zeros(1, np.int64), first, np.array(to, np.int32), np.array(test, np.int32), tests)


def _times(edges: PathEdges, path: _Path) -> list[int]:
    return [int(edges.time[p]) for p in path.positions if edges.time.size and edges.time[p] != STATIC]


def _allowed(edges: PathEdges, limits: Limits, path: _Path) -> bool:
    """Whether a path satisfies the mode and the clock."""
    nodes, times = path.nodes, _times(edges, path)
    fine = {
        WALK: True,
        TRAIL: len(set(path.edges)) == len(path.edges),
        ACYCLIC: len(set(nodes)) == len(nodes),
        SIMPLE: len(nodes) == 1 or len(set(nodes[1:])) == len(set(nodes[:-1])) == len(nodes) - 1,
    }
    late = {0: True, 1: times == sorted(times), 2: all(a < b for a, b in pairwise(times))}
    return fine[limits.mode] and late[limits.clock]


def _complete(edges: PathEdges, limits: Limits, path: _Path) -> bool:
    times = _times(edges, path)
    soon = limits.within < 0 or not times or times[-1] - times[0] <= limits.within
    return soon and len(path.edges) >= limits.least


def _enumerate(edges: PathEdges, program: Program, limits: Limits, sources: np.ndarray, bound: int) -> list[_Path]:
    """All paths with at most `bound` edges. Not more than `_MOST_PATHS` are extended."""
    states, visits, paths = program.base.size, [0], []

    def taken(state: int, node: int) -> Iterator[tuple[int, int]]:
        for t in range(program.first[state], program.first[state + 1]):
            if program.test[t] < 0 or program.tests[program.test[t], node]:
                yield t, int(program.to[t])

    def extend(path: _Path, state: int) -> None:
        visits[0] += 1
        if visits[0] > _MOST_PATHS:
            raise _TooManyError
        if state == ACCEPT:
            if _complete(edges, limits, path):
                paths.append(path)
            return
        if len(path.edges) == bound:
            return
        row = program.base[state] + path.nodes[-1]
        for p in range(edges.indptr[row], edges.indptr[row + 1]):
            node = int(edges.neighbor[p])
            longer = path._replace(
                nodes=(*path.nodes, node), edges=(*path.edges, int(edges.edge[p])), positions=(*path.positions, p)
            )
            if _allowed(edges, limits, longer):
                for t, to in taken(state, node):
                    extend(longer._replace(transitions=(*path.transitions, t)), to)

    for source, node in enumerate(sources.tolist()):
        for t, to in taken(states, node):
            extend(_Path(source, (node,), (), (t,)), to)
    return paths


def _unpacked(paths: Paths) -> list[_Path]:
    """The paths of a search, whose arrays must fit together. Positions are not known."""
    assert paths.ptr[0] == 0
    assert paths.ptr.size == paths.source.size + 1
    assert paths.nodes.size == paths.transitions.size == paths.ptr[-1]
    assert paths.edges.size == paths.ptr[-1] - paths.source.size
    out = []
    for i, (low, high) in enumerate(pairwise(paths.ptr.tolist())):
        nodes, edges = paths.nodes[low:high].tolist(), paths.edges[low - i : high - i - 1].tolist()
        assert paths.length[i] == len(edges) == len(nodes) - 1
        out.append(_Path(int(paths.source[i]), tuple(nodes), tuple(edges), tuple(paths.transitions[low:high].tolist())))
    return out


def _without_positions(paths: list[_Path]) -> Counter[_Path]:
    return Counter(path._replace(positions=()) for path in paths)


class _Case(NamedTuple):
    edges: PathEdges
    program: Program
    limits: Limits
    sources: np.ndarray


def _case(draw: np.random.Generator, bounded: bool = True) -> _Case:
    nodes, graphs, states = int(draw.integers(1, 7)), int(draw.integers(1, 3)), int(draw.integers(1, 5))
    mode = int(draw.integers(0, 4))
    timed = str(draw.choice(["none", "some", "all"]))
    most = int(draw.integers(0, 6)) if draw.random() < 0.4 or (bounded and mode == WALK) else -1
    limits = Limits(
        mode=mode,
        least=int(draw.integers(0, 3)) if states == 1 else 0,
        most=most,
        clock=int(draw.integers(0, 3)),
        within=int(draw.choice([-1, 0, 2])),
    )
    edges = _edges(draw, nodes, graphs * (nodes + 1), float(draw.choice([0, 0.7, 1.2, 2])), timed, draw.random() < 0.7)
    sources = draw.integers(0, nodes, int(draw.integers(0, 4)))
    return _Case(edges, _program(draw, nodes, graphs, states), limits, sources)


@pytest.mark.parametrize("group", range(4))
def test_walks_are_all_paths_in_depth_first_order(group: int) -> None:
    draw, compared = np.random.default_rng(group), 0
    for _ in range(examples(300)):
        case = _case(draw)
        bound = case.limits.most if case.limits.most >= 0 else 1000
        try:
            expected = _enumerate(*case, bound)
        except _TooManyError:
            continue
        rows = int(draw.choice([1, 50, 5000]))
        parts = list(walks(*case, _NEVER, rows))
        received = [path for part in parts for path in _unpacked(part)]
        assert received == [path._replace(positions=()) for path in expected]
        compared += len(expected)
    assert compared > 100


def test_a_stopped_walk_ends() -> None:
    edges = PathEdges(
        np.array([0, 2]), np.zeros(2, np.int32), np.arange(2, dtype=np.int32), np.empty(0, int), np.empty(0)
    )
    program = Program(
        np.zeros(1, np.int64),
        *np.array([[0, 2, 3], [0, ACCEPT, 0], [-1, -1, -1]], np.int32),
        np.empty((0, 1), np.bool_),
    )
    parts = walks(
        edges, program, Limits(WALK, 0, 60, 0, -1), np.zeros(1, np.int64), stop := np.zeros(1, np.uint8), 10**5
    )
    assert next(parts).source.size
    stop[0] = 1
    assert len(list(parts)) == 0


def _value(by: int, edges: PathEdges, path: _Path) -> float:
    if by == LENGTH:
        return len(path.edges)
    if by == COST:
        return float(sum(edges.cost[p] if edges.cost.size else 1.0 for p in path.positions))
    return max(_times(edges, path), default=STATIC)


def _best(values: list[float], selection: Selection) -> list[float]:
    """The values that are selected, in ascending order."""
    if not selection.groups:
        return sorted(values)[: selection.count]
    least = sorted(set(values))[: selection.count]
    return sorted(value for value in values if value in least)


def _check_selected(
    edges: PathEdges, expected: list[_Path], received: list[_Path], selection: Selection, ordered: bool = True
) -> None:
    """Check the values and the number of selected paths, and that they are distinct paths of the search."""
    # Runs over different positions of one undirected edge look the same from outside: the least value stands for them.
    known, values = defaultdict(list), defaultdict(list)
    for path in expected:
        value = _value(selection.by, edges, path)
        known[path._replace(positions=())].append(value)
        values[path.source, path.nodes[-1]].append(value)
    reached = defaultdict(list)
    used = Counter(received)
    for path in used:
        assert used[path] <= len(known[path])
        reached[path.source, path.nodes[-1]] += sorted(known[path])[: used[path]]
    assert {pair: sorted(each) for pair, each in reached.items()} == {
        pair: _best(each, selection) for pair, each in values.items()
    }
    assert [path.source for path in received] == sorted(path.source for path in received)


@pytest.mark.parametrize("group", range(6))
def test_selected_paths_have_the_best_values(group: int) -> None:
    draw, compared = np.random.default_rng(group + 100), 0
    for _ in range(examples(600)):
        case = _case(draw, bounded=draw.random() < 0.7)
        by = int(draw.integers(0, 3))
        count, groups = int(draw.choice([1, 1, 2, 3])), int(draw.random() < 0.3)
        limits, program = case.limits, case.program
        endless = limits.mode == WALK and limits.most < 0
        if by == ARRIVAL and limits.clock == 0:
            limits = limits._replace(clock=1)
        if endless and ((groups and by != LENGTH) or (limits.clock == 0 and limits.within >= 0)):
            continue
        case, selection = case._replace(limits=limits), Selection(by, count, groups)
        bound = limits.most if limits.most >= 0 else 1000
        if endless:
            bound = max(program.base.size * program.tests.shape[1] * count, 1) + limits.least
        try:
            expected = _enumerate(*case, bound)
        except _TooManyError:
            continue
        received = _unpacked(selected(*case, selection, _NEVER, 10**6))
        _check_selected(case.edges, expected, received, selection)
        compared += len(received)
    assert compared > 100


def test_paths_that_tie_over_their_last_edge_are_one_group() -> None:
    """Prefixes with different last times have completions with the same arrival."""
    edges = PathEdges(np.array([0, 1]), np.zeros(1, int), np.zeros(1, int), np.zeros(1, int), np.empty(0))
    program = Program(
        np.zeros(1, np.int64),
        *np.array([[0, 2, 3], [0, ACCEPT, 0], [-1, -1, -1]], np.int32),
        np.empty((0, 1), np.bool_),
    )
    case = edges, program, Limits(WALK, 0, 3, 1, -1), np.zeros(1, np.int64)
    assert selected(*case, Selection(ARRIVAL, 1, 1), _NEVER, 100).length.tolist() == [1, 2, 3]
    assert selected(*case, Selection(ARRIVAL, 1, 0), _NEVER, 100).length.tolist() == [1]


def test_too_many_labels_are_an_error() -> None:
    edges = PathEdges(
        np.array([0, 2]), np.zeros(2, np.int32), np.arange(2, dtype=np.int32), np.empty(0, int), np.empty(0)
    )
    program = Program(
        np.zeros(1, np.int64),
        *np.array([[0, 2, 3], [0, ACCEPT, 0], [-1, -1, -1]], np.int32),
        np.empty((0, 1), np.bool_),
    )
    with pytest.raises(OverflowError, match="labels"):
        selected(
            edges, program, Limits(WALK, 40, 50, 0, -1), np.zeros(1, np.int64), Selection(LENGTH, 99, 1), _NEVER, 10**4
        )


def _reversed(edges: PathEdges, nodes: int) -> PathEdges:
    tail = np.repeat(np.arange(nodes), np.diff(edges.indptr[: nodes + 1]))
    order = np.argsort(edges.neighbor[: tail.size], kind="stable")
    counts = np.bincount(edges.neighbor[: tail.size], minlength=nodes)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return edges._replace(indptr=indptr, neighbor=tail[order].astype(edges.neighbor.dtype), edge=edges.edge[order])


def _check_ends(paths: Paths, expected: list[_Path], sources: np.ndarray) -> None:
    """Check paths of which only the ends are returned."""
    least = {}
    for path in sorted(expected, key=lambda path: len(path.edges)):
        least.setdefault((path.source, path.nodes[-1]), len(path.edges))
    assert paths.ptr.tolist() == [2 * i for i in range(paths.source.size + 1)]
    assert paths.edges.size == paths.transitions.size == 0
    assert paths.nodes[::2].tolist() == sources[paths.source].tolist()
    rows = list(zip(paths.source.tolist(), paths.nodes[1::2].tolist(), paths.length.tolist(), strict=True))
    assert rows == [(*pair, least[pair]) for pair in sorted(least)]


@pytest.mark.parametrize("group", range(3))
def test_shortest_paths_of_many_sources(group: int) -> None:
    draw, compared = np.random.default_rng(group + 200), 0
    for _ in range(examples(200)):
        nodes = int(draw.integers(1, 7))
        edges, program = _edges(draw, nodes, nodes, float(draw.choice([0, 0.7, 1.2])), "none", False), None
        program = _plain_program(draw, nodes)
        limits = Limits(WALK, int(draw.integers(0, 2)), int(draw.choice([-1, -1, 1, 3])), 0, -1)
        sources = draw.integers(0, nodes, int(draw.choice([0, 1, 3, 5])))
        repeat = int(draw.choice([1, 1, 30, 80]))
        try:
            expected = _enumerate(edges, program, limits, sources, limits.most if limits.most >= 0 else nodes + 1)
        except _TooManyError:
            continue
        # Many copies of the sources fill several words.
        many, expected = (
            np.tile(sources, repeat),
            [path._replace(source=path.source + i * sources.size) for i in range(repeat) for path in expected],
        )
        _check_ends(shortest(edges, program, limits, many, _NEVER, None), expected, many)
        received = _unpacked(shortest(edges, program, limits, many, _NEVER, _reversed(edges, nodes)))
        _check_selected(edges, expected, received, Selection(LENGTH, 1, 0))
        assert received == sorted(received, key=lambda path: (path.source, path.nodes[-1]))
        compared += len(received)
    assert compared > 100


def test_shortest_paths_over_large_frontiers() -> None:
    """Sparse and dense levels, top-down and bottom-up, against the search by labels."""
    draw, nodes = np.random.default_rng(7), 3000
    edges = _edges(draw, nodes, nodes, 3.0, "none", False)
    edges = edges._replace(edge=np.arange(edges.edge.size, dtype=np.int32))
    for few in (0.01, 0.9):
        program = _plain_program(draw, nodes)
        program.tests[:2], program.tests[2] = draw.random((2, nodes)) < 0.9, draw.random(nodes) < few
        program.test[:] = [0, 2, 1, 2][: program.test.size] if program.test.size == 4 else [0, 2, 1]
        limits, sources = Limits(WALK, 0, -1, 0, -1), draw.integers(0, nodes, 150)
        expected = selected(edges, program, limits, sources, Selection(LENGTH, 1, 0), _NEVER, 10**6)
        order = np.lexsort((expected.nodes[expected.ptr[1:] - 1], expected.source))
        paths = shortest(edges, program, limits, sources, _NEVER, _reversed(edges, nodes))
        short = shortest(edges, program, limits, sources, _NEVER, None)
        for each in (paths, short):
            assert each.source.tolist() == expected.source[order].tolist()
            assert each.length.tolist() == expected.length[order].tolist()
            assert each.nodes[each.ptr[1:] - 1].tolist() == expected.nodes[expected.ptr[1:] - 1][order].tolist()
        tail = np.repeat(np.arange(nodes), np.diff(edges.indptr))
        for path in _unpacked(paths):
            assert path.nodes[0] == sources[path.source]
            assert [tail[e] for e in path.edges] == list(path.nodes[:-1])
            assert [edges.neighbor[e] for e in path.edges] == list(path.nodes[1:])


@pytest.mark.parametrize("group", range(3))
def test_earliest_arrivals_of_many_sources(group: int) -> None:
    draw, compared = np.random.default_rng(group + 300), 0
    for _ in range(examples(300)):
        nodes = int(draw.integers(1, 7))
        edges, program = (
            _edges(draw, nodes, nodes, float(draw.choice([0, 0.7, 1.5])), "all", False),
            _plain_program(draw, nodes),
        )
        limits = Limits(WALK, int(draw.integers(0, 2)), -1, int(draw.integers(1, 3)), -1)
        sources = draw.integers(0, nodes, int(draw.choice([0, 1, 3, 5])))
        try:
            expected = _enumerate(edges, program, limits, sources, nodes + 1)
        except _TooManyError:
            continue
        order = np.argsort(edges.time, kind="stable")
        tail = np.repeat(np.arange(nodes), np.diff(edges.indptr))
        lanes = int(draw.choice([1, 2, 64]))
        received = _unpacked(earliest(order, tail, edges, program, limits, sources, _NEVER, lanes))
        _check_selected(edges, expected, received, Selection(ARRIVAL, 1, 0))
        assert received == sorted(received, key=lambda path: (path.source, path.nodes[-1]))
        compared += len(received)
    assert compared > 100


@pytest.mark.parametrize("clock", [1, 2])
def test_earliest_arrivals_over_many_edges(clock: int) -> None:
    draw, nodes = np.random.default_rng(8), 500
    edges = _edges(draw, nodes, nodes, 3.0, "all", False)
    edges = edges._replace(time=draw.integers(0, 300, edges.edge.size))
    program, limits = _plain_program(draw, nodes), Limits(WALK, 1, -1, clock, -1)
    sources, order = draw.integers(0, nodes, 70), np.argsort(edges.time, kind="stable")
    tail = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(edges.indptr))
    paths = earliest(order, tail, edges, program, limits, sources, _NEVER, 64)
    expected = selected(edges, program, limits, sources, Selection(ARRIVAL, 1, 0), _NEVER, 10**6)
    ends = [sorted(zip(each.source, each.nodes[each.ptr[1:] - 1], strict=True)) for each in (paths, expected)]
    assert ends[0] == ends[1]
    assert len(ends[0]) > 100


@pytest.mark.parametrize(("nodes", "count", "hub"), [(1, 0, 0), (1, 900, 0), (5, 40, 0), (200, 3000, 1500)])
@pytest.mark.parametrize("timed", [False, True])
def test_edges_in_rows_are_sorted_by_time_identity_and_node(nodes: int, count: int, hub: int, timed: bool) -> None:
    draw = np.random.default_rng(nodes + count)
    tail, head = draw.integers(0, nodes, (2, count))
    tail[:hub] = nodes // 2
    edge, cost = draw.integers(0, max(count // 2, 1), count), draw.random(count)
    time = draw.integers(-3, 4, count) if timed else np.empty(0, np.int64)
    indptr, *columns = edge_rows(tail, head, edge, time, cost, nodes)
    rows = sorted(zip(tail, time if timed else edge, edge, head, cost, strict=True))
    assert [tuple(row) for row in zip(columns[1], columns[0], strict=True)] == [(row[2], row[3]) for row in rows]
    assert columns[2].tolist() == ([row[1] for row in rows] if timed else [])
    same = {(row[0], row[2], row[3]) for row in rows}
    if len(same) == count:  # equal edges may be in any order
        assert columns[3].tolist() == [row[4] for row in rows]
    assert indptr.tolist() == [int(np.count_nonzero(tail < node)) for node in range(nodes + 1)]

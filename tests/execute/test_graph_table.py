"""GRAPH_TABLE against a naive matcher: random graphs and random patterns, and the matcher against known matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import snapdb
from tests.support.matcher import Binding, Match, match, select, value_of
from tests.support.path_patterns import (
    Comparison,
    Cost,
    Edge,
    EdgePattern,
    Filler,
    Graph,
    Group,
    Labels,
    NodePattern,
    Part,
    PathPattern,
    Quantified,
    Selection,
    Vertex,
)
from tests.support.pattern_texts import Query, disjoint, random_graph, script
from tests.support.random_patterns import path_columns, random_query
from tests.support.thoroughness import SOAK

GROUPS = 400 if SOAK else 8
QUERIES_PER_GRAPH = 18
TIMED_GRAPHS = 400 if SOAK else 60
NAMES = {2: ("s", "g"), 1: ("g", "s")}
"""Number of threads → what queries with even and odd numbers read: every query reads the snapshot and the graph."""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A query, its bindings or its candidates, and where it comes from."""

    query: Query
    bindings: Sequence[Binding]
    graph: Graph
    origin: str

    def check(self, rows: Sequence[Row], context: str) -> None:
        """Compare rows with the bindings.

        Of a prefix that leaves a choice, compare the number of paths per pair of ends, and their values.
        """
        expected = Counter(self.query.row(self.graph, binding) for binding in self.bindings)
        if not self.query.selection.is_choice:
            missing, extra = expected - Counter(rows), Counter(rows) - expected
            assert not missing and not extra, f"missing {dict(missing)}, not expected {dict(extra)}\n{context}"  # noqa: PT018
            return
        extra = Counter(rows) - expected
        assert not extra, f"not expected, or too often: {dict(extra)}\n{context}"
        assert self._values_per_pair(rows) == self._best_values(), context

    def _best_values(self) -> dict[tuple[int, int], list[float]]:
        """Return the values of the paths to select, in ascending order, by their ends."""
        best: dict[tuple[int, int], list[float]] = {}
        for found in select(self.query.selection, [binding[0] for binding in self.bindings]):
            best.setdefault(found.ends, []).append(value_of(self.query.selection, found))
        return {ends: sorted(values) for ends, values in best.items()}

    def _values_per_pair(self, rows: Sequence[Row]) -> dict[tuple[int, int], list[float]]:
        """Return the values of the paths of rows, in ascending order, by their ends."""
        candidates: dict[Row, list[Match]] = {}
        for binding in self.bindings:
            candidates.setdefault(self.query.row(self.graph, binding), []).append(binding[0])
        values: dict[tuple[int, int], list[float]] = {}
        for row, copies in Counter(rows).items():
            ranked = sorted(candidates[row], key=lambda found: value_of(self.query.selection, found))
            for found in ranked[:copies]:
                values.setdefault(found.ends, []).append(value_of(self.query.selection, found))
        return {ends: sorted(each) for ends, each in values.items()}


def run(db: snapdb.Database, sql: str, context: str) -> list[Row] | None:
    """Return the rows of a query, with lists as tuples. An error shows where the query comes from.

    The result is None if a condition compares elements that a search cannot compare before it selects paths.
    """
    try:
        rows = db.execute(sql).fetchall()
    except snapdb.SnapdbError as error:
        if error.code == "pattern-condition":
            return None
        raise AssertionError(f"{error}\n{context}") from error
    return [tuple(tuple(value) if isinstance(value, list) else value for value in row) for row in rows]


def compare(path: Path, graph: Graph, cases: Sequence[Case]) -> None:
    """Run queries on the snapshot and on the graph, with one and with two threads, and compare their rows."""
    results: dict[int, Counter[Row]] = {}
    refused = 0
    for threads, names in NAMES.items():
        with snapdb.connect(path, threads=threads) as db:
            if not results:
                db.script(script(graph))
            for number, case in enumerate(cases):
                sql = case.query.to_sql(names[number % 2])
                tables = "" if len(graph.vertices) > 20 else script(graph)
                context = f"{case.origin}, query {number}, {threads} threads:\n{sql}\n{tables}"
                rows = run(db, sql, context)
                if rows is None:
                    refused += 1
                    continue
                case.check(rows, context)
                assert results.setdefault(number, Counter(rows)) == Counter(rows), f"other rows than before\n{context}"
    assert refused <= len(cases) // 2, "most queries run"


@pytest.mark.parametrize("seed", range(GROUPS))
def test_random_patterns_have_the_rows_of_the_naive_matcher(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    graph = random_graph(random)
    cases = [Case(*random_query(random, graph), graph, f"seed {seed}") for _ in range(QUERIES_PER_GRAPH)]
    compare(tmp_path / "test.snapdb", graph, cases)


PERSON, KNOWS = Labels(":person", frozenset({"person"})), Labels(":knows", frozenset({"knows"}))
A, B = NodePattern(Filler("a", PERSON)), NodePattern(Filler("b", PERSON))
E = EdgePattern("right", Filler("e", KNOWS))
ANY_WAY = replace(E, direction="any")
ALL_SHORTEST = Selection("ALL SHORTEST", "length", 1, groups=True)
EARLIEST = Selection("ANY EARLIEST", "arrival")


def timed(quantifier: str, least: int, most: int | None, **prefix: Any) -> PathPattern:
    """Return a pattern of a quantified edge between two persons."""
    return PathPattern((A, Quantified(E, quantifier, least, most), B), "p", **prefix)


TIMED = (
    timed("{1,3}", 1, 3),
    timed("+", 1, None, selection=EARLIEST),
    timed("*", 0, None, selection=EARLIEST),
    timed("{2,}", 2, None, selection=EARLIEST),
    timed("+", 1, None, selection=EARLIEST, mode="TRAIL"),
    timed("+", 1, None, selection=ALL_SHORTEST),
    timed("+", 1, None, selection=Selection("SHORTEST 2 GROUP", "length", 2, groups=True)),
    timed("*", 0, None, selection=Selection("ANY SHORTEST", "length")),
    timed("+", 1, None, selection=Selection("SHORTEST 3", "length", 3), mode="ACYCLIC"),
    timed("*", 0, None, mode="TRAIL"),
    timed("+", 1, None, mode="ACYCLIC"),
    timed("+", 1, None, mode="SIMPLE"),
    PathPattern(
        (A, Quantified(EdgePattern("right", Filler("e", KNOWS, cost=Cost("e"))), "+", 1, None), B),
        "p",
        Selection("ANY CHEAPEST", "cost"),
    ),
    PathPattern((A, Quantified(ANY_WAY, "+", 1, None), B), "p", EARLIEST),
    PathPattern((A, Quantified(ANY_WAY, "+", 1, None), B), "p", ALL_SHORTEST),
)


def test_paths_that_respect_time_are_those_of_brute_force(tmp_path: Path) -> None:
    random = Random(0)
    graph = disjoint([random_graph(random, people=5, edges=8, first=10 * i) for i in range(TIMED_GRAPHS)])
    cases = []
    for clock in ("TIME RESPECTING", "TIME RESPECTING STRICT"):
        for within in (None, 2):
            for pattern in TIMED:
                query = Query((replace(pattern, clock=clock, within=within),), tuple(path_columns("p", 0, True)))
                cases.append(Case(query, query.bindings(graph, most_steps=1_000_000), graph, "timed graphs"))
    compare(tmp_path / "test.snapdb", graph, cases)


def small(*edges: tuple[int, int], times: Sequence[int | None] = ()) -> Graph:
    """Return a graph of persons from pairs of source and destination, with event times."""
    return Graph(
        [Vertex("person", {"id": i, "v": i}) for i in range(max(max(ends) for ends in edges) + 1)],
        [Edge("knows", {"e_id": i, "w": i}, *ends, times[i] if times else None) for i, ends in enumerate(edges)],
    )


def paths(graph: Graph, *parts: Part, **prefix: Any) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the vertices and edges of the matches of one path pattern, in ascending order."""
    found = match(graph, [PathPattern(parts, **prefix)])
    return sorted((binding[0].vertices, binding[0].edges) for binding in found)


LINE = small((0, 1), (1, 2), (1, 1))
CYCLE = small((0, 1), (1, 0), (1, 2))
STAR, PLUS = Quantified(E, "*", 0, None), Quantified(E, "+", 1, None)


def test_the_matcher_follows_edges_in_their_direction() -> None:
    left = replace(E, direction="left")
    assert paths(LINE, A, E, B) == [((0, 1), (0,)), ((1, 1), (2,)), ((1, 2), (1,))]
    assert paths(LINE, A, left, B) == [((1, 0), (0,)), ((1, 1), (2,)), ((2, 1), (1,))]
    # A self loop is met once.
    assert len(paths(LINE, A, ANY_WAY, B)) == 5
    assert paths(small((0, 1), (0, 1)), E) == [((0, 1), (0,)), ((0, 1), (1,))]


def test_the_matcher_joins_what_is_adjacent_and_what_has_one_name() -> None:
    assert paths(LINE, A, B, E, A) == [((1, 1), (2,))]
    assert paths(CYCLE, A, E, E) == []  # one edge variable, and no edge follows itself
    assert paths(CYCLE, EdgePattern(), A, EdgePattern()) == [
        ((0, 1, 0), (0, 1)),
        ((0, 1, 2), (0, 2)),
        ((1, 0, 1), (1, 0)),
    ]
    found = match(LINE, [PathPattern((A, E, B)), PathPattern((B, EdgePattern(), NodePattern(Filler("c"))))])
    assert [(x.edges, y.edges) for x, y in found] == [((0,), (1,)), ((0,), (2,)), ((2,), (1,)), ((2,), (2,))]


def test_the_matcher_repeats_parts() -> None:
    assert paths(LINE, A, Quantified(E, "{0,1}", 0, 1)) == [
        *(((0,), ()), ((0, 1), (0,)), ((1,), ()), ((1, 1), (2,)), ((1, 2), (1,)), ((2,), ()))
    ]
    rising = Comparison(("x", "v"), "<", ("y", "v"))
    inner = Group((NodePattern(Filler("x")), E, NodePattern(Filler("y"))), rising)
    assert paths(LINE, Quantified(inner, "{2}", 2, 2)) == [((0, 1, 2), (0, 1))]
    # Nothing is named apart from the ends, so the edges' distribution among the two parts makes no difference.
    anonymous = Quantified(EdgePattern(), "{0,2}", 0, 2)
    assert paths(CYCLE, A, anonymous, anonymous, B).count(((0, 1, 0, 1), (0, 1, 0))) == 1
    named = Quantified(E, "{0,2}", 0, 2)
    assert paths(CYCLE, A, named, anonymous, B).count(((0, 1, 0, 1), (0, 1, 0))) == 2


def test_the_matcher_restricts_paths_by_their_mode() -> None:
    at_zero = NodePattern(Filler("a", None, Comparison(("a", "id"), "=", 0)))
    assert paths(CYCLE, at_zero, STAR, mode="TRAIL") == [
        *(((0,), ()), ((0, 1), (0,)), ((0, 1, 0), (0, 1)), ((0, 1, 2), (0, 2)))
    ]
    assert paths(CYCLE, at_zero, STAR, mode="ACYCLIC") == [((0,), ()), ((0, 1), (0,)), ((0, 1, 2), (0, 2))]
    eight = small((0, 1), (1, 0), (0, 2), (2, 0))
    assert paths(eight, at_zero, PLUS, at_zero, mode="SIMPLE") == [((0, 1, 0), (0, 1)), ((0, 2, 0), (2, 3))]
    assert len(paths(eight, at_zero, PLUS, at_zero, mode="TRAIL")) == 4


def test_the_matcher_selects_paths_per_pair_of_ends() -> None:
    diamond = small((0, 1), (0, 2), (1, 3), (2, 3), (3, 3))
    ends = [NodePattern(Filler(v, None, Comparison((v, "id"), "=", key))) for v, key in (("a", 0), ("b", 3))]
    wanted = [((0, 1, 3), (0, 2)), ((0, 2, 3), (1, 3))]
    assert paths(diamond, ends[0], PLUS, ends[1], selection=ALL_SHORTEST) == wanted
    assert paths(diamond, ends[0], PLUS, ends[1], selection=Selection("ANY", "length")) == wanted[:1]
    groups = Selection("SHORTEST 3 GROUP", "length", 3, groups=True)
    assert [len(edges) for _, edges in sorted(paths(diamond, ends[0], PLUS, ends[1], selection=groups))] == [
        2,
        3,
        4,
    ] * 2
    priced = EdgePattern("right", Filler("e", cost=Cost("e")))  # the costs are the edges' positions
    cheapest = Selection("ANY CHEAPEST", "cost")
    assert paths(diamond, ends[0], Quantified(priced, "+", 1, None), ends[1], selection=cheapest) == wanted[:1]


def test_the_matcher_compares_event_times() -> None:
    line = small((0, 1), (1, 2), (2, 3), (3, 4), (3, 5), times=(2, 2, None, 1, 5))
    at_zero = NodePattern(Filler("a", None, Comparison(("a", "id"), "=", 0)))

    def targets(**prefix: Any) -> list[int]:
        return [vertices[-1] for vertices, _ in paths(line, at_zero, STAR, mode="TRAIL", **prefix)]

    assert targets() == [0, 1, 2, 3, 4, 5]
    assert targets(clock="TIME RESPECTING") == [0, 1, 2, 3, 5]
    assert targets(clock="TIME RESPECTING", within=2) == [0, 1, 2, 3]
    assert targets(clock="TIME RESPECTING STRICT") == [0, 1]
    late = small((0, 2), (0, 1), (1, 2), times=(6, 3, 4))
    assert paths(late, at_zero, PLUS, selection=EARLIEST) == [((0, 1), (1,)), ((0, 1, 2), (1, 2))]


def test_the_matcher_prints_what_it_matches() -> None:
    inner = Group((NodePattern(Filler("x")), E, NodePattern()), Comparison(("e", "w"), ">=", 2), Cost("e", 1))
    pattern = PathPattern(
        (A, Quantified(inner, "{1,3}", 1, 3), EdgePattern("left", short=True), B, EdgePattern("either"), NodePattern()),
        "p",
        *(ALL_SHORTEST, "TRAIL", "TIME RESPECTING", 3),
    )
    assert pattern.to_sql() == (
        "p = ALL SHORTEST TRAIL TIME RESPECTING WITHIN INTERVAL '3 hours' (a:person) "
        "((x) -[e:knows]-> () WHERE e.w >= 2 COST e.w + 1){1,3} <- (b:person) <-[]-> ()"
    )

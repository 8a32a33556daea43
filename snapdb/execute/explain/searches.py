"""Path searches in EXPLAIN: the method, and the expected and real numbers of sources and paths."""

from __future__ import annotations

from collections.abc import Mapping

from snapdb.paths.methods import method_of
from snapdb.paths.search import SearchRows
from snapdb.plan.computed import ComputedRows
from snapdb.plan.plan import PlanNode
from snapdb.plan.searches import PathSearch, SearchNode

_METHODS = {
    "walks": "depth-first search of all paths",
    "lanes": "multi-source breadth-first search with bit lanes",
    "earliest": "one scan of the edges in time order",
    "best-first": "best-first search from each source",
}
_SELECTIVITY = 0.2
"""The expected share of vertices that satisfy a condition, as in DuckDB."""
_LONGEST = 6
"""The number of edges up to which the paths of an unbounded quantifier are estimated."""


def search_nodes(opened: Mapping[str, ComputedRows], *, analyze: bool) -> tuple[PlanNode, ...]:
    """Return the operators of a query's path searches. With `analyze`, they have run."""
    return tuple(_node(rows, analyze=analyze) for rows in opened.values() if isinstance(rows, SearchRows))


def _node(rows: SearchRows, *, analyze: bool) -> PlanNode:
    search = rows.search
    where = "tables" if search.snapshot is None else f"snapshot {search.snapshot.name}"
    clauses = [str(search.search)]
    if search.mode != "WALK":
        clauses.append(search.mode)
    if search.times != "any":
        clauses.append("TIME RESPECTING STRICT" if search.times == "increasing" else "TIME RESPECTING")
    edges = ", ".join(search.edges) or "no edges"
    detail = f"{' '.join(clauses)} over {edges} of {where}: {_METHODS[method_of(search)]}"
    node = PlanNode("PATH_SEARCH", detail, (), {"sources": _sources(search), "rows": _paths(search)})
    if analyze:
        node.measure({"sources": rows.sources, "rows": rows.rows, "seconds": round(rows.seconds, 6)})
    return node


def _sources(search: PathSearch) -> int:
    return round(max(_vertices(search, search.nodes[0]), 1))


def _vertices(search: PathSearch, node: SearchNode) -> float:
    """Return the expected number of vertices that satisfy a node's conditions."""
    return sum(search.counts.get(name, 0) * _SELECTIVITY ** len(tests) for name, tests in node.tests.items())


def _paths(search: PathSearch) -> int:
    """Return the expected number of paths, which assumes that each vertex has the average number of edges."""
    sources, targets = (_vertices(search, node) for node in (search.nodes[0], search.nodes[-1]))
    if search.search.kind != "all":
        return round(sources * targets * (1 if search.search.groups else search.search.count))
    every = sum(search.counts.get(name, 0) for name in search.vertices) or 1
    degree = sum(search.counts.get(name.lower(), 0) for name in search.edges) / every
    automaton = search.automaton
    least = max(automaton.least, len(automaton.states) if len(automaton.states) > 1 else 0)
    most = automaton.most or max(least, _LONGEST if len(automaton.states) == 1 else least)
    walks = sum(degree**length for length in range(least, min(most, least + _LONGEST) + 1))
    return round(min(sources * walks * min(targets / every, 1.0), 1e15))

"""Weakly and strongly connected components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from snapdb.algorithms.graph import AlgorithmGraph, Run, Values
from snapdb.algorithms.methods.common import alone, id_type, label_components, neighbors, ranges_of
from snapdb.arrays import Array
from snapdb.kernels.algorithms.components import (
    MEMBER,
    flatten,
    link_first,
    link_forest,
    link_rows,
    mark_ancestors,
    strong_components,
    sweep_members,
)
from snapdb.kernels.algorithms.rows import Neighbors, equal_ranges

_FIRST = 2
"""The number of edges of each row that are joined before the others."""
_SWEEPS = 24
"""The maximum number of sweeps. Components with long paths are found faster by depth-first search."""


def weakly_connected_components(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the number of the component of each node, as int64, in the order of the least rank of each component."""
    rows = neighbors(graph, "IN")
    parent: Array = np.arange(graph.nodes, dtype=id_type(graph.nodes))
    alone(run, lambda: (link_first(rows.indptr, rows.indices, parent, _FIRST), flatten(parent)))
    # One forest per thread, because joining trees of a shared one needs atomic operations.
    ranges = equal_ranges(rows.indptr, 1, run.threads)
    forests = [parent, *(parent.copy() for _ in ranges[1:])]
    parts = list(zip(forests, ranges, strict=False))  # no range without nodes
    run.parallel(lambda part: link_rows(rows.indptr, rows.indices, part[0], *part[1]), parts)
    for forest in forests[1:]:
        alone(run, lambda forest=forest: link_forest(forest, parent))  # type: ignore[misc]
    alone(run, lambda: flatten(parent))
    labels, count = label_components(graph, parent, graph.nodes)
    return Values(labels, graph.alive, {"components": count})


def strongly_connected_components(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the number of the component of each node, as int64, in the order of the least rank of each component.

    The component of one pivot, a giant one in many graphs, is found by threads. A depth-first search finds the others.
    """
    rows = neighbors(graph, "IN")
    index = np.zeros(graph.nodes, id_type(graph.nodes))
    stack = np.empty_like(index)
    if graph.edges > 0:
        _leave_out_giant(rows, index, stack, run)
    cursor, rooted = np.empty(graph.nodes, np.int64), np.empty(graph.nodes, np.uint8)
    alone(run, lambda: strong_components(rows.indptr, rows.indices, index, stack, cursor, rooted, run.stop))
    labels, count = label_components(graph, index, graph.nodes + 2)
    return Values(labels, graph.alive, {"components": count})


def _leave_out_giant(rows: Neighbors, index: Array, queue: Array, run: Run) -> None:
    """Set the index of the nodes in the component of a pivot to nodes + 1, unless its paths are long."""
    pivot = _pivot(rows)
    state = np.zeros(index.size, np.uint8)
    ancestors = alone(run, lambda: mark_ancestors(rows.indptr, rows.indices, pivot, state, queue, run.stop))
    state[pivot] = MEMBER
    ranges = ranges_of(rows.indptr, run)
    members = 1
    for _ in range(_SWEEPS):
        found = sum(run.parallel(lambda part: sweep_members(rows.indptr, rows.indices, state, *part), ranges))
        run.step()
        members += found
        if found == 0:
            break
        if found * _SWEEPS < ancestors - members and members * 2 < ancestors:
            return  # too slow, or a small component
    else:
        return
    index[state == MEMBER] = index.size + 1


def _pivot(rows: Neighbors) -> int:
    """Return a node with many arriving edges, and an edge to the node with most of them.

    A random node of a graph with a giant component can be outside it. This one reaches a node that many nodes reach.
    """
    degrees = np.diff(rows.indptr)
    hub = int(np.argmax(degrees))
    row = rows.indices[rows.indptr[hub] : rows.indptr[hub + 1]].astype(np.int64)
    return int(row[np.argmax(degrees[row])])

"""The degree of each node, or the sum of the weights of its edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from snapdb.algorithms.graph import AlgorithmGraph, Run, Side, Values
from snapdb.algorithms.methods.common import count_arrivals, neighbors, ranges_of
from snapdb.arrays import Float64s
from snapdb.kernels.algorithms.rows import add_weights, even_ranges, sum_rows

_PARTS = 2
"""The number of partial sums. It is fixed, so that sums have the same bits on any number of threads."""


def degree(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the number of edges of each node, as int64, or the sum of their weights, as float64.

    A self loop counts twice in direction BOTH. No rows of leaving edges are needed: a node has as many of them as there
    are edges at which it is the neighbor.
    """
    direction = options["direction"]
    if graph.weighted:
        return Values(strengths(graph, run, direction), graph.alive)
    arriving = np.diff(graph.rows("IN").indptr) if direction != "OUT" else np.int64(0)
    leaving = count_arrivals(graph, run, "IN") if direction != "IN" else np.int64(0)
    return Values(np.asarray(arriving + leaving), graph.alive)


def strengths(graph: AlgorithmGraph, run: Run, direction: Side | str) -> Float64s:
    """[nodes] The sum of the weights of the edges of each node, or their number in a graph without weights."""
    if not graph.weighted:
        counts: Float64s = degree(graph, {"direction": direction}, run).values.astype(np.float64)
        return counts
    rows = neighbors(graph, "IN")
    sums = np.zeros((_PARTS, graph.nodes))
    if direction != "IN":
        ranges = list(enumerate(even_ranges(rows.indices.size, max(-(-rows.indices.size // _PARTS), 1))))
        run.parallel(lambda part: add_weights(rows.indices, rows.weight, sums[part[0]], *part[1]), ranges)
    total: Float64s = sums[0]
    total += sums[1]
    if direction != "OUT":
        run.parallel(lambda part: sum_rows(rows.indptr, rows.weight, total, *part), ranges_of(rows.indptr, run))
    return total

"""Core numbers, triangles and clustering coefficients of the graph without directions, parallel edges and loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from snapdb.algorithms.graph import AlgorithmGraph, Run, Values
from snapdb.algorithms.methods.common import TASKS, Buffers, SimpleRows, alone, id_type, simple_rows
from snapdb.arrays import Int64s
from snapdb.kernels.algorithms.cores import core_numbers
from snapdb.kernels.algorithms.rows import equal_ranges
from snapdb.kernels.algorithms.triangles import count_greater, count_triangles, list_greater, number_by_degree


def core_number(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the largest k of each node for which it is in a subgraph with degrees of at least k, as int64."""
    rows = simple_rows(graph, run)
    most = int(rows.degrees.max(initial=0))
    kind = id_type(graph.nodes)
    degree, order, place = rows.degrees.astype(kind), np.empty(graph.nodes, kind), np.empty(graph.nodes, kind)
    bins = np.zeros(most + 2, np.int64)
    alone(run, lambda: core_numbers(rows.indptr, rows.indices, degree, order, place, bins, run.stop))
    return Values(degree.astype(np.int64), graph.alive, {"largest core": int(degree.max(initial=0))})


def triangle_count(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the number of triangles of each node, as int64."""
    triangles = _triangles(graph, simple_rows(graph, run), run)
    return Values(triangles, graph.alive, {"triangles": int(triangles.sum()) // 3})


def local_clustering_coefficient(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the share of the pairs of neighbors of each node that are neighbors, as float64, or 0 without a pair."""
    rows = simple_rows(graph, run)
    triangles = _triangles(graph, rows, run)
    pairs = rows.degrees * (rows.degrees - 1)
    shares = np.divide(2 * triangles, pairs, out=np.zeros(graph.nodes), where=pairs > 0)
    return Values(shares, graph.alive, {"triangles": int(triangles.sum()) // 3})


def _triangles(graph: AlgorithmGraph, rows: SimpleRows, run: Run) -> Int64s:
    """[nodes] The number of triangles of each node."""
    nodes = graph.nodes
    number = np.empty(nodes, rows.indices.dtype)
    number_by_degree(rows.degrees, np.zeros(int(rows.degrees.max(initial=0)) + 1, np.int64), number)
    counts, starts = np.zeros(nodes, np.int64), np.zeros(nodes + 1, np.int64)
    ranges = equal_ranges(rows.indptr, 1, run.threads * TASKS)
    run.parallel(lambda part: count_greater(rows.indptr, rows.indices, number, counts, *part), ranges)
    np.cumsum(counts, out=starts[1:])
    greater = np.empty(starts[-1], rows.indices.dtype)
    run.parallel(lambda part: list_greater(rows.indptr, rows.indices, number, starts, greater, *part), ranges)
    buffers = Buffers(lambda: (np.zeros(nodes // 64 + 1, np.uint64), np.zeros(nodes, np.int64)))

    def count(part: tuple[int, int]) -> None:
        with buffers.taken() as (marks, sums):
            count_triangles(starts, greater, marks, sums, run.stop, np.array(part))

    run.parallel(count, equal_ranges(starts, 1, run.threads * TASKS * 4))
    total = np.zeros(nodes, np.int64)
    for _, sums in buffers.all:
        total += sums
    return total[number]

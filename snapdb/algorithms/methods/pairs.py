"""Common neighbours of pairs of nodes in the graph without directions, parallel edges and loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from snapdb.algorithms.graph import AlgorithmGraph, NodePairs, Run, Values
from snapdb.algorithms.methods.common import SimpleRows, simple_rows
from snapdb.arrays import Bools
from snapdb.kernels.algorithms.rows import even_ranges
from snapdb.kernels.algorithms.triangles import add_common, mark_common

_STEP = 1 << 12
"""The number of pairs of a task of a thread."""


def common_neighbours(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the number of nodes that are neighbors of both nodes of each pair, as int64."""
    pairs: NodePairs = options["pairs"]
    rows = _rows_of_ends(graph, pairs, run)
    counts = np.zeros(pairs.source.size, np.int64)
    _mark(rows, pairs, counts, np.empty(0, np.bool_), run)
    return Values(counts)


def adamic_adar(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the sum of 1 / ln(degree) over the common neighbors of each pair, as float64.

    A node of a pair with itself has neighbors of degree 1. They count 0.
    """
    pairs: NodePairs = options["pairs"]
    rows = _rows_of_ends(graph, pairs, run)
    common, counts = np.zeros(graph.nodes, np.bool_), np.zeros(pairs.source.size, np.int64)
    _mark(rows, pairs, counts, common, run)
    degrees = simple_rows(graph, run, wanted=common).degrees
    known = common & (degrees > 1)
    worth = np.zeros(graph.nodes)
    worth[known] = 1.0 / np.log(degrees[known])
    sums = np.zeros(pairs.source.size)
    run.parallel(
        lambda part: add_common(rows.indptr, rows.indices, pairs.source, pairs.destination, worth, sums, *part),
        even_ranges(sums.size, _STEP),
    )
    return Values(sums)


def _rows_of_ends(graph: AlgorithmGraph, pairs: NodePairs, run: Run) -> SimpleRows:
    """Return the rows of the nodes of pairs."""
    wanted = np.zeros(graph.nodes, np.bool_)
    wanted[pairs.source] = True
    wanted[pairs.destination] = True
    return simple_rows(graph, run, wanted=wanted)


def _mark(rows: SimpleRows, pairs: NodePairs, counts: Any, common: Bools, run: Run) -> None:
    """Fill `counts` with the number of common neighbors of each pair, and mark these."""
    run.parallel(
        lambda part: mark_common(rows.indptr, rows.indices, pairs.source, pairs.destination, counts, common, *part),
        even_ranges(counts.size, _STEP),
    )

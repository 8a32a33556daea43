"""PageRank by power iteration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from snapdb.algorithms.graph import AlgorithmGraph, NodeWeights, Run, Values
from snapdb.algorithms.methods.common import count_living, living, neighbors, ranges_of
from snapdb.algorithms.methods.degree import strengths
from snapdb.arrays import Float64s
from snapdb.errors import DataError, QueryError
from snapdb.kernels.algorithms.pagerank import BLOCK, Ranks, add_in_order, pull_ranks, start_ranks, subtract_loops
from snapdb.kernels.algorithms.rows import no_neighbors


def pagerank(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the PageRank of each node, as float64. The sum is 1.

    The iteration is that of `networkx.pagerank`: it starts with equal ranks, and ends when the sum of the changes is
    less than the number of nodes times the tolerance. Weights of parallel edges add up. Seeds are the distribution of
    the restarts and of the ranks of nodes without leaving edges. Direction IN reverses the edges, and BOTH follows each
    edge in both directions, a self loop once.

    Raises:
        QueryError: The ranks still change by more after `max_iterations`.
        DataError: The weights of the seeds are all 0.
    """
    count = count_living(graph)
    if count == 0:
        return Values(np.zeros(graph.nodes), graph.alive)
    direction = options["direction"]
    rows = neighbors(graph, "OUT" if direction == "IN" else "IN")
    other = neighbors(graph, "OUT") if direction == "BOTH" else no_neighbors(graph.nodes, rows)
    state = Ranks(
        np.empty(graph.nodes),
        np.empty(graph.nodes),
        np.empty(graph.nodes),
        _inverse(graph, run, direction),
        _teleport(graph, options["seeds"]),
        living(graph),
    )
    ranges = ranges_of(rows.indptr, run, BLOCK)
    sums = np.zeros(2 * -(-graph.nodes // BLOCK))
    run.parallel(lambda part: start_ranks(state, 1.0 / count, sums, *part), ranges)
    damping, tolerance, most = float(options["damping"]), float(options["tolerance"]), int(options["max_iterations"])
    change, done = np.inf, 0
    while done < most and (change >= count * tolerance or tolerance == 0):
        mass = add_in_order(sums, 1, 2)
        run.parallel(
            lambda part: pull_ranks(rows, other, state, damping, mass, 1.0 / count, sums, *part),  # noqa: B023
            ranges,
        )
        change = add_in_order(sums, 0, 2)
        state = state._replace(share=state.next, next=state.share)
        done += 1
        run.step(done / most)
    if tolerance > 0 and change >= count * tolerance:
        raise QueryError(
            f"pagerank did not converge: the mean change per vertex in iteration {done} is {change / count:.3g}, "
            f"and the tolerance is {tolerance:g}; raise max_iterations or the tolerance",
            code="not-converged",
        )
    return Values(state.rank, graph.alive, {"iterations": done, "change": float(change)})


def _inverse(graph: AlgorithmGraph, run: Run, direction: str) -> Float64s:
    """[nodes] 1 / the sum of the weights of the edges that the direction follows from a node, or 0 without any."""
    total = strengths(graph, run, direction)
    if direction == "BOTH":
        rows = neighbors(graph, "IN")
        run.parallel(lambda part: subtract_loops(rows, total, *part), ranges_of(rows.indptr, run))
    return np.divide(1.0, total, out=np.zeros(graph.nodes), where=total > 0)


def _teleport(graph: AlgorithmGraph, seeds: NodeWeights | None) -> Float64s:
    """[nodes] The distribution of restarts, or [0] if it is uniform."""
    if seeds is None:
        return np.empty(0)
    weight = np.ones(seeds.nodes.size) if seeds.weight is None else seeds.weight
    total = float(weight.sum())
    if total <= 0:
        raise DataError("the sum of the weights of the seeds is 0", code="bad-weight")
    teleport = np.zeros(graph.nodes)
    teleport[seeds.nodes] = weight / total
    return teleport

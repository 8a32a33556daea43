"""Closeness and betweenness, exact or from sampled sources.

No library is used for them. Each has its own copy of the graph, and none has the same bits on any number of threads, or
takes sources that are the same in a snapshot of the past and in a copy of its tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from snapdb.algorithms.graph import AlgorithmGraph, Run, Values
from snapdb.algorithms.methods.common import (
    Buffers,
    SimpleRows,
    count_living,
    id_type,
    neighbors,
    nodes_in_order,
    sample_nodes,
    simple_rows,
)
from snapdb.arrays import Float64s, Int64s
from snapdb.kernels.algorithms.centrality import LANES, Dependencies, Lanes, add_dependencies, add_distances
from snapdb.kernels.algorithms.rows import Neighbors, as_neighbors, even_ranges

_BLOCKS = 64
"""The number of blocks of sources whose sums are added in their order, if there are as many sources."""


def closeness(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the closeness of each node by the distances from the nodes that reach it, as float64.

    With r of n - 1 other nodes that reach a node, and the sum d of their distances, it is (r / d) * (r / (n - 1)), as
    networkx's with `wf_improved`. From k sampled other nodes, of which r reach it, it is (r / d) * (r / k), an estimate
    after Eppstein and Wang ("Fast approximation of centrality", 2004). It is exact if all nodes are sampled.
    """
    leaving, arriving = _both_rows(graph, options["direction"], run)
    sources = _sources(graph, options)
    kind = id_type(graph.nodes)

    def create() -> Lanes:
        seen, frontier, arriving = (np.empty(graph.nodes, np.uint64) for _ in range(3))
        listed, touched = (np.empty(graph.nodes + 1, kind) for _ in range(2))
        total, reached = (np.zeros(graph.nodes, np.int64) for _ in range(2))
        return Lanes(seen, frontier, arriving, listed, touched, total, reached)

    buffers = Buffers(create)

    def search(part: tuple[int, int]) -> None:
        with buffers.taken() as lanes:
            add_distances(leaving, arriving, sources, *part, lanes, run.stop)

    _in_waves(run, search, sources.size, LANES)
    total, reached = np.zeros(graph.nodes, np.int64), np.zeros(graph.nodes, np.int64)
    for lanes in buffers.all:
        total += lanes.total
        reached += lanes.reached
    others = np.full(graph.nodes, sources.size, np.float64)
    others[sources] -= 1
    values = np.divide(reached, total, out=np.zeros(graph.nodes), where=total > 0)
    values *= np.divide(reached, others, out=np.zeros(graph.nodes), where=others > 0)
    return Values(values, graph.alive, {"sources": sources.size})


def betweenness(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the sum over pairs of other nodes of the share of their shortest paths through a node, as float64.

    Values are scaled as networkx's are: by the number of pairs if `normalized`, and by the share of sources that were
    sampled. A sampled source has one pair less. Parallel edges count as one path.
    """
    direction = options["direction"]
    rows = _successors(graph, direction, run)
    sources = _sources(graph, options)
    kind = id_type(graph.nodes)
    buffers = Buffers(
        lambda: Dependencies(
            np.full(graph.nodes, -1, kind),
            np.empty(graph.nodes, kind),
            np.empty(graph.nodes),
            np.empty(graph.nodes),
            np.empty(0),
        )
    )

    def search(part: tuple[int, int]) -> Float64s:
        sums = np.zeros(graph.nodes)
        with buffers.taken() as state:
            add_dependencies(rows.indptr, rows.indices, sources, *part, state._replace(sums=sums), run.stop)
        return sums

    total = np.zeros(graph.nodes)
    ranges = even_ranges(sources.size, max(-(-sources.size // _BLOCKS), 1))
    for wave in even_ranges(len(ranges), run.threads):
        for sums in run.parallel(search, ranges[slice(*wave)]):
            total += sums
        run.step(wave[1] / len(ranges))
    _rescale(total, count_living(graph), sources, bool(options["normalized"]), direction != "BOTH")
    return Values(total, graph.alive, {"sources": sources.size})


def _rescale(total: Float64s, nodes: int, sources: Int64s, normalized: bool, directed: bool) -> None:
    """Scale sums of dependencies as `networkx.betweenness_centrality` does, without endpoints."""
    if nodes < 3:
        return
    count = sources.size
    scale = 1.0 / (nodes - 2) if normalized else (nodes - 1) * (1.0 if directed else 0.5)
    own = total[sources]
    total *= scale / count
    total[sources] = own * (scale / (count - 1)) if count > 1 else np.nan


def _in_waves(run: Run, search: Any, sources: int, size: int) -> None:
    """Search from blocks of `size` sources, and report progress."""
    ranges = even_ranges(sources, size)
    for low, high in even_ranges(len(ranges), run.threads * 4):
        run.parallel(search, ranges[low:high])
        run.step(high / len(ranges))


def _sources(graph: AlgorithmGraph, options: Mapping[str, Any]) -> Int64s:
    """Return the nodes of a query, sampled nodes, or all nodes."""
    if options["seeds"] is not None:
        seeds: Int64s = options["seeds"].nodes
        return seeds
    if options["samples"] is not None and options["samples"] < count_living(graph):
        return sample_nodes(graph, int(options["samples"]), int(options["repeatable"] or 0))
    return nodes_in_order(graph)


def _both_rows(graph: AlgorithmGraph, direction: str, run: Run) -> tuple[Neighbors, Neighbors]:
    """Return the edges by the node that they leave, and by the node at which they arrive."""
    if direction == "BOTH":
        simple = simple_rows(graph, run)
        rows = as_neighbors(simple.indptr, simple.indices, np.empty(0))
        return rows, rows
    if direction == "OUT":
        return neighbors(graph, "OUT"), neighbors(graph, "IN")
    return neighbors(graph, "IN"), neighbors(graph, "OUT")


def _successors(graph: AlgorithmGraph, direction: str, run: Run) -> SimpleRows:
    """Return the distinct neighbors to which edges lead."""
    if direction == "BOTH":
        return simple_rows(graph, run)
    return simple_rows(graph, run, ("OUT",) if direction == "OUT" else ("IN",))

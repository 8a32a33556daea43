"""Communities of high modularity, by the methods of Louvain and Leiden.

No library is used for them. The Leiden of scikit-network draws from the unseeded random numbers of the C library, and
its Louvain copies the graph into float32 weights and keeps the interpreter locked. igraph copies the graph into an edge
list, and has the GPL. Neither gives the same communities for other numbers of the same nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapdb.algorithms.graph import AlgorithmGraph, Run, Values
from snapdb.algorithms.methods.common import (
    Buffers,
    alone,
    id_type,
    label_components,
    living,
    neighbors,
    nodes_in_order,
    ranges_of,
)
from snapdb.algorithms.methods.degree import strengths
from snapdb.arrays import Array, Bools, Float64s, Int64s
from snapdb.kernels.algorithms.communities import (
    Level,
    Partition,
    Space,
    add_inside,
    group_nodes,
    join_rows,
    move_nodes,
    refine_nodes,
)
from snapdb.kernels.algorithms.components import number_in_order
from snapdb.kernels.algorithms.pagerank import add_in_order
from snapdb.kernels.algorithms.rows import Neighbors, even_ranges, no_neighbors
from snapdb.kernels.rng import Domain, fold_parts, shuffle

_ROUNDS = 2
"""The number of times that Leiden begins with all nodes, as in igraph and leidenalg."""
_BLOCK = 1 << 14
"""The number of nodes whose sums are added one after the other."""


def louvain(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the number of the community of each node, as int64, in the order of the least rank of each community.

    The method of Blondel, Guillaume, Lambiotte and Lefebvre (2008): nodes move to the communities with the greatest
    gain of modularity, which then become the nodes of a smaller graph, until nothing moves. Edges have no directions,
    and weights of parallel edges add up.
    """
    return _partition(graph, options, run, 1, refine=False)


def leiden(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return communities like `louvain`, which are connected.

    The method of Traag, Waltman and van Eck (2019): the nodes of the smaller graph are connected parts of communities,
    so that communities can be divided later. It is done twice, and begins with its first result the second time.
    """
    return _partition(graph, options, run, _ROUNDS, refine=True)


@dataclass(frozen=True)
class _Search:
    """What all levels of a search for communities share."""

    run: Run
    seed: int
    scale: float
    """The resolution divided by the sum of all strengths."""
    refine: bool
    first: Int64s
    """The living nodes of the graph by rank."""

    def key(self, step: int) -> np.uint64:
        return fold_parts(self.seed, Domain.PHASE, step)


def _partition(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run, rounds: int, refine: bool) -> Values:
    """Return the communities and their modularity."""
    total, resolution = strengths(graph, run, "BOTH"), float(options["resolution"])
    base = Level(neighbors(graph, "IN"), neighbors(graph, "OUT"), total)
    mass = add_in_order(total, 0, 1)
    nodes = nodes_in_order(graph)
    label = np.zeros(graph.nodes, id_type(graph.nodes))
    label[nodes] = np.arange(nodes.size)
    search = _Search(run, int(options["repeatable"] or 0), resolution / mass if mass > 0 else 0.0, refine, nodes)
    levels = 0
    for _ in range(rounds if mass > 0 else 0):
        label, levels = _coarsen(search, base, label, living(graph), levels)
    communities, count = label_components(graph, label, max(graph.nodes, 1))
    modularity = _modularity(base, label, mass, resolution, run) if mass > 0 else 0.0
    details = {"levels": levels, "communities": count, "modularity": modularity}
    return Values(communities, graph.alive, details)


def _coarsen(search: _Search, base: Level, label: Array, alive: Bools, levels: int) -> tuple[Array, int]:
    """Return better communities of the nodes than `label`, and how many levels there were so far."""
    level, nodes, member = base, search.first, np.empty(0, label.dtype)
    while True:
        part = _partition_of(label, level.strength, nodes)
        key = np.array([search.key(2 * levels)]).view(np.int64)
        space = _space(label.size, key, label.dtype)
        order = nodes[shuffle(search.key(2 * levels + 1), nodes.size)].astype(label.dtype)
        alone(search.run, lambda: move_nodes(level, part, space, order, search.scale, search.run.stop))  # noqa: B023
        search.run.step()
        label, count = _number(part.label, nodes, alive)
        fine, parts = label, count
        if search.refine and count < nodes.size:
            fine, parts = _number(_refined(search, level, part, space, order, nodes), nodes, alive)
        levels += 1
        if parts == nodes.size:
            return (label if member.size == 0 else label[member]), levels
        level = _joined(search.run, level, fine, parts, nodes)
        member = fine if member.size == 0 else fine[member]
        above = np.arange(parts, dtype=label.dtype)
        if search.refine:
            above[fine[nodes]] = label[nodes]
        label, nodes, alive = above, np.arange(parts), np.empty(0, np.bool_)


def _partition_of(label: Array, strength: Float64s, nodes: Int64s) -> Partition:
    """Return a partition of nodes with labels."""
    own = label[nodes]
    size = np.bincount(own, minlength=label.size)
    total: Float64s = np.bincount(own, strength[nodes], minlength=label.size).astype(np.float64, copy=False)
    empty = np.zeros(label.size, label.dtype)
    free = np.flatnonzero(size == 0)
    empty[: free.size] = free[::-1]
    return Partition(label.copy(), total, size.astype(label.dtype), empty, np.array([free.size]))


def _space(nodes: int, key: Int64s, kind: Any) -> Space:
    """Return space for a level."""
    return Space(np.zeros(nodes), np.empty(nodes + 1, kind), np.empty(nodes, kind), np.zeros(nodes, np.bool_), key)


def _number(label: Array, nodes: Int64s, alive: Bools) -> tuple[Array, int]:
    """Return labels 0, 1, … in the order of the first node of each, and how many there are."""
    labels = np.zeros(label.size, np.int64)
    count = number_in_order(label, nodes, alive, np.full(label.size, -1, label.dtype), labels)
    return labels.astype(label.dtype), int(count)


def _refined(search: _Search, level: Level, part: Partition, space: Space, order: Array, nodes: Int64s) -> Array:
    """Return the connected parts of communities."""
    single = np.zeros_like(part.label)
    single[nodes] = np.arange(nodes.size)
    fine, cut = _partition_of(single, level.strength, nodes), np.zeros(single.size)
    run = search.run
    alone(run, lambda: refine_nodes(level, part, fine, cut, space, order, search.scale, run.stop))
    run.step()
    return fine.label


def _joined(run: Run, level: Level, label: Array, count: int, nodes: Int64s) -> Level:
    """Return the graph whose nodes are the communities of another."""
    starts, members = np.zeros(count + 1, np.int64), np.empty(nodes.size, label.dtype)
    alone(run, lambda: group_nodes(label, nodes, starts, members))
    kind = np.uint32 if label.itemsize == 4 else np.uint64
    rows = Neighbors(np.zeros(count + 1, np.int64), np.empty(0, kind), np.empty(0))
    buffers = Buffers(lambda: (np.zeros(count), np.empty(count + 1, label.dtype)))

    def join(part: tuple[int, int], fill: bool) -> None:
        with buffers.taken() as (counts, touched):
            join_rows(level, starts, members, label, counts, touched, rows, fill, *part)

    ranges = ranges_of(starts, run)
    run.parallel(lambda part: join(part, False), ranges)
    np.cumsum(rows.indptr, out=rows.indptr)
    rows = Neighbors(rows.indptr, np.empty(rows.indptr[-1], kind), np.empty(rows.indptr[-1]))
    run.parallel(lambda part: join(part, True), ranges)
    strength: Float64s = np.bincount(label[nodes], level.strength[nodes], minlength=count).astype(
        np.float64, copy=False
    )
    run.step()
    return Level(rows, no_neighbors(count, rows), strength)


def _modularity(level: Level, label: Array, mass: float, resolution: float, run: Run) -> float:
    """Return the modularity of communities (Newman and Girvan, 2004)."""
    sums = np.zeros(-(-label.size // _BLOCK))
    run.parallel(lambda part: add_inside(level, label, sums, _BLOCK, *part), even_ranges(sums.size, 4))
    total = np.bincount(label, level.strength)
    return float(add_in_order(sums, 0, 1) / mass - resolution * np.sum((total / mass) ** 2))

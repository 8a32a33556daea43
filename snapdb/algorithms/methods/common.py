"""What methods share: rows as kernels read them, the simple graph, orders of nodes, and the buffers of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from snapdb.algorithms.graph import AlgorithmGraph, Run, Side
from snapdb.arrays import Array, Bools, Int64s
from snapdb.kernels.algorithms.components import number_in_order
from snapdb.kernels.algorithms.rows import (
    Neighbors,
    Range,
    as_neighbors,
    close_gaps,
    count_neighbors,
    equal_ranges,
    even_ranges,
    merge_rows,
    no_neighbors,
)
from snapdb.kernels.rng import seed_order_key, shuffle

_T = TypeVar("_T")

TASKS = 16
"""The number of ranges per thread, so that threads end at about the same time."""


def neighbors(graph: AlgorithmGraph, side: Side) -> Neighbors:
    """Return the rows of a direction as kernels read them."""
    rows = graph.rows(side)
    return as_neighbors(rows.indptr, rows.indices, rows.weight)


def ranges_of(indptr: Int64s, run: Run, block: int = 1) -> list[Range]:
    """Return ranges of blocks of rows with about the same number of edges, for the threads of a run."""
    return equal_ranges(indptr, block, run.threads * TASKS)


def living(graph: AlgorithmGraph) -> Bools:
    """[nodes] Which nodes exist, or [0] if all do, as kernels read it."""
    return np.empty(0, np.bool_) if graph.alive is None else graph.alive


def count_living(graph: AlgorithmGraph) -> int:
    """Return the number of nodes that exist."""
    return graph.nodes if graph.alive is None else int(np.count_nonzero(graph.alive))


def nodes_in_order(graph: AlgorithmGraph) -> Int64s:
    """Return the nodes that exist in the order of `graph.rank`, which does not depend on their numbers."""
    if graph.rank is None:
        return np.arange(graph.nodes) if graph.alive is None else np.flatnonzero(graph.alive)
    order = np.full(graph.nodes, -1, np.int64)
    order[graph.rank] = np.arange(graph.nodes)
    return order if graph.alive is None else order[graph.alive[order]]


def sample_nodes(graph: AlgorithmGraph, count: int, seed: int) -> Int64s:
    """Return `count` random nodes, or all if there are fewer. They depend on the seed and the ranks of the nodes."""
    nodes = nodes_in_order(graph)
    return nodes[shuffle(seed_order_key(seed, 0), nodes.size)[:count]]


def label_components(graph: AlgorithmGraph, component: Array, components: int) -> tuple[Int64s, int]:
    """Return component numbers 0, 1, … in the order of the least rank of each, and how many there are.

    Args:
        graph: The graph.
        component: [nodes] A number 0 ≤ c < components for the component of each node.
        components: The limit of these numbers.
    """
    order = np.empty(0, np.int64) if graph.rank is None else nodes_in_order(graph)
    labels = np.zeros(graph.nodes, np.int64)
    count = number_in_order(component, order, living(graph), np.full(components, -1, component.dtype), labels)
    return labels, int(count)


def id_type(nodes: int) -> type[np.int32 | np.int64]:
    """Return the dtype of node numbers, and of numbers up to nodes + 1."""
    return np.int32 if nodes < 2**31 - 2 else np.int64


_PARTS = 2
"""The number of arrays of counts. It does not depend on the threads, because memory does."""


def count_arrivals(graph: AlgorithmGraph, run: Run, side: Side) -> Int64s:
    """[nodes] How often each node is a neighbor in the rows of a direction."""
    rows = neighbors(graph, side)
    parts = np.zeros((_PARTS, graph.nodes), np.int64)
    step = max(-(-rows.indices.size // _PARTS), 1)
    ranges = list(enumerate(even_ranges(rows.indices.size, step)))
    run.parallel(lambda part: count_neighbors(rows.indices, parts[part[0]], *part[1]), ranges)
    total: Int64s = parts[0]
    total += parts[1]
    return total


class SimpleRows(NamedTuple):
    """The graph without directions, parallel edges and self loops."""

    indptr: Int64s
    """[nodes + 1] The starts of the rows."""
    indices: Array
    """int32 or int64 [edges] The neighbors, ascending in a row."""
    degrees: Int64s
    """[nodes] The lengths of the rows."""


def simple_rows(
    graph: AlgorithmGraph, run: Run, sides: tuple[Side, ...] = ("IN", "OUT"), wanted: Bools | None = None
) -> SimpleRows:
    """Return the distinct neighbors of nodes, without the nodes themselves.

    Args:
        graph: The graph.
        run: The run.
        sides: The directions. The default makes a graph without directions.
        wanted: [nodes] The nodes that get a row. Other rows are empty.
    """
    one = neighbors(graph, sides[0])
    other = neighbors(graph, sides[1]) if len(sides) > 1 else no_neighbors(graph.nodes, one)
    room = np.diff(one.indptr) + np.diff(other.indptr)
    if wanted is not None:
        room[~wanted] = 0
    starts = np.zeros(graph.nodes + 1, np.int64)
    np.cumsum(room, out=starts[1:])
    out = np.empty(starts[-1], np.int32 if one.indices.itemsize == 4 else np.int64)
    mask = np.empty(0, np.bool_) if wanted is None else wanted
    ranges = equal_ranges(starts, 1, run.threads * TASKS)
    run.parallel(lambda part: merge_rows(one, other, mask, starts, out, room, *part), ranges)
    indptr = np.empty(graph.nodes + 1, np.int64)
    run.parallel(lambda _: close_gaps(starts, room, out, indptr), [0])
    return SimpleRows(indptr, out[: indptr[-1]], room)


class Buffers(Generic[_T]):
    """Buffers of the threads of a run. A buffer is created for each call that finds none free."""

    def __init__(self, create: Callable[[], _T]) -> None:
        self._create = create
        self._free: list[_T] = []
        self._lock = threading.Lock()
        self.all: list[_T] = []
        """All buffers that were created."""

    @contextmanager
    def taken(self) -> Iterator[_T]:
        """Yield a buffer that no other call uses inside the block."""
        with self._lock:
            if self._free:
                buffer = self._free.pop()
            else:
                buffer = self._create()
                self.all.append(buffer)
        try:
            yield buffer
        finally:
            with self._lock:
                self._free.append(buffer)


def alone(run: Run, function: Callable[[], Any]) -> Any:
    """Return the result of one long kernel, which runs while the calling thread checks for stop requests."""
    return run.parallel(lambda _: function(), [0])[0]

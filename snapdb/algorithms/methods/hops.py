"""The number of edges of a shortest path from the nearest seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from snapdb.algorithms.graph import AlgorithmGraph, Run, Side, Values
from snapdb.algorithms.methods.common import alone, id_type, living, neighbors
from snapdb.kernels.algorithms.levels import count_leaving, list_level, pull_level, push_level, set_bits
from snapdb.kernels.algorithms.rows import equal_ranges

_TO_PULL = 15
_TO_PUSH = 18
"""The parameters alpha and beta of Beamer et al.: a frontier is pulled if its edges are more than 1 / 15 of those that
may not be reached yet, and pushed if it has fewer than 1 / 18 of the nodes."""

_PUSHED: dict[str, tuple[Side, ...]] = {"OUT": ("OUT",), "IN": ("IN",), "BOTH": ("IN", "OUT")}
_PULLED: dict[str, tuple[Side, ...]] = {"OUT": ("IN",), "IN": (), "BOTH": ("IN", "OUT")}
"""Direction → the rows by which a frontier is pushed and pulled. Rows of leaving edges are not sorted only to pull."""


def hops(graph: AlgorithmGraph, options: Mapping[str, Any], run: Run) -> Values:
    """Return the number of edges on a shortest path from the nearest seed, as int64. Other nodes have no value."""
    direction = options["direction"]
    pushed = [neighbors(graph, side) for side in _PUSHED[direction]]
    pulled = [neighbors(graph, side) for side in _PULLED[direction]]
    most = graph.nodes if options["max_hops"] is None else int(options["max_hops"])
    kind = id_type(graph.nodes)
    level = np.full(graph.nodes, -1, kind)
    seeds = options["seeds"].nodes
    level[seeds] = 0
    frontier, next_ = np.empty(graph.nodes + 1, kind), np.empty(graph.nodes + 1, kind)
    frontier[: seeds.size] = seeds
    words = -(-graph.nodes // 64)
    alive, listed, before, count, at, pulling = living(graph), True, 0, seeds.size, 0, False
    bits, next_bits = np.zeros(words, np.uint64), np.zeros(words, np.uint64)
    left = sum(rows.indices.size for rows in pushed)
    while count > 0 and at < most:
        if listed:
            leaving = sum(int(count_leaving(rows.indptr, frontier, count)) for rows in pushed)
            left -= leaving
            pulling = bool(pulled) and leaving * _TO_PULL > left
        elif count * _TO_PUSH < graph.nodes and count < before:
            pulling = False
        at, before = at + 1, count
        if pulling:
            if listed:
                bits[:] = 0
                set_bits(frontier, count, bits)
            next_bits[:] = 0
            count = 0
            for rows in pulled:
                ranges = equal_ranges(rows.indptr, 64, run.threads * 8)
                count += sum(
                    run.parallel(
                        lambda part: pull_level(rows, alive, level, bits, next_bits, at, *part),  # noqa: B023
                        ranges,
                    )
                )
            bits, next_bits, listed = next_bits, bits, False
        else:
            if not listed:
                list_level(level, at - 1, frontier)
            count = alone(run, lambda: _push(pushed, level, frontier, before, next_, at))  # noqa: B023
            frontier, next_, listed = next_, frontier, True
        run.step()
    reached = level >= 0
    return Values(level.astype(np.int64), reached, {"hops": int(level.max(initial=0)), "reached": int(reached.sum())})


def _push(pushed: list[Any], level: Any, frontier: Any, count: int, next_: Any, at: int) -> int:
    """Reach the neighbors of a frontier in all directions. Returns the size of the next frontier."""
    listed = 0
    for rows in pushed:
        listed = push_level(rows, level, frontier, count, next_, listed, at)
    return listed

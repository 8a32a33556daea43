"""Edges in rows: grouped by the node before them, each row by (time, identity, node after)."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdb.arrays import Array, Float64s, Int64s
from snapdb.kernels.compiled import kernel
from snapdb.kernels.paths.problem import Number

_GAPS = np.array([701, 301, 132, 57, 23, 10, 4, 1], np.int64)
"""Ciura's gaps. Longer rows continue the sequence with a factor of 2.25."""


def edge_rows(
    tail: Int64s, head: Int64s, edge: Int64s, time: Int64s, cost: Float64s, nodes: int
) -> tuple[Int64s, Int64s, Int64s, Int64s, Float64s]:
    """Return edges in rows: [nodes + 1] starts, and per edge the node after it, the identity, the time and the cost.

    Args:
        tail: [edges] The node before each edge.
        head: [edges] The node after it.
        edge: [edges] Identities.
        time: [edges] Event times, or [0] without any.
        cost: [edges] Costs, or [0] without any.
        nodes: The number of nodes.
    """
    indptr = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(tail, minlength=nodes), out=indptr[1:])
    sorted_head, sorted_edge = np.empty(head.size, np.int64), np.empty(edge.size, np.int64)
    sorted_time, sorted_cost = np.empty(time.size, np.int64), np.empty(cost.size)
    _fill(tail, head, edge, time, cost, indptr[:-1].copy(), sorted_head, sorted_edge, sorted_time, sorted_cost)
    _sort(indptr, sorted_head, sorted_edge, sorted_time, sorted_cost)
    return indptr, sorted_head, sorted_edge, sorted_time, sorted_cost


# A counting sort by the node before the edge takes linear time. Rows are short, so sorting each of them afterwards
# touches memory that is in the cache, unlike a sort of all edges by four keys.
@kernel
def _fill(
    tail: Int64s,
    head: Int64s,
    edge: Int64s,
    time: Int64s,
    cost: Float64s,
    place: Int64s,
    sorted_head: Int64s,
    sorted_edge: Int64s,
    sorted_time: Int64s,
    sorted_cost: Float64s,
) -> None:
    """Copy each edge to the next place of its row."""
    for i in range(tail.size):
        at = place[tail[i]]
        place[tail[i]] = at + 1
        sorted_head[at], sorted_edge[at] = head[i], edge[i]
        if time.size > 0:
            sorted_time[at] = time[i]
        if cost.size > 0:
            sorted_cost[at] = cost[i]


@kernel
def _sort(indptr: Int64s, head: Int64s, edge: Int64s, time: Int64s, cost: Float64s) -> None:
    """Sort each row in place (Shell's sort, with Ciura's gaps)."""
    for node in range(indptr.size - 1):
        start, stop = indptr[node], indptr[node + 1]
        gap: Number = np.int64(1)
        for candidate in range(_GAPS.size):
            if _GAPS[candidate] < stop - start:
                gap = _GAPS[candidate]
                break
        while gap * 9 // 4 < stop - start and gap >= _GAPS[0]:
            gap = gap * 9 // 4
        while gap > 0:
            for i in range(start + gap, stop):
                j: Number = i
                while j - gap >= start and _is_after(head, edge, time, j - gap, j):
                    _swap(head, j - gap, j)
                    _swap(edge, j - gap, j)
                    if time.size > 0:
                        _swap(time, j - gap, j)
                    if cost.size > 0:
                        _swap(cost, j - gap, j)
                    j -= gap
            gap = _next_gap(gap)


@kernel
def _next_gap(gap: Number) -> Number:
    """Return the gap after a gap, or 0 after 1."""
    if gap > _GAPS[0]:
        return np.int64(max(gap * 4 // 9, _GAPS[0]))
    for i in range(_GAPS.size - 1):
        if _GAPS[i] == gap:
            return np.int64(_GAPS[i + 1])
    return np.int64(0)


@kernel
def _is_after(head: Int64s, edge: Int64s, time: Int64s, one: Number, other: Number) -> bool:
    """Return whether one edge comes after another one."""
    if time.size > 0 and time[one] != time[other]:
        return bool(time[one] > time[other])
    if edge[one] != edge[other]:
        return bool(edge[one] > edge[other])
    return bool(head[one] > head[other])


@kernel
def _swap(values: Array, one: Number, other: Number) -> None:
    """Swap two values."""
    kept: Any = values[one]
    values[one], values[other] = values[other], kept

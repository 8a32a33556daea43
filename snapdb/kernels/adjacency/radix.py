"""A stable radix sort of edges into rows: by bucket of nodes, by node, and within rows by (time, edge id).

The sort makes two O(edges) passes, one column at a time. The first pass distributes the edges to buckets, whose
counters fit into the cache. The second pass sorts one bucket at a time, which also fits. Edges arrive in time order, so
most rows are then already sorted and cost one comparison per edge. The other rows are merge-sorted.

Reference implementation: `np.lexsort` in tests/storage/test_topology.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdb.arrays import Array, Int32s, Int64s
from snapdb.kernels.compiled import allocating_kernel, kernel

_SHORT = 24
"""The maximum number of edges for which insertion sort is faster than merging."""


@kernel
def count_buckets(nodes: Array, shift: int, counts: Int64s) -> None:
    """Add the number of edges in each bucket of 2^shift nodes to `counts`."""
    for i in range(nodes.size):
        counts[nodes[i] >> shift] += 1


@kernel
def place_in_buckets(nodes: Array, shift: int, cursor: Int64s, places: Int32s, local: Array) -> None:
    """Fill `places` [edges] with each edge's position in bucket order, and `local` with its node's rank in the bucket.

    `local` is in bucket order. `cursor` contains the next free position of each bucket, and is advanced.
    """
    mask = (np.int64(1) << shift) - 1
    for i in range(nodes.size):
        node = nodes[i]
        at = cursor[node >> shift]
        cursor[node >> shift] = at + 1
        places[i] = at
        local[at] = node & mask


@kernel
def spread(values: Array, places: Int32s, out: Array) -> None:
    """Scatter: out[places[i]] = values[i]."""
    for i in range(values.size):
        out[places[i]] = values[i]


@kernel
def pick(values: Array, order: Array, out: Array) -> None:
    """Gather: out[p] = values[order[p]]."""
    for p in range(order.size):
        out[p] = values[order[p]]


# Counting sort within a bucket: count the edges of each node, convert the counts to starts (an exclusive prefix sum),
# and place each edge at its node's cursor. The final cursor is the end of the row.
@kernel
def order_nodes(local: Array, ends: Int64s, order: Array) -> None:
    """Fill `order` with the edges, sorted stably by node, and the initially zero `ends` with the end of each row."""
    for i in range(local.size):
        ends[local[i]] += 1
    total = 0
    for v in range(ends.size):
        count = ends[v]
        ends[v] = total
        total += count
    for i in range(local.size):
        at = ends[local[i]]
        order[at] = i
        ends[local[i]] = at + 1


@kernel
def settle_rows(ends: Int64s, time: Array, edge_id: Array, order: Array) -> None:
    """Sort each row that is not yet sorted by (time, edge id), and apply the same permutation to `order`.

    For edges without time, `edge_id` is passed as both keys. The same values are then moved twice to the same places.
    """
    start: Any = np.int64(0)
    for v in range(ends.size):
        stop = ends[v]
        for p in range(start + 1, stop):
            if time[p] < time[p - 1] or (time[p] == time[p - 1] and edge_id[p] < edge_id[p - 1]):
                _sort(time, edge_id, order, start, stop)
                break
        start = stop


# Insertion sort of up to _SHORT edges, then merges of runs of doubling length. The sort is stable, and takes O(d log d)
# per row of d edges. The keys are in three separate arrays, because an array of tuples would be sorted with Python
# comparisons.
@allocating_kernel
def _sort(time: Array, edge_id: Array, order: Array, start: int, stop: int) -> None:
    """Bottom-up merge sort, after insertion sorts of short runs."""
    for low in range(start, stop, _SHORT):
        _insert(time, edge_id, order, low, min(low + _SHORT, stop))
    if stop - start <= _SHORT:
        return
    width = _SHORT
    while width < stop - start:
        width *= 2
    times = np.empty(width // 2, time.dtype)
    ids = np.empty(width // 2, edge_id.dtype)
    orders = np.empty(width // 2, order.dtype)
    width = _SHORT
    while width < stop - start:
        for low in range(start, stop - width, 2 * width):
            _merge(time, edge_id, order, low, low + width, min(low + 2 * width, stop), times, ids, orders)
        width *= 2


@kernel
def _insert(time: Array, edge_id: Array, order: Array, start: int, stop: int) -> None:
    """Insertion sort of the positions start ≤ p < stop. It is stable, and takes O(d²) for d ≤ _SHORT edges."""
    for p in range(start + 1, stop):
        t, e, o = time[p], edge_id[p], order[p]
        q = p
        while q > start and (t < time[q - 1] or (t == time[q - 1] and e < edge_id[q - 1])):
            time[q] = time[q - 1]
            edge_id[q] = edge_id[q - 1]
            order[q] = order[q - 1]
            q -= 1
        time[q] = t
        edge_id[q] = e
        order[q] = o


@kernel
def _merge(
    time: Array, edge_id: Array, order: Array, low: int, middle: int, high: int, times: Array, ids: Array, orders: Array
) -> None:
    """Merge [low, middle) and [middle, high) with the help of the three spare arrays, which hold the first run."""
    left, right = time[middle - 1], time[middle]
    # Runs that are already in order are left alone, so a row that is sorted except at its end costs little more than a
    # scan.
    if left < right or (left == right and edge_id[middle - 1] < edge_id[middle]):
        return
    for i in range(middle - low):
        times[i] = time[low + i]
        ids[i] = edge_id[low + i]
        orders[i] = order[low + i]
    i, j, p = 0, middle, low
    while i < middle - low:
        if j < high and (time[j] < times[i] or (time[j] == times[i] and edge_id[j] < ids[i])):
            time[p] = time[j]
            edge_id[p] = edge_id[j]
            order[p] = order[j]
            j += 1
        else:
            time[p] = times[i]
            edge_id[p] = ids[i]
            order[p] = orders[i]
            i += 1
        p += 1

"""Structures over plain rows that are built once: sorted neighbours, and prefix sums of weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.kernels.adjacency.forms import RowArrays, plain_array
from snapdb.kernels.compiled import allocating_kernel, kernel

_Number = int | np.int64

_NODES = 1 << 15
"""The number of rows that a thread processes at a time."""


def sorted_rows(rows: RowArrays) -> Array:
    """Return the neighbours of plain rows in ascending order in each row: as many bytes as the rows have.

    Rows beyond their arrays remain unsorted. Kernels that read them report the damage.
    """
    ordered = np.empty(rows.indices.size, rows.indices.dtype)
    _in_parts(rows, lambda low, high: _sort_rows(rows, low, high, ordered))
    return plain_array(ordered, ordered.dtype)


def _in_parts(rows: RowArrays, process: Callable[[int, int], None]) -> None:
    """Process ranges of rows on all cores. Kernels release the GIL."""
    nodes = max(rows.indptr.size - 1, 0)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for _ in threads.map(lambda low: process(low, min(low + _NODES, nodes)), range(0, nodes, _NODES)):
            pass


@allocating_kernel
def _sort_rows(rows: RowArrays, low: int, high: int, ordered: Array) -> None:
    """Write the sorted neighbours of the nodes low ≤ node < high, O(degree log degree) each."""
    for node in range(low, high):
        start, end = rows.indptr[node], rows.indptr[node + 1]
        if 0 <= start <= end <= ordered.size:
            ordered[start:end] = rows.indices[start:end]
            ordered[start:end].sort()


@kernel
def holds(ordered: Array, low: _Number, high: _Number, node: _Number) -> bool:
    """Return whether the ascending ordered[low:high] contain a node. A branchless binary search, O(log degree)."""
    count = high - low
    if count <= 0:
        return False
    while count > 1:
        half = count >> 1
        low += half if ordered[low + half] <= node else 0
        count -= half
    return bool(ordered[low] == node)

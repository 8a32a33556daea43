"""Structures over plain rows that are built once: sorted neighbours, and prefix sums of weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from snapdb.arrays import Array, Float64s, Int64s, UInt8s
from snapdb.kernels.adjacency.forms import ColumnArrays, RowArrays, plain_array
from snapdb.kernels.compiled import allocating_kernel, kernel, prefetch
from snapdb.kernels.rng import below

_Number = int | np.int64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The multiplier of Fibonacci hashing: 2^64 divided by the golden ratio, made odd."""
_NODES = 1 << 15
"""The number of rows that a thread processes at a time."""


class NeighborSets(NamedTuple):
    """The neighbours of each row as a set: 5 bytes per edge if ids are int32."""

    ordered: Array
    """[positions] The neighbours of each row in ascending order."""
    filter: UInt8s
    """[positions] A Bloom filter of each row (Bloom, 1970), with 8 bits and two hashes per edge. Both bits of a vertex
    are in one byte, so that a test reads one cache line (Putze, Sanders and Singler, 2007). It excludes 93 % of the
    vertices that are not neighbours."""


def neighbor_sets(rows: RowArrays) -> NeighborSets:
    """Return the neighbours of plain rows as sets.

    Rows beyond their arrays have empty sets. Kernels that read such rows report the damage.
    """
    ordered, filter_ = np.empty(rows.indices.size, rows.indices.dtype), np.zeros(rows.indices.size, np.uint8)
    _in_parts(rows, lambda low, high: _collect_rows(rows, low, high, ordered, filter_))
    return NeighborSets(plain_array(ordered, ordered.dtype), plain_array(filter_, np.uint8))


NO_SETS = NeighborSets(plain_array(np.empty(0), np.int32), plain_array(np.empty(0), np.uint8))


def _in_parts(rows: RowArrays, process: Callable[[int, int], None]) -> None:
    """Process ranges of rows on all cores. Kernels release the GIL."""
    nodes = max(rows.indptr.size - 1, 0)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for _ in threads.map(lambda low: process(low, min(low + _NODES, nodes)), range(0, nodes, _NODES)):
            pass


@allocating_kernel
def _collect_rows(rows: RowArrays, low: int, high: int, ordered: Array, filter_: UInt8s) -> None:
    """Write the sets of the nodes low ≤ node < high, O(degree log degree) each."""
    for node in range(low, high):
        start, end = rows.indptr[node], rows.indptr[node + 1]
        if 0 <= start <= end <= ordered.size:
            ordered[start:end] = rows.indices[start:end]
            ordered[start:end].sort()
            for at in range(start, end):
                place, bits = _place_of(np.int64(rows.indices[at]), end - start)
                filter_[start + place] |= bits


@kernel
def _place_of(node: np.int64, degree: _Number) -> tuple[np.int64, np.uint8]:
    """Return the byte of a vertex in the filter of a row, and its two bits in the byte, which can coincide."""
    hashed = np.uint64(node) * _GOLDEN
    other = hashed * _GOLDEN
    bits = (np.uint64(1) << (other >> np.uint64(61))) | (np.uint64(1) << ((other >> np.uint64(58)) & np.uint64(7)))
    return np.int64(below(hashed, np.uint64(degree))), np.uint8(bits)


@kernel
def prefetch_filter(sets: NeighborSets, start: np.int64, degree: np.int64, node: np.int64) -> None:
    """Prefetch the byte that `may_hold` reads."""
    prefetch(sets.filter, start + _place_of(node, degree)[0])


@kernel
def prefetch_search(sets: NeighborSets, start: np.int64, degree: np.int64) -> None:
    """Prefetch the first probes of `holds`."""
    for quarter in range(1, 4):
        prefetch(sets.ordered, start + quarter * (degree >> 2))


@kernel
def may_hold(sets: NeighborSets, start: np.int64, degree: np.int64, node: np.int64) -> bool:
    """Return whether the row at `start` may contain a neighbour. If False, it does not."""
    if degree <= 0:
        return False
    place, bits = _place_of(node, degree)
    return bool((sets.filter[start + place] & bits) == bits)


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


def weight_sums(rows: RowArrays, weights: ColumnArrays) -> Int64s:
    """Return [positions], the prefix sums of weights in each plain row: 8 bytes per edge.

    Weights are integers in units of 2^-32 of the row's largest weight, as in draws with replacement. The array is
    writable, because a kernel reads either it or scratch memory.
    """
    sums = np.zeros(rows.indices.size, np.int64)
    _in_parts(rows, lambda low, high: _add_rows(rows, weights.base, low, high, sums))
    return sums


@kernel
def _add_rows(rows: RowArrays, weights: Float64s, low: int, high: int, sums: Int64s) -> None:
    """Write the prefix sums of the nodes low ≤ node < high, O(degree) each. They are 0 if all weights are."""
    for node in range(low, high):
        start, end = rows.indptr[node], rows.indptr[node + 1]
        if start < 0 or end > sums.size:
            continue
        greatest, upto = 0.0, np.int64(0)
        for at in range(start, end):
            greatest = max(greatest, weights[at])
        if greatest > 0.0:
            for at in range(start, end):
                upto += np.int64(np.rint(weights[at] / greatest * 4294967296.0))
                sums[at] = upto

"""Adjacency made from adjacency: ends by time, selection, the merge of two directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.kernels.compiled import kernel

__all__ = ["are_rows", "ends_before", "merge_rows", "select_rows"]

Int64s = npt.NDArray[np.int64]


@kernel
def are_rows(starts: Int64s, ends: Int64s, indices: npt.NDArray[Any], nodes: int) -> bool:
    """Whether rows are within `indices`, one after another, and the indices they hold within 0 ≤ id < nodes."""
    before = np.int64(0)
    for v in range(starts.size):
        start, end = starts[v], ends[v]
        if start < before or end < start or end > indices.size:
            return False
        for p in range(start, end):
            if indices[p] < 0 or indices[p] >= nodes:
                return False
        before = end
    return True


def ends_before(starts: Int64s, ends: Int64s, time: Int64s, stop: int) -> Int64s:
    """[rows] Where each row's edges with time < stop end. Rows must be sorted by time."""
    out = np.empty(starts.size, np.int64)
    _ends_before(starts, ends, time, np.int64(stop), out)
    return out


def select_rows(starts: Int64s, ends: Int64s, keep: npt.NDArray[np.bool_]) -> tuple[Int64s, Int64s]:
    """The rows with only the positions that `keep` [positions] admits: `indptr` [rows + 1] and the positions kept."""
    indptr = np.zeros(starts.size + 1, np.int64)
    _count_kept(starts, ends, keep, indptr)
    kept = np.empty(int(indptr[-1]), np.int64)
    _list_kept(starts, ends, keep, kept)
    return indptr, kept


def merge_rows(
    in_starts: Int64s, in_ends: Int64s, out_starts: Int64s, out_ends: Int64s
) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
    """Rows that hold a node's IN edges, then its OUT edges.

    Returns:
        `indptr` [rows + 1], for each new position the position it came from, and whether that was an OUT edge.
    """
    indptr = np.zeros(in_starts.size + 1, np.int64)
    np.cumsum((in_ends - in_starts) + (out_ends - out_starts), out=indptr[1:])
    origin = np.empty(int(indptr[-1]), np.int64)
    outward = np.empty(origin.size, np.bool_)
    _merge(in_starts, in_ends, out_starts, out_ends, indptr, origin, outward)
    return indptr, origin, outward


@kernel
def _ends_before(starts: Int64s, ends: Int64s, time: Int64s, stop: np.int64, out: Int64s) -> None:
    for v in range(starts.size):
        low = starts[v]
        high = ends[v]
        while low < high:
            middle = (low + high) // 2
            if time[middle] < stop:
                low = middle + 1
            else:
                high = middle
        out[v] = low


@kernel
def _count_kept(starts: Int64s, ends: Int64s, keep: npt.NDArray[np.bool_], indptr: Int64s) -> None:
    for v in range(starts.size):
        kept = 0
        for p in range(starts[v], ends[v]):
            kept += keep[p]
        indptr[v + 1] = indptr[v] + kept


@kernel
def _list_kept(starts: Int64s, ends: Int64s, keep: npt.NDArray[np.bool_], kept: Int64s) -> None:
    at = 0
    for v in range(starts.size):
        for p in range(starts[v], ends[v]):
            if keep[p]:
                kept[at] = p
                at += 1


@kernel
def _merge(
    in_starts: Int64s,
    in_ends: Int64s,
    out_starts: Int64s,
    out_ends: Int64s,
    indptr: Int64s,
    origin: Int64s,
    outward: npt.NDArray[np.bool_],
) -> None:
    for v in range(in_starts.size):
        at = indptr[v]
        for p in range(in_starts[v], in_ends[v]):
            origin[at] = p
            outward[at] = False
            at += 1
        for p in range(out_starts[v], out_ends[v]):
            origin[at] = p
            outward[at] = True
            at += 1

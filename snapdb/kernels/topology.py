"""Whether rows are sound, and the merge of those of two directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from snapdb.kernels.compiled import kernel

_Int64s = npt.NDArray[np.int64]


@kernel
def are_rows(starts: _Int64s, ends: _Int64s, indices: npt.NDArray[Any], nodes: int) -> bool:
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


def merge_rows(
    in_starts: _Int64s, in_ends: _Int64s, out_starts: _Int64s, out_ends: _Int64s
) -> tuple[_Int64s, _Int64s, npt.NDArray[np.bool_]]:
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
def _merge(
    in_starts: _Int64s,
    in_ends: _Int64s,
    out_starts: _Int64s,
    out_ends: _Int64s,
    indptr: _Int64s,
    origin: _Int64s,
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

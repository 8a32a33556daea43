"""Whether rows are sound, and the merge of those of two directions."""

import numpy as np

from snapdb.arrays import Array, Bools, Int64s
from snapdb.kernels.compiled import kernel


@kernel
def are_rows(starts: Int64s, ends: Int64s, indices: Array, nodes: int) -> bool:
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
    in_starts: Int64s, in_ends: Int64s, out_starts: Int64s, out_ends: Int64s
) -> tuple[Int64s, Int64s, Bools]:
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
    in_starts: Int64s,
    in_ends: Int64s,
    out_starts: Int64s,
    out_ends: Int64s,
    indptr: Int64s,
    origin: Int64s,
    outward: Bools,
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

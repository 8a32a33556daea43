"""The rows of several edge types as the rows of one graph, whose nodes are numbered type after type."""

from __future__ import annotations

from snapdb.arrays import Array, Float64s, Int64s
from snapdb.kernels.compiled import kernel


# The edges of each type are copied to the next free places of their rows, so a row has them type after type. It reads
# and writes each edge once, in the order of the rows.
@kernel
def append_rows(
    indptr: Int64s,
    indices: Array,
    weight: Float64s,
    offset: int,
    place: Int64s,
    all_indices: Array,
    all_weight: Float64s,
) -> None:
    """Append the edges of one type to the rows of all types.

    Args:
        indptr: [rows + 1] The starts of the type's rows.
        indices: [edges] The neighbours' dense ids.
        weight: [edges] The weights, or [0].
        offset: The node number of the neighbours' dense id 0.
        place: [rows] The next free place of each row. It is moved past the edges.
        all_indices: [all edges] The neighbours' node numbers.
        all_weight: [all edges] The weights, or [0].
    """
    for v in range(indptr.size - 1):
        at = place[v]
        for p in range(indptr[v], indptr[v + 1]):
            all_indices[at] = indices[p] + offset
            if weight.size > 0:
                all_weight[at] = weight[p]
            at += 1
        place[v] = at

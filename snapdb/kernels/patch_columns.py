"""One column of rows that are made out of a root and what came since, copied in the order that was found for them."""

from snapdb.arrays import Array, Int64s
from snapdb.kernels.compiled import kernel


@kernel
def pick_parts(origin: Int64s, first: Array, second: Array, third: Array, out: Array) -> None:
    """Fills `out` with the values at positions that are counted through all three."""
    seconds = first.size
    thirds = seconds + second.size
    for i in range(origin.size):
        at = origin[i]
        if at < seconds:
            out[i] = first[at]
        elif at < thirds:
            out[i] = second[at - seconds]
        else:
            out[i] = third[at - thirds]


@kernel
def merge_column(
    low: int,
    high: int,
    root_indptr: Int64s,
    root: Array,
    nodes: Int64s,
    kept: Int64s,
    patch_indptr: Int64s,
    patch: Array,
    out: Array,
) -> None:
    """Fills `out` with one column of the logical rows of nodes low ≤ v < high, of which `nodes` are touched.

    `kept` and `patch_indptr` go with `nodes`, all of which are in that range; `patch_indptr` counts from 0 in `patch`.
    """
    at = 0
    i = 0
    for v in range(low, high):
        touched = i < nodes.size and nodes[i] == v
        start = stop = 0
        if v < root_indptr.size - 1:
            start = root_indptr[v]
            stop = start + kept[i] if touched else root_indptr[v + 1]
        for p in range(start, stop):
            out[at] = root[p]
            at += 1
        if touched:
            for p in range(patch_indptr[i], patch_indptr[i + 1]):
                out[at] = patch[p]
                at += 1
            i += 1

"""Neighbours of a block of rows: from copies of whole rows that a cache keeps, else from the adjacency."""

import numpy as np

from snapdb.arrays import Array, Int32s, Int64s
from snapdb.kernels.compiled import kernel
from snapdb.kernels.intrinsics import load_first, prefetch
from snapdb.kernels.row_cache import BASE_EDGES, HITS, KEPT_EDGES, MISSES
from snapdb.kernels.spans import DEGREE, FIRST, KEPT, REST


@kernel
def find_copies(places: Int32s, shifts: Int64s, nodes: Int64s, count: int, spans: Int64s, origins: Int64s) -> None:
    """Writes to `origins` the number of each located row's copy, -1 where it has none, and what ranks are added to.

    Of a row in one piece that is where its copy begins, or its place in the adjacency; else 0.
    """
    for span in range(count):
        whole = spans[span, KEPT] == spans[span, DEGREE] and spans[span, REST] == 0
        origins[span, 0], origins[span, 1] = -1, spans[span, FIRST] if whole else 0
    if places.size == 0:
        return
    for span in range(count):
        copy = np.int64(load_first(places, nodes[span]))
        origins[span, 0] = copy
        prefetch(shifts, 2 * max(copy, np.int64(0)))
    for span in range(count):
        whole = spans[span, KEPT] == spans[span, DEGREE] and spans[span, REST] == 0
        if whole and origins[span, 0] >= 0:
            origins[span, 1] -= shifts[origins[span, 0], 0]


@kernel
def load_block(
    indices: Array,
    tail: Array,
    copies: Array,
    shifts: Int64s,
    spans: Int64s,
    origins: Int64s,
    apart: Int64s,
    placed: Int64s,
    starts: Int64s,
    count: int,
    limit: int,
    stamps: Int32s,
    positions: Int64s,
    neighbours: Int64s,
    counts: Int64s,
) -> bool:
    """Reads the ids from placed[i] on up to the end of each row, and makes positions in copies physical.

    Returns whether all are 0 ≤ id < limit; what is read of each row, and was before, is counted.
    """
    held, rows, hits, read = indices.size, 0, 0, np.int64(0)
    outside: bool | np.bool_ = False
    for i in range(count):
        begin, end, span = placed[i], starts[i + 1], apart[i]
        copy = origins[span, 0] if span >= 0 else np.int64(-1)
        rows += int(starts[i] < end)
        hits += int(starts[i] < begin or (copy >= 0 and begin < end))
        if begin == end:
            continue
        if copy < 0:
            read += end - begin
            for e in range(begin, end):
                p = positions[e]
                node = np.int64(indices[p]) if p < held else np.int64(tail[p - held])
                outside |= (node < 0) | (node >= limit)
                prefetch(stamps, node)
                neighbours[e] = node
            continue
        first, second = shifts[copy, 0], shifts[copy, 1]
        whole = spans[span, KEPT] == spans[span, DEGREE] and spans[span, REST] == 0
        for e in range(begin, end):
            p = positions[e]
            p += first if whole else np.int64(0)
            node = np.int64(copies[p - (second if p >= held else first)])
            outside |= (node < 0) | (node >= limit)
            prefetch(stamps, node)
            positions[e], neighbours[e] = p, node
    counts[HITS] += hits
    counts[MISSES] += rows - hits
    counts[KEPT_EDGES] += starts[count] - starts[0] - read
    counts[BASE_EDGES] += read
    return not outside

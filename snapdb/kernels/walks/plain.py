"""Walks over rows that consist of a plain base, if every edge of a row is eligible and has the same weight.

Reference implementation: `walk` in tests/support/oracle/walks.py.
"""

from __future__ import annotations

import numpy as np

from snapdb.kernels.adjacency.forms import RowArrays
from snapdb.kernels.compiled import kernel, prefetch
from snapdb.kernels.rng import below, draw, fold
from snapdb.kernels.walks.problem import NO_STEP, WalkArrays, WalkRule, restarts

BLOCK = 256
"""The number of walks that take a step together."""


# Each step costs two cache misses, one for the bounds of a row and one for the drawn edge. The walks of a block take
# each step together, so that their misses overlap: one pass draws positions and prefetches the edges, and the next pass
# reads the edges and prefetches the bounds of the rows that they lead to.
@kernel
def walk_uniform(rows: RowArrays, rule: WalkRule, walks: WalkArrays, first: int, last: int) -> bool:
    """Take the steps first ≤ i < last of all walks. Returns whether all rows and neighbours are within their arrays."""
    nodes, positions, keys = walks.nodes, walks.positions, walks.keys
    indptr, indices, reached = rows.indptr, rows.indices, np.int64(rule.reached)
    for low in range(0, keys.size, BLOCK):
        high = min(low + BLOCK, keys.size)
        for w in range(low, high):
            prefetch(indptr, nodes[w, first])
        for i in range(first, last):
            for w in range(low, high):
                node, position = nodes[w, i], NO_STEP
                nodes[w, i + 1] = NO_STEP
                if node >= 0:
                    key = fold(keys[w], np.uint64(i))
                    if restarts(rule, key):
                        nodes[w, i + 1] = nodes[w, 0]
                    elif node < indptr.size - 1:
                        start, degree = indptr[node], indptr[node + 1] - indptr[node]
                        if start < 0 or degree < 0 or degree > indices.size - start:
                            return False
                        if degree > 0:
                            position = start + np.int64(below(draw(key, np.uint64(1)), np.uint64(degree)))
                            prefetch(indices, position)
                positions[w, i] = position
            for w in range(low, high):
                if positions[w, i] >= 0:
                    neighbor = np.int64(indices[positions[w, i]])
                    if neighbor < 0 or neighbor >= reached:
                        return False
                    nodes[w, i + 1] = neighbor
                prefetch(indptr, nodes[w, i + 1])
    return True

"""How often batches come by each node: what a frontier hands on to its neighbours, in one pass over the rows."""

import numpy as np

from snapdb.arrays import Float64s
from snapdb.kernels.bits import is_set
from snapdb.kernels.compiled import kernel
from snapdb.kernels.forms import RowArrays
from snapdb.kernels.spans import BLOCK, DEGREE, FIELDS, FIRST, KEPT, REST, SECOND, locate_range


@kernel
def spread(rows: RowArrays, visits: Float64s, fanout: int, low: int, high: int, reached: Float64s) -> bool:
    """Adds to `reached` how often edges lead there that nodes low ≤ id < high draw, visited as often as `visits` says.

    A node draws each of its d edges with chance min(fanout, d) / d. False: a row leads out of its arrays or its nodes.
    """
    indices, tail, words = rows.indices, rows.patch.indices, rows.live.words
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    held, every = indices.size, words.size == 0
    for first in range(low, high, BLOCK):
        count = min(BLOCK, high - first)
        if not locate_range(rows, first, count, nodes, spans):
            return False
        for i in range(count):
            degree, visit = spans[i, DEGREE], visits[first + i]
            if degree == 0 or visit == 0.0:
                continue
            part = visit if degree <= fanout else visit * np.float64(fanout) / np.float64(degree)
            for p in range(spans[i, FIRST], spans[i, FIRST] + spans[i, KEPT]):
                node = np.int64(indices[p])
                if node < 0 or node >= reached.size:
                    return False
                reached[node] += part if every or is_set(words, p) else 0.0
            for p in range(spans[i, SECOND], spans[i, SECOND] + spans[i, REST]):
                node = np.int64(tail[p - held])
                if node < 0 or node >= reached.size:
                    return False
                reached[node] += part if every or is_set(words, p) else 0.0
    return True

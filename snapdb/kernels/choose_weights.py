"""Weights of edges before a sampler draws by them: brought into the order of positions, and looked at."""

import numpy as np
import numpy.typing as npt

from snapdb.arrays import Float64s, Int64s
from snapdb.kernels.bits import is_set
from snapdb.kernels.compiled import kernel
from snapdb.kernels.forms import RowArrays
from snapdb.kernels.spans import BLOCK, FIELDS, FIRST, KEPT, REST, SECOND, locate_range

LEAST = 1e-250
"""The smallest positive weight."""


@kernel
def by_edge_id(weights: Float64s, ids: npt.NDArray[np.integer], out: Float64s) -> None:
    """out[i] = weights[ids[i]]; NaN for an id that has none, which no snapshot holds."""
    for i in range(ids.size):
        edge = np.int64(ids[i])
        out[i] = weights[edge] if 0 <= edge < weights.size else np.nan


@kernel
def find_bad_weights(rows: RowArrays, root: Float64s, patch: Float64s, signed: bool, shown: Int64s) -> tuple[int, int]:
    """How many edges of the rows have a weight that no draw can go by, and how many the weight 0; -1: damage.

    A weight is 0, or LEAST or more and finite: a score is divided by it, which must not become infinite.

    The positions of the first bad ones go to `shown`. `signed`: weights may be of any sign, and zero.
    """
    nodes, spans = np.empty(BLOCK, np.int64), np.empty((BLOCK, FIELDS), np.int64)
    words, held, bad, zeros = rows.live.words, rows.indices.size, 0, 0
    for low in range(0, rows.nodes, BLOCK):
        count = min(BLOCK, rows.nodes - low)
        if not locate_range(rows, low, count, nodes, spans):
            return -1, 0
        for span in range(count):
            for field in (FIRST, SECOND):
                start, length = spans[span, field], spans[span, KEPT if field == FIRST else REST]
                for p in range(start, start + length):
                    if words.size > 0 and not is_set(words, p):
                        continue
                    weight = root[p] if p < held else patch[p - held]
                    zeros += int(weight == 0.0)
                    if not (np.isfinite(weight) and (signed or weight == 0.0 or weight >= LEAST)):
                        if bad < shown.size:
                            shown[bad] = p
                        bad += 1
    return bad, zeros

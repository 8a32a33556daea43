"""The logarithms that weighted draws are made of, as integers, so that no device's own rounding enters a draw.

With n = 4096 + i, ln((n + 1) / n) = 2 artanh(1 / (2n + 1)), whose series gains 26 bits a term: sums of those, integers
in units of 2^-104, give ln(1 + i/4096), and the last of them, ln 2, makes them logarithms to base 2.
"""

from itertools import accumulate

import numpy as np

from snapdb.arrays import Int64s

_CELLS = 4096
_SCALE = 104
"""Bits after the point; the sums are off by less than 2^-88."""
_TERMS = 4


def _step(n: int) -> int:
    """ln((n + 1) / n) / 2 in units of 2^-SCALE.

    >>> round(_step(4096) * 2 / 2**_SCALE, 9)
    0.000244111
    """
    d = 2 * n + 1
    return sum((1 << _SCALE) // ((2 * t + 1) * d ** (2 * t + 1)) for t in range(_TERMS))


def _table() -> Int64s:
    sums = list(accumulate((_step(_CELLS + i) for i in range(_CELLS)), initial=0))
    table = np.array([((found << 41) + sums[-1]) // (2 * sums[-1]) for found in sums], np.int64)
    table.flags.writeable = False
    return table


LOG_TABLE = _table()
"""[4097] round(log2(1 + i/4096) * 2^40)."""

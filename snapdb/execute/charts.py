"""Numbers as a row of bars, and times in bins of one width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

_BARS = "▁▂▃▄▅▆▇█"
_MOST = 20
"""Bins of a growth."""


class Bins(NamedTuple):
    """Stretches of time that cover all moments from the first to the last; the last one may reach beyond."""

    first: int
    width: int
    size: int
    """How many bins there are."""

    def add(self, times: Int64s, counts: Int64s) -> None:
        """Count times that are within the bins."""
        # Unsigned numbers wrap: the distance is right even where it is no int64.
        first = np.uint64(self.first % 2**64)
        places = (times.view(np.uint64) - first) // np.uint64(self.width)
        counts += np.bincount(places.astype(np.int64), minlength=self.size)


def bins_of(first: int, last: int, most: int = _MOST) -> Bins:
    """The bins between two moments, both of which are in them.

    >>> bins_of(5, 7), bins_of(0, 99), bins_of(-(2**63), 2**63 - 1).size
    (Bins(first=5, width=1, size=3), Bins(first=0, width=5, size=20), 20)
    """
    span = last - first + 1
    width = -(-span // most)
    return Bins(first, width, -(-span // width))


def sparkline(counts: Sequence[int]) -> str:
    """A bar for each count, the lowest for none.

    >>> sparkline([0, 1, 4, 8])
    '▁▂▅█'
    """
    most = max(counts, default=0)
    top = len(_BARS) - 1
    return "".join(_BARS[-(-count * top // most) if count else 0] for count in counts)

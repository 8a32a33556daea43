"""When the rows that serve many batches are drawn anew: for which batches that is looked after, and since when."""

import math

import numpy as np

from snapdb.arrays import Float64s, Int64s, UInt64s
from snapdb.types import Refresh

_TURN = 4
"""In so many parts of a turn OTF's rows are looked after: between two of them, one row in so many is drawn anew.

Each time reads nearly every page of the topology, and until then batches draw for themselves what is due: on average
one row in four times as many.
"""


def next_pass(refresh: Refresh | None, batch: int) -> int | None:
    """The batch after a given one at which rows are to be drawn that are of another round by then; None: no rows are.

    >>> from fractions import Fraction
    >>> next_pass(Refresh("FCR", 50), 120), next_pass(Refresh("OTF", 80, share=Fraction(1, 2)), 120)
    (150, 160)
    """
    if refresh is None:
        return None
    if refresh.at_once:
        return (batch // refresh.period + 1) * refresh.period
    return batch + max(1, math.floor(refresh.period / refresh.share / _TURN))


def ahead(refresh: Refresh, batch: int) -> int:
    """For which batch rows are drawn at a batch: halfway to the next time, where they turn one after another."""
    following = next_pass(refresh, batch)
    assert following is not None
    return batch if refresh.at_once else (batch + following) // 2


def begun(refresh: Refresh, rounds: Int64s, phases: UInt64s) -> Float64s:
    """The batches at which rows came to be of these rounds; their nodes' phases count under OTF.

    >>> from fractions import Fraction
    >>> phases = np.array([0, 2**31], np.uint64)
    >>> begun(Refresh("OTF", 80, share=Fraction(1, 2)), np.array([1, 1]), phases).tolist()
    [160.0, 80.0]
    """
    if refresh.at_once:
        return rounds.astype(np.float64) * refresh.period
    if refresh.turned == 0:  # a share this small draws none of them anew
        return np.zeros(rounds.size)
    first: Float64s = np.ceil((rounds * 2.0**32 - phases) * (refresh.period / refresh.turned))
    return np.maximum(first, 0.0)

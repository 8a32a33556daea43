"""When the rows that serve many batches are drawn anew: for which batches that is looked after, and since when."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from snapdb.types import Refresh

__all__ = ["ahead", "begun", "next_pass"]

Int64s = npt.NDArray[np.int64]

_TURN = 16
"""In so many parts of a turn OTF's rows are looked after: between two of them, one row in so many is drawn anew."""


def next_pass(refresh: Refresh | None, batch: int) -> int | None:
    """The batch after a given one at which rows are to be drawn that are of another round by then; None: no rows are.

    >>> next_pass(Refresh("FCR", 50), 120), next_pass(Refresh("OTF", 80, share=Fraction(1, 2)), 120)
    (150, 130)
    """
    if refresh is None:
        return None
    every = _every(refresh)
    if refresh.strategy == "FCR" or refresh.visited:
        return (batch // every + 1) * every
    return batch + max(1, math.floor(every / refresh.share / _TURN))


def ahead(refresh: Refresh, batch: int) -> int:
    """For which batch rows are drawn at a batch: halfway to the next time, where they turn one after another."""
    following = next_pass(refresh, batch)
    assert following is not None
    return batch if refresh.strategy == "FCR" or refresh.visited else (batch + following) // 2


def begun(refresh: Refresh, rounds: Int64s, phases: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """The batches at which rows came to be of these rounds; their nodes' phases count under OTF.

    >>> phases = np.array([0, 2**31], np.uint64)
    >>> begun(Refresh("OTF", 80, share=Fraction(1, 2)), np.array([1, 1]), phases).tolist()
    [160.0, 80.0]
    """
    every = _every(refresh)
    if refresh.strategy == "FCR" or refresh.visited:
        return rounds.astype(np.float64) * every
    turned = math.floor(refresh.share * 2**32 + Fraction(1, 2))
    if turned == 0:  # a share this small draws none of them anew
        return np.zeros(rounds.size)
    first: npt.NDArray[np.float64] = np.ceil((rounds * 2.0**32 - phases) * (every / turned))
    return np.maximum(first, 0.0)


def _every(refresh: Refresh) -> int:
    assert refresh.every is not None, "EVERY AUTO is a number once a sampler is opened"
    return refresh.every

"""Which edges of a node's row are eligible, and which of all that are eligible these are."""

import numpy as np

from snapdb.arrays import Int64s, UInt64s
from snapdb.kernels.bits import live_before
from snapdb.kernels.compiled import kernel
from snapdb.kernels.eligible import COUNT, LENGTH, START, STRETCHES
from snapdb.kernels.kept_rule import first_from

_Number = int | np.int64


@kernel
def meet(
    listed: bool, places: Int64s, total: int, degree: int, windows: Int64s, span: int, row: Int64s, ids: Int64s
) -> int:
    """Leaves of a row what is eligible; returns how many."""
    if listed:
        return int(_meet_listed(places, total, row, ids))
    if total < degree:
        return int(_meet_stretches(windows, span, row, ids))
    return row.size


@kernel
def _meet_listed(places: Int64s, total: _Number, row: Int64s, ids: Int64s) -> _Number:
    """Leaves of a row what is among the ascending places[:total]; returns how many."""
    held: _Number = np.int64(0)
    passed = np.int64(0)
    for j in range(row.size):
        while passed < total and places[passed] < row[j]:
            passed += 1
        row[held], ids[held] = row[j], ids[j]
        held += np.int64(passed < total and places[passed] == row[j])
    return held


@kernel
def _meet_stretches(windows: Int64s, span: _Number, row: Int64s, ids: Int64s) -> _Number:
    """Leaves of a row what is in the stretches that are eligible; returns how many."""
    held: _Number = np.int64(0)
    for j in range(row.size):
        p, inside = row[j], False
        for w in range(STRETCHES):
            inside |= (p >= windows[span, START + w]) & (p - windows[span, START + w] < windows[span, LENGTH + w])
        row[held], ids[held] = p, ids[j]
        held += np.int64(inside)
    return held


@kernel
def _rank_of(words: UInt64s, before: Int64s, windows: Int64s, span: _Number, position: _Number) -> _Number:
    """Which of the edges in a row's stretches stands at a position in one of them."""
    rank: _Number = np.int64(0)
    for w in range(STRETCHES):
        start, length = windows[span, START + w], windows[span, LENGTH + w]
        if position >= start and position - start < length:
            if words.size > 0:
                rank += live_before(words, before, position) - live_before(words, before, start)
            else:
                rank += position - start
            break
        rank += windows[span, COUNT + w]
    return rank


@kernel
def rank_all(
    listed: bool,
    places: Int64s,
    total: _Number,
    words: UInt64s,
    before: Int64s,
    windows: Int64s,
    span: int,
    row: Int64s,
    count: _Number,
    chosen: Int64s,
) -> None:
    """Turns numbers of a row's edges into their ranks among all that are eligible."""
    for j in range(count):
        position = row[chosen[j]]
        if listed:
            chosen[j] = first_from(places, total, position)
        else:
            chosen[j] = _rank_of(words, before, windows, span, position)

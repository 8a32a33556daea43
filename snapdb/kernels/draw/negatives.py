"""Drawing destinations that a source has no edge to: by rank among those that are left, or by a race of all of them.

Candidates are numbered 0 ≤ i < count in the order of their ids. What must not be drawn is a short sorted list of them,
past which a rank is moved, so that an unweighted draw costs nothing for each candidate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snapdb.arrays import Float64s, Int64s, UInt64s
from snapdb.kernels.bits import live_before, rank_blocks
from snapdb.kernels.compiled import allocating_kernel, kernel
from snapdb.kernels.draw.eligible import STATIC
from snapdb.kernels.draw.scores import race_score
from snapdb.kernels.rng import below, draw, fold

_Number = int | np.int64

EVER, BEFORE, AT = range(3)
"""Which edges make a destination known: all, those before a moment, those that are there at it."""


class Known(NamedTuple):
    """The neighbours of some sources, as numbers of candidates: rows in ascending order, in which one may be twice."""

    bounds: Int64s
    """[rows + 1]"""
    far: Int64s
    since: Int64s
    """By entry, or empty: always."""
    until: Int64s
    """By entry, or empty: edges are moments."""


class Born(NamedTuple):
    """Since when candidates are there; empty arrays: always."""

    by_number: Int64s
    times: Int64s
    words: UInt64s
    before: Int64s
    zeros: Int64s


@allocating_kernel
def draw_by_rank(
    prefix: np.uint64,
    ordinals: Int64s,
    moments: Int64s,
    rows: Int64s,
    known: Known,
    mode: int,
    born: Born,
    count: int,
    out: Int64s,
) -> None:
    """Fills out [seeds, slots] with numbers of candidates, all alike; what is left of a row stays as it was.

    Args:
        prefix: The key, to which a seed's ordinal and the slot are folded.
        ordinals: [seeds]
        moments: [seeds] or empty: who is not born by then is no candidate.
        rows: [seeds] its source's row of `known`; the same ones one after another are listed once where they can be.
        mode: EVER, BEFORE or AT.
        count: How many candidates there are.
    """
    bounds, far, since, until = known.bounds, known.far, known.since, known.until
    by_number, times, words, before, zeros = born.by_number, born.times, born.words, born.before, born.zeros
    slots, born_once = out.shape[1], by_number.size == 0
    longest = _longest(bounds)
    listed, ranks, taken = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(slots, np.int64)
    found, there = 0, count
    for i in range(ordinals.size):
        moment = moments[i] if moments.size > 0 else np.int64(0)
        if i == 0 or rows[i] != rows[i - 1] or mode != EVER or not born_once:
            there = count if born_once else count_born(times, moment)
            found = _list_known(bounds, far, since, until, mode, rows[i], moment, by_number, listed)
            for k in range(found):
                ranks[k] = listed[k] if there == count else -1
        key, left = fold(prefix, np.uint64(ordinals[i])), there - found
        for slot in range(min(slots, left)):
            bits = draw(fold(key, np.uint64(slot)), np.uint64(0))
            rank = _pass_taken(taken, slot, np.int64(below(bits, np.uint64(left - slot))))
            rank += _count_passed(listed, ranks, found, rank, words, before, zeros, count, there)
            out[i, slot] = rank if there == count else select_born(words, before, zeros, count, there, rank)


@kernel
def _longest(bounds: Int64s) -> int:
    longest = np.int64(0)
    for row in range(bounds.size - 1):
        longest = max(longest, bounds[row + 1] - bounds[row])
    return int(longest)


@kernel
def _list_known(
    bounds: Int64s,
    far: Int64s,
    since: Int64s,
    until: Int64s,
    mode: int,
    row: _Number,
    moment: _Number,
    born: Int64s,
    listed: Int64s,
) -> int:
    """Writes the known candidates of a row that are there, each once, ascending; returns how many."""
    found = 0
    for e in range(bounds[row], bounds[row + 1]):
        if mode != EVER:
            if mode == BEFORE:
                counts = since[e] < moment
            elif since[e] == STATIC:
                counts = True
            elif until.size > 0:
                counts = since[e] <= moment < until[e]
            else:
                counts = since[e] == moment
            if not counts:
                continue
        if (found > 0 and listed[found - 1] == far[e]) or (born.size > 0 and born[far[e]] > moment):
            continue
        listed[found] = far[e]
        found += 1
    return found


@kernel
def _pass_taken(taken: Int64s, count: int, rank: _Number) -> _Number:
    """The rank moved past `count` ranks that were taken, to which it is added in its place."""
    at = 0
    while at < count and taken[at] <= rank:
        rank += 1
        at += 1
    for k in range(count, at, -1):
        taken[k] = taken[k - 1]
    taken[at] = rank
    return rank


@kernel
def _count_passed(
    listed: Int64s,
    ranks: Int64s,
    found: int,
    rank: _Number,
    words: UInt64s,
    before: Int64s,
    zeros: Int64s,
    count: int,
    there: _Number,
) -> _Number:
    """How many of the listed numbers stand before the one that is the rank-th of all others who are there.

    Their own ranks, -1 where they are not known, are found when they are needed.
    """
    low, high = 0, found
    while low < high:
        middle = (low + high) >> 1
        if ranks[middle] < 0:
            ranks[middle] = rank_born(words, before, zeros, count, there, listed[middle])
        if ranks[middle] - middle <= rank:
            low = middle + 1
        else:
            high = middle
    return low


@allocating_kernel
def draw_by_race(
    prefix: np.uint64,
    ordinals: Int64s,
    moments: Int64s,
    rows: Int64s,
    known: Known,
    mode: int,
    born: Int64s,
    ids: Int64s,
    weights: Float64s,
    out: Int64s,
) -> None:
    """Fills out [seeds, slots] with numbers of candidates by their weights; what is left of a row stays as it was.

    Args:
        prefix: The key, to which a seed's ordinal and the candidate's id are folded.
        ordinals: As in `draw_by_rank`, like moments, rows and mode.
        born: By number, or empty.
        ids: By number.
        weights: By number; 0 is never drawn.
    """
    bounds, far, since, until = known.bounds, known.far, known.since, known.until
    slots = out.shape[1]
    listed, scores = np.empty(_longest(bounds), np.int64), np.empty(slots, np.float64)
    for i in range(ordinals.size):
        moment = moments[i] if moments.size > 0 else np.int64(0)
        found = _list_known(bounds, far, since, until, mode, rows[i], moment, born, listed)
        key = fold(prefix, np.uint64(ordinals[i]))
        held, at = 0, 0
        for number in range(ids.size):
            if at < found and listed[at] == number:
                at += 1
                continue
            if weights[number] <= 0.0 or (born.size > 0 and born[number] > moment):
                continue
            bits = draw(fold(key, np.uint64(ids[number])), np.uint64(0))
            held = _keep_least(race_score(bits, weights[number]), number, scores, out[i], held)


@kernel
def _keep_least(score: float, number: int, scores: Float64s, kept: Int64s, held: int) -> int:
    """Puts a number in its place among the `held` least, the earlier first of equals; returns how many are held."""
    if held == scores.size and (held == 0 or score >= scores[held - 1]):
        return held
    place = held if held < scores.size else held - 1
    while place > 0 and scores[place - 1] > score:
        if place < scores.size:
            scores[place], kept[place] = scores[place - 1], kept[place - 1]
        place -= 1
    scores[place], kept[place] = score, number
    return min(held + 1, scores.size)


# Who is there at a moment: how many with a lower number are, and which is the r-th, without a walk over all of them


_BLOCK = 512
"""Levels begin where a block of ranks does."""


class _BirthOrder(NamedTuple):
    """Numbers 0 ≤ i < n by their births."""

    times: Int64s
    """[n] births, ascending."""
    words: UInt64s
    """A bit for each number, level after level, the highest digit first."""
    before: Int64s
    """See `rank_blocks`."""
    zeros: Int64s
    """[levels] how many bits of each are 0."""


def birth_order(born: Int64s) -> _BirthOrder:
    """The order of numbers by when each is born; with none at all nobody is ever asked for.

    >>> order = birth_order(np.array([30, 10, 20, 10]))
    >>> there = count_born(order.times, 20)
    >>> [int(select_born(*order[1:], 4, there, rank)) for rank in range(there)]
    [1, 2, 3]
    >>> [int(rank_born(*order[1:], 4, there, number)) for number in range(4)]
    [0, 0, 1, 2]
    """
    order = np.argsort(born, kind="stable")
    times = np.ascontiguousarray(born[order], np.int64)
    levels = max(1, int(born.size - 1).bit_length()) if born.size else 0
    stride = (born.size + _BLOCK - 1) // _BLOCK * _BLOCK
    words, zeros = np.zeros(levels * stride // 64, np.uint64), np.zeros(levels, np.int64)
    _fill(order.astype(np.int64, copy=False), words, zeros, stride)
    return _BirthOrder(times, words, rank_blocks(words), zeros)


@allocating_kernel
def _fill(order: Int64s, words: UInt64s, zeros: Int64s, stride: int) -> None:
    """Writes the levels; `order` ends as another one."""
    spare = np.empty_like(order)
    for level in range(zeros.size):
        digit, base = zeros.size - 1 - level, level * stride
        ones = np.int64(0)
        for i in range(order.size):
            bit = (order[i] >> digit) & 1
            words[(base + i) >> 6] |= np.uint64(bit) << np.uint64(i & 63)
            ones += bit
        low, high = np.int64(0), order.size - ones
        zeros[level] = high
        for i in range(order.size):
            if (order[i] >> digit) & 1:
                spare[high] = order[i]
                high += 1
            else:
                spare[low] = order[i]
                low += 1
        order, spare = spare, order


@kernel
def count_born(times: Int64s, moment: _Number) -> int:
    """How many are born by a moment, itself included."""
    low, high = 0, times.size
    while low < high:
        middle = (low + high) >> 1
        if times[middle] <= moment:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _ones_before(words: UInt64s, before: Int64s, base: _Number, low: _Number, high: _Number) -> tuple[_Number, _Number]:
    """How many bits of the level that begins at `base` are set before two of its places."""
    first = before[2 * (base >> 9)]
    return live_before(words, before, base + low) - first, live_before(words, before, base + high) - first


@kernel
def rank_born(words: UInt64s, before: Int64s, zeros: Int64s, count: int, there: _Number, number: _Number) -> _Number:
    """How many of the first `there` of `count` born are below a number."""
    below: _Number = np.int64(0)
    low: _Number = np.int64(0)
    high: _Number = there
    stride = (count + _BLOCK - 1) // _BLOCK * _BLOCK
    for level in range(zeros.size):
        left, right = _ones_before(words, before, level * stride, low, high)
        if (number >> (zeros.size - 1 - level)) & 1:
            below += (high - right) - (low - left)
            low, high = zeros[level] + left, zeros[level] + right
        else:
            low, high = low - left, high - right
    return below


@kernel
def select_born(words: UInt64s, before: Int64s, zeros: Int64s, count: int, there: _Number, rank: _Number) -> _Number:
    """The number that `rank` of the first `there` of `count` born are below; 0 ≤ rank < there."""
    number: _Number = np.int64(0)
    low: _Number = np.int64(0)
    high: _Number = there
    stride = (count + _BLOCK - 1) // _BLOCK * _BLOCK
    for level in range(zeros.size):
        left, right = _ones_before(words, before, level * stride, low, high)
        fewer = (high - right) - (low - left)
        number <<= 1
        if rank < fewer:
            low, high = low - left, high - right
        else:
            number |= 1
            rank -= fewer
            low, high = zeros[level] + left, zeros[level] + right
    return number

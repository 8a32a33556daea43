"""Negative sampling: destinations without an edge from the source, drawn uniformly by rank, or by weight.

Candidates are numbered 0 ≤ i < count in the order of their ids. Known candidates, which must not be drawn, are in a
short sorted list. A rank is moved past them, so an unweighted draw costs O(log known) for any number of candidates. A
weighted draw is an exponential race over all candidates, at O(candidates) per seed.

Reference implementations: `negatives` and `weighted_negatives` in tests/support/oracle/seeds.py.
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
"""The edges that make a destination known: all edges, those before a time, or those that exist at a time."""


class Known(NamedTuple):
    """The neighbours of sources, as candidate numbers. Rows are in ascending order and can contain duplicates."""

    mode: int
    """EVER, BEFORE or AT."""
    bounds: Int64s
    """[rows + 1] The start of each source's row in `neighbors`."""
    neighbors: Int64s
    """[entries] Candidate numbers."""
    since: Int64s
    """[entries] The start time of each edge. Empty if edges have no time."""
    until: Int64s
    """[entries] The end time of each edge. Empty if edges are events."""


class BirthOrder(NamedTuple):
    """The numbers 0 ≤ i < n in birth order, as a wavelet matrix."""

    times: Int64s
    """[n] Births, ascending."""
    words: UInt64s
    """One bit per number and level. Levels are stored one after another, starting with the most significant binary
    digit."""
    before: Int64s
    """The rank directory of `words` (see `rank_blocks`)."""
    zeros: Int64s
    """[levels] The number of 0 bits in each level."""


class Born(NamedTuple):
    """The times at which candidates start to exist. The arrays are empty if candidates always exist."""

    by_number: Int64s
    """[candidates] Births by candidate number."""
    order: BirthOrder
    """The same births in birth order."""


@allocating_kernel
def draw_by_rank(
    prefix: tuple[np.uint64],
    ordinals: Int64s,
    times: Int64s,
    rows: Int64s,
    known: Known,
    born: Born,
    count: int,
    out: Int64s,
) -> None:
    """Fill out [seeds, slots] with candidate numbers, drawn uniformly without replacement.

    Slots beyond the number of candidates are left unchanged.

    Args:
        prefix: [1] The key, into which a seed's ordinal and the slot are folded (see `rng.fold_parts`).
        ordinals: [seeds] The ordinal of each seed, which makes its draws independent of other seeds' draws.
        times: [seeds] The time by which a vertex must be born to be a candidate, or an empty array.
        rows: [seeds] The row in `known` for each seed's source. Runs of equal rows are listed once if possible.
        known: The neighbours that must not be drawn.
        born: The times at which candidates start to exist.
        count: The number of candidates.
        out: [seeds, slots] The result.
    """
    slots, born_once = out.shape[1], born.by_number.size == 0
    longest = _longest(known.bounds)
    listed, ranks, taken = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(slots, np.int64)
    excluded, there = 0, count
    for i in range(ordinals.size):
        time = times[i] if times.size > 0 else np.int64(0)
        if i == 0 or rows[i] != rows[i - 1] or known.mode != EVER or not born_once:
            there = count if born_once else _count_born(born.order.times, time)
            excluded = _list_known(known, rows[i], time, born.by_number, listed)
            for k in range(excluded):
                ranks[k] = listed[k] if there == count else -1
        key, left = fold(prefix[0], np.uint64(ordinals[i])), there - excluded
        for slot in range(min(slots, left)):
            bits = draw(fold(key, np.uint64(slot)), np.uint64(0))
            rank = _pass_taken(taken, slot, np.int64(below(bits, np.uint64(left - slot))))
            rank += _count_passed(listed, ranks, excluded, rank, born.order, there)
            out[i, slot] = rank if there == count else _select_born(born.order, there, rank)


@kernel
def _longest(bounds: Int64s) -> int:
    """Return the length of the longest row."""
    longest = np.int64(0)
    for row in range(bounds.size - 1):
        longest = max(longest, bounds[row + 1] - bounds[row])
    return int(longest)


@kernel
def _list_known(known: Known, row: _Number, time: _Number, born: Int64s, listed: Int64s) -> int:
    """Write a row's distinct known candidates that exist, in ascending order. Returns their number."""
    mode, since, until = known.mode, known.since, known.until
    count = 0
    for e in range(known.bounds[row], known.bounds[row + 1]):
        if mode != EVER:
            if mode == BEFORE:
                counts = since[e] < time
            elif since[e] == STATIC:
                counts = True
            elif until.size > 0:
                counts = since[e] <= time < until[e]
            else:
                counts = since[e] == time
            if not counts:
                continue
        neighbor = known.neighbors[e]
        if (count > 0 and listed[count - 1] == neighbor) or (born.size > 0 and born[neighbor] > time):
            continue
        listed[count] = neighbor
        count += 1
    return count


@kernel
def _pass_taken(taken: Int64s, count: int, rank: _Number) -> _Number:
    """Move a rank past the `count` taken ranks, and insert it among them in ascending order."""
    at = 0
    while at < count and taken[at] <= rank:
        rank += 1
        at += 1
    for k in range(count, at, -1):
        taken[k] = taken[k - 1]
    taken[at] = rank
    return rank


# Binary search over the known candidates by the number of free candidates before each one, with O(log known) rank
# queries per draw.
@kernel
def _count_passed(
    listed: Int64s, ranks: Int64s, excluded: int, rank: _Number, order: BirthOrder, there: _Number
) -> _Number:
    """Return the number of listed numbers that are less than the rank-th existing number that is not listed.

    `ranks` caches the ranks of the listed numbers. Ranks that have not been computed yet are -1.
    """
    low, high = 0, excluded
    while low < high:
        middle = (low + high) >> 1
        if ranks[middle] < 0:
            ranks[middle] = _rank_born(order, there, listed[middle])
        if ranks[middle] - middle <= rank:
            low = middle + 1
        else:
            high = middle
    return low


@allocating_kernel
def draw_by_race(
    prefix: tuple[np.uint64],
    ordinals: Int64s,
    times: Int64s,
    rows: Int64s,
    known: Known,
    born: Int64s,
    ids: Int64s,
    weights: Float64s,
    out: Int64s,
) -> None:
    """Fill out [seeds, slots] with candidate numbers, drawn by weight without replacement.

    The draw is an exponential race (Efraimidis and Spirakis, 2006), which the candidates with the lowest scores win.
    Slots beyond the number of candidates are left unchanged.

    Args:
        prefix: [1] The key, into which a seed's ordinal and the candidate's id are folded.
        ordinals: [seeds] The ordinal of each seed. This argument, `times` and `rows` are as in `draw_by_rank`.
        times: [seeds] The times of the seeds, or an empty array.
        rows: [seeds] The row in `known` for each seed's source.
        known: The neighbours that must not be drawn.
        born: [candidates] Births, or an empty array.
        ids: [candidates] The id that is folded into a candidate's key.
        weights: [candidates] Weights. Candidates with weight 0 are never drawn.
        out: [seeds, slots] The result.
    """
    slots = out.shape[1]
    listed, scores = np.empty(_longest(known.bounds), np.int64), np.empty(slots, np.float64)
    for i in range(ordinals.size):
        time = times[i] if times.size > 0 else np.int64(0)
        excluded = _list_known(known, rows[i], time, born, listed)
        key = fold(prefix[0], np.uint64(ordinals[i]))
        held, at = 0, 0
        for number in range(ids.size):
            if at < excluded and listed[at] == number:
                at += 1
                continue
            if weights[number] <= 0.0 or (born.size > 0 and born[number] > time):
                continue
            bits = draw(fold(key, np.uint64(ids[number])), np.uint64(0))
            held = _keep_least(race_score(bits, weights[number]), number, scores, out[i], held)


@kernel
def _keep_least(score: float, number: int, scores: Float64s, kept: Int64s, held: int) -> int:
    """Insert a number among the `held` lowest scores, after equal ones. Returns the new number of held scores."""
    if held == scores.size and (held == 0 or score >= scores[held - 1]):
        return held
    place = held if held < scores.size else held - 1
    while place > 0 and scores[place - 1] > score:
        if place < scores.size:
            scores[place], kept[place] = scores[place - 1], kept[place - 1]
        place -= 1
    scores[place], kept[place] = score, number
    return min(held + 1, scores.size)


# The candidates that exist at a time, as a wavelet matrix over their births (Claude, Navarro and Ordóñez, 2015). Rank
# and select among the first births cost O(log n) bit counts. A separate list for each time would need O(n) memory.
_BLOCK = 512
"""The number of bits in a block of the rank directory. Levels are aligned to blocks."""


def birth_order(born: Int64s) -> BirthOrder:
    """Return the wavelet matrix of numbers in birth order.

    >>> order = birth_order(np.array([30, 10, 20, 10]))
    >>> there = _count_born(order.times, 20)
    >>> [int(_select_born(order, there, rank)) for rank in range(there)]
    [1, 2, 3]
    >>> [int(_rank_born(order, there, number)) for number in range(4)]
    [0, 0, 1, 2]
    """
    order = np.argsort(born, kind="stable")
    times = np.ascontiguousarray(born[order], np.int64)
    levels = max(1, int(born.size - 1).bit_length()) if born.size else 0
    stride = (born.size + _BLOCK - 1) // _BLOCK * _BLOCK
    words, zeros = np.zeros(levels * stride // 64, np.uint64), np.zeros(levels, np.int64)
    _fill(order.astype(np.int64, copy=False), words, zeros, stride)
    return BirthOrder(times, words, rank_blocks(words), zeros)


@allocating_kernel
def _fill(order: Int64s, words: UInt64s, zeros: Int64s, stride: int) -> None:
    """Write the levels. `order` is overwritten."""
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
def _count_born(times: Int64s, time: _Number) -> int:
    """Return the number of births up to a time, inclusive."""
    low, high = 0, times.size
    while low < high:
        middle = (low + high) >> 1
        if times[middle] <= time:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _ones_before(order: BirthOrder, level: int, low: _Number, high: _Number) -> tuple[_Number, _Number]:
    """Return the number of set bits in a level before each of two places."""
    words, before = order.words, order.before
    base = level * ((order.times.size + _BLOCK - 1) // _BLOCK * _BLOCK)
    first = before[2 * (base >> 9)]
    return live_before(words, before, base + low) - first, live_before(words, before, base + high) - first


@kernel
def _rank_born(order: BirthOrder, there: _Number, number: _Number) -> _Number:
    """Return the number of births among the first `there` whose number is less than `number`."""
    below: _Number = np.int64(0)
    low: _Number = np.int64(0)
    high: _Number = there
    zeros = order.zeros
    for level in range(zeros.size):
        left, right = _ones_before(order, level, low, high)
        if (number >> (zeros.size - 1 - level)) & 1:
            below += (high - right) - (low - left)
            low, high = zeros[level] + left, zeros[level] + right
        else:
            low, high = low - left, high - right
    return below


@kernel
def _select_born(order: BirthOrder, there: _Number, rank: _Number) -> _Number:
    """Return the number that has `rank` smaller numbers among the first `there` births, 0 ≤ rank < there."""
    number: _Number = np.int64(0)
    low: _Number = np.int64(0)
    high: _Number = there
    zeros = order.zeros
    for level in range(zeros.size):
        left, right = _ones_before(order, level, low, high)
        fewer = (high - right) - (low - left)
        number <<= 1
        if rank < fewer:
            low, high = low - left, high - right
        else:
            number |= 1
            rank -= fewer
            low, high = zeros[level] + left, zeros[level] + right
    return number

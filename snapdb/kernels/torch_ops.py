"""Torch operators for draws on any device: the random numbers of `kernels/rng.py`, and operations on ragged rows.

torch has no unsigned arithmetic, but its int64 arithmetic wraps around. A word is therefore the int64 with the same
bits, and only shifts and comparisons need special treatment.

    >>> import torch
    >>> hex(int(_mix(torch.tensor(1))))
    '0x5692161d100b05e5'
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

_LOW = 2**32 - 1
_LEAST = -(2**63)


def signed(word: int) -> int:
    """Return the int64 with the same bits as a uint64.

    >>> signed(2**64 - 1), signed(7)
    (-1, 7)
    """
    return word - 2**64 if word >= 2**63 else word


_GOLDEN = signed(0x9E3779B97F4A7C15)
FIRST, SECOND = signed(0xBF58476D1CE4E5B9), signed(0x94D049BB133111EB)


def shifted(words: Tensor, bits: int) -> Tensor:
    """Shift words to the right logically. torch's own shift copies the sign bit."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def _mix(words: Tensor) -> Tensor:
    """Mix each word with the finaliser of splitmix64 (see `rng.mix`)."""
    z = (words ^ shifted(words, 30)) * FIRST
    z = (z ^ shifted(z, 27)) * SECOND
    return z ^ shifted(z, 31)


def fold(key: Tensor | int, part: Tensor) -> Tensor:
    """Return the keys extended by one part each. Keys and parts are broadcast."""
    return _mix((_mix(part + _GOLDEN) ^ key) + _GOLDEN)


def draw(key: Tensor, slot: Tensor | int) -> Tensor:
    """Return element `slot` of each key's sequence of 64-bit random numbers. Keys and slots are broadcast.

    >>> import torch
    >>> key = torch.tensor([signed(0xF0A625C1C1AB29D8)])
    >>> [hex(bits % 2**64) for bits in draw(key, torch.arange(2)).tolist()]
    ['0xfbc33fa4663df263', '0xb9945e293c549cf6']
    """
    return _mix(key + (signed(slot * _GOLDEN % 2**64) if isinstance(slot, int) else slot * _GOLDEN))


def high_half(key: Tensor) -> Tensor:
    """Return the upper 32 bits of each key's first draw."""
    return shifted(_mix(key), 32)


def below(bits: Tensor, n: Tensor) -> Tensor:
    """floor(bits * n / 2^64) for words `bits` and 1 ≤ n < 2^63. Results are in 0 ≤ result < n.

    >>> import torch
    >>> below(torch.tensor(signed(0xFBC33FA4663DF263)), torch.tensor([10, 2**31 - 1, 2**40])).tolist()
    [9, 2111938513, 1081312519270]
    """
    # The high half of a 128-bit product is computed from four 32-bit products, because torch has no wider integers.
    a, b = shifted(bits, 32), bits & _LOW
    c, d = n >> 32, n & _LOW
    q = a * d + shifted(b * d, 32)
    t = b * c + (q & _LOW)
    return a * c + shifted(q, 32) + shifted(t, 32)


def unsigned_order(words: Tensor) -> Tensor:
    """Return signed integers with the same order as the unsigned words.

    >>> import torch
    >>> unsigned_order(torch.tensor([-1, 0, 1])).argsort().tolist()
    [1, 2, 0]
    """
    return words ^ _LEAST


# Ragged rows without a loop over rows. Each element has its row number, and each operator runs over all elements of all
# rows.
def spread(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the row number of each element, and its rank in the row, for rows of `counts` elements.

    >>> [found.tolist() for found in spread(torch.tensor([2, 0, 3]))]
    [[0, 0, 2, 2, 2], [0, 1, 0, 1, 2]]
    """
    ends = counts.cumsum(0)
    # `output_size` avoids a second synchronization with the device in repeat_interleave.
    total = int(ends[-1]) if counts.numel() else 0
    rows = torch.repeat_interleave(torch.arange(counts.numel(), device=counts.device), counts, output_size=total)
    return rows, torch.arange(total, device=counts.device) - (ends - counts)[rows]


def counts_of(kept: Tensor, counts: Tensor) -> Tensor:
    """[rows] The number of kept elements per row, for rows of `counts` elements.

    >>> counts_of(torch.tensor([True, False, True]), torch.tensor([2, 0, 1])).tolist()
    [1, 0, 1]
    """
    upto = torch.nn.functional.pad(kept.cumsum(0), (1, 0))
    ends = counts.cumsum(0)
    return upto[ends] - upto[ends - counts]


def place(starts: Tensor, counts: Tensor, rows: Tensor, ranks: Tensor) -> Tensor:
    """Return the positions of elements that are given by row and rank.

    A row consists of consecutive pieces. `starts` and `counts` are [pieces, rows].

    >>> starts, counts = torch.tensor([[10], [20]]), torch.tensor([[2], [3]])
    >>> place(starts, counts, torch.tensor([0, 0, 0]), torch.tensor([1, 2, 4])).tolist()
    [11, 20, 22]
    """
    found = starts[0][rows] + ranks
    before = torch.zeros_like(counts[0])
    for piece in range(1, len(starts)):
        before = before + counts[piece - 1]
        found = torch.where(ranks >= before[rows], (starts[piece] - before)[rows] + ranks, found)
    return found


def lower_bound(values: Tensor, low: Tensor, high: Tensor, bound: Tensor | int, steps: int) -> Tensor:
    """Return the index of the first of the ascending values[low:high] that is not less than `bound`, or `high`.

    This is a binary search per element, with `steps` steps. No range may be longer than 2^steps - 1.

    >>> lower_bound(torch.tensor([3, 5, 5, 9]), torch.tensor([0, 2]), torch.tensor([4, 4]), 5, steps=3).tolist()
    [1, 2]
    """
    if values.numel() == 0:
        return low
    # The number of steps is fixed, because a data-dependent loop would synchronize with the device in each step.
    for _ in range(steps):
        middle = (low + high) >> 1
        less = (low < high) & (values[middle.clamp(max=values.numel() - 1)] < bound)
        low, high = torch.where(less, middle + 1, low), torch.where(less, high, middle)
    return low


def order_in_rows(rows: Tensor, *keys: Tensor) -> Tensor:
    """Return the order that sorts the elements of each row by these keys, then by position.

    The first key is the most significant.

    >>> order_in_rows(torch.tensor([0, 0, 1]), torch.tensor([5, 3, 1])).tolist()
    [1, 0, 2]
    """
    # Stable sorts from the last key to the first, as in a radix sort, because torch has no lexsort.
    order = keys[-1].argsort(stable=True)
    for key in (*keys[-2::-1], rows):
        order = order[key[order].argsort(stable=True)]
    return order


def chunks(sizes: Tensor, most: int) -> list[tuple[int, int]]:
    """Return ranges of rows with about `most` elements each. A row is never divided.

    >>> chunks(torch.tensor([3, 3, 0, 9, 1]), most=5)
    [(0, 2), (2, 4), (4, 5)]
    """
    ends = sizes.cumsum(0)
    total = int(ends[-1]) if sizes.numel() else 0
    if total <= most:
        return [(0, sizes.numel())]
    marks = torch.arange(most, total, most, device=sizes.device)
    cuts = (torch.searchsorted(ends, marks) + 1).tolist()
    return list(pairwise(sorted({0, *cuts, sizes.numel()})))


# Floyd's sampling for many rows at once, with k steps over all rows and O(k²) comparisons per row. A GPU executes this
# faster than any scheme with a table per row. Reference implementation: `floyd` in tests/support/oracle/numbers.py.
MOST = 1024
"""The maximum number of draws per row. With more draws, comparing each draw with all earlier draws takes too long."""


def floyd(keys: Tensor, degrees: Tensor, k: int, counts: Tensor | None = None) -> Tensor:
    """[rows, k] Distinct places in each row of `degrees` > k places, in draw order.

    If `counts` [rows] is given, with 0 ≤ count ≤ k, only the first `counts` values in each row are valid.

    >>> from snapdb.kernels.torch_ops import signed
    >>> floyd(torch.tensor([signed(0xF0A625C1C1AB29D8)]), torch.tensor([20]), 5).tolist()
    [[15, 12, 7, 14, 6]]
    """
    chosen = torch.empty((k, keys.numel()), dtype=torch.int64, device=keys.device)
    first = degrees - (k if counts is None else counts)
    for j in range(k):
        top = first + (j + 1)
        place = below(draw(keys, j), top)
        taken = (chosen[:j] == place).any(0)
        chosen[j] = torch.where(taken, top - 1, place)
    return chosen.T


# The ranks of the residual draw, for many rows at once.
FAR = 2**62
"""A value that is greater than any rank. It pads rows with fewer ranks than others."""


def past(chosen: Tensor, ranks: Tensor) -> Tensor:
    """Map ranks among the elements that are not chosen to ranks among all elements.

    Both are [rows, …], and `chosen` is padded with FAR.

    >>> past(torch.tensor([[4, 0, FAR], [1, 0, 2]]), torch.tensor([[0, 2, 3], [0, 1, 2]])).tolist()
    [[1, 3, 5], [3, 4, 5]]
    """
    ordered, _ = chosen.sort(1)
    # The number of free places before each chosen one.
    free = ordered - torch.arange(chosen.shape[1], device=chosen.device)
    return ranks + torch.searchsorted(free, ranks.contiguous(), right=True)


def is_among(values: Tensor, ranks: Tensor) -> Tensor:
    """Return whether each rank is among the ascending values of its row. Both are [rows, …], with one or more values.

    >>> is_among(torch.tensor([[1, 5, FAR]]), torch.tensor([[0, 1, 5, 6]])).tolist()
    [[False, True, True, False]]
    """
    at = torch.searchsorted(values, ranks.contiguous()).clamp(max=values.shape[1] - 1)
    return values.gather(1, at) == ranks


# Local ids by first appearance, from a stable sort, which gives the same result on every device.
def number(known: Tensor, met: Tensor) -> tuple[Tensor, Tensor]:
    """Return the local ids of `met`, and the indices of new ids in `met`, by first appearance.

    Args:
        known: Ids that already have a local id, which is their index in this tensor.
        met: The ids to relabel, in order.

    >>> [found.tolist() for found in number(torch.tensor([7, 9]), torch.tensor([8, 9, 5, 8]))]
    [[2, 1, 3, 2], [0, 2]]
    """
    values, order = torch.cat((known, met)).sort(stable=True)
    head = torch.ones_like(values, dtype=torch.bool)
    torch.ne(values[1:], values[:-1], out=head[1:])
    first = order[head]
    fresh = torch.zeros_like(head)
    fresh[first] = True
    fresh = fresh[known.numel() :]
    ids = torch.cat((torch.arange(known.numel(), device=met.device), known.numel() - 1 + fresh.cumsum(0)))
    local = torch.empty_like(order)
    local[order] = ids[first][head.cumsum(0) - 1]
    return local[known.numel() :], fresh.nonzero().squeeze(1)


# The scores of weighted draws are integers, or results of single float64 operations, which IEEE 754 rounds identically
# on every device.
def _race_lengths(bits: Tensor, table: Tensor) -> Tensor:
    """-log2((2 * bits + 1) / 2^33) * 2^40 for 32 random bits, to 1e-8. It is the finishing time of an edge of weight 1.

    `table` is `LOG_TABLE` on the device.

    >>> from snapdb.kernels.draw.scores import LOG_TABLE
    >>> lengths = _race_lengths(torch.tensor([2**31, 2**31 - 1]), torch.tensor(LOG_TABLE))
    >>> (lengths - 2**40).sign().tolist()
    [-1, 1]
    """
    odd = 2 * bits + 1
    _, length = torch.frexp(odd.to(torch.float64))  # exact: fewer than 53 bits
    left = 34 - length.to(torch.int64)
    mantissa = odd << left
    cell, rest = (mantissa >> 21) & 4095, mantissa & (2**21 - 1)
    low = table[cell]
    return (left << 40) - low - (((table[cell + 1] - low) * rest) >> 21)


def race(bits: Tensor, weights: Tensor, table: Tensor) -> Tensor:
    """Return the finishing time of each edge in an exponential race, computed from its 32 random bits and its weight.

    The lowest times win.
    """
    return _race_lengths(bits, table).to(torch.float64) / weights


def priority(bits: Tensor, weights: Tensor) -> Tensor:
    """Return the priority (bits + 1/2) / weight of each edge. The edges with the lowest priorities are drawn."""
    return (bits.to(torch.float64) + 0.5) / weights


def heavy(weights: Tensor, most: Tensor) -> Tensor:
    """Return the weights as integers, in units of 2^-32 of `most`, or 0 if `most` is 0.

    >>> heavy(torch.tensor([0.5, 3.0, 0.0]), torch.tensor([1.0, 3.0, 0.0])).tolist()
    [2147483648, 4294967296, 0]
    """
    shares = weights / most.where(most > 0, torch.ones_like(most))
    return (shares * 2.0**32).round().to(torch.int64)  # to the nearest, halves to even

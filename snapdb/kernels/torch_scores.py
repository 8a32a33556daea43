"""What weighted draws compare: integers and single operations on float64, so that every device has the same bits."""

import torch
from torch import Tensor


def _race_lengths(bits: Tensor, table: Tensor) -> Tensor:
    """-log2((2 * bits + 1) / 2^33) * 2^40 of 32 random bits, to 1e-8: how long an edge of weight 1 takes in the race.

    `table` is `LOG_TABLE` on the device.

    >>> from snapdb.kernels.logtable import LOG_TABLE
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
    """When each edge comes in, by its 32 random bits and its weight: the first ones are drawn."""
    return _race_lengths(bits, table).to(torch.float64) / weights


def priority(bits: Tensor, weights: Tensor) -> Tensor:
    """Each edge's (bits + 1/2) / weight: the smallest ones are drawn."""
    return (bits.to(torch.float64) + 0.5) / weights


def heavy(weights: Tensor, most: Tensor) -> Tensor:
    """The weights as whole numbers, in units of 2^-32 of `most`; nothing where `most` is 0.

    >>> heavy(torch.tensor([0.5, 3.0, 0.0]), torch.tensor([1.0, 3.0, 0.0])).tolist()
    [2147483648, 4294967296, 0]
    """
    shares = weights / most.where(most > 0, torch.ones_like(most))
    return (shares * 2.0**32).round().to(torch.int64)  # to the nearest, halves to even

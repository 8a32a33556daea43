"""Ranks beside those that were chosen, for many rows at once."""

import torch
from torch import Tensor

FAR = 2**62
"""Stands behind the ranks of a row that has fewer than others."""


def past(chosen: Tensor, ranks: Tensor) -> Tensor:
    """Ranks among what is not chosen, as ranks among all. Both are [rows, …]; FAR fills what is chosen up.

    >>> past(torch.tensor([[4, 0, FAR], [1, 0, 2]]), torch.tensor([[0, 2, 3], [0, 1, 2]])).tolist()
    [[1, 3, 5], [3, 4, 5]]
    """
    ordered, _ = chosen.sort(1)
    free = ordered - torch.arange(chosen.shape[1], device=chosen.device)  # so many are not chosen before each
    return ranks + torch.searchsorted(free, ranks.contiguous(), right=True)


def is_among(values: Tensor, ranks: Tensor) -> Tensor:
    """Which of the ranks are among the ascending values of their row. Both are [rows, …], values at least one each.

    >>> is_among(torch.tensor([[1, 5, FAR]]), torch.tensor([[0, 1, 5, 6]])).tolist()
    [[False, True, True, False]]
    """
    at = torch.searchsorted(values, ranks.contiguous()).clamp(max=values.shape[1] - 1)
    return values.gather(1, at) == ranks

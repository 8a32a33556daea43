"""Floyd's draws without replacement for many rows at once: as many steps as draws, each over all rows."""

import torch
from torch import Tensor

from snapdb.kernels.torch_rng import below, draw

MOST = 1024
"""More draws than this a row would be compared with all earlier ones for too long."""


def floyd(keys: Tensor, degrees: Tensor, k: int, counts: Tensor | None = None) -> Tensor:
    """[rows, k] distinct places of each row of `degrees` > k places, in draw order.

    Where `counts` are given, of each row only so many are drawn, 0 ≤ count ≤ k, and what stands behind them means
    nothing.

    >>> from snapdb.kernels.torch_rng import signed
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

"""Local ids by first appearance, by stable sorting: no device decides who comes first."""

import torch
from torch import Tensor


def number(known: Tensor, met: Tensor) -> tuple[Tensor, Tensor]:
    """The local ids of `met`, and the places in it of those that are new, by first appearance.

    Args:
        known: What has a local id already: its first place here.
        met: What is numbered, in order.

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

"""Many rows at once, without a loop over them: spread out, searched, sorted each for itself, cut into chunks."""

from itertools import pairwise

import torch
from torch import Tensor


def spread(counts: Tensor) -> tuple[Tensor, Tensor]:
    """For each element of rows of so many: which row it is in, and which one of the row it is.

    >>> [found.tolist() for found in spread(torch.tensor([2, 0, 3]))]
    [[0, 0, 2, 2, 2], [0, 1, 0, 1, 2]]
    """
    ends = counts.cumsum(0)
    total = int(ends[-1]) if counts.numel() else 0
    rows = torch.repeat_interleave(torch.arange(counts.numel(), device=counts.device), counts, output_size=total)
    return rows, torch.arange(total, device=counts.device) - (ends - counts)[rows]


def counts_of(kept: Tensor, counts: Tensor) -> Tensor:
    """How many elements are kept in each of rows of `counts` elements.

    >>> counts_of(torch.tensor([True, False, True]), torch.tensor([2, 0, 1])).tolist()
    [1, 0, 1]
    """
    upto = torch.nn.functional.pad(kept.cumsum(0), (1, 0))
    ends = counts.cumsum(0)
    return upto[ends] - upto[ends - counts]


def place(starts: Tensor, counts: Tensor, rows: Tensor, ranks: Tensor) -> Tensor:
    """Where ranks of rows lie.

    A row consists of pieces, one after another: `starts` and `counts` are [pieces, rows].

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
    """The first of the ascending values[low:high] that is not below `bound`, or `high`.

    No stretch is longer than 2^steps - 1.

    >>> lower_bound(torch.tensor([3, 5, 5, 9]), torch.tensor([0, 2]), torch.tensor([4, 4]), 5, steps=3).tolist()
    [1, 2]
    """
    if values.numel() == 0:
        return low
    for _ in range(steps):
        middle = (low + high) >> 1
        less = (low < high) & (values[middle.clamp(max=values.numel() - 1)] < bound)
        low, high = torch.where(less, middle + 1, low), torch.where(less, high, middle)
    return low


def order_in_rows(rows: Tensor, *keys: Tensor) -> Tensor:
    """The order that sorts the elements of each row by these keys, the first one first, then by their places.

    >>> order_in_rows(torch.tensor([0, 0, 1]), torch.tensor([5, 3, 1])).tolist()
    [1, 0, 2]
    """
    order = keys[-1].argsort(stable=True)
    for key in (*keys[-2::-1], rows):
        order = order[key[order].argsort(stable=True)]
    return order


def chunks(sizes: Tensor, most: int) -> list[tuple[int, int]]:
    """Stretches of rows that hold few more than `most` elements each; one row is never cut.

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

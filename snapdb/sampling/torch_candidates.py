"""All edges of some rows that may be drawn, one after another, and what they are drawn by."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from snapdb.kernels.torch_rows import counts_of, spread
from snapdb.sampling.torch_eligible import Eligible
from snapdb.sampling.torch_walks import TorchWalk


class Candidates(NamedTuple):
    """All eligible edges of some rows, one after another."""

    counts: Tensor
    """[rows]"""
    rows: Tensor
    ranks: Tensor
    positions: Tensor
    weights: Tensor

    def of_weight(self) -> Candidates:
        """Those that weigh something."""
        kept = self.weights > 0
        return Candidates(counts_of(kept, self.counts), *(column[kept] for column in self[1:]))


def candidates(walk: TorchWalk, eligible: Eligible) -> Candidates:
    """The eligible edges of all rows."""
    rows, ranks = spread(eligible.degrees)
    positions = eligible.positions(rows, ranks)
    weights = torch.ones(ranks.shape, dtype=torch.float64, device=ranks.device)
    if walk.weight is not None:
        weights = walk.weight[positions]
    return Candidates(eligible.degrees, rows, ranks, positions, weights)

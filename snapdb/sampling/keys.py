"""The keys of draws: which parts make two draws different, in the order in which they are folded."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from snapdb.kernels.rng import fold_parts

__all__ = ["Domain", "pick_prefix", "seed_order_key"]


class Domain(IntEnum):
    """What a draw is for: the first part after the seed, so that no two purposes share their bits."""

    ROW = 1
    PICK = 2
    FRESH = 3
    PHASE = 4
    SEEDPERM = 5
    NEG = 6
    HASH = 7


def pick_prefix(seed: int, batch: int, hop: int, edge_type: int) -> np.uint64:
    """The pick key of a whole hop over one edge type: folding a node's dense id into it gives the node's key.

    `batch` is the global batch number, `edge_type` is `Fanout.hash`.

    >>> from snapdb.kernels.rng import fold
    >>> hex(fold(pick_prefix(42, 7, 1, 0x860DA7D90BDD38F6), np.uint64(123456)))
    '0xf0a625c1c1ab29d8'
    """
    return fold_parts(seed, Domain.PICK, batch, hop, edge_type)


def seed_order_key(seed: int, epoch: int) -> np.uint64:
    """The key of an epoch's shuffle: folding an ordinal into it gives the number that the ordinal is sorted by."""
    return fold_parts(seed, Domain.SEEDPERM, epoch)

"""The keys of draws: which parts make two draws different, in the order in which they are folded."""

from enum import IntEnum

import numpy as np

from snapdb.kernels.rng import fold_parts

EVERY_HOP = 2**32 - 1
"""The hop of keys that do not depend on the hop."""


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
    """The pick key of a whole hop over one edge type: folding a node's dense id into it returns the node's key.

    `batch` is the global batch number, `edge_type` is `Relation.hash`.

    >>> from snapdb.kernels.rng import fold
    >>> hex(fold(pick_prefix(42, 7, 1, 0x860DA7D90BDD38F6), np.uint64(123456)))
    '0xf0a625c1c1ab29d8'
    """
    return fold_parts(seed, Domain.PICK, batch, hop, edge_type)


def fresh_prefix(seed: int, batch: int, hop: int, edge_type: int) -> np.uint64:
    """The same for the residual draw, beside a node's row."""
    return fold_parts(seed, Domain.FRESH, batch, hop, edge_type)


def hash_prefix(seed: int, batch: int, hop: int, edge_type: int) -> np.uint64:
    """The hash key of a hop over one edge type: folding in a node's dense id and an edge id returns the edge's key."""
    return fold_parts(seed, Domain.HASH, batch, hop, edge_type)


def labor_keys(
    seed: int, batch: int, hop: int, edge_type: int, dependent: int
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """The parts of a neighbor's variate: (key, key of the next period, key of phases, share of the period so far).

    A variate lasts `dependent` batches. Its turn to be drawn anew comes when the upper half of fold(key of turns, dense
    id) plus how far turns are reaches 2^32; a key is that of the whole hop, without the edge type.
    """
    whole, share = divmod((batch << 32) // dependent, 1 << 32)
    now, later = (fold_parts(seed, Domain.HASH, round_, hop) for round_ in (whole, whole + 1))
    return now, later, fold_parts(seed, Domain.PHASE, hop, edge_type), np.uint64(share)


def seed_order_key(seed: int, epoch: int) -> np.uint64:
    """The key of an epoch's shuffle: folding an ordinal into it returns the ordinal's sort key."""
    return fold_parts(seed, Domain.SEEDPERM, epoch)

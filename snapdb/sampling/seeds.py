"""The order in which an epoch takes its seeds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from snapdb.kernels.order import shuffle
from snapdb.sampling.keys import seed_order_key
from snapdb.sampling.subgraph import Seeds
from snapdb.types import SeedOrder

__all__ = ["epoch_order"]


def epoch_order(seeds: Seeds, seed: int, epoch: int, order: SeedOrder) -> npt.NDArray[np.int64]:
    """Every ordinal of the seed set once, in the epoch's order.

    SHUFFLE draws a new order each epoch, FIXED keeps that of epoch 0, IN ORDER is that of the seed query's rows.

    Raises:
        ValueError: IN ORDER was asked of seeds that came without an order.

    >>> people = Seeds("person", np.arange(8), y=None, query_order=None)
    >>> epoch_order(people, seed=42, epoch=1, order="SHUFFLE").tolist()
    [4, 1, 0, 2, 6, 3, 5, 7]
    """
    match order:
        case "SHUFFLE":
            return shuffle(seed_order_key(seed, epoch), seeds.ids.size)
        case "FIXED":
            return shuffle(seed_order_key(seed, 0), seeds.ids.size)
        case "IN ORDER":
            if seeds.query_order is None:
                raise ValueError("IN ORDER was asked, but these seeds have no query order; use SHUFFLE or FIXED")
            return seeds.query_order

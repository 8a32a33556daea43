"""The order in which an epoch takes its seeds, and how many batches that makes, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from snapdb.arrays import Int64s
from snapdb.kernels.rng import shuffle
from snapdb.sampling.keys import seed_order_key
from snapdb.sampling.subgraph import Seeds
from snapdb.types import SampleSpec, SeedOrder


@dataclass(frozen=True, slots=True)
class _Slices:
    """A seed set cut into slices, one for each epoch; an order of all seeds lasts for as many epochs."""

    seeds: int
    size: int
    """Of every slice but the last, which may be shorter."""
    count: int

    @staticmethod
    def of(seeds: int, subset: Fraction | None) -> _Slices:
        share = Fraction(1) if subset is None else subset
        size = max(1, -(-seeds * share.numerator // share.denominator))
        return _Slices(seeds, size, max(1, -(-seeds // size)))

    def span(self, epoch: int) -> slice:
        """The places in the order that an epoch takes."""
        start = epoch % self.count * self.size
        return slice(start, min(start + self.size, self.seeds))

    def taken(self, epoch: int) -> int:
        """How many seeds an epoch takes."""
        return min(self.size, self.seeds - epoch % self.count * self.size)

    def batches(self, epoch: int, batch_size: int) -> int:
        return -(-self.taken(epoch) // batch_size)


def epoch_order(seeds: Seeds, seed: int, epoch: int, order: SeedOrder, subset: Fraction | None = None) -> Int64s:
    """The ordinals of an epoch, in its order: of the whole seed set, or of a `subset` share of it.

    SHUFFLE draws a new order each epoch, FIXED keeps that of epoch 0, IN ORDER is that of the seed query's rows. With
    a subset an order lasts until it has been taken once.

    Raises:
        ValueError: IN ORDER was asked of seeds that came without an order.

    >>> import numpy as np
    >>> people = Seeds("person", np.arange(8), y=None, query_order=None)
    >>> epoch_order(people, seed=42, epoch=1, order="SHUFFLE").tolist()
    [4, 1, 0, 2, 6, 3, 5, 7]
    >>> [epoch_order(people, 42, epoch, "SHUFFLE", Fraction(3, 8)).tolist() for epoch in range(4)]
    [[7, 2, 4], [5, 0, 1], [6, 3], [4, 1, 0]]
    """
    slices = _Slices.of(seeds.ids.size, subset)
    taken = slices.span(epoch)
    match order:
        case "SHUFFLE":
            return shuffle(seed_order_key(seed, epoch // slices.count), seeds.ids.size)[taken]
        case "FIXED":
            return shuffle(seed_order_key(seed, 0), seeds.ids.size)[taken]
        case "IN ORDER":
            if seeds.query_order is None:
                raise ValueError("IN ORDER was asked, but these seeds have no query order; use SHUFFLE or FIXED")
            return seeds.query_order[taken]


def batches_in(seeds: int, spec: SampleSpec, epoch: int) -> int:
    """The number of batches of an epoch, over all ranks, of a seed set of this size."""
    return _Slices.of(seeds, spec.subset).batches(epoch, spec.batch_size)


def full_batches_in(seeds: int, spec: SampleSpec, epoch: int) -> int:
    """The number of those that have BATCH seeds: all, or all but the last."""
    return _Slices.of(seeds, spec.subset).taken(epoch) // spec.batch_size


def batches_before(seeds: int, spec: SampleSpec, epoch: int) -> int:
    """The global number of an epoch's first batch: how many all earlier epochs have together."""
    slices, size = _Slices.of(seeds, spec.subset), spec.batch_size
    full, last = slices.batches(0, size), slices.batches(slices.count - 1, size)
    rounds, rest = divmod(epoch, slices.count)
    return rounds * ((slices.count - 1) * full + last) + rest * full

"""The batches of an epoch, from whose seeds the rows of SAMPLE and WALK are built."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from snapdb.arrays import Int64s
from snapdb.sampling import Seeds, batches_before, epoch_order
from snapdb.sampling.seeds import seeds_before
from snapdb.types import SampleSpec


@dataclass(frozen=True, slots=True)
class BatchSeeds:
    """The seeds of a batch, from which its rows are built."""

    number: int
    """The batch number, counted over all epochs."""
    epoch: int
    index: int
    """The batch number within the epoch."""
    first: int
    """The number of seeds in all earlier batches, counted over all epochs."""
    ordinals: Int64s
    """The ordinals of the seeds."""


def epoch_batches(seeds: Seeds, spec: SampleSpec, epoch: int) -> Iterator[BatchSeeds]:
    """Yield the batches of one epoch, in order."""
    order = epoch_order(seeds, spec.seed, epoch, spec.order, spec.subset)
    number, first = batches_before(seeds.ids.size, spec, epoch), seeds_before(seeds.ids.size, spec, epoch)
    for index, start in enumerate(range(0, order.size, spec.batch_size)):
        yield BatchSeeds(number + index, epoch, index, first + start, order[start : start + spec.batch_size])

"""The epochs of a seed set: each epoch's batches, a rank's share, and a batch's seeds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils.data import get_worker_info

from snapdb.arrays import Int64s
from snapdb.loading.position import Position
from snapdb.loading.source import Share, Sharing
from snapdb.sampling import Seeds, batches_before, batches_in, epoch_order, full_batches_in
from snapdb.types import SampleSpec


@dataclass(frozen=True, slots=True)
class BatchSeeds:
    """The seeds of a batch to be built."""

    index: tuple[int, int]
    """(epoch, batch within the epoch)."""
    number: int
    """The global batch number, which is part of the draw keys."""
    ordinals: Int64s
    """The seeds, as ordinals of the seed set."""
    padding: bool = False
    """Whether the batch repeats one of the epoch's first batches, because its rank would otherwise have one batch
    fewer."""
    between: tuple[BatchSeeds, ...] = ()
    """Under SCOPE VISITED, other consumers' batches since this consumer's previous batch."""


class Epochs:
    """A rank's batches in each epoch. The seed order is computed once per epoch."""

    def __init__(self, seeds: Seeds, spec: SampleSpec, sharing: Sharing) -> None:
        self.seeds, self.spec, self.sharing = seeds, spec, sharing
        self._order: tuple[int, Int64s] | None = None

    def batches(self, epoch: int) -> int:
        """Return the number of batches in an epoch, over all ranks."""
        return batches_in(self.seeds.ids.size, self.spec, epoch)

    def before(self, epoch: int) -> int:
        """Return the global number of an epoch's first batch, which is the number of batches in all earlier epochs."""
        return batches_before(self.seeds.ids.size, self.spec, epoch)

    def share(self, epoch: int, start: int = 0) -> Share:
        """Return this rank's share of an epoch after all ranks together have consumed `start` batches."""
        return self.sharing.share(self.batches(epoch), full_batches_in(self.seeds.ids.size, self.spec, epoch), start)

    def taken_last(self, at: Position) -> int:
        """Return the global number of the last batch taken before a position, or of the first one if none was taken."""
        number, workers = place_among_workers()
        return self.before(at.epoch) + self.share(at.epoch, at.start).consumed(number + workers * max(0, at.taken - 1))

    def batch(self, epoch: int, index: int) -> BatchSeeds:
        """Return this rank's batch at an index in the epoch. Negative indices count from the end.

        Raises:
            IndexError: The rank has fewer batches.
            TypeError: The index is not an integer.
        """
        if isinstance(index, bool) or not isinstance(index, int):
            raise TypeError(f"the index of a batch must be a non-negative integer, found {index!r}")
        places = self.share(epoch).places
        if not -len(places) <= index < len(places):
            raise IndexError(f"batch {index} does not exist: an epoch has {len(places)} batches here (numbered from 0)")
        return next(self.batches_at(epoch, [places[index]]))

    def batches_at(self, epoch: int, places: Iterable[int]) -> Iterator[BatchSeeds]:
        """Yield the batches at these positions in an epoch. Positions past its end wrap around to its start."""
        order, size = self._ordinals(epoch), self.spec.batch_size
        batches, before = self.batches(epoch), self.before(epoch)
        for place in places:
            # With `pad`, positions past the end refer to the epoch's first batches again.
            again, index = divmod(place, batches)
            ordinals = order[index * size : (index + 1) * size]
            yield BatchSeeds((epoch, index), before + index, ordinals, padding=again > 0)

    def numbers(self, epoch: int, places: range) -> list[int]:
        """Return the global numbers of the batches at these positions in an epoch, as in `batches_at`."""
        batches, before = self.batches(epoch), self.before(epoch)
        return [before + place % batches for place in places]

    def numbered(self, numbers: Iterable[int]) -> Iterator[BatchSeeds]:
        """Yield the batches with these global numbers."""
        for number in numbers:
            # The epoch is found by binary search, because SUBSET epochs differ in length.
            epoch = bisect_right(range(1, number + 2), number, key=self.before)
            yield from self.batches_at(epoch, [number - self.before(epoch)])

    def _ordinals(self, epoch: int) -> Int64s:
        """Return the epoch's seed order, cached for the epoch."""
        if (kept := self._order) is None or kept[0] != epoch:
            spec = self.spec
            kept = self._order = epoch, epoch_order(self.seeds, spec.seed, epoch, spec.order, spec.subset)
        return kept[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_order": None}


def place_among_workers() -> tuple[int, int]:
    """Return (index, count) of the processes that share a rank's batches, or (0, 1) outside DataLoader workers."""
    worker = get_worker_info()
    return (0, 1) if worker is None else (worker.id, worker.num_workers)


def worker_of(sharing: Sharing) -> dict[str, int] | None:
    """Return the DataLoader worker and its rank as recorded in a stream's state, or None outside a worker."""
    worker = get_worker_info()
    if worker is None:
        return None
    ranks = {"rank": sharing.rank, "world_size": sharing.world_size}
    return {"id": worker.id, "num_workers": worker.num_workers, **ranks}

"""Which batches of an epoch are a rank's, and what ranks do where an epoch does not come out even."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sharing:
    """How the batches of an epoch are shared out among ranks. None of it changes a batch or its number.

    >>> [list(Sharing(rank, 3).share(batches=8, full=7).places) for rank in range(3)]
    [[0, 3, 6], [1, 4, 7], [2, 5]]
    >>> [list(Sharing(rank, 3, drop_last=True).share(batches=8, full=7).places) for rank in range(3)]
    [[0, 3], [1, 4], [2, 5]]
    >>> [list(Sharing(rank, 3, pad=True).share(batches=8, full=7).places) for rank in range(3)]
    [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    """

    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    """Leave out a last batch of fewer seeds than BATCH, and the batches that not every rank would get."""
    pad: bool = False
    """Repeat the epoch's first batches for the ranks that would have one fewer."""

    def __post_init__(self) -> None:
        for name, value in (("rank", self.rank), ("world_size", self.world_size)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} is a whole number, found {value!r}")
        if self.world_size < 1:
            raise ValueError(f"world_size is 1 or more, found {self.world_size}")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank is 0 ≤ rank < world_size = {self.world_size}, found {self.rank}")
        if self.drop_last and self.pad:
            raise ValueError("drop_last leaves batches out and pad adds some: say one of them, found both")

    def words(self, batches: int) -> str:
        """This rank among the others, for a person to read; of an epoch that has so many batches.

        >>> Sharing(2, 3).words(8)
        'rank 2 of 3, which have 2 or 3'
        """
        few, over = divmod(batches, self.world_size)
        uneven = over and not self.drop_last and not self.pad
        return f"rank {self.rank} of {self.world_size}" + (f", which have {few} or {few + 1}" if uneven else "")

    def share(self, batches: int, full: int, start: int = 0) -> Share:
        """What this rank has of an epoch.

        Args:
            batches: how many the epoch has, over all ranks.
            full: how many of them hold as many seeds as BATCH says.
            start: how many were consumed before, over all ranks.
        """
        stop = batches
        if self.drop_last:
            stop = start + max(0, full - start) // self.world_size * self.world_size
        elif self.pad:
            stop = start - (start - batches) // self.world_size * self.world_size
        return Share(range(start + self.rank, stop, self.world_size), batches, start, min(stop, batches))


@dataclass(frozen=True, slots=True)
class Share:
    """A rank's batches of what is left of an epoch."""

    places: range
    """The batches by number; from `batches` on the count begins anew, with the epoch's first."""
    batches: int
    """How many the epoch has, over all ranks."""
    start: int
    """How many were consumed before, over all ranks."""
    stop: int
    """How many will have been consumed in the end."""

    def consumed(self, taken: int) -> int:
        """How many of the epoch's batches are consumed, over all ranks, once each rank has taken so many."""
        return min(self.start + taken * self.places.step, self.stop)

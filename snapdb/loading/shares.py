"""How the batches of an epoch are shared among ranks, and what happens to a remainder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sharing:
    """How the batches of an epoch are shared among ranks; no field changes a batch or its number.

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
    """Repeat the epoch's first batches for ranks that would have one fewer."""

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
        """This rank among the others in words, of an epoch with this number of batches.

        >>> Sharing(2, 3).words(8)
        'rank 2 of 3, which have 2 or 3'
        """
        few, over = divmod(batches, self.world_size)
        uneven = over and not self.drop_last and not self.pad
        return f"rank {self.rank} of {self.world_size}" + (f", which have {few} or {few + 1}" if uneven else "")

    def share(self, batches: int, full: int, start: int = 0) -> Share:
        """This rank's share of an epoch.

        Args:
            batches: The number of batches of the epoch, over all ranks.
            full: The number of those that have BATCH seeds.
            start: The number of batches that were consumed before, over all ranks.
        """
        stop = batches
        if self.drop_last:
            stop = start + max(0, full - start) // self.world_size * self.world_size
        elif self.pad:
            stop = start - (start - batches) // self.world_size * self.world_size
        return Share(range(start + self.rank, stop, self.world_size), batches, start, min(stop, batches))


@dataclass(frozen=True, slots=True)
class Share:
    """A rank's batches of the rest of an epoch."""

    places: range
    """The numbers of the batches; those from `batches` on stand for the epoch's first ones again."""
    batches: int
    """The number of batches of the epoch, over all ranks."""
    start: int
    """The number of batches consumed before, over all ranks."""
    stop: int
    """The number of batches consumed when this share is done."""

    def consumed(self, taken: int) -> int:
        """The number of the epoch's batches that are consumed, over all ranks, once each rank has taken `taken`."""
        return min(self.start + taken * self.places.step, self.stop)

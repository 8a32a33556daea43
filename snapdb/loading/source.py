"""A stream's source, its options, and the division of an epoch's batches among ranks."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from snapdb.attribute_docs import document_attributes
from snapdb.graph.view import GraphView
from snapdb.loading.budgets import CacheSource
from snapdb.sampling import Seeds
from snapdb.storage.catalog_db.locks import Lease
from snapdb.types import ExecutionHints, IdType, Published, SampleSpec

if TYPE_CHECKING:
    from snapdb.loading.batch import Batch


@document_attributes
@dataclass(frozen=True, slots=True)
class Sharing:
    """The division of an epoch's batches among ranks. No field changes a batch or its number.

    Examples:
        >>> [list(Sharing(rank, 3).share(batches=8, full=7).places) for rank in range(3)]
        [[0, 3, 6], [1, 4, 7], [2, 5]]
        >>> [list(Sharing(rank, 3, drop_last=True).share(batches=8, full=7).places) for rank in range(3)]
        [[0, 3], [1, 4], [2, 5]]
        >>> [list(Sharing(rank, 3, pad=True).share(batches=8, full=7).places) for rank in range(3)]
        [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    """

    rank: int = 0
    """The index of this process among the ranks, starting at 0."""
    world_size: int = 1
    """The number of ranks."""
    drop_last: bool = False
    """Whether to omit a last batch with fewer seeds than BATCH, and the batches that not every rank would get."""
    pad: bool = False
    """Whether to repeat the epoch's first batches for ranks that would have one fewer."""

    def __post_init__(self) -> None:
        for name, value in (("rank", self.rank), ("world_size", self.world_size)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} must be an integer, found {value!r}")
        if self.world_size < 1:
            raise ValueError(f"world_size must be 1 or more, found {self.world_size}")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank must be 0 ≤ rank < world_size = {self.world_size}, found {self.rank}")
        if self.drop_last and self.pad:
            raise ValueError("drop_last and pad exclude each other; pass one of them")

    @property
    def neighbours(self) -> int:
        """The number of ranks on this machine. torchrun sets it, otherwise all ranks are assumed to be here."""
        given = os.environ.get("LOCAL_WORLD_SIZE", "")
        return min(self.world_size, int(given)) if given.isdecimal() and int(given) else self.world_size

    def words(self, batches: int) -> str:
        """Return a description of this rank's share of an epoch that has the given number of batches.

        >>> Sharing(2, 3).words(8)
        'rank 2 of 3, which have 2 or 3'
        """
        few, over = divmod(batches, self.world_size)
        uneven = over and not self.drop_last and not self.pad
        return f"rank {self.rank} of {self.world_size}" + (f", which have {few} or {few + 1}" if uneven else "")

    def share(self, batches: int, full: int, start: int = 0) -> Share:
        """Return this rank's share of an epoch.

        Args:
            batches: The number of batches in the epoch, over all ranks.
            full: The number of batches that have BATCH seeds.
            start: The number of batches that all ranks have already consumed.
        """
        stop = batches
        if self.drop_last:
            # Every rank gets the same number of full batches, because DDP deadlocks if one rank has one more.
            stop = start + max(0, full - start) // self.world_size * self.world_size
        elif self.pad:
            stop = start - (start - batches) // self.world_size * self.world_size
        return Share(range(start + self.rank, stop, self.world_size), batches, start, min(stop, batches))


@document_attributes
@dataclass(frozen=True, slots=True)
class Share:
    """A rank's share of the rest of an epoch."""

    places: range
    """The batch numbers. Numbers from `batches` on refer to the epoch's first batches again."""
    batches: int
    """The number of batches of the epoch, over all ranks."""
    start: int
    """The number of batches that all ranks had already consumed."""
    stop: int
    """The number of batches that all ranks have consumed when this share is complete."""

    def consumed(self, taken: int) -> int:
        """Return the number of batches that all ranks have consumed once each of them has taken `taken` batches."""
        return min(self.start + taken * self.places.step, self.stop)


Progress = Callable[[str, float | None], None]
"""Called with a description of the work and the share of completed work, or None if the share is unknown."""

_ALL_BATCHES = Sharing()
_NUMBERS = ("threads", "prefetch", "memory", "max_threads")


@document_attributes
@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream builds and delivers its batches. No option except `ids` changes a batch."""

    threads: int | None = None
    """The number of threads that build batches. None means one per core, or two if a GPU samples. 0 means that the
    iterating thread builds them."""
    prefetch: int | None = None
    """The number of batches that may be complete or in progress at once. None means one more than the number of
    threads."""
    memory: int | None = None
    """The number of bytes for scratch memory and for batches, complete or in progress. None means no limit other than
    those from `threads` and `prefetch`."""
    max_threads: int | None = None
    """The maximum number of threads if `threads` is None. None means the number of cores."""
    ids: IdType | None = None
    """The dtype of node ids in batches. None means the statement's IDS, otherwise int64. This is the only option that
    changes a batch."""
    device: str | None = None
    """The device of the batches' tensors. None means the device in the statement's ON clause, otherwise the CPU."""
    zero_copy: bool = False
    """Whether the GPU reads features that exceed its memory from page-locked host memory."""
    transform: Callable[[Batch], object] | None = None
    """A pure function of a batch. The stream yields its results, or the batches themselves if it is None."""
    progress: Progress | None = None
    """Called with the progress of long-running work before a batch. None means that nothing is reported."""
    sharing: Sharing = _ALL_BATCHES
    """The rank of this process and how ranks share the batches."""
    follow: bool = False
    """Whether each epoch starts with the newest publication of the snapshot."""

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise ValueError(f"{name} must be an integer, found {value!r}")
        if self.threads is not None and self.threads < 0:
            raise ValueError(f"threads must be 0 or more, or None for all cores, found {self.threads}")
        if self.prefetch is not None and self.prefetch < 1:
            raise ValueError(
                f"prefetch must be 1 or more, or None for one more than the threads, found {self.prefetch}"
            )
        if self.memory is not None and self.memory < 1:
            raise ValueError(f"memory must be 1 byte or more, found {self.memory}")
        if self.ids not in (None, "int64", "int32"):
            raise ValueError(f"ids must be 'int64' or 'int32', found {self.ids!r}")
        if self.transform is not None and not callable(self.transform):
            raise TypeError(f"transform must be a function of a batch, found {self.transform!r}")
        if self.follow and self.sharing.world_size > 1:
            raise ValueError(
                f"follow=True supports one process, found {self.sharing.world_size} ranks, "
                "which might read different publications; call stream.renew() in each rank after a barrier, and "
                "compare stream.published.id across the ranks before the epoch"
            )

    def of(self, source: StreamSource) -> StreamOptions:
        """Return these options, with None replaced with the hints' threads and the statement's memory limit and ids."""
        threads = source.hints.threads if self.threads is None else self.threads
        memory = source.spec.memory if self.memory is None else self.memory
        return replace(self, threads=threads, memory=memory, ids=self.ids or source.spec.ids)

    def threads_of(self, processes: int, *, on_gpu: bool = False) -> int:
        """Return the number of threads in each of `processes` processes on this machine."""
        if self.threads is not None:
            return self.threads
        most = cores() if self.max_threads is None else self.max_threads
        # Threads only launch GPU kernels, one at a time, so two threads keep the GPU busy.
        return min(2, most) if on_gpu else max(1, most // processes)

    def ahead(self, threads: int) -> int:
        """Return the number of batches that may be complete or in progress at once."""
        return threads + 1 if self.prefetch is None else self.prefetch


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class StreamSource(NamedTuple):
    """An open snapshot with a seed set. Its files are protected until the lease is released."""

    view: GraphView
    seeds: Seeds
    """The seed set, in canonical order."""
    spec: SampleSpec
    """The bound statement. EVERY AUTO is replaced with a number of batches, also in its text."""
    hints: ExecutionHints = ExecutionHints()
    cache: CacheSource | None = None
    """The sampler's edge caches, or None if the statement names no sampler or the sampler has none."""
    feature_cache: CacheSource | None = None
    """The sampler's feature caches, or None if it has none."""
    lease: Lease | None = None
    """Protects the view's files from removal. None if the view does not belong to a database."""
    published: Published | None = None
    """The publication that the view shows. None if the view does not belong to a database."""
    refresh: Callable[[], StreamSource | None] | None = None
    """Opens the newest publication, or returns None if there is no newer one. The check is cheap."""
    located: Callable[[], AbstractContextManager[None]] = nullcontext
    """A context manager that adds the position in the statement to errors."""

    def release(self) -> None:
        """Release the lease. A second call has no effect."""
        if self.lease is not None:
            self.lease.release()

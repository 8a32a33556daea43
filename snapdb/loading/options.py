"""The options of a stream: how batches are built and delivered, and which of them a rank gets."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from snapdb.loading.shares import Sharing

if TYPE_CHECKING:
    from snapdb.loading.batch import Batch
    from snapdb.loading.source import StreamSource

Progress = Callable[[str, float | None], None]
"""Called with a description of the work, and the share of it that is done; None: unknown."""

_ALL_BATCHES = Sharing()
_NUMBERS = ("threads", "prefetch", "memory", "max_threads")


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream builds and delivers its batches; no option changes a batch."""

    threads: int | None = None
    """Threads that build batches; None: one per core, or two where a GPU samples; 0: the consumer's thread does."""
    prefetch: int | None = None
    """Batches that may be complete or in progress at once; None: twice the number of threads."""
    memory: int | None = None
    """Bytes for scratch and for batches, complete or in progress; None: as many as threads and prefetch take."""
    max_threads: int | None = None
    """Upper bound of `threads` where that is None; None: the number of cores."""
    device: str | None = None
    """Device of the batches' tensors; None: the one of the statement's ON, else the CPU."""
    transform: Callable[[Batch], object] | None = None
    """A pure function of a batch, whose result the stream yields in the batch's place."""
    progress: Progress | None = None
    """Receives the progress of long work before a batch."""
    sharing: Sharing = _ALL_BATCHES
    """The rank's share of the batches."""
    follow: bool = False
    """At the start of each epoch, switch to the newest publication of the snapshot."""

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise ValueError(f"{name} is a whole number, found {value!r}")
        if self.threads is not None and self.threads < 0:
            raise ValueError(f"threads is 0 or more, or None for all cores, found {self.threads}")
        if self.prefetch is not None and self.prefetch < 1:
            raise ValueError(f"prefetch is 1 or more, or None for twice the threads, found {self.prefetch}")
        if self.memory is not None and self.memory < 1:
            raise ValueError(f"memory is 1 byte or more, found {self.memory}")
        if self.transform is not None and not callable(self.transform):
            raise TypeError(f"transform is a function of a batch, found {self.transform!r}")
        if self.follow and self.sharing.world_size > 1:
            raise ValueError(
                f"a stream that follows its snapshot is read by one process, found {self.sharing.world_size} ranks, "
                "which might find different publications; let each rank call stream.renew() after a barrier, and "
                "compare stream.published.id over the ranks before the epoch"
            )

    def of(self, source: StreamSource) -> StreamOptions:
        """These options, with the threads of the hints and the memory of the statement where they are None."""
        threads = source.hints.threads if self.threads is None else self.threads
        return replace(self, threads=threads, memory=source.spec.memory if self.memory is None else self.memory)

    def threads_of(self, processes: int, *, on_gpu: bool = False) -> int:
        """The number of threads of each of `processes` processes on this machine."""
        if self.threads is not None:
            return self.threads
        most = cores() if self.max_threads is None else self.max_threads
        # Threads only launch the kernels of a GPU, one at a time: two keep it busy.
        return min(2, most) if on_gpu else max(1, most // processes)

    def ahead(self, threads: int) -> int:
        """The number of batches that may be complete or in progress at once."""
        return 2 * threads if self.prefetch is None else self.prefetch


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""How batches are to be made: what a stream's caller may ask for."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """How batches are made. None of it changes a batch."""

    threads: int | None
    """None: all cores, or two where a GPU samples; 0: the reader's own."""
    prefetch: int | None = None
    """How many batches may be ready or under way; None: twice the threads."""
    memory: int | None = None
    """Bytes that may be taken; None: as many as threads and prefetch need."""
    most: int | None = None
    """Threads at most, where `threads` does not say how many; None: all cores."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise ValueError(f"{name} is a whole number, found {value!r}")
        if self.threads is not None and self.threads < 0:
            raise ValueError(f"threads is 0 or more, or None for all cores, found {self.threads}")
        if self.prefetch is not None and self.prefetch < 1:
            raise ValueError(f"prefetch is 1 or more, or None for twice the threads, found {self.prefetch}")
        if self.memory is not None and self.memory < 1:
            raise ValueError(f"memory is 1 byte or more, found {self.memory}")

    def threads_of(self, processes: int, *, on_gpu: bool = False) -> int:
        """How many threads one of so many processes on this machine has."""
        if self.threads is not None:
            return self.threads
        most = cores() if self.most is None else self.most
        # Threads only tell a GPU what to do, and take turns at it; two keep it fed.
        return min(2, most) if on_gpu else max(1, most // processes)

    def ahead(self, threads: int) -> int:
        """How many batches may be ready or under way."""
        return 2 * threads if self.prefetch is None else self.prefetch


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

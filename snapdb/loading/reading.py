"""The part of a stream that goes with what it reads: made anew when the stream goes on to another publication."""

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from snapdb.loading.batch import Batch
from snapdb.loading.batch_threads import BatchThreads, Report
from snapdb.loading.epochs import Epochs
from snapdb.loading.lineage import zero_weight
from snapdb.loading.maker import Maker
from snapdb.loading.options import Options
from snapdb.loading.position import identity
from snapdb.loading.shares import Sharing
from snapdb.loading.source import Source


@dataclass(frozen=True, slots=True)
class Asked:
    """What a stream's caller said of how batches are made, whatever they are made from."""

    threads: int | None = None
    prefetch: int | None = None
    memory: int | None = None
    most: int | None = None
    device: str | None = None
    transform: Callable[[Batch], Any] | None = None
    report: Report | None = None

    def options(self, source: Source) -> Options:
        """The numbers that count: those that were said before those of the statement."""
        threads = source.hints.threads if self.threads is None else self.threads
        memory = source.spec.memory if self.memory is None else self.memory
        return Options(threads, self.prefetch, memory, self.most)


class Reading:
    """The threads and the maker of a stream's batches, over one source; iterations keep it until they end."""

    def __init__(self, source: Source, asked: Asked, sharing: Sharing) -> None:
        """Opens the sampler. Where that fails, the caller releases the source.

        Raises:
            ValueError: a number is out of its range.
            InputError: the device is not there, or the memory is not enough.
        """
        view, seeds, spec = source.view, source.seeds, source.spec
        self.source, self.options = source, asked.options(source)
        self.epochs = Epochs(seeds, spec, sharing)
        memory = self.options.memory
        maker = Maker(view, seeds, spec, asked.device, memory, source.hints, asked.transform, source.cache)
        self.threads = BatchThreads(maker, self.epochs, self.options, asked.report)
        self.identity = identity(view, seeds, spec, zero_weight(maker.sampler))
        self._iterations: set[object] = set()
        self._retired = False
        self._release = weakref.finalize(self, _in_process, os.getpid(), source.release)

    @contextmanager
    def iterated(self) -> Iterator[None]:
        """The block reads it: it is not ended before."""
        iteration = object()
        self._iterations.add(iteration)
        try:
            yield
        finally:
            self._iterations.discard(iteration)
            if self._retired and not self._iterations:
                self.end()

    def pause(self) -> None:
        """Leaves scratch and the cache's rows to whoever comes next, unless it is being iterated."""
        if not self._iterations:
            self._rest()

    def retire(self) -> bool:
        """Ends it, or lets the last iteration do so; whether one is under way."""
        self._retired = True
        if not self._iterations:
            self.end()
        return bool(self._iterations)

    def end(self) -> None:
        """Stops the threads and lets go of the files. Batches that were given stay good. Does nothing twice."""
        self.threads.close()
        self._rest()
        self._release()

    def _rest(self) -> None:
        self.threads.maker.cache.close()
        self.threads.maker.rest(0)

    def __getstate__(self) -> dict[str, Any]:
        """For DataLoader workers that are spawned: iterations and the duty to release stay behind."""
        source = self.source
        plain = Source(source.view, source.seeds, source.spec, source.hints, source.cache, source.published)
        left = {"_release", "_iterations"}
        return {**{name: value for name, value in self.__dict__.items() if name not in left}, "source": plain}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._iterations = set()
        self._release = weakref.finalize(self, _in_process, os.getpid(), None)


def _in_process(owner: int, release: Callable[[], None] | None) -> None:
    """Releases in the process that opened the stream; forked workers leave it to their parent."""
    if release is not None and os.getpid() == owner:
        release()

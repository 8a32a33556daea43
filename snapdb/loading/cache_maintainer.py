"""Maintaining a stream's row cache: one thread draws ahead the rows that batches will read."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from snapdb.arrays import UInt8s
from snapdb.kernels.forks import await_compiling
from snapdb.loading.cache_budget import CacheSource, Reservation
from snapdb.loading.epochs import place_among_workers
from snapdb.sampling import NeighborSampler, Seeds
from snapdb.sampling.cache_plan import ALIGNMENT, bytes_wanted, choose_rows, rows_read
from snapdb.sampling.expected_accesses import expected_accesses
from snapdb.sampling.neighbor_pool_cache import CacheReader, RowCache
from snapdb.sampling.rounds import Rounds, next_pass
from snapdb.storage.array_files import temporary_bytes
from snapdb.storage.cache_reports import CacheReport, clear_reports, this_process, write_report
from snapdb.types import CacheStats

_BACK = 128
"""Batches begin side by side, and so a little out of order; one that is this far back begins another epoch."""
_SECONDS = 1.0
"""Between two reports."""


class CacheMaintainer:
    """The cache of a stream in one process. Threads share it."""

    def __init__(
        self, source: CacheSource, sampler: NeighborSampler, node_counts: Mapping[str, int], seeds: Seeds, sharers: int
    ) -> None:
        self._owner = os.getpid()
        self._filler = _Filler(source, source.shelf.lend(source.first, sharers), sampler, node_counts, seeds)
        self._end = weakref.finalize(self, _end, self._filler, self._owner)
        try:
            self._filler.start()
        except RuntimeError as error:  # the system has no thread to give
            self._filler.fail(error)

    @property
    def here(self) -> bool:
        """Whether it is of this process; one that came here by a fork is filled by nobody."""
        return os.getpid() == self._owner

    @property
    def reader(self) -> CacheReader:
        """Where the sampler looks for rows."""
        return self._filler.rows

    def begin(self, batch: int, rounds: Rounds | None = None) -> None:
        """Told when a batch is begun, by any thread; under SCOPE VISITED with the rounds of its rows."""
        self._filler.begin(batch, rounds)

    def stats(self) -> CacheStats:
        """How far the cache is filled, and what it was good for since it was opened."""
        return self._filler.stats()

    def close(self) -> None:
        """Ends the thread, and leaves the rows to the next stream: no batch may be under way. Does nothing twice."""
        self._end()


def open_maintainer(
    source: CacheSource, sampler: NeighborSampler, node_counts: Mapping[str, int], seeds: Seeds, sharers: int = 1
) -> CacheMaintainer | None:
    """What keeps the cache of a sampler in this process; None: it has none, or draws by torch, which reads none.

    Args:
        node_counts: those of the view.
        seeds: the stream's, from which it follows where batches come by.
        sharers: how many processes share the cache's room.
    """
    if not source.caches or sampler.backend.name != "numba":
        return None
    await_compiling()  # DataLoader workers may be forked at any moment
    return CacheMaintainer(source, sampler, node_counts, seeds, sharers)


def _end(filler: _Filler, owner: int) -> None:
    if os.getpid() == owner:
        filler.end()


class _ClosedError(Exception):
    """The stream is closed, and nobody needs what the thread is doing."""


class _Filler(threading.Thread):
    """Makes the cache, and draws what is to be drawn until it is told to end."""

    def __init__(
        self,
        source: CacheSource,
        loan: Reservation,
        sampler: NeighborSampler,
        node_counts: Mapping[str, int],
        seeds: Seeds,
    ) -> None:
        super().__init__(name="snapdb-cache", daemon=True)
        spec, walks = sampler.spec, sampler.backend.host_walks
        self.rows = RowCache(spec, walks)
        self._source, self._loan = source, loan
        self._visits = partial(expected_accesses, spec, walks, seeds, node_counts, self._check)
        self._report_name = f"{loan.cache.id}-{source.shelf.stream()}"
        self._reported: CacheStats | None = None
        self._next_report = 0.0
        self._batch: int | None = None
        self._rounds: Rounds | None = None
        self._due = 0
        self._woken = threading.Event()
        self._ended = False
        self._error: str | None = None

    def begin(self, batch: int, rounds: Rounds | None) -> None:
        now = self._batch
        back = now is not None and batch < now - _BACK
        if now is None or back or batch > now:
            self._rounds, self._batch = rounds, batch
            if back or batch >= self._due:
                self._woken.set()

    def stats(self) -> CacheStats:
        return replace(self.rows.stats(self._batch), error=self._error)

    def end(self) -> None:
        """Once: ends the thread, tells the last of it, and leaves the rows."""
        self._ended = True
        self._woken.set()
        if self.is_alive() and threading.current_thread() is not self:  # garbage may be collected on this very thread
            self.join()
        self._report(last=True)
        self._source.shelf.take_back(self._loan, self.rows)

    def fail(self, error: Exception) -> None:
        """Batches do without what is not there; that is told once, and to whoever looks at the cache."""
        with suppress(Warning):  # where warnings are errors, this thread could only lose it
            warnings.warn(
                f"cache {self._loan.cache.name} is filled no further, and batches are made without: {error}",
                RuntimeWarning,
                stacklevel=1,
            )
        self._error = str(error)
        self._forget()
        self._report()

    def run(self) -> None:
        try:
            self._open()
            while True:
                self._wait()
                self._due = _or_never(next_pass(self.rows.spec.refresh, self._now()))
                self.rows.fill(self._now, lambda: self._rounds, self._check)
        except _ClosedError:
            pass
        except Exception as error:  # whatever it is, batches do not depend on it
            self.fail(error)

    def _open(self) -> None:
        """Finds rows to hold: those of the last stream, where they serve, or those of most worth."""
        shelf, spec, walks = self._source.shelf, self.rows.spec, self.rows.walks
        before, self._loan = self._loan.rows, replace(self._loan, rows=None)
        # SAMPLE USING may ask for other fanouts or edge types.
        serves = before is not None and rows_read(before.spec, before.walks) == rows_read(spec, walks)
        if before is None or not serves or not self.rows.inherit(before):
            if before is not None:
                before, self._loan = None, shelf.renew(self._loan, self._check)  # its bytes are needed
            self.rows.build(choose_rows(spec, walks, self._loan.room, self._visits), self._allocate)
        self._loan = shelf.settle(self._loan, self.rows.bytes, self._check)
        self._forget()

    def _allocate(self, size: int) -> UInt8s:
        cache, db_dir = self._loan.cache, self._source.db_dir
        if cache.place == "FILE":
            folder = Path(tempfile.gettempdir()) if db_dir.read_only else db_dir.path
            return temporary_bytes(folder, size, f"cache {cache.name}", "create a smaller one")
        memory = np.zeros(size + ALIGNMENT, np.uint8)
        first = -memory.ctypes.data % ALIGNMENT
        return memory[first : first + size]

    def _wait(self) -> None:
        """Until rows are to be drawn; tells meanwhile how it goes."""
        self._report()
        while not self._woken.wait(_SECONDS):
            self._report()
        self._woken.clear()
        self._check()

    def _now(self) -> int:
        return self._batch or 0

    def _check(self) -> None:
        """Called now and then by long work, so that it ends with the stream and is told of while it lasts."""
        if self._ended:
            raise _ClosedError
        if time.monotonic() >= self._next_report:
            self._report()

    def _report(self, *, last: bool = False) -> None:
        self._next_report = time.monotonic() + _SECONDS
        stats, db_dir = self.stats(), self._source.db_dir
        if db_dir.read_only or (stats == self._reported and not last):
            return
        cache, generation = self._loan.cache.id, self.rows.spec.generation
        write_report(db_dir, self._report_name, CacheReport(cache, this_process(), not last, generation, stats))
        self._reported = stats

    def _forget(self) -> None:
        """Removes what streams that are gone told of the cache: from now on this one tells."""
        if not self._source.db_dir.read_only:
            clear_reports(self._source.db_dir, self._loan.cache.id)


def _or_never(batch: int | None) -> int:
    return sys.maxsize if batch is None else batch


# A stream's cache, kept in whichever process makes its batches


class CacheHandle:
    """Opens the cache with the first batch that a process makes; DataLoader workers share its room evenly."""

    def __init__(
        self, source: CacheSource | None, sampler: NeighborSampler, node_counts: Mapping[str, int], seeds: Seeds
    ) -> None:
        """`sampler` is one that was just opened, of either back end; None: nothing is kept."""
        self._source, self._sampler, self._node_counts, self._seeds = source, sampler, node_counts, seeds
        self._keeper: CacheMaintainer | None = None
        self._guards = {os.getpid(): threading.Lock()}

    def wanted(self) -> int:
        """The most bytes that the cache may come to take in this process."""
        if self._source is None or not self._source.caches or self._sampler.backend.name != "numba":
            return 0
        _, workers = place_among_workers()
        size, room = bytes_wanted(self._sampler.spec, self._sampler.backend.host_walks), self._source.first.room
        return size if room is None else min(size, room // workers)

    def begin(self, batch: int, rounds: Rounds | None = None) -> None:
        """Told before a batch is sampled, by any thread; under SCOPE VISITED with the rounds of its rows."""
        if self._source is None:
            return
        keeper = self._keeper
        if keeper is None or not keeper.here:
            keeper = self._opened(self._source)
        if keeper is not None:
            keeper.begin(batch, rounds)

    def stats(self) -> dict[str, Any] | None:
        """How far the cache is filled, and what it was good for; None: no batch of this process came by one."""
        keeper = self._keeper
        return None if keeper is None or not keeper.here else asdict(keeper.stats())

    def close(self) -> None:
        """Leaves the rows to the next stream; no batch may be under way."""
        with self._guard():
            keeper, self._keeper = self._keeper, None
            if keeper is not None:
                self._sampler.cache = None
                keeper.close()

    def _opened(self, source: CacheSource) -> CacheMaintainer | None:
        with self._guard():
            if self._keeper is None or not self._keeper.here:
                _, workers = place_among_workers()
                self._keeper = open_maintainer(source, self._sampler, self._node_counts, self._seeds, workers)
                if self._keeper is None:
                    self._source = None  # its sampler reads none
                else:
                    self._sampler.cache = self._keeper.reader
            return self._keeper

    def _guard(self) -> threading.Lock:
        """This process's own: a fork copies a lock as it is, maybe held by a thread that did not come with it."""
        return self._guards.setdefault(os.getpid(), threading.Lock())

"""Maintenance of a stream's row cache: one thread draws rows in advance, before batches read them."""

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
from typing import Any, cast

import numpy as np

from snapdb.arrays import UInt8s
from snapdb.kernels.compiled import await_compiling
from snapdb.loading.budgets import CacheSource, Reservation
from snapdb.loading.epochs import place_among_workers
from snapdb.sampling import NeighborSampler, Seeds
from snapdb.sampling.cache_plan import ALIGNMENT, bytes_wanted, choose_rows, expected_accesses, rows_read
from snapdb.sampling.neighbor_pool_cache import CacheReader, RowCache
from snapdb.sampling.rounds import Rounds, next_pass
from snapdb.storage.array_files import temporary_bytes
from snapdb.storage.cache_reports import CacheReport, CacheReports, this_process
from snapdb.types import CacheStats


class CacheHandle:
    """The handle of a stream's cache in this process.

    The cache is opened with the first batch. DataLoader workers share it.
    """

    def __init__(
        self, source: CacheSource | None, sampler: NeighborSampler, node_counts: Mapping[str, int], seeds: Seeds
    ) -> None:
        """`source` is None if the sampler has no cache."""
        self._source, self._sampler, self._node_counts, self._seeds = source, sampler, node_counts, seeds
        self._maintainer: CacheMaintainer | None = None
        self._guards = {os.getpid(): threading.Lock()}

    def wanted(self) -> int:
        """Return the maximum number of bytes that the cache can use in this process."""
        if self._source is None or not self._source.caches or self._sampler.backend.name != "numba":
            return 0
        _, workers = place_among_workers()
        size, room = bytes_wanted(self._sampler.spec, self._sampler.backend.host_traversals), self._source.first.room
        return size if room is None else min(size, room // workers)

    def begin(self, batch: int, rounds: Rounds | None = None) -> None:
        """Register a batch before it is sampled, from any thread. Under SCOPE VISITED, pass the rounds of its rows."""
        maintainer = self._maintainer
        if self._source is not None and (maintainer is None or not maintainer.here):
            maintainer = self._opened(self._source)
        if maintainer is not None:
            maintainer.begin(batch, rounds)

    def stats(self) -> dict[str, Any] | None:
        """Return the fields of `CacheStats` by name, or None if no batch in this process has used a cache."""
        maintainer = self._maintainer
        return None if maintainer is None or not maintainer.here else asdict(maintainer.stats())

    def close(self) -> None:
        """Leave the rows for the next stream. No batch may be in progress."""
        with self._guard():
            maintainer, self._maintainer = self._maintainer, None
            if maintainer is not None:
                self._sampler.cache = None
                maintainer.close()

    def _opened(self, source: CacheSource) -> CacheMaintainer | None:
        """Open the maintainer in this process, once."""
        with self._guard():
            if self._maintainer is None or not self._maintainer.here:
                _, workers = place_among_workers()
                self._maintainer = _open_maintainer(source, self._sampler, self._node_counts, self._seeds, workers)
                if self._maintainer is None:
                    self._source = None  # a torch sampler does not read a cache, so do not try again
                else:
                    self._sampler.cache = self._maintainer.reader
            return self._maintainer

    def _guard(self) -> threading.Lock:
        """Return the lock of this process.

        A fork copies locks in their current state. They may be held by a thread that is not copied.
        """
        return self._guards.setdefault(os.getpid(), threading.Lock())


_BACK = 128
"""The maximum distance between batches of one epoch, which begin in parallel and therefore slightly out of order. A
batch that is further back belongs to another epoch."""
_SECONDS = 1.0
"""The interval between reports in seconds."""


class CacheMaintainer:
    """A stream's cache in one process, and the thread that fills it. Threads share it."""

    def __init__(
        self, source: CacheSource, sampler: NeighborSampler, node_counts: Mapping[str, int], seeds: Seeds, sharers: int
    ) -> None:
        self._owner = os.getpid()
        self._filler = _Filler(source, source.budget.reserve(source.first, sharers), sampler, node_counts, seeds)
        # The finalizer refers only to the filler, because a reference to the maintainer would keep it alive forever.
        self._end = weakref.finalize(self, _end, self._filler, self._owner)
        try:
            self._filler.start()
        except RuntimeError as error:  # the system cannot start another thread, so batches are built without the cache
            self._filler.fail(error)

    @property
    def here(self) -> bool:
        """Whether the maintainer belongs to this process. A fork does not copy the thread that fills the cache."""
        return os.getpid() == self._owner

    @property
    def reader(self) -> CacheReader:
        """The cache in which the sampler looks up rows."""
        return self._filler.rows

    def begin(self, batch: int, rounds: Rounds | None = None) -> None:
        """Register the start of a batch, from any thread. Under SCOPE VISITED, pass the rounds of its rows."""
        self._filler.begin(batch, rounds)

    def stats(self) -> CacheStats:
        """Return the state of the cache, and its hits and misses since it was opened."""
        return self._filler.stats()

    def close(self) -> None:
        """Stop the thread and leave the rows for the next stream. Idempotent. No batch may be in progress."""
        self._end()


def _open_maintainer(
    source: CacheSource, sampler: NeighborSampler, node_counts: Mapping[str, int], seeds: Seeds, sharers: int = 1
) -> CacheMaintainer | None:
    """Return the maintainer of a sampler's cache in this process, or None without a cache or with torch.

    The torch back end does not read a cache.

    Args:
        source: The sampler's caches.
        sampler: The stream's sampler.
        node_counts: The number of nodes of each vertex type in the view.
        seeds: The stream's seeds, from which the expected accesses are computed.
        sharers: The number of processes that share the cache's memory.
    """
    if not source.caches or sampler.backend.name != "numba":
        return None
    await_compiling()  # from now on, DataLoader workers can be forked at any time
    return CacheMaintainer(source, sampler, node_counts, seeds, sharers)


def _end(filler: _Filler, owner: int) -> None:
    """Stop the filler in the process that started it. A forked process does not have its thread."""
    if os.getpid() == owner:
        filler.end()


class _ClosedError(Exception):
    """Raised to stop the thread's work when the stream is closed."""


class _Filler(threading.Thread):
    """The thread that opens the cache and, until it is stopped, draws the rows that are due."""

    def __init__(
        self,
        source: CacheSource,
        reservation: Reservation,
        sampler: NeighborSampler,
        node_counts: Mapping[str, int],
        seeds: Seeds,
    ) -> None:
        super().__init__(name="snapdb-cache", daemon=True)
        spec, traversals = sampler.spec, sampler.backend.host_traversals
        self.rows = RowCache(spec, traversals)
        self._source, self._reservation = source, reservation
        self._visits = partial(expected_accesses, spec, traversals, seeds, node_counts, self._check)
        self._report_name = f"{reservation.cache.id}-{source.budget.stream()}"
        self._reported: CacheStats | None = None
        self._next_report = 0.0
        self._batch: int | None = None
        self._rounds: Rounds | None = None
        self._due = 0
        self._woken = threading.Event()
        self._ended = False
        self._error: str | None = None

    def begin(self, batch: int, rounds: Rounds | None) -> None:
        """Record the start of a batch, and wake the thread when rows are due."""
        now = self._batch
        back = now is not None and batch < now - _BACK
        # Called for every batch on the sampling threads, so it acquires no lock. A lost update only delays the thread
        # by one batch.
        if now is None or back or batch > now:
            self._rounds, self._batch = rounds, batch
            if back or batch >= self._due:
                self._woken.set()

    def stats(self) -> CacheStats:
        """Return the state of the cache, including the error that stopped filling it."""
        return replace(self.rows.stats(self._batch), error=self._error)

    def end(self) -> None:
        """Stop the thread, write the last report, and leave the rows for the next stream. Call it only once."""
        self._ended = True
        self._woken.set()
        # The garbage collector can run this on the thread itself.
        if self.is_alive() and threading.current_thread() is not self:
            self.join()
        self._report(last=True)
        self._source.budget.give_back(self._reservation, self.rows)

    def fail(self, error: Exception) -> None:
        """Stop filling, so that batches draw missing rows. Warns once, and reports the error in the cache's state."""
        with suppress(Warning):  # if warnings are errors, this thread could not report it
            warnings.warn(
                f"cache {self._reservation.cache.name} is disabled, and batches are built without it: {error}",
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
            return
        except Exception as error:  # batches do not need the cache, so its errors must not stop them
            self.fail(error)

    def _open(self) -> None:
        """Inherit the last stream's rows if they are valid, otherwise choose the rows that save the most reads."""
        budget, spec, traversals = self._source.budget, self.rows.spec, self.rows.traversals
        before = cast("RowCache | None", self._reservation.rows)  # streams of this cache left them
        self._reservation = replace(self._reservation, rows=None)
        # SAMPLE USING can override the sampler's fanouts or edge types.
        serves = before is not None and rows_read(before.spec, before.traversals) == rows_read(spec, traversals)
        if before is None or not serves or not self.rows.inherit(before):
            if before is not None:
                # Return the bytes of the old rows first, so that the new rows fit in the same memory.
                before, self._reservation = None, budget.renew(self._reservation, self._check)
            self.rows.build(choose_rows(spec, traversals, self._reservation.room, self._visits), self._allocate)
        self._reservation = budget.settle(self._reservation, self.rows.bytes, self._check)
        self._forget()

    def _allocate(self, size: int) -> UInt8s:
        """Return zeroed memory for rows, aligned to a cache line. For a cache in a file, it is in an unnamed file."""
        cache, db_dir = self._reservation.cache, self._source.db_dir
        if cache.place == "FILE":
            folder = Path(tempfile.gettempdir()) if db_dir.read_only else db_dir.path
            return temporary_bytes(folder, size, f"cache {cache.name}", "create a smaller one")
        memory = np.zeros(size + ALIGNMENT, np.uint8)
        first = -memory.ctypes.data % ALIGNMENT
        return memory[first : first + size]

    def _wait(self) -> None:
        """Wait until rows are due, and write reports in the meantime."""
        self._report()
        while not self._woken.wait(_SECONDS):
            self._report()
        self._woken.clear()
        self._check()

    def _now(self) -> int:
        return self._batch or 0

    def _check(self) -> None:
        """Stop long-running work when the stream is closed, and report its progress. The work calls this regularly."""
        if self._ended:
            raise _ClosedError
        if time.monotonic() >= self._next_report:
            self._report()

    def _report(self, *, last: bool = False) -> None:
        """Write a report unless nothing has changed since the last one."""
        self._next_report = time.monotonic() + _SECONDS
        stats, db_dir = self.stats(), self._source.db_dir
        if db_dir.read_only or (stats == self._reported and not last):
            return
        cache, generation = self._reservation.cache.id, self.rows.spec.generation
        CacheReports(db_dir).write(self._report_name, CacheReport(cache, this_process(), not last, generation, stats))
        self._reported = stats

    def _forget(self) -> None:
        """Remove the reports of closed streams, because this stream now writes reports."""
        if not self._source.db_dir.read_only:
            CacheReports(self._source.db_dir).clear(self._reservation.cache.id)


def _or_never(batch: int | None) -> int:
    return sys.maxsize if batch is None else batch

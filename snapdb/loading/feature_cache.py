"""A stream's cache for features that do not fit in memory. It keeps the most frequently read rows in memory.

A batch's remaining rows are sorted and read directly from the files with many requests at once, or from packs. The
page cache, in contrast, keeps whole pages, of which batches need only a few rows, and reads them one fault at a time.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from snapdb.arrays import Array, Float64s, Int64s
from snapdb.errors import DatabaseError, InputError
from snapdb.graph.features import RowReader, TimedReader
from snapdb.graph.view import Feature, GraphView
from snapdb.kernels.compiled import await_compiling
from snapdb.loading.budgets import CacheSource
from snapdb.loading.epochs import place_among_workers
from snapdb.loading.feature_cache_plan import FixedParts, cached_features, choose_rows, region_bytes, room_bytes
from snapdb.loading.feature_packs import Coming, FeaturePacks, PackSizes
from snapdb.loading.feature_rows import Chunks, Counts, FeatureKey, FeatureRows, KeptRows, Staging, Sweep
from snapdb.sampling import NeighborSampler, Seeds
from snapdb.sampling.cache_plan import expected_visits
from snapdb.storage.cache_reports import CacheReport, CacheReports, this_process
from snapdb.storage.row_file import ScratchFile
from snapdb.types import Cache, CachedFeatures, CacheStats, FeatureCacheStats, SampleSpec
from snapdb.types.text import size_words

_SECONDS = 1.0
"""The minimum interval between reports, in seconds."""
_SEED_CHANGE = 0.1
"""The relative change of the number of seeds up to which a stream inherits the rows of the previous one."""
_MOST_ROWS = 1 << 31
"""The maximum number of rows of a feature that can be packed. Packs list rows as int32."""


class FeatureCacheHandle:
    """The handle of a stream's feature cache. Each process opens its own cache with its first batch."""

    def __init__(
        self,
        source: CacheSource | None,
        view: GraphView,
        sampler: NeighborSampler,
        seeds: Seeds,
        threads: int,
        ranks: int,
        *,
        scarce: bool,
    ) -> None:
        """Check that the cache is large enough.

        Args:
            source: The sampler's feature caches, or None if it has none.
            view: The snapshot.
            sampler: The stream's sampler.
            seeds: The stream's seeds, from which the expected visits are computed.
            threads: The number of threads that build batches in one process.
            ranks: The number of ranks that share this machine.
            scarce: Whether the features do not fit in memory.

        Raises:
            InputError: This stream's share of the cache is too small.
        """
        used = source is not None and (scarce or _always(source.first))
        self.features = cached_features(view, sampler) if used else {}
        """The features that are read through the cache."""
        self._source = source if self.features else None
        self._sampler, self._seeds = sampler, seeds
        self._threads, self._ranks = max(1, threads), ranks
        self._opened: FeatureCache | None = None
        self._process = os.getpid()
        self._guards = {os.getpid(): threading.Lock()}
        self._view = view
        self._coming: Coming | None = None
        if self._source is not None:
            self._room(self._source.first, ranks)

    @property
    def is_used(self) -> bool:
        """Whether batches read features through a cache."""
        return self._source is not None

    def expect(self, coming: Coming | None) -> None:
        """Prepare the features of an iteration's batches instead of the previous one's. None prepares nothing."""
        self._coming = coming
        if self._opened is not None and self._process == os.getpid():
            self._opened.expect(coming)

    @contextmanager
    def reading(self, number: int) -> Iterator[GraphView]:
        """Yield a view of the snapshot for one batch, whose features are read through the cache and from packs."""
        if self._source is None:
            yield self._view
            return
        cache = self._cache()
        chunks = cache.chunks_of(number)
        through: dict[str, dict[str, Feature]] = {kind: dict(named) for kind, named in self._view.node_features.items()}
        for key, feature in self.features.items():
            reader = _CachedHistory if isinstance(feature, TimedReader) else _CachedFeature
            kind, name = key
            through[kind][name] = reader(cache, key, feature, chunks.get(key))
        try:
            yield replace(self._view, node_features=through)
        finally:
            cache.done(number)

    def stats(self) -> dict[str, Any] | None:
        """Return the fields of `FeatureCacheStats` by name, or None if no batch in this process has used the cache."""
        cache = self._opened
        return None if cache is None or self._process != os.getpid() else asdict(cache.stats())

    def stop(self) -> None:
        """Make batches that wait for a pack fail, because the stream is closed."""
        if self._opened is not None and self._process == os.getpid():
            self._opened.stop()

    def close(self) -> None:
        """Stop filling, and free the rows. No batch may be in progress."""
        with self._guard():
            cache, self._opened = self._opened, None
            if cache is not None:
                _close(cache, self._process)

    def _cache(self) -> FeatureCache:
        """Return the cache of this process, and open it with the first call. A forked process opens its own."""
        if self._opened is not None and self._process == os.getpid():
            return self._opened
        with self._guard():
            if self._opened is None or self._process != os.getpid():
                assert self._source is not None
                _, workers = place_among_workers()
                sharers = self._ranks * workers
                room = self._room(self._source.first, sharers)
                await_compiling()  # DataLoader workers can be forked at any time from here on
                traversals = self._sampler.backend.host_traversals
                visits = partial(expected_visits, self._sampler.spec, traversals, self._seeds, self._view.node_counts)
                use = _Use(self._sampler.spec, self._seeds.ids.size)
                self._opened = FeatureCache(self._source, sharers, room, self.features, visits, self._threads, use)
                # The cache's thread refers to the cache, not to this handle, so it ends if the stream is dropped.
                weakref.finalize(self, _close, self._opened, os.getpid())
                self._opened.expect(self._coming)
                self._opened.start()
                self._process = os.getpid()
            return self._opened

    def _room(self, cache: Cache, sharers: int) -> int:
        """Return the bytes of memory that the cache may use in one process.

        Raises:
            InputError: The share of this process is too small.
        """
        room = room_bytes(cache)
        packs = cache.features is not None and cache.features.spill is not None
        least = FixedParts.of(self.features, self._threads, 0, packs=packs).total
        if cache.room is None:
            return max(room // sharers, least)
        if room // sharers < least:
            shared = "" if sharers == 1 else f", shared by {sharers} processes"
            raise InputError(
                f"cache {cache.name} has {size_words(room)}{shared}, but this stream needs at least "
                f"{size_words(least)} for the buffers of {self._threads} threads and the bitmaps of its features; "
                "run CREATE OR REPLACE CACHE with a larger IN MEMORY size, or use fewer threads or workers",
                code="memory",
            )
        return room // sharers

    def _guard(self) -> threading.Lock:
        """Return the lock of this process. A fork copies a lock's state, but not the thread that holds the lock."""
        return self._guards.setdefault(os.getpid(), threading.Lock())


@dataclass(frozen=True)
class _CachedFeature:
    """A feature that one batch reads through a cache."""

    cache: FeatureCache
    key: FeatureKey
    feature: RowReader
    chunks: Chunks | None
    """The location of the batch's rows in a pack, or None."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.feature.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.feature.dtype

    def read(self, ids: Array) -> Array:
        """Return the rows of these ids as a new array."""
        return self.feature.decode(self.cache.read(self.key, self.feature.find(ids), self.chunks))


class _CachedHistory(_CachedFeature):
    """A feature with a history that one batch reads through a cache."""

    def read_before(self, ids: Array, before: Int64s) -> Array:
        """Return the last value of each id before its time, as a new array."""
        return self.feature.decode(self.cache.read(self.key, self.feature.find(ids, before), self.chunks))


class _ClosedError(Exception):
    """Raised to stop filling the cache when the stream is closed."""


class _Use(NamedTuple):
    """What determines which rows are read most frequently."""

    spec: SampleSpec
    seeds: int
    """The number of seeds."""

    def resembles(self, other: _Use) -> bool:
        """Return whether the same rows are worth keeping: the sampler is the same, and most seeds probably are."""
        return self.spec == other.spec and abs(self.seeds - other.seeds) <= _SEED_CHANGE * self.seeds


class _LeftRows(NamedTuple):
    """The rows of a closed cache, for the next stream of the same sampler."""

    use: _Use
    tables: dict[FeatureKey, KeptRows]

    @property
    def bytes(self) -> int:
        """The bytes of the rows and of the bitmaps that locate them."""
        return sum(
            rows.memory.nbytes + rows.kept.words.nbytes + rows.kept.ranks.nbytes for rows in self.tables.values()
        )


class FeatureCache:
    """The feature cache of one stream in one process, and the thread that fills it."""

    def __init__(
        self,
        source: CacheSource,
        sharers: int,
        room: int,
        features: Mapping[FeatureKey, RowReader],
        visits: Callable[[Callable[[], None]], Mapping[str, Float64s]],
        threads: int,
        use: _Use,
    ) -> None:
        """Open the files. `start` begins to fill the cache."""
        self._source, self._visits, self._threads, self._use = source, visits, threads, use
        cache = source.first
        assert cache.features is not None
        reservation = source.budget.reserve(cache, sharers)
        left, self._reservation = reservation.rows, replace(reservation, rows=None)
        self._left = left if isinstance(left, _LeftRows) and left.use.resembles(use) else None
        # Without IN MEMORY, the budget sets no limit. Another open stream may have reserved part of the cache.
        self._room = room if self._reservation.room is None else min(room, self._reservation.room)
        self._fixed = FixedParts.of(features, threads, self._room, packs=cache.features.spill is not None)
        staging = Staging(self._fixed.stage)
        self._tables = {key: FeatureRows(feature, staging) for key, feature in features.items()}
        self._counting = threading.Lock()
        self._stats = FeatureCacheStats()
        self._reporter = _Reporter(source)
        self._ended = self._closed = False
        self._release = weakref.finalize(self, source.budget.release, self._reservation)
        self._thread = threading.Thread(target=self._fill, name="snapdb-features", daemon=True)
        self._packs = self._open_packs(cache.features, sharers)

    def start(self) -> None:
        """Start the thread that fills the cache."""
        try:
            self._thread.start()
        except RuntimeError as error:  # the system cannot start another thread, so batches read all rows directly
            self._fail(error)

    def expect(self, coming: Coming | None) -> None:
        """Pack the batches of an iteration, if the cache has packs."""
        if self._packs is not None:
            self._packs.expect(coming)

    def chunks_of(self, number: int) -> Mapping[FeatureKey, Chunks]:
        """Return the location of a batch's rows in packs. After reading them, call `done`."""
        return {} if self._packs is None else self._packs.chunks_of(number)

    def done(self, number: int) -> None:
        """Record that a batch has been read."""
        if self._packs is not None:
            self._packs.done(number)
        if self._reporter.is_due:
            self._reporter.report(self.stats())

    def read(self, key: FeatureKey, rows: Int64s, chunks: Chunks | None) -> Array:
        """Return rows of a feature as a new array, read from memory, from a pack or from the feature's files."""
        out, counts = self._tables[key].read(rows, chunks)
        self._count(key, counts)
        return out

    def stats(self) -> FeatureCacheStats:
        """Return the state of the cache, and how it was used since it was opened."""
        files = [file.file for table in self._tables.values() for file in table.files]
        packs, fixed = self._packs, self._fixed
        of_packs: dict[str, Any] = {}
        if packs is not None:
            files.append(packs.file)
            of_packs = {
                "bytes_written": packs.file.written,
                "segments": packs.segments,
                "batches": packs.batches,
                "packed": packs.ready,
                "direct": packs.direct,
                "waited": packs.waited,
            }
        with self._counting:
            return replace(
                self._stats,
                bytes=fixed.total - fixed.marks + sum(table.bytes for table in self._tables.values()),
                filled=sum(table.filled_rows for table in self._tables.values()),
                requests=sum(file.requests for file in files),
                bytes_read=sum(file.bytes for file in files),
                seconds=self._stats.seconds + (packs.seconds if packs is not None else 0.0),
                **of_packs,
            )

    def stop(self) -> None:
        """Make threads that wait for packs fail, because the stream is closed."""
        self._ended = True
        if self._packs is not None:
            self._packs.wake()

    def close(self) -> None:
        """Stop the thread, free the rows and write the last report. Further calls have no effect."""
        if self._closed:
            return
        self._closed = True
        self.stop()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()
        self._reporter.report(self.stats(), last=True)
        # A stream that has not started to fill passes on what it could have inherited.
        if any(table.filled_rows for table in self._tables.values()):
            self._left = _LeftRows(self._use, {key: table.leave() for key, table in self._tables.items()})
        for table in self._tables.values():
            table.close()
        if self._packs is not None:
            self._packs.file.close()
        if self._left is not None and self._release.detach():
            self._source.budget.give_back(self._reservation, self._left)
        self._release()

    def _count(self, key: FeatureKey, counts: Counts) -> None:
        width = self._tables[key].width
        with self._counting:
            now = self._stats
            self._stats = replace(
                now,
                hits=now.hits + counts.hits,
                misses=now.misses + counts.misses,
                bytes_useful=now.bytes_useful + counts.misses * width,
                bytes_saved=now.bytes_saved + counts.hits * width,
            )

    def _open_packs(self, features: CachedFeatures, sharers: int) -> FeaturePacks | None:
        """Create the scratch file for packs. Returns None without SPILL or if packs are not possible."""
        if features.spill is None or any(table.rows > _MOST_ROWS for table in self._tables.values()):
            return None
        db_dir = self._source.db_dir
        folder = Path(tempfile.gettempdir()) if db_dir.read_only else db_dir.path
        region = region_bytes(features, folder, sharers)
        fixed = self._fixed
        try:
            file = ScratchFile(folder, 2 * region, f"packs of cache {self._source.first.name}")
        except DatabaseError as error:
            self._fail(error)
            return None
        sizes = PackSizes(region, fixed.lists, fixed.out, fixed.slab)
        return FeaturePacks(self._tables, file, sizes, self._check, self._warn)

    def _fill(self) -> None:
        """Choose the rows to keep, read them, and then pack batches. Runs on its own thread."""
        began = time.perf_counter()
        try:
            rows = self._inherited() or self._chosen()
            with self._counting:
                self._stats = replace(self._stats, rows=rows)
            packs = self._packs
            if packs is None or packs.is_idle:
                self._fill_tables()
            with self._counting:
                self._stats = replace(self._stats, seconds=time.perf_counter() - began)
            self._reporter.report(self.stats())
            if packs is not None:
                packs.run(self._threads + 1)
                self._fill_tables()  # packs do not pay off, so batches read directly
        except _ClosedError:
            return
        except Exception as error:  # batches can read all rows without the cache
            self._fail(error)

    def _inherited(self) -> int:
        """Keep the rows that the previous stream left and that have not changed since. Returns their number.

        After an incremental refresh, most of them are rows of the same files. If the files are new, or if the rows do
        not fit in this stream's share of memory, the caller chooses rows again.
        """
        left, self._left = self._left, None
        if left is None or left.tables.keys() != self._tables.keys():
            return 0
        pairs = [(table, left.tables[key]) for key, table in self._tables.items()]
        size = self._fixed.total - self._fixed.marks + sum(table.bytes_with(rows) for table, rows in pairs)
        if size > self._room or not all(table.shared(rows) for table, rows in pairs):
            return 0
        return sum(table.inherit(rows) for table, rows in pairs)

    def _chosen(self) -> int:
        """Choose the rows to keep, and return their number."""
        chosen = choose_rows(self._tables, self._visits(self._check), self._room - self._fixed.total)
        for key, rows in chosen.items():
            self._tables[key].keep(rows)
        return sum(rows.size for rows in chosen.values())

    def _fill_tables(self) -> None:
        """Load the rows to keep that are not in memory yet."""
        sweep = Sweep(self._fixed.slab, self._check)
        try:
            for table in self._tables.values():
                if not table.is_filled:
                    table.fill(sweep)
        finally:
            sweep.close()

    def _check(self) -> None:
        if self._ended:
            raise _ClosedError

    def _fail(self, error: Exception) -> None:
        """Warn that batches read missing rows directly, and record the error in the cache's statistics."""
        self._warn(f"batches read rows that are not in memory directly from the files: {error}")
        with self._counting:
            self._stats = replace(self._stats, error=str(error))

    def _warn(self, problem: str) -> None:
        """Warn about a problem that slows down batches."""
        with suppress(Warning):  # if warnings are errors, nothing could handle the exception in this thread
            warnings.warn(f"cache {self._source.first.name}: {problem}", RuntimeWarning, stacklevel=1)


class _Reporter:
    """Writes the state of a stream's cache for SHOW CACHES, at most once a second."""

    def __init__(self, source: CacheSource) -> None:
        self._source, self._cache = source, source.first
        self._name = f"{self._cache.id}-{source.budget.stream()}"
        self._next = 0.0
        if not source.db_dir.read_only:
            CacheReports(source.db_dir).clear(self._cache.id)

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def report(self, stats: FeatureCacheStats, *, last: bool = False) -> None:
        """Write a report, unless the database is read-only."""
        self._next = time.monotonic() + _SECONDS
        if self._source.db_dir.read_only:
            return
        common = {name: getattr(stats, name) for name in _COMMON}
        report = CacheReport(self._cache.id, this_process(), not last, 0, CacheStats(**common))
        CacheReports(self._source.db_dir).write(self._name, report)


_COMMON = ("bytes", "rows", "filled", "hits", "misses", "bytes_read", "bytes_saved", "seconds", "error")
"""The fields that `FeatureCacheStats` shares with `CacheStats`."""


def _close(cache: FeatureCache, process: int) -> None:
    """Close a cache, but only in the process that opened it. A forked process does not have its thread."""
    if os.getpid() == process:
        cache.close()


def _always(cache: Cache) -> bool:
    return cache.features is not None and cache.features.always

"""The neighbor pool cache: rows in memory or in a file, which samplers look up while another thread fills them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from snapdb.arrays import Int64s, UInt8s
from snapdb.kernels.draw.scores import PRIORITY
from snapdb.kernels.neighbor_pool import cache as filling
from snapdb.kernels.neighbor_pool.cache import CachedRows, NeighborPool, RowCopies
from snapdb.kernels.neighbor_pool.rows import PoolRule, RowKeys
from snapdb.kernels.rng import EVERY_HOP, fold_each
from snapdb.sampling.cache_plan import Choice
from snapdb.sampling.held_rows import HeldRows, Span, hold
from snapdb.sampling.rounds import Rounds, RowTable, ahead, begun, row_keys
from snapdb.sampling.scratch import Draft
from snapdb.sampling.traversals import Traversal, damaged
from snapdb.types import CacheStats, Relation, SampleSpec

NO_RECORDS = CachedRows(np.empty(0, np.int32), np.empty((0, 0), np.int32), np.empty((0, 2)))
"""The records of a cache without drawn rows."""

_ZERO = np.uint64(0)
NO_KEYS = RowKeys(_ZERO, _ZERO, _ZERO, _ZERO, 0, _ZERO, _ZERO, _ZERO, np.empty(0, np.int32))
"""The keys of a sampler without pool rows."""


@cache
def no_copies(kind: np.dtype[Any]) -> RowCopies:
    """Return a placeholder for the whole rows of a cache that has none, with neighbours of this dtype."""
    return RowCopies(np.empty(0, np.int32), np.empty((0, 2), np.int64), np.empty(0, kind))


class CacheReader(Protocol):
    """Cached rows as seen by sampling threads, while another thread may be filling them."""

    def rows(self, relation: Relation, slot: int, size: int) -> CachedRows | None:
        """Return the drawn rows of one table of `row_tables`, or None."""

    def copies(self, relation: Relation) -> RowCopies | None:
        """Return the whole rows of a relation's adjacency, or None."""

    def count(self, counts: Int64s) -> None:
        """Add a batch's counts, from any thread: cache hits, cache misses, cached edges, uncached edges."""


class _Filled(NamedTuple):
    """The work done to fill rows."""

    rows: int
    """The number of drawn rows. All other rows were already in the requested round."""
    edges: int
    """The number of edges read from the adjacency: those of the drawn rows or, under PRIORITY, all edges of their
    nodes."""


def fill_rows(
    table: RowTable, keys: RowKeys, nodes: Int64s, low: int, high: int, cached: CachedRows, draft: Draft
) -> _Filled:
    """Redraw the records low ≤ i < high that are not in the round of `keys`.

    Record i belongs to nodes[i]. Batches may read at the same time, but only one thread may fill a table. `draft` is
    the working memory of that thread, initially `Draft()`.

    Raises:
        CorruptError: A row extends beyond its arrays.
    """
    rows, edges, traversal, size = 0, 0, table.traversal, table.size
    rule = PoolRule(traversal.method, size, size, size, table.above, table.few, traversal.skips_zeros, _ZERO, _ZERO)
    pool = NeighborPool(keys, rule, cached, no_copies(traversal.arrays.rows.indices.dtype))
    scored = traversal.arrays if traversal.method == PRIORITY else None
    while low < high:
        low, drawn, read, longest = filling.fill_rows(
            traversal.arrays.rows, scored, pool, nodes, low, high, draft.arrays
        )
        if low < 0:
            raise damaged(traversal.relation)
        rows, edges = rows + int(drawn), edges + int(read)
        draft.reserve(0, int(longest))
    return _Filled(rows, edges)


def fill_copies(traversal: Traversal, nodes: Int64s, starts: Int64s, low: int, high: int, copies: RowCopies) -> int:
    """Copy the rows low ≤ i < high to their starts and return the number of edges.

    Row i belongs to nodes[i], and has the length that `lengths_of` returns. Batches may read at the same time.

    Raises:
        CorruptError: A row extends beyond its arrays, or does not fit.
    """
    edges = filling.fill_copies(traversal.arrays.rows, nodes, starts, low, high, copies)
    if edges < 0:
        raise damaged(traversal.relation)
    return int(edges)


_ROWS = 1 << 12
"""The number of rows drawn between two checks for interruption."""
_EDGES = 1 << 18
"""The number of edges of whole rows copied between two checks for interruption."""
_LOOKED_AT = 2048
"""The number of rows sampled per table to estimate the mean age."""


class RowCache:
    """The cache of one sampler's rows. It is empty until `build` or `inherit` is called."""

    def __init__(self, spec: SampleSpec, traversals: Sequence[Traversal]) -> None:
        self.spec, self.traversals = spec, tuple(traversals)
        self.bytes = 0
        self._held: tuple[HeldRows, ...] = ()
        self._rows: dict[tuple[Relation, int, int], CachedRows] = {}
        self._copies: dict[Relation, RowCopies] = {}
        self._draft = Draft()
        self._guard = threading.RLock()
        self._counts = np.zeros(4, np.int64)
        self._passes = self._drawn = self._read = 0
        self._seconds = 0.0

    def rows(self, relation: Relation, slot: int, size: int) -> CachedRows | None:
        return self._rows.get((relation, slot, size))

    def copies(self, relation: Relation) -> RowCopies | None:
        return self._copies.get(relation)

    def count(self, counts: Int64s) -> None:
        with self._guard:
            self._counts += counts

    def build(self, choices: Iterable[Choice], allocate: Callable[[int], UInt8s]) -> None:
        """Allocate memory for these rows, which `fill` then draws."""
        self._hold(hold(choices, allocate))

    def inherit(self, before: RowCache) -> bool:
        """Take over the rows of another cache, except the rows that differ here. No thread may be reading that cache.

        Returns False if none or too few of its rows are valid for this sampler. `before` must not be used afterwards.

        Raises:
            CorruptError: A row extends beyond its arrays.
        """
        traversals = {traversal.relation: traversal for traversal in self.traversals}
        held = []
        if _keyed(self.spec) != _keyed(before.spec):
            return False
        for rows in before._held:
            traversal = traversals.get(rows.traversal.relation)
            kept = None if traversal is None else rows.moved(traversal, self.spec)
            if kept is None:
                return False
            held.append(kept)
        self._hold(tuple(held))
        return bool(held)

    def of_generation(self, generation: int) -> RowCache:
        """Return a cache in the same memory, for drawn rows of another generation. This cache is empty afterwards.

        No thread may be reading it.
        """
        other = RowCache(replace(self.spec, generation=generation), self.traversals)
        for rows in self._held:
            if rows.table is not None:
                rows.tags[:] = 0
                rows.filled = rows.edges = 0
        other._hold(self._held)
        self._hold(())
        return other

    def fill(self, now: Callable[[], int], rounds: Callable[[], Rounds | None], check: Callable[[], None]) -> None:
        """Draw the rows that are not in the round of batch `now()`, in node order, and copy whole rows.

        Only one thread may call this method, while other threads read. `check` is called between steps, and an
        exception that it raises aborts the pass.

        Raises:
            CorruptError: A row extends beyond its arrays.
        """
        started = time.perf_counter()
        try:
            for rows in self._held:
                if rows.table is None:
                    self._copy(rows, check)
                else:
                    self._draw(rows, rows.table, now, rounds, check)
            self._passes += 1
        finally:
            self._seconds += time.perf_counter() - started

    def _draw(
        self,
        rows: HeldRows,
        table: RowTable,
        now: Callable[[], int],
        rounds: Callable[[], Rounds | None],
        check: Callable[[], None],
    ) -> None:
        """Redraw the stale records of one table, step by step."""
        refresh = self.spec.refresh
        assert refresh is not None
        # The pass reads most pages of the files in order, so readahead helps, unlike for random access.
        if not refresh.visited or rows.filled == 0:
            table = table._replace(traversal=table.traversal.for_one_pass())
        for low, high in _steps(rows.spans, _ROWS):
            check()
            keys = self._keys(table, ahead(refresh, now()), rounds())
            before = int(np.count_nonzero(rows.tags[low:high]))
            done = fill_rows(table, keys, rows.nodes, low, high, rows.drawn, self._draft)
            rows.filled += high - low - before
            rows.edges = rows.filled * table.size
            self._drawn += done.rows
            self._read += done.edges * table.traversal.arrays.rows.indices.itemsize

    def _copy(self, rows: HeldRows, check: Callable[[], None]) -> None:
        """Copy the whole rows that are still missing."""
        traversal, spans = rows.traversal.for_one_pass() if rows.spans else rows.traversal, rows.spans
        for low, high in _steps(spans, max(1, _EDGES * rows.nodes.size // max(1, rows.rows.size))):
            check()
            read = fill_copies(traversal, rows.nodes, rows.starts, low, high, rows.whole)
            # Record progress after each step, so that an interrupted pass can resume where it stopped.
            rows.spans = tuple((max(high, first), last) for first, last in spans if last > high)
            rows.filled += high - low
            rows.edges += read
            self._read += read * rows.rows.itemsize

    def stats(self, batch: int | None) -> CacheStats:
        """Return the cache's size, fill level and usage so far, as of a batch."""
        with self._guard:
            hits, misses, kept, read = self._counts.tolist()
        item = max((traversal.arrays.rows.indices.itemsize for traversal in self.traversals), default=0)
        return CacheStats(
            bytes=self.bytes,
            rows=sum(rows.nodes.size for rows in self._held),
            filled=sum(rows.filled for rows in self._held),
            edges=sum(rows.edges for rows in self._held),
            hits=hits,
            misses=misses,
            bytes_read=read * item + self._read,
            bytes_filled=self._read,
            bytes_saved=kept * item,
            refills=self._passes,
            drawn=self._drawn,
            seconds=self._seconds,
            age=None if batch is None else self._age(batch),
            batch=batch,
        )

    def _age(self, batch: int) -> float | None:
        """Return the mean number of batches since drawn rows were last redrawn, estimated from a sample of the rows."""
        total = many = 0.0
        for rows in self._held:
            if rows.table is None or not rows.filled:
                continue
            some = slice(None, None, -(-rows.nodes.size // _LOOKED_AT))
            tags, nodes = rows.tags[some].astype(np.int64), rows.nodes[some]
            there = (tags > 0) & (rows.places[nodes] >= 0)
            total += rows.filled * self._mean_age(rows.table, nodes[there], tags[there] - 1, batch)
            many += rows.filled
        return total / many if many else None

    def _mean_age(self, table: RowTable, nodes: Int64s, rounds: Int64s, batch: int) -> float:
        """Return the mean age of a sample of a table's rows, computed from their rounds."""
        refresh = self.spec.refresh
        assert refresh is not None
        phase = self._keys(table, 0).phase
        since = begun(refresh, rounds, fold_each(phase, nodes) >> np.uint64(32))
        return float(np.maximum(batch - since, 0.0).mean()) if since.size else 0.0

    def _keys(self, table: RowTable, batch: int, rounds: Rounds | None = None) -> RowKeys:
        """Return the keys of a table's rows in a batch."""
        hop = 0 if table.slot == EVERY_HOP else table.slot
        return row_keys(self.spec, table.traversal.relation, hop, batch, rounds)

    def _hold(self, held: tuple[HeldRows, ...]) -> None:
        """Replace the arrays, and the lookup tables of their views."""
        self._held = held
        self.bytes = sum(rows.bytes for rows in held)
        self._copies = {rows.traversal.relation: rows.whole for rows in held if rows.table is None}
        tables = [(rows.table, rows.drawn) for rows in held if rows.table is not None]
        self._rows = {(table.traversal.relation, table.slot, table.size): drawn for table, drawn in tables}


def _keyed(spec: SampleSpec) -> tuple[object, ...]:
    """Return everything that drawn rows depend on except the snapshot. Empty if all rows are whole."""
    if spec.refresh is None:
        return ()
    return spec.seed, spec.generation, spec.refresh, spec.drawing, spec.reuse_hops


def _steps(spans: Iterable[Span], size: int) -> Iterator[Span]:
    """Yield the spans, divided into ranges of at most `size` rows."""
    for first, last in spans:
        for low in range(first, last, size):
            yield low, min(low + size, last)

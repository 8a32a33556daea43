"""Memory budgets for a stream's batches and scratch memory, and for a database's caches."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from snapdb.arrays import Array
from snapdb.errors import InputError
from snapdb.kernels import buffers
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.types import Cache

if TYPE_CHECKING:
    from snapdb.sampling.neighbor_pool_cache import RowCache

SAMPLE_SIZES = "BATCH, FANOUT or NEGATIVES"
WALK_SIZES = "BATCH, LENGTH, PER SEED or WINDOW"
"""The clauses that make a batch smaller, of neighbourhoods and of walks."""


class MemoryBudget:
    """The bytes that a stream may use for its threads' scratch memory and for batches, complete or in progress.

    Both sizes are measured: the first batch is built alone, and later batches are assumed to be as large as the largest
    one so far. If possible, the budget also leaves room for the consumer's batch, whose buffers are reused for the next
    one.

    >>> budget = MemoryBudget(1000)
    >>> budget.room(threads=4, ahead=8)
    1
    >>> budget.made(150, scratch=100)
    >>> budget.room(threads=4, ahead=8)
    3
    """

    def __init__(self, limit: int | None, clauses: str = SAMPLE_SIZES) -> None:
        """`limit` is in bytes, or None for no limit. `clauses` are those that make a batch smaller, for messages."""
        self.limit, self._clauses = limit, clauses
        self._batch = self._scratch = 0

    def made(self, batch: int, scratch: int) -> None:
        """Record the size of a batch and of the scratch memory used to build it.

        Raises:
            InputError: Together, they exceed the limit.
        """
        self._batch, self._scratch = max(self._batch, batch), max(self._scratch, scratch)
        if self.limit is not None and batch + scratch > self.limit:
            parts = f"({_said(batch)}, and {_said(scratch)} for its thread's scratch memory)"
            # Scratch is allocated before the first batch is built.
            takes = (
                f"{_said(batch + scratch)} {parts}"
                if batch
                else f"at least {_said(scratch)} for its thread's scratch memory"
            )
            raise InputError(
                f"the memory limit of the stream is {_said(self.limit)}, but a batch needs {takes}; increase memory, "
                "or make "
                f"batches smaller with {self._clauses}",
                code="memory",
            )

    def room(self, threads: int, ahead: int, sharers: int = 1, under_way: int = 0) -> int:
        """Return the number of batches, at least 1, that may be complete or in progress with `sharers` sharers."""
        if self.limit is None:
            return ahead
        limit = self.limit // sharers
        fits = (many for many in range(ahead, 0, -1) if self._takes(many, threads) + self._batch <= limit)
        many = next(fits, 1) if self._batch else 1
        # Batches in progress have not allocated all of their blocks yet, so some free blocks are reserved for them.
        if buffers.free_bytes() > limit - self._takes(many, threads) + under_way * self._batch:
            buffers.release_free()
        return many

    def _takes(self, many: int, threads: int) -> int:
        """Return the bytes of `many` batches and of the scratch memory of the threads that build them."""
        return min(threads, many) * self._scratch + many * self._batch


def scratch_bytes(scratch: Any) -> int:
    """Return the bytes of a thread's scratch memory, including the parts that have not been touched yet."""
    return sum(array.nbytes for array in _arrays(scratch) if array.base is None)


def _arrays(value: Any) -> Iterator[Array]:
    """Yield the arrays in a value, at any nesting depth."""
    if isinstance(value, np.ndarray):
        yield value
        return
    inner: Any = value if isinstance(value, tuple) else getattr(value, "__dict__", {}).values()
    for part in value.values() if isinstance(value, Mapping) else inner:
        yield from _arrays(part)


def _said(size: int) -> str:
    """Return a size as readable text, rounded up.

    >>> _said(512), _said(2_000_001), _said(3 * 10**9)
    ('512 B', '2.01 MB', '3.00 GB')
    """
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if size >= 1000**power:
            hundredths = -(-size * 100 // 1000**power)
            return f"{hundredths // 100}.{hundredths % 100:02d} {unit}"
    return f"{size} B"


_SAID_BY_TORCH = ("out of memory", "can't allocate memory", "not enough memory")
"""Text that identifies torch's RuntimeErrors for failed allocations."""


@contextmanager
def enough_memory(epoch: int, index: int, clauses: str = SAMPLE_SIZES) -> Iterator[None]:
    """Build a batch in the block. Raises InputError if there is not enough memory.

    Args:
        epoch: The epoch number.
        index: The batch number within the epoch.
        clauses: The clauses that make a batch smaller, for the message.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(said in str(error).lower() for said in _SAID_BY_TORCH):
            raise
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"batch {index} of epoch {epoch} does not fit in memory{f' ({reason})' if reason else ''}; make "
            f"batches smaller with {clauses}",
            code="memory",
        ) from error


# The memory budget of a database's caches, and the rows that a closed stream leaves for the next one.
_STREAMS = count()
"""Numbers the streams of this process. It is global because a database can be opened more than once."""
_PATIENCE = 0.05
"""Seconds per attempt to acquire a lock. Between attempts, a thread checks whether it should stop."""


class LeftRows(Protocol):
    """Rows that a closed stream leaves for the next one: a `RowCache` of edges, or the rows of a feature cache."""

    @property
    def bytes(self) -> int:
        """The memory that they use."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A stream's share of a cache's memory."""

    cache: Cache
    sharers: int
    """The number of processes that share the cache's memory."""
    room: int | None
    """The number of bytes for this stream, or None for no limit."""
    rows: LeftRows | None = None
    """The rows left in this memory by the previous stream. Only this stream may inherit them."""


class CacheBudget:
    """The reserved memory of each cache, and the rows of closed streams. Threads share it. It is empty after a fork."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Initialize the budget without reservations."""
        # The lock is reentrant because a dropped stream returns its rows on the thread that collects it, which may
        # already hold the lock.
        self._guard = threading.RLock()
        self._reserved: dict[int, int] = {}
        """Cache id → the bytes used by open streams and by the rows left by closed streams."""
        self._left: dict[int, Reservation] = {}
        self._dropped: set[int] = set()
        self._closed = False
        self._process = os.getpid()

    def reserve(self, cache: Cache, sharers: int = 1) -> Reservation:
        """Return a reservation with the rows left by a cache's last stream, or with unused memory."""
        with self._here():
            return self._left.pop(cache.id, None) or self._reserve(cache, sharers)

    def renew(self, reservation: Reservation, check: Callable[[], None]) -> Reservation:
        """Return a new reservation for a stream that cannot use the inherited rows. `check` is as in `_here`."""
        with self._here(check):
            self._free(reservation, reservation.room)
            return self._reserve(reservation.cache, reservation.sharers)

    def settle(self, reservation: Reservation, taken: int, check: Callable[[], None]) -> Reservation:
        """Return the reservation reduced to the bytes that a stream uses.

        Other streams can use the remaining bytes. `check` is as in `_here`.
        """
        if reservation.room is None:
            return reservation
        with self._here(check):
            self._free(reservation, reservation.room - taken)
            return replace(reservation, room=taken)

    def give_back(self, reservation: Reservation, rows: LeftRows) -> None:
        """Leave an ending stream's rows for the next stream, unless another stream has already left some."""
        with self._here():
            known = reservation.cache.id
            if self._closed or known in self._dropped or known in self._left or not rows.bytes:
                self._free(reservation, reservation.room)
            else:
                self._left[known] = replace(reservation, rows=rows)

    def release(self, reservation: Reservation) -> None:
        """Return a reservation without rows."""
        with self._here():
            self._free(reservation, reservation.room)

    def drop(self, cache: Cache) -> None:
        """Free the rows that a dropped cache's streams left or will leave."""
        with self._here():
            self._dropped.add(cache.id)
            if left := self._left.pop(cache.id, None):
                self._free(left, left.room)

    def refill(self, cache: Cache, generation: int, check: Callable[[], None] = lambda: None) -> int:
        """Draw a new generation's rows if a stream left rows of an earlier one, and return their number.

        `check` is called regularly and can raise an exception to stop the work.

        Raises:
            CorruptError: A row extends beyond its arrays.
        """
        with self._here():
            left = self._left.pop(cache.id, None)
        if left is None or left.rows is None:
            return 0
        rows = cast("RowCache", left.rows)  # REFRESH CACHE does not accept feature caches
        try:  # Ctrl-C can interrupt any step, so the memory is returned with or without rows
            rows = rows.of_generation(generation)
            rows.fill(lambda: 0, lambda: None, check)
            return rows.stats(None).drawn
        finally:
            self.give_back(left, rows)

    def stream(self) -> str:
        """Return a stream name that is unique within and across processes."""
        return f"{os.getpid()}-{next(_STREAMS)}"

    def close(self) -> None:
        """Free all rows left by streams."""
        with self._here():
            self._closed = True
            self._left.clear()

    def _reserve(self, cache: Cache, sharers: int) -> Reservation:
        """Reserve one sharer's part of the cache's memory, or all unreserved memory if that is less."""
        if cache.room is None:
            return Reservation(cache, sharers, None)
        reserved = self._reserved.get(cache.id, 0)
        # A later stream can get less, because a cache's memory limit applies to all streams together.
        room = min(cache.room // sharers, cache.room - reserved)
        self._reserved[cache.id] = reserved + room
        return Reservation(cache, sharers, room)

    def _free(self, reservation: Reservation, room: int | None) -> None:
        """Return bytes to the cache's memory."""
        self._reserved[reservation.cache.id] = self._reserved.get(reservation.cache.id, 0) - (room or 0)

    @contextmanager
    def _here(self, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the lock within the block. In a forked process, the budget starts empty.

        The garbage collector can close a stream while this thread holds the lock, and then waits for that stream's
        thread. Such a thread must not wait for the lock forever. It passes `check`, which raises an exception once the
        thread should stop.
        """
        # A fork copies the lock in its current state. A thread that does not exist in the child may hold it.
        if self._process != os.getpid():
            self._begin()
        guard = self._guard
        while not guard.acquire(timeout=_PATIENCE):
            check()
        try:
            yield
        finally:
            guard.release()


@dataclass(frozen=True, slots=True)
class CacheSource:
    """The caches of a stream's sampler. When pickled, they lose their budget and are restored with an empty one."""

    caches: tuple[Cache, ...]
    db_dir: DatabaseDir
    budget: CacheBudget

    @property
    def first(self) -> Cache:
        """The cache to use. In-memory caches are preferred to caches in files, and larger caches to smaller ones."""
        return min(self.caches, key=lambda cache: (cache.place == "FILE", cache.room is not None, -(cache.room or 0)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _sent, (self.caches, self.db_dir)


def _sent(caches: tuple[Cache, ...], db_dir: DatabaseDir) -> CacheSource:
    """Return the unpickled caches, with an empty budget."""
    return CacheSource(caches, db_dir, CacheBudget())

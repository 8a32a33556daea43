"""The caches of one open database: what is left of their room, and what a closed stream leaves to the next one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.types import Cache

if TYPE_CHECKING:
    from snapdb.sampling.neighbor_pool_cache import RowCache


_STREAMS = count()
"""A database may be open twice in one process, and streams travel without the shelf."""
_PATIENCE = 0.05
"""Seconds for which a lock is waited for at a time."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A stream's part of a cache."""

    cache: Cache
    sharers: int
    """How many processes share the cache's room."""
    room: int | None
    """Bytes that are this stream's; None: any."""
    rows: RowCache | None = None
    """What the last stream left in these bytes, for this one alone."""


class CacheBudget:
    """Rows that were drawn for one stream serve the next of the same sampler. Threads share it; forks begin anew."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._guard = threading.RLock()  # what is dropped is taken back on whichever thread collects it
        self._lent: dict[int, int] = {}
        """By cache: bytes of streams and of what they left."""
        self._left: dict[int, Reservation] = {}
        self._dropped: set[int] = set()
        self._closed = False
        self._process = os.getpid()

    def lend(self, cache: Cache, sharers: int = 1) -> Reservation:
        """What the last stream of a cache left, or else what others leave of its room."""
        with self._here():
            return self._left.pop(cache.id, None) or self._lend(cache, sharers)

    def renew(self, loan: Reservation, check: Callable[[], None]) -> Reservation:
        """The same for a stream that what the last one left is no good for; see `_here`."""
        with self._here(check):
            self._free(loan, loan.room)
            return self._lend(loan.cache, loan.sharers)

    def settle(self, loan: Reservation, taken: int, check: Callable[[], None]) -> Reservation:
        """The loan of a stream that takes no more than so many bytes: the rest is for others; see `_here`."""
        if loan.room is None:
            return loan
        with self._here(check):
            self._free(loan, loan.room - taken)
            return replace(loan, room=taken)

    def take_back(self, loan: Reservation, rows: RowCache) -> None:
        """A stream ends, and leaves its rows to the next one, unless another left some already."""
        with self._here():
            known = loan.cache.id
            if self._closed or known in self._dropped or known in self._left or not rows.bytes:
                self._free(loan, loan.room)
            else:
                self._left[known] = replace(loan, rows=rows)

    def drop(self, cache: Cache) -> None:
        """Frees what streams of a cache left, or will leave: there is no such cache any more."""
        with self._here():
            self._dropped.add(cache.id)
            if left := self._left.pop(cache.id, None):
                self._free(left, left.room)

    def refill(self, cache: Cache, generation: int, check: Callable[[], None] = lambda: None) -> int:
        """Draws the rows of a new generation where a stream left those of an earlier one; returns how many.

        `check` is called now and then; what it raises ends the work.

        Raises:
            CorruptError: a row leads out of its arrays.
        """
        with self._here():
            left = self._left.pop(cache.id, None)
        if left is None or left.rows is None:
            return 0
        rows = left.rows
        try:  # Ctrl-C may come anywhere: the room is given back, with or without rows in it
            rows = rows.of_generation(generation)
            rows.fill(lambda: 0, lambda: None, check)
            return rows.stats(None).drawn
        finally:
            self.take_back(left, rows)

    def stream(self) -> str:
        """A name for a stream that no other one of this process has."""
        return f"{os.getpid()}-{next(_STREAMS)}"

    def close(self) -> None:
        """Frees all that streams left."""
        with self._here():
            self._closed = True
            self._left.clear()

    def _lend(self, cache: Cache, sharers: int) -> Reservation:
        if cache.room is None:
            return Reservation(cache, sharers, None)
        lent = self._lent.get(cache.id, 0)
        room = min(cache.room // sharers, cache.room - lent)
        self._lent[cache.id] = lent + room
        return Reservation(cache, sharers, room)

    def _free(self, loan: Reservation, room: int | None) -> None:
        self._lent[loan.cache.id] = self._lent.get(loan.cache.id, 0) - (room or 0)

    @contextmanager
    def _here(self, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Holds the lock; a process that was forked from the one that lent begins with nothing.

        Where garbage is collected under the lock, a stream may end there, and waits for its thread. So such a thread
        gives `check`, which raises once it is to end, and does not wait for the lock for good.
        """
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
    """The caches of a stream's sampler. In another process than the database's it comes without the shelf."""

    caches: tuple[Cache, ...]
    db_dir: DatabaseDir
    shelf: CacheBudget

    @property
    def first(self) -> Cache:
        """The one that serves: in memory before in a file, and the one with the most room."""
        return min(self.caches, key=lambda cache: (cache.place == "FILE", cache.room is not None, -(cache.room or 0)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _sent, (self.caches, self.db_dir)


def _sent(caches: tuple[Cache, ...], db_dir: DatabaseDir) -> CacheSource:
    return CacheSource(caches, db_dir, CacheBudget())

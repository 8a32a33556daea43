"""A stream's cache, kept in whichever process makes its batches."""

import os
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from snapdb.loading.epochs import place_among_workers
from snapdb.loading.keeper import Keeper, open_keeper
from snapdb.loading.shelf import CacheSource
from snapdb.sampling import NeighborSampler, Seeds
from snapdb.sampling.cache_plan import bytes_wanted
from snapdb.sampling.rounds import Rounds


class Keeping:
    """Opens the cache with the first batch that a process makes; DataLoader workers share its room evenly."""

    def __init__(
        self, source: CacheSource | None, sampler: NeighborSampler, node_counts: Mapping[str, int], seeds: Seeds
    ) -> None:
        """`sampler` is one that was just opened, of either back end; None: nothing is kept."""
        self._source, self._sampler, self._node_counts, self._seeds = source, sampler, node_counts, seeds
        self._keeper: Keeper | None = None
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

    def _opened(self, source: CacheSource) -> Keeper | None:
        with self._guard():
            if self._keeper is None or not self._keeper.here:
                _, workers = place_among_workers()
                self._keeper = open_keeper(source, self._sampler, self._node_counts, self._seeds, workers)
                if self._keeper is None:
                    self._source = None  # its sampler reads none
                else:
                    self._sampler.cache = self._keeper.reader
            return self._keeper

    def _guard(self) -> threading.Lock:
        """This process's own: a fork copies a lock as it is, maybe held by a thread that did not come with it."""
        return self._guards.setdefault(os.getpid(), threading.Lock())

"""A stream that keeps account of its work, for EXPLAIN: other streams pay nothing for it."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import torch

from snapdb.loading.stream import BatchStream
from snapdb.types import EdgeType

__all__ = ["Meter", "MeteredStream"]

_REPEATS = 5
"""Of which the shortest counts: the others were held up."""


class Meter:
    """Seconds of work, added up over threads."""

    def __init__(self) -> None:
        self.making = 0.0
        """Of whole batches."""
        self.sampling = 0.0
        """Of their neighbourhoods alone."""
        self.cpu = 0.0
        """Of processor time, for whole batches."""
        self.threads: set[int] = set()
        """Those that made one."""
        self._guard = threading.Lock()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """The block makes a batch."""
        started, busy = time.perf_counter(), time.thread_time()
        yield
        spent, worked = time.perf_counter() - started, time.thread_time() - busy
        with self._guard:
            self.making += spent
            self.cpu += worked
            self.threads.add(threading.get_ident())

    @contextmanager
    def sample(self) -> Iterator[None]:
        """The block samples a neighbourhood."""
        started = time.perf_counter()
        yield
        spent = time.perf_counter() - started
        with self._guard:
            self.sampling += spent


class MeteredStream(BatchStream):
    """The same batches, with `meter` saying what they took since `start` was called."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.start()
        self._plain = self._maker.sampler
        self._last: tuple[Any, int] | None = None
        self._repeats = 1
        self._maker.sampler = _Proxy(self._plain, sample=self._sample)
        maker = self._maker
        sent = maker.sent if maker.fused else self._make(maker.sent)  # who is handed a batch may make the rest of it
        self._maker = cast(Any, _Proxy(maker, make=self._make(maker.make), sent=sent))

    def start(self) -> None:
        """Measures anew."""
        self.meter = Meter()

    def steps(self, patience: float) -> dict[tuple[EdgeType, int], float]:
        """(key of a batch, hop) → seconds that it takes to draw the edges of the last batch that was sampled.

        Batches are pure, so that a step takes what sampling up to it takes longer than sampling up to the one before.
        Nothing when that would take more seconds than `patience`.
        """
        if self._last is None:
            return {}
        scratch, found = self._plain.scratch(), {}
        whole = self._timed(self._plain, scratch) * self.spec.hops * len(self._plain.walks)
        if not 0 < whole <= patience:
            return {}
        self._repeats = min(_REPEATS, int(patience / whole))
        before = self._seconds(0, 0, scratch)
        for hop in range(self.spec.hops):
            for place, walk in enumerate(self._plain.walks):
                if any(walk.fanout.counts[hop : hop + 1]):
                    until = max(before, self._seconds(hop, place + 1, scratch))
                    found[walk.relation.key, hop] = until - before
                    before = until
        return found

    def _seconds(self, hop: int, places: int, scratch: Any) -> float:
        """How long the last batch takes up to a hop, and of that only over the first so many relations."""
        short = copy.copy(self._plain)
        short.walks = tuple(_short(walk, hop + (i < places)) for i, walk in enumerate(self._plain.walks))
        return min(self._timed(short, scratch) for _ in range(self._repeats))

    def _timed(self, sampler: Any, scratch: Any) -> float:
        assert self._last is not None
        started = time.perf_counter()
        sampler.sample(*self._last, scratch)
        self._settle()
        return time.perf_counter() - started

    def _sample(self, entry: Any, number: int, scratch: Any) -> Any:
        self._last = entry, number
        with self.meter.sample():
            found = self._plain.sample(entry, number, scratch)
            self._settle()
        return found

    def _make(self, make: Any) -> Any:
        def timed(*arguments: Any) -> Any:
            with self.meter.batch():
                return make(*arguments)

        return timed

    def _settle(self) -> None:
        """What a GPU is asked for is done later: without a wait only the asking would be timed."""
        if (self.spec.device or "").startswith("cuda"):
            torch.cuda.synchronize()


class _Proxy:
    """Another object, some of whose methods are others."""

    def __init__(self, origin: Any, **methods: Any) -> None:
        self._origin = origin
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._origin, name)


def _short(walk: Any, hops: int) -> Any:
    """The same walk, which draws nothing after so many hops."""
    if hasattr(walk, "walk"):  # torch's, which is made of one
        return replace(walk, walk=_short(walk.walk, hops))
    counts = tuple(count if hop < hops else 0 for hop, count in enumerate(walk.fanout.counts))
    return replace(walk, fanout=replace(walk.fanout, counts=counts))

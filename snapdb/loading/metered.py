"""A stream that keeps account of its work, for EXPLAIN: other streams pay nothing for it."""

import copy
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from snapdb.loading.stream import BatchStream
from snapdb.sampling import Ints
from snapdb.sampling.kept import CacheReader
from snapdb.sampling.pages import pages_read
from snapdb.sampling.rounds import Rounds
from snapdb.types import EdgeType, SampleSpec

_REPEATS = 5
"""Of which the shortest counts: the others were held up."""
_RECENT = 4
"""Batches that are sampled again to compare ways: one alone would be found in the processor's caches."""
_ENOUGH = 0.25
"""Seconds after which they are not sampled once more."""


class Recent(NamedTuple):
    """The seeds of the last few batches, as they are sampled in the last one's place."""

    number: int
    rounds: Rounds | None
    nodes: tuple[Mapping[str, Ints], ...]
    """Of each, vertex type → the dense ids that it comes by."""


class _Meter:
    """Seconds of work, added up over threads."""

    def __init__(self) -> None:
        self.making = 0.0
        """Of whole batches."""
        self.sampling = 0.0
        """Of their neighbourhoods alone."""
        self.sampled = 0
        """Of how many batches."""
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
            self.sampled += 1


class MeteredStream(BatchStream):
    """The same batches, with `meter` saying what they took since `start` was called."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.start()
        sampler = self._maker.sampler
        self._plain, self._sampling = copy.copy(sampler), sampler.sample
        self._recent: deque[tuple[Any, int, Rounds | None]] = deque(maxlen=_RECENT)
        self._repeats = 1
        sampler.sample = self._sample
        maker = self._maker
        sent = maker.sent if maker.fused else self._make(maker.sent)  # who is handed a batch may make the rest of it
        self._threads.maker = cast(Any, _Proxy(maker, make=self._make(maker.make), sent=sent))

    def start(self) -> None:
        """Measures anew."""
        self.meter = _Meter()
        self._from_disk = _read_from_disk()

    def steps(self, patience: float) -> dict[tuple[EdgeType, int], float]:
        """(key of a batch, hop) → seconds that it takes to draw the edges of the last batch that was sampled.

        Batches are pure, so that a step takes what sampling up to it takes longer than sampling up to the one before.
        Nothing when that would take more seconds than `patience`.
        """
        if not self._recent:
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

    def recent(self) -> Recent | None:
        """The last few batches that were sampled; None: there was none."""
        if not self._recent:
            return None
        (_, number, rounds), scratch = self._recent[-1], self._plain.scratch()
        again = (self._plain.sample(entry, number, scratch, rounds) for entry, _, _ in self._recent)
        return Recent(number, rounds, tuple(found.nodes for found in again))

    def pages(self, cache: CacheReader | None) -> float:
        """Bytes of whole pages of neighbours that one of `recent` reads beside a cache, on average; numba samples.

        That is of a topology that is not in memory.
        """
        beside = copy.copy(self._plain)
        beside.cache = cache  # which is only looked at, and counts nothing
        (_, number, rounds), scratch = self._recent[-1], self._plain.scratch()
        again = (self._plain.sample(entry, number, scratch, rounds) for entry, _, _ in self._recent)
        return sum(pages_read(beside, found, number, rounds) for found in again) / len(self._recent)

    def seconds(self, *, spec: SampleSpec | None = None, cache: CacheReader | None = None) -> float:
        """How long it takes to sample one of `recent`, by another statement or with a cache, when it is in memory."""
        other = copy.copy(self._plain)
        other.spec, other.cache = spec or other.spec, cache
        scratch, spent = other.scratch(), list[float]()
        self._each(other, scratch)  # what is done once is not measured
        while len(spent) < _REPEATS and sum(spent) * len(self._recent) < _ENOUGH:
            spent.append(self._each(other, scratch))
        return min(spent)

    def waited(self) -> float:
        """How much longer than now it took to sample a batch since `start`, where something was read from a disk."""
        if not self.meter.sampled or _read_from_disk() == self._from_disk:
            return 0.0
        return max(0.0, self.meter.sampling / self.meter.sampled - self.seconds())

    def _each(self, sampler: Any, scratch: Any) -> float:
        """How long one of the last few batches takes, on average."""
        started = time.perf_counter()
        _, number, rounds = self._recent[-1]
        for entry, _, _ in self._recent:
            sampler.sample(entry, number, scratch, rounds)
        self._settle()
        return (time.perf_counter() - started) / len(self._recent)

    def _seconds(self, hop: int, places: int, scratch: Any) -> float:
        """How long the last batch takes up to a hop, and of that only over the first so many relations."""
        short = copy.copy(self._plain)
        short.walks = tuple(_short(walk, hop + (i < places)) for i, walk in enumerate(self._plain.walks))
        return min(self._timed(short, scratch) for _ in range(self._repeats))

    def _timed(self, sampler: Any, scratch: Any) -> float:
        started = time.perf_counter()
        entry, number, rounds = self._recent[-1]
        sampler.sample(entry, number, scratch, rounds)
        self._settle()
        return time.perf_counter() - started

    def _sample(self, entry: Any, number: int, scratch: Any, rounds: Any = None) -> Any:
        self._recent.append((entry, number, rounds))
        with self.meter.sample():
            found = self._sampling(entry, number, scratch, rounds)
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


def _read_from_disk() -> int:
    """Bytes that this process ever had to wait for; 0 where the system does not tell."""
    with suppress(OSError):
        for line in Path("/proc/self/io").read_text().splitlines():
            if line.startswith("read_bytes:"):
                return int(line.split()[1])
    return 0

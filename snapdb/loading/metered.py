"""A metered stream: build and sampling times, and the topology pages that a batch reads."""

from __future__ import annotations

import copy
import mmap
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from snapdb.arrays import Array, Bools, Int64s
from snapdb.kernels.neighbor_pool.cache import BLOCK_FIELDS, HEAD, RECORD, CachedRows, find_records
from snapdb.loading.source import StreamOptions, StreamSource
from snapdb.loading.stream import BatchStream
from snapdb.sampling import Ints, NeighborSampler, SamplerInput, Scratch
from snapdb.sampling.neighbor_pool_cache import CacheReader
from snapdb.sampling.rounds import Rounds, row_keys, slot_of
from snapdb.sampling.subgraph import Block, Subgraph
from snapdb.sampling.traversals import Traversal
from snapdb.types import EdgeType, SampleSpec

_REPEATS = 5
"""The number of repetitions of a measurement. The shortest is used, because interference only lengthens it."""
_RECENT = 4
"""The number of batches that are resampled to compare samplers. A single batch would fit in the processor's caches."""
_ENOUGH = 0.25
"""The number of seconds after which a batch is not resampled again."""


class Recent(NamedTuple):
    """The last few batches, resampled with the number and rounds of the last one."""

    number: int
    """The global number of the last batch."""
    rounds: Rounds | None
    """The rounds of the last batch's rows, or None."""
    nodes: tuple[Mapping[str, Ints], ...]
    """For each batch, vertex type → [nodes] dense ids."""


class _WorkMeter:
    """Build and sampling times in seconds, summed over threads, and the inputs of the last few batches."""

    def __init__(self, *, on_gpu: bool = False) -> None:
        self._guard, self._on_gpu = threading.Lock(), on_gpu
        self.inputs: deque[tuple[SamplerInput, int, Rounds | None]] = deque(maxlen=_RECENT)
        """The sampler's input, the batch number and the rounds of rows for each of the last few batches."""
        self.reset()

    def reset(self) -> None:
        """Reset the measurements."""
        self.build_seconds = 0.0
        """Seconds spent building whole batches."""
        self.sample_seconds = 0.0
        """Seconds spent sampling."""
        self.sampled = 0
        """The number of batches that were sampled."""
        self.cpu_seconds = 0.0
        """CPU seconds spent building whole batches."""
        self.threads: set[int] = set()
        """The threads that built a batch."""

    @contextmanager
    def building(self) -> Iterator[None]:
        """Measure the time to build a batch, or the remainder of one."""
        started, busy = time.perf_counter(), time.thread_time()
        yield
        # Wall-clock time minus CPU time is the time spent waiting for a disk, a lock or other processes.
        spent, worked = time.perf_counter() - started, time.thread_time() - busy
        with self._guard:
            self.build_seconds += spent
            self.cpu_seconds += worked
            self.threads.add(threading.get_ident())

    @contextmanager
    def sampling(self, entry: SamplerInput, number: int, rounds: Rounds | None) -> Iterator[None]:
        """Measure the time to sample a batch's subgraph."""
        self.inputs.append((entry, number, rounds))
        started = time.perf_counter()
        yield
        self.wait()
        spent = time.perf_counter() - started
        with self._guard:
            self.sample_seconds += spent
            self.sampled += 1

    def wait(self) -> None:
        """Wait for the GPU. Otherwise, only its kernel launches would be timed."""
        if self._on_gpu:
            torch.cuda.synchronize()


class MeteredStream(BatchStream):
    """A stream of the same batches, with a `meter` that measures their cost since `start` was called."""

    def __init__(self, source: StreamSource, options: StreamOptions) -> None:
        self.meter = _WorkMeter(on_gpu=(source.spec.device or "").startswith("cuda"))
        super().__init__(source, options, self.meter)
        # Use a copy without the cache, so that measurements do not count as cache hits and misses.
        self._plain = copy.copy(self.sampler)
        self._repeats = 1
        self.start()

    @property
    def is_scarce(self) -> bool:
        """Whether the features do not fit in memory."""
        return self._workers.builder.scarce

    def start(self) -> None:
        """Reset the measurements."""
        self.meter.reset()
        self._from_disk = _read_from_disk()

    def steps(self, patience: float) -> dict[tuple[EdgeType, int], float]:
        """Return the seconds to draw the last sampled batch's edges, by (key in the batch, hop).

        Sampling is a pure function, so the cost of a step is the difference between sampling up to it and sampling up
        to the previous step. The result is empty if the measurement would exceed `patience` seconds.
        """
        if not self.meter.inputs:
            return {}
        scratch, seconds = self._plain.scratch(), {}
        whole = self._timed(self._plain, scratch) * self.spec.hops * len(self._plain.traversals)
        if not 0 < whole <= patience:
            return {}
        self._repeats = min(_REPEATS, int(patience / whole))
        before = self._seconds(0, 0, scratch)
        for hop in range(self.spec.hops):
            for place, traversal in enumerate(self._plain.traversals):
                if any(traversal.fanout.counts[hop : hop + 1]):
                    until = max(before, self._seconds(hop, place + 1, scratch))
                    seconds[traversal.relation.key, hop] = until - before
                    before = until
        return seconds

    def recent(self) -> Recent | None:
        """Return the last few batches that were sampled, or None if there were none."""
        if not self.meter.inputs:
            return None
        (_, number, rounds), scratch = self.meter.inputs[-1], self._plain.scratch()
        again = (self._plain.sample(entry, number, scratch, rounds) for entry, _, _ in self.meter.inputs)
        return Recent(number, rounds, tuple(subgraph.nodes for subgraph in again))

    def pages(self, cache: CacheReader | None) -> float:
        """Return the mean number of bytes per `recent` batch that are read from neighbour pages despite a cache.

        Whole pages are counted, as for a topology that is not in memory. Only the numba back end is supported.
        """
        beside = copy.copy(self._plain)
        beside.cache = cache  # a lookup that does not count hits or misses
        (_, number, rounds), scratch = self.meter.inputs[-1], self._plain.scratch()
        again = (self._plain.sample(entry, number, scratch, rounds) for entry, _, _ in self.meter.inputs)
        return sum(_pages_read(beside, subgraph, number, rounds) for subgraph in again) / len(self.meter.inputs)

    def seconds(self, *, spec: SampleSpec | None = None, cache: CacheReader | None = None) -> float:
        """Return the seconds to sample one of the `recent` batches in memory, for another statement or with a cache."""
        other = copy.copy(self._plain)
        other.spec, other.cache = spec or other.spec, cache
        scratch, spent = other.scratch(), list[float]()
        self._each(other, scratch)  # the first run loads kernels and warms the caches
        while len(spent) < _REPEATS and sum(spent) * len(self.meter.inputs) < _ENOUGH:
            spent.append(self._each(other, scratch))
        return min(spent)

    def waited(self) -> float:
        """Return the mean seconds per batch that sampling waited for a disk since `start`, or 0 without disk reads."""
        if not self.meter.sampled or _read_from_disk() == self._from_disk:
            return 0.0
        return max(0.0, self.meter.sample_seconds / self.meter.sampled - self.seconds())

    def _each(self, sampler: NeighborSampler, scratch: Scratch) -> float:
        """Return the mean seconds per batch, over the last few batches."""
        started = time.perf_counter()
        _, number, rounds = self.meter.inputs[-1]
        for entry, _, _ in self.meter.inputs:
            sampler.sample(entry, number, scratch, rounds)
        self.meter.wait()
        return (time.perf_counter() - started) / len(self.meter.inputs)

    def _seconds(self, hop: int, places: int, scratch: Scratch) -> float:
        """Return the seconds to sample the last batch up to a hop, of which only the first `places` relations count."""
        short = copy.copy(self._plain)
        short.traversals = tuple(
            _short(traversal, hop + (i < places)) for i, traversal in enumerate(self._plain.traversals)
        )
        return min(self._timed(short, scratch) for _ in range(self._repeats))

    def _timed(self, sampler: NeighborSampler, scratch: Scratch) -> float:
        """Return the seconds to sample the last batch once."""
        started = time.perf_counter()
        entry, number, rounds = self.meter.inputs[-1]
        sampler.sample(entry, number, scratch, rounds)
        self.meter.wait()
        return time.perf_counter() - started


def _short(traversal: Any, hops: int) -> Any:
    """Return the same traversal with no draws from hop `hops` on."""
    if hasattr(traversal, "traversal"):  # a torch traversal wraps a numba traversal
        return replace(traversal, traversal=_short(traversal.traversal, hops))
    counts = tuple(count if hop < hops else 0 for hop, count in enumerate(traversal.fanout.counts))
    return replace(traversal, fanout=replace(traversal.fanout, counts=counts))


def _read_from_disk() -> int:
    """Return the bytes that this process has read from disks, or 0 if the system does not report them."""
    with suppress(OSError):
        for line in Path("/proc/self/io").read_text().splitlines():
            if line.startswith("read_bytes:"):
                return int(line.split()[1])
    return 0


_AT_ONCE = 1 << 16
"""The number of edges that are looked up in their records at once. Each edge needs as much memory as a record."""


def _pages_read(sampler: NeighborSampler, subgraph: Subgraph, batch: int, rounds: Rounds | None = None) -> int:
    """Return the bytes of topology pages that a batch reads, excluding rows in the sampler's cache.

    For a file that is read page by page and is not in memory, the operating system counts the same number.

    Args:
        sampler: The sampler, with its cache.
        subgraph: The sampled subgraph of batch number `batch`.
        batch: The global batch number.
        rounds: The rounds of the batch's rows under SCOPE VISITED.
    """
    total = 0
    for traversal in sampler.backend.host_traversals:
        rows = traversal.arrays.rows
        missed = np.concatenate([np.empty(0, np.int64), *_missed(sampler, traversal, subgraph, batch, rounds)])
        tail = missed >= rows.indices.size
        total += _pages(rows.indices, missed[~tail]) + _pages(rows.delta.indices, missed[tail] - rows.indices.size)
    return total * mmap.PAGESIZE


def _missed(
    sampler: NeighborSampler, traversal: Traversal, subgraph: Subgraph, batch: int, rounds: Rounds | None
) -> Iterator[Int64s]:
    """Yield the positions of the edges that no cached row contains, hop by hop."""
    spec, cache, relation = sampler.spec, sampler.cache, traversal.relation
    copies = None if cache is None else cache.copies(relation)
    for hop, blocks in enumerate(subgraph.hops):
        for block in blocks:
            if block.relation != relation:
                continue
            nodes, count = subgraph.nodes[relation.expands][block.seed_side], traversal.count(hop)
            missed = np.ones(nodes.size, np.bool_) if copies is None else copies.places[nodes] < 0
            if cache is not None and spec.refresh is not None and count > 0:
                size = spec.refresh.row_size(traversal.fanout, count)
                records = cache.rows(relation, slot_of(spec, hop), size)
                if records is not None:
                    each = np.empty((nodes.size, BLOCK_FIELDS), np.int64)
                    keys = row_keys(spec, relation, hop, batch, rounds)
                    find_records(keys, records, nodes, 0, nodes.size, nodes.size, each)
                    missed &= ~_recorded(records, each[:, RECORD], size, block)
            yield block.position[missed]


def _recorded(records: CachedRows, numbers: Int64s, size: int, block: Block) -> Bools:
    """Return an [edges] mask of a block's edges that are in the record with their number.

    The number -1 means that an edge has no record.
    """
    recorded = np.zeros(numbers.size, np.bool_)
    for low in range(0, numbers.size, _AT_ONCE):
        some = slice(low, low + _AT_ONCE)
        which = np.flatnonzero(numbers[some] >= 0) + low
        rows = records.records[numbers[which], HEAD : HEAD + size]
        recorded[which] = (rows == block.position[which, None]).any(axis=1)
    return recorded


def _pages(array: Array, places: Int64s) -> int:
    """Return the number of memory pages that contain these items."""
    return int(np.unique((array.ctypes.data + places * array.itemsize) // mmap.PAGESIZE).size)

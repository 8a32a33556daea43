"""Builds a batch on one thread: samples the subgraph or walks, fetches features, and copies both to the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple, Protocol, cast

from snapdb.arrays import Int64s
from snapdb.errors import InputError, SnapdbError
from snapdb.graph.features import for_random_reads
from snapdb.graph.view import GraphView
from snapdb.loading.assemble import assemble, bounds_of
from snapdb.loading.audit import rules
from snapdb.loading.batch import Batch
from snapdb.loading.budgets import SAMPLE_SIZES, WALK_SIZES, MemoryBudget, enough_memory, scratch_bytes
from snapdb.loading.cache_maintainer import CacheHandle
from snapdb.loading.device_transfer import DeviceTransfer, SentBatch, usable
from snapdb.loading.epochs import BatchSeeds
from snapdb.loading.feature_cache import FeatureCacheHandle
from snapdb.loading.feature_rows import FeatureKey
from snapdb.loading.lazy import host, parts
from snapdb.loading.source import StreamOptions, StreamSource
from snapdb.loading.visited_rounds import VisitedRounds
from snapdb.loading.walk_batch import WalkBatch
from snapdb.sampling import NeighborSampler, SamplerInput, Subgraph
from snapdb.sampling.backends import open_sampler
from snapdb.sampling.rounds import Rounds
from snapdb.sampling.seeds import SeedExpansion
from snapdb.sampling.walker import Walker, open_walker
from snapdb.sampling.walks import Walks
from snapdb.types import SampleSpec
from snapdb.types.sampling import ZeroWeight

Lineage = Mapping[str, object]


class Meter(Protocol):
    """Measures a builder's work. Its context managers run on any thread."""

    def building(self) -> AbstractContextManager[None]:
        """Measure the time to build a batch, or the remainder of one."""

    def sampling(self, entry: SamplerInput, number: int, rounds: Rounds | None) -> AbstractContextManager[None]:
        """Measure the time to sample a batch's subgraph."""


class _NoMeter:
    """A meter that measures nothing."""

    def building(self) -> AbstractContextManager[None]:
        return nullcontext()

    def sampling(self, entry: SamplerInput, number: int, rounds: Rounds | None) -> AbstractContextManager[None]:
        return nullcontext()


NO_METER = _NoMeter()


class _SampledBatch(NamedTuple):
    """A batch whose features have not been fetched yet."""

    seeds: BatchSeeds
    entry: SamplerInput
    drawn: Subgraph | Walks
    scratch: int
    """The bytes of scratch memory used to sample it, or 0 if memory is not limited."""
    lineage: Lineage


class _TransformedBatch(NamedTuple):
    """The result of the transform for a batch."""

    value: Any


class BatchBuilder:
    """Builds the batches of a source. Threads share the builder and borrow scratch memory while they sample a batch."""

    def __init__(self, source: StreamSource, options: StreamOptions, meter: Meter = NO_METER) -> None:
        """Open the sampler or the walker.

        Raises:
            InputError: The device is not available, or the scratch of a single thread exceeds the memory limit.
            SnapdbError: The snapshot does not support the sampler.
        """
        hints = source.hints
        spec = replace(source.spec, ids=options.ids or source.spec.ids)
        if spec.walk is not None and spec.ids != "int64":
            raise InputError("random walks have int64 ids; leave ids out", code="id-type")
        self.view, self.seeds, self.spec = source.view, source.seeds, hints.applied(spec)
        self.drawer = _open_drawer(self.view, self.spec)
        """The neighbour sampler or the random walker that draws the batches."""
        self.device = usable(options.device or self.spec.device or "cpu")
        self.transform: Callable[[Any], Any] | None = options.transform
        self.budget = MemoryBudget(options.memory, self._sizes)
        self.meter = meter
        self._fused, self._zero_copy = hints.fused, options.zero_copy
        self._caches, self._feature_caches = source.cache, source.feature_cache
        self._threads, self._ranks = (options.threads_of(1, on_gpu=self.drawer.on_gpu), options.sharing.neighbours)
        self._open()
        # Under a memory limit, the first scratch is measured immediately, so that opening the stream fails if the limit
        # is too small.
        if options.memory is not None:
            self._scratches.append(self.drawer.scratch())
            self.budget.made(0, scratch_bytes(self._scratches[0]))

    def _open(self) -> None:
        """Open the parts that are not pickled."""
        # Samplers of walks have no caches, so the handles of walks never read the sampler.
        sampler = cast("NeighborSampler", self.drawer)
        self.cache = CacheHandle(self._caches, sampler, self.view.node_counts, self.seeds)
        fitting, self.view = (self.view, for_random_reads(self.view, self.spec.relations, self.cache.wanted()))
        self.scarce = self.view is not fitting
        """Whether the topology and the features do not fit in memory."""
        # Features that are resident on a GPU are not read from files.
        feature_caches = self._feature_caches if self.device.type == "cpu" else None
        self.features = FeatureCacheHandle(
            feature_caches, self.view, sampler, self.seeds, self._threads, self._ranks, scarce=self.scarce
        )
        self._expansion = SeedExpansion(self.view, self.spec, self.seeds)
        self._transfer = DeviceTransfer(self.device, self.view, self.drawer.node_types, zero_copy=self._zero_copy)
        self._scratches: deque[Any] = deque()

    @property
    def sampler(self) -> NeighborSampler:
        """The neighbour sampler. Raises SnapdbError if the batches are walks."""
        if isinstance(self.drawer, Walker):
            raise SnapdbError("a stream of random walks has no neighbour sampler; read stream.walker", code="walks")
        return self.drawer

    @property
    def walker(self) -> Walker:
        """The random walker. Raises SnapdbError if the batches are neighbourhoods."""
        if isinstance(self.drawer, NeighborSampler):
            raise SnapdbError("a stream of neighbourhoods has no random walker; read stream.sampler", code="walks")
        return self.drawer

    @property
    def _sizes(self) -> str:
        """The clauses that make a batch smaller."""
        return SAMPLE_SIZES if self.spec.walk is None else WALK_SIZES

    @property
    def rules(self) -> dict[str, Any]:
        """The rules against which `audit` checks batches, as plain JSON values."""
        return rules(self.drawer)

    @property
    def zero_weight(self) -> ZeroWeight | None:
        """The rule for edges of weight 0, or None if there are no such edges."""
        return "NEVER" if any(traversal.skips_zeros for traversal in self.drawer.traversals) else None

    @property
    def on_gpu(self) -> bool:
        """Whether sampling runs on a GPU."""
        return self.drawer.on_gpu

    def visits(self, saved: Any = None) -> VisitedRounds:
        """Return the rounds of the rows before batch 0 or the saved window."""
        return VisitedRounds(self.spec, self.drawer.traversals, saved)

    def sampled(self, lineage: Lineage, visits: VisitedRounds | None, seeds: BatchSeeds) -> _SampledBatch:
        """Sample a batch's subgraph, as the first step. Runs on any thread.

        Args:
            lineage: The lineage of the epoch's batches.
            visits: The rounds of pool rows if they depend on earlier batches, otherwise None.
            seeds: The seeds of the batch.
        """
        with self.meter.building():
            # Other consumers' batches change the rounds that this batch reads, so they are also sampled here.
            for other in seeds.between:
                self.sample_only(visits, other)
            with self._about(seeds, visits):
                return _SampledBatch(seeds, *self._sampled(visits, seeds), lineage)

    def fetched(self, sampled: _SampledBatch) -> Batch | WalkBatch | _SampledBatch | _TransformedBatch:
        """Fetch a batch's features, as the second step. `send` and `receive` complete the batch. Runs on any thread."""
        if not self._fused:
            return sampled
        with self.meter.building():
            with self._about(sampled.seeds):
                batch = self._fetched(sampled)
            # A transform for the CPU runs here, in parallel. Batches for a GPU are transformed on the consumer's
            # thread, because the transform's kernels belong to its CUDA stream.
            if self.transform is None or self.device.type != "cpu":
                return batch
            return _TransformedBatch(self.receive(self.send(batch)))

    def sample_only(self, visits: VisitedRounds | None, seeds: BatchSeeds) -> None:
        """Sample a batch that is not yielded, to record the rows it accesses."""
        with self._about(seeds, visits):
            self._sampled(visits, seeds)

    def send(self, built: Batch | WalkBatch | _SampledBatch | _TransformedBatch) -> SentBatch | _TransformedBatch:
        """Start the copy of a batch with its features to the device."""
        if isinstance(built, _TransformedBatch):
            return built
        if isinstance(built, _SampledBatch):
            with self.meter.building(), self._about(built.seeds):
                built = self._fetched(built)
        return self._transfer.send(built)

    def receive(self, sent: SentBatch | _TransformedBatch) -> Any:
        """Return the batch, or the transform's result, on the consumer's thread."""
        if isinstance(sent, _TransformedBatch):
            return sent.value
        batch = self._transfer.receive(sent)
        return batch if self.transform is None else self._transformed(self.transform, batch)

    def room(self, threads: int, ahead: int, sharers: int, under_way: int) -> int:
        """Return the number of batches that may be complete or in progress. Frees the scratch of pausing threads."""
        many = self.budget.room(threads, ahead, sharers, under_way)
        self.free_scratch(min(many, threads))
        return many

    def free_scratch(self, threads: int) -> None:
        """Free the scratch of all but `threads` threads."""
        while len(self._scratches) > threads:
            with suppress(IndexError):  # another thread took it first
                self._scratches.pop()

    @contextmanager
    def _about(self, seeds: BatchSeeds, visits: VisitedRounds | None = None) -> Iterator[None]:
        """Build a batch in the block, on a side stream of the device. Errors name the batch."""
        try:
            with enough_memory(*seeds.index, self._sizes), self._transfer.working():
                yield
        except Exception as error:
            error.add_note(f"while building batch {seeds.index[1]} of epoch {seeds.index[0]}")
            if visits is not None:
                visits.fail()
            raise

    def _transformed(self, transform: Callable[[Any], Any], batch: Batch | WalkBatch) -> Any:
        """Return the transform's result for a batch. A note on an error names the batch."""
        try:
            return transform(batch)
        except Exception as error:
            error.add_note(f"in the transform of batch {batch.index[1]} of epoch {batch.index[0]}")
            if isinstance(error, AttributeError) and isinstance(error.obj, Batch):
                error.add_note(
                    "the argument of a transform is a snapdb.Batch; for transforms of PyG write lambda batch: "
                    "T(batch.to_pyg())"
                )
            raise

    def _sampled(self, visits: VisitedRounds | None, seeds: BatchSeeds) -> tuple[SamplerInput, Subgraph | Walks, int]:
        """Return the input, the subgraph or walks that were drawn, and the bytes of scratch (0 without a limit)."""
        entry = self._expansion.entry(seeds.ordinals, seeds.index[0])
        scratch = self._scratch()

        def sample(rounds: Rounds | None = None) -> Subgraph:
            if self._caches is not None:
                self.cache.begin(seeds.number, rounds)
            with self.meter.sampling(entry, seeds.number, rounds):
                return self.sampler.sample(entry, seeds.number, scratch, rounds)

        drawn: Subgraph | Walks
        if isinstance(self.drawer, Walker):
            with self.meter.sampling(entry, seeds.number, None):
                drawn = self.walker.sample(entry, seeds.number, scratch)
        else:
            drawn = sample() if visits is None else visits.sampled(seeds.number, sample)
        # The scratch is returned only after success, because an error can leave it half-written. It is measured before
        # it is returned, because another thread can use it from then on.
        size = 0 if self.budget.limit is None else scratch_bytes(scratch)
        self._scratches.append(scratch)
        return entry, drawn, size

    def _fetched(self, sampled: _SampledBatch) -> Batch | WalkBatch:
        """Return the batch with its node features."""
        with self.features.reading(sampled.seeds.number) as view:
            batch = assemble(
                view,
                self.drawer,
                self.seeds,
                sampled.entry,
                sampled.drawn,
                self._transfer,
                index=sampled.seeds.index,
                lineage=dict(sampled.lineage),
            )
        if self.budget.limit is not None:
            self.budget.made(_bytes(batch, sampled.drawn), sampled.scratch)
        return self._transfer.pinned(replace(batch, padding=True) if sampled.seeds.padding else batch)

    def feature_rows(self, seeds: BatchSeeds) -> dict[FeatureKey, Int64s]:
        """Return the rows of each cached feature that a batch reads, in any order. Runs on any thread."""
        entry, scratch = self._expansion.entry(seeds.ordinals, seeds.index[0]), self._scratch()
        subgraph = self.sampler.sample(entry, seeds.number, scratch)
        self._scratches.append(scratch)
        return {
            key: feature.find(host(subgraph.nodes[key[0]]), bounds_of(entry, subgraph, key[0]), strict=False)
            for key, feature in self.features.features.items()
        }

    def _scratch(self) -> Any:
        """Return scratch memory that no other thread uses."""
        try:
            return self._scratches.pop()
        except IndexError:
            return self.drawer.scratch()

    def __getstate__(self) -> dict[str, Any]:
        _check_picklable(self.transform)
        # The sampler refers to the snapshot's edges, which the other process maps itself. Locks and threads cannot be
        # pickled.
        left = {"drawer", "cache", "features", "meter", "_expansion", "_transfer", "_scratches"}
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.drawer = _open_drawer(self.view, self.spec)
        self.meter = NO_METER
        self._open()


def _open_drawer(view: GraphView, spec: SampleSpec) -> NeighborSampler | Walker:
    """Open the sampler of a SAMPLE statement, or the walker of a WALK statement."""
    return open_sampler(view, spec) if spec.walk is None else open_walker(view, spec)


def _bytes(batch: Batch | WalkBatch, drawn: Subgraph | Walks) -> int:
    """Return a batch's size in memory in bytes: its tensors, and the positions for values that are read later."""
    tensors = [part for tensor in batch.tensors() for part in parts(tensor)]
    if isinstance(drawn, Walks):
        later = [drawn.position]
    else:
        later = [values for edges in drawn.edges.values() for values in (edges.position, edges.weight)]
    size = sum(int(values.nbytes) for values in (*tensors, *later) if values is not None)
    return size + size // 8  # recycled buffers are up to an eighth larger than their contents


def _check_picklable(transform: Callable[[Batch], Any] | None) -> None:
    """Raise InputError if a transform cannot be sent to another process."""
    try:
        ForkingPickler.dumps(transform)
    except Exception as error:
        raise InputError(
            f"cannot pickle the transform {transform!r} of a stream for another process ({error}); define it at "
            "the top of a module, or let the DataLoader fork: multiprocessing_context='fork'",
            code="transform",
        ) from error

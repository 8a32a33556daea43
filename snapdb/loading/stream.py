"""A stream of batches: the epochs of a seed set, in an order that does not depend on threads, workers or devices."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Literal, Self

import torch
from torch.utils.data import Dataset, IterableDataset
from typing_extensions import TypeVar

from snapdb.attribute_docs import document_attributes
from snapdb.errors import InputError, SnapdbError
from snapdb.graph.view import GraphView
from snapdb.kernels import buffers
from snapdb.kernels.compilation import reporting_compilation
from snapdb.loading import position
from snapdb.loading.batch import Batch
from snapdb.loading.batch_builder import NO_METER, Meter
from snapdb.loading.device_transfer import one_ahead
from snapdb.loading.epochs import place_among_workers, worker_of
from snapdb.loading.position import Position, stream_lineage
from snapdb.loading.source import Sharing, StreamOptions, StreamSource
from snapdb.loading.visited_rounds import check_any_order
from snapdb.loading.workers import OrderedMap, OrderedWorkers
from snapdb.sampling import NeighborSampler, Seeds
from snapdb.sampling.walker import Walker
from snapdb.types import Published, SampleSpec

Given = TypeVar("Given", default=Batch)
"""The items of a stream: a `Batch`, or a `WalkBatch` for WALK, or the transform's results for them."""

_DEFAULTS = StreamOptions()


@document_attributes
class BatchStream(IterableDataset[Given]):
    """The mini-batches of one seed set, epoch after epoch, as returned by `db.stream`.

    It is a torch IterableDataset: iterate over it, or pass it to a DataLoader with `batch_size=None`. The stream's
    threads sample and fetch batches ahead of the loop. The order of the batches does not depend on threads, workers or
    devices.

    An iteration yields one epoch. The next iteration yields the next epoch, even if the previous one was not read to
    the end. `set_epoch` selects another epoch. Ranks and DataLoader workers share an epoch: together, they yield each
    batch once. The number of batches per rank can differ by one unless `drop_last` or `pad` is set. DataLoader workers
    are forked for each epoch and do not advance the main process's stream: call `set_epoch` before each epoch, or keep
    the workers with `persistent_workers=True`.

    All batches of an epoch come from one publication of the snapshot. Between epochs, `renew` or `follow` switches to
    the newest one.

    Examples:
        >>> import snapdb
        >>> db = snapdb.connect()
        >>> results = db.script('''
        ...     CREATE TABLE person AS SELECT range AS id FROM range(5);
        ...     CREATE TABLE knows AS SELECT range AS a, (range + 1) % 5 AS b FROM range(5);
        ...     CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id))
        ...       EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
        ...     CREATE SNAPSHOT now OF g;
        ... ''')
        >>> sample = "SAMPLE FROM now SEEDS (FROM person SELECT id) AS person FANOUT (knows => [1]) BATCH 2"
        >>> with db.stream(sample) as stream:
        ...     print(len(stream), [batch.batch_size for batch in stream])
        3 [2, 2, 1]
        >>> db.close()
    """

    sharing: Sharing
    """The rank of this process and how ranks share the batches of an epoch."""

    def __init__(self, source: StreamSource, options: StreamOptions = _DEFAULTS, meter: Meter = NO_METER) -> None:
        """Open a stream at the start of epoch 0. Call `db.stream` instead of this constructor.

        Args:
            source: An open snapshot with a seed set. The stream releases it when the stream is closed or switches to
                another source. If the constructor raises an error, the caller must release it.
            options: How batches are built and delivered.
            meter: Measures the work to build batches.

        Raises:
            InputError: The device is not available, or there is not enough memory.
            SnapdbError: The snapshot does not support the sampler.
        """
        super().__init__()
        self.sharing = options.sharing
        self._options, self._meter = options, meter
        self._workers = OrderedWorkers(source, options, meter)
        self._retired: list[OrderedWorkers] = []
        """The workers for earlier publications that iterations still read."""
        self._process = os.getpid()
        self._position = Position()
        self._closed = False

    @property
    def view(self) -> GraphView:
        """The snapshot as arrays."""
        return self._workers.source.view

    @property
    def seeds(self) -> Seeds:
        """The seed set in its canonical order."""
        return self._workers.source.seeds

    @property
    def spec(self) -> SampleSpec:
        """The bound SAMPLE or WALK statement."""
        return self._workers.source.spec

    @property
    def options(self) -> StreamOptions:
        """The options in effect: the arguments of `db.stream`, completed by the statement's clauses."""
        return self._workers.options

    @property
    def published(self) -> Published | None:
        """The snapshot publication that the stream reads, or None if the snapshot does not belong to a database."""
        return self._workers.source.published

    @property
    def sampler(self) -> NeighborSampler:
        """The neighbour sampler. Raises SnapdbError for a stream of random walks, which has a `walker`."""
        return self._workers.builder.sampler

    @property
    def walker(self) -> Walker:
        """The random walker of a stream of walks. Raises SnapdbError for other streams."""
        return self._workers.builder.walker

    @property
    def device(self) -> torch.device:
        """The device of the batches' tensors."""
        return self._workers.builder.device

    @property
    def threads(self) -> int:
        """The number of threads that build batches. DataLoader workers share the cores."""
        return self._workers.threads

    @property
    def batches(self) -> int:
        """The number of batches in the current epoch, over all ranks."""
        return self._workers.epochs.batches(self._position.epoch)

    @property
    def lineage(self) -> dict[str, Any]:
        """The lineage of the current epoch as plain JSON values. `snapdb.replay` rebuilds its batches."""
        return self._lineage(self._position.epoch)

    def __len__(self) -> int:
        """Return the number of batches in the current epoch for this rank.

        Other ranks can have one more, and other epochs of a SUBSET can have a different number.
        """
        return self.length()

    def length(self, epoch: int | None = None) -> int:
        """Return the number of batches in an epoch for this rank.

        Args:
            epoch: The epoch number, starting at 0. Defaults to the current epoch.
        """
        epoch = self._position.epoch if epoch is None else position.checked_epoch(epoch)
        return len(self._workers.epochs.share(epoch).places)

    def __getitem__(self, index: int) -> Given:
        """Return a batch of the current epoch by its index among this rank's batches, starting at 0.

        Raises:
            InputError: The sampler has SCOPE VISITED, under which a batch depends on earlier batches.
            IndexError: This rank has fewer batches.
        """
        check_any_order(self.spec, "stream[i]")
        return self.replayed(self._position.epoch, index)

    def replayed(self, epoch: int, index: int) -> Given:
        """Return a batch of an epoch by its index among this rank's batches, starting at 0.

        Under SCOPE VISITED, all earlier batches are sampled first.
        """
        seeds, builder = self._workers.epochs.batch(epoch, index), self._workers.builder
        self._check_open()
        given: Given = builder.receive(builder.send(self._workers.result(self._lineage(epoch), seeds)))
        return given

    def map_style(self, epoch: int | None = None) -> "MapStyle[Given]":
        """Return an epoch's batches as a map-style torch Dataset, for samplers and shuffling DataLoaders.

        Args:
            epoch: The epoch number, starting at 0. Defaults to the current epoch.

        Raises:
            InputError: The sampler has SCOPE VISITED, under which a batch depends on earlier batches.
        """
        check_any_order(self.spec, "map_style")
        epoch = self._position.epoch if epoch is None else position.checked_epoch(epoch)
        return MapStyle(self.length(epoch), partial(self.replayed, epoch))

    def __iter__(self) -> Iterator[Given]:
        """Yield the batches of one epoch, or the results of `transform`.

        After `load_state_dict`, yield the remainder of an epoch.
        """
        self._check_open()
        at = self._position.following()
        if self._options.follow and at.starts:
            self.renew()
        self._position, workers = at, self._workers
        number, processes = place_among_workers()
        share = workers.epochs.share(at.epoch, at.start)
        # DataLoader workers take batches in turn, because torch's DataLoader yields from its workers in turn. The order
        # is therefore that of a single stream.
        places = share.places[number::processes]
        with workers.iterated(), reporting_compilation(self._options.progress):
            results = workers.results(self._lineage(at.epoch), at.epoch, places[at.taken :])
            sent: Iterator[Any] = map(workers.builder.send, results)
            if self.device.type == "cuda":  # the copy overlaps with the consumer's work on the previous batch
                sent = one_ahead(sent)
            try:
                for taken in range(at.taken, len(places)):
                    yield self._received(replace(at, taken=taken + 1, begun=True), workers, next(sent))
                if share.batches:
                    self._reach(replace(at, taken=len(places), begun=True, ended=True), workers)
            finally:
                workers.builder.features.expect(None)  # threads that wait for packs would delay the end
                if isinstance(results, OrderedMap):
                    results.close()

    def renew(self) -> bool:
        """Switch to the newest publication of the snapshot at the start of the next epoch.

        A publication is a refreshed or replaced snapshot, a replaced sampler or a refreshed cache. The seed query runs
        again. Epoch numbers continue, and batches are those of a stream that is opened now and set to the same epoch.
        An iteration in progress keeps its publication, as does the remainder of an epoch after `load_state_dict`. If
        the snapshot or the sampler was dropped, a RuntimeWarning reports it, and the stream is unchanged.

        Returns:
            Whether there was a newer publication.

        Raises:
            InputError: This process has no open database, as in DataLoader workers.
            SnapdbError: The publication cannot be opened, or its seeds cannot be read. The stream is unchanged.
        """
        self._check_open()
        at, before = self._position.following(), self._workers
        refresh = before.source.refresh
        if refresh is None or os.getpid() != self._process:
            raise _cannot_renew()
        # The remainder of an epoch keeps its publication, because all batches of an epoch come from one publication.
        source = refresh() if at.starts else None
        if source is None:
            return False
        before.pause()
        try:
            with source.located():
                self._workers = OrderedWorkers(source, self._options, self._meter)
        except BaseException:
            source.release()
            raise
        self._position = at
        self._retired = [workers for workers in (*self._retired, before) if workers.retire()]
        return True

    def set_epoch(self, epoch: int) -> None:
        """Set the current epoch, which the next iteration yields from the start.

        Args:
            epoch: The epoch number, starting at 0.
        """
        self._position = Position(position.checked_epoch(epoch))

    def state_dict(self, *, consumed: int | None = None) -> dict[str, Any]:
        """Return the training loop's position as plain JSON values. It counts batches consumed, not batches built.

        The position counts the epoch's batches over all ranks, and assumes that each rank has consumed as many as this
        one. It can be loaded by a stream with any number of threads, DataLoader workers and ranks. In a DataLoader
        worker, it is the position of only that worker.

        Args:
            consumed: The number of batches that this rank's loop has consumed in the current epoch, or since a state
                was loaded. Pass it if DataLoader workers read the stream. Defaults to the number of batches taken from
                this object.
        """
        at = self._position
        share = self._workers.epochs.share(at.epoch, at.start)
        if consumed is not None:
            at = replace(at, taken=position.checked_count(consumed, share), ended=False)
        rows = self._workers.state(self._workers.epochs.taken_last(at))
        return {**at.saved(share, worker_of(self.sharing)), **rows, **self._workers.identity}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume at a saved position: the next iteration yields this rank's share of the remainder of that epoch.

        Args:
            state: The result of `state_dict`, with any number of threads, workers and ranks.

        Raises:
            InputError: The state belongs to another seed set, sampler, snapshot, rng scheme or DataLoader worker.
        """
        at = position.loaded(state, self._workers.identity, self._workers.epochs.batches, worker_of(self.sharing))
        self._workers.load(state)
        self._position = at

    def cache_stats(self, what: Literal["EDGES", "FEATURES"] = "EDGES") -> Mapping[str, Any] | None:
        """Return the statistics of this process's cache: cache hits, cache misses, bytes saved and others, by name.

        Returns None if the sampler has no such cache or does not use it, or before the first batch.
        `snapdb.types.CacheStats` and `snapdb.types.FeatureCacheStats` document the fields.

        Args:
            what: Which of the sampler's caches: that of edges, or that of features.
        """
        builder = self._workers.builder
        by_kind = {"EDGES": builder.cache.stats, "FEATURES": builder.features.stats}
        if what not in by_kind:
            raise ValueError(f"what must be 'EDGES' or 'FEATURES', found {what!r}")
        return by_kind[what]()

    def close(self) -> None:
        """Stop the threads and release the snapshot's files. Batches that were yielded remain valid."""
        self._closed = True
        for workers in (self._workers, *self._retired):
            workers.end()
        # Some free blocks are kept for the next stream, so that its first batches do not cause page faults.
        buffers.keep_free(self.threads + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        kind = f"{self.seeds.type} seeds" if self.spec.link is None else f"{self.spec.link.edge.edge} edges as seeds"
        share = f"{len(self)} batches" if self.sharing == Sharing() else f"{len(self)} of {self.batches} batches"
        ranks = "" if self.sharing.world_size == 1 else f", {self.sharing.words(self.batches)}"
        return f"BatchStream({share} of {self.spec.batch_size} {kind}, epoch {self._position.epoch}{ranks})"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for spawned DataLoader workers, without the database and the meter."""
        options = replace(self._options, transform=None, progress=None)  # the builder has the transform
        return {**self.__dict__, "_options": options, "_meter": NO_METER, "_retired": []}

    def _received(self, at: Position, workers: OrderedWorkers, sent: Any) -> Given:
        """Return the batch for the consumer, which is then at position `at`."""
        given: Given = workers.builder.receive(sent)
        self._check_open()
        self._reach(at, workers)
        return given

    def _reach(self, at: Position, workers: OrderedWorkers) -> None:
        """Move to the position, unless another iteration has overtaken this one."""
        # Several iterations can run at once, but only the one that owns the position advances it.
        if workers is self._workers and at.epoch == self._position.epoch:
            self._position = at
            workers.forget(workers.epochs.taken_last(at))

    def _lineage(self, epoch: int) -> dict[str, Any]:
        seeds, builder = self._workers.identity["seeds"], self._workers.builder
        return stream_lineage(self.view, builder.spec, seeds, builder.rules, epoch, builder.zero_weight)

    def _check_open(self) -> None:
        if self._closed:
            raise SnapdbError("this stream is closed; open a new stream with db.stream(…)", code="stream-closed")


class MapStyle(Dataset[Given], Generic[Given]):
    """The batches of one epoch. Each batch is built when it is indexed, in the indexing process."""

    def __init__(self, batches: int, batch: Callable[[int], Given]) -> None:
        """`batch` builds the batch at an index below `batches`, and always returns the same one."""
        self._batches, self._batch = batches, batch

    def __len__(self) -> int:
        return self._batches

    def __getitem__(self, index: int) -> Given:
        return self._batch(index)

    def __repr__(self) -> str:
        return f"MapStyle({self._batches} batches)"


def _cannot_renew() -> InputError:
    return InputError(
        "follow=True is supported only in the process that opened the stream; read it without "
        "workers (num_workers=0, because the stream has its own threads), or open it without follow=True and call "
        "stream.renew() in the process of the loop before each epoch, with workers that are not persistent",
        code="cannot-follow",
    )

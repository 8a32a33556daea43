"""A stream of batches: the epochs of a seed set, sampled by threads, in an order that never depends on them."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

import torch
from torch.utils.data import IterableDataset
from typing_extensions import TypeVar

from snapdb.errors import InputError, SnapdbError
from snapdb.graph.view import GraphView
from snapdb.kernels import buffers
from snapdb.loading import position
from snapdb.loading.audit import rules
from snapdb.loading.batch import Batch
from snapdb.loading.batch_threads import BatchThreads, Report
from snapdb.loading.device import one_ahead
from snapdb.loading.lineage import stream_lineage, zero_weight
from snapdb.loading.maker import Maker
from snapdb.loading.map_style import MapStyle
from snapdb.loading.options import Options
from snapdb.loading.ordered import Ordered
from snapdb.loading.position import Position
from snapdb.loading.reading import Asked, Reading
from snapdb.loading.shares import Sharing
from snapdb.loading.shelf import CacheSource
from snapdb.loading.source import Source, nothing_held
from snapdb.loading.visits import check_any_order
from snapdb.loading.worker import place_among_workers, worker_of
from snapdb.sampling import Seeds
from snapdb.types import ExecutionHints, Published, SampleSpec

Given = TypeVar("Given", default=Batch)
"""What a stream gives: batches, or what its transform makes of them."""


class BatchStream(IterableDataset[Given]):
    """Batches of one seed set, epoch after epoch; give it to a DataLoader with `batch_size=None`, or just iterate.

    An iteration is one epoch. The next iteration takes the next epoch, whether this one was read to its end or left
    early; `set_epoch` says another. Ranks and DataLoader workers share an epoch by index: together they give what a
    single stream gives, each batch once. So ranks may differ by one batch, unless `drop_last` or `pad` is said.
    DataLoader workers are forked anew for each epoch, and so do not advance the stream that they were forked from:
    call `set_epoch` before each, or keep them with `persistent_workers=True`.

    All batches of an epoch are of one publication of the snapshot. Between epochs `renew`, or `follow`, goes on to what
    was published since.
    """

    def __init__(
        self,
        view: GraphView,
        seeds: Seeds,
        spec: SampleSpec,
        *,
        threads: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        pad: bool = False,
        transform: Callable[[Batch], Given] | None = None,
        device: str | None = None,
        prefetch: int | None = None,
        memory: int | None = None,
        most: int | None = None,
        hints: ExecutionHints = ExecutionHints(),  # noqa: B008  # frozen
        cache: CacheSource | None = None,
        report: Report | None = None,
        release: Callable[[], None] = nothing_held,
        published: Published | None = None,
        newer: Callable[[], Source | None] | None = None,
        follow: bool = False,
    ) -> None:
        """Opens a stream at the start of epoch 0.

        Args:
            view: the snapshot.
            seeds: the seed set in its canonical order.
            spec: the bound SAMPLE statement.
            threads: how many sample side by side; None: all cores, or two where a GPU samples; 0: the caller's own.
            rank: which share of the batches is given, of `world_size` shares.
            drop_last: leave out a last batch of fewer seeds than BATCH, and batches that not every rank would get.
            pad: repeat the epoch's first batches for ranks that would have one fewer.
            transform: a pure function of a batch; what it returns is given in the batch's place.
            device: where the batches' tensors are; None: where the statement's ON says, else on the CPU.
            prefetch: how many batches may be ready or under way; None: twice the threads.
            memory: bytes for scratch and for batches that are ready or under way; None: as the statement says.
            most: how many threads may be taken where `threads` does not say; None: all cores.
            way: how batches are made, which changes none; `threads` is said before its own.
            cache: where rows may be kept between batches, which changes none.
            report: told of long work before a batch, and how much of it is done.
            release: called once, when the stream is closed or dropped, or has gone on.
            published: which publication of its snapshot the view is.
            newer: opens what was published since, if anything was.
            follow: look for that at the start of each epoch.

        Raises:
            ValueError: an argument is out of its range.
            InputError: the device is not there, or the memory is not enough.
        """
        super().__init__()
        self._asked = Asked(threads, prefetch, memory, most, device, transform, report)
        self.sharing = Sharing(rank, world_size, drop_last, pad)
        if follow and world_size > 1:
            raise ValueError(
                f"a stream that follows its snapshot is read by one process, found {world_size} ranks, which might "
                "find different publications; let each rank call stream.renew() after a barrier, and compare "
                "stream.published.id over the ranks before the epoch"
            )
        source = Source(view, seeds, spec, hints, cache, published, release, newer)
        self._reading = Reading(source, self._asked, self.sharing)
        self._left: list[Reading] = []
        """Those before it that are still iterated."""
        self._follow, self._process = follow, os.getpid()
        self._position = Position()
        self._closed = False

    @property
    def view(self) -> GraphView:
        """The snapshot."""
        return self._reading.source.view

    @property
    def seeds(self) -> Seeds:
        """The seed set in its canonical order."""
        return self._reading.source.seeds

    @property
    def spec(self) -> SampleSpec:
        """The bound SAMPLE statement."""
        return self._reading.source.spec

    @property
    def options(self) -> Options:
        """How many threads and batches ahead there may be."""
        return self._reading.options

    @property
    def published(self) -> Published | None:
        """Which publication of its snapshot the stream reads; None: the snapshot is of no database."""
        return self._reading.source.published

    @property
    def sampler(self) -> Any:
        """What draws neighbourhoods: `Sampler`, or `TorchSampler`."""
        return self._maker.sampler

    @property
    def _maker(self) -> Maker:
        return self._threads.maker

    @property
    def _threads(self) -> BatchThreads:
        return self._reading.threads

    @property
    def device(self) -> torch.device:
        """Where the batches' tensors are."""
        return self._maker.device

    @property
    def threads(self) -> int:
        """How many make batches; DataLoader workers share the cores."""
        return self._threads.threads

    @property
    def batches(self) -> int:
        """Batches of the current epoch, over all ranks."""
        return self._reading.epochs.batches(self._position.epoch)

    @property
    def lineage(self) -> dict[str, Any]:
        """Where the current epoch's batches come from, as plain values for JSON; `snapdb.replay` makes one again."""
        return self._lineage(self._position.epoch)

    def __len__(self) -> int:
        """Batches of the current epoch for this rank; others may have one more, and so may other epochs of a SUBSET."""
        return self.length()

    def length(self, epoch: int | None = None) -> int:
        """Batches of an epoch for this rank; None: of the current one."""
        epoch = self._position.epoch if epoch is None else position.checked_epoch(epoch)
        return len(self._reading.epochs.share(epoch).places)

    def __getitem__(self, index: int) -> Given:
        """The batch that an iteration of the whole current epoch gives at this place; refused under SCOPE VISITED."""
        check_any_order(self.spec, "stream[i]")
        return self.replayed(self._position.epoch, index)

    def replayed(self, epoch: int, index: int) -> Given:
        """This rank's batch of an epoch; under SCOPE VISITED all batches before it are sampled first."""
        task = self._reading.epochs.task(epoch, index)
        self._check_open()
        made = self._threads.result(self._lineage(epoch), task)
        given: Given = self._maker.received(self._maker.sent(made))
        return given

    def map_style(self, epoch: int | None = None) -> MapStyle[Given]:
        """An epoch's batches as a torch Dataset for samplers and shuffling DataLoaders; None: the current epoch's.

        Under SCOPE VISITED, where a batch depends on those before it, that is refused.
        """
        check_any_order(self.spec, "map_style")
        epoch = self._position.epoch if epoch is None else position.checked_epoch(epoch)
        return MapStyle(self.length(epoch), partial(self.replayed, epoch))

    def __iter__(self) -> Iterator[Given]:
        """One epoch, or after `load_state_dict` the rest of one; where a transform was given, what it returns."""
        self._check_open()
        at = self._position.following()
        if self._follow and at.starts:
            self.renew()
        self._position, reading = at, self._reading
        number, workers = place_among_workers()
        share = reading.epochs.share(at.epoch, at.start)
        places = share.places[number::workers]
        with reading.iterated():
            results = reading.threads.results(self._lineage(at.epoch), at.epoch, places[at.taken :])
            sent = map(reading.threads.maker.sent, results)
            # A copy to a GPU goes on while the reader works with the batch before.
            handed = one_ahead(sent) if self.device.type == "cuda" else sent
            try:
                for taken in range(at.taken, len(places)):
                    yield self._handed(replace(at, taken=taken + 1, begun=True), reading, next(handed))
                if share.batches:
                    self._reach(replace(at, taken=len(places), begun=True, ended=True), reading)
            finally:
                if isinstance(results, Ordered):
                    results.close()

    def renew(self) -> bool:
        """Goes on to what was published since, from the start of the next epoch on; whether anything was.

        That is the snapshot refreshed or replaced, the sampler replaced, or its cache refreshed. Seeds are asked for
        anew. Epochs count on, and batches are those of a stream opened now, after `set_epoch`. An iteration that is
        under way keeps what it began with, and so does the rest of an epoch after `load_state_dict`. Where the
        snapshot or the sampler was dropped, a RuntimeWarning says so, and the stream goes on with what it has.

        Raises:
            InputError: no database is there to look in, as in DataLoader workers.
            SnapdbError: what was published cannot be opened, or its seeds cannot be read. The stream stays where it is.
        """
        self._check_open()
        at, was = self._position.following(), self._reading
        newer = was.source.newer
        if newer is None or os.getpid() != self._process:
            raise _cannot_renew()
        source = newer() if at.starts else None
        if source is None:
            return False
        was.pause()
        try:
            with source.about():
                self._reading = Reading(source, self._asked, self.sharing)
        except BaseException:
            source.release()
            raise
        self._position = at
        self._left = [reading for reading in (*self._left, was) if reading.retire()]
        return True

    def set_epoch(self, epoch: int) -> None:
        """Makes this the current epoch: the next iteration gives it from its start, the one after that the next."""
        self._position = Position(position.checked_epoch(epoch))

    def state_dict(self, *, consumed: int | None = None) -> dict[str, Any]:
        """Where the readers are, as plain values for JSON: what loops have taken, not what threads have ready.

        It counts the batches of the epoch over all ranks, of which each has taken as many as this one: it fits a
        stream of any number of threads, DataLoader workers and ranks. In a DataLoader worker it is the worker's own.

        Args:
            consumed: how many batches this rank's loop has taken of the current epoch, or since a state was loaded:
                where DataLoader workers read the stream, it cannot know; None: as many as were taken from here.
        """
        at = self._position
        share = self._reading.epochs.share(at.epoch, at.start)
        if consumed is not None:
            at = replace(at, taken=position.checked_count(consumed, share), ended=False)
        rows = self._threads.saved(self._reading.epochs.taken_last(at))
        return {**position.saved(at, share, worker_of(self.sharing)), **rows, **self._reading.identity}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where streams were: the next iteration gives this rank's share of what was left of that epoch.

        Raises:
            InputError: the state is of another seed set, sampler, snapshot, rng scheme or DataLoader worker.
        """
        at = position.loaded(state, self._reading.identity, self._reading.epochs.batches, worker_of(self.sharing))
        self._threads.load(state)
        self._position = at

    def cache_stats(self) -> Mapping[str, Any] | None:
        """How full the cache of this process is, and what it was good for; None: it has none, or not yet.

        The fields of `snapdb.types.CacheStats`, by their names.
        """
        return self._maker.cache.stats()

    def close(self) -> None:
        """Stops the threads and lets go of the snapshot's files. Batches that were given stay good."""
        self._closed = True
        for reading in (self._reading, *self._left):
            reading.end()
        buffers.release_free()

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
        """For DataLoader workers that are spawned: the database stays behind."""
        state = {name: value for name, value in self.__dict__.items() if name != "_asked"}
        return {**state, "_left": []}

    def _handed(self, at: Position, reading: Reading, sent: Any) -> Given:
        """What the reader gets, who is then there."""
        given: Given = reading.threads.maker.received(sent)
        self._check_open()
        self._reach(at, reading)
        return given

    def _reach(self, at: Position, reading: Reading) -> None:
        """Goes there, unless another iteration has overtaken the one that says so."""
        if reading is self._reading and at.epoch == self._position.epoch:
            self._position = at
            reading.threads.forget(reading.epochs.taken_last(at))

    def _lineage(self, epoch: int) -> dict[str, Any]:
        seeds, sampler = self._reading.identity["seeds"], self.sampler
        return stream_lineage(self.view, self.spec, seeds, rules(sampler), epoch, zero_weight(sampler))

    def _check_open(self) -> None:
        if self._closed:
            raise SnapdbError("this stream is closed; open another one with db.stream(…)", code="stream-closed")


def _cannot_renew() -> InputError:
    return InputError(
        "only the process that opened a stream of a database can look for what was published since; read it without "
        "workers (num_workers=0: the stream has threads of its own), or open it without follow=True and call "
        "stream.renew() in the process of the loop before each epoch, with workers that are not persistent",
        code="cannot-follow",
    )

"""One whole batch on one thread: who enters, what is sampled, what is read, and the way to the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import torch

from snapdb.arrays import Int64s
from snapdb.errors import InputError
from snapdb.graph.features import for_random_reads
from snapdb.graph.view import GraphView
from snapdb.loading.assemble import assemble
from snapdb.loading.batch import Batch
from snapdb.loading.budget import Budget, scratch_bytes
from snapdb.loading.device import Delivery, Sent, usable
from snapdb.loading.keeping import Keeping
from snapdb.loading.rows import parts
from snapdb.loading.shelf import CacheSource
from snapdb.loading.visits import Visits
from snapdb.sampling import Entry, Seeds, Subgraph
from snapdb.sampling.backends import open_sampler
from snapdb.sampling.entrance import Entrance
from snapdb.sampling.memory import enough_memory
from snapdb.sampling.rounds import Rounds
from snapdb.types import ExecutionHints, SampleSpec


@dataclass(frozen=True, slots=True)
class Task:
    """A batch that is to be made."""

    index: tuple[int, int]
    """(epoch, batch within the epoch)."""
    number: int
    """The global batch number, which draws depend on."""
    ordinals: Int64s
    """The seeds."""
    padding: bool = False
    """Whether the batch is one of the epoch's first again."""
    between: tuple[Task, ...] = ()
    """Where rows depend on the batches before: those since the last of this reader's, which he does not get."""


class _Drawn(NamedTuple):
    """A batch that is sampled, whose features are to be read."""

    task: Task
    entry: Entry
    subgraph: Subgraph
    scratch: int
    """Bytes of the memory that it was made with, where these count."""
    lineage: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Ready:
    """What the reader gets of a batch, where nothing is left to be done."""

    value: Any


class Maker:
    """Makes the batches of a stream. Threads share it; each borrows a scratch for the time of a batch."""

    def __init__(
        self,
        view: GraphView,
        seeds: Seeds,
        spec: SampleSpec,
        device: str | None,
        memory: int | None,
        hints: ExecutionHints,
        transform: Callable[[Batch], Any] | None = None,
        cache: CacheSource | None = None,
    ) -> None:
        """Opens the sampler.

        Args:
            device: where batches go; None: where they are sampled.
            memory: bytes that may be taken; None: any.
            way: how batches are made, which changes none.
            transform: makes of a batch what the reader gets: on the thread that made it, where it goes to the CPU.
            cache: where rows may be kept between batches; no batch depends on it.

        Raises:
            InputError: a device is not there, or the scratch of one thread alone takes more memory.
            SnapdbError: the snapshot cannot be sampled so.
            TypeError: the transform is no function.
        """
        if transform is not None and not callable(transform):
            raise TypeError(f"transform is a function of a batch, found {transform!r}")
        self.view, self.seeds, self.spec, self.fused = view, seeds, hints.applied(spec), hints.fused
        self.sampler: Any = open_sampler(view, self.spec)
        self.device = usable(device or spec.device or "cpu")
        self.transform = transform
        self.budget = Budget(memory)
        self._caches = cache
        self._open()
        if memory is not None:
            self._idle.append(self.sampler.scratch())
            self.budget.made(0, scratch_bytes(self._idle[0]))

    def _open(self) -> None:
        """What does not travel to other processes."""
        self.cache = Keeping(self._caches, self.sampler, self.view.node_counts, self.seeds)
        self.view = for_random_reads(self.view, self.sampler.relations, self.cache.wanted())
        self._entrance = Entrance(self.view, self.spec, self.seeds)
        self._delivery = Delivery(self.device, self.view, self.sampler.node_types)
        self._idle: deque[Any] = deque()

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU samples."""
        device: torch.device | None = getattr(self.sampler, "device", None)
        return device is not None and device.type == "cuda"

    def visits(self, saved: Any = None) -> Visits:
        """The rows as they are before batch 0, or before the batches of a window that was saved."""
        return Visits(self.spec, self.sampler.walks, saved)

    def make(self, lineage: Mapping[str, Any], visits: Visits | None, task: Task) -> Batch | _Drawn | _Ready:
        """The batch, ready to go to the device, or only sampled, or at its end; runs on any thread.

        `visits` tell its rows, where these depend on the batches before.
        """
        for other in task.between:
            self.visit(visits, other)
        with self._about(task, visits):
            drawn = self._drawn(lineage, visits, task)
            if not self.fused:
                return drawn
            batch = self._gathered(drawn)
        if self.transform is None or self.device.type != "cpu":
            return batch
        return _Ready(self.received(self.sent(batch)))

    def visit(self, visits: Visits | None, task: Task) -> None:
        """Samples a batch that is not wanted, for the rows that it comes by."""
        with self._about(task, visits):
            self._sampled(visits, task)

    def sent(self, made: Batch | _Drawn | _Ready) -> Sent | _Ready:
        """The batch on its way to the device, its features read."""
        if isinstance(made, _Ready):
            return made
        if isinstance(made, _Drawn):
            with self._about(made.task):
                made = self._gathered(made)
        return self._delivery.sent(made)

    def received(self, sent: Sent | _Ready) -> Any:
        """The batch, for the reader's thread, or what the transform makes of it."""
        if isinstance(sent, _Ready):
            return sent.value
        batch = self._delivery.received(sent)
        return batch if self.transform is None else self._transformed(self.transform, batch)

    def room(self, threads: int, ahead: int, sharers: int, under_way: int) -> int:
        """How many batches may be ready or under way now; scratch of threads that must pause is let go."""
        many = self.budget.room(threads, ahead, sharers, under_way)
        self.rest(min(many, threads))
        return many

    def rest(self, threads: int) -> None:
        """Lets go of the scratch of all threads but so many."""
        while len(self._idle) > threads:
            with suppress(IndexError):  # a thread took it meanwhile
                self._idle.pop()

    @contextmanager
    def _about(self, task: Task, visits: Visits | None = None) -> Iterator[None]:
        """The block works on a batch: beside the reader's work on the device, and an error of it tells which."""
        try:
            with enough_memory(*task.index), self._delivery.working():
                yield
        except Exception as error:
            error.add_note(f"while making batch {task.index[1]} of epoch {task.index[0]}")
            if visits is not None:
                visits.fail()
            raise

    def _transformed(self, transform: Callable[[Batch], Any], batch: Batch) -> Any:
        try:
            return transform(batch)
        except Exception as error:
            error.add_note(f"in the transform of batch {batch.index[1]} of epoch {batch.index[0]}")
            if isinstance(error, AttributeError) and isinstance(error.obj, Batch):
                error.add_note("a transform takes a snapdb.Batch; for one of PyG's say lambda batch: T(batch.to_pyg())")
            raise

    def _drawn(self, lineage: Mapping[str, Any], visits: Visits | None, task: Task) -> _Drawn:
        return _Drawn(task, *self._sampled(visits, task), lineage)

    def _sampled(self, visits: Visits | None, task: Task) -> tuple[Entry, Subgraph, int]:
        """Who enters a batch, their neighbourhood, and the bytes of scratch that it took, where these count."""
        entry = self._entrance.entry(task.ordinals, task.index[0])
        scratch = self._scratch()
        sample = partial(self._neighbourhood, entry, task.number, scratch)
        subgraph = sample() if visits is None else visits.sampled(task.number, sample)
        # After a failure it may be half-written, and is dropped. Whoever measures it must have it for himself.
        taken = 0 if self.budget.limit is None else scratch_bytes(scratch)
        self._idle.append(scratch)
        return entry, subgraph, taken

    def _neighbourhood(self, entry: Entry, number: int, scratch: Any, rounds: Rounds | None = None) -> Subgraph:
        self.cache.begin(number, rounds)
        found: Subgraph = self.sampler.sample(entry, number, scratch, rounds)
        return found

    def _gathered(self, drawn: _Drawn) -> Batch:
        batch = assemble(
            self.view,
            self.sampler,
            self.seeds,
            drawn.entry,
            drawn.subgraph,
            self._delivery,
            index=drawn.task.index,
            lineage=dict(drawn.lineage),
        )
        if self.budget.limit is not None:
            self.budget.made(_bytes(batch, drawn.subgraph), drawn.scratch)
        return self._delivery.packed(replace(batch, padding=True) if drawn.task.padding else batch)

    def _scratch(self) -> Any:
        """A scratch that no thread uses."""
        try:
            return self._idle.pop()
        except IndexError:
            return self.sampler.scratch()

    def __getstate__(self) -> dict[str, Any]:
        _check_travels(self.transform)
        # The sampler holds a snapshot's edges, which the other process maps for itself.
        left = {"sampler", "cache", "_entrance", "_delivery", "_idle"}
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.sampler = open_sampler(self.view, self.spec)
        self._open()


def _bytes(batch: Batch, subgraph: Subgraph) -> int:
    """What a batch keeps in memory: its tensors, and the positions by which the rest is read."""
    tensors = [part for tensor in batch.tensors() for part in parts(tensor)]
    later = [values for drawn in subgraph.edges.values() for values in (drawn.position, drawn.weight)]
    size = sum(int(values.nbytes) for values in (*tensors, *later) if values is not None)
    return size + size // 8  # by so much at most recycled blocks are larger than what is in them


def _check_travels(transform: Callable[[Batch], Any] | None) -> None:
    """Refuses a transform that cannot be sent to another process."""
    try:
        ForkingPickler.dumps(transform)
    except Exception as error:
        raise InputError(
            f"the stream is sent to another process, but its transform {transform!r} cannot be ({error}); define it at "
            "the top of a module, or let the DataLoader fork: multiprocessing_context='fork'",
            code="transform",
        ) from error

"""A stream of batches: the epochs of a seed set, sampled by threads, in an order that never depends on them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import IterableDataset, get_worker_info

from snapdb.errors import SnapdbError
from snapdb.graph.view import GraphView
from snapdb.kernels import buffers
from snapdb.loading import position
from snapdb.loading.audit import rules
from snapdb.loading.batch import Batch
from snapdb.loading.device import Sent, one_ahead
from snapdb.loading.maker import Drawn, Maker, Task
from snapdb.loading.options import Options
from snapdb.loading.ordered import Ordered
from snapdb.release import __version__
from snapdb.sampling import Seeds, batches_before, batches_in, epoch_order
from snapdb.types import RNG_SCHEME, SampleSpec, Way

__all__ = ["BatchStream"]

Int64s = npt.NDArray[np.int64]


class BatchStream(IterableDataset[Batch]):
    """Batches of one seed set, epoch after epoch; give it to a DataLoader with `batch_size=None`, or just iterate.

    An iteration is one epoch. The next iteration takes the next epoch, whether this one was read to its end or left
    early; `set_epoch` says another. Ranks and DataLoader workers share an epoch by index: together they give what a
    single stream gives. DataLoader workers are forked anew for each epoch, and so do not advance the stream that they
    were forked from: call `set_epoch` before each, or keep them with `persistent_workers=True`.
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
        device: str | None = None,
        prefetch: int | None = None,
        memory: int | None = None,
        most: int | None = None,
        way: Way = Way(),  # noqa: B008  # frozen
        release: Callable[[], None] | None = None,
    ) -> None:
        """Opens a stream at the start of epoch 0.

        Args:
            view: the snapshot.
            seeds: the seed set in its canonical order.
            spec: the bound SAMPLE statement.
            threads: how many sample side by side; None: all cores, or two where a GPU samples; 0: the caller's own.
            rank: which share of the batches is given, of `world_size` equal shares.
            device: where the batches' tensors are; None: where the statement's ON says, else on the CPU.
            prefetch: how many batches may be ready or under way; None: twice the threads.
            memory: bytes for scratch and for batches that are ready or under way; None: as the statement says.
            most: how many threads may be taken where `threads` does not say; None: all cores.
            way: how batches are made, which changes none; `threads` is said before its own.
            release: called once, when the stream is closed or dropped.

        Raises:
            ValueError: an argument is out of its range.
            InputError: the device is not there, or the memory is not enough.
        """
        super().__init__()
        threads, memory = way.threads if threads is None else threads, spec.memory if memory is None else memory
        self.options = Options(threads, rank, world_size, prefetch, memory, most)
        self.view, self.seeds, self.spec = view, seeds, spec
        self._maker = Maker(view, seeds, spec, device, self.options.memory, way)
        self._identity = position.identity(view, seeds, spec, world_size)
        self._epoch = 0
        self._taken = 0
        self._resumed = False
        self._order: tuple[int, Int64s] | None = None
        self._running: weakref.WeakSet[Ordered[Task, Batch | Drawn]] = weakref.WeakSet()
        self._closed = False
        self._release = weakref.finalize(self, _in_process, os.getpid(), release)

    @property
    def sampler(self) -> Any:
        """What draws neighbourhoods: `Sampler`, or `TorchSampler`."""
        return self._maker.sampler

    @property
    def device(self) -> torch.device:
        """Where the batches' tensors are."""
        return self._maker.device

    @property
    def threads(self) -> int:
        """How many make batches; DataLoader workers share the cores."""
        worker = get_worker_info()
        return self.options.threads_of(worker.num_workers if worker else 1, on_gpu=self._maker.on_gpu)

    @property
    def batches(self) -> int:
        """Batches of the current epoch, over all ranks."""
        return batches_in(self.seeds.ids.size, self.spec, self._epoch)

    def __len__(self) -> int:
        """Batches of the current epoch for this rank: with SUBSET, epochs may differ by one."""
        return len(self._share(self._epoch))

    def __getitem__(self, index: int) -> Batch:
        """The batch that an iteration of the current epoch gives at this place, sampled on its own."""
        if isinstance(index, bool) or not isinstance(index, int):
            raise TypeError(f"batches are numbered from 0: a whole number is needed, found {index!r}")
        shares = self._share(self._epoch)
        if not -len(shares) <= index < len(shares):
            raise IndexError(
                f"batch {index} was asked, but an epoch has {len(shares)} batches here (they count from 0)"
            )
        self._check_open()
        task = self._task(self._epoch, shares[index], self._ordinals(self._epoch))
        return self._maker.received(self._maker.sent(self._maker.make(self._lineage(self._epoch), task)))

    def __iter__(self) -> Iterator[Batch]:
        """One epoch, or after `load_state_dict` the rest of one."""
        self._check_open()
        start = self._begin()
        epoch = self._epoch
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        share = self._share(epoch)
        places = range(start + number, len(share), workers)
        results = self._results(epoch, [share[place] for place in places], workers)
        sent = map(self._maker.sent, results)
        # A copy to a GPU goes on while the reader works with the batch before.
        handed = one_ahead(sent) if self.device.type == "cuda" else sent
        try:
            for place in places:
                yield self._handed(epoch, place, next(handed))
        finally:
            if isinstance(results, Ordered):
                results.close()

    def set_epoch(self, epoch: int) -> None:
        """Makes this the current epoch: the next iteration gives it from its start, the one after that the next."""
        if not isinstance(epoch, int) or isinstance(epoch, bool) or not 0 <= epoch < 2**31:
            raise ValueError(f"an epoch is a whole number from 0 up to 2^31, found {epoch!r}")
        self._epoch, self._taken, self._resumed = epoch, 0, False

    def state_dict(self) -> dict[str, Any]:
        """Where the reader is, as plain values for JSON: the batches taken, not those that threads have ready."""
        done = 0 < len(self) == self._taken
        place = {"epoch": self._epoch + 1, "consumed": 0} if done else {"epoch": self._epoch, "consumed": self._taken}
        return {**place, **self._identity}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where a stream was: the next iteration gives the rest of that epoch.

        Raises:
            InputError: the state is of another seed set, sampler, snapshot, number of ranks or rng scheme.
        """
        self._epoch, self._taken = position.checked(state, self._identity, lambda epoch: len(self._share(epoch)))
        self._resumed = True

    def close(self) -> None:
        """Stops the threads and lets go of the snapshot's files. Batches that were given stay good."""
        self._closed = True
        for running in list(self._running):
            running.close()
        self._maker.rest(0)
        buffers.release_free()
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        kind = f"{self.seeds.type} seeds" if self.spec.link is None else f"{self.spec.link.edge.edge} edges as seeds"
        return f"BatchStream({len(self)} batches of {self.spec.batch_size} {kind}, epoch {self._epoch})"

    def __getstate__(self) -> dict[str, Any]:
        """For DataLoader workers that are spawned: threads, scratch and the duty to release stay behind."""
        left = {"_running", "_release", "_order"}
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._order = None
        self._running = weakref.WeakSet()
        self._release = weakref.finalize(self, _in_process, os.getpid(), None)

    def _begin(self) -> int:
        """Moves to the epoch that an iteration starting now gives; returns how much of it was taken before."""
        if self._taken and not self._resumed:
            self._epoch, self._taken = self._epoch + 1, 0
        self._resumed = False
        return self._taken

    def _share(self, epoch: int) -> range:
        """The batches of an epoch that are this rank's."""
        return range(self.options.rank, batches_in(self.seeds.ids.size, self.spec, epoch), self.options.world_size)

    def _handed(self, epoch: int, place: int, sent: Sent) -> Batch:
        """The batch, counted as taken; an iteration that another one has overtaken does not count."""
        self._check_open()
        if epoch == self._epoch:
            self._taken = place + 1
        return self._maker.received(sent)

    def _results(self, epoch: int, indices: list[int], workers: int) -> Iterator[Batch | Drawn]:
        """The batches in order, where so many processes share the machine."""
        order = self._ordinals(epoch)
        tasks = (self._task(epoch, index, order) for index in indices)
        work = partial(self._maker.make, self._lineage(epoch))
        threads = self.threads
        if threads == 0:
            return map(work, tasks)
        room = partial(self._maker.room, threads, self.options.ahead(threads), workers)
        results = Ordered(work, tasks, threads=threads, room=room)
        self._running.add(results)
        return results

    def _task(self, epoch: int, index: int, order: Int64s) -> Task:
        """Batch `index` of the epoch over all ranks."""
        size, before = self.spec.batch_size, batches_before(self.seeds.ids.size, self.spec, epoch)
        return Task((epoch, index), before + index, order[index * size : (index + 1) * size])

    def _ordinals(self, epoch: int) -> Int64s:
        """The epoch's seed order, kept for the epoch."""
        if self._order is None or self._order[0] != epoch:
            spec = self.spec
            self._order = epoch, epoch_order(self.seeds, spec.seed, epoch, spec.order, spec.subset)
        return self._order[1]

    def _lineage(self, epoch: int) -> dict[str, Any]:
        return {
            **self.view.lineage,
            "sampler": self.spec.text,
            "rng": RNG_SCHEME,
            "seed": self.spec.seed,
            "generation": 0,
            "epoch": epoch,
            "snapdb": __version__,
            "rules": rules(self.sampler),
        }

    def _check_open(self) -> None:
        if self._closed:
            raise SnapdbError("this stream is closed; open another one with db.stream(…)", code="stream-closed")


def _in_process(owner: int, release: Callable[[], None] | None) -> None:
    """Releases in the process that opened the stream; forked workers leave it to their parent."""
    if release is not None and os.getpid() == owner:
        release()

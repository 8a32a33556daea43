"""A stream of batches: the epochs of a seed set, sampled by threads, in an order that never depends on them."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import IterableDataset, get_worker_info

from snapdb.errors import InputError, SnapdbError
from snapdb.graph.view import GraphView
from snapdb.kernels import buffers
from snapdb.loading import position
from snapdb.loading.assemble import assemble
from snapdb.loading.batch import Batch
from snapdb.loading.ordered import Ordered
from snapdb.release import __version__
from snapdb.sampling import Sampler, Scratch, Seeds, epoch_order, node_entry
from snapdb.types import RNG_SCHEME, SampleSpec

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
        device: str = "cpu",
        prefetch: int | None = None,
        release: Callable[[], None] | None = None,
    ) -> None:
        """Opens a stream at the start of epoch 0.

        Args:
            view: the snapshot.
            seeds: the seed set in its canonical order.
            spec: the bound SAMPLE statement.
            threads: how many sample side by side; None: all cores, 0: the caller's own thread.
            rank: which share of the batches is given, of `world_size` equal shares.
            device: where the batches' tensors are.
            prefetch: how many batches may be ready or under way; None: twice the threads.
            release: called once, when the stream is closed or dropped.

        Raises:
            ValueError: an argument is out of its range.
            InputError: the device is not there.
        """
        super().__init__()
        _check(threads, rank, world_size, prefetch)
        self.view, self.seeds, self.spec = view, seeds, spec
        self.threads, self.prefetch = threads, prefetch
        self.rank, self.world_size = rank, world_size
        self.device = _usable(device)
        self.sampler = Sampler(view, spec)
        self.batches = -(-seeds.ids.size // spec.batch_size)
        """Batches of an epoch, over all ranks."""
        self._identity = position.identity(view, seeds, spec, world_size)
        self._epoch = 0
        self._taken = 0
        self._resumed = False
        self._order: tuple[int, Int64s] | None = None
        self._idle: deque[Scratch] = deque()
        self._running: weakref.WeakSet[Ordered[int, Batch]] = weakref.WeakSet()
        self._closed = False
        self._release = weakref.finalize(self, _in_process, os.getpid(), release)

    def __len__(self) -> int:
        """Batches of an epoch for this rank."""
        return len(range(self.rank, self.batches, self.world_size))

    def __getitem__(self, index: int) -> Batch:
        """The batch that an iteration of the current epoch gives at this place, sampled on its own."""
        shares = range(self.rank, self.batches, self.world_size)
        if not -len(shares) <= index < len(shares):
            raise IndexError(
                f"batch {index} was asked, but an epoch has {len(shares)} batches here (they count from 0)"
            )
        self._check_open()
        return self._produce(self._epoch, self._ordinals(self._epoch), self._lineage(self._epoch), shares[index])

    def __iter__(self) -> Iterator[Batch]:
        """One epoch, or after `load_state_dict` the rest of one."""
        self._check_open()
        start = self._begin()
        epoch = self._epoch
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        places = range(start + number, len(self), workers)
        work = partial(self._produce, epoch, self._ordinals(epoch), self._lineage(epoch))
        results = self._results(work, [self.rank + place * self.world_size for place in places], workers)
        try:
            for place in places:
                yield self._handed(epoch, place, next(results))
        finally:
            if isinstance(results, Ordered):
                results.close()

    def set_epoch(self, epoch: int) -> None:
        """Makes this the current epoch: the next iteration gives it from its start, the one after that the next."""
        if not isinstance(epoch, int) or epoch < 0:
            raise ValueError(f"an epoch is a whole number, 0 or more, found {epoch!r}")
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
        self._epoch, self._taken = position.checked(state, self._identity, len(self))
        self._resumed = True

    def close(self) -> None:
        """Stops the threads and lets go of the snapshot's files. Batches that were given stay good."""
        self._closed = True
        for running in list(self._running):
            running.close()
        self._idle.clear()
        buffers.release_free()
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"BatchStream({len(self)} batches of {self.spec.batch_size} {self.seeds.type} seeds, epoch {self._epoch})"
        )

    def __getstate__(self) -> dict[str, Any]:
        """For DataLoader workers that are spawned: threads, scratch and the duty to release stay behind."""
        left = {"_idle", "_running", "_release", "_order"}
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._order = None
        self._idle = deque()
        self._running = weakref.WeakSet()
        self._release = weakref.finalize(self, _in_process, os.getpid(), None)

    def _begin(self) -> int:
        """Moves to the epoch that an iteration starting now gives; returns how much of it was taken before."""
        if self._taken and not self._resumed:
            self._epoch, self._taken = self._epoch + 1, 0
        self._resumed = False
        return self._taken

    def _handed(self, epoch: int, place: int, batch: Batch) -> Batch:
        """The batch, counted as taken; an iteration that another one has overtaken does not count."""
        self._check_open()
        if epoch == self._epoch:
            self._taken = place + 1
        return batch

    def _results(self, work: Callable[[int], Batch], indices: list[int], workers: int) -> Iterator[Batch]:
        threads = max(1, _cores() // workers) if self.threads is None else self.threads
        if threads == 0:
            return map(work, indices)
        ahead = 2 * threads if self.prefetch is None else self.prefetch
        results = Ordered(work, indices, threads=threads, ahead=ahead)
        self._running.add(results)
        return results

    def _produce(self, epoch: int, order: Int64s, lineage: Mapping[str, Any], index: int) -> Batch:
        """Batch `index` of the epoch over all ranks; runs on any thread."""
        try:
            size = self.spec.batch_size
            ordinals = order[index * size : (index + 1) * size]
            scratch = self._scratch()
            number = epoch * self.batches + index
            entry = node_entry(self.seeds.type, self.seeds.ids[ordinals], ordinals)
            subgraph = self.sampler.sample(entry, number, scratch)
            self._idle.append(scratch)  # after a failure it may be half-written, and is dropped
            batch = assemble(
                self.view, self.sampler, self.seeds, ordinals, subgraph, index=(epoch, index), lineage=dict(lineage)
            )
            return batch if self.device.type == "cpu" else batch.to(self.device)
        except Exception as error:
            error.add_note(f"while making batch {index} of epoch {epoch}")
            raise

    def _scratch(self) -> Scratch:
        """A scratch that no thread uses."""
        try:
            return self._idle.pop()
        except IndexError:
            return self.sampler.scratch()

    def _ordinals(self, epoch: int) -> Int64s:
        """The epoch's seed order, kept for the epoch."""
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, epoch_order(self.seeds, self.spec.seed, epoch, self.spec.order)
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
        }

    def _check_open(self) -> None:
        if self._closed:
            raise SnapdbError("this stream is closed; open another one with db.stream(…)")


def _check(threads: int | None, rank: int, world_size: int, prefetch: int | None) -> None:
    for name, value in (("threads", threads), ("prefetch", prefetch), ("rank", rank), ("world_size", world_size)):
        if value is not None and not isinstance(value, int):
            raise ValueError(f"{name} is a whole number, found {value!r}")
    if threads is not None and threads < 0:
        raise ValueError(f"threads is 0 or more, or None for all cores, found {threads}")
    if prefetch is not None and prefetch < 1:
        raise ValueError(f"prefetch is 1 or more, or None for twice the threads, found {prefetch}")
    if world_size < 1:
        raise ValueError(f"world_size is 1 or more, found {world_size}")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank is 0 ≤ rank < world_size = {world_size}, found {rank}")


def _usable(name: str) -> torch.device:
    """The device, once a tensor could be made there."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"{name!r} is not the name of a device: say 'cpu', 'cuda' or 'cuda:1'") from error
    try:
        torch.empty(0, device=device)
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"device {name!r} was asked, but is not usable here ({reason}); say device='cpu'") from error
    return device


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_process(owner: int, release: Callable[[], None] | None) -> None:
    """Releases in the process that opened the stream; forked workers leave it to their parent."""
    if release is not None and os.getpid() == owner:
        release()

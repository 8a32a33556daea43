"""A stream's ordered workers: threads that build the batches of one source and yield them in order."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from snapdb.errors import SnapdbError
from snapdb.loading.batch_builder import NO_METER, BatchBuilder, Lineage, Meter
from snapdb.loading.epochs import BatchSeeds, Epochs, place_among_workers
from snapdb.loading.feature_packs import Coming
from snapdb.loading.position import identity
from snapdb.loading.source import StreamOptions, StreamSource
from snapdb.loading.visited_rounds import VisitedRounds

_I = TypeVar("_I")
_O = TypeVar("_O")


class OrderedMap(Iterator[_O], Generic[_I, _O]):
    """`map(work, items)` over threads.

    Results are in item order. At most `room(in progress)` items are in progress or complete. `room` is called before
    items are submitted. An exception from `work` is raised when its item is due. The threads stop after the last item,
    after an exception, on `close`, and when the iterator is dropped.

    >>> list(OrderedMap(str.upper, ["a", "b", "c"], threads=2, room=lambda under_way: 4))
    ['A', 'B', 'C']
    """

    def __init__(
        self,
        work: Callable[[_I], Any],
        items: Iterable[_I],
        *,
        threads: int,
        room: Callable[[int], int],
        finish: Callable[[Any], _O] | None = None,
    ) -> None:
        """`finish` completes the result of `work`, possibly on another thread.

        None means that the result is already complete.
        """
        self._items = iter(items)
        self._room = room
        self._steps: _Steps[_I, _O] = _Steps(work, finish, threads)
        self._pending: deque[Future[_O]] = deque()
        self._closed, self._process = False, os.getpid()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="snapdb-batch")

    def __next__(self) -> _O:
        try:
            self._fill()
            if not self._pending:
                raise StopIteration
            outcome = self._pending.popleft().result()
            if self._steps.take():
                self._pool.submit(self._steps.run)
            self._fill()
        except BaseException as error:
            self._end()
            # Another thread can call `close` during any of the steps above, which then fail in one of these ways.
            if self._closed and isinstance(error, CancelledError | IndexError | RuntimeError | StopIteration):
                raise SnapdbError(
                    "the stream was closed while it was read; open a new stream", code="stream-closed"
                ) from error
            raise
        return outcome

    def close(self) -> None:
        """Drop items that have not begun, and wait for those in progress. A batch takes milliseconds."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        if os.getpid() != self._process:  # a fork copies locks, which may be held, but not threads
            return
        self._items = iter(())
        self._steps.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pending.clear()

    def __del__(self) -> None:
        # The garbage collector can run this on one of the threads, even while that thread holds the lock of the steps,
        # so it waits for neither.
        self._steps.abandoned = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _fill(self) -> None:
        """Submit items until as many are in progress or complete as `room` allows."""
        room = self._room(sum(not future.done() for future in self._pending))
        while len(self._pending) < room:
            try:
                item = next(self._items)
            except StopIteration:
                return
            self._pending.append(self._steps.add(item))
            self._pool.submit(self._steps.run)


class _Begun(NamedTuple, Generic[_O]):
    """An item whose first step is complete."""

    place: int
    """Its position among all items."""
    future: Future[_O]
    value: Any
    """The result of the first step."""


class _Steps(Generic[_I, _O]):
    """A queue of items whose work consists of two steps, each of which can run on any thread.

    The second step of a batch copies its features. It is bound by memory bandwidth, which a few threads exhaust. While
    there are first steps to run, only half of the threads run second steps, so that both kinds overlap instead of all
    threads waiting for memory at once. This rule never makes a thread idle.

    Features make up nearly all of a batch's bytes. Therefore, at most one batch per thread has its features, complete
    or in progress, in addition to the batch that the consumer waits for. All other batches wait as sampled subgraphs,
    which are a tenth of the size.
    """

    def __init__(self, begin: Callable[[_I], Any], finish: Callable[[Any], _O] | None, threads: int) -> None:
        self._begin, self._finish, self._threads = begin, finish, threads
        self._fresh: deque[tuple[int, Future[_O], _I]] = deque()
        self._begun: list[_Begun[_O]] = []
        self._added = self._taken = self._finishing = self._finished = 0
        self._lock = threading.Lock()
        self.abandoned = False
        """Whether results are no longer read. If so, threads stop after the steps in progress."""

    def add(self, item: _I) -> Future[_O]:
        """Queue an item. A thread must then call `run`."""
        future: Future[_O] = Future()
        with self._lock:
            self._fresh.append((self._added, future, item))
            self._added += 1
        return future

    def take(self) -> bool:
        """Count the oldest result as taken. Returns whether a thread must call `run` for a step that waited for it."""
        with self._lock:
            self._taken += 1
            return bool(self._begun)

    def run(self) -> None:
        """Run steps until none is due. Another thread can finish an item that this thread begins."""
        while True:
            with self._lock:
                begun = self._next_begun()
                if self.abandoned or not (begun or self._fresh):
                    return
                place, future, value = begun or self._fresh.popleft()
                self._finishing += begun is not None
            try:
                self._step(place, future, value, finishing=begun is not None)
            finally:
                finishing = begun is not None
                # A reference here would keep a finished batch in memory until the next item.
                del begun, future, value
                with self._lock:
                    self._finishing -= finishing
                    self._finished += finishing

    def stop(self) -> None:
        """Drop items that have not begun or have not finished, and cancel their futures."""
        with self._lock:
            dropped = [item[1] for item in (*self._fresh, *self._begun)]
            self._fresh.clear()
            self._begun.clear()
        for future in dropped:
            future.cancel()

    def _next_begun(self) -> _Begun[_O] | None:
        """Remove and return the item whose second step is due, or None if a first step or no step is due."""
        if not self._begun:
            return None
        first = min(self._begun)
        if self._finishing >= max(1, self._threads // 2) and self._fresh:
            return None
        # The consumer waits for this item first, so delaying it until later items are taken would be a deadlock.
        if first.place > self._taken and self._finishing + self._finished - self._taken >= self._threads:
            return None
        self._begun.remove(first)
        return first

    def _step(self, place: int, future: Future[_O], value: Any, *, finishing: bool) -> None:
        """Run one step of an item, and queue or publish its result."""
        try:
            value = self._finish(value) if finishing and self._finish is not None else self._begin(value)
        except BaseException as error:
            future.set_exception(error)
            return
        if finishing or self._finish is None:
            future.set_result(value)
            return
        with self._lock:
            self._begun.append(_Begun(place, future, value))


class OrderedWorkers:
    """The threads and the builder for one source. A stream that switches to another publication gets new workers."""

    def __init__(self, source: StreamSource, options: StreamOptions, meter: Meter = NO_METER) -> None:
        """Open the sampler. If this fails, the caller must release the source.

        Raises:
            InputError: The device is not available, or there is not enough memory.
            SnapdbError: The snapshot does not support the sampler.
        """
        self.source, self.options = source, options.of(source)
        self.epochs = Epochs(source.seeds, source.spec, options.sharing)
        self.builder = BatchBuilder(source, self.options, meter)
        self.identity = identity(source.view, source.seeds, source.spec, self.builder.zero_weight)
        self._visits: VisitedRounds | None = None
        """The rounds of pool rows under SCOPE VISITED, or None if no batch has been sampled yet."""
        self._maps: weakref.WeakSet[OrderedMap[BatchSeeds, Any]] = weakref.WeakSet()
        self._iterations: set[object] = set()
        self._retired = False
        self._release = weakref.finalize(self, _release_in, os.getpid(), source)

    @property
    def threads(self) -> int:
        """The number of threads in this process. DataLoader workers share the cores."""
        _, processes = place_among_workers()
        return self.options.threads_of(processes, on_gpu=self.builder.on_gpu)

    def results(self, lineage: Lineage, epoch: int, places: range) -> Iterator[Any]:
        """Return the builder's results for the batches at these positions in an epoch, in order."""
        seeds, visits = self.epochs.batches_at(epoch, places), None
        if places and self.builder.spec.in_order:
            first, *others = self.epochs.numbers(epoch, places)
            # With `pad`, the epoch's first batches are repeated at its end, when their windows would already have been
            # freed.
            again = {number for number in others if number < first}
            visits = self._knowing({first, *again})
            visits.keep(again)
            self._catch_up(visits, first)
            seeds = self._with_others(visits, seeds)
        elif self.builder.features.is_used:
            rows = weakref.WeakMethod(self.builder.feature_rows)
            self.builder.features.expect(Coming(places, partial(self.epochs.batches_at, epoch), rows))
        threads, (_, processes) = self.threads, place_among_workers()
        room = partial(self.builder.room, threads, self.options.ahead(threads), processes)
        return self._map(partial(self.builder.sampled, lineage, visits), seeds, threads, room, self.builder.fetched)

    def result(self, lineage: Lineage, seeds: BatchSeeds) -> Any:
        """Return the builder's result for one batch, on the calling thread."""
        visits = None
        if self.builder.spec.in_order:
            visits = self._knowing({seeds.number})
            self._catch_up(visits, visits.opens(seeds.number))
        return self.builder.fetched(self.builder.sampled(lineage, visits, seeds))

    def state(self, number: int) -> dict[str, Any]:
        """Return the entries of `state_dict` that are needed to resume at a batch, as plain JSON values."""
        if not self.builder.spec.in_order:
            return {}
        return {"visits": None if self._visits is None else self._visits.saved(number)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Replace the known rounds with those from a saved state.

        Raises:
            InputError: The state is damaged.
        """
        self._visits = self.builder.visits(state.get("visits")) if self.builder.spec.in_order else None

    def forget(self, before: int) -> None:
        """Free the rounds that only batches before this one need."""
        if self._visits is not None:
            self._visits.forget(before)

    @contextmanager
    def iterated(self) -> Iterator[None]:
        """Mark the workers as in use within the block, so that they are not shut down."""
        iteration = object()
        self._iterations.add(iteration)
        try:
            yield
        finally:
            self._iterations.discard(iteration)
            if self._retired and not self._iterations:
                self.end()

    def pause(self) -> None:
        """Free scratch and return the cache's rows, unless an iteration uses them."""
        if not self._iterations:
            self._free()

    def retire(self) -> bool:
        """Shut the workers down, now or after their last iteration. Returns whether an iteration is in progress."""
        self._retired = True
        if not self._iterations:
            self.end()
        return bool(self._iterations)

    def end(self) -> None:
        """Stop the threads and release the source, once. Batches that were yielded remain valid."""
        self.builder.features.stop()
        for running in list(self._maps):
            running.close()
        self._free()
        self._release()

    def _free(self) -> None:
        self.builder.cache.close()
        self.builder.features.close()
        self.builder.free_scratch(0)

    def _knowing(self, numbers: Iterable[int]) -> VisitedRounds:
        """Return the known rounds if they include those of all these batches, otherwise the rounds before batch 0."""
        if self._visits is None or not all(map(self._visits.knows, numbers)):
            self._visits = self.builder.visits()
        return self._visits

    def _catch_up(self, visits: VisitedRounds, before: int) -> None:
        """Sample the batches before this one that are not sampled yet."""
        (many, missing), threads = visits.missing(before), self.threads
        seeds = self.epochs.numbered(missing)
        # Only the rounds matter, so results are discarded. Twice as many items as threads keep all threads busy.
        sampled = self._map(partial(self.builder.sample_only, visits), seeds, threads, lambda under_way: 2 * threads)
        try:
            for count, _ in enumerate(sampled):
                if self.options.progress is not None:
                    self.options.progress("sampling the skipped batches, on which pool rows depend", count / many)
        finally:
            if isinstance(sampled, OrderedMap):
                sampled.close()

    def _with_others(self, visits: VisitedRounds, batches: Iterable[BatchSeeds]) -> Iterator[BatchSeeds]:
        """Yield the batches, each with the batches that other consumers have taken since the previous one."""
        after: int | None = None
        for seeds in batches:
            others = () if after is None else visits.unsampled(range(after, seeds.number))
            yield replace(seeds, between=tuple(self.epochs.numbered(others)))
            after = max(after or 0, seeds.number + 1)

    def _map(
        self,
        work: Callable[[BatchSeeds], Any],
        batches: Iterator[BatchSeeds],
        threads: int,
        room: Callable[[int], int],
        finish: Callable[[Any], Any] | None = None,
    ) -> Iterator[Any]:
        """Map batches on threads, or lazily on the calling thread if `threads` is 0."""
        if threads == 0:
            begun = map(work, batches)
            return begun if finish is None else map(finish, begun)
        results = OrderedMap(work, batches, threads=threads, room=room, finish=finish)
        self._maps.add(results)
        return results

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for spawned DataLoader workers, without iterations, threads or the lease."""
        left = {"_release", "_iterations", "_maps"}
        state = {name: value for name, value in self.__dict__.items() if name not in left}
        source = self.source._replace(lease=None, refresh=None, located=StreamSource._field_defaults["located"])
        return {**state, "source": source, "options": replace(self.options, transform=None, progress=None)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._iterations = set()
        self._maps = weakref.WeakSet()
        self._release = weakref.finalize(self, _release_in, os.getpid(), self.source)


def _release_in(process: int, source: StreamSource) -> None:
    """Release the source in the process that opened it. Forked workers leave this to their parent process."""
    if os.getpid() == process:
        source.release()

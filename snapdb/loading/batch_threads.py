"""A stream's batches in order, made on its threads; where rows depend on the batches before, these are sampled too."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from snapdb.loading.epochs import Epochs
from snapdb.loading.maker import Maker, Task
from snapdb.loading.options import Options
from snapdb.loading.ordered import Ordered
from snapdb.loading.visits import Visits
from snapdb.loading.worker import place_among_workers

Report = Callable[[str, float | None], None]


class BatchThreads:
    """The threads of a stream in this process, and how far they are."""

    def __init__(self, maker: Maker, epochs: Epochs, options: Options, report: Report | None) -> None:
        self.maker = maker
        self._visits: Visits | None = None
        """What is known of the rows that batches came by; None: nothing, as at the start."""
        self._epochs, self._options, self._report = epochs, options, report
        self._running: weakref.WeakSet[Ordered[Task, Any]] = weakref.WeakSet()

    @property
    def threads(self) -> int:
        """How many make batches; DataLoader workers share the cores."""
        _, workers = place_among_workers()
        return self._options.threads_of(workers, on_gpu=self.maker.on_gpu)

    def results(self, lineage: Mapping[str, Any], epoch: int, places: range) -> Iterator[Any]:
        """What the maker makes of the batches at these places of an epoch."""
        tasks, visits = self._epochs.tasks(epoch, places), None
        if places and self.maker.spec.in_order:
            first, *others = self._epochs.numbers(epoch, places)
            again = {number for number in others if number < first}
            visits = self._knowing({first, *again})
            visits.keep(again)
            self._catch_up(visits, first)
            tasks = self._with_others(visits, tasks)
        threads, (_, workers) = self.threads, place_among_workers()
        room = partial(self.maker.room, threads, self._options.ahead(threads), workers)
        return self._over_threads(partial(self.maker.make, lineage, visits), tasks, threads, room)

    def result(self, lineage: Mapping[str, Any], task: Task) -> Any:
        """What the maker makes of a batch on its own."""
        visits = None
        if self.maker.spec.in_order:
            visits = self._knowing({task.number})
            self._catch_up(visits, visits.opens(task.number))
        return self.maker.make(lineage, visits, task)

    def saved(self, number: int) -> dict[str, Any]:
        """What must be known to go on from a batch: as plain values for JSON, for a state to hold."""
        if not self.maker.spec.in_order:
            return {}
        return {"visits": None if self._visits is None else self._visits.saved(number)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Knows what a state holds, and nothing else.

        Raises:
            InputError: that is damaged.
        """
        self._visits = self.maker.visits(state.get("visits")) if self.maker.spec.in_order else None

    def forget(self, before: int) -> None:
        """Lets go of what only batches before this one need."""
        if self._visits is not None:
            self._visits.forget(before)

    def close(self) -> None:
        """Stops the threads."""
        for running in list(self._running):
            running.close()

    def _knowing(self, numbers: Iterable[int]) -> Visits:
        """What is known of visits, if it tells the rows of all these batches; else nothing, as at the start."""
        if self._visits is None or not all(map(self._visits.knows, numbers)):
            self._visits = self.maker.visits()
        return self._visits

    def _catch_up(self, visits: Visits, before: int) -> None:
        """Samples what is not sampled of the batches before one."""
        (many, missing), threads = visits.missing(before), self.threads
        work, tasks = partial(self.maker.visit, visits), self._epochs.numbered(missing)
        done = self._over_threads(work, tasks, threads, lambda under_way: 2 * threads)
        try:
            for count, _ in enumerate(done):
                if self._report is not None:
                    self._report("sampling the batches before, on which rows depend", count / many)
        finally:
            if isinstance(done, Ordered):
                done.close()

    def _with_others(self, visits: Visits, tasks: Iterable[Task]) -> Iterator[Task]:
        """The batches, each with those of other readers since the last."""
        after: int | None = None
        for task in tasks:
            others = () if after is None else visits.unsampled(range(after, task.number))
            yield replace(task, between=tuple(self._epochs.numbered(others)))
            after = max(after or 0, task.number + 1)

    def _over_threads(
        self, work: Callable[[Task], Any], tasks: Iterator[Task], threads: int, room: Callable[[int], int]
    ) -> Iterator[Any]:
        if threads == 0:
            return map(work, tasks)
        results = Ordered(work, tasks, threads=threads, room=room)
        self._running.add(results)
        return results

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_running": None, "_report": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._running = weakref.WeakSet()

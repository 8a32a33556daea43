"""Searches over groups of sources: several groups at once, with results in order and in bounded memory."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from snapdb.arrays import Array, Int64s
from snapdb.builders.context import BuildContext
from snapdb.kernels.paths.problem import Paths

Run: TypeAlias = Callable[[Int64s], Iterator[Paths]]
"""Yields the paths from a group of sources."""

_WAIT = 0.05
"""The interval in seconds between checks for a stop request."""
_AHEAD = 4
"""The number of results that a group holds until they are read."""

_Lane: TypeAlias = "queue.Queue[Paths | BaseException | None]"


@dataclass(slots=True)
class SourceGroups:
    """The groups of a search, each of which a thread searches."""

    context: BuildContext
    threads: int
    stop: Array = field(default_factory=lambda: np.zeros(1, np.uint8))
    """uint8 [1] Kernels end soon after it becomes 1."""
    closing: threading.Event = field(default_factory=threading.Event)
    """Set when nobody reads the paths any longer."""

    def paths(self, run: Run, sources: Int64s, size: int) -> Iterator[Paths]:
        """Yield the paths of each group of `size` sources in order, the same on any number of threads.

        Raises:
            QueryError: A stop was requested.
        """
        groups = [sources[i : i + size] for i in range(0, sources.size, size)]
        started: list[tuple[_Lane, threading.Thread]] = []
        try:
            for number in range(len(groups)):
                for ahead in range(len(started), min(number + self.threads, len(groups))):
                    started.append(self._start(run, groups[ahead], ahead * size))
                while (paths := self._next(started[number][0])) is not None:
                    yield paths
                self.context.report("searching paths", (number + 1) / len(groups))
        finally:
            self.stop[0] = 1
            for lane, thread in started:
                _drain(lane, thread)

    def _start(self, run: Run, sources: Int64s, first: int) -> tuple[_Lane, threading.Thread]:
        lane: _Lane = queue.Queue(_AHEAD)
        thread = threading.Thread(target=self._fill, args=(run, sources, first, lane), name="snapdb-paths", daemon=True)
        thread.start()
        return lane, thread

    def _fill(self, run: Run, sources: Int64s, first: int, lane: _Lane) -> None:
        """Put the paths of a group of sources into its queue, and then None or the error that ended the search."""
        try:
            for paths in run(sources):
                if self.stop[0]:
                    break
                lane.put(paths._replace(source=paths.source + first))
            lane.put(None)
        except BaseException as error:
            lane.put(error)

    def _next(self, lane: _Lane) -> Paths | None:
        while not self.closing.is_set():
            try:
                found = lane.get(timeout=_WAIT)
            except queue.Empty:
                self.context.check_stopped()
                continue
            if isinstance(found, BaseException):
                raise found
            return found
        return None


def _drain(lane: _Lane, thread: threading.Thread) -> None:
    """Wait for a thread whose search was stopped, which may be waiting for room in its queue."""
    while thread.is_alive():
        try:
            lane.get(timeout=0.01)
        except queue.Empty:
            thread.join(0.01)

"""Ending a run of a task from outside: by whoever started it, or because its time is over."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self

from snapdb.errors import QueryError

Reason = Literal["terminated", "interrupted", "timeout"]

_PULSE = 0.05
"""Seconds between two looks, and between two interrupts: one that comes before a statement begins is not heard."""


class Stop:
    """A request to end a run. It may come from any thread at any time, and it is never taken back."""

    def __init__(self, asked: threading.Event | None = None, why: Reason = "interrupted") -> None:
        """`asked` is an event that makes the request too, for the reason given."""
        self.asked = threading.Event() if asked is None else asked
        self.why: Reason = why

    def request(self, why: Reason) -> None:
        """End the run soon: the statement that is under way is rolled back."""
        self.why = why
        self.asked.set()


class Watch:
    """Interrupts what runs in the block when a stop is requested or the time is over, until it has ended.

    with Watch(stop, 60.0) as watch:
        watch.interrupt = db.interrupt
        watch.check()
        db.run(statement)
    """

    def __init__(self, stop: Stop, seconds: float | None) -> None:
        """The time begins now; None: there is no end of it."""
        self._stop = stop
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="snapdb-stopping", daemon=True)
        self.interrupt: Callable[[], None] | None = None
        """Called a few times a second from then on, from another thread; None: there is nothing to interrupt."""
        self.why: Reason | None = None
        """Why the run is to end; None: it is not."""

    def check(self) -> None:
        """Nothing while nobody wants the run to end; otherwise QueryError with code 'interrupted'."""
        self._look()
        if self.why is not None:
            raise QueryError("interrupted", code="interrupted")

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        self._watcher.join()

    def _look(self) -> None:
        if self.why is not None:
            return
        if self._stop.asked.is_set():
            self.why = self._stop.why
        elif self._deadline is not None and time.monotonic() >= self._deadline:
            self.why = "timeout"

    def _watch(self) -> None:
        while not self._over.wait(_PULSE):
            self._look()
            if self.why is not None and (interrupt := self.interrupt) is not None:
                with contextlib.suppress(Exception):  # the statement may just have ended
                    interrupt()

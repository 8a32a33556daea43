"""How far a run of a task has come, what its log says, and requests to end it."""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

from snapdb.errors import QueryError, SnapdbError
from snapdb.types import Task

_UNITS = (
    (86_400_000_000, "day"),
    (3_600_000_000, "hour"),
    (60_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)
_Reason = Literal["terminated", "interrupted", "timeout"]

_PULSE = 0.05
"""Seconds between two checks, and between two interrupts: one that comes before a statement begins has no effect."""


@dataclass(slots=True)
class Progress:
    """Counts what was done, and knows what an end at this moment would take back."""

    total: int = 0
    """Statements of the body; 0: it was not read yet."""
    statement: int = 0
    """Which one is under way, or was the last; 0: none yet."""
    under_way: bool = False
    begun: int = 0
    """Which one opened the transaction that is open; 0: none is."""
    kept: int = 0
    """So many of them are done for good, as the run's row says."""
    rows: int = 0
    bytes: int = 0
    pending: int = 0
    """Rows of the transaction that is open."""
    lines: list[str] = field(default_factory=list)
    """The log."""
    notes: list[str] = field(default_factory=list)
    """What an attempt that comes after has to know."""

    def done(self, rows: int, *, in_transaction: bool) -> None:
        """A statement has ended well."""
        self.under_way = False
        self.pending += rows
        if in_transaction:
            self.begun = self.begun or self.statement
            return
        self.rows, self.pending, self.begun = self.rows + self.pending, 0, 0

    def stopped(self, why: _Reason, task: Task) -> str:
        """What is said of a run that was stopped."""
        ends: dict[_Reason, str] = {
            "timeout": f"stopped after {_duration(task.timeout or 0)}, its timeout",
            "terminated": "stopped: the daemon was asked to end",
            "interrupted": "interrupted",
        }
        return f"{ends[why]}; {self._left()}"

    def failed(self, error: BaseException) -> str:
        """What is said of a run that an error ended, in one line; the log gets all of it."""
        place = f"statement {self.statement} of {self.total}: " if self.under_way and self.total > 1 else ""
        if isinstance(error, SnapdbError):
            self.lines.append(str(error))
            at = "" if error.line is None else f" (line {error.line}, column {error.column})"
            return f"{place}{_first_line(str(error))}{at}"
        self.lines += [line.rstrip() for line in traceback.format_exception(error)]
        if isinstance(error, MemoryError):
            return f"{place}the memory is not enough"
        if isinstance(error, OSError):
            named = f": {error.filename}" if error.filename else ""
            return f"{place}the system refuses: {error.strerror or error}{named}"
        return f"{place}internal error: {type(error).__name__}: {_first_line(str(error))}; its log tells where"

    def _left(self) -> str:
        number, total = self.statement, self.total
        if not number:
            return "no statement had begun"
        if number <= self.kept:
            return f"statement {number} of {total} was done, and none was under way"
        if self.begun and self.begun < number:
            return f"statements {self.begun} to {number} of {total}, a transaction, were rolled back"
        if self.under_way or self.begun:
            return "its statement was rolled back" if total == 1 else f"statement {number} of {total} was rolled back"
        return f"statement {number} of {total} was not begun"


def _duration(length: int) -> str:
    """Microseconds as a person says them.

    >>> duration(1_800_000_000), duration(86_400_000_000), duration(1_500_000)
    ('30 minutes', '1 day', '1,500 milliseconds')
    """
    size, name = next((size, name) for size, name in _UNITS if length % size == 0)
    return f"{length // size:,} {name}{'' if length == size else 's'}"


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


class Stop:
    """A request to end a run. It may come from any thread at any time, and it is never taken back."""

    def __init__(self, asked: threading.Event | None = None, why: _Reason = "interrupted") -> None:
        """`asked` is an event that makes the request too, for the reason given."""
        self.asked = threading.Event() if asked is None else asked
        self.why: _Reason = why

    def request(self, why: _Reason) -> None:
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
        self.why: _Reason | None = None
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

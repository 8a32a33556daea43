"""Progress of compilation: users learn why a first statement takes seconds. Imports no numba, unlike the kernels."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

COMPILING = "compiling kernels (first run only)"
_PATIENCE = 0.5
"""Seconds of compilation before it is reported."""

_waiting: list[_Wait] = []


class _Wait:
    """A block that may wait for kernels, and how long kernels have been compiled meanwhile."""

    def __init__(self, report: Callable[[str, float | None], None]) -> None:
        self._report, self._seconds, self._reported = report, 0.0, False

    def spend(self, seconds: float) -> None:
        """Report once that compilation takes long."""
        self._seconds += seconds
        if self._seconds > _PATIENCE and not self._reported:
            self._reported = True
            self._report(COMPILING, None)


@contextmanager
def reporting_compilation(report: Callable[[str, float | None], None] | None) -> Iterator[None]:
    """Report it where kernels are compiled for long during the block, in any thread, rather than loaded."""
    if report is None:
        yield
        return
    wait = _Wait(report)
    _waiting.append(wait)
    try:
        yield
    finally:
        _waiting.remove(wait)


class CompileTimer:
    """Measures compilation; only the thread that has numba's lock calls it, at the start and end of each function."""

    def __init__(self) -> None:
        self._depth, self._since = 0, 0.0

    def start(self) -> None:
        """A function is compiled, perhaps one that another one calls, which is being compiled."""
        if self._depth:
            self._spend()
        self._depth, self._since = self._depth + 1, time.monotonic()

    def end(self) -> None:
        """It is compiled, or its compilation failed."""
        self._spend()
        self._depth -= 1

    def _spend(self) -> None:
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        for wait in list(_waiting):
            wait.spend(seconds)

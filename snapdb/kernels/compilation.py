"""Compilation progress, which explains why a first statement takes seconds. This module does not import numba."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

COMPILING = "compiling kernels (first run only)"
_PATIENCE = 0.5
"""The number of seconds after which a compilation is reported."""

_waiting: list[_Wait] = []


class _Wait:
    """A block that may wait for kernels, and the time spent on compiling kernels during the block."""

    def __init__(self, report: Callable[[str, float | None], None]) -> None:
        self._report, self._seconds, self._reported = report, 0.0, False

    def spend(self, seconds: float) -> None:
        """Add compilation time. The first time that the total exceeds the limit, the compilation is reported."""
        self._seconds += seconds
        if self._seconds > _PATIENCE and not self._reported:
            self._reported = True
            self._report(COMPILING, None)


@contextmanager
def reporting_compilation(report: Callable[[str, float | None], None] | None) -> Iterator[None]:
    """Report during the block if any thread spends long on compiling kernels instead of loading them from the cache."""
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
    """Measures compilation. Only the thread that holds numba's lock calls it, at the start and end of each function."""

    def __init__(self) -> None:
        self._depth, self._since = 0, 0.0

    def start(self) -> None:
        """Record that the compilation of a function starts.

        Compilations are nested, because a function compiles its callees.
        """
        if self._depth:
            self._spend()
        self._depth, self._since = self._depth + 1, time.monotonic()

    def end(self) -> None:
        """Record that the compilation of a function ended, successfully or not."""
        self._spend()
        self._depth -= 1

    def _spend(self) -> None:
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        for wait in list(_waiting):
            wait.spend(seconds)

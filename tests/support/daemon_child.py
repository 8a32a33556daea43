"""A daemon or one of its workers, with an accelerated clock.

`python -m tests.support.daemon_child PATH FACTOR ORIGIN`
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from snapdb.daemon import serve
from tests.support.inside.daemon import Clock, Intervals, work


class QuickClock(Clock):
    """A clock that shows the real time at its origin, in microseconds since 1970 UTC, and runs faster from then on."""

    def __init__(self, factor: float, origin: int) -> None:
        super().__init__()
        self._factor, self._origin = factor, origin

    def now(self) -> int:
        return self._origin + int((time.time_ns() // 1000 - self._origin) * self._factor)

    def monotonic(self) -> float:
        return time.monotonic() * self._factor

    def real(self, seconds: float) -> float:
        return seconds / self._factor


def quick(factor: float) -> Intervals:
    """Return intervals with which a takeover needs less than a second of real time."""
    seconds = {"heartbeat": 0.1, "lease_ttl": 0.6, "poll": 0.1, "gap": 0.5, "orphan_check": 0.2, "kill": 10.0}
    return Intervals(**{name: second * factor for name, second in seconds.items()})


def main(role: str, factor: str, origin: str, *rest: str) -> int:
    """Run a worker, or serve the database at a path."""
    clock = QuickClock(float(factor), int(origin))
    if role == "worker":
        work(Path(rest[0]), int(rest[1]), clock.now)
        return 0
    worker = (sys.executable, "-m", "tests.support.daemon_child", "worker", factor, origin)
    return serve(
        Path(role), jobs=2, grace=8.0 * clock.real(1.0), clock=clock, intervals=quick(float(factor)), worker=worker
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

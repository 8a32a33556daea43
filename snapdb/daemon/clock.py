"""The daemon's clock: what it reads, and how it waits; tests put one in its place that runs faster, or stands."""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress


class Clock:
    """The machine's two clocks, and a wait that another thread or a signal can cut short."""

    def __init__(self) -> None:
        # A pipe, not a threading.Event: a signal's handler may write to it while the main thread waits for it.
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def now(self) -> int:
        """Microseconds since 1970 UTC: people set it, and laptops that wake up find it far ahead."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds that nobody sets and that stand still while the machine is suspended."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Come back after so many seconds, or at once when it was woken since the last time."""
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        if poll.poll(max(0.0, self.real(seconds)) * 1000):
            with suppress(BlockingIOError):
                os.read(self._read, 65536)

    def wake(self) -> None:
        """End the wait, from any thread or signal handler."""
        with suppress(BlockingIOError):  # it is full: it wakes anyhow
            os.write(self._write, b"\0")

    def pause(self, stopped: threading.Event, seconds: float) -> bool:
        """Wait in a thread beside the main one; whether it was stopped meanwhile."""
        return stopped.wait(self.real(seconds))

    def real(self, seconds: float) -> float:
        """How long a stretch of this clock takes."""
        return seconds

    def close(self) -> None:
        """Give the pipe back."""
        os.close(self._read)
        os.close(self._write)

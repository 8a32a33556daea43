"""The daemon's clock and its intervals in seconds; tests put a faster one in its place."""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from snapdb.storage.catalog_db.task_rows import LEASE_TTL


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


@dataclass(frozen=True, slots=True)
class Intervals:
    """The defaults let a second daemon take over within ten seconds of the first one's end."""

    beat: float = 1.5
    """From one beat of the leader to the next."""
    lapse: float = LEASE_TTL
    """Without a beat for so long, a leader leads no longer."""
    poll: float = 1.0
    """The longest wait: so soon a task is seen that another process made."""
    gap: float = 10.0
    """Late by more, or moved by more than the time that went by, the clock was set, or the machine or the daemon was
    suspended: nobody led meanwhile."""
    look: float = 2.0
    """From one look for runs whose process is gone to the next."""
    kill: float = 10.0
    """A run that has not stopped so long after it was to stop is killed."""

r"""The scheduler's clock, its intervals in seconds, and its log, which has one line per event, as text or as JSON.

A text line contains the UTC time, the level, the event and its fields. A value with characters other than letters,
digits and `_.:,/@%+-` is written as a JSON string, so an event is always one line::

    2026-11-22T03:00:00.312Z INFO run.end task=nightly run=7 attempt=1 state=ok rows=1000 bytes=48113 seconds=0.31

A JSON line is an object with `time`, `level`, `event` and the fields. docs/schedule.md lists the events with their
levels and fields, which are stable across versions.
"""

import json
import os
import re
import select
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TextIO

from snapdb.storage.catalog_db.task_rows import LEASE_TTL


class Clock:
    """The machine's wall clock and monotonic clock, and a wait that another thread or a signal can interrupt."""

    def __init__(self) -> None:
        # The self-pipe trick is used instead of a threading.Event, because a signal handler can write to the pipe while
        # the main thread waits for it, but could deadlock on an Event's lock.
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def now(self) -> int:
        """Return microseconds since 1970 UTC. The clock can be set, and it jumps forward after a suspension."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Return the seconds of a clock that is never set and that stops while the machine is suspended."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Return after this number of seconds, or immediately if `wake` was called since the last wait."""
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        if poll.poll(max(0.0, self.real(seconds)) * 1000):
            with suppress(BlockingIOError):
                os.read(self._read, 65536)

    def wake(self) -> None:
        """End the wait. Any thread or signal handler can call this."""
        with suppress(BlockingIOError):  # the pipe is full, so the wait ends anyway
            os.write(self._write, b"\0")

    def pause(self, stopped: threading.Event, seconds: float) -> bool:
        """Wait in a thread other than the main one, and return whether it was stopped in the meantime."""
        return stopped.wait(self.real(seconds))

    def real(self, seconds: float) -> float:
        """Convert seconds of this clock to real seconds, which differ in tests."""
        return seconds

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._read)
        os.close(self._write)


class Intervals(NamedTuple):
    """Intervals in seconds. By default, another scheduler takes over within ten seconds after the leader ends."""

    heartbeat: float = 1.5
    """The interval between two heartbeats of the leader."""
    lease_ttl: float = LEASE_TTL
    """The time without a heartbeat after which a process is no longer the leader."""
    poll: float = 1.0
    """The longest wait between two loads of the state. A load detects tasks that other processes created or changed."""
    gap: float = 10.0
    """The minimum delay or clock jump that counts as time without a leader. The clock was set in the meantime, or the
    machine or the scheduler was suspended."""
    orphan_check: float = 2.0
    """The interval between two checks for runs whose process has died."""
    kill: float = 10.0
    """The time between asking a run to stop and killing its process."""


LogFormat = Literal["text", "json"]
Field = str | int | float | None
_BARE = re.compile(r"[\w.:,/@%+-]+", re.ASCII)
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


def iso(moment: int) -> str:
    """Return a time in UTC as ISO 8601, to the millisecond.

    >>> iso(1_795_316_400_312_999)
    '2026-11-22T03:00:00.312Z'
    """
    shown = _1970 + timedelta(microseconds=moment)
    return f"{shown:%Y-%m-%dT%H:%M:%S}.{shown.microsecond // 1000:03}Z"


class Log:
    """Writes whole lines to a stream, from any thread. A closed stream is not an error."""

    def __init__(self, stream: TextIO, form: LogFormat, clock: Clock) -> None:
        self._stream, self._form, self._clock = stream, form, clock
        self._lock = threading.Lock()

    def info(self, event: str, **fields: Field) -> None:
        """Log an event of normal operation."""
        self._write("INFO", event, fields)

    def warn(self, event: str, **fields: Field) -> None:
        """Log an event that an operator may want to examine."""
        self._write("WARNING", event, fields)

    def error(self, event: str, **fields: Field) -> None:
        """Log an event that an operator must examine."""
        self._write("ERROR", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Field]) -> None:
        """Write one line, under a lock so that lines of different threads do not mix."""
        time = iso(self._clock.now())
        if self._form == "json":
            line = json.dumps({"time": time, "level": level, "event": event} | fields)
        else:
            shown = (f"{name}={_text(value)}" for name, value in fields.items() if value is not None)
            line = " ".join((time, level, event, *shown))
        with self._lock, suppress(OSError, ValueError):
            self._stream.write(f"{line}\n")
            self._stream.flush()


def _text(value: Field) -> str:
    """Return the value of a field as text without spaces, or as a JSON string."""
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    text = str(value)
    if _BARE.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())

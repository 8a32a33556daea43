r"""The daemon's clock, its intervals in seconds, and its log: a line an event, as text or as JSON.

A line of text is the moment in UTC, the level, the event and its fields; a value with anything but letters, digits
and `_.:,/@%+-` in it is a JSON string, so that a line stays a line::

    2026-11-22T03:00:00.312Z INFO run.end task=nightly run=7 attempt=1 state=ok rows=1000 bytes=48113 seconds=0.31

A line of JSON is an object with `time`, `level`, `event` and the fields. docs/schedule.md lists the events, their
levels and fields, which stay as they are from one version to the next.
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
    """The machine's two clocks, and a wait that another thread or a signal can cut short."""

    def __init__(self) -> None:
        # A pipe, not a threading.Event: a signal's handler may write to it while the main thread waits for it.
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def now(self) -> int:
        """Microseconds since 1970 UTC: the clock may be set, and is far ahead after a suspension."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds of a clock that is never set, and that stops while the machine is suspended."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Return after this number of seconds, or at once after a wake since the last call."""
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
        """The real seconds of a number of seconds by this clock."""
        return seconds

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._read)
        os.close(self._write)


class Intervals(NamedTuple):
    """Intervals in seconds. The defaults let a second daemon take over within ten seconds of the first one's end."""

    heartbeat: float = 1.5
    """From one heartbeat of the leader to the next."""
    lease_ttl: float = LEASE_TTL
    """Without a heartbeat for this time, a leader leads no longer."""
    poll: float = 1.0
    """The longest wait, after which a task of another process is seen."""
    gap: float = 10.0
    """Late by more, or moved by more than the time that went by, the clock was set, or the machine or the daemon was
    suspended: no daemon led meanwhile."""
    orphan_check: float = 2.0
    """From one check for runs whose process is gone to the next."""
    kill: float = 10.0
    """From the request to stop a run to killing its process."""


LogFormat = Literal["text", "json"]
Field = str | int | float | None
_BARE = re.compile(r"[\w.:,/@%+-]+", re.ASCII)
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


def iso(moment: int) -> str:
    """A moment in UTC, to the millisecond.

    >>> iso(1_795_316_400_312_999)
    '2026-11-22T03:00:00.312Z'
    """
    shown = _1970 + timedelta(microseconds=moment)
    return f"{shown:%Y-%m-%dT%H:%M:%S}.{shown.microsecond // 1000:03}Z"


class Log:
    """Whole lines on a stream, from any thread; a closed stream is no error."""

    def __init__(self, stream: TextIO, form: LogFormat, clock: Clock) -> None:
        self._stream, self._form, self._clock = stream, form, clock
        self._lock = threading.Lock()

    def info(self, event: str, **fields: Field) -> None:
        """Log an event of normal work."""
        self._write("INFO", event, fields)

    def warn(self, event: str, **fields: Field) -> None:
        """Log an event that an operator may want to look at."""
        self._write("WARNING", event, fields)

    def error(self, event: str, **fields: Field) -> None:
        """Log an event that an operator has to look at."""
        self._write("ERROR", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Field]) -> None:
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
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    text = str(value)
    if _BARE.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())

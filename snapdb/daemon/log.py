r"""The daemon's log: a line an event, as text or as JSON.

A line of text is the moment in UTC, the level, the event and its fields; a value with anything but letters, digits
and `_.:,/@%+-` in it stands as a JSON string, so that a line stays a line::

    2026-11-22T03:00:00.312Z INFO run.end task=nightly run=7 attempt=1 state=ok rows=1000 bytes=48113 seconds=0.31

A line of JSON is an object with `time`, `level`, `event` and the fields. docs/schedule.md lists the events, their
levels and fields, which stay as they are from one version to the next.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Literal, TextIO

from snapdb.daemon.clock import Clock

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
    """Lines on a stream, whole ones from any thread; a stream that is gone stops nobody."""

    def __init__(self, stream: TextIO, form: LogFormat, clock: Clock) -> None:
        self._stream, self._form, self._clock = stream, form, clock
        self._lock = threading.Lock()

    def info(self, event: str, **fields: Field) -> None:
        """What goes as it should."""
        self._tell("INFO", event, fields)

    def warn(self, event: str, **fields: Field) -> None:
        """What somebody may want to look at."""
        self._tell("WARNING", event, fields)

    def error(self, event: str, **fields: Field) -> None:
        """What somebody has to look at."""
        self._tell("ERROR", event, fields)

    def _tell(self, level: str, event: str, fields: dict[str, Field]) -> None:
        time = iso(self._clock.now())
        if self._form == "json":
            line = json.dumps({"time": time, "level": level, "event": event} | fields)
        else:
            told = (f"{name}={_text(value)}" for name, value in fields.items() if value is not None)
            line = " ".join((time, level, event, *told))
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

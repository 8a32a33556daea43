r"""The daemon's log: a line an event, as text or as JSON.

A line of text is the moment in UTC, the level, the event and its fields; a value with anything but letters, digits
and `_.:,/@%+-` in it stands as a JSON string, so that a line stays a line::

    2026-11-22T03:00:00.312Z INFO run.end task=nightly run=7 attempt=1 state=ok rows=1000 bytes=48113 seconds=0.31

A line of JSON is an object with `time`, `level`, `event` and the fields. The names of events, their levels and their
fields stay as they are from one version to the next:

| event | level | when | fields |
|---|---|---|---|
| `daemon.start` | INFO | it is ready to lead or to wait | `database`, `pid`, `jobs`, `version` |
| `daemon.stop` | INFO | it ends; `finished` and `rolled_back` count runs that went on when it was asked to | `why`, `finished`, `rolled_back` |
| `leader.won` | INFO | from now on it fires the tasks; `from` is who led before and fell silent | `holder`, `from` |
| `leader.waits` | INFO | another daemon leads | `holder`, `host`, `pid` |
| `leader.lost` | WARNING | it fires no longer; `runs` were stopped | `why`, `runs` |
| `clock.jump` | WARNING | the clock moved otherwise than time, or time stood still for the daemon | `seconds`, `why` |
| `run.start` | INFO | a run begins | `task`, `run`, `attempt`, `scheduled`, `late` in seconds |
| `run.end` | INFO, WARNING | a run ended, and how; WARNING unless ok | `task`, `run`, `attempt`, `state`, `rows`, `bytes`, `seconds`, `error` |
| `run.log` | INFO | what a run's log says, a line each | `task`, `run`, `attempt`, `line` |
| `run.retry` | INFO | a run that failed is to be tried again | `task`, `run`, `attempt`, `at` |
| `run.skipped` | INFO | its WHEN did not hold, so that it was no run | `task`, `scheduled` |
| `run.missed` | WARNING | firings came to nothing, by policy | `task`, `scheduled`, `why`, `count` where many, `last` |
| `run.stopped` | WARNING | a run was asked to stop, or killed | `task`, `run`, `attempt`, `how`, `why` |
| `worker.start` | INFO | a process that runs tasks was started | `worker` |
| `worker.end` | INFO, WARNING | it ended; WARNING where nobody asked it to | `worker`, `how` |
| `worker.says` | WARNING | what it wrote to stderr, a line each | `worker`, `line` |
| `error` | ERROR | what cannot be read or written at the moment; it is tried again | `error`, `code` |
| `error.over` | INFO | it can again | `seconds` |
"""  # fmt: skip  # noqa: E501  # a table's row is a line

from __future__ import annotations

import json
import re
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Literal, TextIO

from snapdb.daemon.clock import Clock

__all__ = ["Field", "Log", "LogFormat", "iso"]

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

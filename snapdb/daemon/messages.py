"""Messages between the daemon and its workers, one line of JSON each, and how runs end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from snapdb.daemon.log import Field, Log, iso
from snapdb.execute.tasks.runs import Ended
from snapdb.storage.catalog_db.codec import decode, encode
from snapdb.types import Run, Task

END = b'{"do": "end"}\n'
"""The worker is to end, which it does between two runs."""


def encode_run(task: Task, run: Run) -> bytes:
    """The worker is to perform a run."""
    return _line({"do": "run", "task": encode(task), "run": encode(run)})


def decode_run(message: dict[str, Any]) -> tuple[Task, Run]:
    """What `encode_run` wrote, read as JSON."""
    return decode(Task, message["task"]), decode(Run, message["run"])


def encode_stop(why: str) -> bytes:
    """The run that goes on is to stop."""
    return _line({"do": "stop", "why": why})


def encode_end(ended: Ended) -> bytes:
    """The worker tells how a run ended."""
    return _line({"ended": encode(ended)})


def decode_end(line: bytes) -> Ended:
    """What `encode_end` wrote."""
    return decode(Ended, json.loads(line)["ended"])


def _line(message: dict[str, str]) -> bytes:
    return json.dumps(message).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Finished:
    """A run of which its worker tells how it ended."""

    ended: Ended

    @property
    def run(self) -> Run:
        return self.ended.run


@dataclass(frozen=True, slots=True)
class Died:
    """A run whose worker ended before it did."""

    run: Run
    how: str
    """As a sentence for the run's record."""
    state: Literal["failed", "timeout"] = "failed"


def tell_end(log: Log, ended: Ended) -> None:
    """Log how a run ended, what its own log says, and when it is tried again."""
    run = ended.run
    one: dict[str, Field] = {"task": run.name, "run": run.run, "attempt": run.attempt}
    if ended.state == "skipped":
        log.info("run.skipped", task=run.name, scheduled=iso(run.scheduled))
        return
    for line in ended.log.splitlines():
        log.info("run.log", **one, line=line)
    seconds = max(0.0, (ended.ended - (run.started or ended.ended)) / 1e6)
    tell = log.info if ended.state == "ok" else log.warn
    tell("run.end", **one, state=ended.state, rows=ended.rows, bytes=ended.bytes, seconds=seconds, error=ended.error)
    if ended.retry is not None:
        log.info("run.retry", **one, at=iso(ended.retry))

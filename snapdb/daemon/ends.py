"""How runs end, as lanes tell it and as the log does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapdb.daemon.log import Field, Log, iso
from snapdb.execute.run_ends import Ended
from snapdb.types import Run


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

"""What a physical operator is, and the engine it runs in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from snapdb.errors import QueryError
from snapdb.plan.scope import Context
from snapdb.relational import Relational
from snapdb.storage.home import Home
from snapdb.storage.ledger import Ledger

__all__ = ["Engine", "Operator", "Outcome", "Rows"]

Progress = Callable[[str, float | None], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement that is not a query did."""

    message: str
    """One line for a person."""
    rows: int = 0
    """Rows added or removed."""


Rows = Generator[pa.RecordBatch, None, Outcome | None]
"""A query yields at least one batch, which tells its schema; any other statement yields none and returns an Outcome."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The open database that operators work on."""

    home: Home
    ledger: Ledger
    relational: Relational
    context: Context
    """The catalog as it was when the statement was bound."""
    report: Progress = field(default=lambda what, share: None)
    """Called with what is being done, and how much of it is done (0 to 1) where that is known."""
    stopped: threading.Event = field(default_factory=threading.Event)

    def check_stopped(self) -> None:
        """Raises QueryError with code 'interrupted' after a request to stop."""
        if self.stopped.is_set():
            raise QueryError("interrupted", code="interrupted")


class Operator(Protocol):
    """One step of execution: a generator of Arrow batches."""

    def run(self, engine: Engine) -> Rows:
        """Do it. Nothing happens before the first item is asked for."""

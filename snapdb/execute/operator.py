"""What a physical operator is, and the engine it runs in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from snapdb.errors import QueryError
from snapdb.execute.own_database import Opener
from snapdb.execute.work import Work
from snapdb.loading.shelf import CacheShelf
from snapdb.plan.scope import Context
from snapdb.relational import Relational, Session
from snapdb.storage.home import Home
from snapdb.storage.ledger import Ledger
from snapdb.storage.locks import TablesLock

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
    work: Work
    """Where changes go: to a version each, or to the open transaction."""
    tables: TablesLock
    """Held shared since before the catalog was read."""
    caches: CacheShelf
    """What streams of this process leave of their caches."""
    progress: Progress | None = None
    """Called with what is being done, and how much of it is done (0 to 1) where that is known."""
    stopped: threading.Event = field(default_factory=threading.Event)
    threads: int | None = None
    """That may be taken at most; None: all cores."""
    opener: Opener | None = None
    """Opens the database once more, for a task's run."""

    def report(self, what: str, share: float | None) -> None:
        """Tell what is being done, and how much of it is."""
        if self.progress is not None:
            self.progress(what, share)

    def step(self, what: str, share: float | None) -> None:
        """Report, and stop where that was asked for: between two steps of long work of our own."""
        self.check_stopped()
        self.report(what, share)

    def watching(self, session: Session, what: str) -> AbstractContextManager[None]:
        """Report how far the session's query has come while the block runs, where somebody listens."""
        if self.progress is None:
            return nullcontext()
        self.report(what, None)
        return session.watched(lambda share: self.report(what, share))

    def check_stopped(self) -> None:
        """Raises QueryError with code 'interrupted' after a request to stop."""
        if self.stopped.is_set():
            raise QueryError("interrupted", code="interrupted")


class Operator(Protocol):
    """One step of execution: a generator of Arrow batches."""

    def run(self, engine: Engine) -> Rows:
        """Do it. Nothing happens before the first item is asked for."""

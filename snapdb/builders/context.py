"""What the arrays of a snapshot are built in: an open store, with a report of progress and a request to stop."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from snapdb.errors import QueryError
from snapdb.sql_engine import SqlSession
from snapdb.storage.store import Store

Progress = Callable[[str, float | None], None]
"""Called with what is being done and, where it is known, the share that is done (0 to 1)."""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """A store to build in."""

    store: Store
    progress: Progress | None
    stopped: threading.Event
    """Set by a request to stop."""

    def report(self, what: str, share: float | None) -> None:
        """Report what is being done, and how much of it is."""
        if self.progress is not None:
            self.progress(what, share)

    def step(self, what: str, share: float | None) -> None:
        """Report, and stop where that was requested: between two steps of long work of our own."""
        self.check_stopped()
        self.report(what, share)

    def watching(self, session: SqlSession, what: str) -> AbstractContextManager[None]:
        """Report how far the session's query has come while the block runs."""
        if self.progress is None:
            return nullcontext()
        self.report(what, None)
        return session.watched(lambda share: self.report(what, share))

    def check_stopped(self) -> None:
        """Raises QueryError with code 'interrupted' after a request to stop."""
        if self.stopped.is_set():
            raise QueryError("interrupted", code="interrupted")

"""The context of a build: an open store, with reports of progress and requests to stop."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from snapdb.errors import QueryError
from snapdb.sql_engine import SqlSession
from snapdb.storage.store import Store

Progress = Callable[[str, float | None], None]
"""Called with the current step and, where it is known, the share of it that is done (0 to 1)."""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """The store to build in, and the ways to report progress and to notice a request to stop."""

    store: Store
    """The database."""
    progress: Progress | None
    """Receives reports; None: nothing does."""
    stopped: threading.Event
    """Set by a request to stop."""

    def report(self, what: str, share: float | None) -> None:
        """Reports the current step, and the share of it that is done."""
        if self.progress is not None:
            self.progress(what, share)

    def step(self, what: str, share: float | None) -> None:
        """Reports, after a check whether to stop: call it between two steps of work outside of SQL."""
        self.check_stopped()
        self.report(what, share)

    def watching(self, session: SqlSession, what: str) -> AbstractContextManager[None]:
        """Reports the progress of the session's query while the block runs."""
        if self.progress is None:
            return nullcontext()
        self.report(what, None)
        return session.watched(lambda share: self.report(what, share))

    def check_stopped(self) -> None:
        """Raises QueryError with code 'interrupted' after a request to stop."""
        if self.stopped.is_set():
            raise QueryError("interrupted", code="interrupted")

"""The context of a build: an open store, progress reports and stop requests."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from snapdb.errors import QueryError
from snapdb.sql_engine import SqlSession
from snapdb.storage.store import Store

Progress = Callable[[str, float | None], None]
"""A function that is called with the current step and its completed share (0 to 1), or None if the share is unknown."""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """The store in which to build, progress reports and stop requests."""

    store: Store
    """The database."""
    progress: Progress | None
    """Receives progress reports. None disables them."""
    stopped: threading.Event
    """Set by a stop request."""

    def report(self, what: str, share: float | None) -> None:
        """Report the current step and its completed share."""
        if self.progress is not None:
            self.progress(what, share)

    def step(self, what: str, share: float | None) -> None:
        """Check for a stop request, then report. Must be called between two steps of work outside SQL."""
        self.check_stopped()
        self.report(what, share)

    def watching(self, session: SqlSession, what: str) -> AbstractContextManager[None]:
        """Report the progress of the session's query while the block runs."""
        if self.progress is None:
            return nullcontext()
        self.report(what, None)
        return session.watched(lambda share: self.report(what, share))

    def check_stopped(self) -> None:
        """Raise QueryError with code 'interrupted' after a stop request."""
        if self.stopped.is_set():
            raise QueryError("interrupted", code="interrupted")

"""Runs what a page reads: at most a few blocks at once, each with a database of its own and a time limit."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from snapdb.database import Database
from snapdb.errors import (
    BindError,
    CommitConflict,
    DatabaseError,
    InputError,
    LockedError,
    ParseError,
    QueryError,
    SnapdbError,
)
from snapdb.remote import attachment_of
from snapdb.sql.syntax import Statement
from snapdb_ui.cells import Cell, cells_of

_T = TypeVar("_T")
_AT_ONCE = 4
"""The number of blocks that run at once."""
_MEMORY_SHARE = 0.25
"""The share of the usable memory that all queries may use together."""
_MOST_TEXT = 8_000_000
"""The maximum number of characters of a result."""
_FOLLOW = 2.0
"""The seconds between two looks for a newer generation of a published database."""
_PULSE = 0.1
"""The seconds between checks whether the browser still waits."""
_ATTEMPTS = 3
"""How often a block is repeated if a snapshot is replaced while it is opened."""


class Rows(NamedTuple):
    """The first rows of a result."""

    names: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    more: bool
    """Whether there are more rows."""
    message: str | None = None
    """The message of a statement without rows."""


@dataclass
class Reader:
    """The databases that serve the pages."""

    path: Path
    folders: Sequence[Path] = ()
    """The folders whose files queries may read."""
    limit: int = 1000
    """The maximum number of rows of a result."""
    timeout: float = 30.0
    """The maximum number of seconds of a block."""
    patience: float = 10.0
    """The maximum number of seconds that a block waits for the others."""
    _idle: list[Database] = field(default_factory=list)
    _blocks: set[_Running] = field(default_factory=set)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_AT_ONCE, "snapdb-ui"))
    _followed: WeakKeyDictionary[Database, float] = field(default_factory=WeakKeyDictionary)
    """When each database looked for a newer generation."""
    _closed: bool = False

    @cached_property
    def url(self) -> str | None:
        """The URL of a published database, or None."""
        attachment = attachment_of(self.path)
        return None if attachment is None else attachment.url

    @property
    def shown(self) -> str:
        """What readers know the database by: its URL or path."""
        return self.url or str(self.path)

    def open(self) -> Database:
        """Open the database for reading only. Its statements can read no other files than those in `folders`."""
        folders = [Path(folder).absolute() for folder in self.folders]
        threads = max(1, (os.cpu_count() or 1) // 2)
        share = _MEMORY_SHARE / _AT_ONCE
        return Database(self.path, read_only=True, folders=folders, threads=threads, memory_share=share)

    @contextmanager
    def database(self) -> Iterator[Database]:
        """Borrow a database."""
        with self._guard:
            database = self._idle.pop() if self._idle else None
        database = database or self.open()
        try:
            self._follow(database)
            yield database
        except (ParseError, BindError, QueryError, InputError):
            self._keep(database)
            raise
        except BaseException:
            database.close()  # its files may be gone, so the next block opens it again
            raise
        self._keep(database)

    def _follow(self, database: Database) -> None:
        """Switch a published database to the newest generation, at most every few seconds."""
        now = time.monotonic()
        if self.url is not None and now - self._followed.get(database, 0.0) > _FOLLOW:
            self._followed[database] = now
            with suppress(DatabaseError):  # a store that cannot be reached does not matter to files that are here
                database.renew()

    def _keep(self, database: Database) -> None:
        with self._guard:
            if not self._closed:
                self._idle.append(database)
                return
        database.close()

    async def run(self, gone: Callable[[], Awaitable[bool]], block: Callable[[Database], _T]) -> _T:
        """Run a block of statements in a thread. It is interrupted after the time limit, and when the browser is gone.

        Args:
            gone: Whether the browser has closed the connection.
            block: The function to run. All of its statements read the same version.

        Raises:
            LockedError: Other blocks are running, and none of them ends in time.
            QueryError: The time limit was exceeded, or the server ends.
        """
        try:
            await asyncio.wait_for(self._free.acquire(), self.patience)
        except TimeoutError:
            raise LockedError(
                f"{_AT_ONCE} statements are running; wait for one of them, or cancel it", code="page-busy"
            ) from None
        running = _Running()
        try:
            return await self._awaited(running, gone, block)
        finally:
            self._free.release()

    async def _awaited(
        self, running: _Running, gone: Callable[[], Awaitable[bool]], block: Callable[[Database], _T]
    ) -> _T:
        """Run a block in a thread, and interrupt it if it is late or not needed any longer."""

        def run() -> _T:
            with self._registered(running), self.database() as database, running.of(database):
                return _at_one_moment(database, block)

        task = asyncio.get_running_loop().run_in_executor(self._threads, run)
        try:
            while not (await asyncio.wait({task}, timeout=_PULSE))[0]:
                if running.seconds > self.timeout:
                    running.is_late = True
                if running.is_late or await gone():
                    running.stop()
            return task.result()
        except asyncio.CancelledError:
            running.stop()
            task.add_done_callback(asyncio.Future.exception)  # asyncio logs errors that nobody asks for
            raise QueryError("interrupted, because the server ends", code="interrupted") from None
        except QueryError as error:
            if error.code == "interrupted" and running.is_late:
                raise QueryError(
                    f"stopped after {self.timeout:g} seconds, the limit of the page; run the statement at the prompt, "
                    "or start the pages with a longer --timeout",
                    code="page-timeout",
                ) from error
            raise

    @property
    def running(self) -> int:
        """The number of blocks that are running."""
        with self._guard:
            return len(self._blocks)

    @contextmanager
    def _registered(self, running: _Running) -> Iterator[None]:
        with self._guard:
            self._blocks.add(running)
        try:
            yield
        finally:
            with self._guard:
                self._blocks.discard(running)

    def interrupt(self) -> None:
        """Interrupt all blocks."""
        with self._guard:
            blocks = list(self._blocks)
        for running in blocks:
            running.stop()

    def close(self) -> None:
        """Interrupt what is running, and close the databases."""
        with self._guard:
            self._closed = True
        while self.running:
            self.interrupt()
            time.sleep(_PULSE)
        self._threads.shutdown(wait=False)
        with self._guard:
            idle, self._idle = self._idle, []
        for database in idle:
            with suppress(SnapdbError):
                database.close()


class _Running:
    """A block that runs in a thread."""

    def __init__(self) -> None:
        self.is_late = False
        """Whether the block exceeded the time limit."""
        self._stopped = False
        self._database: Database | None = None
        self._began = 0.0
        self._guard = threading.Lock()

    @property
    def seconds(self) -> float:
        """The time since the block began, or 0 before that."""
        return time.monotonic() - self._began if self._database is not None else 0.0

    @contextmanager
    def of(self, database: Database) -> Iterator[None]:
        """Let `stop` interrupt the statements of a database during a block.

        Raises:
            QueryError: The block was stopped before it began.
        """
        self._began = time.monotonic()
        with self._guard:
            if self._stopped:
                raise QueryError("interrupted", code="interrupted")
            self._database = database
        try:
            yield
        finally:
            with self._guard:
                self._database = None

    def stop(self) -> None:
        """Interrupt the block. Its next statement may begin afterwards, so this is repeated until the block ends."""
        with self._guard:
            self._stopped = True
            if self._database is not None:
                self._database.interrupt()


def _at_one_moment(database: Database, block: Callable[[Database], _T]) -> _T:
    """Return what a block returns. All of its statements read the same version.

    If a snapshot is replaced while it is opened, the block is repeated with the newest version.
    """
    for _ in range(_ATTEMPTS):
        try:
            with database._session.pinned():
                return block(database)
        except CommitConflict:
            continue
    with database._session.pinned():
        return block(database)


def rows(database: Database, statement: str | Statement, most: int | None = None) -> Rows:
    """Return the first rows of a statement's result as cells, and close the rest."""
    result = database.execute(statement) if isinstance(statement, str) else database.run(statement)
    if not result.is_query:
        return Rows([], [], False, result.message)
    found: list[Sequence[Cell]] = []
    size = 0
    with closing(result):
        for batch in result:
            part = batch if most is None else batch.slice(0, most + 1 - len(found))
            for row in zip(*(cells_of(column) for column in part.columns), strict=True):
                size += sum(len(one.whole or one.text) for one in row)
                if len(found) == most or (found and size > _MOST_TEXT):
                    return Rows(list(result.columns), found, True)
                found.append(row)
    return Rows(list(result.columns), found, False)


def dicts(database: Database, query: str) -> list[dict[str, Any]]:
    """Return all rows of a query over system tables as dicts."""
    found: list[dict[str, Any]] = database.execute(query).arrow().to_pylist()
    return found

"""Runs what a page reads: at most a few blocks at once, each with a database of its own and a time limit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from snapdb.database import Database
from snapdb.errors import BindError, InputError, LockedError, ParseError, QueryError
from snapdb.sql.syntax import Statement

_T = TypeVar("_T")
_AT_ONCE = 4
"""The number of blocks that run at once."""
_PULSE = 0.1
"""The seconds between checks whether the browser still waits."""
_ATTEMPTS = 3
"""How often a block is repeated if the database changed while it ran."""


class Rows(NamedTuple):
    """The first rows of a result."""

    names: list[str]
    rows: list[tuple[Any, ...]]
    more: bool
    """Whether there are more rows."""
    message: str | None = None
    """The message of a statement without rows."""

    @property
    def dicts(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        return [dict(zip(self.names, row, strict=True)) for row in self.rows]


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
    _free: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_AT_ONCE))

    def open(self) -> Database:
        """Open the database for reading only. Its statements can read no other files than those in `folders`."""
        return Database(self.path, read_only=True, folders=[Path(folder).absolute() for folder in self.folders])

    @contextmanager
    def database(self) -> Iterator[Database]:
        """Borrow a database.

        Raises:
            LockedError: All databases are in use, and none becomes free in time.
        """
        if not self._free.acquire(timeout=self.patience):
            raise LockedError(
                f"{_AT_ONCE} statements are running; wait for one of them, or cancel it", code="page-busy"
            )
        try:
            with self._guard:
                database = self._idle.pop() if self._idle else None
            database = database or self.open()
            try:
                yield database
            except (ParseError, BindError, QueryError, InputError):
                self._keep(database)
                raise
            except BaseException:
                database.close()  # its files may be gone, so the next block opens it again
                raise
            self._keep(database)
        finally:
            self._free.release()

    def _keep(self, database: Database) -> None:
        with self._guard:
            self._idle.append(database)

    async def run(self, gone: Callable[[], Awaitable[bool]], block: Callable[[Database], _T]) -> _T:
        """Run a block of statements in a thread. It is interrupted after the time limit, and when the browser is gone.

        Args:
            gone: Whether the browser has closed the connection.
            block: The function to run. It is repeated if the database changes in between, so that what it returns is of
                one moment.

        Raises:
            QueryError: The time limit was exceeded.
        """
        running = _Running()

        def run() -> _T:
            with self.database() as database, self._registered(running), running.of(database):
                return _at_one_moment(database, block)

        task = asyncio.ensure_future(asyncio.to_thread(run))
        while not (await asyncio.wait({task}, timeout=_PULSE))[0]:
            if running.seconds > self.timeout:
                running.is_late = True
            if running.is_late or await gone():
                running.stop()
        try:
            return task.result()
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
        """Interrupt what is running, and close the databases that are not in use."""
        self.interrupt()
        with self._guard:
            while self._idle:
                with suppress(Exception):
                    self._idle.pop().close()


class _Running:
    """A block that runs in a thread."""

    def __init__(self) -> None:
        self.is_late = False
        """Whether the block exceeded the time limit."""
        self._database: Database | None = None
        self._began = 0.0
        self._guard = threading.Lock()

    @property
    def seconds(self) -> float:
        """The time since the block began, or 0 before that."""
        return time.monotonic() - self._began if self._database is not None else 0.0

    @contextmanager
    def of(self, database: Database) -> Iterator[None]:
        self._began = time.monotonic()
        with self._guard:
            self._database = database
        try:
            yield
        finally:
            with self._guard:
                self._database = None

    def stop(self) -> None:
        """Interrupt the block, if it runs."""
        with self._guard:
            if self._database is not None:
                self._database.interrupt()


def _at_one_moment(database: Database, block: Callable[[Database], _T]) -> _T:
    """Return what a block returns when the catalog is the same before and after it."""
    for _ in range(_ATTEMPTS):
        before = database.names()
        result = block(database)
        if database.names() is before:
            break
    return result


def rows(database: Database, statement: str | Statement, most: int | None = None) -> Rows:
    """Return the first rows of a statement's result, and close the rest."""
    result = database.execute(statement) if isinstance(statement, str) else database.run(statement)
    if not result.is_query:
        return Rows([], [], False, result.message)
    found: list[tuple[Any, ...]] = []
    names = list(result.columns)
    for batch in result:
        found += _tuples(batch if most is None else batch.slice(0, most + 1 - len(found)))
        if most is not None and len(found) > most:
            break
    result.close()
    return Rows(names, found[:most], most is not None and len(found) > most)


def dicts(database: Database, query: str) -> list[dict[str, Any]]:
    """Return all rows of a query as dicts."""
    return rows(database, query).dicts


def _tuples(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in batch.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows

"""An in-memory DuckDB with sessions. Each session is a cursor that sees only the names that were passed to it."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from snapdb.errors import BindError, InputError, ParseError, QueryError
from snapdb.memory import usable_memory
from snapdb.remote.files import file_system, schemes_in
from snapdb.sql_engine.attached import provide_metadata, provide_scanned
from snapdb.sql_engine.conjuncts import Conjunct, order_key
from snapdb.sql_engine.duckdb_errors import Place, translated
from snapdb.sql_engine.sources import TEMPORARY, Folders, Names, quote, text_literal
from snapdb.sql_engine.tables import create_bitmap_function
from snapdb.sql_engine.values import EXACT, empty, marked
from snapdb.types import Column

_IDLE = 8
"""The number of namespaces that are kept for reuse, because creating one takes milliseconds."""

_MEMORY_SHARE = 0.35
"""DuckDB uses at most this share of the usable memory, and spills larger joins, sorts and groups to disk."""

_THREAD_MEMORY = 192 << 20
"""The memory that a thread may need: a row group of 128 floats per row, compressed, decoded and as lists."""

_PULSE = 0.2
"""The interval, in seconds, at which a query's progress is read."""

_FUNCTIONS = """
    SELECT DISTINCT function_name FROM duckdb_functions()
    WHERE regexp_full_match(function_name, '[a-z][a-z0-9_]*') ORDER BY 1
"""
"""A query for function names. The pattern excludes operators, which are also functions."""

_VOLATILE = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"

_AGGREGATES = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"

_FUNCTION_NAMES: dict[str, tuple[str, ...]] = {}
"""The results of the three queries above. Each takes 40 ms, and no engine loads extensions or keeps user macros, so all
engines of a process have the same functions."""

Parameters = Sequence[Any] | Mapping[str, Any] | None

_SETTINGS = {
    # `FROM batch` must never read a Python variable, and DuckDB must not download anything.
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "errors_as_json": "true",
}
_LOCKED = (
    f"SET GLOBAL allowed_configs = ['enable_progress_bar', 'enable_progress_bar_print', '{EXACT}']",
    "SET GLOBAL lock_configuration = true",
)
"""Prevents queries from changing settings, for example with functions such as enable_logging. Logging writes files, and
DuckDB terminates the process if it is not allowed to write them. Only sessions themselves set the three allowed
settings."""

_ABANDONED: list[Any] = []
"""Engines with a statement that never ends. They are kept because closing such an engine would wait for the
statement."""


def _clock_macros(moment: datetime) -> tuple[str, ...]:
    """Return statements that make every clock function in the current namespace return a fixed time.

    Each session has a separate DuckDB transaction, whose clock starts with the transaction. Macros take precedence over
    DuckDB's functions.

    Args:
        moment: The time, in UTC.
    """
    day, time = f"{moment:%Y-%m-%d}", f"{moment:%H:%M:%S.%f}"
    values = {
        f"TIMESTAMPTZ '{day} {time}+00'": ("now", "get_current_timestamp", "transaction_timestamp"),
        f"TIMESTAMP '{day} {time}'": ("current_localtimestamp",),
        f"DATE '{day}'": ("current_date", "today"),
        f"TIMETZ '{time}+00'": ("get_current_time",),
        f"TIME '{time}'": ("current_localtime",),
    }
    return tuple(f'CREATE MACRO "{name}"() AS {value}' for value, names in values.items() for name in names)


class _Namespace(NamedTuple):
    """A cursor with a separate namespace."""

    cursor: duckdb.DuckDBPyConnection
    name: str
    views: tuple[str, ...]
    """The statements that created its views."""


class SqlEngine:
    """DuckDB in memory. It stores no data. Sessions read Parquet files through views that are created for them."""

    def __init__(
        self,
        own: Path,
        threads: int | None = None,
        folders: Sequence[str | Path] | None = None,
        *,
        attached: bool = False,
        memory_share: float | None = None,
    ) -> None:
        """Open the engine.

        Args:
            own: The database directory. A file in it that cannot be read is corrupt, rather than a user error.
            threads: The maximum number of threads, or None for one per core.
            folders: Absolute paths of the directories and files that can be read and written in addition to those of
                the tables, or None for no restriction.
            attached: Whether the database is an attached copy, whose files are fetched when a query reads them.
            memory_share: The share of the usable memory that DuckDB may use, or None for the default.
        """
        self._own = str(own)
        self._attached = attached
        self._folders = None if folders is None else Folders.of(own, folders)
        # Spilled data is written to the database directory instead of the user's working directory.
        room = own if os.access(own, os.W_OK) else Path(tempfile.gettempdir())
        config = {**_SETTINGS, "temp_directory": str(room / f".spill-{os.getpid()}-{id(self):x}")}
        # DuckDB's default of 80 % leaves too little for arrays and for pages of files that are being written, which
        # count too in a control group.
        memory = int(usable_memory() * (_MEMORY_SHARE if memory_share is None else memory_share))
        config["memory_limit"] = f"{memory}B"
        most = max(1, memory // _THREAD_MEMORY)
        if threads is not None or most < (os.cpu_count() or 1):
            config["threads"] = str(most if threads is None else min(threads, most))
        self._config = config
        self._reached: set[str] = set()
        """The schemes of URLs whose file systems are registered."""
        self._root = self._started()
        self._numbers = itertools.count(1)
        self._open: set[duckdb.DuckDBPyConnection] = set()
        self._idle: list[_Namespace] = []
        self._ended: deque[tuple[_Namespace, bool]] = deque()
        self._guard = threading.Lock()
        self._closed = False
        self._clock: tuple[str, ...] = ()
        self.stopped = threading.Event()
        """Set by an interrupt, and cleared at the start of each statement."""
        self._stuck: set[duckdb.DuckDBPyConnection] = set()

    def functions(self) -> tuple[str, ...]:
        """Return the names of DuckDB's functions in alphabetical order."""
        return self._names(_FUNCTIONS)

    def volatile(self) -> frozenset[str]:
        """Return the names of DuckDB's volatile functions, which can return a different value on each call."""
        return frozenset(self._names(_VOLATILE))

    def aggregates(self) -> frozenset[str]:
        """Return the names of DuckDB's aggregate functions."""
        return frozenset(self._names(_AGGREGATES))

    def _names(self, query: str) -> tuple[str, ...]:
        """Return the result of a query for function names, which is the same in all engines of a process."""
        names = _FUNCTION_NAMES.get(query)
        if names is None:
            with self.session() as session:
                names = _FUNCTION_NAMES[query] = tuple(str(name) for (name,) in session.rows(query))
        return names

    @contextmanager
    def session(
        self, names: Names | None = None, place: Place = lambda query, error: None, broken: dict[str, str] | None = None
    ) -> Iterator[SqlSession]:
        """Open a cursor with a separate namespace, which is removed after the block unless its names are lasting.

        Args:
            names: The names that the SQL can use.
            place: A function that is called with each DuckDB error and its query before the error is raised. The
                error's span refers to that query.
            broken: Receives the messages of definitions that are not valid any more, by case-folded name. A query that
                uses one of them raises an error that its name does not exist.
        """
        names, broken = names or Names(), {} if broken is None else broken
        views = (*names.statements, *names.defining, *self._clock)
        namespace = self._acquire(views)
        cursor, space, kept = namespace.cursor, namespace.name, False
        try:
            with translated(space, "", 0, place, self._own):  # creating a view reads the headers of its files
                for name, source in names.sources.items():
                    cursor.register(name, source)
                if self._attached:
                    provide_metadata(views)
                for statement in (*names.statements, *self._clock) if namespace.views != views else ():
                    cursor.execute(statement)
            if names.definitions and namespace.views != views:
                broken |= self._define(namespace, names)
            fetched, abandon = views if self._attached else None, partial(self._abandon, cursor)
            yield SqlSession(cursor, space, place, self._own, self.stopped, abandon, self._reach, fetched)
            kept = not (names.sources or broken) and (names.lasting or not views)
        finally:
            self._release(namespace._replace(views=views), kept)

    def _define(self, namespace: _Namespace, names: Names) -> dict[str, str]:
        """Create definitions, and return the messages of those that are not valid, by case-folded name."""
        waiting = list(zip(names.definitions, names.defining, strict=True))
        while True:
            failed = [
                (key, statement, message)
                for key, statement in waiting
                if (message := _broken(namespace.cursor, namespace.name, statement, self._own)) is not None
            ]
            # A definition can follow one that reads it, if it was replaced later, so those that fail are tried again.
            if len(failed) == len(waiting):
                return {key.name.lower(): f"{key.kind} {key.name} cannot be used: {text}" for key, _, text in failed}
            waiting = [(key, statement) for key, statement, _ in failed]

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Run the block in one thread at a time, then release the sessions that have ended in the meantime."""
        try:
            with self._guard:
                yield
        finally:
            self._release_ended()

    def _acquire(self, views: tuple[str, ...]) -> _Namespace:
        """Return a namespace with these views, or an empty one if there is none. Its cursor counts as open."""
        with self._guarded():
            idle = (one for wanted in (views, ()) for one in self._idle if one.views == wanted)
            namespace = next(idle, None)
            if namespace is None:
                namespace = self._new_namespace()
            else:
                self._idle.remove(namespace)
            self._open.add(namespace.cursor)
        return namespace

    def _release(self, namespace: _Namespace, kept: bool) -> None:
        """Release a namespace after its session. It is either kept for reuse (with LRU eviction) or removed."""
        self._open.discard(namespace.cursor)
        # Appending to a deque is atomic, so this needs no lock.
        self._ended.append((namespace, kept))
        self._release_ended()

    def _release_ended(self) -> None:
        """Release the sessions that have ended. If another thread holds the guard, that thread releases them.

        This method never blocks. The garbage collector can end the session of an unread result in any thread and at any
        time, even in the thread that holds the guard.
        """
        while self._ended and self._guard.acquire(blocking=False):
            try:
                unused = self._next_removed()
            finally:
                self._guard.release()
            if unused is not None:
                _detach(unused)

    def _next_removed(self) -> _Namespace | None:
        """Remove the session that ended first from the queue, and return the namespace to detach, if any."""
        try:
            namespace, kept = self._ended.popleft()
        except IndexError:  # another thread removed it first
            return None
        if namespace.cursor in self._stuck:
            return None
        if self._closed:  # an unread result can outlive its database
            namespace.cursor.close()
            return None
        if not kept:
            return namespace
        self._idle.append(namespace)
        return self._idle.pop(0) if len(self._idle) > _IDLE else None

    def _started(self) -> duckdb.DuckDBPyConnection:
        root = duckdb.connect(":memory:", config=self._config)
        # Results must not depend on the machine's time zone.
        root.execute("SET GLOBAL TimeZone = 'UTC'")
        create_bitmap_function(root)
        for setting in (*(() if self._folders is None else self._folders.settings), *_LOCKED):
            root.execute(setting)
        return root

    def _reach(self, query: str, parameters: Parameters) -> None:
        """Register the file systems of the URLs that a query may read. They are imported with the first URL."""
        values = parameters.values() if isinstance(parameters, Mapping) else parameters or ()
        texts = (query, *(value for value in values if isinstance(value, str)))
        for scheme in sorted({scheme for text in texts for scheme in schemes_in(text)} - self._reached):
            self._root.register_filesystem(file_system(scheme))
            self._reached.add(scheme)

    def set_clock(self, moment: datetime | None) -> None:
        """Make the clock functions of later sessions return this time (in UTC), or the current time if it is None."""
        self._clock = () if moment is None else _clock_macros(moment)

    def check_folder(self, path: str | Path) -> None:
        """Raise InputError if a file that is read or written without DuckDB is outside the allowed folders."""
        if self._folders is not None:
            self._folders.check(path)

    def _abandon(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Abandon a cursor that is blocked forever, together with its engine. Later sessions use a new engine."""
        with self._guarded():
            self._stuck.add(cursor)
            _ABANDONED.append((self._root, self._idle))
            self._idle = []
            self._reached = set()
            self._root = self._started()

    def _new_namespace(self) -> _Namespace:
        cursor, space = self._root.cursor(), f"snapdb_{next(self._numbers)}"
        # Each session gets its own in-memory database, so that a session cannot see the views of another one.
        cursor.execute(f"ATTACH ':memory:' AS {space}")
        cursor.execute(f"USE {space}")
        return _Namespace(cursor, space, ())

    def attach_temporary(self) -> None:
        """Add the database of temporary tables, which lasts as long as the engine."""
        with self._guarded():
            self._root.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {quote(TEMPORARY)}")

    def interrupt(self) -> None:
        """Interrupt the running queries of all sessions. Each of them raises QueryError with code 'interrupted'."""
        self.stopped.set()
        # The guard is not acquired, because a signal handler can run in the thread that holds it. Copying a set is
        # atomic under the GIL.
        for cursor in self._open.copy():
            with suppress(duckdb.ConnectionException):  # the cursor was closed just now
                cursor.interrupt()

    def close(self) -> None:
        """Close all cursors and free DuckDB's memory."""
        with self._guarded():
            self._closed = True
            while self._idle:
                self._idle.pop().cursor.close()
        self._root.close()


@dataclass(frozen=True, slots=True)
class SqlSession:
    """A cursor of the engine. A result must be read completely before the next query runs."""

    cursor: duckdb.DuckDBPyConnection
    space: str
    place: Place
    own: str
    stopped: threading.Event
    """Set by a stop request."""
    abandon: Callable[[], None]
    reach: Callable[[str, Parameters], None]
    attached: tuple[str, ...] | None = None
    """The statements that created the views, if the files of queries have to be fetched first, or None."""
    closing: tuple[Callable[[], None], ...] = ()
    """Called before a result is closed that was not read to its end."""

    def check_stopped(self) -> None:
        """Raise QueryError with code 'interrupted' after a stop request, which a later query would otherwise ignore."""
        if self.stopped.is_set():
            raise QueryError("interrupted", code="interrupted")

    def describe(
        self, query: str, parameters: Parameters = None, *, around: tuple[str, str] = ("", "")
    ) -> list[Column]:
        """Return the columns of a query without running it. `around` is the SQL before and after the query."""
        rows = self._fetch(f"DESCRIBE {around[0]}", query, around[1], parameters)
        return [Column(row[0], row[1]) for row in rows]

    def check_syntax(self, before: str, query: str, after: str) -> None:
        """Raise unless DuckDB's parser accepts `before + query + after`. Names in the SQL are not looked up.

        Raises:
            ParseError: The SQL is not valid. The span refers to `query`.
        """
        with self._reading(before, query):
            self.cursor.extract_statements(before + query + after)

    def change(self, query: str, parameters: Parameters = None) -> pa.Table:
        """Run a statement that changes a temporary table, and return its rows, or their number as column Count."""
        self._provide(query, parameters)
        with self._reading("", query):
            relation = self.cursor.sql(query, **_bound(parameters))
            return pa.table({}) if relation is None else relation.to_arrow_table()

    def rows(self, query: str, parameters: Parameters = None) -> list[tuple[Any, ...]]:
        """Return all rows as Python values."""
        return self._fetch("", query, "", parameters)

    def table(self, query: str, parameters: Parameters = None) -> pa.Table:
        """Return all rows as an Arrow table."""
        with self._reading("", query):
            return self._relation(query, parameters).to_arrow_table()

    def reader(
        self, query: str, parameters: Parameters = None, *, rows: int = 100_000
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows, while the session is open, as one or more Arrow batches of at most `rows` rows."""
        with self._reading("", query):
            reader = self._relation(query, parameters).to_arrow_reader(rows)
        return self._batches(query, reader, reader.schema)

    def exact_reader(self, query: str, parameters: Parameters = None) -> Generator[pa.RecordBatch, None, None]:
        """Like `reader`, but lossless for DuckDB types that Arrow lacks (see `sql_engine.values`)."""
        reader, ended = None, False
        self.cursor.execute(f"SET SESSION {EXACT} = true")
        try:
            with self._reading("", query):
                relation = self._relation(query, parameters)
                reader = relation.to_arrow_reader(100_000)
                schema = marked(reader.schema, relation.types)
            yield from self._batches(query, reader, schema)
            ended = True
        finally:
            for close in () if ended else self.closing:
                close()
            if reader is not None:
                reader.close()  # an open reader blocks the session
            with suppress(duckdb.ConnectionException):  # the database was closed while the result was being read
                self.cursor.execute(f"SET SESSION {EXACT} = false")

    def _batches(
        self, query: str, reader: pa.RecordBatchReader, schema: pa.Schema
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the reader's batches in a schema that describes the same types in more detail."""
        read = False
        while (batch := self._next(query, reader)) is not None:
            read = True
            yield batch if schema is reader.schema else pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        if not read:
            yield empty(schema)

    def wrap(self, before: str, query: str, after: str, parameters: Parameters = None) -> list[tuple[Any, ...]]:
        """Run `before + query + after`. The span of an error refers to `query`."""
        return self._fetch(before, query, after, parameters)

    def write(self, before: str, query: str, after: str, parameters: Parameters = None) -> int:
        """Run a COPY … TO, and return the number of rows written. The spans of errors refer to `query`."""
        self._provide(before + query + after, parameters)
        with self._reading(before, query):
            rows = _run_apart(self.cursor, before + query + after, parameters, self.stopped, self.abandon)
            return int(rows[0][0])

    @contextmanager
    def watched(self, report: Callable[[float | None], None]) -> Iterator[None]:
        """Call `report` with the running query's progress a few times per second during the block."""
        self.cursor.execute("SET enable_progress_bar = true")
        self.cursor.execute("SET enable_progress_bar_print = false")
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_PULSE):
                share = self.cursor.query_progress() / 100
                report(share if 0 <= share <= 1 else None)

        watcher = threading.Thread(target=watch, name="snapdb-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _provide(self, query: str, parameters: Parameters) -> None:
        """Make the files that the query reads accessible. The files of an attached copy are fetched."""
        self.reach(query, parameters)
        if self.attached is None:
            return
        texts = (query, *self.attached)
        provide_metadata(texts)
        with suppress(duckdb.Error):  # the query itself raises the error, with its position
            self.cursor.execute(f"EXPLAIN (FORMAT json) {query}", parameters)
            ((_, plan),) = self.cursor.fetchall()
            provide_scanned(texts, plan)

    def _relation(self, query: str, parameters: Parameters) -> duckdb.DuckDBPyRelation:
        self._provide(query, parameters)
        try:
            return self.cursor.sql(query, **_bound(parameters))
        except duckdb.Error:
            # Errors from a relation have no position, unlike errors from execute.
            self.describe(query, parameters)
            raise

    def _next(self, query: str, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
        with self._reading("", query):
            try:
                return reader.read_next_batch()
            except StopIteration:
                return None

    def _fetch(self, before: str, query: str, after: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        self._provide(before + query + after, parameters)
        with self._reading(before, query):
            self.cursor.execute(before + query + after, parameters)
            if self.cursor.description is None:
                return []
            rows: list[tuple[Any, ...]] = self.cursor.fetchall()
            return rows

    def _reading(self, before: str, query: str) -> AbstractContextManager[None]:
        return translated(self.space, query, len(before), self.place, self.own)

    def conjuncts(self, condition: str) -> list[Conjunct]:
        """Return the parts of a condition between top-level ANDs, or the whole condition if there are none."""
        statement = self._parse(f"SELECT 1 WHERE {condition}")
        where = statement["statements"][0]["node"]["where_clause"]
        if where["type"] != "CONJUNCTION_AND":
            return [Conjunct(condition, where)]
        texts = []
        for child in where["children"]:
            statement["statements"][0]["node"]["where_clause"] = child
            texts.append(f"json_deserialize_sql({text_literal(json.dumps(statement))}::JSON)")
        (parts,) = self.rows(f"SELECT {', '.join(texts)}")
        return [
            Conjunct(sql.removeprefix("SELECT 1 WHERE "), node)
            for sql, node in zip(parts, where["children"], strict=True)
        ]

    def order_keys(self, query: str) -> list[str | int] | None:
        """Return the outermost ORDER BY of a query as output columns, by name or 1-based position, or None.

        Raises:
            BindError: A key is an expression, or ALL.
        """
        node = self._parse(query)["statements"][0]["node"]
        orders = [o for m in node.get("modifiers", []) if m["type"] == "ORDER_MODIFIER" for o in m["orders"]]
        if not orders:
            return None
        return [order_key(order["expression"]) for order in orders]

    def files_behind(self, path: str) -> tuple[str, ...]:
        """Return the names of the files that match a path or glob, in order. The result can be empty.

        Raises:
            InputError: A file name cannot be written in SQL.
        """
        try:
            rows = self.rows(f"SELECT file FROM glob({text_literal(path)}) ORDER BY file")
        except QueryError as error:
            if "Invalid unicode" not in error.message:
                raise
            raise InputError(
                f"the name of a file that matches {text_literal(path)} is not valid UTF-8; rename it",
                code="unreadable-file",
            ) from error
        return tuple(str(name) for (name,) in rows)

    def _parse(self, query: str) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.rows(f"SELECT json_serialize_sql({text_literal(query)})")[0][0])
        if parsed.get("error"):
            raise ParseError(f"cannot read {query!r}: {parsed.get('error_message')}", code="query-syntax")
        return parsed


def _broken(cursor: duckdb.DuckDBPyConnection, space: str, statement: str, own: str) -> str | None:
    """Run a CREATE statement, and return the message of its error, or None without one."""
    try:
        with translated(space, "", 0, lambda query, error: None, own):
            cursor.execute(statement)
    except QueryError as error:
        if error.code == "interrupted":
            raise
        return error.message
    except BindError as error:
        return error.message
    return None


def _bound(parameters: Parameters) -> dict[str, Any]:
    return {} if parameters is None else {"params": parameters}


def _detach(namespace: _Namespace) -> None:
    try:
        namespace.cursor.execute("USE memory")
        namespace.cursor.execute(f"DETACH {namespace.name}")
    except duckdb.Error:
        # An unread result holds the namespace. Closing the cursor releases both.
        namespace.cursor.interrupt()
    namespace.cursor.close()


# DuckDB writes a file's row groups in tasks. An interrupt can lose a task, and DuckDB then waits for it forever. An
# error in the query cannot cause this. The session must remain usable, so COPY … TO runs in a separate thread, which is
# abandoned if an interrupt does not end it.

_PATIENCE = 3.0
"""The time in seconds within which a statement normally ends after an interrupt."""
_WRITER_POLL = 0.05
"""The interval in seconds between checks for an interrupt. The end of the statement wakes the thread immediately."""


def _run_apart(
    cursor: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: Parameters,
    stopped: threading.Event,
    abandon: Callable[[], None],
) -> list[Any]:
    """Run a statement in another thread, and return its rows.

    Args:
        cursor: The cursor.
        sql: The statement.
        parameters: The parameters of the statement.
        stopped: Set by a stop request.
        abandon: A function that is called if the statement does not end. The statement and the cursor must not be used
            again.

    Raises:
        InterruptException: A stop was requested. Other errors from the statement are also raised.
    """
    done = threading.Event()
    rows: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            cursor.execute(sql, parameters)
            rows.extend(cursor.fetchall())
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="snapdb-writer", daemon=True).start()
    try:
        while not done.wait(_WRITER_POLL) and not stopped.is_set():
            continue
    except BaseException:  # Ctrl-C without a handler that turns it into an interrupt
        _end(cursor, done, abandon)
        raise
    if not done.is_set() and not _end(cursor, done, abandon):
        raise duckdb.InterruptException("INTERRUPT")
    if failed:
        raise failed[0]
    return rows


def _end(cursor: duckdb.DuckDBPyConnection, done: threading.Event, abandon: Callable[[], None]) -> bool:
    """Return whether the statement ends. Interrupts before its start are ignored, so it is interrupted repeatedly."""
    last = time.monotonic() + _PATIENCE
    while not done.is_set() and time.monotonic() < last:
        cursor.interrupt()
        done.wait(_WRITER_POLL)
    if not done.is_set():
        abandon()
    return done.is_set()

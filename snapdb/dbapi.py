"""The Python database API (PEP 249), for pandas, SQLAlchemy and other tools that expect it.

    from snapdb import dbapi

    with dbapi.connect("shop.snapdb") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT cid FROM customer WHERE age > ?", [30])
        rows = cursor.fetchall()

Without `autocommit`, the first statement that writes begins a transaction, which `commit` turns into one version.
Statements that a transaction cannot contain, such as CREATE SNAPSHOT, commit what precedes them.
"""

from __future__ import annotations

import datetime
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from snapdb import errors
from snapdb.attribute_docs import document_attributes
from snapdb.database import Database
from snapdb.database import connect as open_database
from snapdb.errors import DataError as _DataError
from snapdb.errors import SnapdbError, brief_traceback
from snapdb.execute.results import Result
from snapdb.plan.queries import Parameters
from snapdb.plan.variables import caller_variables, reads_variables
from snapdb.sql import parse_one
from snapdb.sql.syntax import Statement

apilevel = "2.0"
"""The version of the API."""
threadsafety = 1
"""Threads may share the module, but not connections."""
paramstyle = "qmark"
"""Parameters are written as `?`. Names, as in `$low` with a mapping, work too."""


class Warning(Exception):  # noqa: A001, N818  # the name is PEP 249's
    """Never raised: warnings use Python's `warnings` module."""


class Error(SnapdbError):
    """The base class of the errors of this module. `__cause__` is snapdb's own error."""


class InterfaceError(Error):
    """The API was used wrongly, for example a closed cursor."""


class DatabaseError(Error):
    """The database reported an error."""


class DataError(DatabaseError):
    """A value does not fit its type or its table."""


class OperationalError(DatabaseError):
    """The database, its files or the machine failed, or another writer was faster."""


class IntegrityError(DatabaseError):
    """A constraint is violated."""


class InternalError(DatabaseError):
    """The database is damaged."""


class ProgrammingError(DatabaseError):
    """The statement has a mistake, or a name in it does not exist."""


class NotSupportedError(DatabaseError):
    """snapdb does not support the statement."""


_KINDS: tuple[tuple[type[SnapdbError], type[DatabaseError]], ...] = (
    (errors.CorruptError, InternalError),
    (errors.CommitConflict, OperationalError),
    (errors.LockedError, OperationalError),
    (errors.DatabaseError, OperationalError),
    (errors.FormatError, OperationalError),
    (errors.ParseError, ProgrammingError),
    (errors.BindError, ProgrammingError),
    (errors.InputError, ProgrammingError),
    (errors.QueryError, DataError),
)
_INSERT = re.compile(
    r"(?P<start>\s*INSERT\s[^?]*\bVALUES\s*)(?P<row>\(\s*\?(?:\s*,\s*\?)*\s*\))\s*;?\s*", re.IGNORECASE
)
_PARAMETERS = 10_000
"""The number of parameters that one statement of `executemany` has."""
_REFUSED = "refused"
"""The code of statements that snapdb does not support."""
_BROKEN = ("constraint", "not-null", "duplicate", "foreign-key", "referenced", "dangling")
"""The beginnings of the codes of violated constraints."""


def _translated(error: SnapdbError) -> Error:
    """Return PEP 249's error for an error of snapdb, with the same message, position and code."""
    if error.code == _REFUSED:
        kind: type[Error] = NotSupportedError
    elif isinstance(error, _DataError):
        kind = IntegrityError if error.code.startswith(_BROKEN) else DataError
    else:
        kind = next((own for theirs, own in _KINDS if isinstance(error, theirs)), DatabaseError)
    return kind(error.message, span=error.span, text=error.text, code=error.code)


class _Kind(frozenset[str]):
    """The SQL types of one of PEP 249's kinds: equal to each of their names."""

    def __eq__(self, other: object) -> bool:
        return str(other).partition("(")[0] in self if isinstance(other, str) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = frozenset.__hash__


STRING = _Kind({"VARCHAR", "UUID", "ENUM", "JSON", "BIT"})
"""The kind of texts in `description`."""
BINARY = _Kind({"BLOB", "GEOMETRY"})
"""The kind of bytes."""
NUMBER = _Kind(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"}
    | {"FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN", "BIGNUM"}
)
"""The kind of numbers."""
DATETIME = _Kind(
    {"DATE", "TIME", "TIME WITH TIME ZONE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS"}
    | {"TIMESTAMP_NS", "INTERVAL"}
)
"""The kind of dates, times and intervals."""
ROWID = _Kind({"ROWID"})
"""The kind of row ids. No column has it."""

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802  # the name is PEP 249's
    """Return the local date of a number of seconds since 1970."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    """Return the local time of day of a number of seconds since 1970."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """Return the local date and time of a number of seconds since 1970."""
    return Timestamp(*time.localtime(ticks)[:6])


Description = tuple[str, str, None, None, None, None, bool | None]
"""The name and the SQL type of a column. The other items are unknown."""


@document_attributes
class Cursor:
    """Runs statements of a connection, and holds the rows of the last one."""

    arraysize: int
    """The number of rows that `fetchmany` returns by default."""
    description: list[Description] | None
    """The columns of the last query, or None for other statements."""
    rowcount: int
    """The number of rows that the last statement added, changed or removed, or -1 for a query."""
    lastrowid: None
    """Always None."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.variables = connection.database.variables
        self.arraysize, self.rowcount = 1, -1
        self.description = None
        self.lastrowid = None
        self._result: Result | None = None
        self._closed = False

    @brief_traceback
    @reads_variables
    def execute(self, operation: str, parameters: Parameters = None) -> Self:
        """Run a statement.

        Args:
            operation: The text of one statement.
            parameters: A sequence of values for `?`, or a mapping for `$name`.

        Raises:
            Error: The statement failed.
        """
        self._set(self._run(operation, parameters))
        return self

    @brief_traceback
    @reads_variables
    def executemany(self, operation: str, seq_of_parameters: Sequence[Sequence[Any] | Mapping[str, Any]]) -> Self:
        """Run a statement that writes once for each item of `seq_of_parameters`, in one transaction."""
        total = 0
        with self.connection._whole():
            for text, parameters in _batched(operation, list(seq_of_parameters)):
                self._set(self._run(text, parameters))
                total += max(self.rowcount, 0)
        if self.description is None:
            self.rowcount = total
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last one."""
        return next(iter(self.fetchmany(1)), None)

    @brief_traceback
    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return up to `size` more rows, or `arraysize`."""
        with _pep_errors():
            return self._rows().fetchmany(self.arraysize if size is None else size)

    @brief_traceback
    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the remaining rows."""
        with _pep_errors():
            return self._rows().fetchmany(sys.maxsize)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield the remaining rows."""
        return iter(self.fetchone, None)

    @brief_traceback
    def fetch_arrow_table(self) -> pa.Table:
        """Return all rows of the query as an Arrow table, as ADBC's cursors do."""
        with _pep_errors():
            return self._rows().arrow()

    @brief_traceback
    def fetch_df(self) -> Any:
        """Return all rows of the query as a pandas DataFrame."""
        with _pep_errors():
            return self._rows().df()

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Do nothing: values need no space in advance."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing: values need no space in advance."""

    def close(self) -> None:
        """Discard the unread rows. The cursor cannot be used any longer."""
        if self._result is not None:
            self._result.close()
        self._closed, self._result = True, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _run(self, operation: str, parameters: Parameters) -> Result:
        if self._closed:
            raise InterfaceError(
                "the cursor is closed; make another one with connection.cursor()", code="closed-cursor"
            )
        with _pep_errors():
            statement = parse_one(operation)
            self.connection._prepare(statement, parameters)
            return self.connection.database.run(statement, parameters or None)

    def _set(self, result: Result) -> None:
        self._result = result
        self.rowcount = -1 if result.is_query else result.rowcount
        self.description = None
        if result.is_query:
            named = zip(result.columns, result.types, strict=True)
            self.description = [(name, kind, None, None, None, None, None) for name, kind in named]

    def _rows(self) -> Result:
        if self._result is None or not self._result.is_query:
            raise InterfaceError("there are no rows: the last statement is not a query", code="no-rows")
        return self._result


def _batched(operation: str, rows: Sequence[Any]) -> Iterator[tuple[str, Parameters]]:
    """Yield statements that do what `operation` does for each row, with few of them for INSERT … VALUES (?, …)."""
    match = _INSERT.fullmatch(operation)
    width = 0 if match is None else match["row"].count("?")
    if match is None or not all(isinstance(row, Sequence) and len(row) == width for row in rows):
        yield from ((operation, row) for row in rows)
        return
    size = max(_PARAMETERS // width, 1)
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        yield match["start"] + ", ".join([match["row"]] * len(part)), [value for row in part for value in row]


@document_attributes
class Connection:
    """An open connection, which `connect` returns. As a context manager, it commits or rolls back its changes."""

    autocommit: bool
    """Whether each statement is a transaction of its own."""
    database: Database
    """The open database, whose other methods can be used as well."""

    def __init__(self, database: Database, autocommit: bool = False) -> None:
        self.database = database
        self.autocommit = autocommit
        self._fit: dict[type[Statement], bool] = {}

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        return Cursor(self)

    @brief_traceback
    def execute(self, operation: str, parameters: Parameters = None) -> Cursor:
        """Run a statement with a new cursor, and return the cursor."""
        with caller_variables() if self.database.variables else nullcontext():
            return self.cursor().execute(operation, parameters)

    @brief_traceback
    def commit(self) -> None:
        """Commit the transaction: its changes become one version. Without a transaction, do nothing.

        Raises:
            OperationalError: Another writer changed data on which the transaction is based.
        """
        if self.database.transaction_state != "idle":
            with _pep_errors():
                self.database.execute("COMMIT")

    @brief_traceback
    def rollback(self) -> None:
        """Discard the changes of the transaction. Without a transaction, do nothing."""
        if self.database.transaction_state != "idle":
            with _pep_errors():
                self.database.execute("ROLLBACK")

    def close(self) -> None:
        """Roll back the transaction, and close the database."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def _prepare(self, statement: Statement, parameters: Parameters) -> None:
        """Begin a transaction before a statement that writes, or commit before one that no transaction can contain."""
        if self.autocommit or statement.only_reads() or statement.delimits:
            return
        kind = type(statement)
        if kind not in self._fit:
            self._fit[kind] = self.database.plan(statement, parameters or None).fits_transaction()
        if not self._fit[kind]:
            self.commit()
        elif self.database.transaction_state == "idle":
            self.database.execute("BEGIN")

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Run the statements of the block in one transaction, also with autocommit."""
        if not self.autocommit or self.database.transaction_state != "idle":
            yield
            return
        with self.database.transaction():
            yield


@contextmanager
def _pep_errors() -> Iterator[None]:
    """Raise the errors of this module for those of snapdb."""
    try:
        yield
    except Error:
        raise
    except SnapdbError as error:
        raise _translated(error) from error


@brief_traceback
def connect(database: str | Path | None = None, *, autocommit: bool = False, **options: Any) -> Connection:
    """Open a database.

    Args:
        database: The database directory or URL, or None or ":memory:" for a temporary one.
        autocommit: Whether each statement is a transaction of its own.
        **options: The other options of `snapdb.connect`, such as `read_only=True`.

    Raises:
        OperationalError: The database cannot be opened.
    """
    with _pep_errors():
        return Connection(open_database(None if database == ":memory:" else database, **options), autocommit)

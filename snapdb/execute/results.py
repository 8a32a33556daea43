"""The result of a statement, read as Arrow batches in one iteration or as all rows at once."""

import importlib
import shutil
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from snapdb.attribute_docs import document_attributes
from snapdb.errors import InputError, QueryError, brief_traceback
from snapdb.execute.rendering import is_plan, page, render
from snapdb.sql_engine.values import empty, numpy_columns, plain, plain_schema, python_rows, sql_types
from snapdb.types.text import block

_AHEAD = 1000
"""The number of rows that `fetchone` converts to Python values at once, because each conversion runs a query."""


class Outcome(NamedTuple):
    """The effect of a statement that is not a query."""

    message: str
    """One line of text for the user."""
    rows: int = 0
    """The number of rows added or removed."""


Rows = Generator[pa.RecordBatch, None, Outcome | None]
"""A query yields at least one batch, which has the schema. Any other statement yields no batch and returns an
Outcome."""


@document_attributes
class Result:
    """The rows of a query, or the message of any other statement. `print` displays a table.

    Read all rows any number of times (`arrow`, `df`, `pl`), or iterate once over Arrow record batches while the query
    runs.

    Examples:
        >>> import snapdb
        >>> db = snapdb.connect()
        >>> result = db.execute("SELECT range AS n, range % 2 = 0 AS even FROM range(3)")
        >>> result.columns, result.rowcount
        (['n', 'even'], 3)
        >>> result.fetchone()
        (0, True)
        >>> result.fetchall()
        [(1, False), (2, True)]
        >>> result.arrow().column("n").to_pylist()
        [0, 1, 2]
        >>> db.close()
    """

    charts: str
    """HTML that notebooks show above the table: for SHOW VERSIONS and SUMMARIZE SNAPSHOT, `%snap` sets it to charts of
    growth and degrees. Otherwise empty."""

    def __init__(self, rows: Rows, guard: Callable[[Rows], Rows]) -> None:
        self.charts = ""
        self._rows = guard(rows)
        self._outcome: Outcome | None = None
        self._exact: pa.Table | None = None
        self._table: pa.Table | None = None
        self._schema: pa.Schema | None = None
        # The first batch is computed here, so that `execute` raises the statement's errors and the schema is known.
        self._first = self._advance()
        self._given: pa.Schema = pa.schema([]) if self._first is None else self._first.schema
        self._started = False
        self._fetched = 0
        self._ready: deque[tuple[Any, ...]] = deque()

    @property
    def is_query(self) -> bool:
        """Whether the result is a table, which may be empty, rather than a message."""
        return self._outcome is None or bool(self._given.names)

    @property
    def message(self) -> str | None:
        """One line that describes what the statement did, or None for a query."""
        return None if self._outcome is None else self._outcome.message

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of `arrow()`."""
        if self._schema is None:
            self._schema = plain_schema(self._given)
        return self._schema

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return list(self._given.names)

    @property
    def types(self) -> list[str]:
        """The SQL types of the columns, such as 'BIGINT'. Empty for a statement that is not a query."""
        return sql_types(self._given) if self.is_query else []

    @property
    def rowcount(self) -> int:
        """The number of rows of a query, or of the rows that the statement added or removed."""
        return self.arrow().num_rows if self._outcome is None or self.is_query else self._outcome.rows

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield Arrow record batches, at least one for a query.

        Raises:
            QueryError: The batches have already been iterated over without a call to `arrow`, which retains them.
        """
        if self._table is not None:
            yield from self._table.to_batches() or [empty(self.schema)]
            return
        if self._exact is not None:
            yield from self.arrow().to_batches() or [empty(self.schema)]
            return
        yield from map(plain, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self._started:
            raise QueryError("this result has already been read; call .arrow() first to read it twice", code="consumed")
        self._started = True
        batch = self._first
        self._first = None
        while batch is not None:
            yield batch
            batch = self._advance()

    def arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        if self._table is None:
            batches = self._whole().to_batches()
            self._table = pa.Table.from_batches(map(plain, batches), schema=self.schema)
        return self._table

    def _whole(self) -> pa.Table:
        if self._exact is None:
            self._exact = (
                pa.Table.from_batches(list(self._batches()), schema=self._given) if self.is_query else pa.table({})
            )
        return self._exact

    def df(self) -> Any:
        """Return all rows as a pandas DataFrame.

        Raises:
            QueryError: pandas has no type for the values of a column.
            ModuleNotFoundError: pandas is not installed.
        """
        return _frame("pandas", self.arrow(), pa.Table.to_pandas)

    def pl(self) -> Any:
        """Return all rows as a polars DataFrame.

        Raises:
            InputError: polars is not installed.
            QueryError: polars has no type for the values of a column.
        """
        try:
            polars = importlib.import_module("polars")
        except ModuleNotFoundError:
            raise InputError(
                "pl() needs polars, which is not installed: pip install polars", code="package-missing"
            ) from None
        return _frame("polars", self.arrow(), polars.from_arrow)

    def fetchnumpy(self) -> dict[str, Any]:
        """Return all rows as one numpy array per column, by name. Columns with NULLs are masked arrays.

        Raises:
            QueryError: numpy has no type for the values of a column.
        """
        return numpy_columns(self._whole())

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows that `fetchone` and `fetchmany` have not returned yet, as tuples of Python values.

        The values have the types of DuckDB's Python client, such as int for HUGEINT, timedelta for INTERVAL, dict for
        MAP, tuple for ARRAY, and str for a date outside the range of Python's `date`.
        """
        return python_rows(self._whole().slice(self._fetched))

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """Return up to `size` more rows as tuples of Python values. The list is empty after the last row."""
        if size < 0:
            raise ValueError(f"size must be 0 or more, found {size}")
        while len(self._ready) < size:
            start = self._fetched + len(self._ready)
            rows = python_rows(self._whole().slice(start, max(size - len(self._ready), _AHEAD)))
            if not rows:
                break
            self._ready.extend(rows)
        taken = [self._ready.popleft() for _ in range(min(size, len(self._ready)))]
        self._fetched += len(taken)
        return taken

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row as a tuple of Python values, or None after the last row."""
        return next(iter(self.fetchmany()), None)

    def show(self, *, max_rows: int | None = 40, max_width: int | None = None) -> None:
        """Print the table.

        Args:
            max_rows: The maximum number of rows to print, or None for all.
            max_width: The maximum width of the table in terminal cells, or None for no limit.
        """
        print(self._rendered(max_rows, max_width))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as an Arrow C stream, batch by batch, for polars, DuckDB, pyarrow and other libraries."""
        reader = pa.RecordBatchReader.from_batches(self.schema, iter(self))
        return reader.__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Stop the query and discard the unread rows."""
        self._rows.close()
        self._started, self._first = True, None

    def __repr__(self) -> str:
        return self._rendered(40, None)

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks display."""
        return block(words) if (words := self._words()) is not None else self.charts + page(self.arrow())

    def _rendered(self, max_rows: int | None, width: int | None) -> str:
        if (words := self._words()) is not None:
            return words
        if width is None and is_plan(self.schema) and sys.stdout.isatty():
            width = shutil.get_terminal_size().columns
        return render(self.arrow(), width=width, max_rows=max_rows)

    def _words(self) -> str | None:
        """Return the message that is shown instead of a table, or None if the result is a table."""
        if not self.is_query:
            return str(self.message)
        if self._started and self._table is None:
            return f"<result with columns {', '.join(self.columns)}, already read>"
        return None

    @brief_traceback
    def _advance(self) -> pa.RecordBatch | None:
        try:
            return next(self._rows)
        except StopIteration as stop:
            self._outcome = stop.value
            return None


def _frame(library: str, table: pa.Table, convert: Callable[[pa.Table], Any]) -> Any:
    """Return the table as a data frame of another library.

    Raises:
        QueryError: The library cannot represent the values of a column.
    """
    try:
        return convert(table)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # each library raises its own errors
        column = next((n for i, n in enumerate(table.column_names) if not _converts(table.select([i]), convert)), None)
        raise QueryError(
            f"{library} cannot represent {'this result' if column is None else f'column {column}'}: {error}; cast it "
            "to "
            "VARCHAR, or read the result with arrow() or fetchall()",
            code="not-in-a-frame",
        ) from error


def _converts(table: pa.Table, convert: Callable[[pa.Table], Any]) -> bool:
    try:
        convert(table)
    except Exception:  # the caller already has this error and raises it
        return False
    return True

"""What a statement gives back: Arrow batches as they come, read once, or all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from snapdb.errors import QueryError
from snapdb.execute.operator import Outcome, Rows
from snapdb.execute.render import render

__all__ = ["Result"]


class Result:
    """The rows of a query, or what another statement did. It prints as a table.

    Rows are either iterated as record batches while they are made, once, or taken whole as often as you like.
    """

    def __init__(self, rows: Rows, guard: Callable[[Rows], Rows]) -> None:
        self._rows = guard(rows)
        self._outcome: Outcome | None = None
        self._table: pa.Table | None = None
        self._schema: pa.Schema = pa.schema([])
        self._first = self._advance()
        self._started = False
        if self._first is not None:
            self._schema = self._first.schema

    @property
    def is_query(self) -> bool:
        """Whether this is a table, if an empty one, rather than what a statement did."""
        return self._outcome is None or bool(self._schema.names)

    @property
    def message(self) -> str | None:
        """What a statement did, in one line; None for a query that only looked."""
        return None if self._outcome is None else self._outcome.message

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def columns(self) -> list[str]:
        return list(self._schema.names)

    @property
    def rowcount(self) -> int:
        """Rows of the query, or rows that the statement added or removed."""
        return self.arrow().num_rows if self._outcome is None or self.is_query else self._outcome.rows

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The record batches, at least one for a query.

        Raises:
            QueryError: they were iterated before and not kept.
        """
        if self._table is not None:
            yield from self._table.to_batches() or [pa.RecordBatch.from_pylist([], schema=self._schema)]
            return
        if self._started:
            raise QueryError("this result was read already; call .arrow() first to read it twice", code="consumed")
        self._started = True
        batch = self._first
        self._first = None
        while batch is not None:
            yield batch
            batch = self._advance()

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        if self._table is None:
            batches = list(self) if self.is_query else []
            self._table = pa.Table.from_batches(batches, schema=self._schema)
        return self._table

    def df(self) -> Any:
        """All rows as a pandas data frame; needs pandas."""
        return self.arrow().to_pandas()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python values; 128-bit integers, such as sums, as int."""
        return _tuples(self.arrow())

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, or None."""
        rows = _tuples(self.arrow().slice(0, 1))
        return rows[0] if rows else None

    def show(self, *, max_rows: int | None = 40, width: int | None = None) -> None:
        """Print the table."""
        print(self._rendered(max_rows, width))

    def close(self) -> None:
        """Stop making rows that nobody will read; reading on is an error."""
        self._rows.close()
        self._started, self._first = True, None

    def __repr__(self) -> str:
        return self._rendered(40, None)

    def _rendered(self, max_rows: int | None, width: int | None) -> str:
        if not self.is_query:
            return str(self.message)
        if self._started and self._table is None:
            return f"<result with columns {', '.join(self.columns)}, read already>"
        return render(self.arrow(), width=width, max_rows=max_rows)

    def _advance(self) -> pa.RecordBatch | None:
        try:
            return next(self._rows)
        except StopIteration as stop:
            self._outcome = stop.value
            return None


def _tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows by position, for two columns may have one name. DuckDB hands HUGEINT to Arrow as DECIMAL(38, 0)."""
    wide = [pa.types.is_decimal(t) and (t.precision, t.scale) == (38, 0) for t in table.schema.types]
    columns = [
        [None if v is None else int(v) for v in column.to_pylist()] if is_wide else column.to_pylist()
        for column, is_wide in zip(table.columns, wide, strict=True)
    ]
    return list(zip(*columns, strict=True))

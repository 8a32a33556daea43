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
        return self._outcome is None

    @property
    def message(self) -> str | None:
        """What a statement that is not a query did, in one line."""
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
        return self._outcome.rows if self._outcome is not None else self.arrow().num_rows

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
        """All rows as tuples of Python values."""
        return [tuple(row.values()) for row in _renamed(self.arrow()).to_pylist()]

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, or None."""
        rows = _renamed(self.arrow().slice(0, 1)).to_pylist()
        return tuple(rows[0].values()) if rows else None

    def show(self, *, max_rows: int | None = 40, width: int | None = None) -> None:
        """Print the table."""
        print(self._rendered(max_rows, width))

    def close(self) -> None:
        """Stop making rows that nobody will read."""
        self._rows.close()

    def __repr__(self) -> str:
        return self._rendered(40, None)

    def _rendered(self, max_rows: int | None, width: int | None) -> str:
        return render(self.arrow(), width=width, max_rows=max_rows) if self.is_query else str(self.message)

    def _advance(self) -> pa.RecordBatch | None:
        try:
            return next(self._rows)
        except StopIteration as stop:
            self._outcome = stop.value
            return None


def _renamed(table: pa.Table) -> pa.Table:
    """Columns by position: two of one name must not fold into one."""
    return table.rename_columns([str(i) for i in range(table.num_columns)])

"""The rows that RETURNING returns. They are computed before the statement commits, so that an error changes nothing."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from snapdb.execute.session import ExecutionContext
from snapdb.plan.tables.returning import Returning
from snapdb.sql_engine import ROW_ID, parquet_files, quote, table_rows
from snapdb.types import Segment, Table

_ID = quote(ROW_ID)


def returned(context: ExecutionContext, returning: Returning | None, rows: str | None) -> list[pa.RecordBatch]:
    """Return the batches of RETURNING over a SELECT of the written rows (None for no rows), or none without it."""
    if returning is None:
        return []
    query = returning.over(rows)
    with context.bind_context.session(query) as session:
        return list(session.exact_reader(query.text, query.parameters))


def rows_of_files(context: ExecutionContext, table: Table, files: Sequence[Segment], *, row_ids: bool = False) -> str:
    """Return a SELECT of the rows of new files, with the columns of their table, and optionally their positions."""
    segments = tuple(replace(file, columns=table.columns) for file in files)
    total = sum(file.rows for file in files)
    return table_rows(
        replace(table, segments=segments, deletes=(), rows=total, next_row=total),
        context.store.db_dir.path,
        row_ids=row_ids,
    )


def rows_to_remove(context: ExecutionContext, table: Table, file: Segment) -> str:
    """Return a SELECT of the rows whose ids are in a file, in the order of their ids."""
    rows = table_rows(table, context.store.db_dir.path, row_ids=True)
    gone = parquet_files([file], context.store.db_dir.path)
    return (
        f"SELECT * EXCLUDE ({_ID}) FROM (SELECT * FROM ({rows}) "
        f"WHERE {_ID} IN (SELECT row_id FROM {gone}) ORDER BY {_ID})"
    )


def discard(context: ExecutionContext, *files: Segment) -> None:
    """Remove files that no version will name."""
    for file in files:
        context.store.disk.remove(context.store.db_dir.path / file.path)

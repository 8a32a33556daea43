"""Changed rows, as the ids of the rows that they replace and a segment of the new rows."""

from snapdb.errors import DataError
from snapdb.execute.session import ExecutionContext
from snapdb.sql_engine import ROW_ID, SqlSession, parquet_files, quote, restored_unions
from snapdb.storage.tables.segments import write_query, write_segment
from snapdb.types import Segment, Table
from snapdb.types.text import counted

_ID = quote(ROW_ID)


def split_rows(
    context: ExecutionContext, session: SqlSession, table: Table, segment: Segment
) -> tuple[Segment, Segment]:
    """Return the ids of the rows to remove, and their replacements in the same order."""
    source = parquet_files([segment], context.store.db_dir.path)
    (distinct,) = session.rows(f"SELECT count(DISTINCT {_ID}) FROM {source}")[0]
    if distinct != segment.rows:
        raise DataError(
            f"{segment.rows:,} new values for {counted(distinct, 'row')} of {table.name}: at most one row of "
            "FROM can match each row; make the rows of FROM distinct, or aggregate them",
            code="ambiguous-update",
        )
    gone = write_query(context.store.db_dir, session, table.folder, ("", f"SELECT {_ID} AS row_id FROM {source}", ""))
    try:
        rows = f"SELECT {restored_unions(table.columns)} FROM {source} ORDER BY {_ID}"
        return gone, write_segment(context.store.db_dir, session, table.folder, table.columns, rows)
    except BaseException:
        context.store.disk.remove(context.store.db_dir.path / gone.path)
        raise

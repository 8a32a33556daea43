"""COPY FROM DATABASE: writes the tables of another database as tables, in one version."""

from __future__ import annotations

from snapdb.execute.results import Rows
from snapdb.execute.session import ExecutionContext
from snapdb.plan.exports import CopyDatabasePlan
from snapdb.sql_engine import Names, quote
from snapdb.sql_engine.foreign import ForeignDatabase
from snapdb.storage.tables.commit import AddTable, Change
from snapdb.storage.tables.segments import write_segment
from snapdb.types.text import counted

_ROWS = "snapdb foreign rows"


def copy_database(plan: CopyDatabasePlan, context: ExecutionContext) -> Rows:
    """Run COPY FROM DATABASE: stream the rows of each table into a segment, and publish all tables together."""
    yield from ()
    db_dir = context.store.db_dir
    changes: list[Change] = []
    total = 0
    try:
        with ForeignDatabase(plan.path) as database:
            for table in plan.tables:
                with (
                    database.rows(table.source, table.columns) as rows,
                    context.store.sql_engine.session(Names(sources={_ROWS: rows})) as session,
                    context.watching(session, f"writing {table.name}"),
                ):
                    file = write_segment(db_dir, session, "tables", table.columns, f"SELECT * FROM {quote(_ROWS)}")
                new = context.transactions.next_table()
                changes.append(AddTable(new, table.name, table.columns, (file,), None, plan.base))
                total += file.rows
    except BaseException:
        for change in changes:
            assert isinstance(change, AddTable)
            for file in change.files:
                db_dir.disk.remove(db_dir.path / file.path)
        raise
    did = f"{counted(len(changes), 'table')} with {counted(total, 'row')} copied from {plan.path}"
    return context.publish(changes, plan.message, did, total)

"""UPDATE: rows go and come back with other values, as one change."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.errors import DataError
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.execute.publish import publish
from snapdb.execute.row_warnings import warn_of_rows
from snapdb.plan.tables import UpdatePlan
from snapdb.relational import ROW_ID, Session, parquet_files, quote, quote_all
from snapdb.storage.changes import Append, Change, File
from snapdb.storage.segments import write_query, write_segment
from snapdb.types import Segment, Table
from snapdb.types.text import counted

_ID = quote(ROW_ID)


@dataclass(frozen=True, slots=True)
class Update:
    """Finds the rows with their new values once, then writes what goes and what comes from that."""

    plan: UpdatePlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        plan, table, disk = self.plan, self.plan.table, engine.home.disk
        with engine.context.session(plan.find) as session, engine.watching(session, f"updating {table.name}"):
            find = ("", plan.find.text, "")
            found = write_query(engine.home, session, table.folder, find, plan.find.parameters)
            try:
                if found.rows == 0:
                    return Outcome(f"no row of {table.name} satisfies this; nothing was changed")
                gone, come = _split(engine, session, table, found)
            finally:
                disk.remove(engine.home.path / found.path)
        warn_of_rows(engine, table, (come,), gone, plan.changed)
        changes: list[Change] = [engine.work.removal(table, gone, plan.base), Append(table.id, table.columns, (come,))]
        return publish(engine, changes, plan.message, f"{counted(come.rows, 'row')} of {table.name} updated", come.rows)


def _split(engine: Engine, session: Session, table: Table, found: File) -> tuple[File, File]:
    """The ids of the rows that go, and the rows that come, in the order of those that they replace."""
    source = parquet_files([Segment(found.path, found.rows, found.bytes, found.sha256, 0)], engine.home.path)
    (distinct,) = session.rows(f"SELECT count(DISTINCT {_ID}) FROM {source}")[0]
    if distinct != found.rows:
        raise DataError(
            f"{found.rows:,} new values for {counted(distinct, 'row')} of {table.name}: rows of FROM must "
            "meet a row at most once; make them distinct, or aggregate them",
            code="ambiguous-update",
        )
    columns = quote_all(c.name for c in table.columns)
    gone = write_query(engine.home, session, table.folder, ("", f"SELECT {_ID} AS row_id FROM {source}", ""))
    try:
        rows = f"SELECT {columns} FROM {source} ORDER BY {_ID}"
        return gone, write_segment(engine.home, session, table.folder, table.columns, rows)
    except BaseException:
        engine.home.disk.remove(engine.home.path / gone.path)
        raise

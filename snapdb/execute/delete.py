"""DELETE: a segment of the row ids that are gone."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.errors import Span
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.logical import Asked, DeletePlan
from snapdb.relational import ROW_ID, Names, quote, table_rows
from snapdb.sql.ast import Island
from snapdb.storage.commit import RemoveRows, commit
from snapdb.storage.disk import discard
from snapdb.storage.locks import reading_tables
from snapdb.storage.segments import write_query

__all__ = ["Delete"]


@dataclass(frozen=True, slots=True)
class Delete:
    """Finds the rows, then publishes their absence."""

    plan: DeletePlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        plan, table = self.plan, self.plan.table
        where = plan.where or Asked(Island("true", Span(0, 0)), Names(), verbatim=False)
        rows = f"({table_rows(table, engine.home.path, row_ids=True)}) AS {quote(table.name)}"
        find = (f"SELECT {quote(ROW_ID)} AS row_id FROM {rows} WHERE (", where.island.text, "\n)")
        with reading_tables(engine.home), engine.context.session(where) as session:
            file = write_query(engine.home, session, f"tables/{table.id}", find, where.parameters)
        if file.rows == 0:
            discard(engine.home.path / file.path)
            return Outcome(f"no row of {table.name} satisfies this; nothing was changed")
        try:
            version = commit(engine.ledger, [RemoveRows(table.id, file, plan.base)], plan.message)
        except BaseException:
            discard(engine.home.path / file.path)
            raise
        return Outcome(f"version {version}: {file.rows:,} rows removed from {table.name}", file.rows)

"""CREATE TABLE: the first rows of a new table, published as a version."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.errors import Span
from snapdb.execute.copied import copied
from snapdb.execute.operator import Engine, Rows
from snapdb.execute.publish import publish
from snapdb.plan.asked import Asked
from snapdb.plan.tables import CreateTablePlan
from snapdb.relational import quote
from snapdb.storage.changes import AddTable, File
from snapdb.storage.segments import write_segment
from snapdb.types.text import counted


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Writes the rows, then the version."""

    plan: CreateTablePlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        plan = self.plan
        files = copied(engine, "tables", plan.name, plan.copies) if plan.copies else (_written(engine, plan),)
        rows = sum(file.rows for file in files)
        replaces = None if plan.replaces is None else plan.replaces.id
        change = AddTable(engine.work.next_table(), plan.name, plan.columns, files, replaces, plan.base)
        return publish(engine, [change], plan.message, f"table {plan.name} with {counted(rows, 'row')}", rows)


def _written(engine: Engine, plan: CreateTablePlan) -> File:
    query = plan.query or _no_rows(plan)
    with engine.context.session(query) as session, engine.watching(session, f"writing {plan.name}"):
        return write_segment(engine.home, session, "tables", plan.columns, query.text, query.parameters)


def _no_rows(plan: CreateTablePlan) -> Asked:
    """An empty table owns one empty segment, because read_parquet of nothing fails."""
    columns = ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in plan.columns)
    return Asked(f"SELECT {columns} WHERE false", Span(0, 0))

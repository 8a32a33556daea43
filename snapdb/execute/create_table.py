"""CREATE TABLE: the first segment of a new table, published as a version."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.errors import Span
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.logical import Asked, CreateTablePlan
from snapdb.relational import Names, quote
from snapdb.sql.ast import Island
from snapdb.storage.commit import AddTable, commit
from snapdb.storage.disk import discard
from snapdb.storage.locks import reading_tables
from snapdb.storage.segments import write_segment

__all__ = ["CreateTable"]


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Writes the rows, then the version."""

    plan: CreateTablePlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        plan = self.plan
        engine.report(f"writing {plan.name}", None)
        query = plan.query or _no_rows(plan)
        with reading_tables(engine.home), engine.context.session(query) as session:
            file = write_segment(engine.home, session, "tables", plan.columns, query.island.text, query.parameters)
        replaces = None if plan.replaces is None else plan.replaces.id
        try:
            change = AddTable(plan.name, plan.columns, file, replaces, plan.base)
            version = commit(engine.ledger, [change], plan.message)
        except BaseException:
            discard(engine.home.path / file.path)
            raise
        return Outcome(f"version {version}: table {plan.name} with {file.rows:,} rows", file.rows)


def _no_rows(plan: CreateTablePlan) -> Asked:
    """An empty table owns one empty segment, because read_parquet of nothing fails."""
    columns = ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in plan.columns)
    return Asked(Island(f"SELECT {columns} WHERE false", Span(0, 0)), Names(), verbatim=False)

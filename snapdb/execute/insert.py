"""INSERT and COPY … FROM: more segments, with ids for the keys they bring."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.execute.copied import copied
from snapdb.execute.operator import Engine, Rows
from snapdb.execute.publish import publish
from snapdb.plan.logical import InsertPlan
from snapdb.storage.changes import Append, File
from snapdb.storage.segments import write_segment
from snapdb.types.words import counted

__all__ = ["Insert"]


@dataclass(frozen=True, slots=True)
class Insert:
    """Writes the rows, then the version."""

    plan: InsertPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        plan, table = self.plan, self.plan.table
        files = copied(engine, table.folder, table.name, plan.copies) if plan.copies else (_written(engine, plan),)
        rows = sum(file.rows for file in files)
        change = Append(table.id, table.columns, files)
        return publish(engine, [change], plan.message, f"{counted(rows, 'row')} added to {table.name}", rows)


def _written(engine: Engine, plan: InsertPlan) -> File:
    table, query = plan.table, plan.query
    with engine.context.session(query) as session, engine.watching(session, f"writing {table.name}"):
        return write_segment(
            engine.home, session, table.folder, table.columns, query.text, query.parameters, plan.supplied
        )

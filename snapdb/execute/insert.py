"""INSERT and COPY … FROM: more segments, with ids for the keys they bring."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.execute.operator import Engine, Rows
from snapdb.execute.publish import publish
from snapdb.plan.logical import InsertPlan
from snapdb.storage.changes import Append, File
from snapdb.storage.copies import copy_segment
from snapdb.storage.segments import write_segment

__all__ = ["Insert"]


@dataclass(frozen=True, slots=True)
class Insert:
    """Writes the rows, then the version."""

    plan: InsertPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        plan, table = self.plan, self.plan.table
        files = _copied(engine, plan) if plan.copies else (_written(engine, plan),)
        rows = sum(file.rows for file in files)
        change = Append(table.id, table.columns, files)
        return publish(engine, [change], plan.message, f"{rows:,} rows added to {table.name}", rows)


def _written(engine: Engine, plan: InsertPlan) -> File:
    table, query = plan.table, plan.query
    with engine.context.session(query) as session, engine.watching(session, f"writing {table.name}"):
        return write_segment(
            engine.home, session, table.folder, table.columns, query.text, query.parameters, plan.supplied
        )


def _copied(engine: Engine, plan: InsertPlan) -> tuple[File, ...]:
    """Parquet files that are segments already: copied byte for byte and hashed on the way, never linked."""
    made: list[File] = []
    with engine.relational.session() as session:
        try:
            for number, source in enumerate(plan.copies):
                engine.check_stopped()

                def report(share: float, number: int = number) -> None:
                    engine.check_stopped()
                    engine.report(f"copying into {plan.table.name}", (number + share) / len(plan.copies))

                made.append(copy_segment(engine.home, session, plan.table.folder, source, report))
        except BaseException:
            for file in made:
                engine.home.disk.remove(engine.home.path / file.path)
            raise
    return tuple(made)

"""DELETE: a segment of the row ids that are gone."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.execute.publish import publish
from snapdb.plan.tables import DeletePlan
from snapdb.storage.segments import write_query
from snapdb.types.text import counted


@dataclass(frozen=True, slots=True)
class Delete:
    """Finds the rows, then publishes their absence."""

    plan: DeletePlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        plan, table = self.plan, self.plan.table
        with engine.context.session(plan.find) as session, engine.watching(session, f"searching {table.name}"):
            find = ("", plan.find.text, "")
            file = write_query(engine.home, session, table.folder, find, plan.find.parameters)
        if file.rows == 0:
            engine.home.disk.remove(engine.home.path / file.path)
            return Outcome(f"no row of {table.name} satisfies this; nothing was changed")
        did = f"{counted(file.rows, 'row')} removed from {table.name}"
        return publish(engine, [engine.work.removal(table, file, plan.base)], plan.message, did, file.rows)

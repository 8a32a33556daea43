"""ALTER TABLE: other columns from the next version on."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.execute.operator import Engine, Rows
from snapdb.execute.publish import publish
from snapdb.plan.tables import AlterPlan
from snapdb.storage.changes import AlterTable as Alter


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Publishes the new columns; files that are there are read through them."""

    plan: AlterPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        plan = self.plan
        return publish(engine, [Alter(plan.table.id, plan.columns, plan.base)], plan.message, plan.did, 0)

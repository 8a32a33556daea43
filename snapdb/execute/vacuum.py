"""VACUUM: a row for each thing that was merged, removed or kept."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from snapdb.catalog.listing import listing
from snapdb.execute.operator import Engine, Rows
from snapdb.plan.maintenance import VacuumPlan
from snapdb.storage.vacuum import Vacuuming

_DONE = [("action", pa.string()), ("path", pa.string()), ("bytes", pa.int64()), ("reason", pa.string())]


@dataclass(frozen=True, slots=True)
class Vacuum:
    """Merges small files, removes what nothing points at."""

    plan: VacuumPlan

    def run(self, engine: Engine) -> Rows:
        def report(what: str, share: float | None) -> None:
            engine.check_stopped()
            engine.report(what, share)

        table = None if self.plan.table is None else self.plan.table.id
        vacuuming = Vacuuming(
            engine.home,
            engine.ledger,
            engine.relational,
            engine.tables,
            table,
            self.plan.grace,
            self.plan.dry_run,
            report,
        )
        yield listing(_DONE, list(vacuuming.run()))
        return None

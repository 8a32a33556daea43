"""CHECK DATABASE: a row for each thing that is not as it was published."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from snapdb.catalog.listing import listing
from snapdb.execute.operator import Engine, Rows
from snapdb.plan.maintenance import CheckPlan
from snapdb.storage.check import check_database

PROBLEMS = [("kind", pa.string()), ("path", pa.string()), ("problem", pa.string()), ("remedy", pa.string())]


@dataclass(frozen=True, slots=True)
class Check:
    """Reads every file."""

    plan: CheckPlan

    def run(self, engine: Engine) -> Rows:
        def report(what: str, share: float | None) -> None:
            engine.check_stopped()
            engine.report(what, share)

        yield listing(PROBLEMS, list(check_database(engine.home, engine.ledger, report)))
        return None

"""A statement that found nothing to do."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.plan import NothingPlan


@dataclass(frozen=True, slots=True)
class Nothing:
    """Says why."""

    plan: NothingPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        return Outcome(self.plan.why)

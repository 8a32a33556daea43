"""BEGIN, COMMIT, ROLLBACK: the open transaction begins or ends."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.versions import BeginPlan, CommitPlan, RollbackPlan


@dataclass(frozen=True, slots=True)
class Transaction:
    """Tells the database's work to begin or to end."""

    plan: BeginPlan | CommitPlan | RollbackPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        match self.plan:
            case BeginPlan():
                engine.work.begin(engine.context.catalog)
                return Outcome(f"transaction begun at version {engine.context.catalog.version}")
            case CommitPlan(message):
                version = engine.work.commit(message)
                return Outcome("nothing to commit" if version is None else f"version {version}: committed")
            case RollbackPlan():
                engine.work.rollback()
                return Outcome("rolled back; nothing was changed")

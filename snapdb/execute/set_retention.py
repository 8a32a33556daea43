"""ALTER PROPERTY GRAPH … SET and DROP RETENTION: a graph says how long which of its snapshots stay."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.errors import CommitConflict
from snapdb.execute.expire import preview
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.execute.retained import retained
from snapdb.plan.maintenance import RetainPlan, SetRetentionPlan
from snapdb.relational import quote_odd
from snapdb.storage.codec import encode
from snapdb.types import Retention
from snapdb.types.text import counted


@dataclass(frozen=True, slots=True)
class SetRetention:
    """Writes the rules down; no snapshot goes by that. DRY RUN lists which ones the rules would let go."""

    plan: SetRetentionPlan

    def run(self, engine: Engine) -> Rows:
        graph, retention = self.plan.graph, self.plan.retention
        if self.plan.dry_run and retention is not None:
            rows, summary = preview(engine, RetainPlan({graph.name.lower(): retention}, dry_run=True))
            yield rows
            return Outcome(f"{summary}; the retention of graph {graph.name} is as it was")
        row = (None if retention is None else encode(retention), graph.name.lower())
        with engine.ledger.writing(publishes=True) as connection:
            if not connection.execute("UPDATE graphs SET retention = ? WHERE folded = ?", row).rowcount:
                raise CommitConflict(
                    f"graph {graph.name} was dropped meanwhile; nothing was changed", code="graph-moved"
                )
        if retention is None:
            return Outcome(f"graph {graph.name} has no retention any more: its snapshots stay until they are dropped")
        return Outcome(f"graph {graph.name} keeps {retention}; {_now(engine, graph.name, retention)}")


def _now(engine: Engine, graph: str, retention: Retention) -> str:
    """What the rules let go already."""
    going = sum(
        reason is None for _, reason in retained(engine.context.catalog, engine.ledger, {graph.lower(): retention})
    )
    if not going:
        return "no snapshot is to go yet"
    go = f"{counted(going, 'snapshot')} {'goes' if going == 1 else 'go'}"
    return f"{go} after the next run of a task, or by EXPIRE SNAPSHOTS OF {quote_odd(graph)} BY RETENTION"

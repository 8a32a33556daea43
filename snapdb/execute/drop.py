"""DROP: a name goes; binding has made sure that nothing depends on it."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.errors import CommitConflict
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.logical import DropPlan
from snapdb.storage.commit import DropTable, commit
from snapdb.storage.locks import remove_unless_held
from snapdb.types import PropertyGraph, Snapshot, Table

__all__ = ["Drop"]


@dataclass(frozen=True, slots=True)
class Drop:
    """Removes a table (as a version), a graph or a snapshot."""

    plan: DropPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        match self.plan.target:
            case Table() as table:
                return _drop_table(engine, table, self.plan.base)
            case PropertyGraph() as graph:
                return _drop_graph(engine, graph)
            case Snapshot() as snapshot:
                return _drop_snapshot(engine, snapshot)


def _drop_table(engine: Engine, table: Table, base: int) -> Outcome:
    version = commit(engine.ledger, [DropTable(table.id, base)], None)
    return Outcome(f"version {version}: table {table.name} dropped")


def _drop_graph(engine: Engine, graph: PropertyGraph) -> Outcome:
    with engine.ledger.writing() as connection:
        connection.execute("DELETE FROM graphs WHERE folded = ?", (graph.name.lower(),))
    return Outcome(f"graph {graph.name} dropped")


def _drop_snapshot(engine: Engine, snapshot: Snapshot) -> Outcome:
    with engine.ledger.writing() as connection:
        if not connection.execute("DELETE FROM snapshots WHERE id = ?", (snapshot.id,)).rowcount:
            raise CommitConflict(
                f"{snapshot.name} moved: it was replaced or dropped meanwhile; run the statement again"
            )
    remove_unless_held(engine.home.path / snapshot.path)
    return Outcome(f"snapshot {snapshot.name} dropped")

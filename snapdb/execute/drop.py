"""DROP: a name goes; binding has made sure that nothing depends on it."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.errors import CommitConflict
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.execute.publish import publish
from snapdb.plan.logical import DropPlan
from snapdb.storage.changes import DropTable
from snapdb.storage.locks import remove_unless_held
from snapdb.types import PropertyGraph, Snapshot, Table, Tag

__all__ = ["Drop"]


@dataclass(frozen=True, slots=True)
class Drop:
    """Removes a table (as a version), a graph, a snapshot or a tag."""

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
            case Tag() as tag:
                return _drop_tag(engine, tag)


def _drop_table(engine: Engine, table: Table, base: int) -> Outcome:
    return publish(engine, [DropTable(table.id, base)], None, f"table {table.name} dropped", 0)


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
    remove_unless_held(engine.home, engine.home.inside(snapshot.path))
    return Outcome(f"snapshot {snapshot.name} dropped")


def _drop_tag(engine: Engine, tag: Tag) -> Outcome:
    with engine.ledger.writing() as connection:
        row = (tag.name.lower(), tag.version)
        if not connection.execute("DELETE FROM tags WHERE folded = ? AND version = ?", row).rowcount:
            raise CommitConflict(f"tag {tag.name} moved: it was replaced or dropped meanwhile; run the statement again")
    return Outcome(f"tag {tag.name} dropped; version {tag.version} stays")

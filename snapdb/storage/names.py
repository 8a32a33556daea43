"""Graphs, snapshots and samplers as names in the catalog: they go together, and never from under what uses them."""

from __future__ import annotations

import sqlite3

from snapdb.errors import CommitConflict
from snapdb.storage.changes import DropNames
from snapdb.storage.codec import decode
from snapdb.types import PropertyGraph, Snapshot

__all__ = ["check_unused", "drop_names"]


def drop_names(connection: sqlite3.Connection, change: DropNames) -> None:
    """Delete the rows of graphs, snapshots and samplers, inside a transaction.

    Raises:
        CommitConflict: one is no longer as it was found, or what depends on one of them was made meanwhile.
    """
    for sampler in change.samplers:
        if not connection.execute("DELETE FROM samplers WHERE id = ?", (sampler.id,)).rowcount:
            raise CommitConflict(f"sampler {sampler.name} moved: it was replaced or dropped meanwhile; run the "
                                 "statement again", code="sampler-moved")  # fmt: skip
    for snapshot in change.snapshots:
        found = connection.execute("DELETE FROM snapshots WHERE id = ? AND path = ?", (snapshot.id, snapshot.path))
        if not found.rowcount:
            raise CommitConflict(f"{snapshot.name} moved: it was refreshed, replaced or dropped meanwhile; "
                                 "run the statement again", code="snapshot-moved")  # fmt: skip
        query = "SELECT name FROM samplers WHERE snapshot = ?"
        if (used := connection.execute(query, (snapshot.name.lower(),)).fetchone()) is not None:
            raise CommitConflict(f"{snapshot.name} moved: sampler {used['name']} of it was made meanwhile; run the "
                                 "statement again", code="snapshot-moved")  # fmt: skip
    for graph in change.graphs:
        if not connection.execute("DELETE FROM graphs WHERE folded = ?", (graph.lower(),)).rowcount:
            raise CommitConflict(
                f"{graph} moved: it was dropped meanwhile; run the statement again", code="graph-moved"
            )
    gone = {graph.lower() for graph in change.graphs}
    for row in connection.execute("SELECT definition FROM snapshots").fetchall() if gone else ():
        snapshot = decode(Snapshot, row["definition"])
        if snapshot.graph.name.lower() in gone:
            raise CommitConflict(f"{snapshot.graph.name} moved: snapshot {snapshot.name} of it was made meanwhile; "
                                 "run the statement again", code="graph-moved")  # fmt: skip


def check_unused(connection: sqlite3.Connection, table: str) -> None:
    """Nothing unless a graph uses the table.

    Raises:
        CommitConflict: one does, which can only have been made meanwhile.
    """
    for row in connection.execute("SELECT definition FROM graphs").fetchall():
        graph = decode(PropertyGraph, row["definition"])
        if table.lower() in _tables(graph):
            raise CommitConflict(
                f"{table} moved: graph {graph.name} began to use it meanwhile; run the statement again",
                code="graph-moved",
            )


def _tables(graph: PropertyGraph) -> set[str]:
    """The tables that a graph stands on, case-folded."""
    histories = [spec.history for element in graph.elements for spec in element.features]
    named = [*(element.table for element in graph.elements), *(h.table for h in histories if h is not None)]
    return {name.lower() for name in named}

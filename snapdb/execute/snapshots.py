"""The operators of CREATE SNAPSHOT and REFRESH SNAPSHOT.

They first publish a snapshot's files, and then the catalog row that names the files.
"""

import dataclasses
from typing import Any

import pyarrow as pa

from snapdb.builders.estimates import sketched
from snapdb.builders.files import SnapshotFiles, build_files
from snapdb.builders.graph_data import check_vertices, graph_data
from snapdb.builders.topologies import check_new
from snapdb.catalog import tables_at
from snapdb.catalog.elements import snapshot_rows
from snapdb.catalog.system_tables import listing, window_text
from snapdb.errors import CommitConflict, moved
from snapdb.execute.diff.rows import ElementRows, difference, tally
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext
from snapdb.plan.snapshots import CreateSnapshotPlan, RefreshPlan
from snapdb.sql_engine import SqlSession
from snapdb.storage.catalog_db.codec import encode
from snapdb.storage.catalog_db.connection import add_pending_deletes, delete_unless_held, forget_deleted
from snapdb.storage.tables.commit import check_free, now
from snapdb.types import FORMS, Snapshot
from snapdb.types.text import counted


def create_snapshot(plan: CreateSnapshotPlan, context: ExecutionContext) -> Rows:
    """Run CREATE SNAPSHOT: publish the snapshot's directory, and then the catalog row that names it."""
    yield from ()
    snapshot, built = publish_snapshot(context, plan)
    skipped = "".join(f"; {n:,} dangling edges of {name} skipped" for name, n in built.skipped.items())
    return Outcome(
        f"snapshot {snapshot.name} of {snapshot.graph.name} at version {snapshot.version}: "
        f"{counted(snapshot.nodes, 'node')}, {counted(snapshot.edges, 'edge')} ({snapshot.form}){skipped}"
    )


def publish_snapshot(
    context: ExecutionContext, plan: CreateSnapshotPlan, *, full: bool = False
) -> tuple[Snapshot, SnapshotFiles]:
    """Build and publish a snapshot, replacing the one named in the plan.

    Args:
        context: The context of the statement.
        plan: The snapshot.
        full: Whether to build shared artifacts from the tables even if they exist.

    Raises:
        CommitConflict: The snapshot to replace was replaced or dropped concurrently, or its graph was dropped.
    """
    built = build_files(context, plan, full=full)
    try:
        snapshot = _record(context, plan, built)
    except BaseException:
        context.store.disk.remove(built.path)
        raise
    if plan.replaces is not None:
        # If the files have readers, they stay in the list of pending deletes and are deleted later.
        delete_unless_held(context.store.db_dir, plan.replaces.path)
    return snapshot, built


def moved_to(plan: CreateSnapshotPlan) -> Snapshot:
    """Return the snapshot that a plan describes, without files or counts."""
    before = plan.replaces
    moment = now()
    return Snapshot(
        id=0,
        name=plan.name,
        graph=plan.graph,
        version=plan.version,
        window=plan.window,
        unit=plan.unit,
        filters=plan.filters,
        form="full",
        nodes=0,
        edges=0,
        bytes=0,
        created=before.created if plan.refreshes and before is not None else moment,
        path="",
        pin=plan.pin,
        layout=plan.layout,
        refreshed=moment if plan.refreshes else None,
    )


def snapshot_record(context: ExecutionContext, plan: CreateSnapshotPlan, built: SnapshotFiles) -> Snapshot:
    """Return the snapshot that a plan describes, with its files and counts but without an id."""
    layout = built.layout
    return dataclasses.replace(
        moved_to(plan),
        form=next((form for form in reversed(FORMS) if any(e.form == form for e in layout.edges)), "full"),
        nodes=sum(v.nodes for v in layout.vertices),
        edges=sum(e.edges for e in layout.edges),
        bytes=built.bytes,
        path=str(built.path.relative_to(context.store.db_dir.path)),
    )


def _record(context: ExecutionContext, plan: CreateSnapshotPlan, built: SnapshotFiles) -> Snapshot:
    """Insert the row of the snapshot, which publishes it, and return the snapshot with its id."""
    snapshot = snapshot_record(context, plan, built)
    with context.store.catalog_db.writing(publishes=True) as connection:
        if plan.replaces is not None:
            # Delete by id, because another process may have published a new snapshot under the same name.
            gone = connection.execute("DELETE FROM snapshots WHERE id = ?", (plan.replaces.id,)).rowcount
            if not gone:
                raise moved(f"snapshot {plan.name} was replaced or dropped concurrently", code="snapshot-moved")
            forget_deleted(connection, context.store.db_dir)
            add_pending_deletes(connection, [plan.replaces.path])
        check_free(connection, plan.name)
        if not connection.execute("SELECT 1 FROM graphs WHERE folded = ?", (plan.graph.name.lower(),)).fetchone():
            raise CommitConflict(
                f"graph {plan.graph.name} was dropped concurrently; nothing was changed", code="graph-moved"
            )
        number = connection.execute(
            "INSERT INTO snapshots (name, folded, definition, path) VALUES (?, ?, '', ?)",
            (plan.name, plan.name.lower(), snapshot.path),
        ).lastrowid
        assert number is not None
        snapshot = dataclasses.replace(snapshot, id=number)
        connection.execute("UPDATE snapshots SET definition = ? WHERE id = ?", (encode(snapshot), number))
    return snapshot


_TEXT = pa.string()
_DRY = [
    ("element", _TEXT),
    ("kind", _TEXT),
    ("added", pa.int64()),
    ("removed", pa.int64()),
    ("changed", pa.int64()),
    ("form", _TEXT),
    ("bytes", pa.int64()),
    ("work", _TEXT),
]


def refresh_snapshot(plan: RefreshPlan, context: ExecutionContext) -> Rows:
    """Run REFRESH SNAPSHOT: rebuild the snapshot from the current tables, and publish it under its name.

    Readers that are already open keep the old files. Later readers open the new ones.
    """
    if plan.dry_run:
        yield listing(_DRY, _would(context, plan))
        return None
    was = f"version {plan.before.version}, {window_text(plan.before)}"
    snapshot, built = publish_snapshot(context, plan.create, full=plan.full)
    now = f"version {snapshot.version}, {window_text(snapshot)}"
    works = "; ".join(f"{name} {work}" for name, work in built.works.items() if work != "found")
    moved = f"{was} → {now}" if was != now else f"still {now}"
    counts = f"{counted(snapshot.nodes, 'node')}, {counted(snapshot.edges, 'edge')} ({snapshot.form})"
    known = context.catalog.graphs.get(plan.create.graph.name.lower())
    older = known is not None and any(e not in known.elements for e in plan.create.graph.elements)
    hint = f"graph {snapshot.graph.name} has since been replaced; CREATE OR REPLACE SNAPSHOT uses the new graph"
    parts = [f"snapshot {snapshot.name}: {moved}", counts, works, hint if older else ""]
    return Outcome("; ".join(part for part in parts if part))


def _would(context: ExecutionContext, plan: RefreshPlan) -> list[tuple[Any, ...]]:
    """Return the rows of DRY RUN: the changes of each element, and how its artifacts would be built."""
    create, root = plan.create, context.store.db_dir.path
    tables = tables_at(context.store.catalog_db, plan.before.version)
    before = snapshot_rows(plan.before, tables, root)
    after = snapshot_rows(moved_to(create), create.tables, root)
    with context.store.sql_engine.session() as session:
        data = graph_data(context, session, create.graph, create.tables)
        for vertex in data.vertices.values():
            check_vertices(session, vertex)
        for edge in data.edges.values():
            check_new(context, session, edge)
        return [
            (
                s.element,
                s.kind,
                *_counted(session, before[s.element], after[s.element]),
                s.form,
                s.bytes + s.topology_bytes,
                s.topology or None,
            )
            for s in sketched(context, session, create, data, plan.full)
        ]


def _counted(session: SqlSession, before: ElementRows, after: ElementRows) -> tuple[int, int, int]:
    """Return the numbers of rows that REFRESH would add, remove and change in an element."""
    changes = difference(session, before, after)
    added, removed, changed = tally(session, changes)
    return added - changed, removed - changed, changed

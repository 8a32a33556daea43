"""DROP: a name goes, and with CASCADE what depends on it: all of it at once, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.errors import CommitConflict
from snapdb.execute.operator import ExecutionContext, Outcome, Rows, publish
from snapdb.plan.show import KINDS, DropPlan
from snapdb.storage.catalog_db.pending_deletes import delete_unless_held
from snapdb.storage.catalog_db.task_rows import drop_task
from snapdb.storage.tables.changes import Change, DropNames, DropTable
from snapdb.storage.tables.commit import drop_names
from snapdb.types import Cache, PropertyGraph, Sampler, Snapshot, Table, Tag, Task


def drop(plan: DropPlan, context: ExecutionContext) -> Rows:
    """DROP: remove a table (as a version), graph, snapshot, sampler, cache, task or tag, and its dependants."""
    yield from ()
    match plan.target:
        case Table() as table:
            return _drop_table(context, table, plan)
        case PropertyGraph() | Snapshot() | Sampler() | Cache() as target:
            return _drop_names(context, target, plan)
        case Task() as task:
            return _drop_task(context, task)
        case Tag() as tag:
            return _drop_tag(context, tag)


def _drop_table(context: ExecutionContext, table: Table, plan: DropPlan) -> Outcome:
    names = _names(plan.dependants)
    drop = DropTable(table.id, plan.base)
    changes: list[Change] = [names, drop] if plan.dependants else [drop]
    outcome = publish(context, changes, None, f"table {table.name} dropped{_with(plan)}", 0)
    _remove(context, names)
    return outcome


def _drop_names(
    context: ExecutionContext, target: PropertyGraph | Snapshot | Sampler | Cache, plan: DropPlan
) -> Outcome:
    names = _names((*plan.dependants, target))
    with context.store.catalog_db.writing(publishes=True) as connection:
        drop_names(connection, names)
    _remove(context, names)
    return Outcome(f"{KINDS[type(target)]} {target.name} dropped{_with(plan)}")


def _drop_task(context: ExecutionContext, task: Task) -> Outcome:
    with context.store.catalog_db.writing(publishes=True) as connection:
        drop_task(connection, task)
    return Outcome(f"task {task.name} dropped; its runs stay on record")


def _drop_tag(context: ExecutionContext, tag: Tag) -> Outcome:
    with context.store.catalog_db.writing(publishes=True) as connection:
        row = (tag.name.lower(), tag.version)
        if not connection.execute("DELETE FROM tags WHERE folded = ? AND version = ?", row).rowcount:
            raise CommitConflict(
                f"tag {tag.name} moved: it was replaced or dropped meanwhile; run the statement again", code="tag-moved"
            )
    return Outcome(f"tag {tag.name} dropped; version {tag.version} stays")


def _names(things: Sequence[PropertyGraph | Snapshot | Sampler | Cache]) -> DropNames:
    graphs = tuple(thing.name for thing in things if isinstance(thing, PropertyGraph))
    snapshots = tuple(thing for thing in things if isinstance(thing, Snapshot))
    samplers = tuple(thing for thing in things if isinstance(thing, Sampler))
    return DropNames(graphs, snapshots, samplers, tuple(thing for thing in things if isinstance(thing, Cache)))


def _with(plan: DropPlan) -> str:
    """What goes too, for a person."""
    named = [f"{KINDS[type(d)]} {d.name}" for d in plan.dependants]
    return f", and with it {', '.join(named)}" if named else ""


def _remove(context: ExecutionContext, names: DropNames) -> None:
    """Files go once the catalog names them no more, unless somebody reads them; so does what caches hold."""
    for snapshot in names.snapshots:
        delete_unless_held(context.store.db_dir, snapshot.path)
    for cache in names.caches:
        context.caches.drop(cache)

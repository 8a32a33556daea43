"""The operators of CHECK, VACUUM, BACKUP, EXPIRE SNAPSHOTS and SET RETENTION.

Retention is also applied after each run of a task (`apply_retentions`).
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from snapdb.catalog import Catalog, load
from snapdb.catalog.state import VersionHistory, moment
from snapdb.catalog.system_tables import MOMENT, listing
from snapdb.errors import CommitConflict, DatabaseError, InputError, LockedError
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext
from snapdb.plan.maintenance import BackupPlan, CheckPlan, ExpirePlan, RetainPlan, SetRetentionPlan, VacuumPlan
from snapdb.remote import attachment_of
from snapdb.schedule import kept
from snapdb.sql_engine import quote_odd
from snapdb.storage.catalog_db.codec import encode
from snapdb.storage.catalog_db.connection import CatalogDb, add_pending_deletes, delete_unless_held, forget_deleted
from snapdb.storage.check.backup import back_up
from snapdb.storage.check.catalog import Problem
from snapdb.storage.check.database import Checked, check_database
from snapdb.storage.gc import DEFAULT_GRACE, remove_unused_artifacts, vacuum_database
from snapdb.storage.publications import check_publication
from snapdb.storage.tables.commit import now
from snapdb.types import Retention, Snapshot
from snapdb.types.text import counted, size_words

PROBLEMS = [("kind", pa.string()), ("path", pa.string()), ("problem", pa.string()), ("remedy", pa.string())]
_VACUUM_FIELDS = [("action", pa.string()), ("path", pa.string()), ("bytes", pa.int64()), ("reason", pa.string())]
_EXPIRE_FIELDS = [
    ("snapshot", pa.string()),
    ("action", pa.string()),
    ("graph", pa.string()),
    ("version", pa.int64()),
    ("created", MOMENT),
    ("bytes", pa.int64()),
    ("reason", pa.string()),
]

_GO = "DELETE FROM snapshots WHERE id = ? AND path = ? AND folded NOT IN (SELECT snapshot FROM samplers)"
_MOVED = "it was refreshed, replaced, dropped or given a sampler concurrently, or the retention changed"
_NAMED = 8
"""The maximum number of snapshots that a log line names. Any further snapshots are only counted."""

_Decisions = Sequence[tuple[Snapshot, str | None]]
"""Snapshots, each with the reason why it is kept, or None if it expires."""


class _Expired(NamedTuple):
    """The ids of the snapshots that were removed from the catalog."""

    gone: Set[int]
    """The ids of all removed snapshots."""
    held: Set[int] = frozenset()
    """The ids of the removed snapshots whose files are kept until their readers close them."""


def check(plan: CheckPlan, context: ExecutionContext) -> Rows:
    """Run CHECK DATABASE: read every file, and return one row per problem."""
    problems, checked = run_check(context.store.catalog_db, context.step)  # reads every object of an attached copy
    yield listing(PROBLEMS, problems)
    return None if problems else Outcome(intact(checked))


def run_check(catalog_db: CatalogDb, report: Callable[[str, float | None], None]) -> tuple[list[Problem], Checked]:
    """Return the problems of a database and the files that were read. The caller must hold the table lock."""
    attached = attachment_of(catalog_db.db_dir.path)
    if attached is not None:
        checking = check_publication(attached.store, attached.head, report)
    else:
        checking = check_database(catalog_db, report)
    problems: list[Problem] = []
    while True:
        try:
            problems.append(next(checking))
        except StopIteration as end:
            return problems, end.value


def intact(checked: Checked) -> str:
    """Return the message of a check that found no problem."""
    if not checked.files:
        return "the catalog is intact, and there are no files yet"
    return f"{counted(checked.files, 'file')} ({size_words(checked.bytes)}) and the catalog are intact"


def vacuum(plan: VacuumPlan, context: ExecutionContext) -> Rows:
    """Run VACUUM: merge small files, remove unreferenced ones, and return one row per affected or kept file."""
    table = None if plan.table is None else plan.table.id
    steps = vacuum_database(context.store, context.tables, table, plan.grace, dry_run=plan.dry_run, report=context.step)
    yield listing(_VACUUM_FIELDS, list(steps))
    return None


def backup(plan: BackupPlan, context: ExecutionContext) -> Rows:
    """Run BACKUP DATABASE TO: copy the catalog, link or copy every file, and verify all files by reading them."""
    yield from ()
    target = Path(os.path.abspath(os.path.expanduser(plan.path)))
    if (url := context.store.db_dir.url) is not None:
        raise DatabaseError(
            f"{url} is a published database, of which only some files are here; back up the database that publishes it",
            code="read-only-remote",
        )
    try:
        context.store.sql_engine.check_folder(target)
        done = back_up(context.store.catalog_db, target, link=not plan.copies, report=context.step)
    except InputError as error:
        error.span = error.span or plan.span
        raise
    how = f", {counted(done.linked, 'hard link')}" if done.linked else ""
    return Outcome(
        f"backup of version {done.version} at {plan.path}: {counted(done.files, 'file')}, "
        f"{size_words(done.bytes)}{how}; all verified"
    )


def expire_snapshots(plan: ExpirePlan | RetainPlan, context: ExecutionContext) -> Rows:
    """Run EXPIRE SNAPSHOTS: return each snapshot that the statement covers, with the action and the reason."""
    decisions = _decisions(context, plan)
    by_retention = isinstance(plan, RetainPlan)
    done = _expected(decisions) if plan.dry_run else _expire(context, decisions, by_retention=by_retention)
    yield listing(_EXPIRE_FIELDS, list(_rows(decisions, done)))
    more = "; VACUUM removes shared files that no snapshot uses" if done.gone else ""
    return Outcome(_summary(decisions, done, plan.dry_run) + more)


def _preview(context: ExecutionContext, plan: RetainPlan) -> tuple[pa.RecordBatch, str]:
    """Return each snapshot that has retention rules, why it is kept or would expire, and a sentence with the count."""
    decisions = _decisions(context, plan)
    done = _expected(decisions)
    return listing(_EXPIRE_FIELDS, list(_rows(decisions, done))), _summary(decisions, done, dry_run=True)


def _expire(
    context: ExecutionContext, decisions: _Decisions, *, by_retention: bool = False, publishes: bool = True
) -> _Expired:
    """Remove snapshots from the catalog in one transaction, and then delete the files of those without readers.

    Args:
        context: The context of the statement.
        decisions: The snapshots, each with the reason why it is kept.
        by_retention: Whether the decisions follow from retention rules. If so, the current rules and tags are applied
            again.
        publishes: Whether the removal is the effect of a statement instead of a side effect of a task run.
    """
    going = [snapshot for snapshot, stays in decisions if stays is None]
    if not going:
        return _Expired(frozenset())
    with context.store.catalog_db.writing(publishes=publishes) as connection:
        if by_retention:
            # The decisions were made outside the transaction. By now, a tag or a sampler may protect a snapshot.
            going = _going_still(context, going)
        gone = {s.id for s in going if connection.execute(_GO, (s.id, s.path)).rowcount}
        forget_deleted(connection, context.store.db_dir)
        # The files are deleted after the commit. If a crash prevents this, the list still names them.
        add_pending_deletes(connection, [s.path for s in going if s.id in gone])
    return _Expired(
        gone, {s.id for s in going if s.id in gone and not delete_unless_held(context.store.db_dir, s.path)}
    )


def _decisions(context: ExecutionContext, plan: ExpirePlan | RetainPlan) -> _Decisions:
    if isinstance(plan, RetainPlan):
        return _retained(context.catalog, context.store.catalog_db, plan.retentions)
    return plan.snapshots


def _expected(decisions: _Decisions) -> _Expired:
    return _Expired({s.id for s, stays in decisions if stays is None})


def _going_still(context: ExecutionContext, going: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots that the retention rules in the current catalog still remove."""
    catalog = load(context.store.catalog_db, context.catalog)
    graphs = {snapshot.graph.name.lower() for snapshot in going}
    retentions = {graph: retention for graph, retention in catalog.retentions.items() if graph in graphs}
    still = {
        snapshot.id for snapshot, stays in _retained(catalog, context.store.catalog_db, retentions) if stays is None
    }
    return [snapshot for snapshot in going if snapshot.id in still]


def _rows(decisions: _Decisions, done: _Expired) -> Iterator[tuple[Any, ...]]:
    for s, stays in decisions:
        moved = stays is None and s.id not in done.gone
        reason = _MOVED if moved else "its files are kept until their readers finish" if s.id in done.held else stays
        action = "expire" if s.id in done.gone else "keep"
        yield s.name, action, s.graph.name, s.version, moment(s.created), s.bytes, reason


def _summary(decisions: _Decisions, done: _Expired, dry_run: bool) -> str:
    freed = sum(s.bytes for s, _ in decisions if s.id in done.gone and s.id not in done.held)
    would = "would expire" if dry_run else "expired"
    return f"{counted(len(done.gone), 'snapshot')} {would}, {freed:,} bytes not shared with other snapshots"


def set_retention(plan: SetRetentionPlan, context: ExecutionContext) -> Rows:
    """Run ALTER PROPERTY GRAPH … SET or DROP RETENTION: write the rules. This does not remove any snapshot.

    DRY RUN lists the snapshots that the rules would remove.
    """
    graph, retention = plan.graph, plan.retention
    if plan.dry_run and retention is not None:
        rows, summary = _preview(context, RetainPlan({graph.name.lower(): retention}, dry_run=True))
        yield rows
        return Outcome(f"{summary}; the retention of graph {graph.name} is unchanged")
    row = (None if retention is None else encode(retention), graph.name.lower())
    with context.store.catalog_db.writing(publishes=True) as connection:
        if not connection.execute("UPDATE graphs SET retention = ? WHERE folded = ?", row).rowcount:
            raise CommitConflict(
                f"graph {graph.name} was dropped concurrently; nothing was changed", code="graph-moved"
            )
    if retention is None:
        return Outcome(
            f"graph {graph.name} no longer has retention rules; its snapshots are kept until they are dropped"
        )
    return Outcome(f"graph {graph.name} keeps {retention}; {_now(context, graph.name, retention)}")


def _now(context: ExecutionContext, graph: str, retention: Retention) -> str:
    """Return a text with the number of snapshots that the rules would remove now."""
    going = sum(
        reason is None for _, reason in _retained(context.catalog, context.store.catalog_db, {graph.lower(): retention})
    )
    if not going:
        return "no snapshot expires yet"
    go = f"{counted(going, 'snapshot')} {'expires' if going == 1 else 'expire'}"
    return f"{go} after the next run of a task, or with EXPIRE SNAPSHOTS OF {quote_odd(graph)} BY RETENTION"


def _retained(
    catalog: Catalog, catalog_db: CatalogDb, retentions: Mapping[str, Retention]
) -> list[tuple[Snapshot, str | None]]:
    """Return the snapshots of the graphs, oldest first, each with the reason why it is kept, or None if it expires.

    A snapshot that a sampler reads is always kept.

    Args:
        catalog: The catalog.
        catalog_db: The database from which the catalog was read.
        retentions: The graphs' retention rules by case-folded graph name.
    """
    as_of = now()
    tagged = {tag.version for tag in VersionHistory(catalog_db).tags()}
    samplers = {sampler.snapshot.lower(): sampler.name for sampler in catalog.samplers.values()}
    decisions: list[tuple[Snapshot, str | None]] = []
    for graph, retention in retentions.items():
        snapshots = [s for s in catalog.snapshots.values() if s.graph.name.lower() == graph]
        snapshots.sort(key=lambda s: (s.built_at, s.id))
        reasons = kept([(s.built_at, s.version in tagged) for s in snapshots], retention, as_of)
        for snapshot, reason in zip(snapshots, reasons, strict=True):
            sampler = samplers.get(snapshot.name.lower())
            of_it = None if sampler is None else f"sampler {sampler} uses it"
            decisions.append((snapshot, reason or of_it))
    return decisions


def apply_retentions(context: ExecutionContext) -> list[str]:
    """Expire the snapshots that retention rules do not keep, and return one log line per affected graph.

    Also delete the files of snapshots that expired earlier and no longer have readers. If no other process is using the
    tables, also delete shared directories that no snapshot uses and that are older than an hour. A conflict with
    another process is not an error, because the next run removes any remaining files.
    """
    catalog = context.catalog
    decisions = _retained(catalog, context.store.catalog_db, catalog.retentions)
    try:
        deleted = context.store.catalog_db.delete_pending()
        done = _expire(context, decisions, by_retention=True, publishes=False)
        shared = _remove_shared(context) if done.gone or deleted else 0
    except (CommitConflict, LockedError) as error:
        return [f"retention is postponed to the next run: {error.message}"]
    lines = [line for graph in catalog.retentions if (line := _line(_of(decisions, graph), done))]
    if deleted:
        lines.append(f"removed the files of {counted(deleted, 'expired snapshot')}, which no longer have readers")
    if shared:
        lines.append(
            f"removed {counted(shared, 'shared directory', 'shared directories')}, which no snapshot uses any more"
        )
    return lines


def _remove_shared(context: ExecutionContext) -> int:
    """Remove unreferenced shared directories, unless another process has the tables open and might use one."""
    if not context.tables.alone(0.0):
        return 0
    try:
        return len(remove_unused_artifacts(context.store.catalog_db, now() - DEFAULT_GRACE))
    finally:
        context.tables.share()


def _of(decisions: _Decisions, graph: str) -> list[Snapshot]:
    return [snapshot for snapshot, _ in decisions if snapshot.graph.name.lower() == graph]


def _line(snapshots: Sequence[Snapshot], done: _Expired) -> str:
    gone = [s for s in snapshots if s.id in done.gone]
    if not gone:
        return ""
    held = [s for s in gone if s.id in done.held]
    freed = sum(s.bytes for s in gone if s.id not in done.held)
    waits = f"; the files of {_listed(held)} are kept until their readers finish" if held else ""
    return f"retention of graph {gone[0].graph.name}: expired {_listed(gone)}, {freed:,} bytes{waits}"


def _listed(snapshots: Sequence[Snapshot]) -> str:
    more = [f"{len(snapshots) - _NAMED} more"] if len(snapshots) > _NAMED else []
    return ", ".join([*(s.name for s in snapshots[:_NAMED]), *more])

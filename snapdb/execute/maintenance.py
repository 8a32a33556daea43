"""CHECK DATABASE: a row for each thing that is not as it was published."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from snapdb.catalog import Catalog, load, tags
from snapdb.catalog.listing import MOMENT, listing
from snapdb.catalog.windows import moment
from snapdb.errors import CommitConflict, InputError, LockedError
from snapdb.execute.export_folder import size_words
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.maintenance import BackupPlan, CheckPlan, ExpirePlan, RetainPlan, SetRetentionPlan, VacuumPlan
from snapdb.relational import quote_odd
from snapdb.schedule.retention import kept
from snapdb.storage.backup import back_up
from snapdb.storage.check import check_database
from snapdb.storage.codec import encode
from snapdb.storage.commit import now
from snapdb.storage.ledger import Ledger
from snapdb.storage.litter import remove_idle
from snapdb.storage.orphans import HOUR
from snapdb.storage.released import collect, forget_gone, release, remove_released
from snapdb.storage.vacuum import Vacuuming
from snapdb.types import Retention, Snapshot
from snapdb.types.text import counted

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


# VACUUM: a row for each thing that was merged, removed or kept


_DONE = [("action", pa.string()), ("path", pa.string()), ("bytes", pa.int64()), ("reason", pa.string())]


@dataclass(frozen=True, slots=True)
class Vacuum:
    """Merges small files, removes what nothing points at."""

    plan: VacuumPlan

    def run(self, engine: Engine) -> Rows:
        def report(what: str, share: float | None) -> None:
            engine.check_stopped()
            engine.report(what, share)

        table = None if self.plan.table is None else self.plan.table.id
        vacuuming = Vacuuming(
            engine.home,
            engine.ledger,
            engine.relational,
            engine.tables,
            table,
            self.plan.grace,
            self.plan.dry_run,
            report,
        )
        yield listing(_DONE, list(vacuuming.run()))
        return None


# BACKUP DATABASE TO: a checked copy of the database, while others write to it


@dataclass(frozen=True, slots=True)
class Backup:
    """Copies the catalog, links or copies every file, and reads all of them again."""

    plan: BackupPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        target = Path(os.path.abspath(os.path.expanduser(self.plan.path)))

        def report(what: str, share: float | None) -> None:
            engine.check_stopped()
            engine.report(what, share)

        try:
            engine.relational.check_folder(target)
            done = back_up(engine.home, engine.ledger, target, link=not self.plan.copies, report=report)
        except InputError as error:
            error.span = error.span or self.plan.span
            raise
        how = f", {counted(done.linked, 'hard link')}" if done.linked else ""
        return Outcome(
            f"backup of version {done.version} at {self.plan.path}: {counted(done.files, 'file')}, "
            f"{size_words(done.bytes)}{how}; all checked"
        )


# EXPIRE SNAPSHOTS: old snapshots go, all in one transaction; their files follow, or wait for who reads them


Told = Sequence[tuple[Snapshot, str | None]]
"""Snapshots, each with why it stays; None: it goes."""

_FIELDS = [
    ("snapshot", pa.string()),
    ("action", pa.string()),
    ("graph", pa.string()),
    ("version", pa.int64()),
    ("created", MOMENT),
    ("bytes", pa.int64()),
    ("reason", pa.string()),
]

_GO = "DELETE FROM snapshots WHERE id = ? AND path = ? AND folded NOT IN (SELECT snapshot FROM samplers)"
_MOVED = "it was refreshed, replaced, dropped or given a sampler meanwhile, or what keeps snapshots changed"


class Expired(NamedTuple):
    """What became of snapshots that were to go, by their ids."""

    gone: Set[int]
    held: Set[int] = frozenset()
    """Of these the files stay until who reads them is done."""


@dataclass(frozen=True, slots=True)
class Expire:
    """Lists every snapshot that was asked about, and why it stays or went."""

    plan: ExpirePlan | RetainPlan

    def run(self, engine: Engine) -> Rows:
        plan = self.plan
        asked = _asked(engine, plan)
        if plan.dry_run:
            done = _expected(asked)
        else:
            done = expire(engine, asked, by_retention=isinstance(plan, RetainPlan))
        yield listing(_FIELDS, list(_rows(asked, done)))
        more = "; VACUUM removes shared files that no snapshot uses any more" if done.gone else ""
        return Outcome(_summary(asked, done, plan.dry_run) + more)


def preview(engine: Engine, plan: RetainPlan) -> tuple[pa.RecordBatch, str]:
    """Every snapshot that retentions are about, with why it stays or would go, and how many would go in a sentence."""
    asked = _asked(engine, plan)
    done = _expected(asked)
    return listing(_FIELDS, list(_rows(asked, done))), _summary(asked, done, dry_run=True)


def expire(engine: Engine, asked: Told, *, by_retention: bool = False, publishes: bool = True) -> Expired:
    """Take snapshots out of the catalog, all at once, and remove the files of those that nobody reads.

    Args:
        asked: Which are to go.
        by_retention: They go by what their graphs say of it, and only where that, tags and all holds still.
        publishes: It is all that the statement does, rather than something beside it.
    """
    going = [snapshot for snapshot, stays in asked if stays is None]
    if not going:
        return Expired(frozenset())
    with engine.ledger.writing(publishes=publishes) as connection:
        if by_retention:
            going = _going_still(engine, going)
        gone = {s.id for s in going if connection.execute(_GO, (s.id, s.path)).rowcount}
        forget_gone(connection, engine.home)
        release(connection, [s.path for s in going if s.id in gone])
    return Expired(gone, {s.id for s in going if s.id in gone and not remove_released(engine.home, s.path)})


def _asked(engine: Engine, plan: ExpirePlan | RetainPlan) -> Told:
    if isinstance(plan, RetainPlan):
        return retained(engine.context.catalog, engine.ledger, plan.retentions)
    return plan.snapshots


def _expected(asked: Told) -> Expired:
    """What would become of the snapshots, if nothing changes meanwhile."""
    return Expired({s.id for s, stays in asked if stays is None})


def _going_still(engine: Engine, going: Sequence[Snapshot]) -> list[Snapshot]:
    """Those that retention lets go as things are at this moment."""
    catalog = load(engine.home, engine.ledger, engine.context.catalog)
    graphs = {snapshot.graph.name.lower() for snapshot in going}
    retentions = {graph: said for graph, said in catalog.retentions.items() if graph in graphs}
    still = {snapshot.id for snapshot, stays in retained(catalog, engine.ledger, retentions) if stays is None}
    return [snapshot for snapshot in going if snapshot.id in still]


def _rows(asked: Told, done: Expired) -> Iterator[tuple[Any, ...]]:
    for s, stays in asked:
        moved = stays is None and s.id not in done.gone
        reason = _MOVED if moved else "its files stay until who reads them is done" if s.id in done.held else stays
        action = "expire" if s.id in done.gone else "keep"
        yield s.name, action, s.graph.name, s.version, moment(s.created), s.bytes, reason


def _summary(asked: Told, done: Expired, dry_run: bool) -> str:
    freed = sum(s.bytes for s, _ in asked if s.id in done.gone and s.id not in done.held)
    would = "would expire" if dry_run else "expired"
    return f"{counted(len(done.gone), 'snapshot')} {would}, {freed:,} bytes of their own"


# Which snapshots stay by what their graphs say of it, and why


def retained(
    catalog: Catalog, ledger: Ledger, retentions: Mapping[str, Retention]
) -> list[tuple[Snapshot, str | None]]:
    """The snapshots of graphs that have a retention, graph by graph, oldest first, with why each stays; None: it goes.

    What a sampler is of stays besides.

    Args:
        retentions: By the case-folded name of the graph.
    """
    moment = now()
    tagged = {tag.version for tag in tags(ledger)}
    samplers = {sampler.snapshot.lower(): sampler.name for sampler in catalog.samplers.values()}
    found: list[tuple[Snapshot, str | None]] = []
    for graph, retention in retentions.items():
        asked = [s for s in catalog.snapshots.values() if s.graph.name.lower() == graph]
        asked.sort(key=lambda s: (s.made, s.id))
        reasons = kept([(s.made, s.version in tagged) for s in asked], retention, moment)
        for snapshot, reason in zip(asked, reasons, strict=True):
            sampler = samplers.get(snapshot.name.lower())
            of_it = None if sampler is None else f"sampler {sampler} is of it"
            found.append((snapshot, reason or of_it))
    return found


# What retention lets go, without being asked: after each run of a task


_NAMED = 8
"""So many snapshots are named, the rest counted."""


def apply_retentions(engine: Engine) -> list[str]:
    """Expire what the retention of each graph no longer keeps; a line for a log of each graph of which something went.

    Files go too that somebody read when their snapshot went, and that are free now. If nobody else reads or writes
    tables at this moment, so do shared ones that no snapshot uses and that are older than an hour. A lost race is no
    error: what it leaves goes the next time.
    """
    catalog = engine.context.catalog
    asked = retained(catalog, engine.ledger, catalog.retentions)
    try:
        collected = collect(engine.home, engine.ledger)
        done = expire(engine, asked, by_retention=True, publishes=False)
        shared = _remove_shared(engine) if done.gone or collected.gone else 0
    except (CommitConflict, LockedError) as error:
        return [f"retention waits for the next run: {error.message}"]
    lines = [line for graph in catalog.retentions if (line := _line(_of(asked, graph), done))]
    if collected.gone:
        lines.append(f"files of {counted(collected.gone, 'expired snapshot')} went, which nobody reads any more")
    if shared:
        lines.append(
            f"{counted(shared, 'shared directory', 'shared directories')} went, which no snapshot uses any more"
        )
    return lines


def _remove_shared(engine: Engine) -> int:
    """How many shared directories went: none unless nobody else is at the tables, who may be about to use one."""
    if not engine.tables.alone(0.0):
        return 0
    try:
        return len(remove_idle(engine.home, engine.ledger, now() - HOUR))
    finally:
        engine.tables.share()


def _of(asked: Told, graph: str) -> list[Snapshot]:
    return [snapshot for snapshot, _ in asked if snapshot.graph.name.lower() == graph]


def _line(snapshots: Sequence[Snapshot], done: Expired) -> str:
    gone = [s for s in snapshots if s.id in done.gone]
    if not gone:
        return ""
    held = [s for s in gone if s.id in done.held]
    freed = sum(s.bytes for s in gone if s.id not in done.held)
    waits = f"; the files of {_listed(held)} stay until who reads them is done" if held else ""
    return f"retention of graph {gone[0].graph.name}: expired {_listed(gone)}, {freed:,} bytes{waits}"


def _listed(snapshots: Sequence[Snapshot]) -> str:
    more = [f"{len(snapshots) - _NAMED} more"] if len(snapshots) > _NAMED else []
    return ", ".join([*(s.name for s in snapshots[:_NAMED]), *more])


# ALTER PROPERTY GRAPH … SET and DROP RETENTION: a graph says how long which of its snapshots stay


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

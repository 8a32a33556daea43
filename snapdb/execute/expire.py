"""EXPIRE SNAPSHOTS: old snapshots go, all in one transaction; their files follow, or wait for who reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from snapdb.catalog import load
from snapdb.catalog.listing import MOMENT, listing
from snapdb.catalog.windows import moment
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.execute.retained import retained
from snapdb.plan.maintenance import ExpirePlan, RetainPlan
from snapdb.storage.released import forget_gone, release, remove_released
from snapdb.types import Snapshot
from snapdb.types.text import counted

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
    going = [snapshot for snapshot, kept in asked if kept is None]
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
    return Expired({s.id for s, kept in asked if kept is None})


def _going_still(engine: Engine, going: Sequence[Snapshot]) -> list[Snapshot]:
    """Those that retention lets go as things are at this moment."""
    catalog = load(engine.home, engine.ledger, engine.context.catalog)
    graphs = {snapshot.graph.name.lower() for snapshot in going}
    retentions = {graph: said for graph, said in catalog.retentions.items() if graph in graphs}
    still = {snapshot.id for snapshot, kept in retained(catalog, engine.ledger, retentions) if kept is None}
    return [snapshot for snapshot in going if snapshot.id in still]


def _rows(asked: Told, done: Expired) -> Iterator[tuple[Any, ...]]:
    for s, kept in asked:
        moved = kept is None and s.id not in done.gone
        reason = _MOVED if moved else "its files stay until who reads them is done" if s.id in done.held else kept
        action = "expire" if s.id in done.gone else "keep"
        yield s.name, action, s.graph.name, s.version, moment(s.created), s.bytes, reason


def _summary(asked: Told, done: Expired, dry_run: bool) -> str:
    freed = sum(s.bytes for s, _ in asked if s.id in done.gone and s.id not in done.held)
    would = "would expire" if dry_run else "expired"
    return f"{counted(len(done.gone), 'snapshot')} {would}, {freed:,} bytes of their own"

"""EXPIRE SNAPSHOTS: old snapshots go, all in one transaction; their files follow, or wait for who reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from snapdb.catalog.listing import MOMENT, listing
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.logical import ExpirePlan
from snapdb.storage.locks import remove_unless_held
from snapdb.types import Snapshot

__all__ = ["Expire"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS = [("snapshot", pa.string()), ("action", pa.string()), ("graph", pa.string()), ("version", pa.int64()),
           ("created", MOMENT), ("bytes", pa.int64()), ("reason", pa.string())]  # fmt: skip

_GO = "DELETE FROM snapshots WHERE id = ? AND path = ? AND folded NOT IN (SELECT snapshot FROM samplers)"
_MOVED = "it was refreshed, replaced, dropped or given a sampler meanwhile"


@dataclass(frozen=True, slots=True)
class Expire:
    """Lists every snapshot that was asked about, and why it stays or went."""

    plan: ExpirePlan

    def run(self, engine: Engine) -> Rows:
        going = [snapshot for snapshot, kept in self.plan.snapshots if kept is None]
        gone = {s.id for s in going} if self.plan.dry_run else _forget(engine, going)
        held = set() if self.plan.dry_run else _remove(engine, [s for s in going if s.id in gone])
        yield listing(_FIELDS, list(_rows(self.plan, gone, held)))
        return Outcome(_said(self.plan, gone, held))


def _forget(engine: Engine, snapshots: list[Snapshot]) -> set[int]:
    """Take the snapshots out of the catalog, all at once; which of them were still there as they were found."""
    if not snapshots:
        return set()
    with engine.ledger.writing(publishes=True) as connection:
        return {s.id for s in snapshots if connection.execute(_GO, (s.id, s.path)).rowcount}


def _remove(engine: Engine, snapshots: list[Snapshot]) -> set[int]:
    """Remove the files of snapshots that are in the catalog no more; those whose files somebody reads."""
    found = {s.id: engine.home.inside(s.path) for s in snapshots}
    return {number for number, path in found.items() if path.exists() and not remove_unless_held(engine.home, path)}


def _rows(plan: ExpirePlan, gone: set[int], held: set[int]) -> Iterator[tuple[Any, ...]]:
    for s, kept in plan.snapshots:
        moved = kept is None and s.id not in gone
        reason = _MOVED if moved else "its files stay until who reads them is done" if s.id in held else kept
        action = "expire" if s.id in gone else "keep"
        created = _EPOCH + timedelta(microseconds=s.created)
        yield s.name, action, s.graph.name, s.version, created, s.bytes, reason


def _said(plan: ExpirePlan, gone: set[int], held: set[int]) -> str:
    freed = sum(s.bytes for s, _ in plan.snapshots if s.id in gone and s.id not in held)
    would = "would expire" if plan.dry_run else "expired"
    number = f"{len(gone)} snapshot{'' if len(gone) == 1 else 's'}"
    more = "; VACUUM removes shared files that no snapshot uses any more" if gone else ""
    return f"{number} {would}, {freed:,} bytes of their own{more}"

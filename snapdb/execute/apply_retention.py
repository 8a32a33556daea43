"""What retention lets go, without being asked: after each run of a task."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.errors import CommitConflict, LockedError
from snapdb.execute.expire import Expired, Told, expire
from snapdb.execute.operator import Engine
from snapdb.execute.retained import retained
from snapdb.storage.commit import now
from snapdb.storage.litter import remove_idle
from snapdb.storage.orphans import HOUR
from snapdb.storage.released import collect
from snapdb.types import Snapshot
from snapdb.types.text import counted

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

"""REFRESH SNAPSHOT: the snapshot is pinned anew, from what is there already, and takes its own place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from snapdb.catalog import tables_at
from snapdb.catalog.elements import snapshot_rows
from snapdb.catalog.listing import listing
from snapdb.catalog.windows import window_text
from snapdb.execute.create_snapshot import create_snapshot, moved_to
from snapdb.execute.diff.rows import ElementRows, difference, tally
from snapdb.execute.graph_data import check_vertices, graph_data
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.execute.sketch import sketched
from snapdb.execute.topologies import check_new
from snapdb.plan.snapshots import RefreshPlan
from snapdb.relational import Session
from snapdb.types.text import counted

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


@dataclass(frozen=True, slots=True)
class Refresh:
    """Readers keep what they have opened; whoever opens the snapshot from now on gets the new one."""

    plan: RefreshPlan

    def run(self, engine: Engine) -> Rows:
        plan = self.plan
        if plan.dry_run:
            yield listing(_DRY, _would(engine, plan))
            return None
        was = f"version {plan.before.version}, {window_text(plan.before)}"
        snapshot, made = create_snapshot(engine, plan.create, full=plan.full)
        now = f"version {snapshot.version}, {window_text(snapshot)}"
        works = "; ".join(f"{name} {work}" for name, work in made.works.items() if work != "found")
        moved = f"{was} → {now}" if was != now else f"still {now}"
        counts = f"{counted(snapshot.nodes, 'node')}, {counted(snapshot.edges, 'edge')} ({snapshot.form})"
        known = engine.context.catalog.graphs.get(plan.create.graph.name.lower())
        older = known is not None and any(e not in known.elements for e in plan.create.graph.elements)
        hint = f"graph {snapshot.graph.name} was replaced since; CREATE OR REPLACE SNAPSHOT takes the new one"
        parts = [f"snapshot {snapshot.name}: {moved}", counts, works, hint if older else ""]
        return Outcome("; ".join(part for part in parts if part))


def _would(engine: Engine, plan: RefreshPlan) -> list[tuple[Any, ...]]:
    """What would be other, and what it would take."""
    create, root = plan.create, engine.home.path
    tables = tables_at(engine.home, engine.ledger, plan.before.version)
    before = snapshot_rows(plan.before, tables, root)
    after = snapshot_rows(moved_to(create), create.tables, root)
    with engine.relational.session() as session:
        data = graph_data(engine, session, create.graph, create.tables)
        for vertex in data.vertices.values():
            check_vertices(session, vertex)
        for edge in data.edges.values():
            check_new(engine, session, edge)
        return [
            (
                s.element,
                s.kind,
                *_counted(session, before[s.element], after[s.element]),
                s.form,
                s.bytes + s.topology_bytes,
                s.topology or None,
            )
            for s in sketched(engine, session, create, data, plan.full)
        ]


def _counted(session: Session, before: ElementRows, after: ElementRows) -> tuple[int, int, int]:
    """How many rows of an element would come, go and change."""
    found = difference(session, before, after)
    came, went, changed = tally(session, found)
    return came - changed, went - changed, changed

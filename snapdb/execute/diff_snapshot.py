"""DIFF SNAPSHOT: what one snapshot has and another has not, and how far degrees and features moved between them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from snapdb.execute.diff_report import report
from snapdb.execute.diff_side import snapshot_side
from snapdb.execute.operator import Engine, Rows
from snapdb.plan.versions import DiffSnapshotPlan


@dataclass(frozen=True, slots=True)
class DiffSnapshot:
    """Edges are told apart by edge id, vertices by key."""

    plan: DiffSnapshotPlan

    def run(self, engine: Engine) -> Rows:
        with ExitStack() as stack:
            before, after = (snapshot_side(engine, s, stack) for s in (self.plan.before, self.plan.after))
            with engine.relational.session() as session:
                yield from report(engine, session, before, after, self.plan.detail)
        return None

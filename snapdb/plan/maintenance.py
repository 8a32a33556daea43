"""Maintenance: CHECK, BACKUP, VACUUM, EXPIRE SNAPSHOTS and retention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from snapdb.errors import Span
from snapdb.plan.plan import Plan, PlanNode
from snapdb.types import PropertyGraph, Retention, Snapshot, Table


@dataclass(frozen=True, slots=True)
class CheckPlan(Plan):
    """Every file and every row of the catalog is compared with what was recorded."""

    reads: ClassVar[bool] = True

    def describe(self) -> PlanNode:
        return PlanNode("Check", "every file and every row of the catalog")


@dataclass(frozen=True, slots=True)
class BackupPlan(Plan):
    """The database is copied to another directory, and the copy checked."""

    reads: ClassVar[bool] = True

    path: str
    span: Span
    copies: bool
    """Copies only, and no hard links."""

    def describe(self) -> PlanNode:
        return PlanNode("Backup", f"to {self.path}")


@dataclass(frozen=True, slots=True)
class VacuumPlan(Plan):
    """Small files are merged, and those that nothing points at removed."""

    table: Table | None
    """None: every table."""
    grace: int
    """Microseconds for which a file stays after the last pointer to it went."""
    dry_run: bool

    def is_read(self) -> bool:
        return self.dry_run

    def describe(self) -> PlanNode:
        return PlanNode("Vacuum", "every table" if self.table is None else self.table.name)


@dataclass(frozen=True, slots=True)
class ExpirePlan(Plan):
    """Snapshots that go because they are old."""

    snapshots: tuple[tuple[Snapshot, str | None], ...]
    """Each that was asked about, oldest first, and why it stays; None: it goes."""
    dry_run: bool

    def is_read(self) -> bool:
        return self.dry_run

    def describe(self) -> PlanNode:
        expired = (snapshot.name for snapshot, stays in self.snapshots if stays is None)
        return PlanNode("Expire", ", ".join(expired) or "nothing")


@dataclass(frozen=True, slots=True)
class RetainPlan(Plan):
    """Snapshots go that their graph's retention does not keep."""

    retentions: Mapping[str, Retention]
    """Of the graphs that were asked about, by case-folded name."""
    dry_run: bool

    def is_read(self) -> bool:
        return self.dry_run

    def describe(self) -> PlanNode:
        rules = (PlanNode("Retention", f"of {graph}: {retention}") for graph, retention in self.retentions.items())
        return PlanNode("Expire", "what retention does not keep", tuple(rules))


@dataclass(frozen=True, slots=True)
class SetRetentionPlan(Plan):
    """A graph says how long which of its snapshots stay; nothing goes yet."""

    graph: PropertyGraph
    retention: Retention | None
    """None: all stay until they are dropped."""
    dry_run: bool
    """Only tell what it would let go."""

    def is_read(self) -> bool:
        return self.dry_run

    def describe(self) -> PlanNode:
        return PlanNode("SetRetention", f"of {self.graph.name}: {self.retention or 'none'}")

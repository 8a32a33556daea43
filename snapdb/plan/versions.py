"""Versions: tags, transactions, and DIFF of tables, graphs and snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from snapdb.plan.plan import Plan, PlanNode
from snapdb.types import PropertyGraph, Snapshot, Table, Tag


@dataclass(frozen=True, slots=True)
class CreateTagPlan(Plan):
    """A version gets a name."""

    tag: Tag
    replaces: bool

    def describe(self) -> PlanNode:
        return PlanNode("CreateTag", f"{self.tag.name} for version {self.tag.version}")


@dataclass(frozen=True, slots=True)
class BeginPlan(Plan):
    """What follows is one version, or none."""

    transactional: ClassVar[bool] = True

    def describe(self) -> PlanNode:
        return PlanNode("Begin")


@dataclass(frozen=True, slots=True)
class CommitPlan(Plan):
    """The open transaction becomes a version."""

    transactional: ClassVar[bool] = True

    message: str | None

    def describe(self) -> PlanNode:
        return PlanNode("Commit", "" if self.message is None else f"with message {self.message!r}")


@dataclass(frozen=True, slots=True)
class RollbackPlan(Plan):
    """The open transaction never was."""

    transactional: ClassVar[bool] = True

    def describe(self) -> PlanNode:
        return PlanNode("Rollback")


@dataclass(frozen=True, slots=True)
class DiffTablePlan(Plan):
    """What differs between a table at two versions; None where it was not there."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    name: str
    before: Table | None
    after: Table | None
    rows: bool

    def describe(self) -> PlanNode:
        return PlanNode("DiffTable", f"{self.name}, {'rows' if self.rows else 'counts'}")


@dataclass(frozen=True, slots=True)
class DiffGraphPlan(Plan):
    """What a whole graph has at one version and has not at another."""

    reads: ClassVar[bool] = True

    graph: PropertyGraph
    before: int
    after: int
    tables_before: Mapping[str, Table]
    """By case-folded name."""
    tables_after: Mapping[str, Table]
    detail: Literal["SUMMARY", "ROWS", "FEATURES"]

    def describe(self) -> PlanNode:
        detail = f"{self.graph.name} from version {self.before} to {self.after}, {self.detail.lower()}"
        return PlanNode("DiffGraph", detail)


@dataclass(frozen=True, slots=True)
class DiffSnapshotPlan(Plan):
    """What one snapshot has and another has not: added is in `after` and not in `before`."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    after: Snapshot
    before: Snapshot
    detail: Literal["SUMMARY", "ROWS", "FEATURES"]

    def describe(self) -> PlanNode:
        return PlanNode("DiffSnapshot", f"{self.after.name} with {self.before.name}, {self.detail.lower()}")

"""What there is: SHOW, DESCRIBE, SUMMARIZE and DROP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from snapdb.plan.plan import Plan, PlanNode
from snapdb.sql.ast_versions import Shown
from snapdb.types import Cache, PropertyGraph, Sampler, Snapshot, Table, Tag, Task


@dataclass(frozen=True, slots=True)
class ShowPlan(Plan):
    """A list of what there is."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    what: Shown
    like: str | None
    tables: tuple[Table, ...]
    """Those to list, of the version that was asked for."""
    of: str | None
    """The table whose versions or columns, or the graph whose snapshots are listed; None: all."""

    def describe(self) -> PlanNode:
        of = "" if self.of is None else f" of {self.of}"
        like = "" if self.like is None else f" like {self.like!r}"
        return PlanNode("Show", f"{self.what.lower()}{of}{like}")


@dataclass(frozen=True, slots=True)
class DescribePlan(Plan):
    """What one thing is made of."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    target: Table | PropertyGraph | Snapshot | Sampler | Cache | Task

    def describe(self) -> PlanNode:
        return PlanNode("Describe", self.target.name)


@dataclass(frozen=True, slots=True)
class SummarizePlan(Plan):
    """What a snapshot holds, in numbers."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    snapshot: Snapshot

    def describe(self) -> PlanNode:
        return PlanNode("Summarize", self.snapshot.name)


@dataclass(frozen=True, slots=True)
class DropPlan(Plan):
    """A table, graph, snapshot, sampler, cache, task or tag goes."""

    transactional: ClassVar[bool] = True

    target: Table | PropertyGraph | Snapshot | Sampler | Cache | Task | Tag
    base: int
    dependants: tuple[PropertyGraph | Snapshot | Sampler | Cache, ...] = ()
    """What goes with it (CASCADE), what depends on others first."""

    def fits_transaction(self) -> bool:
        return isinstance(self.target, Table) and not self.dependants

    def describe(self) -> PlanNode:
        return PlanNode("Drop", self.target.name, tuple(PlanNode("Drop", each.name) for each in self.dependants))

"""Scheduled tasks: CREATE, ALTER and EXECUTE TASK."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.plan.plan import Plan, PlanNode
from snapdb.types import Task


@dataclass(frozen=True, slots=True)
class CreateTaskPlan(Plan):
    """Statements get a schedule; names in them are bound when they run."""

    task: Task
    """Without an id."""
    replaces: Task | None
    """Its id goes over to the new one, and its runs with it."""

    def describe(self) -> PlanNode:
        return PlanNode("CreateTask", f"{self.task.name}: {self.task.schedule.text}")


@dataclass(frozen=True, slots=True)
class AlterTaskPlan(Plan):
    """A task is suspended, goes on, or has other options."""

    before: Task
    after: Task
    since: int | None
    """Firings up to this moment, in microseconds since 1970 UTC, are settled: none is made up for. None: nothing of
    them changes."""
    did: str
    """What is done, for a person."""

    def describe(self) -> PlanNode:
        return PlanNode("AlterTask", f"{self.before.name}: {self.did}")


@dataclass(frozen=True, slots=True)
class ExecuteTaskPlan(Plan):
    """A task runs now, in this process."""

    task: Task

    def describe(self) -> PlanNode:
        return PlanNode("ExecuteTask", self.task.name)

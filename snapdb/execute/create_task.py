"""CREATE TASK and ALTER TASK: the row that says what runs when."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.execute.leading import nobody
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.moments import spelled
from snapdb.plan.tasks import AlterTaskPlan, CreateTaskPlan
from snapdb.schedule import next_firing
from snapdb.storage.leader import leader_of
from snapdb.storage.task_rows import alter_task, put_task
from snapdb.types import Task


@dataclass(frozen=True, slots=True)
class CreateTask:
    """Writes the task's row, in the place of the one that the plan replaces."""

    plan: CreateTaskPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        with engine.ledger.writing(publishes=True) as connection:
            task = put_task(connection, self.plan.task, self.plan.replaces)
        return Outcome(f"task {task.name}: {task.schedule.text}; {_next(engine, task, task.created)}")


@dataclass(frozen=True, slots=True)
class AlterTask:
    """Writes what the task is to be."""

    plan: AlterTaskPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        before, task, since = self.plan.before, self.plan.after, self.plan.since
        with engine.ledger.writing(publishes=True) as connection:
            alter_task(connection, before, task, since)
        then = "" if since is None else f"; {_next(engine, task, since)}"
        return Outcome(f"task {task.name}: {self.plan.did}{then}")


def _next(engine: Engine, task: Task, after: int) -> str:
    """When it runs, and what that takes."""
    fires = next_firing(task.schedule, after)
    if fires is None:
        return "it never fires again"
    first = f"next at {spelled(fires)}"
    return first if leader_of(engine.ledger) is not None else f"{first}, but {nobody(engine.home)}"

"""EXECUTE TASK: the task as it is now."""

from __future__ import annotations

from snapdb.plan.names import find_task
from snapdb.plan.scope import Context
from snapdb.plan.tasks import ExecuteTaskPlan
from snapdb.sql.ast import ExecuteTask


def bind_execute_task(statement: ExecuteTask, context: Context) -> ExecuteTaskPlan:
    """The task of that name; names in its body are looked up when it runs."""
    return ExecuteTaskPlan(find_task(context, statement.name))

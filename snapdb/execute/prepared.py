"""The operators of PREPARE, EXECUTE and DEALLOCATE."""

from snapdb.errors import SnapdbError
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext, run
from snapdb.plan.prepared import DeallocatePlan, ExecutePlan, PreparePlan
from snapdb.types.text import counted


def prepare(plan: PreparePlan, context: ExecutionContext) -> Rows:
    """Store a statement in the session."""
    yield from ()
    context.objects.prepared[plan.name.lower()] = plan.statement
    return Outcome(f"{plan.name} prepared")


def execute(plan: ExecutePlan, context: ExecutionContext) -> Rows:
    """Run a prepared statement. The positions in its errors refer to the text of PREPARE."""
    try:
        return (yield from run(plan.plan, context))
    except SnapdbError as error:
        raise error.located(plan.statement.source, plan.statement.span) from error.__cause__


def deallocate(plan: DeallocatePlan, context: ExecutionContext) -> Rows:
    """Remove prepared statements from the session."""
    yield from ()
    for name in plan.names:
        context.objects.prepared.pop(name, None)
    return Outcome(f"{counted(len(plan.names), 'prepared statement')} removed")

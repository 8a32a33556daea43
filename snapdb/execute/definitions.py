"""The operator of CREATE VIEW, MACRO, TYPE, SEQUENCE and SCHEMA."""

from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext
from snapdb.plan.definitions import CreatePlan
from snapdb.storage.tables.definitions import Define


def create(plan: CreatePlan, context: ExecutionContext) -> Rows:
    """Store a definition as a version, or in the session if it is temporary."""
    yield from ()
    new = plan.definition
    did = f"{new.kind} {new.name} {'created' if plan.replaces is None else 'replaced'}"
    if new.temporary:
        context.objects.definitions[new.key] = new
        return Outcome(did)
    return context.publish([Define(new, plan.replaces)], plan.message, did, 0)

"""The operator of statements that create or change temporary tables."""

from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext
from snapdb.plan.tables.temporary import TemporaryPlan
from snapdb.sql_engine import temporary_name
from snapdb.types import Definition
from snapdb.types.text import counted


def change_temporary(plan: TemporaryPlan, context: ExecutionContext) -> Rows:
    """Run the statement in DuckDB, and record the columns that the table then has in the session."""
    context.store.sql_engine.attach_temporary()
    with context.bind_context.session(plan.query) as session:
        changed = session.change(plan.query.text, plan.query.parameters)
        columns = tuple(session.describe(f"SELECT * FROM {temporary_name(plan.name)}"))
    definition = Definition("table", plan.name, "", columns=columns, temporary=True)
    context.objects.definitions[definition.key] = definition
    if plan.returns:
        yield from changed.to_batches() or [changed.schema.empty_table().to_batches()[0]]
    rows = changed.num_rows if plan.returns else sum(changed.column(0).to_pylist()) if changed.num_columns else 0
    return Outcome(f"{counted(rows, 'row')} of temporary table {plan.name}", rows)

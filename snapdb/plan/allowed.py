"""Whether a plan may run: in a database that is opened for reading only, and in an open transaction."""

from __future__ import annotations

from snapdb.errors import BindError, DatabaseError
from snapdb.plan.logical import TRANSACTIONAL, DropPlan, ExplainPlan, Plan, changes_nothing
from snapdb.sql.ast import Statement
from snapdb.types import Table


def check_allowed(plan: Plan, statement: Statement, *, read_only: bool, in_transaction: bool) -> None:
    """Nothing when the plan may run.

    Raises:
        BindError: it cannot be part of a transaction, and one is open.
        DatabaseError: it writes, and the database is opened for reading only.
    """
    if read_only and not changes_nothing(plan):
        raise DatabaseError(
            "the database is opened for reading only; open it without read_only (--read-only)",
            span=statement.span,
            text=statement.source,
            code="read-only",
        )
    if not in_transaction:
        return
    while isinstance(plan, ExplainPlan):
        plan = plan.plan
    of_tables = not isinstance(plan, DropPlan) or (isinstance(plan.target, Table) and not plan.dependants)
    if not isinstance(plan, TRANSACTIONAL) or not of_tables:
        raise BindError(
            "a transaction holds statements about tables, and queries; COMMIT it first, then run this",
            code="not-in-transaction",
            span=statement.span,
            text=statement.source,
        )

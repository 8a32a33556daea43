"""From a statement to a plan: every name is looked up, every type checked, before anything is done."""

from __future__ import annotations

from snapdb.errors import SnapdbError
from snapdb.plan import (
    caches,
    explain,
    exports,
    graphs,
    maintenance,
    samples,
    show,
    snapshots,
    tables,
    tasks,
    versions,
)
from snapdb.plan.explain import bind_explain
from snapdb.plan.plan import Plan, PlanFamily
from snapdb.plan.scope import BindContext
from snapdb.sql.explain import Explain
from snapdb.sql.syntax import Statement

FAMILIES: tuple[PlanFamily, ...] = (
    tables.FAMILY,
    versions.FAMILY,
    graphs.FAMILY,
    snapshots.FAMILY,
    samples.FAMILY,
    caches.FAMILY,
    tasks.FAMILY,
    exports.FAMILY,
    show.FAMILY,
    explain.FAMILY,
    maintenance.FAMILY,
)
_BINDERS = {tree: binder for family in FAMILIES for tree, binder in family.binders.items()}


def bind(statement: Statement, context: BindContext) -> Plan:
    """The plan of a statement.

    Raises:
        BindError: a name, type or clause does not fit; it carries its place in the text.
    """
    try:
        return _bind(statement, context)
    except SnapdbError as error:
        raise error.located(statement.source, statement.span) from error.__cause__


def _bind(statement: Statement, context: BindContext) -> Plan:
    if isinstance(statement, Explain):
        return bind_explain(statement, context, _bind)
    return _BINDERS[type(statement)](statement, context)

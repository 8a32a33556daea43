"""Turns a statement into an optimized plan: calls its family's binder, and applies the optimizer rules.

Families and rules are imported on first use, so a plain query never imports the plans of snapshots or samplers.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module

from snapdb.errors import SnapdbError
from snapdb.plan.plan import NothingPlan, Plan, PlanFamily, QueryPlan, Rule
from snapdb.plan.scope import BindContext
from snapdb.plan.view_rows import OverViewsPlan
from snapdb.sql.queries import Query
from snapdb.sql.syntax import Statement

FAMILIES = (
    "tables",
    "definitions",
    "versions",
    "graphs",
    "snapshots",
    "samples",
    "caches",
    "tasks",
    "exports",
    "show",
    "explain",
    "maintenance",
    "publications",
    "prepared",
)
_SHARED_OPERATORS: dict[type[Plan], str] = {
    OverViewsPlan: "snapdb.execute.view_rows:over_views",
    QueryPlan: "snapdb.execute.session:query",
    NothingPlan: "snapdb.execute.session:nothing",
}
"""The operators of plans that do not belong to a single family."""


def bind(statement: Statement, context: BindContext) -> Plan:
    """Return the plan of a statement.

    Raises:
        BindError: A name does not exist, or a type or clause is not valid. The error has the position in the text.
    """
    try:
        return bind_unlocated(statement, context)
    except SnapdbError as error:
        raise error.located(statement.source, statement.span) from error.__cause__


def bind_unlocated(statement: Statement, context: BindContext) -> Plan:
    """Return the plan of a statement. Errors have no text yet, so that the binder of an outer statement can add it."""
    if isinstance(statement, Query):
        return QueryPlan(context.bind_query(statement.query))
    return _load_family(_family_name(type(statement))).binders[type(statement)](statement, context)


def operator_of(kind: type[Plan]) -> str:
    """Return the operator for a type of plan, as 'module:function'."""
    return _SHARED_OPERATORS.get(kind) or _load_family(_family_name(kind)).operators[kind]


def plan_kinds() -> dict[type[Plan], str]:
    """Return the plan types of all families with their operators. Imports all families."""
    families = map(_load_family, FAMILIES)
    return {**_SHARED_OPERATORS, **{kind: name for family in families for kind, name in family.operators.items()}}


@cache
def _load_family(name: str) -> PlanFamily:
    family: PlanFamily = import_module(f"snapdb.plan.{name}").FAMILY
    return family


def _family_name(kind: type) -> str:
    """Return the family of a statement or plan class: the name of the module or package that defines it."""
    return kind.__module__.split(".")[2]


def optimize(plan: Plan, rules: Sequence[Rule] | None = None) -> Plan:
    """Return the plan after applying every rule. EXPLAIN also records the bound plan and the rules that changed it.

    Args:
        plan: The bound plan.
        rules: The rules, or None for all of `snapdb.plan.RULES`.
    """
    if rules is None:
        rules = import_module("snapdb.plan.rules").RULES if plan.is_ruled() else ()
    return plan.optimized(rules)

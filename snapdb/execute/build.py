"""From a plan to the operator that runs it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from snapdb.plan import FAMILIES, Plan

if TYPE_CHECKING:
    from snapdb.execute.operator import Engine, Rows

OPERATORS = {plan: operator for family in FAMILIES for plan, operator in family.operators.items()}
"""Plan → the operator that runs it, as 'module:name': a function of the plan and the engine.

Its module is imported when the first such plan runs, so that a SELECT loads no numba.
"""


def run(plan: Plan, engine: Engine) -> Rows:
    """Run a plan in an engine. Nothing happens before the first item is requested."""
    rows: Rows = operator_of(type(plan))(plan, engine)
    return rows


def operator_of(plan: type) -> Any:
    """The operator that runs plans of a type."""
    module, _, name = OPERATORS[plan].partition(":")
    return getattr(import_module(module), name)

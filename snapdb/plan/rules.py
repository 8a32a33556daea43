"""The rules that turn what was asked into how it is done, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from snapdb.plan.distinct_filters import distinct_filters
from snapdb.plan.logical import Plan

__all__ = ["RULES", "Rule", "optimize"]

Rule = Callable[[Plan], Plan]
"""Takes a plan and gives an equivalent one: no rule changes a result."""

RULES: tuple[Rule, ...] = (distinct_filters,)


def optimize(plan: Plan, rules: Sequence[Rule] = RULES) -> Plan:
    """The plan after every rule."""
    for rule in rules:
        plan = rule(plan)
    return plan

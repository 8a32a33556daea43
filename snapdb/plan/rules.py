"""The rules that turn what was asked into how it is done, in the order in which they run.

The binder's plan does everything the plain way. Each rule changes how something is done, and never a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from snapdb.plan.choose_form import choose_form
from snapdb.plan.choose_method import choose_method
from snapdb.plan.choose_threads import choose_threads
from snapdb.plan.distinct_filters import distinct_filters
from snapdb.plan.explain import ExplainPlan
from snapdb.plan.fuse_gather import fuse_gather
from snapdb.plan.plan import Plan
from snapdb.plan.prune_columns import prune_columns
from snapdb.plan.prune_types import prune_types
from snapdb.plan.push_filters import push_filters

Rule = Callable[[Plan], Plan]
"""Takes a plan and gives an equivalent one: no rule changes a result."""

RULES: tuple[Rule, ...] = (
    distinct_filters,
    push_filters,
    prune_types,
    prune_columns,
    choose_form,
    choose_method,
    choose_threads,
    fuse_gather,
)


def optimize(plan: Plan, rules: Sequence[Rule] = RULES) -> Plan:
    """The plan after every rule; one that is explained remembers what it was, and which rules changed it."""
    if isinstance(plan, ExplainPlan):
        return _explained(plan, rules)
    for rule in rules:
        plan = rule(plan)
    return plan


def _explained(plan: ExplainPlan, rules: Sequence[Rule]) -> ExplainPlan:
    found, names = plan.plan, []
    if isinstance(found, ExplainPlan):
        return replace(plan, bound=found, plan=_explained(found, rules))
    for rule in rules:
        changed = rule(found)
        if changed != found:
            names.append(rule.__name__)
        found = changed
    return replace(plan, bound=plan.plan, plan=found, rules=tuple(names))

"""From a statement to a plan: names bound, types checked, the way of doing it chosen."""

from snapdb.plan.plan import Plan
from snapdb.plan.planner import FAMILIES, RULES, bind, optimize
from snapdb.plan.scope import BindContext

__all__ = ["FAMILIES", "RULES", "BindContext", "Plan", "bind", "optimize"]

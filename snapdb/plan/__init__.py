"""From a statement to a plan: names bound, types checked, the way of doing it chosen."""

from snapdb.plan.bind import FAMILIES, bind
from snapdb.plan.plan import Plan
from snapdb.plan.rules import RULES, optimize
from snapdb.plan.scope import BindContext

__all__ = ["FAMILIES", "RULES", "BindContext", "Plan", "bind", "optimize"]
